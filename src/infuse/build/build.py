"""From C++ source and weights to a compiled model folder: compile, write, describe, publish."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Event
from typing import Any

from infuse.build.ahead import compiling, expected, is_expected
from infuse.build.cache import Cache
from infuse.build.library import ObjectStore, Progress, make_library
from infuse.build.objects import Objects
from infuse.build.packing import pack
from infuse.build.toolchain import Toolchain
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.lowering.emitter import emitter_of
from infuse.lowering.weights import Entries, write_weights
from infuse.options import PREFIX
from infuse.runtime.checked import note_written
from infuse.runtime.cpus import cpu_limit
from infuse.runtime.folder import (
    ABI,
    EMBEDDED,
    METADATA,
    STATIC,
    WEIGHTS,
    check_replaceable,
    describe_files,
    publish,
)
from infuse.targets import KERNELS, Target


def build(
    sources: Mapping[str, str],
    weights: Entries,
    weights_bytes: int,
    metadata: Mapping[str, Any],
    *,
    key: str,
    target: Target | str = "native",
    toolchain: Toolchain | None = None,
    output: str | os.PathLike[str] | None = None,
    cache: Cache | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """The folder of the compiled model: from the cache when the same was compiled before, else made
    now.

    `sources` maps file names, the main one of the target's emitter among them, to text that
    implements `model.h`; where there are others, it only calls them. `key` must stand for the
    content of the weights; sources, target, compiler, kernels and metadata are added to it here.
    `metadata` is what `infuse_metadata` returns. With `output`, the result is a copy there, and an
    older model there is replaced; it has a static library, too, and what `pack` adds. Raises
    ToolchainError, CompileError, CacheError or OptionError.
    """
    if output is not None:
        check_replaceable(Path(output))
    target = Target.resolve(target) if isinstance(target, str) else target
    toolchain, cache = toolchain or Toolchain.find(target), cache or Cache()
    library = target.system.library_name(metadata.get("prefix", PREFIX))
    texts = emitter_of(target.machine).interface_files(
        {**metadata, "library": library, "target": target.name}
    )
    making = _Making(
        sources, texts, weights, weights_bytes, metadata, target, toolchain, output is not None
    )
    parts = (*_flat({**sources, **texts}), json.dumps(metadata), *_facts(target, toolchain))
    full_key = digest_of(key, *parts, *([] if output is None else [STATIC]))
    made = cache.obtain(full_key, lambda folder: making.fill(folder, cache, jobs, progress))
    if making.hashes:
        note_written(made / WEIGHTS, making.hashes[-1])
    if output is None:
        return made

    def write(folder: Path) -> None:
        copy_files(made, folder)
        pack(folder, metadata, target)

    return publish(Path(output), write)


@dataclass(frozen=True)
class _Making:
    """A folder that is filled with a model: `texts` are of its interface; `archived`: it has a
    static library, too. `hashes`: those of the weights that were written.
    """

    sources: Mapping[str, str]
    texts: Mapping[str, str]
    weights: Entries
    weights_bytes: int
    metadata: Mapping[str, Any]
    target: Target
    toolchain: Toolchain
    archived: bool
    hashes: list[str] = field(default_factory=list)

    def fill(self, folder: Path, cache: Cache, jobs: int | None, progress: Progress | None) -> None:
        """Write and compile the sources, while the weights are written."""
        for name, text in {**self.sources, **self.texts}.items():
            (folder / name).write_text(text, "utf-8")
        stop = Event()
        with ThreadPoolExecutor(1) as writer:
            writing = writer.submit(
                write_weights, folder / WEIGHTS, self.weights, self.weights_bytes, stop
            )
            try:
                if self.metadata.get("embedded"):
                    writing.result()
                self._compile(folder, cache, jobs, progress)
            except BaseException:
                stop.set()
                raise
            self.hashes.append(writing.result())
        compiler = self.toolchain.version
        write_metadata(folder, self.metadata, self.hashes[-1], self.target, compiler)

    def _compile(
        self, folder: Path, cache: Cache, jobs: int | None, progress: Progress | None
    ) -> None:
        """Make the library of the sources in the folder."""
        emitter, system = emitter_of(self.target.machine), self.target.system
        assert emitter.main in self.sources, f"one of the sources must be {emitter.main}"
        soname = system.library_name(self.metadata.get("prefix", PREFIX))
        if soname != system.library:
            (folder / soname).symlink_to(system.library)
        compiled = [folder / name for name in self.sources if name.endswith((".cpp", ".c"))]
        units = {name: text for name, text in self.sources.items() if name != emitter.main}
        make_library(
            self.toolchain,
            [*compiled, *([folder / EMBEDDED] if self.metadata.get("embedded") else [])],
            folder / system.library,
            target=self.target,
            include=[KERNELS, folder],
            soname=soname,
            jobs=jobs,
            progress=progress,
            store=object_store(units, self.target, self.toolchain, cache, alone=self.archived),
            calling=folder / emitter.main,
            together=[folder / name for name in emitter.alone(self.sources)],
            # Linkers of programs do not drop what nobody calls before they look for what it calls.
            join=emitter.join if system.drops_first and not self.archived else None,
            archive=folder / STATIC if self.archived else None,
        )


@contextmanager
def compiled_ahead(graph: Graph, target: Target | str = "native") -> Iterator[None]:
    """Compile, on a second processor, what models such as this graph, which need not be optimized,
    have in common, while a block comes to compiling its model. `build` reports what is wrong with
    a compiler.
    """
    if cpu_limit() < 2:
        yield
        return
    target = Target.resolve(target) if isinstance(target, str) else target
    try:
        toolchain, cache = Toolchain.find(target), Cache()
    except InfuseError:
        yield
        return
    sources = emitter_of(target.machine).usual_files(graph)
    facts, objects = _facts(target, toolchain), Objects(cache.root, cache.limit)
    keys = {digest_of(text, *facts): (name, text) for name, text in sources.items()}
    new = {key: source for key, source in keys.items() if key not in objects}
    with compiling(toolchain.compiling(target, [KERNELS]), new):
        yield


def object_store(
    sources: Mapping[str, str],
    target: Target,
    toolchain: Toolchain,
    cache: Cache,
    *,
    alone: bool = False,
) -> ObjectStore:
    """The objects of these sources, by names of files, in a cache that all models share. `alone`:
    those that have nothing of other models in them.
    """
    facts = (*_facts(target, toolchain), *(["alone"] if alone else []))
    keys = {name: digest_of(text, *facts) for name, text in sources.items()}
    return _UnitObjects(Objects(cache.root, cache.limit), keys)


@dataclass(frozen=True)
class _UnitObjects:
    """The objects of all sources but the main one, which no other model has. `keys`: by name of a
    source.
    """

    objects: Objects
    keys: Mapping[str, str]

    def find(self, source: Path) -> bytes | None:
        key = self.keys.get(source.name)
        return None if key is None else self.objects.find(key)

    def is_expected(self, source: Path) -> bool:
        return is_expected(self.keys.get(source.name, ""))

    def expected(self, source: Path) -> bytes | None:
        return expected(self.keys[source.name])

    def add(self, source: Path, content: bytes) -> None:
        key = self.keys.get(source.name)
        if key is not None:
            self.objects.add(key, content)


def write_metadata(
    folder: Path, metadata: Mapping[str, Any], weights_sha256: str, target: Target, toolchain: str
) -> None:
    """Describe a model in its folder, whose other files are there."""
    content = {
        **metadata,
        "abi": ABI,
        "target": target.name,
        "machine": target.architecture,
        **({"system": target.system_name} if target.system_name else {}),
        "cpu_features": sorted(target.required),
        "toolchain": toolchain,
        "files": describe_files(folder, weights_sha256, target.system.library),
    }
    (folder / METADATA).write_text(json.dumps(content, indent=1), "utf-8")


def _facts(target: Target, toolchain: Toolchain) -> tuple[str, ...]:
    """What objects depend on besides their source."""
    commands = toolchain.compiling(target), toolchain.linking(target, Path())
    return target.fingerprint, toolchain.identity, repr(commands), kernels_hash()


def _flat(sources: Mapping[str, str]) -> list[str]:
    return [part for name in sorted(sources) for part in (name, sources[name])]


def digest_of(*parts: str) -> str:
    """A key of the cache for these texts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:40]


def kernels_hash() -> str:
    """The hash of all kernel headers."""
    return folder_hash(KERNELS, ".h")


def folder_hash(folder: Path, part: str = "") -> str:
    """The hash of the files of a folder whose names have this part."""
    with os.scandir(folder) as files:
        found = (f for f in files if part in f.name and f.is_file())
        states = [(f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in found]
    return _hash_files(folder, tuple(sorted(states)))


@lru_cache(maxsize=16)
def _hash_files(folder: Path, states: tuple[tuple[str, int, int], ...]) -> str:
    texts = ((name, (folder / name).read_text("utf-8")) for name, _, _ in states)
    return digest_of(*(part for pair in texts for part in pair))


def copy_files(made: Path, folder: Path) -> None:
    """Copy the files of a model to another folder."""
    for file in made.iterdir():
        shutil.copyfile(file, folder / file.name, follow_symlinks=False)
