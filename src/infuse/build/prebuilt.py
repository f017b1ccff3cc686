"""Models that are programs of a library of closed functions, and such libraries."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infuse.build.build import copy_files, digest_of, folder_hash, object_store, write_metadata
from infuse.build.cache import Cache
from infuse.build.library import Progress, make_library
from infuse.build.toolchain import Toolchain
from infuse.errors import OptionError, UnsupportedOperatorError
from infuse.lowering.emitter import ClosedFunctions, WrittenProgram, emitter_of
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.lowering.weights import write_weights
from infuse.runtime.checked import note_written
from infuse.runtime.folder import FUNCTIONS, PROGRAM, WEIGHTS, check_replaceable, publish
from infuse.runtime.program import Facts, Prebuilt, prebuilt_folder, prebuilt_libraries
from infuse.targets import KERNELS, Target

_MOST_NAMED: Final = 4


def stamp(target: Target | None = None) -> str:
    """What programs and the library that runs them have to agree in. `target`: what they are for,
    where that may be small code.
    """
    cpu = KERNELS.parent / "targets" / "cpu"
    folders = cpu, cpu / "families", cpu / "lower", cpu / "closed"
    small = ["small"] if target is not None and target.is_small else []
    return digest_of(folder_hash(KERNELS), *(folder_hash(each, ".py") for each in folders), *small)


_NARROW: Final = ("armv7l", "wasm32")
"""Where addresses have 32 bits, and not the 64 of programs."""


def require_library(target: Target) -> None:
    """OptionError for a target that has no libraries of prebuilt kernels."""
    if target.system_name or target.architecture in _NARROW or target.machine.language == "c":
        raise OptionError(
            f"there are no libraries of prebuilt kernels for the target {target.name!r}",
            hint="they are for Linux where addresses have 64 bits",
        )


def make_prebuilt(
    functions: ClosedFunctions,
    target: Target,
    output: Path,
    progress: Progress | None = None,
    toolchain: Toolchain | None = None,
) -> None:
    """Compile a library of these functions for a target to the file `output`, with the compiler
    `toolchain` (default: the one for this machine). OptionError as `require_library`.
    """
    require_library(target)
    facts = Facts(target.name, frozenset(target.required), stamp())
    files = functions.sources(facts.text())
    _make(files, target, output, toolchain or Toolchain.find(target), progress)


def _make_functions(
    functions: ClosedFunctions,
    prebuilt: Prebuilt,
    target: Target,
    output: Path,
    toolchain: Toolchain,
    progress: Progress | None,
) -> None:
    """Compile functions that a library lacks, to be called beside its own, to the file `output`."""
    files = functions.sources(prebuilt.facts.text(), executing=False)
    _make(files, target, output, toolchain, progress)


@dataclass(frozen=True)
class ForeignLibrary:
    """A library of closed functions that this process need not be able to load."""

    path: Path
    facts: Facts
    names: frozenset[str]


def make_program_library(
    functions: ClosedFunctions,
    facts: Facts,
    target: Target,
    output: Path,
    archive: Path,
    toolchain: Toolchain,
    progress: Progress | None = None,
) -> None:
    """Compile a library of these functions, which programs in C link by its name, to `output`, and
    a static one to `archive`; both tell these facts of themselves.
    """
    files = functions.sources(facts.text())
    _make(files, target, output, toolchain, progress, archive)


def _make(
    files: Mapping[str, str],
    target: Target,
    output: Path,
    toolchain: Toolchain,
    progress: Progress | None,
    archive: Path | None = None,
) -> None:
    emitter = emitter_of(target.machine)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent) as name:
        folder = Path(name)
        for file, text in files.items():
            (folder / file).write_text(text, "utf-8")
        made, sources = folder / output.name, [folder / file for file in files]
        make_library(
            toolchain,
            sources,
            made,
            target=target,
            include=[KERNELS],
            progress=progress,
            store=object_store(files, target, toolchain, Cache(), alone=archive is not None),
            together=[folder / name for name in emitter.alone(files)],
            join=emitter.join if archive is None else None,
            soname=output.name if archive else "",
            archive=archive,
        )
        made.replace(output)


def _own() -> list[Prebuilt]:
    """The libraries here that were made of these kernels."""
    own = stamp()
    return [library for library in prebuilt_libraries() if library.facts.stamp == own]


def fitting_library(target: str) -> Prebuilt | None:
    """The library for a target: the best one here for `native`; None without one."""
    return next((each for each in _own() if target in ("native", each.facts.target)), None)


def prebuilt_for(target: str) -> Prebuilt:
    """The library for a target. OptionError without one."""
    library = fitting_library(target)
    if library is not None:
        return library
    others = ", ".join(each.facts.target for each in _own())
    raise OptionError(
        f"there is no library of prebuilt kernels for the target {target!r} in "
        f"{prebuilt_folder()}" + (f", only for {others}" if others else ""),
        hint="let the model be compiled, or make one with `infuse prebuilt`",
    )


def build_program(
    generated: tuple[Program, Plan],
    metadata: Mapping[str, Any],
    prebuilt: Prebuilt | ForeignLibrary,
    target: Target,
    output: str | os.PathLike[str] | None = None,
    *,
    is_full_speed: bool = False,
) -> Path:
    """The folder of a model that `prebuilt` runs, from the cache when the same was made before.
    `is_full_speed`: nothing that compiled code would choose was left out.

    UnsupportedOperatorError where it needs functions that the library lacks.
    """
    if output is not None:
        check_replaceable(Path(output))
    program, plan = generated
    written = emitter_of(target.machine).write_program(program, plan, prebuilt.names)
    if missing := sorted(written.functions.names - prebuilt.names):
        named = ", ".join(missing[:_MOST_NAMED]) + ", …" * (len(missing) > _MOST_NAMED)
        raise UnsupportedOperatorError(
            f"the library of prebuilt kernels lacks {len(missing)} of the functions that the model "
            f"needs: {named}",
            where=str(prebuilt.path),
            hint="let the model be compiled"
            if isinstance(prebuilt, Prebuilt)
            else "make the library with this model: infuse prebuilt --library MODEL",
        )
    facts = {**_facts(prebuilt), "compiled": is_full_speed and not written.interprets}
    made = _made(written, program, {**metadata, "program": facts}, target, "prebuilt")
    if output is None:
        return made
    return publish(Path(output), lambda folder: copy_files(made, folder))


def build_with_prebuilt(
    generated: tuple[Program, Plan],
    metadata: Mapping[str, Any],
    prebuilt: Prebuilt,
    target: Target,
    toolchain: Callable[[], Toolchain],
    progress: Progress | None = None,
) -> Path:
    """The folder of a compiled model that calls the functions of `prebuilt`; those that this lacks
    are compiled.

    UnsupportedOperatorError where a part can only be compiled as a whole.
    """
    program, plan = generated
    written = emitter_of(target.machine).write_program(program, plan, _All())
    if written.interprets:
        raise UnsupportedOperatorError("elementwise work of blocks is compiled with its model")
    lacking = written.functions.without(prebuilt.names)
    facts: dict[str, Any] = {**_facts(prebuilt), "compiled": True}
    if not lacking.names:
        return _made(written, program, {**metadata, "program": facts}, target, "prebuilt")
    compiler = toolchain()
    facts["functions"] = digest_of(compiler.identity, target.fingerprint)

    def add_functions(folder: Path) -> None:
        _make_functions(lacking, prebuilt, target, folder / FUNCTIONS, compiler, progress)

    info = {**metadata, "program": facts}
    return _made(written, program, info, target, compiler.version, add_functions)


class _All:
    """Has every name."""

    def __contains__(self, name: object) -> bool:
        return True


def _facts(prebuilt: Prebuilt | ForeignLibrary) -> dict[str, str]:
    return {"target": prebuilt.facts.target, "stamp": prebuilt.facts.stamp}


def _made(
    written: WrittenProgram,
    program: Program,
    info: Mapping[str, Any],
    target: Target,
    compiler: str,
    add: Callable[[Path], None] | None = None,
) -> Path:
    """The folder of a program in the cache, with what else `add` puts in it."""
    hashes: list[str] = []

    def make(folder: Path) -> None:
        (folder / PROGRAM).write_bytes(written.content)
        if add is not None:
            add(folder)
        weights = program.weights
        hashes.append(write_weights(folder / WEIGHTS, weights, weights.bytes))
        write_metadata(folder, info, hashes[-1], target, compiler)

    fingerprint = program.weights.fingerprint()
    key = digest_of(written.content.hex(), fingerprint, repr(sorted(info.items())))
    made = Cache().obtain(key, make)
    if hashes:
        note_written(made / WEIGHTS, hashes[-1])
    program.weights.give_back()
    return made
