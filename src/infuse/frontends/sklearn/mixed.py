"""Columns of texts and of numbers beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import InputError
from infuse.frontends.sklearn.term_matrix import blocks
from infuse.ir.graph import Value
from infuse.tracing.tensors import Tensor


class Mixed(Tensor):
    """Columns of different element types, None for those that nobody uses; InputError where one
    tensor of them is needed.
    """

    def __init__(self, parts: Sequence[Tensor | None]) -> None:
        first = next(part for part in parts if part is not None)
        super().__init__(first.g, first.value)
        self._parts = list(parts)

    @property
    def value(self) -> Value:
        """An error: there is no tensor of texts and numbers."""
        raise InputError(
            "an estimator is given numbers and texts together, or gives them as its result",
            hint="encode the texts in a ColumnTransformer",
        )

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self._parts)

    def features(self) -> Tensor:
        """The columns as they are."""
        return self

    def columns(self, places: Any) -> Tensor:
        """The columns at these places, as one tensor where their types allow."""
        listed = np.asarray(places)
        listed = np.flatnonzero(listed) if listed.dtype == bool else listed.astype(np.int64)
        parts = [self._parts[i] for i in listed.tolist()]
        if not parts:
            raise InputError("no columns are chosen")
        used = [part for part in parts if part is not None]
        return joined(used) if len(used) == len(parts) else Mixed(parts)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Columns side by side, as one tensor where all or none of them are texts."""
    if len({isinstance(part, Mixed) or part.dtype == dtypes.string for part in parts}) == 1 and (
        not any(isinstance(part, Mixed) for part in parts)
    ):
        return blocks(parts)
    matrices = [
        part if isinstance(part, Mixed) or part.rank == 2 else part.expand() for part in parts
    ]
    return Mixed([one.column(i) for one in matrices for i in range(one.width)])
