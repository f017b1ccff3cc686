"""One library and many models: programs that it runs, without a compiler, in one folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from infuse.build.compile import Compilation
from infuse.build.library import Progress
from infuse.build.packing import add_license, add_sums
from infuse.build.prebuilt import ForeignLibrary, build_program, make_bundle_library
from infuse.errors import OptionError
from infuse.ir.description import description_of
from infuse.ir.graph import Graph
from infuse.lowering.emitter import emitter_of
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.ops.core.rows import independent_rows
from infuse.options import CompileOptions
from infuse.runtime.folder import BUNDLED, check_replaceable, publish
from infuse.targets import Target
from infuse.targets.platforms import ANDROID, LINUX

LIBRARY: Final = "libinfuse.so"


def bundle(
    models: Mapping[str, Graph],
    options: CompileOptions,
    output: str | os.PathLike[str],
    progress: Progress | None = None,
) -> Path:
    """The folder `output` with a library of what optimized models call, its header, and a folder
    for each model, by name, with its program, weights, description and an example in C.

    OptionError for a target that has no such library, for a model of which Python runs a part, and
    where the folder is something else.
    """
    path, target = Path(output), _target(options)
    if not (path / BUNDLED).is_file():
        check_replaceable(path)
    emitter = emitter_of(target.machine)
    functions = emitter.closed()
    compilations = {
        name: Compilation(graph, options, closed=True) for name, graph in models.items()
    }
    generated = {name: _generated(name, each) for name, each in compilations.items()}
    for program, plan in generated.values():
        functions.add(program, plan, usual=True)

    def write(folder: Path) -> None:
        facts = make_bundle_library(functions, target, folder / LIBRARY, progress)
        library = ForeignLibrary(folder / LIBRARY, facts, functions.names)
        for name, (program, plan) in generated.items():
            info = {
                **compilations[name].described(program, plan),
                "model": dict(description_of(models[name])),
                "rows": independent_rows(models[name]).to_dict(),
            }
            build_program((program, plan), info, library, target, folder / name, is_full_speed=True)
            for file, text in emitter.interface_files({**info, "bundled": True}).items():
                place = folder if file == BUNDLED else folder / name
                (place / file).write_text(text, "utf-8")
            add_sums(folder / name)
        add_license(folder)
        add_sums(folder)

    return publish(path, write)


def _target(options: CompileOptions) -> Target:
    target = Target.resolve(options.target)
    has_closed = target.machine.language == "c++" and target.architecture in ("x86_64", "aarch64")
    if not has_closed or target.system not in (LINUX, ANDROID):
        raise OptionError(
            f"there are no bundles for the target {options.target!r}",
            hint="they are for Linux and Android on x86-64 and on 64-bit ARM",
        )
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
