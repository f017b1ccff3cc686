"""What TensorFlow's converter writes into TensorFlow Lite files, and what LiteRT computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from infuse.doctor.facts import FileFacts, FileNode
from infuse.doctor.faults.operators import is_float
from infuse.doctor.table import Detector, Fault, register

CONVERTER: Final = "tflite.converter"
LITERT: Final = "litert"
FORMAT: Final = "TensorFlow Lite"
_LARGE: Final = ("Sin", "Sqrt", "Log", "Sigmoid", "Exp")


def _in_tflite(detect: Detector) -> Detector:
    """The same, in files of TensorFlow Lite alone."""

    def of_format(facts: FileFacts) -> Iterator[FileNode]:
        return iter(detect(facts) if facts.format == FORMAT else ())

    return of_format


def _plus_one(node: FileNode) -> FileNode | None:
    """The addition of 1 that a node reads."""
    before = node.producer()
    if before is None or before.kind != "Add":
        return None
    ones = [before.constant(index) for index in (0, 1)]
    return before if any(one is not None and np.all(one == 1) for one in ones) else None


def _softplus(facts: FileFacts) -> Iterator[FileNode]:
    for node in facts.of("Log"):
        one = _plus_one(node)
        sources = [] if one is None else [one.producer(index) for index in (0, 1)]
        if any(source is not None and source.kind == "Exp" for source in sources):
            yield node


def _log1p(facts: FileFacts) -> Iterator[FileNode]:
    softplus = {*_softplus(facts)}
    for node in facts.of("Log"):
        if node not in softplus and _plus_one(node) is not None:
            yield node
    for node in facts.of("Sub"):
        one, source = node.constant(1), node.producer()
        if one is not None and np.all(one == 1) and source is not None and source.kind == "Exp":
            yield node


def _of_large_numbers(facts: FileFacts) -> Iterator[FileNode]:
    return (node for node in facts.of(*_LARGE) if is_float(node))


register(
    Fault(
        "tflite-converter-unfolds-softplus",
        CONVERTER,
        ("2.21.0",),
        "softplus(100) is 100",
        "log(exp(x) + 1), which is infinite above 88 (88.7 by the delegate)",
        "for numbers above 88",
        "write tf.maximum(x, 0) + tf.math.log1p(tf.exp(-tf.abs(x)))",
        "tests/models/test_doctor_tflite.py",
        _in_tflite(_softplus),
    ),
    Fault(
        "tflite-converter-unfolds-log1p-and-expm1",
        CONVERTER,
        ("2.21.0",),
        "log1p(1e-8) and expm1(1e-8) are 1e-8",
        "log(x + 1) and exp(x) - 1, which are 0",
        "near 0",
        "write the first terms of the series where |x| is below 1e-4",
        "tests/models/test_doctor_tflite.py",
        _in_tflite(_log1p),
        note=True,
    ),
    Fault(
        "litert-delegate-sine-of-large-numbers-is-none",
        LITERT,
        ("2.3.0",),
        "sines, roots and logarithms of large numbers are finite",
        "SIN(1e10) is -4891, SQRT(1e38) is 1.5e19, LOG(3e38) is infinite, by the XNNPACK delegate",
        "for numbers beyond 1e9 or so",
        "run without the delegate, or limit the operand",
        "findings/litert-delegate-sine-of-large-numbers-is-none.sh",
        _in_tflite(_of_large_numbers),
        note=True,
    ),
)
