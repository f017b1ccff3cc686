"""Normalizations recognised from their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value, known_ints
from infuse.rewrite import Rule, require


def _mean(x: Any, axes: Any, name: str = "") -> Call:
    return ops.reduce_mean(x, ops.const(axes), keepdims=1, name=name)


class FuseLayerNormalization(Rule):
    """(x - mean(x)) / √(mean((x - mean(x))²) + ε) · scale + shift → LayerNormalization"""

    level = "extended"
    rows = ("G27",)

    def match(self, x: Any, a: Any, e: Any, scale: Any, shift: Any) -> Any:
        centred = x - _mean(x, a)
        spread = ops.one_of(centred**2.0, centred * centred)
        deviation = ops.sqrt(_mean(spread, a, name="variance") + ops.const(e))
        return (centred / deviation) * ops.const(scale) + ops.const(shift)

    def when(self, x: Value, a: Value, e: Value, scale: Value, shift: Value) -> None:
        known = known_ints(a)
        require(x.tensor.shape is not None and known is not None, "the axes are not known")
        require(known in ((-1,), (x.rank - 1,)), "it does not normalize the last axis")
        require(e.tensor.size == 1, "ε varies")
        n = (x.shape[-1],)
        require(scale.shape == n and shift.shape == n, "scale and shift are not per column")

    def build(self, x: Value, e: Value, scale: Value, shift: Value) -> Any:
        assert e.const is not None
        return ops.layer_normalization(x, scale, shift, axis=-1, epsilon=float(e.const.reshape(-1)[0]))


class FuseRMSNormalization(Rule):
    """x / √(mean(x²) + ε) · scale → RMSNormalization"""

    level = "extended"
    rows = ("G27",)

    def match(self, x: Any, a: Any, e: Any, scale: Any) -> Any:
        squares = ops.one_of(x**2.0, x * x)
        root = ops.sqrt(_mean(squares, a) + ops.const(e))
        normal = ops.one_of(x / root, x * ops.reciprocal(root), x * (1.0 / root))
        return normal * ops.const(scale)

    def when(self, x: Value, a: Value, e: Value, scale: Value) -> None:
        known = known_ints(a)
        require(x.tensor.shape is not None and known is not None, "the axes are not known")
        require(known in ((-1,), (x.rank - 1,)), "it does not normalize the last axis")
        require(e.tensor.size == 1 and scale.shape == (x.shape[-1],), "ε or scale do not fit")

    def build(self, x: Value, e: Value, scale: Value) -> Any:
        assert e.const is not None
        return ops.rms_normalization(x, scale, axis=-1, epsilon=float(e.const.reshape(-1)[0]))


class GlobalAveragePool(Rule):
    """ReduceMean over all spatial axes, sizes kept → GlobalAveragePool"""

    level = "extended"
    rows = ("G31",)

    def match(self, x: Any, a: Any) -> Any:
        return ops.reduce_mean(x, ops.const(a), keepdims=1)

    def when(self, x: Value, a: Value, root: Node) -> None:
        known = known_ints(a)
        require(x.tensor.shape is not None and known is not None, "the axes are not known")
        assert known is not None
        axes = sorted(n % x.rank for n in known if isinstance(n, int))
        require(x.rank in (3, 4, 5) and axes == list(range(2, x.rank)), "other axes than the spatial ones")
        require(x.dtype.is_float and isinstance(x.shape[1], int), "the channels are not known")

    def build(self, x: Value) -> Any:
        return ops.global_average_pool(x)


class MergeReduceMeans(Rule):
    """ReduceMean over one axis, then over another → ReduceMean over both"""

    rows = ("G31",)

    def match(self, x: Any, a: Any, b: Any) -> Any:
        inner = ops.reduce_mean(x, ops.const(a), keepdims=1)
        return ops.reduce_mean(inner, ops.const(b), keepdims=1)

    def when(self, x: Value, a: Value, b: Value) -> None:
        first, second = known_ints(a), known_ints(b)
        require(x.tensor.shape is not None and first and second, "the axes are not known")
        require(not set(_axes(first, x)) & set(_axes(second, x)), "an axis is reduced twice")

    def build(self, x: Value, a: Value, b: Value) -> Any:
        axes = sorted({*_axes(known_ints(a), x), *_axes(known_ints(b), x)})
        return ops.reduce_mean(x, np.asarray(axes, dtype=np.int64), keepdims=1)


def _axes(known: Any, x: Value) -> list[int]:
    return [n % x.rank for n in known or () if isinstance(n, int)]


RULES = (FuseLayerNormalization, FuseRMSNormalization, MergeReduceMeans, GlobalAveragePool)
