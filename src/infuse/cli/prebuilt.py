"""`infuse prebuilt`: a library of kernels by which models run without a compiler."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

import infuse
from infuse.build.collecting import collected
from infuse.build.libinfuse import publish_library, require_programs
from infuse.build.prebuilt import make_prebuilt, require_library
from infuse.build.toolchain import Toolchain
from infuse.cli import terminal
from infuse.errors import OptionError
from infuse.runtime.folder import file_sizes
from infuse.targets import Target
from infuse.testing.corpus import operator_graphs
from infuse.testing.usual import network_graphs, usual_graphs


def prebuilt(
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Models whose elementwise work gets code of its own, which is faster.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the library goes.")
    ] = Path("prebuilt"),
    only_models: Annotated[
        bool, typer.Option("--only-models", help="Nothing but what these models call.")
    ] = False,
    library: Annotated[
        bool,
        typer.Option("--library", help="A small library with a header, for programs in C."),
    ] = False,
    target: Annotated[
        str, typer.Option(metavar="NAME", help="Processor, as `infuse compile --target`.")
    ] = "native",
    portable: Annotated[
        bool, typer.Option("--portable", help="For glibc 2.28 and newer; needs ziglang.")
    ] = False,
) -> None:
    """Compile the kernels of all operators and of the usual blocks of networks to a library.

    With INFUSE_PREBUILT=FOLDER, `--compile never` runs models by it, without a compiler. With
    `--library`, programs in C run models by it that `infuse bundle --library FOLDER` writes.
    """
    if only_models and not models:
        raise OptionError("--only-models has no models", hint="name the models that are to run")
    machine = Target.resolve(target).smaller() if library else Target.resolve(target)
    (require_programs if library else require_library)(machine)
    toolchain = Toolchain.portable() if portable else Toolchain.find(machine)
    graphs = (infuse.optimize(infuse.load(path)) for path in models or ())
    with terminal.progress("kernels") as progress:
        operators, usual = ((), ()) if only_models else (operator_graphs(), usual_graphs())
        if library:
            networks = () if only_models else network_graphs()
            functions = collected(machine, operators, itertools.chain(networks, graphs), usual)
        else:
            functions = collected(machine, operators, itertools.chain(usual, graphs))
        if library:
            publish_library(output, functions, machine, progress, toolchain)
            _list(output)
            return
        path = output / f"infuse-{machine.name}.so"
        make_prebuilt(functions, machine, path, progress, toolchain)
    terminal.say(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def _list(folder: Path) -> None:
    """Show the files of a folder and their bytes."""
    rows = [(name, terminal.bytes_text(size)) for name, size in file_sizes(folder).items()]
    terminal.say_table("", ("file", "#bytes"), rows)
