"""How far the values of one model are from those of another, added up over many runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.data.metrics import decibels
from infuse.ir.graph import Array


@dataclass
class Agreement:
    """One tensor of two models, A and B, in all runs that were added.

    Differences are those of B from A, of elements that are finite in both. Elements that are not
    finite in either and not the same in both count as `not_finite`.
    """

    elements: int = 0
    equal: int = 0
    not_finite: int = 0
    signal: float = 0.0
    """The sum of A's squares."""
    power: float = 0.0
    """The sum of B's squares."""
    noise: float = 0.0
    """The sum of the squares of the differences."""
    product: float = 0.0
    """The sum of the products of A's and B's elements."""
    largest: float = 0.0
    """A's largest magnitude."""
    largest_difference: float = 0.0
    rows: int = 0
    """Rows of scores of classes, along the last axis."""
    agreeing: int = 0
    """Rows whose highest score has the same place in A and B."""

    def add(self, a: Any, b: Any, *, has_scores: bool = False) -> None:
        """Take in the tensor of one run, of equal shapes; with `has_scores`, the last axis may be
        classes.
        """
        self.elements += a.size
        if not _is_number(a) or not _is_number(b):
            self.equal += int(np.count_nonzero(np.asarray(a == b)))
            return
        is_score = has_scores and all(dtypes.by_numpy(x.dtype).is_float for x in (a, b))
        if is_score and a.ndim > 1 and a.shape[-1] > 1 and a.size:
            places = [_numbers(x).argmax(-1) for x in (a, b)]
            self.rows += places[0].size
            self.agreeing += int(np.count_nonzero(places[0] == places[1]))
        self._add_numbers(_numbers(a).ravel(), _numbers(b).ravel())

    def _add_numbers(self, a: Array, b: Array) -> None:
        finite = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        self.equal += int(np.count_nonzero(same))
        self.not_finite += int(np.count_nonzero(~finite & ~same))
        a, b = a[finite], b[finite]
        difference = b - a
        self.signal += float(a @ a)
        self.power += float(b @ b)
        self.product += float(a @ b)
        self.noise += float(difference @ difference)
        if a.size:
            self.largest = max(self.largest, float(np.abs(a).max()))
            self.largest_difference = max(self.largest_difference, float(np.abs(difference).max()))

    @property
    def sqnr(self) -> float:
        """A's power over that of the differences, in dB; infinite where nothing differs."""
        return decibels(self.signal, self.noise)

    @property
    def cosine(self) -> float:
        """The cosine of the angle between A and B as vectors; 1 for two that are zero."""
        length = math.sqrt(self.signal) * math.sqrt(self.power)
        if not length:
            return float(self.signal == self.power)
        return min(max(self.product / length, -1.0), 1.0)

    @property
    def relative_error(self) -> float:
        """The largest difference over A's largest magnitude; infinite where A is zero and B is
        not.
        """
        if self.largest_difference == 0.0:
            return 0.0
        return self.largest_difference / self.largest if self.largest else math.inf

    @property
    def top1(self) -> float | None:
        """The share of rows whose highest score has the same place; None where there are none."""
        return self.agreeing / self.rows if self.rows else None

    @property
    def is_equal(self) -> bool:
        """Whether all elements are the same."""
        return self.equal == self.elements

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; infinite ratios are None, and `is_equal` tells them apart."""
        return {
            "elements": self.elements,
            "is_equal": self.is_equal,
            "equal": self.equal / self.elements if self.elements else 1.0,
            "not_finite": self.not_finite,
            "sqnr_db": finite(self.sqnr),
            "cosine": finite(self.cosine),
            "relative_error": finite(self.relative_error),
            "largest_difference": finite(self.largest_difference),
            "top1_agreement": self.top1,
        }


def _is_number(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind not in "OUST"


def _numbers(array: Array) -> Array:
    """The elements as float64, of complex numbers both parts in a row."""
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array, np.complex128).reshape(-1).view(np.float64)
    return array.astype(np.float64)


def finite(number: float) -> float | None:
    """A number as JSON has it: None for one that is infinite or NaN."""
    return number if math.isfinite(number) else None
