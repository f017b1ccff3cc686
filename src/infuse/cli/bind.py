"""`infuse bind`: a package of another language that runs a compiled model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.cli import terminal
from infuse.cli.flags import with_flags
from infuse.cli.options import AsJson
from infuse.options.commands import BindOptions
from infuse.runtime.folder import file_sizes


@with_flags
def bind(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A compiled model's folder (infuse compile -o FOLDER)."
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="The folder of the package.")
    ],
    options: BindOptions,
    as_json: AsJson = False,
) -> None:
    """Write a package of C++, C#, Go, Java, Kotlin, Rust or Swift that runs a compiled model.

    It has the model's library and weights, typed inputs and outputs, an example and a README.md.
    """
    package = infuse.bind(folder, output, options)
    facts = {
        "output": str(output),
        "language": package.language,
        "name": package.name,
        "files": file_sizes(output),
        "notes": list(package.notes),
    }
    terminal.answer(facts, as_json, lambda: _print(facts))


def _print(facts: dict[str, Any]) -> None:
    rows = [(name, terminal.bytes_text(size)) for name, size in facts["files"].items()]
    terminal.say_table(facts["output"], ("file", "#size"), rows)
    for note in facts["notes"]:
        terminal.say(note)
