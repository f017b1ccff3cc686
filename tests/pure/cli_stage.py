"""Fixtures for tests of the command line: the program and a small network."""

from pathlib import Path

import pytest

from tests.cli_tools import Cli, small_network


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return small_network(tmp_path / "small.onnx")
