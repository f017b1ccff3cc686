"""Work after (and before) a convolution with constant weights, folded into the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.contents import known_ints
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.cleanup.merging import (
    magnitude,
    reach,
    require_addend,
    require_factors,
    require_sum,
)
from infuse.passes.rules.common import (
    attribute,
    data,
    require_float,
    require_own,
    require_unread,
    rounded,
    wide,
)
from infuse.rewrite import Rule, require

_CONV = ("Conv", "ConvTranspose")
_SCALED = "weights are scaled in place of results"


_STATISTICS = {"scale": (4,), "shift": (4,), "mean": (4,), "var": (4,)}
_EXAMPLES = (
    {"x": (2, 4, 5, 5), "w": (4, 4, 3, 3), "b": (4,), "c": (4, 1, 1), **_STATISTICS},
    {
        "x": (2, 4, 6),
        "w": (4, 2, 2),
        "b": (4,),
        "c": (),
        **_STATISTICS,
        "conv": {"group": 2, "strides": (2,)},
    },
)


def convolution(kind: str, x: Any, w: Any, b: Any, name: str = "conv") -> Call:
    """The pattern of a convolution with constant weights and perhaps a constant bias."""
    return Call(kind, (x, ops.const(w), ops.const(ops.maybe(b))), label=name)


def per_channel(c: Value, conv: Node) -> Array:
    """A constant that meets the result of a convolution as one number per channel; Refusal when it
    varies otherwise.
    """
    return by_channel(c, conv.output)


def by_channel(c: Value, x: Value) -> Array:
    """A constant that meets x (N, C, spatial…) as one number per channel; Refusal when it varies
    otherwise.
    """
    shape = x.tensor.shape
    require(shape is not None and isinstance(shape[1], int), "the number of channels is not known")
    assert shape is not None
    require(c.rank <= len(shape), "the constant stretches the shape")
    shape_ = (1,) * (len(shape) - c.rank) + data(c).shape
    require(
        all(n == 1 for i, n in enumerate(shape_) if i != 1),
        "the constant varies over pixels or images",
    )
    require(shape_[1] in (1, shape[1]), "the constant stretches the shape")
    return np.broadcast_to(data(c).reshape(-1), (int(shape[1]),)).astype(np.float64)


def out_axis(conv: Node, values: Array, w: Value) -> Array:
    """One number per output channel, shaped to scale the weights."""
    if conv.kind == "Conv":
        return values.reshape(-1, *(1,) * (w.rank - 1))
    groups, inner = attribute(conv, "group"), data(w).shape[0]
    columns = values.size // groups
    per_group = np.repeat(values.reshape(groups, 1, columns), inner // groups, axis=1)
    return per_group.reshape(inner, columns, *(1,) * (w.rank - 2))


def rebuilt(conv: Node, x: Value, w: Value, weights: Array, bias: Array | None) -> Call:
    """The same convolution with other weights."""
    args: list[Any] = [x, rounded(weights, w)]
    if bias is not None:
        args.append(rounded(bias, w))
    return Call(conv.kind, tuple(args), conv.op.attributes())


def old_bias(b: Value | None, channels: int) -> Array:
    """The bias in float64, zeros when there is none."""
    return np.zeros(channels) if b is None else wide(b)


def scale_and_shift(norm: Node) -> tuple[Array, Array]:
    """A BatchNormalization with constant statistics as x · factor + addend."""
    scale, shift, mean, variance = (wide(v) for v in norm.inputs[1:5] if v is not None)
    factor: Array = scale / np.sqrt(variance + attribute(norm, "epsilon"))
    return factor, shift - mean * factor


class FuseConvBatchNormalization(Rule):
    """BatchNormalization(Conv(x, w, b)) → Conv(x, w · s, (b - mean) · s + shift), s = scale / √(var
    + ε)
    """

    rows = ("G11", "G17")
    rounding = _SCALED
    examples = _EXAMPLES

    def match(
        self,
        x: Variable,
        w: Variable,
        b: Variable,
        scale: Variable,
        shift: Variable,
        mean: Variable,
        var: Variable,
    ) -> Any:
        statistics = [ops.const(v) for v in (scale, shift, mean, var)]
        return [
            ops.batch_normalization(convolution(kind, x, w, b), *statistics, name="norm")
            for kind in _CONV
        ]

    def when(self, w: Value, norm: Node) -> None:
        require_float(w)
        require_unread(norm, "the running statistics are")

    def build(self, conv: Node, x: Value, w: Value, b: Value | None, norm: Node) -> Any:
        factor, addend = scale_and_shift(norm)
        require_factors(w.dtype, w, factor)
        own = old_bias(b, len(factor)) * factor
        require_sum(own, addend, w.dtype, magnitude(w) * magnitude(factor))
        bias = own + addend
        return rebuilt(conv, x, w, wide(w) * out_axis(conv, factor, w), bias)


class FuseConvScale(Rule):
    """Conv(x, w, b) · c → Conv(x, w · c, b · c), one number per channel (also / c)"""

    rows = ("G13",)
    rounding = _SCALED
    examples = _EXAMPLES

    def match(self, x: Variable, w: Variable, b: Variable, c: Variable) -> Any:
        convs = [convolution(kind, x, w, b) for kind in _CONV]
        return [*(conv * ops.const(c) for conv in convs), *(conv / ops.const(c) for conv in convs)]

    def when(self, conv: Node, c: Value, w: Value, root: Node) -> None:
        require_float(w)
        require_own(w)
        factor = per_channel(c, conv)
        require(root.kind == "Mul" or bool(np.all(factor != 0)), "it divides by zero")

    def build(self, conv: Node, x: Value, w: Value, b: Value | None, c: Value, root: Node) -> Any:
        factor = per_channel(c, conv)
        factor = 1 / factor if root.kind == "Div" else factor
        require_factors(w.dtype, w, factor)
        bias = None if b is None else wide(b) * factor
        return rebuilt(conv, x, w, wide(w) * out_axis(conv, factor, w), bias)


class FuseConvAdd(Rule):
    """Conv(x, w, b) + c → Conv(x, w, b + c), one number per channel (also - c)"""

    rows = ("G12",)
    rounding = "the bias is added first"
    examples = _EXAMPLES

    def match(self, x: Variable, w: Variable, b: Variable, c: Variable) -> Any:
        convs = [convolution(kind, x, w, b) for kind in _CONV]
        return [*(conv + ops.const(c) for conv in convs), *(conv - ops.const(c) for conv in convs)]

    def when(self, conv: Node, c: Value, w: Value) -> None:
        require_float(w)
        per_channel(c, conv)

    def build(self, conv: Node, x: Value, w: Value, b: Value | None, c: Value, root: Node) -> Any:
        addend = per_channel(c, conv) * (-1 if root.kind == "Sub" else 1)
        require_addend(addend, w.dtype, reach(w, len(addend)))
        if b is not None:
            require_sum(wide(b), addend, w.dtype, magnitude(w))
        return rebuilt(conv, x, w, data(w), old_bias(b, len(addend)) + addend)


class FuseBatchNormalizationConv(Rule):
    """Conv(BatchNormalization(x)) without padding → Conv(x) with weights that scale and shift"""

    rows = ("G17",)
    rounding = _SCALED
    examples = _EXAMPLES

    def match(
        self,
        x: Variable,
        w: Variable,
        b: Variable,
        scale: Variable,
        shift: Variable,
        mean: Variable,
        var: Variable,
    ) -> Any:
        statistics = [ops.const(v) for v in (scale, shift, mean, var)]
        return convolution("Conv", ops.batch_normalization(x, *statistics, name="norm"), w, b)

    def when(self, w: Value, norm: Node, conv: Node) -> None:
        require_float(w)
        require_unread(norm, "the running statistics are")
        padding = attribute(conv, "pads")
        require(
            not any(padding or ()) and attribute(conv, "auto_pad") in ("NOTSET", "VALID"),
            "it pads with zeros",
        )
        scale = norm.inputs[1]
        assert scale is not None
        require(scale.shape == (attribute(conv, "group") * w.shape[1],), "the channels do not fit")
        require(w.tensor.size != 0, "the weights are empty")

    def build(self, x: Value, w: Value, b: Value | None, norm: Node, conv: Node) -> Any:
        factor, addend = scale_and_shift(norm)
        require_factors(w.dtype, w, factor)
        require_addend(addend, w.dtype, magnitude(factor))
        groups = attribute(conv, "group")
        kernel = wide(w)
        shape = (groups, kernel.shape[0] // groups, *kernel.shape[1:])
        spread = (groups, 1, kernel.shape[1], *(1,) * (kernel.ndim - 2))
        scaled = (kernel.reshape(shape) * factor.reshape(spread)).reshape(kernel.shape)
        moved = (
            (kernel.reshape(shape) * addend.reshape(spread))
            .reshape(kernel.shape[0], -1)
            .sum(axis=1)
        )
        return rebuilt(conv, x, w, scaled, old_bias(b, len(moved)) + moved)


class BatchNormalizationAsScale(Rule):
    """BatchNormalization(x) → x · a + c with constants per channel"""

    level = "all"
    rows = ("G20",)
    rounding = "scale and deviation are one factor"
    examples = ({"x": (2, 4, 3, 3), **_STATISTICS}, {"x": (3, 4), **_STATISTICS})

    def match(
        self, x: Variable, scale: Variable, shift: Variable, mean: Variable, var: Variable
    ) -> Any:
        return ops.batch_normalization(x, *(ops.const(v) for v in (scale, shift, mean, var)))

    def when(self, x: Value, root: Node) -> None:
        require_float(x)
        require(x.tensor.shape is not None, "the rank is not known")
        require_unread(root, "the running statistics are")

    def build(self, x: Value, root: Node) -> Any:
        factor, addend = (
            rounded(n.reshape(-1, *(1,) * (x.rank - 2)), x) for n in scale_and_shift(root)
        )
        return x * factor + addend


_AROUND = int64s(0, 0, 1, 0, 0, 0, 2, 1)


class FusePadConv(Rule):
    """Conv(Pad(x, zeros), w) → Conv(x, w) with larger pads"""

    rows = ("G12",)
    examples = (
        {"x": (1, 4, 5, 5), "p": _AROUND, "fill": np.float32(0), "rest": [(3, 4, 3, 3), (3,)]},
    )

    def match(self, x: Variable, p: Variable, fill: Variable, rest: Variable) -> Any:
        padded = ops.pad(x, p, ops.const(ops.maybe(fill)), mode="constant")
        return ops.conv(padded, ops.rest(rest), name="conv")

    def when(self, x: Value, p: Value, fill: Value | None, conv: Node) -> None:
        require(
            attribute(conv, "auto_pad") in ("NOTSET", "VALID"), "the convolution pads by itself"
        )
        require(fill is None or not data(fill).any(), "the padding is not zero")
        pads = known_ints(p)
        require(
            pads is not None and all(isinstance(n, int) for n in pads), "the padding is computed"
        )
        amounts = [int(n) for n in pads or () if isinstance(n, int)]
        rank = len(amounts) // 2
        require(
            not any(amounts[i] for i in (0, 1, rank, rank + 1)), "images or channels are padded"
        )
        require(min(amounts) >= 0, "the padding cuts off")

    def build(self, x: Value, p: Value, conv: Node, rest: tuple[Value, ...]) -> Any:
        amounts = [int(n) for n in known_ints(p) or () if isinstance(n, int)]
        rank = len(amounts) // 2
        extra = (*amounts[2:rank], *amounts[rank + 2 :])
        attributes = dict(conv.op.attributes())
        own = (attributes["auto_pad"] == "NOTSET" and attributes["pads"]) or (0,) * len(extra)
        attributes["pads"] = tuple(a + b for a, b in zip(own, extra))
        attributes["auto_pad"] = "NOTSET"
        return Call("Conv", (x, *rest), attributes)


RULES = (
    FuseConvBatchNormalization,
    FuseConvScale,
    FuseConvAdd,
    FuseBatchNormalizationConv,
    BatchNormalizationAsScale,
    FusePadConv,
)
