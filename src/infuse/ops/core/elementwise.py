"""Families of elementwise operators by the element types they take, and helpers to evaluate
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import Shape
from infuse.ops.core.base import Array, Elementwise, same_dtype
from infuse.ops.core.signatures import signature
from infuse.ops.core.traits import Trait

_KINDS = {"f": "floating", "i": "signed integer", "u": "unsigned integer", "b": "boolean"}


def require_kind(name: str, dtype: DType, kinds: str) -> DType:
    """`dtype` when its kind is one of `kinds` (letters as in `DType.kind`), else
    TypeMismatchError.
    """
    if dtype.kind not in kinds:
        expected = " or ".join(_KINDS[k] for k in kinds)
        raise TypeMismatchError(f"{name} takes {expected} elements, found {dtype}")
    return dtype


def require_shape(name: str, result: Shape | None, shape: Shape | None) -> None:
    """ShapeError when broadcasting the other inputs would enlarge an input that sets the output's
    shape.
    """
    if result is None or shape is None:
        return
    if len(result) > len(shape) or not all(
        must_equal(r, s) for r, s in zip(result[::-1], shape[::-1])
    ):
        raise ShapeError(
            f"{name} cannot broadcast its inputs to the shape ({', '.join(map(str, shape))})"
        )


class Numeric(Elementwise, abstract=True):
    """Takes numbers of one type and gives that type; families below take fewer kinds."""

    kinds: ClassVar[str] = "fiu"

    @classmethod
    def derived_traits(cls) -> Trait:
        if cls.domain or "f" not in cls.kinds:
            return Trait.NONE
        operands = signature(cls)
        is_function = len(operands.names) == 1 and not operands.variadic
        return Trait.FUNCTION if is_function else Trait.NONE

    def result_dtype(self, *xs: Value | None) -> DType:
        return require_kind(self.name, same_dtype(self.name, *xs), self.kinds)


class Signed(Numeric, abstract=True):
    """Takes numbers that may be negative."""

    kinds = "fi"


class Floating(Numeric, abstract=True):
    """Takes floating-point numbers."""

    kinds = "f"


class Integral(Numeric, abstract=True):
    """Takes integers."""

    kinds = "iu"


class Logical(Numeric, abstract=True):
    """Takes booleans."""

    kinds = "b"


class Predicate(Numeric, abstract=True):
    """Takes values of one type and gives booleans."""

    def result_dtype(self, *xs: Value | None) -> DType:
        require_kind(self.name, same_dtype(self.name, *xs), self.kinds)
        return dtypes.bool_


def widened(x: Array, wide: Any = np.float32) -> Array:
    """`x` in a type that computes: half-precision and smaller floats become float32, others
    stay.
    """
    narrow = dtypes.by_numpy(x.dtype).is_float and x.dtype.itemsize < 4
    return x.astype(wide) if narrow else x


def mean(x: Array, axes: tuple[int, ...] | None) -> Array:
    """The mean along axes, which are kept; that of nothing is NaN."""
    total: Array = x.sum(axis=axes, keepdims=True)
    axes = tuple(range(x.ndim)) if axes is None else axes
    result: Array = total / np.prod([x.shape[a] for a in axes], dtype=x.dtype)
    return result


def rounded(function: Callable[..., Any], *xs: Array) -> Array:
    """`function` of floats, computed in float64 and rounded once to the type of the first."""
    result: Array = np.asarray(function(*(x.astype(np.float64) for x in xs)))
    return result.astype(xs[0].dtype)


def fused(a: Array, b: Array, c: Array) -> Array:
    """A · b + c of float32, rounded once."""
    product, rest = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = np.asarray(product + rest)
    added = total - product
    lost = (product - (total - added)) + (rest - added)
    # An inexact sum becomes odd, so that it lies on no middle between two float32.
    even = (total.view(np.int64) % 2 == 0) & ((lost < 0) | (lost > 0))
    odd = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    result: Array = np.where(even, odd, total).astype(np.float32)
    return result


def larger(a: Array, b: Array) -> Array:
    """The larger one of two elements; NaN where one is NaN, the first where both are equal, as
    zeros are of whatever sign.
    """
    result: Array = np.where((a >= b) | (a != a), a, b)
    return result


def smaller(a: Array, b: Array) -> Array:
    """The smaller one of two elements, alike."""
    result: Array = np.where((a <= b) | (a != a), a, b)
    return result


def on_dims(function: Callable[..., Dim | None], *xs: Array) -> Array | None:
    """`function` of dimensions, element by element with broadcasting; None when one result is not
    known.
    """
    grids = np.broadcast_arrays(*(np.asarray(x, dtype=object) for x in xs))
    result = np.empty(grids[0].shape, dtype=object)
    for index in np.ndindex(result.shape):
        value = function(*(grid[index] for grid in grids))
        if value is None:
            return None
        result[index] = value
    return result


def f32(*values: float) -> Array:
    """A float32 vector, for samples."""
    return np.array(values, dtype=np.float32)
