"""Arguments and options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from infuse.errors import OptionError
from infuse.options.commands import FileOptions

ModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A model: ONNX, PyTorch (.pt2), TensorFlow Lite, Hugging Face …, .infuse.",
        show_default=False,
    ),
]
ModelOrFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A model of any format that infuse check knows, or a compiled model's folder.",
        show_default=False,
    ),
]
ModelOutput = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="OUT", help="The file to write: .onnx or .infuse."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with JSON.")]
InputFiles = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="NAME=FILE.npy", help="The array of one input (repeatable)."),
]
InputArchive = Annotated[
    Path | None, typer.Option("--inputs", metavar="FILE.npz", help="Arrays of inputs by name.")
]
Calibrate = Annotated[bool, typer.Option("--calibrate", help="Measure the machine's peaks again.")]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Also write a page (.html), or its data (.json)."
    ),
]


def check_model_output(output: Path, options: FileOptions) -> None:
    """OptionError for an output that is no model file, and an opset of one that is not .onnx."""
    check_output(output, ".onnx", ".infuse")
    if options.opset is not None and output.suffix != ".onnx":
        raise OptionError("--opset is for .onnx files", where=f"output {output}")


def check_report(path: Path | None) -> None:
    """The same of a report, where one is asked for."""
    if path is not None:
        check_output(path, ".html", ".json")


def check_output(path: Path, *endings: str) -> None:
    """OptionError, before any work is done, when a file cannot be written at `path` or must end
    otherwise.
    """
    where = f"output {path}"
    if path.suffix not in endings:
        raise OptionError(f"its name does not end in {' or '.join(endings)}", where=where)
    if path.is_dir():
        raise OptionError("it is a folder", where=where, hint="name a file")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OptionError(
            f"the folder {folder} does not exist", where=where, hint="create it first"
        )
    if not os.access(folder, os.W_OK):
        raise OptionError(f"the folder {folder} cannot be written", where=where)
