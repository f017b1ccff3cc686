"""What the flags of `infuse serve` make of a server's configuration."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli_tools import Cli
from tests.serving.load_stage import cli

__all__ = ["cli"]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The configurations that servers would be started with."""
    configurations: list[Any] = []
    monkeypatch.setattr("infuse.cli.serve._run", configurations.append)
    return configurations


def test_flags_win_over_the_file(cli: Cli, tmp_path: Path, served: list[Any]) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("repository: models\nhttp: {port: 9000}\ngrpc: {port: 9001}\n", "utf-8")
    ports = ("--http-port", 0, "--admin-port", 65535, "--host", "127.0.0.2")
    models = ("--control", "explicit", "--model", "a", "--model", "b", "--workers", "inprocess")
    more = ("--set", "limits.request_bytes=1000", "--set", "grpc.port=7")
    assert cli("serve", "--config", file, *ports, *models, *more, "--insecure").status == 0
    (config,) = served
    assert config.repository == "models"
    assert (config.http.port, config.grpc.port, config.admin.port) == (0, 7, 65535)
    assert (config.http.host, config.grpc.host) == ("127.0.0.2", "127.0.0.2")
    assert config.admin.host == "127.0.0.1"
    assert (config.control, config.models) == ("explicit", ("a", "b"))
    assert config.workers.mode == "inprocess"
    assert config.limits.request_bytes == 1000
    assert config.security.insecure


def test_what_is_not_set_stays(cli: Cli, served: list[Any]) -> None:
    assert cli("serve", "models").status == 0
    (config,) = served
    assert config == type(config)(repository="models")


@pytest.mark.parametrize(
    ("arguments", "complaint", "status"),
    [
        ([], "there is no repository to serve", 1),
        (["models", "--set", "limits"], "--set 'limits' has no value", 1),
        (["models", "--set", "repository.x=1"], "repository has no fields", 1),
        (["models", "--control", "often"], "the command line", 1),
        (["models", "--http-port", "65536"], "less than or equal to 65535", 2),
    ],
)
def test_flags_without_a_meaning_are_refused(
    cli: Cli, served: list[Any], arguments: list[str], complaint: str, status: int
) -> None:
    assert complaint in cli.refused("serve", *arguments, status=status)
    assert not served


def test_a_token_is_printed_once(cli: Cli, served: list[Any]) -> None:
    assert cli("serve", "--make-token").out.startswith("token ")
    assert not served
