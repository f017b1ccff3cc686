"""Rewrites that change results, or that only the target can judge: they fire when they are asked
for.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.passes.rules.common import (
    attribute,
    data,
    is_one,
    require_float,
    require_shape,
    reshape_target,
    rounded,
    wide,
)
from infuse.passes.rules.convolution.convolution import convolution
from infuse.passes.rules.convolution.window import Window, conv_weights, require_explicit
from infuse.passes.rules.linear.chains import require_filled, wide_shape
from infuse.passes.rules.linear.linear import per_column
from infuse.rewrite import Rule, require


class SeparateConv(Rule):
    """Conv(x, w, b) ≈ → a filter or more for each channel alone, then Conv with one pixel, by
    singular values of w.

    `tolerance` is the largest error of the weights, relative to their norm, which a subclass may
    set otherwise; the fewest filters that keep it are taken.
    """

    tolerance: ClassVar[float] = 0.1

    rows = ("G22",)
    opt_in = True
    rounding = "the weights are approximated"
    examples = tuple(
        {"x": (1, 3, 6, 5), "w": _w, "b": (8,), "conv": {"pads": (1, 1, 1, 1), "strides": (2, 1)}}
        for _w in (
            np.einsum(
                "oc,chw->ochw", np.ones((8, 3)), np.linspace(-1, 1, 27).reshape(3, 3, 3)
            ).astype(np.float32),
        )
    )

    def __init__(self) -> None:
        self.error = 4 * self.tolerance

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        return convolution("Conv", x, w, b)

    def when(self, w: Value, conv: Node) -> None:
        require_float(w)
        require_filled(w)
        require(attribute(conv, "group") == 1, "there are groups")
        filters, channels, *kernel = wide_shape(w)
        require(math.prod(kernel) > 1, "a filter is one pixel")
        rank = self._rank(w)
        after = rank * channels * (math.prod(kernel) + filters)
        error = _error(wide(w), rank)
        require(
            after < math.prod(wide_shape(w)),
            f"with an error of {error:.1%} it would multiply as often",
        )

    def build(self, x: Value, w: Value, b: Value | None, conv: Node) -> Any:
        rank = self._rank(w)
        pixels, spatial = _separated(wide(w), rank)
        attributes = {**conv.op.attributes(), "group": wide_shape(w)[1]}
        alone = Call("Conv", (x, rounded(spatial, w)), attributes)
        point = {"kernel_shape": (1,) * (w.rank - 2)}
        return Call("Conv", (alone, rounded(pixels, w), *([] if b is None else [b])), point)

    def note(self, w: Value) -> str:
        rank = self._rank(w)
        return (
            f"the weights change by {_error(wide(w), rank):.2%}, with {rank} filters for each "
            "channel"
        )

    def _rank(self, w: Value) -> int:
        require(bool(np.isfinite(wide(w)).all()), "a weight is infinite")
        most = min(wide_shape(w)[0], math.prod(wide_shape(w)[2:]))
        return next((r for r in range(1, most + 1) if _error(wide(w), r) <= self.tolerance), most)


def _by_channel(weights: Array) -> Array:
    """Filters as one matrix for each channel, of filters by taps."""
    matrices: Array = weights.reshape(*weights.shape[:2], -1).swapaxes(0, 1)
    return matrices


def _error(weights: Array, rank: int) -> float:
    """How far the weights change, relative to their norm, with this many filters for each
    channel.
    """
    return _errors(weights.shape, weights.tobytes())[rank]


@lru_cache(maxsize=4)
def _errors(shape: tuple[int, ...], content: bytes) -> list[float]:
    """Errors by rank, from none."""
    weights = np.frombuffer(content, dtype=np.float64).reshape(shape)
    squares = np.linalg.svd(_by_channel(weights), compute_uv=False) ** 2
    total = max(float(squares.sum()), 1e-300)
    left = total - np.concatenate([[0.0], np.cumsum(squares.sum(axis=0))])
    return [float(n) for n in np.sqrt(np.maximum(left, 0) / total)]


def _separated(weights: Array, rank: int) -> tuple[Array, Array]:
    """Filters of one pixel, and filters of one channel, whose composition is nearest to
    `weights`.
    """
    filters, channels, *kernel = weights.shape
    left, sizes, right = np.linalg.svd(_by_channel(weights), full_matrices=False)
    scale = np.sqrt(sizes[:, None, :rank])
    pixels = (
        (left[:, :, :rank] * scale)
        .transpose(1, 0, 2)
        .reshape(filters, channels * rank, *(1,) * len(kernel))
    )
    spatial = (right[:, :rank] * scale.swapaxes(1, 2)).reshape(channels * rank, 1, *kernel)
    return pixels, spatial


class GemmAsConv(Rule):
    """Gemm(x, w, b) → Conv of one pixel with the columns of w as filters; for targets whose
    convolutions are faster
    """

    rows = ("G19",)
    opt_in = True
    rounding = "sums run in another order"
    examples = tuple(
        {"x": (2, 3), "w": w, "b": (1, 5), "gemm": given}
        for w, given in (((3, 5), {"alpha": 0.5, "beta": 2.0}), ((5, 3), {"transB": 1}))
    )

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        return [
            ops.gemm(x, ops.const(w), ops.const(ops.maybe(b)), name="gemm"),
            ops.matmul(x, ops.const(w)),
        ]

    def when(self, x: Value, w: Value, root: Node, b: Value | None = None) -> None:
        require_float(x)
        require_shape(x)
        require_filled(w)
        require(x.rank == 2 and w.rank == 2, "the operands are not matrices")
        require(not root.op.attributes().get("transA"), "rows become columns")
        if b is not None:
            per_column(b, root.output.shape[1])
        self._shapes(x, root)

    def build(self, x: Value, w: Value, root: Node, b: Value | None = None) -> Any:
        attributes = root.op.attributes()
        columns = (wide(w) if attributes.get("transB") else wide(w).T) * attributes.get(
            "alpha", 1.0
        )
        bias = [] if b is None else [rounded(per_column(b, len(columns)) * attributes["beta"], w)]
        image, rows = self._shapes(x, root)
        conv = Call("Conv", (ops.reshape(x, image), rounded(columns[..., None, None], w), *bias))
        return ops.reshape(conv, rows)

    def _shapes(self, x: Value, root: Node) -> tuple[Array, Array]:
        """The targets of the Reshapes before and after."""
        image, result = ((*v.shape, 1, 1) for v in (x, root.output))
        return reshape_target(x.shape, image), reshape_target(result, root.output.shape)


class ConvAsGemm(Rule):
    """Conv(x, w, b) of one pixel where x has one → Gemm between Reshapes; for targets whose
    products are faster
    """

    rows = ("G19",)
    opt_in = True
    rounding = "sums run in another order"
    examples = ({"x": (2, 3, 1, 1), "w": (5, 3, 1, 1), "b": (5,)},)

    def match(self, x: Variable, w: Variable, b: Variable) -> Any:
        return convolution("Conv", x, w, b)

    def when(self, x: Value, w: Value, conv: Node) -> None:
        require_float(w)
        require_shape(x)
        require_filled(w)
        require_explicit(conv)
        require(attribute(conv, "group") == 1, "there are groups")
        require(
            math.prod(conv_weights(conv)[2:]) == 1 and not any(Window.of(conv).pads),
            "it sees several pixels",
        )
        require(all(is_one(size) for size in x.shape[2:]), "x has several pixels")
        reshape_target(x.shape, x.shape[:2])

    def build(self, x: Value, w: Value, b: Value | None, conv: Node) -> Any:
        rows = ops.reshape(x, reshape_target(x.shape, x.shape[:2]))
        flat = data(w).reshape(wide_shape(w)[:2])
        gemm = Call("Gemm", (rows, flat, *([] if b is None else [b])), {"transB": 1})
        return ops.reshape(gemm, reshape_target(conv.output.shape[:2], conv.output.shape))


RULES = (SeparateConv, GemmAsConv, ConvAsGemm)
