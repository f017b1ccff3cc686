"""What single commands are asked for besides what verbs are: how answers are printed, and what is
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infuse.options.fields import Checked, documented, option
from infuse.options.rules import LEVELS

STEP_GROUPINGS: Final = ("step", "node", "kind")
LAYER_GROUPINGS: Final = ("layer", "kind")
"""What a row of a profile, and of an inspection, may stand for."""


@documented
@dataclass(frozen=True)
class InspectOptions(Checked):
    """What is inspected, and which rows of it are printed."""

    by: str = option(
        "layer", "A row for every layer, or kind of operator.", choices=LAYER_GROUPINGS
    )
    top: int = option(40, "Rows to print, those with the longest least time; 0 for all.", least=0)
    level: str = option(
        "none", "How much of the graph is rewritten before it is counted.", choices=LEVELS
    )


@documented
@dataclass(frozen=True)
class ProfileOptions(Checked):
    """How often runs are timed, and which rows of the profile are printed."""

    runs: int = option(20, "Runs that are measured.", least=1)
    by: str = option(
        "step",
        "A row for every kernel call, node, or kind of operator and kernel.",
        choices=STEP_GROUPINGS,
    )
    top: int = option(30, "Rows to print; 0 for all.", least=0)
    trace: Path | None = option(
        None,
        "Write the runs as a trace for Perfetto or chrome://tracing.",
        metavar="FILE.json",
    )


@documented
@dataclass(frozen=True)
class CompareOptions(Checked):
    """What of two models is compared besides outputs, and printed."""

    layers: bool = option(True, "Also compare inner values that both have.")
    top: int = option(20, "Layers to print, those that differ most; 0 for all.", least=0)


@documented
@dataclass(frozen=True)
class ShowOptions(Checked):
    """What of a model is shown besides its interface."""

    text: bool = option(
        False, "Print the graph in its text form; with --kernels, the lowered program."
    )
    kernels: bool = option(False, "List the kernel calls of the compiled form, and its memory.")


@documented
@dataclass(frozen=True)
class FileOptions(Checked):
    """How a model file is written."""

    opset: int | None = option(None, "Opset of an .onnx file; default: the model's own.", least=13)
    coded: bool = option(False, "Entropy code the weights of an .infuse file, without loss.")
    cluster_bits: int | None = option(
        None,
        "With --coded: cluster each weight to 2^BITS values first, which loses accuracy.",
        least=2,
        most=8,
    )


@documented
@dataclass(frozen=True)
class PartOptions(Checked):
    """Which values of a model a part takes and gives, by name."""

    inputs: Sequence[str] = option(
        (),
        "A value that the part takes (repeatable, or with commas); default: the model's inputs "
        "that it needs.",
        flag="--input",
        metavar="VALUE",
        form="values",
    )
    outputs: Sequence[str] = option(
        (),
        "A value that the part gives (repeatable, or with commas); default: the model's outputs.",
        flag="--output-value",
        metavar="VALUE",
        form="values",
    )


@documented
@dataclass(frozen=True)
class DoctorOptions(Checked):
    """Whose faults are looked for in a model file besides those of its exporter, and shown."""

    runtimes: Sequence[str] = option(
        (),
        "A runtime or tool, or a version of it, as in onnxruntime==1.32.0 (repeatable, or with "
        "commas; --list names all); default: the usual runtimes of the format.",
        flag="--for",
        metavar="NAME",
        form="values",
    )
    notes: bool = option(
        False, "Also show what concerns special numbers alone: NaN, infinities, empty tensors."
    )
    calls: bool = option(
        False, "Also compare every call that the exporter recorded with the nodes written for it."
    )


@documented
@dataclass(frozen=True)
class BindOptions(Checked):
    """The language of a package that runs a compiled model, and what the package is called."""

    language: str = option("", "cpp, csharp, go, java, kotlin, rust or swift.", metavar="LANGUAGE")
    name: str | None = option(
        None, "What the package is called; default: as the model is.", metavar="NAME"
    )
