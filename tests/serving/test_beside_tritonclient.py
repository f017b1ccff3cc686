"""The server and Triton's client in one fresh environment, in both orders of installation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
SERVER, CLIENT = f"{ROOT}[serve]", "tritonclient[all]"


@pytest.mark.parametrize("order", [(SERVER, CLIENT), (CLIENT, SERVER)], ids=["after", "before"])
def test_the_server_starts_beside_the_client(order: tuple[str, str], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    plain = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    plain["INFUSE_CACHE"] = str(tmp_path / "cache")
    for package in order:
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", package]
        done = subprocess.run(install, env=plain, capture_output=True, text=True, check=True)
        assert "incompatible" not in done.stderr
    checked = subprocess.run(
        [python, "-m", "pip", "check"], env=plain, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
    (tmp_path / "models").mkdir()
    ports = [f"--{name}-port=0" for name in ("http", "grpc", "admin")]
    command = [tmp_path / "venv" / "bin" / "infuse", "serve", tmp_path / "models", *ports]
    with subprocess.Popen(
        command, env=plain, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
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
            told = subprocess.run(
                [python, "-c", ask], env=plain, capture_output=True, text=True, check=False
            )
            assert told.stdout.strip() == "True", told.stderr
        finally:
            server.terminate()
