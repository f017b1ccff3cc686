"""Matrices of terms, of which few occur in a text: products are sums of the rows of these alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer
from infuse.tracing.tensors import Tensor, beside

Pair = Callable[[], tuple[Tensor, Tensor]]


class TermMatrix(Tensor):
    """A matrix [batch, width] by the places and values of what is no zero: `places` [batch, n],
    which are `width` where a row has less, and `values` [batch, n] in float64, both made when they
    are used. Whatever needs all elements gets them from `dense`.
    """

    def __init__(
        self,
        g: Importer,
        pair: Pair,
        width: int,
        dtype: DType = dtypes.float64,
        dense: Callable[[], Tensor] | None = None,
        sparse: bool = True,
    ) -> None:
        self.g, self.sparse = g, sparse
        self._pair, self._width, self._dtype = pair, width, dtype
        self._made = dense or self._scattered

    @cached_property
    def _both(self) -> tuple[Tensor, Tensor]:
        return self._pair()

    @property
    def places(self) -> Tensor:
        """The columns of what is no zero."""
        return self._both[0]

    @property
    def values(self) -> Tensor:
        """What is no zero."""
        return self._both[1]

    @property
    def value(self) -> Value:
        """All elements."""
        return self._made().astype(self._dtype).value

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def rank(self) -> int:
        """Two."""
        return 2

    @property
    def width(self) -> int:
        """The number of columns."""
        return self._width

    def _scattered(self) -> Tensor:
        g = self.g
        rows = g("Shape", self.places.value, start=0, end=1)
        shape = g("Concat", rows, g.ints(self._width + 1), axis=0)
        zeros = g("Expand", g.number(0, dtypes.float64), shape)
        full = g("ScatterElements", zeros, self.places.value, self.values.value, axis=1)
        return Tensor(g, full).columns(np.arange(self._width))

    def with_values(self, values: Tensor) -> TermMatrix:
        """Other values at the same places, zero where a row has less."""
        places = self.places
        return TermMatrix(self.g, lambda: (places, values), self._width, sparse=self.sparse)

    def is_there(self) -> Tensor:
        """Where a row has a place."""
        return self.places < self._width

    def weighted(self, weights: Any) -> TermMatrix:
        """Times a weight for each column."""
        return self.with_values(self.values * self.places.take(np.append(weights, 0.0)))

    def features(self) -> Tensor:
        """As float64."""
        return self.astype(dtypes.float64)

    def floats(self) -> Tensor:
        """As float64."""
        return self.astype(dtypes.float64)

    def astype(self, dtype: DType) -> Tensor:
        """In another element type; float32 rounds."""
        if dtype == self._dtype:
            return self
        if dtype not in (dtypes.float32, dtypes.float64, dtypes.int64):
            return Tensor(self.g, self.value).astype(dtype)

        def rounded() -> tuple[Tensor, Tensor]:
            return self.places, self.values.astype(dtypes.float32).floats()

        pair = rounded if dtype == dtypes.float32 else lambda: self._both
        return TermMatrix(self.g, pair, self._width, dtype, self._made, self.sparse)

    def marked(self, sparse: bool) -> Tensor:
        """The same, as a sparse matrix of its library or a dense one."""
        if sparse == self.sparse:
            return self
        return TermMatrix(self.g, lambda: self._both, self._width, self._dtype, self._made, sparse)

    def columns(self, places: Sequence[int] | Any) -> Tensor:
        """The columns at these places."""
        listed = np.asarray(places)
        listed = np.flatnonzero(listed) if listed.dtype == bool else listed.astype(np.int64)
        if len(np.unique(listed)) < len(listed):
            return super().columns(listed)
        # A place without a column is that behind them all, where rows of zeros stand.
        table = np.full(self._width + 1, len(listed), np.int64)
        table[listed] = np.arange(len(listed))
        chosen = self.places.take(table)
        values = (chosen < len(listed)).where(self.values, 0.0)
        return TermMatrix(
            self.g, lambda: (chosen, values), len(listed), self._dtype, sparse=self.sparse
        )

    def __matmul__(self, other: Any) -> Tensor:
        """The weighted sum of the rows of a table."""
        if not isinstance(other, np.ndarray) or self._dtype != dtypes.float64:
            whole: Tensor = _all(self) @ other
            return whole
        table = np.concatenate([other, np.zeros((1, other.shape[1]))])
        if other.shape[1] == 1:
            column: Tensor = self.places.take(table[:, 0]) * self.values
            return column.sum(keep=True)
        rows: Tensor = self.places.take(table) * self.values.expand(2)
        return rows.sum(axis=1)

    def __mul__(self, other: Any) -> Tensor:
        """Times a number, or as of all elements."""
        if isinstance(other, float) and np.isfinite(other):
            return self.with_values(self.values * other)
        whole: Tensor = _all(self) * other
        return whole

    __rmul__ = __mul__


class Blocks(Tensor):
    """Matrices side by side, of which some are of terms."""

    def __init__(self, parts: Sequence[Tensor], sparse: bool) -> None:
        self.g, self.sparse = parts[0].g, sparse
        self._parts = list(parts)
        self._ends = np.cumsum([0, *(part.width for part in parts)])

    @property
    def value(self) -> Value:
        """All elements."""
        return beside(*(Tensor(self.g, part.value) for part in self._parts)).value

    @property
    def dtype(self) -> DType:
        """That of all parts."""
        return dtypes.float64

    @property
    def rank(self) -> int:
        """Two."""
        return 2

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self._ends[-1])

    def features(self) -> Tensor:
        """As it is."""
        return self

    def floats(self) -> Tensor:
        """As it is."""
        return self

    def marked(self, sparse: bool) -> Tensor:
        """The same, as a sparse matrix of its library or a dense one."""
        return self if sparse == self.sparse else Blocks(self._parts, sparse)

    def columns(self, places: Sequence[int] | Any) -> Tensor:
        """The columns at these places, in parts where they ascend."""
        listed = np.asarray(places)
        listed = np.flatnonzero(listed) if listed.dtype == bool else listed.astype(np.int64)
        if len(listed) < 2 or (np.diff(listed) <= 0).any():
            return Tensor(self.g, self.value, self.sparse).columns(listed)
        parts = []
        for part, begin, end in zip(self._parts, self._ends, self._ends[1:]):
            inside = listed[(listed >= begin) & (listed < end)]
            if len(inside):
                parts.append(part.columns(inside - begin))
        return blocks(parts).marked(self.sparse)

    def __matmul__(self, other: Any) -> Tensor:
        """The sum over the parts."""
        if not isinstance(other, np.ndarray):
            whole: Tensor = _all(self) @ other
            return whole
        products = [
            part @ np.ascontiguousarray(other[begin:end])
            for part, begin, end in zip(self._parts, self._ends, self._ends[1:])
        ]
        result = products[0]
        for product in products[1:]:
            result = result + product
        return result


def blocks(parts: Sequence[Tensor]) -> Tensor:
    """Columns side by side; where some are of terms, without their zeros."""
    if len(parts) == 1 or not any(isinstance(part, (TermMatrix, Blocks)) for part in parts):
        return beside(*parts)
    flat: list[Tensor] = []
    for part in parts:
        part = part.floats()
        flat += part._parts if isinstance(part, Blocks) else [_matrix(part)]
    return Blocks(flat, any(part.sparse for part in parts))


def _all(matrix: Tensor) -> Tensor:
    return Tensor(matrix.g, matrix.value)


def _matrix(part: Tensor) -> Tensor:
    return part.expand() if part.rank == 1 else part
