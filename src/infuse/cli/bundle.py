"""`infuse bundle`: one library and many models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.build.bundle import bundle as write_bundle
from infuse.build.libinfuse import LIBRARY
from infuse.cli import terminal
from infuse.cli.flags import Without, with_flags
from infuse.cli.models import load_model
from infuse.cli.options import AsJson
from infuse.errors import OptionError
from infuse.options import CompileOptions, FormatOptions, Rules
from infuse.runtime.folder import MODEL_FILE, file_sizes


@with_flags
def bundle(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="The models.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="The folder to write.")
    ],
    options: Annotated[
        CompileOptions,
        Without("precision", "tune", "prefix", "embed", "single", "profile", "compile", "debug"),
    ],
    rules: Annotated[Rules, Without("runtime")],
    format: FormatOptions,
    library: Annotated[
        Path | None,
        typer.Option(
            "--library",
            metavar="FOLDER",
            help="A library that is there runs the models; nothing is compiled.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile what several models call to one library, and write each model as a program for it.

    An app has the library once, and a file for each model.
    """
    graphs = {}
    for path in models:
        name = re.sub(r"[^\w.-]", "_", path.stem) or "model"
        if name in graphs or name in (LIBRARY, ".", ".."):
            raise OptionError(f"two models would lie in the folder {name!r}", where=str(path))
        graphs[name] = infuse.optimize(load_model(path, format), rules)
    with terminal.progress("kernels") as progress:
        write_bundle(graphs, options, output, progress, library)
    facts: dict[str, Any] = {
        "output": str(output),
        "library": str((library or output) / LIBRARY),
        "library_bytes": ((library or output) / LIBRARY).stat().st_size,
        "models": {name: file_sizes(output / name) for name in graphs},
    }
    terminal.answer(facts, as_json, lambda: _print(facts))


def _print(facts: dict[str, Any]) -> None:
    terminal.say(f"{facts['library']}: {terminal.bytes_text(facts['library_bytes'])}")
    rows = [
        (f"{name}/{MODEL_FILE}", terminal.bytes_text(files[MODEL_FILE]))
        for name, files in facts["models"].items()
    ]
    terminal.say_table("", ("file", "#bytes"), rows)
