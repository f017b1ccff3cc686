"""What samples of operators are made of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from infuse import dtypes
from infuse.dtypes import DType
from infuse.immutable import Immutable
from infuse.ops.core.base import Op, Rows, Sample, Samples
from infuse.ops.core.signatures import signature


class Ints(Immutable):
    """A random integer input of this shape with low <= element < high."""

    shape: tuple[int, ...]
    low: int = -10
    high: int = 10
    dtype: DType = dtypes.int64


class Floats(Immutable):
    """A random floating input of this shape, uniform in [low, high)."""

    shape: tuple[int, ...]
    low: float = -3.0
    high: float = 3.0
    dtype: DType = dtypes.float32


class Bools(Immutable):
    """A random boolean input of this shape."""

    shape: tuple[int, ...]


def cases(**columns: Sequence[Any]) -> Rows:
    """Sample rows: columns named like inputs go side by side (one row each), attributes multiply
    the rows.

    An input is a shape (random float32), `Ints`, `Floats`, `Bools`, an array (taken as it is,
    constant) or None.
    """

    def rows(op: type[Op]) -> tuple[Sample, ...]:
        names = set(signature(op).names)
        operands = {k: v for k, v in columns.items() if k in names}
        varied = {k: v for k, v in columns.items() if k not in names}
        inputs = [dict(zip(operands, row)) for row in zip(*operands.values(), strict=True)] or [{}]
        attributes = [dict(zip(varied, row)) for row in itertools.product(*varied.values())]
        return tuple(Sample(i, a) for i in inputs for a in attributes)

    return rows


def sample_rows(op: type[Op]) -> tuple[Sample, ...]:
    """All sample rows of an operator, `cases` resolved."""
    declared: Samples = op.__dict__.get("samples", op.samples)
    groups = (declared,) if callable(declared) else declared
    rows: list[Sample] = []
    for group in groups:
        rows.extend([group] if isinstance(group, Sample) else group(op))
    return tuple(rows)
