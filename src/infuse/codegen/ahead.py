"""Objects that a model will need, compiled while Python still reads and optimizes it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from infuse.codegen.processes import Background, Command

_RUNNING: Final[dict[str, _Compilation]] = {}
"""By key of an object."""


class _Compilation:
    """One compiler that makes the objects of several sources in a folder, one after another."""

    def __init__(self, command: Command, folder: Path, sources: Mapping[str, str]) -> None:
        self._folder, self._objects = folder, dict(sources)
        self._process = Background((*command, "-c", *sources.values()), folder)

    def object(self, key: str) -> bytes | None:
        """The object of a key, when the compiler has ended; None where it failed."""
        if not self._process.succeeds():
            return None
        return (self._folder / self._objects[key]).with_suffix(".o").read_bytes()

    def end(self) -> None:
        """End the compiler, whatever it has done."""
        self._process.kill()


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
            for key in new:
                del _RUNNING[key]
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
