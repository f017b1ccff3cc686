"""The program before its commands: help, completion, start and interrupts."""

import os
import signal
import subprocess
import sys
from importlib import import_module

import pytest
import typer

from infuse.cli.commands import COMMANDS, function_of, summary_of
from infuse.cli.main import app
from tests.cli_tools import Cli

HEAVY = {"numpy", "onnx", "google.protobuf", "infuse.api", "infuse.ir", "infuse.runtime"}


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_help_imports_no_command() -> None:
    result = python(
        "import sys\nfrom infuse.cli.main import main\nassert main(['--help']) == 0\n"
        f"print([name for name in {sorted(HEAVY)} if name in sys.modules])"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_every_command_and_each_explains_itself(name: str, cli: Cli) -> None:
    function = function_of(name)
    assert function.__module__ == f"infuse.cli.{COMMANDS[name]}"
    assert summary_of(name) == " ".join((function.__doc__ or "").split("\n\n")[0].split())
    words = summary_of(name).split()
    assert name in cli("--help").out
    for option in ("-h", "--help"):
        answer = cli(name, option)
        assert answer.status == 0
        assert " ".join(words[:5]) in " ".join(answer.out.split())


def test_every_function_of_a_module_of_commands_is_listed() -> None:
    program = typer.main.get_command(app)
    assert program.list_commands(None) == list(COMMANDS)
    assert program.get_command(None, "sho") is None
    for module in set(COMMANDS.values()):
        assert import_module(f"infuse.cli.{module}").__doc__


def test_unknown_commands_are_refused(cli: Cli) -> None:
    answer = cli("shwo")
    assert answer.status == 2
    assert "shwo" in answer.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    code = "from infuse.cli.main import main; main([])"
    words = {"COMP_WORDS": "infuse com", "COMP_CWORD": "1"}
    typed = {"_TYPER_COMPLETE_ARGS": "infuse com", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    result = python(code, _INFUSE_COMPLETE=f"complete_{shell}", **words, **typed)
    for name in ("compile", "compress", "compare"):
        assert name in result.stdout
    assert "serve" not in result.stdout


@pytest.mark.parametrize(
    "moment",
    [
        "infuse.cli.main",  # while the program is imported
        "infuse.cli.check",  # while a command is imported
        "infuse.frontends.formats",  # while a command runs
    ],
)
def test_an_interrupt_shows_no_traceback(moment: str) -> None:
    code = f"""
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupt(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {moment!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["infuse", "check", "missing.onnx"]
from infuse.cli.entry import start
sys.exit(start())
"""
    result = python(code)
    assert result.returncode in (130, -signal.SIGINT)
    assert result.stdout == ""
    assert result.stderr == ""
