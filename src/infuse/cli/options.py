"""Arguments and options that several commands have, and how their texts are read."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.errors import OptionError
from infuse.options import LEVELS


class Level(str, Enum):
    """An optimization level."""

    none = "none"
    basic = "basic"
    extended = "extended"
    all = "all"


assert tuple(level.value for level in Level) == LEVELS

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
Opset = Annotated[
    int | None, typer.Option(min=13, help="Opset of an .onnx file; default: the model's own.")
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


def described(texts: Iterable[str], flag: str = "--input") -> dict[str, Any]:
    """`["x:float32:batch,3", "rate=16000"]` → Specs and numbers by name; OptionError for anything
    else.
    """
    inputs: dict[str, Any] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        parts = text.split(":")
        try:
            if equals and name:
                inputs[name] = ast.literal_eval(number)
            else:
                name, kind, sizes = parts
                shape = [s.strip() for s in sizes.split(",") if s.strip()]
                inputs[name] = infuse.Spec(
                    kind, tuple(int(s) if s.isdecimal() else s for s in shape)
                )
        except (ValueError, SyntaxError) as error:
            raise OptionError(
                f"{flag} {text} describes no input",
                hint=f"write it as {flag} x:float32:batch,3,224,224 or {flag} rate=16000",
            ) from error
    return inputs


def names(texts: Iterable[str], flag: str) -> list[str]:
    """Rule names, one by one or with commas between them. OptionError for a text without."""
    return listed(texts, f"{flag} {{!r}} names no rule", "infuse why --list shows them")


def listed(texts: Iterable[str], refusal: str, hint: str) -> list[str]:
    """Names, one by one or with commas between them. OptionError for a text without."""
    result: list[str] = []
    for text in texts:
        named = [name.strip() for name in text.split(",") if name.strip()]
        if not named:
            raise OptionError(refusal.format(text), hint=hint)
        result += named
    return result


def dims(texts: Iterable[str], option: str) -> dict[str, int]:
    """`["batch=2", "seq=8"]` → `{"batch": 2, "seq": 8}`; OptionError for anything else, and for
    contradictions.
    """
    sizes: dict[str, int] = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        if not equals or not name or not size.isdecimal():
            raise OptionError(
                f"{option} {text} does not give a dynamic axis its size",
                hint=f"write it as {option} batch=2",
            )
        if sizes.setdefault(name, int(size)) != int(size):
            raise OptionError(
                f"{option} gives {name} the sizes {sizes[name]} and {size}", hint="give it one"
            )
    return sizes


def check_model_output(output: Path, opset: int | None) -> None:
    """OptionError for an output that is no model file, and an opset of one that is not .onnx."""
    check_output(output, ".onnx", ".infuse")
    if opset is not None and output.suffix != ".onnx":
        raise OptionError("--opset is for .onnx files", where=f"output {output}")


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
