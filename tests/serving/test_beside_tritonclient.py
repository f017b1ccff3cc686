"""The server and Triton's client in one fresh environment, in both orders of installation."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.fresh import ROOT, Fresh

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
SERVER, CLIENT = f"{ROOT}[serve]", "tritonclient[all]"


@pytest.mark.parametrize("order", [(SERVER, CLIENT), (CLIENT, SERVER)], ids=["after", "before"])
def test_the_server_starts_beside_the_client(order: tuple[str, str], tmp_path: Path) -> None:
    fresh = Fresh(tmp_path)
    for package in order:
        fresh.install(package)
    fresh.python("-m", "pip", "check")
    (tmp_path / "models").mkdir()
    ports = [f"--{name}-port=0" for name in ("http", "grpc", "admin")]
    command = [fresh.bin / "infuse", "serve", tmp_path / "models", *ports]
    with subprocess.Popen(
        command, env=fresh.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None
            lines = []
            for line in server.stdout:
                lines.append(line)
                if "console" in line:
                    break
            said = "".join(lines)
            places = dict(re.findall(r"(HTTP|gRPC) +(\S+)", said))
            assert places.keys() == {"HTTP", "gRPC"}, said
            with urllib.request.urlopen(f"{places['HTTP']}/v2/health/live", timeout=60) as answer:
                assert answer.status == 200
            ask = (
                "import tritonclient.grpc as client\n"
                f"print(client.InferenceServerClient({places['gRPC']!r}).is_server_live())"
            )
            assert fresh.python("-c", ask).stdout.strip() == "True"
        finally:
            server.terminate()
