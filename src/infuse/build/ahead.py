"""Objects that a model will need, compiled while Python still reads and optimizes it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

from infuse.budgets import check_time, seconds_left
from infuse.build.processes import Background, Command

_RUNNING: Final[dict[str, _Compilation]] = {}
"""By key of an object."""


class _Compilation:
    """One compiler after another that makes the objects of sources in a folder."""

    def __init__(self, command: Command, folder: Path, sources: Mapping[str, str]) -> None:
        self._folder = folder
        self._ended = {key: Event() for key in sources}
        self._objects: dict[str, Path] = {}
        self._lock, self._is_stopped = Lock(), False
        self._running: Background | None = None
        self._thread = Thread(target=self._run, args=(command, dict(sources)), daemon=True)
        self._thread.start()

    def _run(self, command: Command, sources: Mapping[str, str]) -> None:
        for key, source in sources.items():
            made = (self._folder / source).with_suffix(".o")
            if self._succeeds((*command, "-c", source, "-o", str(made))) and made.is_file():
                self._objects[key] = made
            self._ended[key].set()

    def _succeeds(self, command: Command) -> bool:
        with self._lock:
            if self._is_stopped:
                return False
            try:
                self._running = Background(command, self._folder)
            except OSError:  # who needs the object compiles it, and says what is wrong
                return False
        return self._running.succeeds()

    def object(self, key: str) -> bytes | None:
        """The object of a key, when its compiler has ended; None where that failed."""
        if not self._ended[key].wait(seconds_left()):
            check_time("compiling the generated code")
        made = self._objects.get(key)
        try:
            return None if made is None else made.read_bytes()
        except FileNotFoundError:  # another thread asked for it, and its block has ended
            return None

    def end(self) -> None:
        """End the compiler, whatever it has done."""
        with self._lock:
            self._is_stopped = True
            if self._running is not None:
                self._running.kill()
        self._thread.join()


@contextmanager
def compiling(command: Command, sources: Mapping[str, tuple[str, str]]) -> Iterator[None]:
    """Have a compiler, called by `command`, make objects of `sources` (by key: file name and text)
    until the block ends. Keys that somebody compiles already are left out.
    """
    new = {key: source for key, source in sources.items() if key not in _RUNNING}
    if not new:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="infuse-") as name:
        for file, text in new.values():
            (Path(name) / file).write_text(text, "utf-8")
        files = {key: file for key, (file, _) in new.items()}
        compilation = _Compilation(command, Path(name), files)
        _RUNNING.update(dict.fromkeys(new, compilation))
        try:
            yield
        finally:
            for key in new:  # two threads that begin at once have the same ones
                _RUNNING.pop(key, None)
            compilation.end()


def is_expected(key: str) -> bool:
    """Whether the object of a key is being compiled."""
    return key in _RUNNING


def expected(key: str) -> bytes | None:
    """The object of a key that is being compiled, when that has ended; None where nobody compiles
    it, or that failed.
    """
    compilation = _RUNNING.get(key)
    return None if compilation is None else compilation.object(key)
