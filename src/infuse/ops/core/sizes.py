"""What type inference knows of sizes: fresh symbols for the unknown ones, and elements of inputs
that name sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.dtypes import DType
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal, must_hold
from infuse.ir.types import MapType, OptionalType, SequenceType, Shape, TensorType, Type
from infuse.ops.core.base import Array, normalize_axis

FAR = 2**31 - 1
"""From here on an index means "to the end"."""


@dataclass
class _Names:
    """Names that fresh sizes must avoid, and the last number given per hint."""

    taken: Callable[[str], bool]
    last: dict[str, int] = field(default_factory=dict)


_process = _Names(dims.is_used)
_names: ContextVar[_Names] = ContextVar("names", default=_process)


def fresh_dim(hint: str) -> Dim:
    """A size that only run time knows: a new symbol `_hint_1`, `_hint_2`, … that equals no other
    size.
    """
    names = _names.get()
    number = names.last.get(hint, 0) + 1
    while names.taken(f"_{hint}_{number}"):
        number += 1
    names.last[hint] = number
    return dims.symbol(f"_{hint}_{number}")


@contextmanager
def numbering(taken: Collection[str]) -> Iterator[None]:
    """Within, fresh sizes are numbered from one, avoiding the names `taken`; without effect inside
    itself.
    """
    if _names.get() is not _process:
        yield
        return
    token = _names.set(_Names(frozenset(taken).__contains__))
    try:
        yield
    finally:
        _names.reset(token)


def fresh_shape(rank: int | None, hint: str) -> Shape | None:
    """A shape of `rank` fresh sizes; None for an unknown rank."""
    return None if rank is None else tuple(fresh_dim(hint) for _ in range(rank))


def fresh_tensor(dtype: DType, rank: int | None, hint: str) -> TensorType:
    """A tensor of `rank` fresh sizes, or of unknown rank."""
    return TensorType(dtype, fresh_shape(rank, hint))


def length(value: Value | None) -> int | None:
    """The number of elements of an input that lists sizes, where it is known."""
    size = None if value is None else value.tensor.size
    return size if isinstance(size, int) else None


def known_one(value: Value, op: str) -> Dim | None:
    """The only element of an input, where it is known; ShapeError when there are more or none."""
    require_single(op, value)
    elements = known_ints(value)
    return elements[0] if elements else None


def require_single(op: str, *values: Value | None) -> None:
    """ShapeError unless each of these inputs, where it is there, has one element."""
    for value in values:
        if (
            value is not None
            and value.tensor.size is not None
            and not must_equal(value.tensor.size, 1)
        ):
            raise ShapeError(f"{op} needs a single number, found {value.type}")


def known_axes(axes: Value, rank: int, op: str) -> tuple[int, ...] | None:
    """The elements of an `axes` input as indices, each once; None where they are not known."""
    indices = known_ints(axes)
    if indices is None or any(isinstance(a, dims.Expr) for a in indices):
        return None
    return normalize_axes([int(a) for a in indices], rank, op)


def normalize_axes(axes: Sequence[int], rank: int, op: str) -> tuple[int, ...]:
    """Possibly negative axes as indices; ShapeError when one lies outside or comes twice."""
    result = tuple(normalize_axis(a, rank, op) for a in axes)
    if len(set(result)) < len(result):
        raise ShapeError(f"{op} names an axis twice: {list(axes)}")
    return result


def axis_of(value: Value, axis: int, op: str) -> int | None:
    """`axis` as an index into the shape of `value`; itself, where it counts from the front and the
    rank is unknown.
    """
    rank = value.tensor.rank
    return normalize_axis(axis, rank, op) if rank is not None else axis if axis >= 0 else None


def with_dim(shape: Shape, axis: int, dim: Dim) -> Shape:
    """`shape` with the size of one axis replaced."""
    return (*shape[:axis], dim, *shape[axis + 1 :])


def agree(a: Dim, b: Dim, what: str) -> Dim:
    """The common value of two sizes that must be equal, the better known one; ShapeError when they
    cannot be.
    """
    if not must_equal(a, b):
        raise ShapeError(f"{what} must be equal, found {a} and {b}")
    return a if isinstance(a, int) else b


def at_most(a: Dim, b: Dim, what: str) -> None:
    """State that size `a` may not be larger than `b`; ShapeError where it certainly is."""
    if not must_hold(a, "<=", b):
        raise ShapeError(f"{what}: {a} is more than {b}")


def nonempty(size: Dim, op: str) -> None:
    """State that an axis may not be empty; ShapeError where it is."""
    if not must_hold(1, "<=", size):
        raise ShapeError(f"{op} over an axis of size 0 has no result")


def whole_parts(size: Dim, parts: Dim, what: str) -> Dim:
    """The size of each of `parts` equal parts; ShapeError where there are none or `size` is no
    multiple of them.
    """
    if not (must_hold(1, "<=", parts) and must_equal(dims.mod(size, parts), 0)):
        raise ShapeError(f"{what}: {size} is not a multiple of {parts}")
    return dims.floordiv(size, parts)


def agree_shapes(a: Shape, b: Shape, what: str) -> Shape:
    """The common value of two shapes that must be equal; ShapeError when they cannot be."""
    if len(a) != len(b):
        raise ShapeError(f"{what} must have equal ranks, found {len(a)} and {len(b)}")
    return tuple(agree(x, y, what) for x, y in zip(a, b))


def merge_types(a: Type, b: Type, hint: str) -> Type:
    """The narrowest type that holds values of both: sizes that differ become fresh, ranks that
    differ unknown.
    """
    if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype:
        if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            return TensorType(a.dtype, None)
        return TensorType(
            a.dtype, tuple(x if x == y else fresh_dim(hint) for x, y in zip(a.shape, b.shape))
        )
    if isinstance(a, SequenceType) and isinstance(b, SequenceType):
        return SequenceType(merge_types(a.element, b.element, hint))
    if isinstance(a, OptionalType) or isinstance(b, OptionalType):
        first = a.element if isinstance(a, OptionalType) else a
        second = b.element if isinstance(b, OptionalType) else b
        return OptionalType(merge_types(first, second, hint))
    if isinstance(a, MapType) and isinstance(b, MapType) and a.key == b.key:
        return MapType(a.key, merge_types(a.element, b.element, hint))
    raise TypeMismatchError(f"{a} and {b} have no common type")


def require_rank(value: Value, rank: int, op: str, name: str) -> None:
    """ShapeError when `value` is known to have another rank."""
    if value.tensor.rank not in (None, rank):
        raise ShapeError(f"{name} of {op} must have rank {rank}, found {value.type}")


def integers(array: Array | None) -> list[int]:
    """The elements of an input that lists sizes or axes, as Python ints; [] when it is absent."""
    return [] if array is None else [int(x) for x in array.reshape(-1)]


def scalar(array: Any) -> Any:
    """The only element of an array, as a Python number."""
    return array.reshape(-1)[0].item() if array.dtype != object else array.reshape(-1)[0]


def int64s(*values: int) -> Array:
    """A list of sizes or axes as an array, for samples."""
    return np.array(values, dtype=np.int64)
