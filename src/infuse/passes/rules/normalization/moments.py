"""More spellings of normalizations and softmax: by length, with moments beside the scale, over
pixels, in float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import (
    attribute,
    axes_of,
    data,
    number,
    require_float,
    require_kernel,
    require_same_type,
    require_shape,
    rounded,
    wide,
)
from infuse.rewrite import Rule, require

_MOMENTS = "sums run in another order"
SHORTEST = 1e-9
"""Vectors shorter than this are taken for zero by everybody who divides by their length."""


def _reduce(kind: str, x: Any, axes: Any) -> Call:
    return Call(kind, (x, ops.const(axes)), {"keepdims": 1})


def _last_axes(x: Value, axes: Value) -> list[int]:
    """The last axes, all of known size, that `axes` lists; Refusal when it lists others."""
    numbers = sorted(axes_of(axes, x))
    require(
        numbers and numbers == list(range(x.rank - len(numbers), x.rank)),
        "it does not normalize the last axes",
    )
    sizes = [d for d in x.shape[numbers[0] :] if isinstance(d, int)]
    require(len(sizes) == len(numbers), "the size is not known")
    return sizes


def _square(x: Any) -> Any:
    return ops.one_of(x**2.0, x * x)


class FuseL2Normalization(Rule):
    """x / √(sum(x²) + ε) → RMSNormalization(x, 1 / √n) with ε / n, over n elements"""

    level = "extended"
    rows = ("G27",)
    rounding = _MOMENTS
    examples = tuple(
        {"x": (2, 3, 4), "a": a, "e": np.float32(1e-5)} for a in (int64s(-1), int64s(1, 2))
    )

    def match(self, x: Variable, a: Variable, e: Variable) -> Any:
        total = ops.one_of(
            _reduce("ReduceSum", _square(x), a), _reduce("ReduceSumSquare", x, a)
        ) + ops.const(e)
        root = ops.sqrt(total)
        return [x / root, x * ops.one_of(ops.reciprocal(root), 1.0 / root, total**-0.5)]

    def when(self, x: Value, a: Value, e: Value) -> None:
        require_float(x)
        require(0 < number(e) < math.inf, "nothing keeps it from dividing by zero")
        require(math.prod(_last_axes(x, a)) > 0, "there is nothing to sum")

    def build(self, x: Value, a: Value, e: Value) -> Any:
        sizes = _last_axes(x, a)
        count = math.prod(sizes)
        scale = np.full(sizes, 1 / math.sqrt(count)).astype(x.dtype.numpy)
        return ops.rms_normalization(x, scale, axis=-len(sizes), epsilon=number(e) / count)


class FuseLpNormalization(Rule):
    """x / max(‖x‖, ε) along one axis, ε tiny → LpNormalization(x), zero where x is"""

    level = "extended"
    rows = ("G27",)
    rounding = "vectors shorter than ε get the length one"
    examples = tuple(
        {"x": (2, 3, 4), "a": int64s(axis), "e": np.float32(e), "high": np.float32(np.inf)}
        for axis in (-1, 1)
        for e in (1e-12, 1e-20)
    )

    def match(self, x: Variable, a: Variable, e: Variable, high: Variable) -> Any:
        end = ops.const(ops.maybe(high))
        total = ops.one_of(_reduce("ReduceSum", _square(x), a), _reduce("ReduceSumSquare", x, a))
        one, two = _reduce("ReduceL1", x, a), ops.one_of(_reduce("ReduceL2", x, a), ops.sqrt(total))
        limits = (
            lambda norm: Call("Max", (norm, ops.const(e))),
            lambda norm: ops.clip(norm, ops.const(e), end),
        )
        squared = [ops.sqrt(limit(total), name="rooted") for limit in limits]
        return [
            x / part for part in (*(limit(n) for n in (one, two) for limit in limits), *squared)
        ]

    def when(
        self,
        x: Value,
        a: Value,
        e: Value,
        root: Node,
        high: Value | None = None,
        rooted: Node | None = None,
    ) -> None:
        require_float(x)
        require(high is None or number(high) == np.inf, "the length has an upper limit")
        require(len(axes_of(a, x)) == 1, "it runs over several axes")
        shortest = SHORTEST if rooted is None else SHORTEST**2
        require(0 < number(e) <= shortest, "short vectors stay short")
        require_same_type(x, root, "the constant stretches the shape")

    def build(self, x: Value, a: Value, root: Node) -> Any:
        limit = root.inputs[1]
        norm = limit.producer if limit is not None else None
        assert norm is not None
        kinds = [v.producer.kind for v in norm.operands() if v.producer is not None]
        return Call(
            "LpNormalization",
            (x,),
            {"axis": axes_of(a, x)[0] - x.rank, "p": 1 if "ReduceL1" in kinds else 2},
        )


def _centred(x: Any, a: Any) -> tuple[Any, Any, Any]:
    """The patterns of the mean, of what is left without it, and of the variance."""
    mean = _reduce("ReduceMean", x, a)
    centred = x - mean
    return mean, centred, _reduce("ReduceMean", _square(centred), a)


class FuseShiftedNormalization(Rule):
    """x · k + (b - mean(x) · k), k = s / √(var(x) + ε) → LayerNormalization(x, s, b) for constants
    s and b
    """

    level = "extended"
    rows = ("G27",)
    rounding = _MOMENTS
    examples = tuple(
        {"x": (2, 3, 4), "a": a, "e": np.float32(1e-3), "s": size, "b": size}
        for a, size in ((int64s(-1), (4,)), (int64s(1, 2), (3, 4)))
    )

    def match(self, x: Variable, a: Variable, e: Variable, s: Variable, b: Variable) -> Any:
        mean, _, variance = _centred(x, a)
        total = variance + ops.const(e)
        root = ops.sqrt(total)
        inverse = ops.one_of(ops.reciprocal(root), 1.0 / root, total**-0.5)
        scale = ops.one_of(inverse * ops.const(s), ops.const(s) / root)
        return x * scale + (ops.const(b) - mean * scale)

    def when(self, x: Value, a: Value, e: Value, s: Value, b: Value) -> None:
        require_float(x)
        number(e)
        sizes = _last_axes(x, a)
        for each in (s, b):
            require(
                list(each.shape) == sizes, "scale and shift are not those of what is normalized"
            )

    def build(self, x: Value, a: Value, e: Value, s: Value, b: Value) -> Any:
        return ops.layer_normalization(x, s, b, axis=-len(_last_axes(x, a)), epsilon=number(e))


def per_channel(x: Value, c: Value) -> Array:
    """A constant that meets x as one number for each channel; Refusal where it varies otherwise."""
    shape = (1,) * (x.rank - c.rank) + data(c).shape
    fits = len(shape) == x.rank and all(n == 1 for i, n in enumerate(shape) if i != 1)
    require(fits, "the constant varies over pixels or images")
    channels = x.shape[1]
    require(
        isinstance(channels, int) and shape[1] in (1, channels),
        "the constant stretches the channels",
    )
    assert isinstance(channels, int)
    result: Array = np.broadcast_to(data(c).reshape(-1), (channels,)).copy()
    return result


class FuseShiftedInstance(FuseShiftedNormalization):
    """x · k + (b - mean(x) · k), k = s / √(var(x) + ε) over pixels → InstanceNormalization(x, s, b)
    for constants s and b by channel
    """

    examples = (
        {
            "x": (2, 3, 4, 5),
            "a": int64s(2, 3),
            "e": np.float32(1e-3),
            "s": (1, 3, 1, 1),
            "b": (3, 1, 1),
        },
    )

    def when(self, x: Value, a: Value, e: Value, s: Value, b: Value) -> None:
        require_kernel(x)
        number(e)
        require_shape(x)
        pixels = sorted(axes_of(a, x)) == list(range(2, x.rank))
        require(x.rank >= 3 and pixels, "it does not run over pixels")
        require(math.prod(_last_axes(x, a)) > 1, "there is one pixel")
        for each in (s, b):
            per_channel(x, each)

    def build(self, x: Value, a: Value, e: Value, s: Value, b: Value) -> Any:
        args = [per_channel(x, each) for each in (s, b)]
        return ops.instance_normalization(x, *args, epsilon=number(e))


class FuseInstanceNormalization(Rule):
    """LayerNormalization(x) over the pixels of each channel, · s + b per channel →
    InstanceNormalization(x, s, b)
    """

    level = "extended"
    rows = ("G27",)
    rounding = _MOMENTS
    examples = (
        {
            "x": (2, 3, 4, 5),
            "a": np.ones((4, 5), np.float32),
            "s": (3, 1, 1),
            "b": (1, 3, 1, 1),
            "norm": {"axis": 2},
        },
    )

    def match(self, x: Variable, a: Variable, s: Variable, b: Variable) -> Any:
        return Call("LayerNormalization", (x, ops.const(a)), label="norm") * ops.const(
            s
        ) + ops.const(b)

    def when(self, x: Value, a: Value, s: Value, b: Value, norm: Node) -> None:
        require_kernel(x)
        require_shape(x)
        require(
            x.rank >= 3 and attribute(norm, "axis") % x.rank == 2, "it does not run over pixels"
        )
        require(not any(v.uses for v in norm.outputs[1:]), "its statistics are read")
        require(bool((data(a) == 1).all()), "pixels are scaled")
        for each in (s, b):
            per_channel(x, each)

    def build(self, x: Value, s: Value, b: Value, norm: Node) -> Any:
        args = [per_channel(x, each) for each in (s, b)]
        return ops.instance_normalization(x, *args, epsilon=attribute(norm, "epsilon"))


class FuseGroupedNormalization(Rule):
    """Reshape(LayerNormalization(Reshape(x, groups))) without weights → GroupNormalization(x)"""

    level = "extended"
    rows = ("G27",)
    rounding = _MOMENTS
    examples = (
        {
            "x": (2, 4, 3, 3),
            "s": int64s(0, 2, -1),
            "a": np.ones(18, np.float32),
            "t": int64s(2, 4, 3, 3),
        },
        {
            "x": (2, 4, 3, 3),
            "s": int64s(2, 2, 2, 9),
            "a": np.ones((2, 9), np.float32),
            "t": int64s(2, 4, 3, 3),
        }
        | {"norm": {"axis": 2}},
    )

    def match(self, x: Variable, s: Variable, a: Variable, t: Variable) -> Any:
        return ops.reshape(
            Call("LayerNormalization", (ops.reshape(x, s), ops.const(a)), label="norm"), t
        )

    def when(self, x: Value, a: Value, norm: Node, root: Node) -> None:
        require_float(x)
        require_same_type(x, root, "it does not come back to the shape")
        grouped = norm.output.shape
        require(x.rank >= 3 and isinstance(x.shape[1], int), "the channels are not known")
        require(
            len(grouped) >= 3 and attribute(norm, "axis") % len(grouped) == 2,
            "it does not normalize groups",
        )
        groups = grouped[1]
        divides = isinstance(groups, int) and groups > 0 and grouped[0] == x.shape[0]
        require(
            divides and int(x.shape[1]) % int(groups) == 0,
            "images are mixed, or groups have different sizes",
        )
        require(not any(v.uses for v in norm.outputs[1:]), "its statistics are read")
        require(bool((data(a) == 1).all()), "the elements are scaled")

    def build(self, x: Value, norm: Node) -> Any:
        channels, groups = x.shape[1], norm.output.shape[1]
        assert isinstance(channels, int)
        scale, shift = (f(channels, dtype=x.dtype.numpy) for f in (np.ones, np.zeros))
        attributes = {"num_groups": groups, "epsilon": attribute(norm, "epsilon")}
        return Call("GroupNormalization", (x, scale, shift), attributes)


class FuseNormalizationCasts(Rule):
    """Cast(LayerNormalization(Cast(x) to float32)) back → LayerNormalization(x), which computes in
    float32 itself
    """

    level = "extended"
    rows = ("G10", "G27")
    rounding = "the scale is applied before or after rounding"
    examples = (
        {
            "x": Call("Cast", ((3, 4),), {"to": dtypes.float16}),
            "s": np.ones(4, np.float32),
            "up": {"to": dtypes.float32},
            "down": {"to": dtypes.float16},
        },
    )

    def match(self, x: Variable, s: Variable) -> Any:
        up = ops.cast(x, name="up")
        kinds = ("LayerNormalization", "RMSNormalization")
        return [
            ops.cast(Call(kind, (up, ops.const(s)), label="norm"), name="down") for kind in kinds
        ]

    def when(self, x: Value, s: Value, up: Node, norm: Node, down: Node) -> None:
        require(x.dtype in (dtypes.float16, dtypes.bfloat16), f"{x.dtype} is not half precision")
        require(
            up.output.dtype == dtypes.float32 and down.output.dtype == x.dtype,
            "it computes in another type",
        )
        require(attribute(norm, "stash_type") == 1, "it computes in another type")
        require(not any(v.uses for v in norm.outputs[1:]), "its statistics are read")
        require(
            bool((wide(s) == rounded(wide(s), x).astype(np.float64)).all()),
            "the scale would be rounded",
        )

    def build(self, x: Value, s: Value, norm: Node) -> Any:
        return Call(norm.kind, (x, rounded(wide(s), x)), norm.op.attributes())


RULES = (
    FuseL2Normalization,
    FuseLpNormalization,
    FuseShiftedNormalization,
    FuseShiftedInstance,
    FuseInstanceNormalization,
    FuseGroupedNormalization,
    FuseNormalizationCasts,
)
