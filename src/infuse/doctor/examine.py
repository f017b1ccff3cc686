"""Which faults of the table a file shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Final

from infuse.doctor.facts import FileFacts, FileNode
from infuse.doctor.table import FAULTS, Fault
from infuse.errors import OptionError, did_you_mean

PRODUCERS: Final[Mapping[str, str]] = {
    "pytorch": "torch.onnx",
    "skl2onnx": "skl2onnx",
    "TensorFlow Lite": "tflite.converter",
}
"""Who wrote a file, by the producer that it names, or by its format."""
RUNTIMES: Final[Mapping[str, Sequence[str]]] = {
    "ONNX": ("onnxruntime", "openvino"),
    "TensorFlow Lite": ("litert",),
}
"""Those that are looked at where none is named, by the format of the file."""
_PACKAGES: Final[Mapping[str, str]] = {
    "torch.onnx": "torch",
    "onnxruntime.quantization": "onnxruntime",
    "onnx.version_converter": "onnx",
    "mnn": "MNN",
    "litert": "ai-edge-litert",
    "tflite.converter": "tensorflow",
}


@dataclass(frozen=True)
class Diagnostic:
    """A fault that one node of a file shows. `line` is file:line of the source that the exporter
    recorded, `call` its operator; `version` is that of who errs, as far as it is known.
    `difference`: how far the node's results were from the right ones over the largest of these,
    where both were computed on random numbers.
    """

    fault: Fault
    node: str
    kind: str
    line: str = ""
    call: str = ""
    text: str = field(default="", repr=False)
    version: str | None = None
    difference: float | None = None

    def __str__(self) -> str:
        where = f" ({self.line})" if self.line else ""
        return f"{self.node}{where}: {self.fault.wrong}, where {self.fault.right}"

    @property
    def untested(self) -> bool:
        """Whether the version is newer than those in which the fault was seen."""
        return bool(self.version) and numbers(self.version or "") > numbers(self.fault.versions[-1])

    @property
    def repairable(self) -> bool:
        """Whether the file says what the framework computes."""
        return bool(self.text) and self.fault.by == "torch.onnx"


@cache
def table() -> Sequence[Fault]:
    """All faults, by who errs."""
    import_module("infuse.doctor.faults")
    return tuple(FAULTS)


def examine(facts: FileFacts, names: Iterable[str] | None, notes: bool = True) -> list[Diagnostic]:
    """What the file shows of its producer's faults and of those of these runtimes and tools (None:
    those of its format), which may be of a version: `onnxruntime` or `onnxruntime==1.32.0`; with
    or without `notes`.

    OptionError for a name that the table does not have.
    """
    versions = dict(map(_named, runtimes_of(facts.format) if names is None else names))
    own = PRODUCERS.get(facts.producer or facts.format)
    if own is not None:
        versions[own] = facts.producer_version or None
    return [
        _diagnostic(fault, node, versions[fault.by])
        for fault in table()
        if (notes or not fault.note)
        and fault.by in versions
        and not _is_gone(fault, versions[fault.by])
        for node in fault.detect(facts)
    ]


def runtimes_of(format: str) -> Sequence[str]:
    """The runtimes that are looked at for a format where none is named."""
    return RUNTIMES.get(format, ())


def _named(text: str) -> tuple[str, str | None]:
    name, _, version = text.partition("==")
    every = sorted({fault.by for fault in table()})
    if name not in every:
        raise OptionError(
            f"there are no faults of {name!r} in the table",
            hint=did_you_mean(name, every, otherwise=f"it has {', '.join(every)}"),
        )
    return name, version or installed(name)


def installed(name: str) -> str | None:
    """The version of a runtime or tool on this machine."""
    from importlib import metadata

    try:
        return metadata.version(_PACKAGES.get(name, name))
    except metadata.PackageNotFoundError:
        return None


def _is_gone(fault: Fault, version: str | None) -> bool:
    if fault.gone is None:
        return False
    return version is None or numbers(version) >= numbers(fault.gone)


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, without what follows: 2.13.0+cpu is (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _diagnostic(fault: Fault, node: FileNode, version: str | None) -> Diagnostic:
    call = node.call
    if call is None:
        return Diagnostic(fault, node.name, node.kind, version=version)
    return Diagnostic(fault, node.name, node.kind, call.line, call.target, call.text, version)
