"""Values with NumPy's operators and methods: what handlers of estimators compute with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType, by_numpy
from infuse.ir.graph import Value
from infuse.ir.registry import make_operator
from infuse.tracing.importer import Importer


def _operator(kind: str) -> Callable[[Tensor, Any], Tensor]:
    """An operator of Python that is one of ONNX."""

    def applied(self: Tensor, other: Any) -> Tensor:
        return self.call(kind, other)

    return applied


def _swapped(kind: str) -> Callable[[Tensor, Any], Tensor]:
    """The same with the operands the other way round."""

    def applied(self: Tensor, other: Any) -> Tensor:
        return Tensor(self.g, self.g(kind, self.operand(other), self.value))

    return applied


class Tensor:
    """A value of the graph that an importer builds; operations make nodes at once.

    Arrays and numbers beside it become constants of its element type. `sparse` says that its
    library has a sparse matrix here.
    """

    __array_ufunc__ = None

    def __init__(self, g: Importer, value: Value, sparse: bool = False) -> None:
        self.g, self._value, self.sparse = g, value, sparse

    @property
    def value(self) -> Value:
        """The value of the graph."""
        return self._value

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.value.dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.value.rank

    @property
    def width(self) -> int:
        """The size of the last axis, which is a number."""
        size = self.value.shape[-1]
        assert isinstance(size, int), "features are counted when a model is fitted"
        return size

    def call(self, kind: str, *operands: Any, **attributes: Any) -> Tensor:
        """An operator of ONNX on this tensor and others."""
        values = [self.operand(v) for v in operands]
        return Tensor(self.g, self.g(kind, self.value, *values, **attributes))

    def operand(self, other: Any) -> Value | None:
        """A tensor, array or number as a value beside this one."""
        if other is None or isinstance(other, Value):
            return other
        if isinstance(other, Tensor):
            return other.value
        return self.g.constant(np.asarray(other), dtype=self.dtype)

    def constant(self, elements: Any, dtype: DType = dtypes.float64) -> Tensor:
        """A constant of this element type."""
        return Tensor(self.g, self.g.constant(np.asarray(elements), dtype=dtype))

    __add__ = __radd__ = _operator("Add")
    __sub__ = _operator("Sub")
    __rsub__ = _swapped("Sub")
    __mul__ = __rmul__ = _operator("Mul")
    __truediv__ = _operator("Div")
    __rtruediv__ = _swapped("Div")
    __pow__ = _operator("Pow")
    __rpow__ = _swapped("Pow")
    __matmul__ = _operator("MatMul")
    __lt__ = _operator("Less")
    __le__ = _operator("LessOrEqual")
    __gt__ = _operator("Greater")
    __ge__ = _operator("GreaterOrEqual")
    __and__ = _operator("And")
    __or__ = _operator("Or")

    def __neg__(self) -> Tensor:
        return self.call("Neg")

    def __invert__(self) -> Tensor:
        return self.call("Not")

    def equals(self, other: Any) -> Tensor:
        """Whether elements are equal."""
        return self.call("Equal", other)

    def exp(self) -> Tensor:
        """Powers of e."""
        return self.call("Exp")

    def log(self) -> Tensor:
        """Natural logarithms."""
        return self.call("Log")

    def sqrt(self) -> Tensor:
        """Square roots."""
        return self.call("Sqrt")

    def abs(self) -> Tensor:
        """Absolute values."""
        return self.call("Abs")

    def isnan(self) -> Tensor:
        """Where there is no number."""
        return self.call("IsNaN")

    def missing_text(self, value: str) -> Tensor:
        """Where None (`value` "none") or NaN ("nan") stands in place of a text."""
        operator = make_operator("infuse", "MissingText", {"value": value})
        return Tensor(self.g, self.g.apply(operator, [self.value])[0])

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
        return self.call("Sigmoid")

    def softmax(self) -> Tensor:
        """Softmax of each row."""
        return self.call("Softmax", axis=1)

    def clip(self, low: float | None, high: float | None) -> Tensor:
        """Elements within limits."""
        return self.call("Clip", low, high)

    def maximum(self, other: Any) -> Tensor:
        """The larger of two."""
        return self.call("Max", other)

    def minimum(self, other: Any) -> Tensor:
        """The smaller of two."""
        return self.call("Min", other)

    def where(self, yes: Any, no: Any) -> Tensor:
        """Elements of `yes` where this one is true, else those of `no`; one of them is a tensor."""
        like = next(v for v in (yes, no) if isinstance(v, Tensor))
        values = like.operand(yes), like.operand(no)
        return Tensor(self.g, self.g("Where", self.value, *values))

    def _reduced(self, kind: str, axis: int, keep: bool) -> Tensor:
        return Tensor(self.g, self.g(kind, self.value, self.g.ints(axis), keepdims=int(keep)))

    def sum(self, axis: int = 1, keep: bool = False) -> Tensor:
        """Sums along an axis."""
        return self._reduced("ReduceSum", axis, keep)

    def max(self, axis: int = 1, keep: bool = False) -> Tensor:
        """The largest along an axis."""
        return self._reduced("ReduceMax", axis, keep)

    def min(self, axis: int = 1, keep: bool = False) -> Tensor:
        """The smallest along an axis."""
        return self._reduced("ReduceMin", axis, keep)

    def mean(self, axis: int = 1, keep: bool = False) -> Tensor:
        """Means along an axis."""
        return self._reduced("ReduceMean", axis, keep)

    def logsumexp(self) -> Tensor:
        """The logarithm of the sum of the powers of each row, as a column."""
        most = self.max(keep=True)
        return (self - most).exp().sum(keep=True).log() + most

    def argmax(self) -> Tensor:
        """The place of the first of the largest of each row."""
        return self.call("ArgMax", axis=1, keepdims=0)

    def argmin(self) -> Tensor:
        """The place of the first of the smallest of each row."""
        return self.call("ArgMin", axis=1, keepdims=0)

    def astype(self, dtype: DType) -> Tensor:
        """In another element type."""
        return Tensor(self.g, self.g.cast(self.value, dtype))

    def integers(self) -> Tensor:
        """As int64."""
        return self.astype(dtypes.int64)

    def features(self) -> Tensor:
        """What an estimator computes with: texts, or numbers as float64."""
        kept = self.dtype in (dtypes.string, dtypes.float64)
        return self if kept else self.floats().marked(self.sparse)

    def floats(self) -> Tensor:
        """As float64."""
        return self.astype(dtypes.float64)

    def columns(self, places: Sequence[int] | Any) -> Tensor:
        """The columns at these places."""
        listed = np.asarray(places)
        listed = np.flatnonzero(listed) if listed.dtype == bool else listed.astype(np.int64)
        listed = np.where(listed < 0, listed + self.width, listed)
        if np.array_equal(listed, np.arange(self.width)):
            return self
        chosen = self.g("Gather", self.value, self.g.constant(listed), axis=1)
        return Tensor(self.g, chosen, self.sparse)

    def marked(self, sparse: bool) -> Tensor:
        """The same tensor, as a sparse matrix or a dense one."""
        return self if self.sparse == sparse else Tensor(self.g, self.value, sparse)

    def column(self, place: int) -> Tensor:
        """One column, as a matrix."""
        return self.columns([place])

    def vector(self) -> Tensor:
        """A matrix of one column as a vector."""
        return self if self.rank == 1 else self.call("Squeeze", self.g.ints(1))

    def expand(self, axis: int = 1) -> Tensor:
        """With a new axis of one."""
        return self.call("Unsqueeze", self.g.ints(axis))

    def take(self, table: Any, axis: int = 0) -> Tensor:
        """The entries of a table at the places that this tensor says."""
        array = np.asarray(table)
        texts = array.dtype.kind in "US" or (
            array.dtype == object and all(isinstance(v, str) for v in array.reshape(-1))
        )
        stored = (
            self.g.constant(array.astype(object), dtype=dtypes.string)
            if texts
            else self.g.constant(array)
        )
        return Tensor(self.g, self.g("Gather", stored, self.value, axis=axis))


def dense(fitted: Any, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """An attribute of an estimator, which is a sparse matrix of SciPy where it was fitted to one
    or made one by `sparsify`.
    """
    return np.asarray(fitted.toarray() if hasattr(fitted, "toarray") else fitted, dtype)


def alike(parts: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of the element type that NumPy gives to arrays made of them all."""
    if len({part.dtype for part in parts}) == 1:
        return list(parts)
    joined = by_numpy(np.result_type(*(part.dtype.numpy for part in parts)))
    return [part.astype(joined) for part in parts]


def beside(*parts: Tensor) -> Tensor:
    """Columns side by side."""
    matrices = [part.expand() if part.rank == 1 else part for part in alike(parts)]
    if len(matrices) == 1:
        return matrices[0]
    g = matrices[0].g
    return Tensor(g, g("Concat", *(m.value for m in matrices), axis=1))


def stacked(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one shape along a new axis."""
    g = parts[0].g
    return Tensor(g, g("Concat", *(p.expand(axis).value for p in alike(parts)), axis=axis))


def total(parts: Sequence[Tensor]) -> Tensor:
    """The sum of tensors, one after another."""
    first, *others = alike(parts)
    return reduce(add, others, first)
