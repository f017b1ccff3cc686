"""What is said of packages that do not fit together, before the server imports them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from infuse.cli import packages
from infuse.cli.packages import disagreements
from tests.cli_tools import Cli

VERSIONS = {
    "grpcio": "1.85.1",
    "grpcio-reflection": "1.85.1",
    "grpcio-health-checking": "1.81.1",
    "protobuf": "6.33.6",
}


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ("protobuf<8.0.0,>=7.35.1", "grpcio-reflection 1.85.1 needs protobuf<8.0.0,>=7.35.1, and"),
        ("protobuf (<6,>=5)", "needs protobuf<6,>=5, and 6.33.6 is installed"),
        ("protobuf<7.0.0,>=6.33.5", ""),
        ("Protobuf==6.33.6", ""),
        ("protobuf==6.33", "needs protobuf==6.33, and"),
        ("protobuf!=6.33.6", "needs protobuf!=6.33.6"),
        ("protobuf~=6.30", ""),
        ("protobuf~=6.30.1", "needs protobuf~=6.30.1"),
        ("protobuf>6.33.6", "needs protobuf>6.33.6"),
        ("protobuf<=6.33.6.0", ""),
        ("protobuf>=7; extra == 'all'", ""),
        ("protobuf>=7; python_version >= '3.8'", "needs protobuf>=7, and"),
        ("grpcio>=1.86", "needs grpcio>=1.86, and 1.85.1"),
        ("numpy>=99", ""),
        ("grpcio", ""),
    ],
)
def test_disagreements_name_both_packages(needs: str, told: str) -> None:
    lines = list(disagreements(VERSIONS, {"grpcio-reflection": [needs]}))
    assert len(lines) == bool(told)
    assert told in "".join(lines)


@pytest.mark.parametrize("command", ["serve", "load"])
def test_code_of_another_protobuf_is_one_line(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "other_pb2.py").write_text(
        "raise RuntimeError('Detected incompatible Protobuf Gencode/Runtime versions\\nand more')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(packages, "GENERATED", {"other_pb2": "grpcio-reflection"})
    needs = {"grpcio-reflection": ["protobuf<8.0.0,>=7.35.1"]}
    words = (tmp_path,) if command == "serve" else ("http://127.0.0.1:9", "model")
    for answer, told in (
        ((VERSIONS, needs), "needs protobuf<8.0.0,>=7.35.1, and 6.33.6 is installed"),
        (({}, {}), "Detected incompatible Protobuf Gencode/Runtime versions"),
    ):
        monkeypatch.setattr(packages, "_installed", lambda names, answer=answer: answer)
        said = Cli(capsys).refused(command, *words)
        assert told in said
        assert "and more" not in said
        assert "pip install 'grpcio-health-checking<1.82'" in said
        assert len(said.strip().splitlines()) == 1
    assert "other_pb2" not in sys.modules


def test_what_is_installed_here_fits() -> None:
    packages.require_packages(("grpc",))
