"""Child processes side by side, all of which end when one fails or the caller is interrupted."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from infuse.budgets import check_time, seconds_left

# Runs a command whose standard input is a pipe from this process: at its end, whatever ended this
# process, all of the command's session is ended.
_GUARDED = """
exec 3<&0 </dev/null
(read -r _ <&3; kill -9 0) >/dev/null 2>&1 &
guard=$!
exec 3<&-
"$@"
status=$?
kill -9 $guard
exit $status
"""
_SIGNALLED = 128  # more than this is the status of a command that a signal ended, in a shell

Command = tuple[str, ...]
"""A program and its arguments, run without a shell."""


class Failed(Exception):
    """A command ended with an error: its exit status (negative: the signal) and all that it
    wrote.
    """

    def __init__(self, command: Command, status: int, text: str) -> None:
        super().__init__(text)
        self.command = command
        self.status = status
        self.text = text


def environment() -> dict[str, str]:
    """The environment for compilers: ours, with messages in English.

    Zig keeps a cache in the user's home; where that cannot be written, it goes into Infuse's cache.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME", "")
    cache = os.environ.get("INFUSE_CACHE", "").strip()
    zig = (
        {"ZIG_GLOBAL_CACHE_DIR": str(Path(cache).absolute() / "zig")}
        if cache and not os.access(home, os.W_OK)
        else {}
    )
    return {**zig, **os.environ, "LC_ALL": "C"}


def run_all(
    commands: Sequence[Command], folder: Path, jobs: int, done: Callable[[int], None]
) -> None:
    """Run all commands in `folder`, at most `jobs` at once, calling `done` with the number that
    have ended.

    Their temporary files go there too. The first that fails raises Failed. When this function ends,
    however it ends, none of its processes is left.
    """
    waiting = deque(commands)
    running: dict[int, _Child] = {}
    finished = 0
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < max(1, jobs):
                    child = _Child(waiting.popleft(), folder)
                    running[child.output] = child
                    selector.register(child.output, selectors.EVENT_READ)
                check_time("compiling the generated code")
                for key, _ in selector.select(seconds_left()):
                    if running[key.fd].read():
                        continue
                    selector.unregister(key.fd)
                    child = running.pop(key.fd)
                    status, text = child.finish()
                    if status:
                        raise Failed(child.command, status, text)
                    finished += 1
                    done(finished)
        finally:
            for child in running.values():
                child.kill()


class Background:
    """One command in `folder` that runs while the caller goes on. What it writes to its output is
    lost.
    """

    def __init__(self, command: Command, folder: Path) -> None:
        self._process = _start(command, folder, subprocess.DEVNULL)

    def succeeds(self) -> bool:
        """Whether the command ends without an error, for which this waits."""
        status = self._process.wait()
        _let_go(self._process)
        return status == 0

    def kill(self) -> None:
        """End the command and all processes that it started, where it still runs."""
        if self._process.poll() is None:
            _kill_group(self._process)
        _let_go(self._process)


class _Child:
    """One running command, in a process group of its own, with its output collected."""

    def __init__(self, command: Command, folder: Path) -> None:
        self.command = command
        self._text: list[bytes] = []
        self._process = _start(command, folder, subprocess.PIPE)
        assert self._process.stdout is not None
        self.output = self._process.stdout.fileno()

    def read(self) -> bool:
        """Take what the command has written; False at its end."""
        chunk = os.read(self.output, 1 << 16)
        self._text.append(chunk)
        return bool(chunk)

    def finish(self) -> tuple[int, str]:
        """Exit status and output of a command that has closed its output."""
        status = self._process.wait()
        if status > _SIGNALLED:
            status = _SIGNALLED - status
        self._close()
        return status, b"".join(self._text).decode("utf-8", "replace")

    def kill(self) -> None:
        """End the command and all processes that it started."""
        _kill_group(self._process)
        self._close()

    def _close(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()
        _let_go(self._process)


def _start(command: Command, folder: Path, output: int) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, which ends with this process at the latest; `output`
    gets all that it writes.
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    return subprocess.Popen(
        ("/bin/sh", "-c", _GUARDED, "sh", *command),
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env={**environment(), "TMPDIR": str(folder)},
        start_new_session=True,
    )


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe that the session of an ended command lived by."""
    if process.stdin is not None:
        process.stdin.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
