"""Work after (and before) a convolution with constant weights, folded into the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call
from infuse.ir.graph import Array, Node, Value
from infuse.rewrite import Rule, require

_CONV = ("Conv", "ConvTranspose")


def convolution(kind: str, x: Any, w: Any, b: Any) -> Call:
    """The pattern of a convolution with constant weights and perhaps a constant bias."""
    return Call(kind, (x, ops.const(w), ops.const(ops.maybe(b))), label="conv")


def per_channel(c: Array, conv: Node) -> Array:
    """A constant that broadcasts against N, C, spatial… as one number per channel; Refusal when it varies otherwise."""
    channels, rank = conv.output.shape[1], conv.output.rank
    require(isinstance(channels, int), "the number of channels is not known")
    assert isinstance(channels, int)
    shape = (1,) * (rank - c.ndim) + c.shape
    require(len(shape) == rank, "the constant has more axes than the result")
    require(all(n == 1 for i, n in enumerate(shape) if i != 1), "the constant varies over pixels or images")
    return np.broadcast_to(c.reshape(-1), (channels,)).astype(np.float64)


def out_axis(conv: Node, values: Array) -> Array:
    """One number per output channel, shaped to scale the weights."""
    w = conv.inputs[1]
    assert w is not None
    if conv.kind == "Conv":
        return values.reshape(-1, *(1,) * (w.rank - 1))
    groups = conv.op.attributes()["group"]
    per_group = values.reshape(groups, 1, -1)
    inner = w.shape[0]
    assert isinstance(inner, int)
    return np.repeat(per_group, inner // groups, axis=1).reshape(inner, -1, *(1,) * (w.rank - 2))


def rebuilt(conv: Node, x: Value, weights: Array, bias: Array | None, dtype: dtypes.DType) -> Call:
    """The same convolution with other weights."""
    args: list[Any] = [x, weights.astype(dtype.numpy)]
    if bias is not None:
        args.append(bias.astype(dtype.numpy))
    return Call(conv.kind, tuple(args), conv.op.attributes())


def old_bias(b: Value | None, channels: int) -> Array:
    """The bias in float64, zeros when there is none."""
    return np.zeros(channels) if b is None or b.const is None else b.const.astype(np.float64)


class FuseConvBatchNormalization(Rule):
    """BatchNormalization(Conv(x, w, b)) → Conv(x, w · s, (b - mean) · s + shift), s = scale / √(var + ε)"""

    rows = ("G11", "G17")

    def match(self, x: Any, w: Any, b: Any, scale: Any, shift: Any, mean: Any, var: Any) -> Any:
        given = [ops.const(v) for v in (scale, shift, mean, var)]
        return [ops.batch_normalization(convolution(kind, x, w, b), *given, name="norm") for kind in _CONV]

    def when(self, w: Value, norm: Node) -> None:
        require(w.dtype.is_float, f"weights of {w.dtype}")
        require(not any(v.uses for v in norm.outputs[1:]), "the running statistics are read")

    def build(
        self,
        conv: Node,
        x: Value,
        w: Value,
        b: Value | None,
        scale: Value,
        shift: Value,
        mean: Value,
        var: Value,
        norm: Node,
    ) -> Any:
        s, t, m, v = (c.const.astype(np.float64) for c in (scale, shift, mean, var) if c.const is not None)
        factor = s / np.sqrt(v + norm.op.attributes()["epsilon"])
        assert w.const is not None
        weights = w.const.astype(np.float64) * out_axis(conv, factor)
        return rebuilt(conv, x, weights, (old_bias(b, len(factor)) - m) * factor + t, w.dtype)


class FuseConvScale(Rule):
    """Conv(x, w, b) · c → Conv(x, w · c, b · c), one number per channel (also / c)"""

    rows = ("G13",)

    def match(self, x: Any, w: Any, b: Any, c: Any) -> Any:
        convs = [convolution(kind, x, w, b) for kind in _CONV]
        return [*(conv * ops.const(c) for conv in convs), *(conv / ops.const(c) for conv in convs)]

    def when(self, conv: Node, c: Value, w: Value, root: Node) -> None:
        require(w.dtype.is_float, f"weights of {w.dtype}")
        require(conv.output.type == root.output.type, "the constant stretches the shape")
        assert c.const is not None
        per_channel(c.const, conv)

    def build(self, conv: Node, x: Value, w: Value, b: Value | None, c: Value, root: Node) -> Any:
        assert c.const is not None and w.const is not None
        factor = per_channel(c.const, conv)
        factor = 1 / factor if root.kind == "Div" else factor
        weights = w.const.astype(np.float64) * out_axis(conv, factor)
        bias = None if b is None else old_bias(b, len(factor)) * factor
        return rebuilt(conv, x, weights, bias, w.dtype)


class FuseConvAdd(Rule):
    """Conv(x, w, b) + c → Conv(x, w, b + c), one number per channel (also - c)"""

    rows = ("G12",)

    def match(self, x: Any, w: Any, b: Any, c: Any) -> Any:
        convs = [convolution(kind, x, w, b) for kind in _CONV]
        return [*(conv + ops.const(c) for conv in convs), *(conv - ops.const(c) for conv in convs)]

    def when(self, conv: Node, c: Value, w: Value, root: Node) -> None:
        require(w.dtype.is_float, f"weights of {w.dtype}")
        require(conv.output.type == root.output.type, "the constant stretches the shape")
        assert c.const is not None
        per_channel(c.const, conv)

    def build(self, conv: Node, x: Value, w: Value, b: Value | None, c: Value, root: Node) -> Any:
        assert c.const is not None and w.const is not None
        addend = per_channel(c.const, conv) * (-1 if root.kind == "Sub" else 1)
        return rebuilt(conv, x, w.const, old_bias(b, len(addend)) + addend, w.dtype)


class BatchNormalizationAsScale(Rule):
    """BatchNormalization(x) → x · a + c with constants per channel"""

    level = "all"
    rows = ("G20",)

    def match(self, x: Any, scale: Any, shift: Any, mean: Any, var: Any) -> Any:
        return ops.batch_normalization(x, *(ops.const(v) for v in (scale, shift, mean, var)), name="norm")

    def when(self, x: Value, norm: Node) -> None:
        require(x.tensor.shape is not None and x.dtype.is_float, "the rank is not known")
        require(not any(v.uses for v in norm.outputs[1:]), "the running statistics are read")

    def build(self, x: Value, scale: Value, shift: Value, mean: Value, var: Value, norm: Node) -> Any:
        s, t, m, v = (c.const.astype(np.float64) for c in (scale, shift, mean, var) if c.const is not None)
        factor = s / np.sqrt(v + norm.op.attributes()["epsilon"])
        shape = (-1, *(1,) * (x.rank - 2))
        a, c = (n.reshape(shape).astype(x.dtype.numpy) for n in (factor, t - m * factor))
        return x * a + c


class FusePadConv(Rule):
    """Conv(Pad(x, zeros), w) → Conv(x, w) with larger pads"""

    rows = ("G12",)

    def match(self, x: Any, p: Any, more: Any, rest: Any) -> Any:
        return ops.conv(ops.pad(x, p, ops.rest(more), mode="constant", name="pad"), ops.rest(rest), name="conv")

    def when(self, x: Value, pad: Node, conv: Node) -> None:
        given = conv.op.attributes()
        require(given["auto_pad"] == "NOTSET", "the convolution pads by itself")
        fill = pad.input(2)
        require(fill is None or (fill.const is not None and not fill.const.any()), "the padding is not zero")
        require(pad.input(3) is None, "the padding names axes")
        amounts = pad.inputs[1].const if pad.inputs[1] is not None else None
        require(amounts is not None, "the padding is computed")
        assert amounts is not None
        rank = len(amounts) // 2
        require(not amounts[[0, 1, rank, rank + 1]].any(), "images or channels are padded")
        require(bool((amounts >= 0).all()), "the padding cuts off")

    def build(self, x: Value, p: Value, conv: Node, rest: tuple[Value, ...]) -> Any:
        assert p.const is not None
        rank = len(p.const) // 2
        extra = [int(n) for n in (*p.const[2:rank], *p.const[rank + 2 :])]
        given = dict(conv.op.attributes())
        own = given["pads"] or (0,) * len(extra)
        given["pads"] = tuple(a + b for a, b in zip(own, extra))
        return Call("Conv", (x, *rest), given)


RULES = (FuseConvBatchNormalization, FuseConvScale, FuseConvAdd, BatchNormalizationAsScale, FusePadConv)
