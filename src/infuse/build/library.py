"""From C++ sources to a shared library: what is compiled together, what was compiled before, and
the link.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

from infuse.build.toolchain import CALLS, Toolchain
from infuse.runtime.cpus import cpu_limit
from infuse.targets import Target

Progress = Callable[[str, int, int], None]
"""Called with the name of a stage, the steps done and the steps in all."""
Join = Callable[[Sequence[str]], str]
"""The text of a source that is all of those with these names, which lie beside it."""

_MOST_TOGETHER: Final = 8
"""Sources that one compiler gets at once."""
JOINED: Final = "with_"
"""What the name of a source that is several begins with."""


class ObjectStore(Protocol):
    """Objects of sources that were compiled before, with the same options by the same compiler."""

    def find(self, source: Path) -> bytes | None:
        """The object of a source, None where there is none."""

    def is_expected(self, source: Path) -> bool:
        """Whether the object of a source is being compiled already, besides those here."""

    def expected(self, source: Path) -> bytes | None:
        """The object of a source that is being compiled, for which this waits; None where that
        fails.
        """

    def add(self, source: Path, content: bytes) -> None:
        """Keep an object, where the store has a place for those of this source."""


def make_library(
    toolchain: Toolchain,
    sources: Sequence[Path],
    output: Path,
    *,
    target: Target,
    include: Sequence[Path] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
    soname: str = "",
    store: ObjectStore | None = None,
    calling: Path | None = None,
    together: Sequence[Path] = (),
    join: Join | None = None,
    archive: Path | None = None,
) -> None:
    """Compile `sources`, at most `jobs` at once (default: all processors), and link them to the
    library `output`, which calls itself `soname`, where the target's system has shared ones; with
    `archive`, also to that static library. What `store` has the object of is not compiled; it is
    given those that are.

    `calling`: one of several sources that only calls the others, and has no loops worth the time of
    optimizing them. `together`: sources of one folder that define weak symbols only, and types and
    macros equally, those with the same headers side by side; where there are more of them than
    jobs, several neighbours become one object, made of what `join` gives, which saves reading the
    headers for each, and the store is given that for all of them.

    Objects and temporary files lie beside `output`. CompileError when the compiler rejects a
    source; when interrupted, all compilers are ended before the interrupt goes on.
    """
    sources, output = [source.absolute() for source in sources], output.absolute()
    report = progress or _silent
    command = toolchain.compiling(target, include)
    before, behind = toolchain.linking(target, output, soname)
    if len(sources) == 1 and archive is None:
        report("compile", 0, 1)
        toolchain.run([(*command, str(sources[0]), *behind)], output.parent)
        toolchain.check_made(output)
        report("compile", 1, 1)
        return
    jobs = jobs or cpu_limit()
    objects = _Objects(output, store)
    new = [source for source in sources if not objects.fetch(source)]
    awaited = [source for source in new if store is not None and store.is_expected(source)]
    grouped = [source.absolute() for source in together] if join else []
    plain = () if toolchain.sanitizer else CALLS

    def make(sources: Sequence[Path], done: Callable[[int], None]) -> None:
        waiting = set(sources)
        batches = [
            *_batches([s for s in grouped if s in waiting], jobs),
            *([s] for s in sources if s not in grouped),
        ]
        made = [objects.place() for _ in batches]
        steps = [
            (
                *command,
                *(plain if batch == [calling] else ()),
                "-c",
                _joined(batch, join),
                "-o",
                str(one),
            )
            for batch, one in zip(batches, made)
        ]
        toolchain.run(steps, output.parent, jobs, done)
        for batch, one in zip(batches, made):
            toolchain.check_made(one)
            objects.keep(batch, one)

    total = len(new) + 1
    report("compile", 0, total)
    make([s for s in new if s not in awaited], lambda done: report("compile", done, total))
    make([s for s in awaited if not objects.wait(s)], lambda done: None)
    if not target.system.is_static:
        toolchain.run([(*before, *map(str, objects.paths), *behind)], output.parent)
        toolchain.check_made(output)
    if archive is not None:
        archiving = toolchain.archiving(target, archive.absolute())
        toolchain.run([(*archiving, *map(str, objects.paths))], output.parent)
        toolchain.check_made(archive)
    for path in objects.paths:
        path.unlink()
    report("compile", total, total)


class _Objects:
    """The objects of a library, beside it, each once, and the store of earlier ones."""

    def __init__(self, output: Path, store: ObjectStore | None) -> None:
        self._output, self._store = output, store
        self._by_content: dict[bytes, Path] = {}
        self._placed = 0

    @property
    def paths(self) -> list[Path]:
        """All of them."""
        return list(self._by_content.values())

    def place(self) -> Path:
        """Where one more can be."""
        self._placed += 1
        return self._output.parent / f"{self._output.stem}.{self._placed}.o"

    def fetch(self, source: Path) -> bool:
        """Take the object of a source from the store, where it is there."""
        return self._take(self._store.find(source) if self._store else None)

    def wait(self, source: Path) -> bool:
        """Take the object of a source that is being compiled; whether that went well."""
        assert self._store is not None
        content = self._store.expected(source)
        if content is not None:
            self._store.add(source, content)
        return self._take(content)

    def keep(self, sources: Iterable[Path], made: Path) -> None:
        """Take a new object, which is that of several sources, and give it to the store."""
        content = made.read_bytes()
        if self._by_content.setdefault(hashlib.sha256(content).digest(), made) != made:
            made.unlink()
        if self._store is not None:
            for source in sources:
                self._store.add(source, content)

    def _take(self, content: bytes | None) -> bool:
        if content is None:
            return False
        digest = hashlib.sha256(content).digest()
        if digest not in self._by_content:
            self._by_content[digest] = self.place()
            self._by_content[digest].write_bytes(content)
        return True


def _batches(sources: Sequence[Path], jobs: int) -> list[list[Path]]:
    """Neighbours, in parts of about equally many sources, for so many compilers at once."""
    rounds = -(-len(sources) // (_MOST_TOGETHER * jobs))
    count = min(len(sources), rounds * jobs)
    ends = [i * len(sources) // count for i in range(count + 1)] if count else []
    return [list(sources[a:b]) for a, b in itertools.pairwise(ends)]


def _joined(batch: Sequence[Path], join: Join | None) -> str:
    """The path of a source that is all of a batch."""
    first, *others = batch
    if not others or join is None:
        return str(first)
    joined = first.with_name(f"{JOINED}{first.name}")
    joined.write_text(join([source.name for source in batch]), "utf-8")
    return str(joined)


def _silent(stage: str, done: int, total: int) -> None:
    """The progress of a caller who asked for none."""
