"""Basic indexing by entries with masks, as strided slices of TensorFlow and MindSpore have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from infuse.errors import ModelFileError
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer

LAST: Final = (1 << 31) - 1
"""An end behind every element."""
BEFORE: Final = -(1 << 31)
"""An end in front of every element, for negative steps."""


class Masks(NamedTuple):
    """Bits by the number of the entry: which limits do not count, and which entries are axes that
    stay as they are, come in new, or are left out. Of the last three the first one counts.
    """

    begin: int
    end: int
    ellipsis: int
    new_axis: int
    shrink_axis: int

    def kinds(self, count: int) -> Iterator[str]:
        """What each of so many entries is: "ellipsis", "new", "single" or "range"."""
        named = (("ellipsis", self.ellipsis), ("new", self.new_axis), ("single", self.shrink_axis))
        for i in range(count):
            yield next((name for name, mask in named if mask >> i & 1), "range")


Part = tuple[Any, Any, int]
"""First element, end, and step along an axis; limits are numbers or scalars."""


def strided_slice(
    g: Importer,
    x: Value,
    entries: Sequence[tuple[Any, Any, Any]],
    masks: Masks,
    part: Callable[[int, Any, Any, Any], Part],
) -> Value:
    """Elements of each axis from begin to before end in steps, by `entries` of these three.

    `part` gives the limits of a range by its number and entry. ModelFileError where entries are
    more than axes, or have several ellipses.
    """
    kinds = list(masks.kinds(len(entries)))
    sliced = kinds.count("range") + kinds.count("single")
    if sliced > x.rank or kinds.count("ellipsis") > 1:
        raise ModelFileError(f"it slices {sliced} axes of {x.rank}")
    ranges: dict[int, Part] = {}
    singles: dict[int, Any] = {}
    axis, length, fresh = 0, 0, []
    for i, kind in enumerate(kinds):
        if kind == "ellipsis":
            axis, length = axis + x.rank - sliced, length + x.rank - sliced
        elif kind == "new":
            fresh.append(length)
            length += 1
        elif kind == "single":
            singles[axis] = entries[i][0]
            axis += 1
        else:
            ranges[axis] = part(i, *entries[i])
            axis, length = axis + 1, length + 1
    x = _taken(g, x, ranges, singles)
    return g("Unsqueeze", x, g.ints(*fresh)) if fresh else x


def _taken(g: Importer, x: Value, ranges: Mapping[int, Part], singles: Mapping[int, Any]) -> Value:
    """X with ranges of some axes, and without those of which one element is taken."""
    fixed = {axis: at for axis, at in singles.items() if isinstance(at, int)}
    parts = {axis: part for axis, part in ranges.items() if part != (0, LAST, 1)}
    parts |= {axis: (at, LAST if at == -1 else at + 1, 1) for axis, at in fixed.items()}
    if parts:
        firsts, ends, steps = zip(*parts.values())
        x = g("Slice", x, g.ints(*firsts), g.ints(*ends), g.ints(*parts), g.ints(*steps))
    computed = [axis for axis in singles if axis not in fixed]
    for axis in reversed(computed):
        x = g("Gather", x, singles[axis], axis=axis)
    gone = [axis - sum(other < axis for other in computed) for axis in fixed]
    return g("Squeeze", x, g.ints(*gone)) if gone else x
