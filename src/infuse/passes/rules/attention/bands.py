"""Which keys each query sees, read from how a mask is computed: a band of diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Node, Value
from infuse.ops.core.base import Op
from infuse.ops.core.elementwise import Numeric
from infuse.passes.rules.common import data, is_one
from infuse.passes.rules.movement.gathering import counted
from infuse.passes.rules.movement.views import View

DEEPEST = 16
"""Operators of a mask that are looked through."""
LARGEST = 1 << 24
"""Elements of the largest constant mask that is looked at."""
ARRANGING = ("Unsqueeze", "Squeeze", "Reshape", "Expand")
COMPARISONS = {
    "LessOrEqual": (True, 0),
    "Less": (True, -1),
    "GreaterOrEqual": (False, 0),
    "Greater": (False, 1),
}
"""Whether the left side is at most the right one, and how far from it at least."""


class Band(Immutable):
    """Query i and key j where first ≤ j - i ≤ last; None where that side has no limit."""

    first: Dim | None = None
    last: Dim | None = None

    def complement(self) -> Band | None:
        """All other pairs; None where these are no band."""
        if self.first is None and self.last is not None:
            return Band(self.last + 1, None)
        if self.last is None and self.first is not None:
            return Band(None, self.first - 1)
        return None

    def intersection(self, other: Band) -> Band | None:
        """The pairs of both; None where it is not known which limit is the narrower one."""
        first = self.first if other.first is None else other.first
        last = self.last if other.last is None else other.last
        if None not in (self.first, other.first):
            if not isinstance(self.first, int) or not isinstance(other.first, int):
                return None
            first = max(self.first, other.first)
        if None not in (self.last, other.last):
            if not isinstance(self.last, int) or not isinstance(other.last, int):
                return None
            last = min(self.last, other.last)
        return Band(first, last)

    def moved(self, rows: Dim, columns: Dim) -> Band:
        """The same pairs, counted from this row and column on."""
        by = rows - columns
        return Band(*(None if n is None else n + by for n in (self.first, self.last)))


class Banded(Immutable):
    """A matrix with one number in a band and another one elsewhere."""

    band: Band
    inside: Any
    outside: Any


def visible_band(mask: Value, limit: float) -> tuple[Band, bool] | None:
    """The pairs that a mask of Attention shows, and whether it hides the others for good: by a
    condition or by -∞, not by a number up to `limit`. None where the pairs are no band.
    """
    found = banded(mask)
    if found is None:
        return None
    band, shown, hidden = found.band, found.inside, found.outside
    if mask.dtype.is_bool:
        numbers, seen, barred = (bool(shown), bool(hidden)), True, False
    else:
        numbers, seen, barred = (float(shown) == 0, float(hidden) == 0), True, False
        far = hidden if numbers[0] else shown
        if not float(far) <= limit:
            return None
    if numbers == (barred, seen):
        other = band.complement()
        if other is None:
            return None
        band, hidden = other, shown
    elif numbers != (seen, barred):
        return None
    return band, mask.dtype.is_bool or float(hidden) == -np.inf


def banded(value: Value, left: int = DEEPEST) -> Banded | None:
    """What a value is on the diagonals of its last two axes; None where it is not made so."""
    value = arranged(value)
    if value.const is not None:
        return _of_array(data(value))
    node = value.producer
    if node is None or node.op.domain or not left:
        return None
    if node.kind == "Trilu":
        return _triangle(node)
    if node.kind == "Slice":
        return _cut(node, left)
    if node.kind in COMPARISONS:
        band = _compared(node)
        if band is not None:
            return Banded(band, np.True_, np.False_)
    return _elementwise(node, left)


def arranged(value: Value) -> Value:
    """What operators that keep the last two axes arrange or repeat."""
    node = value.producer
    while (
        node is not None
        and node.kind in ARRANGING
        and not node.op.domain
        and node.inputs[0] is not None
    ):
        source = node.inputs[0]
        if source.tensor.shape is None or source.rank < 2 or source.shape[-2:] != value.shape[-2:]:
            break
        value, node = source, source.producer
    return value


def filled(value: Value, left: int = DEEPEST) -> Any:
    """The number that all elements of a value are, None where they are not known to be one."""
    if value.const is not None:
        first = value.const.flat[0] if value.const.size else None
        small = 0 < value.const.size <= LARGEST
        return first if small and bool((value.const == first).all()) else None
    node = value.producer
    if node is None or node.op.domain or not left:
        return None
    if node.kind == "ConstantOfShape":
        return np.asarray(node.op.attributes()["value"]).astype(value.dtype.numpy).reshape(())
    if node.kind in ARRANGING and node.inputs[0] is not None:
        return filled(node.inputs[0], left - 1)
    return None


def _elementwise(node: Node, left: int) -> Banded | None:
    """An elementwise operator of one band, or of two that both have to hold."""
    if not isinstance(node.op, Op) or not _is_elementwise(node):
        return None
    operands = [x for x in node.inputs if x is not None]
    parts: list[Any] = []
    for x in operands:
        part = filled(x)
        parts.append(banded(x, left - 1) if part is None else part)
    if None in parts or len(operands) != len(node.inputs):
        return None
    bands = [part for part in parts if isinstance(part, Banded)]
    if node.kind == "And" and len(bands) == 2:
        both = all(b.inside and not b.outside for b in bands)
        band = bands[0].band.intersection(bands[1].band) if both else None
        return None if band is None else Banded(band, np.True_, np.False_)
    if not bands or any(b.band != bands[0].band for b in bands):
        return None
    inside, outside = (
        _applied(node, [getattr(p, side) if isinstance(p, Banded) else p for p in parts])
        for side in ("inside", "outside")
    )
    return None if inside is None or outside is None else Banded(bands[0].band, inside, outside)


def _is_elementwise(node: Node) -> bool:
    return isinstance(node.op, Numeric) or node.kind in ("Cast", "Where", "And", "Or", "Not")


def _applied(node: Node, numbers: list[Any]) -> Any:
    """The operator on numbers, None where that is not a number."""
    types = [x.dtype.numpy for x in node.operands()]
    args = [np.asarray(n).astype(t).reshape(()) for n, t in zip(numbers, types)]
    assert isinstance(node.op, Op)
    with np.errstate(all="ignore"):
        result = np.asarray(node.op.eval(*args))
    unknown = result.dtype.kind not in "biu" and bool(np.isnan(result.astype(np.float64)).any())
    return None if unknown else result.reshape(())[()]


def _of_array(array: Array) -> Banded | None:
    """A constant matrix with one number on neighbouring diagonals and another one elsewhere."""
    if array.ndim < 2 or not 0 < array.size <= LARGEST or array.dtype.kind not in "biuf":
        return None
    matrix = array.reshape(-1, *array.shape[-2:])
    if not bool((matrix == matrix[:1]).all()):
        return None
    corner = matrix[0, 0, 0]
    alike = matrix[0] == corner
    if bool(alike.all()):
        return None
    other = matrix[0][~alike].flat[0]
    if not bool((matrix[0][~alike] == other).all()):
        return None
    for where, inside, outside in ((alike, corner, other), (~alike, other, corner)):
        band = _diagonals(where)
        if band is not None:
            return Banded(band, inside, outside)
    return None


def _diagonals(where: Array) -> Band | None:
    """The band of a matrix of conditions, of which some hold; None where it is none."""
    rows, columns = where.shape
    ahead = np.arange(columns) - np.arange(rows)[:, None]
    first, last = int(ahead[where].min()), int(ahead[where].max())
    within = (ahead >= first) & (ahead <= last)
    if not bool((within == where).all()):
        return None
    return Band(None if first == ahead.min() else first, None if last == ahead.max() else last)


def _triangle(node: Node) -> Banded | None:
    """A triangle of a matrix of equal numbers."""
    source, diagonal = node.inputs[0], node.input(1)
    inside = None if source is None else filled(source)
    places = known_ints(diagonal)
    if inside is None or source is None or (diagonal is not None and not places):
        return None
    k: Dim = places[0] if places else 0
    band = Band(k, None) if node.op.attributes()["upper"] else Band(None, k)
    return Banded(band, inside, np.zeros((), source.dtype.numpy)[()])


def _cut(node: Node, left: int) -> Banded | None:
    """Rows and columns from a place on, one by one."""
    source, starts, axes = node.inputs[0], known_ints(node.input(1)), known_ints(node.input(3))
    steps = known_ints(node.input(4))
    if source is None or starts is None or source.tensor.shape is None or source.rank < 2:
        return None
    if steps is not None and any(step != 1 for step in steps):
        return None
    places = range(len(starts)) if axes is None else axes
    first: list[Dim] = [0, 0]
    for start, axis in zip(starts, places):
        if not isinstance(axis, int):
            return None
        if dims.compare(">=", start, 0) is not True:
            return None
        if axis % source.rank >= source.rank - 2:
            first[axis % source.rank - source.rank + 2] = start
        elif source.shape[axis] != node.output.shape[axis]:
            return None
    whole = banded(source, left - 1)
    return None if whole is None else Banded(whole.band.moved(*first), whole.inside, whole.outside)


# -- comparisons of places -------------------------------------------------------------------------


def _compared(node: Node) -> Band | None:
    """Where a comparison of the places of keys and of queries, or of how far they are apart,
    holds.
    """
    at_most, apart = COMPARISONS[node.kind]
    left, right = node.operands()
    if not left.dtype.is_integer:
        return None
    one, other = places(left), places(right)
    if one is not None and other is not None:
        distance = _difference(one, other)
        return None if distance is None else distance.limited(at_most, apart)
    for value, number, above in ((left, right, at_most), (right, left, not at_most)):
        limit = known_ints(number)
        if limit is None or len(limit) != 1:
            continue
        to = limit[0] + apart if value is left else limit[0] - apart
        around = value.producer
        if around is not None and around.kind == "Abs" and above and around.inputs[0] is not None:
            inner = _distance(around.inputs[0])
            return None if inner is None else inner.around(to)
        distance = _distance(value)
        if distance is not None:
            return distance.limited(above, to)
    return None


class Distance(Immutable):
    """`first` + j - i for query i and key j, or `first` + i - j where it is `turned`."""

    first: Dim
    turned: bool

    def limited(self, at_most: bool, to: Dim) -> Band:
        """Where it is at most, or at least, a number."""
        limit = self.first - to if self.turned else to - self.first
        return Band(None, limit) if at_most is not self.turned else Band(limit, None)

    def around(self, most: Dim) -> Band:
        """Where its size is at most a number."""
        centre = self.first if self.turned else -self.first
        return Band(centre - most, centre + most)


def _distance(value: Value) -> Distance | None:
    """A difference of the places of keys and queries."""
    node = value.producer
    if node is None or node.op.domain or node.kind != "Sub":
        return None
    one, other = (places(v) for v in node.operands())
    return None if one is None or other is None else _difference(one, other)


def _difference(one: tuple[Dim, int], other: tuple[Dim, int]) -> Distance | None:
    """The first places less the others; None where both run along the same axis."""
    if {one[1], other[1]} != {1, 2}:
        return None
    return Distance(one[0] - other[0], turned=one[1] == 2)


def places(value: Value, left: int = DEEPEST) -> tuple[Dim, int] | None:
    """The first of numbers that rise by one along one axis only, and that axis, counted from the
    end: 1 is the last.
    """
    view = counted(value)
    if view is not None:
        axis = next((a for a in (1, 2) if _runs_along(view, a)), None)
        return None if axis is None else (view.offset, axis)
    node = value.producer
    if node is None or node.op.domain or not left or value.tensor.shape is None:
        return None
    if node.kind == "Range":
        start, step = known_ints(node.input(0)), known_ints(node.input(2))
        return (start[0], 1) if start and step == (1,) else None
    if node.kind in ("Add", "Sub"):
        return _shifted(node, left)
    if node.kind == "CumSum":
        return _summed(node)
    source = node.inputs[0]
    if source is None or source.tensor.shape is None:
        return None
    inner = places(source, left - 1)
    if inner is None or node.kind not in (*ARRANGING[:3], "Cast"):
        return None
    size = source.shape[-inner[1]]
    axes = [axis for axis, n in enumerate(value.shape[::-1], 1) if not is_one(n)]
    return (inner[0], axes[0]) if [value.shape[-axis] for axis in axes] == [size] else None


def _summed(node: Node) -> tuple[Dim, int] | None:
    """Ones that are summed up along one of the last two axes."""
    ones, axis = node.inputs[0], known_ints(node.input(1))
    options = node.op.attributes()
    if ones is None or options["exclusive"] or options["reverse"] or filled(ones) != 1:
        return None
    if axis is None or not isinstance(axis[0], int):
        return None
    place = ones.rank - axis[0] % ones.rank
    return (1, place) if place <= 2 else None


def _shifted(node: Node, left: int) -> tuple[Dim, int] | None:
    """Numbers that rise, and one number that is added to them or taken off."""
    x, y = (v for v in node.operands())
    for numbers, other in ((x, y), (y, x)):
        by = known_ints(other)
        if by is None or len(by) != 1 or (node.kind == "Sub" and numbers is not x):
            continue
        inner = places(numbers, left - 1)
        if inner is not None and numbers.shape == node.output.shape:
            return (inner[0] + by[0] if node.kind == "Add" else inner[0] - by[0]), inner[1]
    return None


def _runs_along(view: View, axis: int) -> bool:
    """Whether numbers rise by one along an axis, counted from the end, and along no other."""
    steps = [0 if is_one(size) else step for size, step in view.axes[::-1]]
    return (
        len(steps) >= axis
        and steps[axis - 1] == 1
        and not any(s for i, s in enumerate(steps) if i != axis - 1)
    )
