"""ONNX Runtime's own operators that ONNX's stand for, whatever the call is."""

from __future__ import annotations

from typing import Any, Final

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.microsoft.building import CallBuilder, reads

_HEADS: Final = ("mask_filter_value", "num_heads", "scale", "unidirectional")
_SPATIAL: Final = (1, 2, 3)
_MODES: Final = {"bilinear": "linear", "bicubic": "cubic"}
"""What interpolations are called since opset 20."""


def _real(make: CallBuilder, x: Value, scale: Value, zero: Value | None, *shape: int) -> Value:
    """What bytes stand for; scale and zero point in another shape where one is stated."""
    wide = make.cast(x, dtypes.float32)
    if zero is not None:
        shift = make.cast(zero, dtypes.float32)
        wide = make(wide - (make("Reshape", shift, make.ints(*shape)) if shape else shift))
    return make(wide * (make("Reshape", scale, make.ints(*shape)) if shape else scale))


@reads("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(
    make: CallBuilder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None,
    lengths: Value | None,
    h: Value | None,
    c: Value | None,
    p: Value | None,
    w_scale: Value,
    w_zero: Value | None,
    r_scale: Value,
    r_zero: Value | None = None,
    **attributes: Any,
) -> list[Value]:
    """LSTM of dequantized weights. ONNX Runtime rounds x and the state to 8 bits at each step; here
    only the weights are bytes.
    """
    weights = [
        make("Transpose", _real(make, *stored, 0, 1, -1), perm=(0, 2, 1))
        for stored in ((w, w_scale, w_zero), (r, r_scale, r_zero))
    ]
    return make.several(3, "LSTM", x, *weights, b, lengths, h, c, p, **attributes)


@reads("QAttention")
def quantized_attention(
    make: CallBuilder,
    x: Value,
    weights: Value,
    bias: Value | None,
    x_scale: Value,
    weights_scale: Value,
    mask: Value | None = None,
    x_zero: Value | None = None,
    weights_zero: Value | None = None,
    past: Value | None = None,
    **attributes: Any,
) -> list[Value]:
    """Attention of bytes."""
    operands = [
        _real(make, x, x_scale, x_zero),
        _real(make, weights, weights_scale, weights_zero),
    ]
    options = {name: attributes[name] for name in _HEADS if name in attributes}
    results: list[Value] = make.runtime(2, "Attention", *operands, bias, mask, past, **options)
    return results


@reads("QEmbedLayerNormalization")
def quantized_embedding(
    make: CallBuilder,
    ids: Value,
    segments: Value | None,
    *inputs: Value | None,
    **attributes: Any,
) -> list[Value] | None:
    """EmbedLayerNormalization of tables of bytes."""
    stored, rest = inputs[:5], inputs[5:]
    if segments is None or len(inputs) < 11 or stored[2] is None:
        return None
    mask, scales, zeros = rest[0], rest[1:6], [*rest[6:11], *[None] * 5][:5]
    tables = [
        _real(make, x, scale, zero)
        for x, scale, zero in zip(stored, scales, zeros)
        if x is not None and scale is not None
    ]
    options = {k: v for k, v in attributes.items() if k == "epsilon"}
    results: list[Value] = make.runtime(
        2, "EmbedLayerNormalization", ids, segments, *tables, mask, **options
    )
    return results


@reads("QLinearWhere")
def quantized_where(
    make: CallBuilder,
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    y: Value,
    y_scale: Value,
    y_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    """One or the other of two quantized tensors, quantized anew."""
    parts = _real(make, x, x_scale, x_zero), _real(make, y, y_scale, y_zero)
    return make("QuantizeLinear", make("Where", condition, *parts), scale, zero)


def _orders(spatial: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of images that become those with channels second, and back."""
    return (0, spatial + 1, *range(1, spatial + 1)), (0, *range(2, spatial + 2), 1)


@reads("NhwcMaxPool")
def nhwc_max_pool(
    make: CallBuilder, x: Value, *, kernel_shape: tuple[int, ...] = (), **window: Any
) -> Value | None:
    """MaxPool of images whose channels are last."""
    if len(kernel_shape) not in _SPATIAL:
        return None
    second, last = _orders(len(kernel_shape))
    moved = make("Transpose", x, perm=second)
    return make("Transpose", make("MaxPool", moved, kernel_shape=kernel_shape, **window), perm=last)


@reads("QLinearConv")
def quantized_conv(
    make: CallBuilder, x: Value, *others: Value | None, channels_last: int = 0, **window: Any
) -> Value | None:
    """QLinearConv, also of images whose channels are last."""
    if not channels_last:
        return make("QLinearConv", x, *others, **window)
    spatial = len(window.get("kernel_shape", ()))
    if spatial not in _SPATIAL:
        return None
    second, last = _orders(spatial)
    moved = make("Transpose", x, perm=second)
    return make("Transpose", make("QLinearConv", moved, *others, **window), perm=last)


@reads("Trilu")
def trilu(make: CallBuilder, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    """The upper or lower triangle."""
    return make("Trilu", x, k, upper=upper)


@reads("GatherND")
def gather_nd(make: CallBuilder, x: Value, at: Value) -> Value:
    """Slices at places."""
    return make("GatherND", x, at)


@reads("ExpandDims")
def expand_dims(make: CallBuilder, x: Value, axis: Value) -> Value:
    """An axis of size one more."""
    listed = make("Reshape", axis, make.ints(1))
    return make("Unsqueeze", x, make("Cast", listed, to=dtypes.int64))


@reads("TransposeMatMul")
def transpose_matmul(
    make: CallBuilder,
    a: Value,
    b: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> list[Value]:
    """FusedMatMul."""
    options = {"alpha": alpha, "transA": transA, "transB": transB}
    results: list[Value] = make.runtime(1, "FusedMatMul", a, b, **options)
    return results


@reads("Unique")
def unique(make: CallBuilder, x: Value) -> list[Value]:
    """The elements in the order in which they come first, where each of x is, and how often."""
    y, _, at, counts = make.several(4, "Unique", x, sorted=0)
    return [y, at, counts]


@reads("Range")
def numbers(make: CallBuilder, start: Value, limit: Value, delta: Value | None = None) -> Value:
    """Numbers from start on, one apart where nothing else is stated."""
    return make("Range", start, limit, 1 if delta is None else delta)


@reads("Pad")
def pad(
    make: CallBuilder,
    x: Value,
    pads: Value,
    value: Value | None = None,
    *,
    mode: str = "constant",
) -> Value:
    """Pad by a list or a matrix."""
    return make("Pad", x, make("Reshape", pads, make.ints(-1)), value, mode=mode)


@reads("GridSample")
def grid_sample(
    make: CallBuilder,
    x: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Value:
    """Samples of images at places."""
    options = {"align_corners": align_corners, "padding_mode": padding_mode}
    return make("GridSample", x, grid, mode=_MODES.get(mode, mode), **options)


@reads("CDist")
def distances(
    make: CallBuilder, a: Value, b: Value, *, metric: str = "sqeuclidean"
) -> Value | None:
    """The distance, or its square, of each row of a from each of b."""
    if metric not in ("euclidean", "sqeuclidean"):
        return None
    columns, rows = (make.reduce("ReduceSumSquare", x, 1) for x in (a, b))
    cross = make("MatMul", a, make("Transpose", b, perm=(1, 0)))
    whole = columns - (cross + cross) + make("Transpose", rows, perm=(1, 0))
    squares = make("Relu", whole)
    return make("Sqrt", squares) if metric == "euclidean" else squares


@reads("BiasAdd")
def bias_add(make: CallBuilder, x: Value, bias: Value, skip: Value) -> Value:
    """X + bias + skip."""
    return make(x + bias + skip)


@reads("BiasSplitGelu")
def bias_split_gelu(make: CallBuilder, x: Value, bias: Value) -> Value:
    """One half of x + bias times Gelu of the other."""
    halves = make.several(2, "Split", x + bias, axis=-1, num_outputs=2)
    return make(halves[0] * make("Gelu", halves[1]))


@reads("GroupNorm")
def group_norm(
    make: CallBuilder,
    x: Value,
    gamma: Value,
    beta: Value,
    *,
    groups: int,
    epsilon: float = 1e-5,
    channels_last: int = 1,
    activation: int = 0,
) -> Value | None:
    """GroupNormalization of images whose channels are last, times its sigmoid where that is asked
    for.
    """
    if not channels_last:
        return None
    second, last = _orders(2)
    operands = make("Transpose", x, perm=second), make.like(gamma, x), make.like(beta, x)
    options = {"num_groups": groups, "epsilon": epsilon}
    normal = make("Transpose", make("GroupNormalization", *operands, **options), perm=last)
    return make(normal * make("Sigmoid", normal)) if activation else normal
