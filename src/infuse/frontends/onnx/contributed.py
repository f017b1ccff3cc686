"""ONNX Runtime's own operators that mean what ONNX's do: functions that are read in their place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from onnx import AttributeProto, FunctionProto, NodeProto, parser

_DOMAIN: Final = "com.microsoft"
_SQUARES: Final = """
    axes = Constant <value_ints = [1]> ()
    a2 = ReduceSumSquare (a, axes)
    b2 = ReduceSumSquare (b, axes)
    turned = Transpose <perm = [1, 0]> (b)
    cross = MatMul (a, turned)
    double = Add (cross, cross)
    column = Sub (a2, double)
    row = Transpose <perm = [1, 0]> (b2)
    whole = Add (column, row)
    squares = Relu (whole)
"""
_GROUPS: Final = """
    turned = Transpose <perm = [0, 3, 1, 2]> (x)
    scale = CastLike (gamma, x)
    bias = CastLike (beta, x)
    grouped = GroupNormalization <num_groups: int = @groups, epsilon: float = @epsilon> (turned, scale, bias)
    normal = Transpose <perm = [0, 2, 3, 1]> (grouped)
"""
_TEXTS: Final = {
    "Trilu": "<upper: int = 1> (x, k) => (y) { y = Trilu <upper: int = @upper> (x, k) }",
    "GatherND": "(x, at) => (y) { y = GatherND (x, at) }",
    "ExpandDims": """(x, axis) => (y) {
        one = Constant <value_ints = [1]> ()
        flat = Reshape (axis, one)
        axes = Cast <to = 7> (flat)
        y = Unsqueeze (x, axes)
    }""",
    "TransposeMatMul": """<alpha: float = 1.0, transA: int = 0, transB: int = 0> (a, b) => (y) {
        y = com.microsoft.FusedMatMul <alpha: float = @alpha, transA: int = @transA, transB: int = @transB> (a, b)
    }""",
    "Unique": "(x) => (y, at, counts) { y, first, at, counts = Unique <sorted = 0> (x) }",
    "Range": "(start, limit, delta) => (y) { y = Range (start, limit, delta) }",
    "Range without delta": """(start, limit) => (y) {
        one = Constant <value_float = 1.0> ()
        delta = CastLike (one, start)
        y = Range (start, limit, delta)
    }""",
    "Pad": """<mode: string = "constant"> (x, pads, value) => (y) {
        all = Constant <value_ints = [-1]> ()
        flat = Reshape (pads, all)
        y = Pad <mode: string = @mode> (x, flat, value)
    }""",
    "GridSample": """<align_corners: int = 0, mode: string = "bilinear", padding_mode: string = "zeros">
    (x, grid) => (y) {
        y = GridSample <align_corners: int = @align_corners, mode: string = @mode,
                        padding_mode: string = @padding_mode> (x, grid)
    }""",
    "CDist euclidean": f"(a, b) => (y) {{ {_SQUARES} y = Sqrt (squares) }}",
    "CDist sqeuclidean": f"(a, b) => (y) {{ {_SQUARES} y = Identity (squares) }}",
    "BiasAdd": "(x, bias, skip) => (y) { shifted = Add (x, bias) y = Add (shifted, skip) }",
    "BiasSplitGelu": """(x, bias) => (y) {
        shifted = Add (x, bias)
        left, right = Split <axis = -1, num_outputs = 2> (shifted)
        curved = Gelu (right)
        y = Mul (left, curved)
    }""",
    "GroupNorm": f"<groups: int, epsilon: float = 1e-5> (x, gamma, beta) => (y) {{ {_GROUPS} y = Identity (normal) }}",
    "GroupNorm with swish": f"""<groups: int, epsilon: float = 1e-5> (x, gamma, beta) => (y) {{
        {_GROUPS}
        gate = Sigmoid (normal)
        y = Mul (normal, gate)
    }}""",
}
_OPSETS: Final = {"GridSample": 16}


def contributed(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> FunctionProto | None:
    """What stands for a call of ONNX Runtime's own operator, None where nothing does."""
    if node.domain != _DOMAIN:
        return None
    kind = node.op_type
    if kind == "Range" and (len(node.input) < 3 or not node.input[2]):
        kind = "Range without delta"
    elif kind == "CDist":
        kind = f"CDist {attributes['metric'].s.decode() if 'metric' in attributes else 'sqeuclidean'}"
    elif kind == "GroupNorm":
        if "channels_last" in attributes and not attributes["channels_last"].i:
            return None
        kind = "GroupNorm with swish" if "activation" in attributes and attributes["activation"].i else kind
    return _function(kind) if kind in _TEXTS else None


@cache
def _function(kind: str) -> FunctionProto:
    opset = _OPSETS.get(kind, 21)
    imports = f'<domain: "{_DOMAIN}", opset_import: ["": {opset}, "{_DOMAIN}": 1]>'
    return parser.parse_function(f"{imports} {kind.partition(' ')[0]} {_TEXTS[kind]}")
