"""ONNX Runtime's own operators that mean what ONNX's do: functions that are read in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from onnx import AttributeProto, FunctionProto, NodeProto, helper, parser

from infuse.frontends.onnx import contributed_calls as calls, contributed_gates as gates
from infuse.frontends.onnx.contributed_experts import experts, quantized_experts
from infuse.ir.graph import Value

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
    grouped = GroupNormalization <num_groups: int = @groups, epsilon: float = @epsilon>
        (turned, scale, bias)
    normal = Transpose <perm = [0, 2, 3, 1]> (grouped)
"""


def _real(name: str, scale: str, zero: str, result: str, shape: str = "") -> str:
    """What bytes stand for; scale and zero point in another shape where one is named, and none
    where it is empty.
    """
    lines = [f"{name}_f = Cast <to = 1> ({name})"]
    number = f"{name}_f"
    if shape:
        lines.append(f"{scale}_r = Reshape ({scale}, {shape})")
    if zero:
        lines.append(f"{zero}_f = Cast <to = 1> ({zero})")
        if shape:
            lines.append(f"{zero}_r = Reshape ({zero}_f, {shape})")
        lines.append(f"{name}_d = Sub ({name}_f, {zero}{'_r' if shape else '_f'})")
        number = f"{name}_d"
    return "\n".join([*lines, f"{result} = Mul ({number}, {scale}{'_r' if shape else ''})"])


_WINDOW: Final = {
    "auto_pad": "string",
    "dilations": "ints",
    "kernel_shape": "ints",
    "pads": "ints",
    "strides": "ints",
}
_GATES: Final = {
    "activation_alpha": "floats",
    "activation_beta": "floats",
    "activations": "strings",
    "clip": "float",
    "direction": "string",
    "hidden_size": "int",
    "input_forget": "int",
}
_HEADS: Final = {
    "mask_filter_value": "float",
    "num_heads": "int",
    "scale": "float",
    "unidirectional": "int",
}


def _names(attributes: Mapping[str, str]) -> str:
    """Attributes as a function declares them."""
    return ", ".join(attributes)


def _passed(attributes: Mapping[str, str]) -> str:
    """Attributes that a call takes over from the function."""
    return ", ".join(f"{name}: {kind} = @{name}" for name, kind in attributes.items())


def _attending(shifted: bool, shifted_weights: bool) -> str:
    """Attention of bytes, with zero points of x and of the weights or without."""
    return f"""<{_names(_HEADS)}> (xq, wq, b, xs, ws, mask, xz, wz, past) => (y, present) {{
        {_real("xq", "xs", "xz" if shifted else "", "x")}
        {_real("wq", "ws", "wz" if shifted_weights else "", "w")}
        y, present = com.microsoft.Attention <{_passed(_HEADS)}> (x, w, b, mask, past)
    }}"""


def _pooled(spatial: int) -> str:
    """A MaxPool of images whose channels are last."""
    first = [0, spatial + 1, *range(1, spatial + 1)]
    last = [0, *range(2, spatial + 2), 1]
    window = {**_WINDOW, "ceil_mode": "int"}
    return f"""<{_names(window)}> (x) => (y) {{
        moved = Transpose <perm = {first}> (x)
        pooled = MaxPool <{_passed(window)}> (moved)
        y = Transpose <perm = {last}> (pooled)
    }}"""


def _convolved(spatial: int) -> str:
    """A QLinearConv, of images whose channels are last where there are `spatial` axes besides."""
    window = {**_WINDOW, "group": "int"}
    head = f"<{_names(window)}> (x, xs, xz, w, ws, wz, ys, yz, b) => (y)"
    call = f"QLinearConv <{_passed(window)}>"
    if not spatial:
        return f"{head} {{ y = {call} (x, xs, xz, w, ws, wz, ys, yz, b) }}"
    first = [0, spatial + 1, *range(1, spatial + 1)]
    return f"""{head} {{
        moved = Transpose <perm = {first}> (x)
        z = {call} (moved, xs, xz, w, ws, wz, ys, yz, b)
        y = Transpose <perm = {[0, *range(2, spatial + 2), 1]}> (z)
    }}"""


_TEXTS: Final = {
    # ONNX Runtime rounds x and the state to 8 bits at each step; here only the weights are bytes.
    "DynamicQuantizeLSTM": f"""<{_names(_GATES)}>
    (x, wq, rq, b, lengths, h, c, p, ws, wz, rs, rz) => (y, yh, yc) {{
        rows = Constant <value_ints = [0, 1, -1]> ()
        {_real("wq", "ws", "wz", "wt", "rows")}
        {_real("rq", "rs", "rz", "rt", "rows")}
        w = Transpose <perm = [0, 2, 1]> (wt)
        r = Transpose <perm = [0, 2, 1]> (rt)
        y, yh, yc = LSTM <{_passed(_GATES)}> (x, w, r, b, lengths, h, c, p)
    }}""",
    **{f"QAttention of {x}{w}": _attending(bool(x), bool(w)) for x in (0, 1) for w in (0, 1)},
    "QEmbedLayerNormalization": f"""<epsilon>
    (ids, segments, wq, pq, sq, gq, bq, mask, ws, ps, ss, gs, bs, wz, pz, sz, gz, bz)
    => (y, index) {{
        {_real("wq", "ws", "wz", "w")}
        {_real("pq", "ps", "pz", "p")}
        {_real("sq", "ss", "sz", "s")}
        {_real("gq", "gs", "gz", "g")}
        {_real("bq", "bs", "bz", "b")}
        y, index = com.microsoft.EmbedLayerNormalization <epsilon: float = @epsilon>
                   (ids, segments, w, p, s, g, b, mask)
    }}""",
    "QLinearWhere": f"""(c, xq, xs, xz, yq, ys, yz, zs, zz) => (z) {{
        {_real("xq", "xs", "xz", "x")}
        {_real("yq", "ys", "yz", "y")}
        chosen = Where (c, x, y)
        z = QuantizeLinear (chosen, zs, zz)
    }}""",
    **{f"NhwcMaxPool of {n}": _pooled(n) for n in (1, 2, 3)},
    **{f"QLinearConv of {n}": _convolved(n) for n in (0, 1, 2, 3)},
    "Trilu": "<upper: int = 1> (x, k) => (y) { y = Trilu <upper: int = @upper> (x, k) }",
    "GatherND": "(x, at) => (y) { y = GatherND (x, at) }",
    "ExpandDims": """(x, axis) => (y) {
        one = Constant <value_ints = [1]> ()
        flat = Reshape (axis, one)
        axes = Cast <to = 7> (flat)
        y = Unsqueeze (x, axes)
    }""",
    "TransposeMatMul": """<alpha: float = 1.0, transA: int = 0, transB: int = 0> (a, b) => (y) {
        y = com.microsoft.FusedMatMul <alpha: float = @alpha, transA: int = @transA,
                                       transB: int = @transB> (a, b)
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
    "GridSample": """<align_corners: int = 0, mode: string = "bilinear",
                  padding_mode: string = "zeros">
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
    "GroupNorm": f"""<groups: int, epsilon: float = 1e-5> (x, gamma, beta) => (y) {{
        {_GROUPS}
        y = Identity (normal)
    }}""",
    "GroupNorm with swish": f"""<groups: int, epsilon: float = 1e-5> (x, gamma, beta) => (y) {{
        {_GROUPS}
        gate = Sigmoid (normal)
        y = Mul (normal, gate)
    }}""",
}
_OPSETS: Final = {"GridSample": 16}
MAKERS: Final[Mapping[str, calls.Maker]] = {
    "BranchwiseRMSNorm": gates.branchwise_rms_norm,
    "CropAndResize": calls.crop_and_resize,
    "EngramGate": gates.engram_gate,
    "GatedAdd": gates.gated_add,
    "GatedRMSNorm": gates.gated_rms_norm,
    "GatherBlockQuantized": calls.gather_block_quantized,
    "HyperConnectionPostMix": gates.hyper_connection_post_mix,
    "HyperConnectionPreMix": gates.hyper_connection_pre_mix,
    "LinearAttentionGate": gates.linear_attention_gate,
    "MatMulBnb4": calls.matmul_bnb4,
    "MatMulInteger16": gates.matmul_integer_16,
    "MoE": experts,
    "MurmurHash3": calls.murmur_hash,
    "QMoE": quantized_experts,
    "SampleOp": gates.sample_op,
    "ScaledSiLU": gates.scaled_silu,
    "UnfoldTensor": calls.unfold_tensor,
}
"""Operators whose function depends on the call."""


def contributed(
    node: NodeProto, attributes: Mapping[str, AttributeProto], inputs: Sequence[Value | None]
) -> FunctionProto | None:
    """What stands for a call of ONNX Runtime's own operator, None where nothing does."""
    if node.domain != _DOMAIN:
        return None
    kind = node.op_type
    if kind in MAKERS:
        text = MAKERS[kind](
            {name: _plain(attribute) for name, attribute in attributes.items()}, inputs
        )
        return None if text is None else _parsed(kind, text, 21)
    if kind == "Range" and (len(node.input) < 3 or not node.input[2]):
        kind = "Range without delta"
    elif kind == "CDist":
        kind = (
            f"CDist {attributes['metric'].s.decode() if 'metric' in attributes else 'sqeuclidean'}"
        )
    elif kind == "GroupNorm":
        if "channels_last" in attributes and not attributes["channels_last"].i:
            return None
        kind = (
            "GroupNorm with swish"
            if "activation" in attributes and attributes["activation"].i
            else kind
        )
    elif kind == "QAttention":
        kind = f"{kind} of {_is_given(node, 6):d}{_is_given(node, 7):d}"
    elif kind == "QEmbedLayerNormalization" and not (_is_given(node, 1) and _is_given(node, 4)):
        return None
    elif kind == "NhwcMaxPool":
        kind = (
            f"{kind} of "
            f"{len(attributes['kernel_shape'].ints) if 'kernel_shape' in attributes else 0}"
        )
    elif kind == "QLinearConv":
        last = "channels_last" in attributes and attributes["channels_last"].i
        sized = last and "kernel_shape" in attributes
        kind = f"{kind} of {len(attributes['kernel_shape'].ints) if sized else 0}"
        if last and kind.endswith(" 0"):
            return None
    return _function(kind) if kind in _TEXTS else None


def functions_of(domain: str) -> frozenset[str]:
    """The operators of a domain that are read as functions of others."""
    return (
        frozenset([*(kind.partition(" ")[0] for kind in _TEXTS), *MAKERS])
        if domain == _DOMAIN
        else frozenset()
    )


def _is_given(node: NodeProto, index: int) -> bool:
    return index < len(node.input) and bool(node.input[index])


def _plain(attribute: AttributeProto) -> Any:
    """A number or text of an attribute, as a maker takes it."""
    value = helper.get_attribute_value(attribute)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _function(kind: str) -> FunctionProto:
    return _parsed(kind.partition(" ")[0], _TEXTS[kind], _OPSETS.get(kind, 21))


@lru_cache(maxsize=256)
def _parsed(kind: str, text: str, opset: int) -> FunctionProto:
    imports = f'<domain: "{_DOMAIN}", opset_import: ["": {opset}, "{_DOMAIN}": 1]>'
    return parser.parse_function(f"{imports} {kind} {text}")
