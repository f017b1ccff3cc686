"""One library and many models: programs that it runs, without a compiler, in one folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from infuse.build.compile import Compilation
from infuse.build.libinfuse import (
    LibraryFolder,
    read_library,
    require_programs,
    write_library,
)
from infuse.build.library import Progress
from infuse.build.model_file import write_model_file
from infuse.build.packing import add_sums
from infuse.build.prebuilt import ForeignLibrary, build_program
from infuse.errors import OptionError
from infuse.ir.description import description_of
from infuse.ir.graph import Graph
from infuse.lowering.emitter import emitter_of
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.ops.core.rows import independent_rows
from infuse.options import CompileOptions
from infuse.runtime.folder import BUNDLED, METADATA, MODEL_FILE, check_replaceable, digest, publish
from infuse.targets import Target


def bundle(
    models: Mapping[str, Graph],
    options: CompileOptions,
    output: str | os.PathLike[str],
    progress: Progress | None = None,
    library: str | os.PathLike[str] | None = None,
) -> Path:
    """The folder `output` with a library of what optimized models call, its header, and a folder
    for each model, by name, with its file, its description and an example in C. With `library`, a
    folder with such a library, that runs the models, and none is compiled.

    OptionError for a target that has no such library or is not that of `library`, for a model of
    which Python runs a part, and where the folder is something else. UnsupportedOperatorError for
    functions that `library` lacks. CompiledModelError for a `library` that is none.
    """
    path = Path(output)
    if not (path / BUNDLED).is_file() and not _is_bundle(path):
        check_replaceable(path)
    there = None if library is None else _fitting(read_library(Path(library)), options)
    target = there.target if there else _target(options)
    compilations = {
        name: Compilation(graph, options, closed=True, made_for=target)
        for name, graph in models.items()
    }
    generated = {name: _generated(name, each) for name, each in compilations.items()}

    def made(folder: Path) -> ForeignLibrary:
        functions = emitter_of(target.machine).closed()
        for program, plan in generated.values():
            functions.add(program, plan, usual=True)
        return write_library(folder, functions, target, progress)

    def write(folder: Path) -> None:
        runs = there.library if there else made(folder)
        for name, each in generated.items():
            info = {
                **compilations[name].described(*each),
                "model": dict(description_of(models[name])),
                "rows": independent_rows(models[name]).to_dict(),
            }
            program = build_program(each, info, runs, target, is_full_speed=True)
            (folder / name).mkdir()
            write_model_file(program, runs.facts, info, folder / name / MODEL_FILE)
            where = os.path.relpath(path if there is None else there.path, path / name)
            _describe(folder / name, program, where)

    return publish(path, write)


def _describe(folder: Path, program: Path, library: str) -> None:
    """Add to the file of a model its description, an example and checksums. `library`: the way from
    there to the folder of the library.
    """
    content = json.loads((program / METADATA).read_text("utf-8"))
    file = folder / MODEL_FILE
    content["files"] = {MODEL_FILE: {"bytes": file.stat().st_size, "sha256": digest(file)}}
    (folder / METADATA).write_text(json.dumps(content, indent=1), "utf-8")
    emitter = emitter_of(Target.resolve(content["target"]).machine)
    texts = emitter.interface_files({**content, "bundled": library})
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    add_sums(folder)


def _is_bundle(path: Path) -> bool:
    """Whether a folder has nothing but folders of models for a library elsewhere."""
    folders = [*path.iterdir()] if path.is_dir() else []
    return bool(folders) and all((each / MODEL_FILE).is_file() for each in folders)


def _fitting(library: LibraryFolder, options: CompileOptions) -> LibraryFolder:
    """The library where options name no other target and no other size of code."""
    if options.target not in (CompileOptions().target, library.target.name):
        raise OptionError(
            f"the library is for the target {library.target.name!r}, and not {options.target!r}",
            where=str(library.path),
            hint="leave --target out: the library says it",
        )
    if options.size:
        raise OptionError(
            "the library is there, and its size is what it is", hint="leave --size out"
        )
    return library


def _target(options: CompileOptions) -> Target:
    target = Target.resolve(options.target)
    require_programs(target)
    return target.smaller() if options.size else target


def _generated(name: str, compilation: Compilation) -> tuple[Program, Plan]:
    """The program of a model and its plan."""
    whole = compilation.stages().whole
    if whole is None:
        raise OptionError(
            "Python runs a part of the model, and a bundle has no Python",
            where=name,
            hint="infuse show --kernels names it",
        )
    return whole
