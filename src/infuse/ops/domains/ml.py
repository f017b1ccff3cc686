"""What the operators of ai.onnx.ml share: the domain, element types, class labels and transforms of
scores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.dims import Dim
from infuse.ir.equality import same_attribute
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Op, Rounding

DOMAIN: Final = "ai.onnx.ml"
TRANSFORMS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
SCORES: Final = Rounding(
    abs=4e-6, why="sums of products in another order, then exponentials of them"
)
NUMBERS: Final = (
    dtypes.float32,
    dtypes.float64,
    dtypes.int32,
    dtypes.int64,
    dtypes.float16,
    dtypes.bfloat16,
)
"""What the operators take: the standard's four types, and the halves, which compute in float32."""


class MlOp(Op, abstract=True):
    """An operator of ai.onnx.ml."""

    domain: ClassVar[str] = DOMAIN


Ints = npt.NDArray[np.signedinteger[Any]] | tuple[()]
Floats = npt.NDArray[np.float32] | tuple[()]
_LISTS: Final = ("Ints", "Floats")


@cache
def lists_of(op: Any) -> frozenset[str]:
    """The attributes of an operator class that are lists of numbers held as arrays."""
    return frozenset(field.name for field in dataclasses.fields(op) if field.type in _LISTS)


def narrowed(numbers: Array) -> Array:
    """The same integers in the smallest type that has them all."""
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    kinds = (np.int8, np.int16, np.int32, np.int64)
    kind = next(k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
    return numbers.astype(kind, copy=False)


class ListsOp(MlOp, abstract=True):
    """An operator whose long lists of numbers are arrays: float32, or the smallest type of integers
    that has them all; empty ones are `()`.
    """

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name in lists_of(kind):
            numbers = np.asarray(self.__dict__.get(name, ())).reshape(-1)
            is_float = numbers.dtype.kind == "f"
            numbers = numbers.astype(np.float32, copy=False) if is_float else narrowed(numbers)
            self.__dict__[name] = numbers if numbers.size else ()


def same_operator(a: Op, b: object) -> bool:
    """Equality of operators with arrays among their attributes: of one class, all attributes the
    same.
    """
    if a is b:
        return True
    return type(a) is type(b) and all(
        same_attribute(v, getattr(b, k)) for k, v in a.attributes().items()
    )


def operator_hash(op: Op) -> int:
    """A hash that goes with `same_operator`."""
    return hash((type(op), tuple(_key(v) for v in op.attributes().values())))


def _key(value: Any) -> Any:
    return (value.dtype.str, value.shape) if isinstance(value, np.ndarray) else value


def require_number(op: str, x: Value, kinds: Sequence[DType] = NUMBERS) -> DType:
    """The element type of `x`; TypeMismatchError unless it is one of `kinds`."""
    if x.dtype not in kinds:
        raise TypeMismatchError(f"{op} takes {', '.join(map(str, kinds))}, found {x.dtype}")
    return x.dtype


def rows_of(op: str, x: Value, columns: int | None = None) -> tuple[Dim, Dim] | None:
    """Rows and columns of a matrix, or of one row; None where its rank is not known.

    ShapeError when it is neither or has other than `columns` columns.
    """
    shape = x.tensor.shape
    if shape is None:
        return None
    if len(shape) not in (1, 2):
        raise ShapeError(f"{op} takes a matrix or one row, found {x.type}")
    if columns is not None and not must_equal(shape[-1], columns):
        raise ShapeError(f"{op} has coefficients for {columns} columns, found {x.type}")
    return (1 if len(shape) == 1 else shape[0]), shape[-1]


def table(dtype: DType, rows: tuple[Dim, Dim] | None, columns: int) -> TensorType:
    """The type of a result of `columns` columns."""
    return TensorType(dtype, None if rows is None else (rows[0], columns))


def as_rows(x: Array) -> Array:
    """Elements as a matrix of float32, or of float64 where they are that."""
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    return wide.reshape(1, -1) if wide.ndim == 1 else wide


# -- labels ----------------------------------------------------------------------------------------


def labels_of(op: str, numbers: tuple[int, ...], texts: tuple[str, ...]) -> Array:
    """The class labels; TypeMismatchError when both or neither are given."""
    if bool(numbers) == bool(texts):
        raise TypeMismatchError(f"{op} needs labels that are integers or strings, and not both")
    return as_texts(texts) if texts else np.array(numbers, dtype=np.int64)


def as_texts(texts: Sequence[str]) -> Array:
    """Strings as an array."""
    result = np.empty(len(texts), dtype=object)
    result[:] = list(texts)
    return result


def label_type(labels: Array) -> DType:
    """The element type of class labels."""
    return dtypes.string if labels.dtype == object else dtypes.int64


# -- transforms of scores --------------------------------------------------------------------------


def check_transform(op: str, name: str, transforms: Sequence[str] = TRANSFORMS) -> None:
    """TypeMismatchError unless `name` is one of `transforms`."""
    if name not in transforms:
        raise TypeMismatchError(f"{op} knows {', '.join(transforms)}, not {name!r}")


def transformed(name: str, scores: Array) -> Array:
    """Scores (a row for each sample) after a `post_transform`.

    A single score stays as it is but for PROBIT: what ONNX Runtime does, with which such models are
    made.
    """
    alone = scores.shape[-1] == 1 and name != "PROBIT"
    return scores if alone or not scores.size else _TRANSFORMS[name](scores)


def _logistic(x: Array) -> Array:
    positive = 1 / (1 + np.exp(-np.abs(x)))
    result: Array = np.where(x < 0, 1 - positive, positive)
    return result


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    result: Array = powers / powers.sum(axis=1, keepdims=True)
    return result


def _softmax_zero(x: Array) -> Array:
    """Softmax in which scores of zero stay (almost) zero; halves where all are."""
    most = x.max(axis=1, keepdims=True)
    powers = np.where(np.abs(x) > 1e-7, np.exp(x - most), x * np.exp(-most))
    total = powers.sum(axis=1, keepdims=True)
    result: Array = np.where(total == 0, x.dtype.type(0.5), powers / total)
    return result


def _probit(x: Array) -> Array:
    """The inverse of the normal distribution, by the approximation that ONNX's reference uses."""
    centered = 2 * x - 1
    log = np.log((1 - centered) * (1 + centered))
    v = x.dtype.type(2 / (np.pi * 0.147)) + x.dtype.type(0.5) * log
    root = np.sqrt(-v + np.sqrt(v * v - x.dtype.type(1 / 0.147) * log))
    result: Array = x.dtype.type(1.41421356) * np.where(centered < 0, -root, root)
    return result


_TRANSFORMS: Final[Mapping[str, Any]] = {
    "NONE": lambda x: x,
    "LOGISTIC": _logistic,
    "SOFTMAX": _softmax,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}
