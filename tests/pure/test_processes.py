"""Compilers end with whoever started them, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infuse.build.processes import Background, Failed, run_all

STARTER = """
import sys
from pathlib import Path
from infuse.build.processes import run_all
folder = Path(sys.argv[1])
run_all([(str(folder / "compiler"),)], folder, 1, lambda count: None)
"""


def script(folder: Path, text: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def until(holds: object) -> None:
    limit = time.monotonic() + 60
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_a_compiler_does_not_outlive_a_killed_process(tmp_path: Path) -> None:
    """Nor do the processes that it started."""
    script(tmp_path, 'sleep 1000 & echo $! > "$0.child"; echo $$ > "$0.own"; wait')
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)])
    files = [tmp_path / "compiler.child", tmp_path / "compiler.own"]
    until(lambda: all(file.is_file() and file.read_text().strip() for file in files))
    numbers = [int(file.read_text()) for file in files]
    assert all(map(lives, numbers))
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    until(lambda: not any(map(lives, numbers)))


@pytest.mark.parametrize(("text", "status"), [("exit 3", 3), ("kill -9 $$", -9), ("exit 1", 1)])
def test_statuses_are_those_of_the_command(text: str, status: int, tmp_path: Path) -> None:
    command = script(tmp_path, f"echo said; {text}")
    with pytest.raises(Failed) as caught:
        run_all([(command,)], tmp_path, 1, lambda count: None)
    assert caught.value.status == status
    assert caught.value.text.startswith("said\n")


def test_a_command_gets_its_arguments_and_no_input(tmp_path: Path) -> None:
    command = script(tmp_path, 'cat; printf "%s|" "$@" > out')
    run_all([(command, "a b", "$HOME", "", "'")], tmp_path, 1, lambda count: None)
    assert (tmp_path / "out").read_text() == "a b|$HOME||'|"
    assert Background((command, "x"), tmp_path).succeeds()


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_all([(str(tmp_path / "none"),)], tmp_path, 1, lambda count: None)
