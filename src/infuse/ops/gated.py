"""Gates and caches of language models; determinants; elements read as another type."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import InputError, ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, normalize_axis, same_dtype
from infuse.ops.core.elementwise import Floating, f32, require_kind, rounded
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.formula import Formulas, Term
from infuse.ops.core.samples import Floats, Ints, cases
from infuse.ops.core.sizes import (
    agree,
    agree_shapes,
    at_most,
    int64s,
    with_dim,
)
from infuse.ops.core.special import sigmoid
from infuse.ops.core.traits import Trait


class SwiGLU(Floating):
    """A · sigmoid(alpha · A) · B for two tensors of one shape."""

    alpha: float = 1.0

    since = 28
    fixed_axes = None
    accuracy = Rounding(
        ulp=4, abs=1e-7, why="far below zero the error of alpha · A grows in the exponential"
    )
    samples = cases(a=[(2, 3), Floats((50,), -30, 30)], b=[(2, 3), (50,)], alpha=[1.0, 1.702])

    def infer(self, a: Value, b: Value) -> Inferred:
        dtype = self.result_dtype(a, b)
        if a.tensor.shape is None or b.tensor.shape is None:
            return TensorType(dtype, a.tensor.shape or b.tensor.shape)
        return TensorType(
            dtype, agree_shapes(a.shape, b.shape, "the shapes of gate and value of SwiGLU")
        )

    def eval(self, a: Array, b: Array) -> Array:
        if a.shape != b.shape:
            raise ShapeError(
                f"gate and value of {self.name} have the shapes {a.shape} and {b.shape}"
            )
        return rounded(lambda x, y: x * sigmoid(self.alpha * x) * y, a, b)

    def scalar(self, e: Formulas, a: Term, b: Term) -> Term:
        return a * e.sigmoid(a if self.alpha == 1.0 else a * self.alpha) * b


class TensorScatter(Op):
    """`past_cache` with `update` written along one axis, from the index on that every row of the
    batch has.

    `linear` updates must fit, `circular` ones go on at the beginning.
    """

    traits = Trait.ZERO_FLOPS

    mode: str = "linear"
    axis: int = -2

    since = 24
    samples = (
        cases(
            past_cache=[(2, 3, 5, 4), (2, 4, 3)],
            update=[(2, 3, 2, 4), (2, 1, 3)],
            mode=["linear", "circular"],
        ),
        cases(
            past_cache=[(2, 3, 5, 4), (3, 4, 2)],
            update=[(2, 3, 2, 4), (3, 4, 2)],
            write_indices=[int64s(3, 0), int64s(0, 0, 0)],
            mode=["linear", "circular"],
        ),
        cases(
            past_cache=[(2, 3, 5)],
            update=[(2, 3, 4)],
            write_indices=[int64s(4, 2)],
            mode=["circular"],
            axis=[2],
        ),
        cases(past_cache=[Ints((2, 4, 3))], update=[Ints((2, 2, 3))], write_indices=[int64s(1, 2)]),
    )

    def infer(
        self, past_cache: Value, update: Value, write_indices: Value | None = None
    ) -> Inferred:
        dtype = same_dtype(self.name, past_cache, update)
        if self.mode not in ("linear", "circular"):
            raise TypeMismatchError(
                f"{self.name} has no mode {self.mode!r}", hint="linear or circular"
            )
        if write_indices is not None and write_indices.dtype != dtypes.int64:
            raise TypeMismatchError(
                f"the indices of {self.name} must be int64, found {write_indices.dtype}"
            )
        if past_cache.tensor.shape is None or update.tensor.shape is None:
            return TensorType(dtype, past_cache.tensor.shape)
        axis = normalize_axis(self.axis, past_cache.rank, self.name)
        if axis == 0:
            raise ShapeError(f"{self.name} writes along another axis than that of the batch")
        agree_shapes(
            with_dim(update.shape, axis, 1),
            with_dim(past_cache.shape, axis, 1),
            f"the other sizes of {self.name}",
        )
        at_most(update.shape[axis], past_cache.shape[axis], f"the elements that {self.name} writes")
        if write_indices is not None and write_indices.tensor.shape is not None:
            agree_shapes(
                write_indices.shape, past_cache.shape[:1], f"the number of indices of {self.name}"
            )
        return past_cache.type

    def eval(self, past_cache: Array, update: Array, write_indices: Array | None = None) -> Array:
        axis = normalize_axis(self.axis, past_cache.ndim, self.name)
        size, count = past_cache.shape[axis], update.shape[axis]
        starts = np.zeros(past_cache.shape[0], np.int64) if write_indices is None else write_indices
        result: Array = past_cache.copy()
        for row, start in enumerate(starts):
            places = start + np.arange(count)
            if self.mode == "circular":
                places = places % size
            elif count and (start < 0 or start + count > size):
                raise InputError(f"{self.name} writes {count} elements at {start} into {size}")
            lines = np.moveaxis(result[row], axis - 1, 0)
            lines[places] = np.moveaxis(update[row], axis - 1, 0)
        return result


class Det(Op):
    """The determinant of every square matrix in the last two axes; NaN where one holds NaN. Zeros
    are positive.
    """

    traits = Trait.FLOAT32
    since = 22
    accuracy = Rounding(
        ulp=2, abs=1e-12, why="eliminated in float64 in another order, and rounded once"
    )
    samples = cases(
        X=[(3, 3), (2, 4, 4), (1, 1), (2, 3, 6, 6), (5, 0, 0), f32(0, 1, 1, 0).reshape(2, 2)]
    )

    def infer(self, X: Value) -> Inferred:
        dtype = require_kind(self.name, X.dtype, "f")
        if X.tensor.shape is None:
            return TensorType(dtype, None)
        if X.rank < 2:
            raise ShapeError(f"{self.name} takes matrices, found {X.type}")
        agree(X.shape[-1], X.shape[-2], f"the sides of a matrix of {self.name}")
        return TensorType(dtype, X.shape[:-2])

    def eval(self, X: Array) -> Array:
        wide = X.astype(np.float64)
        unknown = np.isnan(wide).any(axis=(-2, -1))
        return np.asarray(np.where(unknown, np.nan, np.linalg.det(wide) + 0.0)).astype(X.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        """Elimination: a third of n³."""
        return Flops(dims.floordiv(shapes.size(0) * shapes.input(0)[-1], 3))


class BitCast(Op):
    """The bits of the elements read as another type of the same width; a boolean is whether one is
    set.
    """

    traits = Trait.ZERO_FLOPS

    to: DType

    since = 26
    samples = (
        cases(
            input=[Ints((3, 2), dtype=dtypes.int32), np.int32(7)],
            to=[dtypes.float32, dtypes.uint32],
        ),
        cases(input=[Ints((3, 2)), np.zeros((0, 3), np.int64)], to=[dtypes.float64, dtypes.uint64]),
        cases(
            input=[Ints((4,), 0, 999, dtypes.uint16)],
            to=[dtypes.float16, dtypes.bfloat16, dtypes.int16],
        ),
        cases(input=[Ints((4,), 0, 3, dtypes.uint8)], to=[dtypes.int8, dtypes.bool_]),
    )

    def infer(self, input: Value) -> Inferred:
        if input.dtype.bits != self.to.bits or not self.to.bits:
            raise TypeMismatchError(
                f"BitCast cannot read {input.dtype} as {self.to}: they differ in width"
            )
        return TensorType(self.to, input.tensor.shape)

    def eval(self, input: Array) -> Array:
        bits = (
            np.ascontiguousarray(input)
            .reshape(input.shape)
            .view(np.dtype(f"u{input.dtype.itemsize}"))
        )
        result: Array = bits != 0 if self.to.is_bool else bits.view(self.to.numpy)
        return result
