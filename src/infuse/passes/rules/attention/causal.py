"""Masks that hide what comes later, or what is far off: Attention knows that by itself, and skips
the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir import dims
from infuse.ir.broadcasting import resolved
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph, Node, Value
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.attention.attention import FAR_BELOW
from infuse.passes.rules.attention.bands import Band, visible_band
from infuse.passes.rules.attention.rotary import size_of
from infuse.passes.rules.common import attribute, require_shape
from infuse.rewrite import Patch, Refusal, Rule, require

_NUMBERS = Call("Range", (np.array(0), np.array(5), np.array(1)))
_EARLIER = Call("LessOrEqual", (_NUMBERS, Call("Unsqueeze", (_NUMBERS, np.array([1])))))
_NEAR = Call("Greater", (_NUMBERS, Call("Unsqueeze", (_NUMBERS, np.array([1]))) + np.array(-3)))
_WIDE = Call("Expand", (np.array(True), np.array([5, 8])))
_ONES = Call("Expand", (np.float32(1), np.array([5, 5])))


class _Masked(Rule):
    """Attention(q, k, v, mask that shows a band of keys to each query)."""

    rows = ("G33",)
    shares = True
    rounding = "hidden keys are not summed"

    def match(self, q: Variable, k: Variable, v: Variable, mask: Variable) -> Any:
        return Call("Attention", (q, k, v, mask))

    def _band(self, q: Value, k: Value, mask: Value, root: Node) -> Band:
        """The pairs of queries and keys that see each other; Refusal where they are no band, or
        some queries see nothing and are not zero.
        """
        require_shape(q, k, mask)
        require(attribute(root, "is_causal") == 0, "it is causal already")
        require(
            attribute(root, "left_window_size") < 0 and attribute(root, "right_window_size") < 0,
            "it has a window already",
        )
        rows, columns = _lengths(q, k)
        require(mask.rank >= 2, "the mask is not a row of keys for each query")
        shape = resolved(mask.shape[-2:], mask.shape[-2:], (rows, columns))
        require(shape == (rows, columns), "the mask is not a row of keys for each query")
        found = visible_band(mask, FAR_BELOW.get(q.dtype.bits, -1e9))
        require(found is not None, "the mask is not known to show a band of keys")
        assert found is not None
        band, hides = found
        require(
            hides or _sees_some(band, rows, columns),
            "a query may see no key, whose scores then count",
        )
        return band


class CausalMask(_Masked):
    """Attention(q, k, v, mask that hides later keys only) → Attention(q, k, v) with is_causal"""

    level = "extended"
    examples = tuple(
        {"q": (2, 3, 5, 4), "k": (2, 3, 5, 4), "v": (2, 3, 5, 4), "mask": mask}
        for mask in (
            np.triu(np.full((5, 5), -np.inf, np.float32), 1),
            np.tril(np.ones((1, 1, 5, 5), bool)),
            Call("Where", (_EARLIER, np.float32(0), np.float32(-1e9))),
            Call("Trilu", (Call("Expand", (np.float32(-np.inf), np.array([5, 5]))), np.array(1))),
            (Call("Trilu", (_ONES,), {"upper": 0}) + np.float32(-1)) * np.float32(1e9),
        )
    )

    def when(self, q: Value, k: Value, mask: Value, root: Node) -> None:
        band = self._band(q, k, mask, root)
        require(band == Band(None, 0), "the mask hides other keys, or shows some later ones")
        require(_room(mask, q, k) is None, "the mask may end before the last key")

    def build(self, q: Value, k: Value, v: Value, root: Node) -> Any:
        return Call("Attention", (q, k, v), {**root.op.attributes(), "is_causal": 1})


class BandedMask(_Masked):
    """Attention(q, k, v, mask of a sliding window, or of keys before the first query) →
    Attention(q, k, v) with a window, and the number of keys
    """

    level = "all"
    examples = tuple(
        {"q": (2, 3, 5, 4), "k": (2, 3, n, 4), "v": (2, 3, n, 4), "mask": mask}
        for n, mask in (
            (5, Call("Where", (Call("And", (_EARLIER, _NEAR)), np.float32(0), np.float32(-1e9)))),
            (8, np.tril(np.ones((5, 8), bool), 3)),
            (8, Call("Trilu", (_WIDE, np.array(3)), {"upper": 0})),
            (5, np.abs(np.arange(5) - np.arange(5)[:, None]) <= 2),
            (5, np.arange(5) >= np.arange(5)[:, None] - 1),
        )
    )

    def when(self, q: Value, k: Value, mask: Value, root: Node) -> None:
        band = self._band(q, k, mask, root)
        other = band != Band(None, 0) or _room(mask, q, k) is not None
        require(other, "the mask is causal, which another rule knows")
        self._options(band, q, k)

    def build(self, patch: Patch, q: Value, k: Value, v: Value, mask: Value, root: Node) -> Any:
        band = self._band(q, k, mask, root)
        options, past = self._options(band, q, k)
        attributes = {**root.op.attributes(), **options}
        room = _room(mask, q, k)
        if past == 0 and room is None:
            return Call("Attention", (q, k, v), attributes)
        counts = _counts(q, k, patch.graph, room)
        return Call("Attention", (q, k, v, None, None, None, counts), attributes)

    def _options(self, band: Band, q: Value, k: Value) -> tuple[dict[str, int], Dim]:
        """The attributes that say so, and how many keys stand before the first query."""
        rows, columns = _lengths(q, k)
        past: Dim = 0
        options: dict[str, int] = {}
        if band.last is not None:
            after = band.last != 0 and columns == rows + band.last
            past = band.last if after else 0
            if after or band.last == 0:
                options["is_causal"] = 1
            else:
                options["right_window_size"] = self._width(band.last)
        if band.first is not None:
            options["left_window_size"] = self._width(past - band.first)
        return options, past

    def _width(self, size: Dim) -> int:
        require(
            isinstance(size, int) and size >= 0,
            "the window lies beside the queries' places",
        )
        assert isinstance(size, int)
        return size


def _sees_some(band: Band, rows: Dim, columns: Dim) -> bool:
    """Whether every query sees a key."""
    limits = [(band.last, 0), (columns - rows, band.first), (band.last, band.first)]
    pairs = [(high, low) for high, low in limits if high is not None and low is not None]
    return all(dims.compare(">=", high, low) is True for high, low in pairs)


def _lengths(q: Value, k: Value) -> tuple[Dim, Dim]:
    """How many queries and keys there are."""
    rows, columns = (x.shape[2 if x.rank == 4 else 1] for x in (q, k))
    return rows, columns


def _room(mask: Value, q: Value, k: Value) -> int | None:
    """How many keys a mask is for at most, where that is less than there may be: a run with more
    ends in an error. None where it always has all.
    """
    room: int | None = None
    for part, size in zip(mask.shape[-2:], _lengths(q, k)):
        limit = dims.limit_of(size, part)
        if limit is None:
            continue
        most = limit[1]
        if not isinstance(most, int):
            raise Refusal("how many keys the mask is for is not known")
        room = most if room is None else min(room, most)
    return room


def _counts(q: Value, k: Value, graph: Graph | None, room: int | None) -> Any:
    """The number of keys, once for each batch; an error where there are more than `room`."""
    axis = 2 if k.rank == 4 else 1
    count = size_of(k.shape[axis], graph, k, axis)
    batch = q.shape[0]
    sizes = int64s(batch) if isinstance(batch, int) else size_of(batch, graph, q, 0)
    counts = ops.expand(count, sizes)
    if room is None:
        return counts
    message = {"message": f"Attention has a mask for {room} keys, and is given more"}
    fits = ops.less_or_equal(count, int64s(room))
    return Call("Assert", (counts, fits), message, domain="infuse")


RULES = (CausalMask, BandedMask)
