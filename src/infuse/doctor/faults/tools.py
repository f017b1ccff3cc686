"""What quantizers and converters make of ONNX files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from infuse.doctor.facts import FileFacts, FileNode
from infuse.doctor.table import Condition, Fault, nodes, register
from infuse.ir.graph import Array

QUANTIZER: Final = "onnxruntime.quantization"
VERSIONS: Final = "onnx.version_converter"
MNN: Final = "mnn"
ONNXSCRIPT: Final = "onnxscript"
SKL2ONNX: Final = "skl2onnx"
_MASKED: Final = -1e3
"""Numbers from here down in what is added before a softmax are those of a mask."""


def _is_left_out(node: FileNode) -> bool:
    """Whether a sum has an operand near 0, or a product one near 1, that is not equal to it."""
    expected = 0.0 if node.kind in ("Add", "Sub") else 1.0
    indices = (0, 1) if node.kind in ("Add", "Mul") else (1,)
    return any(_is_nearly(node.constant(index), expected) for index in indices)


def _is_nearly(array: Array | None, expected: float) -> bool:
    if array is None or array.shape or array.dtype.kind != "f":
        return False
    number = float(array)
    return number != expected and math.isclose(number, expected, rel_tol=1e-5, abs_tol=1e-8)


def _has_factors(node: FileNode) -> bool:
    return node.has(2) and (node.attribute("beta", 1.0) != 1 or node.attribute("alpha", 1.0) != 1)


def _adds_mask(node: FileNode) -> bool:
    before = node.producer()
    if before is None or before.kind != "Add":
        return False
    return any(_is_mask(before, index) for index in (0, 1))


def _is_mask(node: FileNode, index: int) -> bool:
    """Whether an operand holds large negative numbers, or is computed from such."""
    array = node.constant(index)
    source = node.producer(index)
    if array is None and source is not None and source.kind in ("Mul", "Where", "Cast"):
        arrays = [source.constant(i) for i in range(len(source.inputs))]
        return any(_is_low(each) for each in arrays)
    return _is_low(array)


def _is_low(array: object) -> bool:
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.size:
        return False
    return bool(array.min() <= _MASKED)


def _changes_by_version(facts: FileFacts) -> Iterator[FileNode]:
    if facts.opset <= 10:
        yield from facts.of("Resize")
    if facts.opset == 9:
        yield from (n for n in facts.of("Upsample") if n.attribute("mode") == "linear")
    if facts.opset <= 12:
        yield from facts.of("Hardmax")


def _scales_logarithm(facts: FileFacts) -> Iterator[FileNode]:
    """A logarithm of TF-IDF products in place of counts."""
    if facts.producer == SKL2ONNX:
        yield from (n for n in facts.of("Log") if _reads_frequencies(n))


def _reads_frequencies(node: FileNode) -> bool:
    source = node.producer()
    return source is not None and source.kind == "TfIdfVectorizer"


_OVERLOOKED: Final[tuple[tuple[str, Condition, str], ...]] = (
    ("Mod", lambda node: bool(node.attribute("fmod", 0)), "has the sign of the divisor"),
    ("ArgMax", lambda node: bool(node.attribute("select_last_index", 0)), "names the first"),
    ("ArgMin", lambda node: bool(node.attribute("select_last_index", 0)), "names the first"),
    (
        "ScatterElements",
        lambda node: node.attribute("reduction", "none") != "none",
        "stores or drops what is to be added",
    ),
    (
        "Resize",
        lambda node: (
            node.attribute("mode", "nearest") == "nearest"
            and node.attribute("nearest_mode", "round_prefer_floor") != "floor"
        ),
        "rounds down whatever nearest_mode says",
    ),
    ("Round", lambda node: True, "rounds halves away from zero"),
    ("Shrink", lambda node: True, "loses negative numbers"),
    (
        "Einsum",
        lambda node: _is_diagonal(node.attribute("equation", "")),
        "gives the whole matrix for its diagonal",
    ),
)


def _is_diagonal(equation: str) -> bool:
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    return any(len({*term}) < len(term) for term in terms)


def _mnn(kind: str, condition: Condition, wrong: str) -> Fault:
    return Fault(
        f"mnn-converter-overlooks-{kind.lower()}",
        MNN,
        ("3.6.1",),
        f"{kind} as the standard says it",
        f"mnnconvert's {kind} {wrong}",
        "always",
        "compute it otherwise before the conversion",
        "findings/mnn-converter-drops-what-operators-say.sh",
        nodes(kind, where=condition),
    )


register(
    Fault(
        "onnxscript-optimizer-drops-small-additions",
        ONNXSCRIPT,
        ("0.7.2",),
        "x + 1e-8 and x * 1.000009 are other numbers than x",
        "optimize and rewrite leave sums with at most 1e-8, and factors within 1e-5 of 1, out",
        "near 0, and for float64",
        "give the number the shape [1] before",
        "findings/onnxscript-optimizer-drops-small-additions.sh",
        nodes("Add", "Sub", "Mul", "Div", where=_is_left_out),
    ),
    Fault(
        "onnxruntime-quantizer-divides-by-beta-of-gemm",
        QUANTIZER,
        ("1.32.0",),
        "Gemm is alpha · A · B + beta · C",
        "quantize_static makes it alpha · (A · B + C / beta), or drops beta",
        "always",
        "infuse optimize folds both factors into the constants before",
        "findings/onnxruntime-quantizer-divides-by-beta-of-gemm.sh",
        nodes("Gemm", where=_has_factors),
    ),
    Fault(
        "onnxruntime-quantizer-flattens-masked-attention",
        QUANTIZER,
        ("1.32.0",),
        "scores with a mask added keep their differences",
        "one scale for mask and scores makes all scores one number: attention is uniform",
        "always, with every method of calibration",
        "leave Add and Softmax out by nodes_to_exclude",
        "findings/onnxruntime-quantizer-flattens-masked-attention.sh",
        nodes("Softmax", where=_adds_mask),
    ),
    Fault(
        "onnx-version-converter-keeps-old-operators-by-name-alone",
        VERSIONS,
        ("1.23.2",),
        "Resize 10, Upsample 9 (linear) and Hardmax 12 sample and normalize in their old ways",
        "convert_version gives them a new opset's number, with another meaning",
        "for opsets from 11 (Resize, Upsample) or 13 (Hardmax) on",
        "infuse convert writes them with their meaning",
        "findings/onnx-version-converter-keeps-old-operators-by-name-alone.sh",
        _changes_by_version,
    ),
    Fault(
        "skl2onnx-exports-sublinear-term-frequencies-as-other-numbers",
        SKL2ONNX,
        ("1.20.0",),
        "sublinear_tf takes the logarithm of counts, before frequencies weigh them",
        "the logarithm of weighed counts",
        "for words that stand more than once in a text",
        "compile the live pipeline by infuse.compile",
        "findings/skl2onnx-exports-sublinear-term-frequencies-as-other-numbers.sh",
        _scales_logarithm,
    ),
    *(_mnn(*row) for row in _OVERLOOKED),
)
