"""Normalizations, softmax and pooling recognised from their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.cleanup.merging import (
    magnitude,
    merged_sum,
    require_addend,
    require_factors,
)
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
from infuse.rewrite.matcher import is_number

_MOMENTS = "means are summed in another order"


def _mean(x: Any, axes: Any) -> Call:
    return Call("ReduceMean", (x, ops.const(axes)), {"keepdims": 1})


def _last_axes(x: Value, axes: Value) -> int:
    """The first of the last axes that `axes` lists, all of known size; Refusal when it lists
    others.
    """
    numbers = sorted(axes_of(axes, x))
    require(
        numbers == list(range(x.rank - len(numbers), x.rank)) and numbers,
        "it does not normalize the last axes",
    )
    require(all(isinstance(d, int) for d in x.shape[numbers[0] :]), "the size is not known")
    return numbers[0]


def _ones(x: Value, axis: int) -> Array:
    return np.ones([int(d) for d in x.shape[axis:] if isinstance(d, int)], dtype=x.dtype.numpy)


_MOMENT_EXAMPLES = tuple(
    {"x": (2, 3, 4), "a": axes, "e": np.float32(1e-5), "s": (4,)}
    for axes in (int64s(-1), int64s(2, 1))
)


def _scaled(x: Any, root: Any, inverse: Any) -> list[Any]:
    """The patterns of x / root that meets a constant scale first."""
    scale = Variable("s", constant=True)
    return [x * (scale / root), x * (inverse * scale)]


class FuseLayerNormalization(Rule):
    """(x - mean(x)) / √(mean((x - mean(x))²) + ε) → LayerNormalization"""

    level = "extended"
    rows = ("G27",)
    rounding = _MOMENTS
    examples = _MOMENT_EXAMPLES

    def match(self, x: Variable, a: Variable, e: Variable) -> Any:
        mean = _mean(x, a)
        centred = x - mean
        variance = self._variance(x, mean, centred, a)
        deviation = ops.sqrt(variance + ops.const(e))
        inverse = ops.one_of(
            ops.reciprocal(deviation), 1.0 / deviation, (variance + ops.const(e)) ** -0.5
        )
        return [centred / deviation, centred * inverse, *_scaled(centred, deviation, inverse)]

    def when(self, x: Value, a: Value, e: Value, root: Node) -> None:
        require_float(x)
        _last_axes(x, a)
        require(0 <= number(e) < np.inf, "ε is negative or no number")
        require_same_type(x, root, "the scale stretches the shape")

    def build(self, x: Value, a: Value, e: Value, s: Value | None = None) -> Any:
        axis = _last_axes(x, a)
        norm = ops.layer_normalization(x, _ones(x, axis), axis=axis - x.rank, epsilon=number(e))
        return norm if s is None else norm * s

    def _variance(self, x: Any, mean: Any, centred: Any, a: Any) -> Any:
        return _mean(ops.one_of(centred**2.0, centred * centred), a)


class FuseFastVariance(FuseLayerNormalization):
    """(x - mean(x)) / √(mean(x²) - mean(x)² + ε) → LayerNormalization, whose variance does not
    cancel out
    """

    rounding = "the variance is not the difference of two rounded numbers"
    error = 1e-3

    def when(self, x: Value, a: Value, e: Value, root: Node) -> None:
        require(x.dtype.bits >= 32, f"{x.dtype} has too few bits to tell the variance by")
        super().when(x, a, e, root)

    def _variance(self, x: Any, mean: Any, centred: Any, a: Any) -> Any:
        square = ops.one_of(mean**2.0, mean * mean)
        between = _mean(ops.one_of(x**2.0, x * x), a) - square
        return ops.one_of(between, ops.relu(between), ops.max(between, 0.0))


class FuseRMSNormalization(Rule):
    """x / √(mean(x²) + ε) → RMSNormalization, also with sum(x²) / n for the mean"""

    level = "extended"
    rows = ("G27",)
    rounding = _MOMENTS
    examples = tuple(
        {"x": (2, 3, 4), "a": axes, "e": np.float32(1e-5), "s": (4,), "c": np.float32(c)}
        for axes, n in ((int64s(-1), 4), (int64s(2, 1), 12))
        for c in (n, 1 / n)
    )

    def match(self, x: Variable, a: Variable, e: Variable) -> Any:
        total = Call("ReduceSumSquare", (x, ops.const(a)), {"keepdims": 1}, label="total")
        shared = Variable("c", constant=True)
        squares = _mean(ops.one_of(x**2.0, x * x), a)
        mean = ops.one_of(squares, total * shared, total / shared) + ops.const(e)
        root = ops.sqrt(mean)
        inverse = ops.one_of(ops.reciprocal(root), 1.0 / root, mean**-0.5)
        return [x / root, x * inverse, *_scaled(x, root, inverse)]

    def when(
        self,
        x: Value,
        a: Value,
        e: Value,
        root: Node,
        c: Value | None = None,
        total: Node | None = None,
    ) -> None:
        require_float(x)
        require_same_type(x, root, "the scale stretches the shape")
        axis = _last_axes(x, a)
        if c is not None and total is not None:
            terms = _ones(x, axis).size
            (use,) = total.output.uses
            assert isinstance(use.user, Node)
            require(terms > 0, "there are no terms")
            by = terms if use.user.kind == "Div" else 1 / terms
            require(is_number(c, by), f"it is not the mean of {terms} elements")
        require(0 <= number(e) < np.inf, "ε is negative or no number")

    def build(self, x: Value, a: Value, e: Value, s: Value | None = None) -> Any:
        axis = _last_axes(x, a)
        norm = ops.rms_normalization(x, _ones(x, axis), axis=axis - x.rank, epsilon=number(e))
        return norm if s is None else norm * s


_EXAMPLES = (
    {"x": (2, 3, 4), "s": (4,), "b": (4,), "c": (4,)},
    {"x": (2, 3, 4), "s": (3, 4), "b": (3, 4), "c": (1, 4), "norm": {"axis": 1}},
    {"x": (2, 4, 3, 3), "s": (4,), "b": (4,), "c": (4, 1, 1), "norm": {"num_groups": 2}},
)


def _normalizations(x: Any, s: Any, b: Any) -> list[Call]:
    """The patterns of normalizations with constant scale, and shift where there is one."""
    scale, shift = ops.const(s), ops.const(b)
    layer = [(x, scale), (x, scale, shift)]
    operands = [*(("LayerNormalization", args) for args in layer), ("RMSNormalization", (x, scale))]
    return [
        Call(kind, args, label="norm")
        for kind, args in [*operands, ("GroupNormalization", (x, scale, shift))]
    ]


class FuseNormalizationScale(Rule):
    """LayerNormalization(x, s, b) · c → LayerNormalization(x, s · c, b · c) (RMS and Group too)"""

    level = "extended"
    rows = ("G17", "G27")
    rounding = "two factors are multiplied first"
    examples = _EXAMPLES

    def match(self, x: Variable, s: Variable, b: Variable, c: Variable) -> Any:
        return [norm * ops.const(c) for norm in _normalizations(x, s, b)]

    def when(self, x: Value, s: Value, c: Value, norm: Node) -> None:
        require_float(s)
        _affine(c, s, x, norm)

    def build(self, x: Value, s: Value, c: Value, norm: Node) -> Any:
        factor, b = _affine(c, s, x, norm), norm.input(2)
        require_factors(s.dtype, s, factor)
        args = [rounded(wide(v) * factor, v) for v in (s, b) if v is not None]
        return Call(norm.kind, (x, *args), norm.op.attributes())


class FuseNormalizationShift(Rule):
    """LayerNormalization(x, s, b) + c → LayerNormalization(x, s, b + c) (Group too)"""

    level = "extended"
    rows = ("G17", "G27")
    rounding = "two addends are added first"
    examples = _EXAMPLES

    def match(self, x: Variable, s: Variable, b: Variable, c: Variable) -> Any:
        norms = _normalizations(x, s, b)
        return [norm + ops.const(c) for norm in norms if norm.kind != "RMSNormalization"]

    def when(self, x: Value, s: Value, c: Value, norm: Node) -> None:
        require_float(s)
        _affine(c, s, x, norm)

    def build(self, x: Value, s: Value, c: Value, norm: Node) -> Any:
        addend, b = _affine(c, s, x, norm), norm.input(2)
        require_addend(addend, s.dtype, magnitude(s))
        shift = rounded(addend, s) if b is None else merged_sum(wide(b), addend, s, magnitude(s))
        return Call(norm.kind, (x, s, shift), norm.op.attributes())


def _affine(c: Value, s: Value, x: Value, norm: Node) -> Array:
    """A constant that meets a normalization's result as numbers like its scale; Refusal when it
    varies otherwise.
    """
    require_shape(x)
    require(c.rank <= x.rank, "the constant stretches the shape")
    shape = (1,) * (x.rank - c.rank) + data(c).shape
    if norm.kind == "GroupNormalization":
        require(
            all(n == 1 for i, n in enumerate(shape) if i != 1),
            "the constant varies over pixels or images",
        )
        per_channel: tuple[int, ...] = shape[1:2]
    else:
        axis = attribute(norm, "axis") % x.rank
        require(all(n == 1 for n in shape[:axis]), "the constant varies over what is normalized")
        extra = x.rank - axis - s.rank
        require(
            extra >= 0 and all(n == 1 for n in shape[axis : axis + extra]),
            "the constant stretches the scale",
        )
        per_channel = shape[axis + extra :]
    require(
        all(n in (1, m) for n, m in zip(per_channel, data(s).shape)),
        "the constant stretches the shape",
    )
    return np.broadcast_to(data(c).reshape(per_channel), data(s).shape).astype(np.float64)


class FuseGroupNormalization(Rule):
    """Reshape(InstanceNormalization(Reshape(x, groups))) → GroupNormalization(x)"""

    level = "extended"
    rows = ("G27",)
    rounding = _MOMENTS
    examples = (
        {
            "x": (2, 4, 3, 3),
            "s": int64s(0, 2, -1),
            "t": int64s(2, 4, 3, 3),
            "a": np.ones(2, np.float32),
            "b": np.zeros(2, np.float32),
        },
    )

    def match(self, x: Variable, s: Variable, a: Variable, b: Variable, t: Variable) -> Any:
        norm = ops.instance_normalization(
            ops.reshape(x, s), ops.const(a), ops.const(b), name="norm"
        )
        return ops.reshape(norm, t)

    def when(self, x: Value, a: Value, b: Value, norm: Node, root: Node) -> None:
        require_same_type(x, root, "it does not come back to the shape")
        require(x.rank >= 3 and isinstance(x.shape[1], int), "the channels are not known")
        groups, grouped = data(a).size, norm.output.shape
        require(len(grouped) >= 3 and grouped[:2] == (x.shape[0], groups), "images are mixed")
        require(int(x.shape[1]) % groups == 0, "groups have different sizes")
        require(bool((data(a) == 1).all() and (data(b) == 0).all()), "the groups are scaled")

    def build(self, x: Value, a: Value, norm: Node) -> Any:
        channels = x.shape[1]
        assert isinstance(channels, int)
        attributes = {"num_groups": data(a).size, "epsilon": attribute(norm, "epsilon")}
        scale, shift = (f(channels, dtype=x.dtype.numpy) for f in (np.ones, np.zeros))
        return Call("GroupNormalization", (x, scale, shift), attributes)


class FuseSoftmax(Rule):
    """exp(x - max(x)) / sum(exp(x - max(x))) → Softmax(x)"""

    level = "extended"
    rows = ("G27",)
    rounding = "exponentials are summed in another order"

    def match(self, x: Variable, a: Variable, b: Variable) -> Any:
        powers = ops.exp(x - Call("ReduceMax", (x, ops.const(a)), {"keepdims": 1}))
        return powers / Call("ReduceSum", (powers, ops.const(b)), {"keepdims": 1})

    def when(self, x: Value, a: Value, b: Value) -> None:
        require_float(x)
        axes = axes_of(a, x)
        require(len(axes) == 1, "it runs over several axes")
        require(axes_of(b, x) == axes, "maximum and sum run over different axes")

    def build(self, x: Value, a: Value) -> Any:
        return ops.softmax(x, axis=axes_of(a, x)[0] - x.rank)


class GlobalAveragePool(Rule):
    """ReduceMean over all spatial axes, sizes kept → GlobalAveragePool"""

    level = "extended"
    rows = ("G31",)
    rounding = _MOMENTS

    def match(self, x: Variable, a: Variable) -> Any:
        return _mean(x, a)

    def when(self, x: Value, a: Value, root: Node) -> None:
        require_kernel(x)
        axes = sorted(axes_of(a, x))
        require(
            x.rank in (3, 4, 5) and axes == list(range(2, x.rank)),
            "other axes than the spatial ones",
        )
        require(isinstance(x.shape[1], int), "the channels are not known")
        require(0 not in x.shape[2:], "it is the mean of nothing")
        require(not self._is_moment(x, root), "it may be part of a normalization")

    def build(self, x: Value) -> Any:
        return ops.global_average_pool(x)

    def _is_moment(self, x: Value, root: Node) -> bool:
        """Whether the mean is taken off what it is the mean of, or is one of squares."""
        maker = x.producer
        squares = maker is not None and (
            (maker.kind == "Mul" and maker.inputs[0] is maker.inputs[1])
            or (maker.kind == "Pow" and is_number(maker.inputs[1], 2.0))
        )
        return squares or any(
            user.kind == "Sub" and x in user.inputs for user in root.output.users()
        )


RULES = (
    FuseLayerNormalization,
    FuseFastVariance,
    FuseRMSNormalization,
    FuseNormalizationScale,
    FuseNormalizationShift,
    FuseGroupNormalization,
    FuseSoftmax,
    GlobalAveragePool,
)
