"""Masks that hide what comes later: Attention knows that by itself, and skips the work."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.ir.contents import known_ints
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Array, Node, Value
from infuse.passes.rules.attention.attention import FAR_BELOW
from infuse.passes.rules.common import attribute, data, is_one, require_shape
from infuse.passes.rules.movement.gathering import counted
from infuse.passes.rules.movement.views import View
from infuse.rewrite import Rule, require

COMPARISONS = {
    "LessOrEqual": (1, 0),
    "Less": (1, -1),
    "GreaterOrEqual": (-1, 0),
    "Greater": (-1, -1),
}
"""Which side must be the keys (1: the left one), and by how much later the last key may be than the
query.
"""
ARRANGING = ("Unsqueeze", "Squeeze", "Reshape", "Expand")
_NUMBERS = Call("Range", (np.array(0), np.array(5), np.array(1)))
_EARLIER = Call("LessOrEqual", (_NUMBERS, Call("Unsqueeze", (_NUMBERS, np.array([1])))))


class CausalMask(Rule):
    """Attention(q, k, v, mask that hides later keys only) → Attention(q, k, v) with is_causal"""

    level = "extended"
    rows = ("G33",)
    shares = True
    rounding = "hidden keys are not summed"
    examples = tuple(
        {"q": (2, 3, 5, 4), "k": (2, 3, 5, 4), "v": (2, 3, 5, 4), "mask": mask}
        for mask in (
            np.triu(np.full((5, 5), -np.inf, np.float32), 1),
            np.tril(np.ones((1, 1, 5, 5), bool)),
            Call("Where", (_EARLIER, np.float32(0), np.float32(-1e9))),
        )
    )

    def match(self, q: Variable, k: Variable, v: Variable, mask: Variable) -> Any:
        return Call("Attention", (q, k, v, mask))

    def when(self, q: Value, k: Value, mask: Value, root: Node) -> None:
        require_shape(q, k, mask)
        require(attribute(root, "is_causal") == 0, "it is causal already")
        rows, columns = (x.shape[2 if x.rank == 4 else 1] for x in (q, k))
        require(
            mask.rank >= 2 and mask.shape[-2:] == (rows, columns),
            "the mask is not a row of keys for each query",
        )
        require(_hides_later(mask, q), "the mask hides other keys, or shows some later ones")

    def build(self, q: Value, k: Value, v: Value, root: Node) -> Any:
        return Call("Attention", (q, k, v), {**root.op.attributes(), "is_causal": 1})


def _hides_later(mask: Value, q: Value) -> bool:
    """Whether key j takes part for query i exactly where j ≤ i."""
    limit = FAR_BELOW.get(q.dtype.bits, -1e9)
    mask = _arranged(mask)
    if mask.dtype.is_bool:
        return _is_lower(mask)
    if mask.const is not None:
        return _shows(data(mask) == 0) and bool((data(mask)[data(mask) != 0] <= limit).all())
    node = mask.producer
    if node is None or node.kind != "Where" or node.op.domain:
        return False
    condition, visible, hidden = node.inputs
    numbers = [
        None if v is None or v.const is None or v.const.size != 1 else float(v.const.flat[0])
        for v in (visible, hidden)
    ]
    if condition is None or numbers[0] != 0 or numbers[1] is None:
        return False
    return numbers[1] <= limit and _is_lower(_arranged(condition))


def _arranged(value: Value) -> Value:
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


def _is_lower(condition: Value) -> bool:
    """Whether a condition holds for key j and query i exactly where j ≤ i."""
    if condition.const is not None:
        return _shows(data(condition))
    node = condition.producer
    if node is None or node.op.domain:
        return False
    if node.kind == "Slice":
        return _cut_in_front(node)
    if node.kind not in COMPARISONS:
        return False
    side, later = COMPARISONS[node.kind]
    keys, queries = [counted(v) for v in node.operands()][::side]
    if keys is None or queries is None:
        return False
    lines_up = (
        _runs_along(keys, 1) and _runs_along(queries, 2) and queries.offset + later == keys.offset
    )
    return condition.rank >= 2 and lines_up


def _runs_along(view: View, axis: int) -> bool:
    """Whether numbers rise by one along an axis, counted from the end, and along no other."""
    steps = [0 if is_one(size) else step for size, step in view.axes[::-1]]
    return (
        len(steps) >= axis
        and steps[axis - 1] == 1
        and not any(s for i, s in enumerate(steps) if i != axis - 1)
    )


def _cut_in_front(node: Node) -> bool:
    """Whether a Slice takes the first rows and columns of a constant lower triangle."""
    source, starts, axes = node.inputs[0], known_ints(node.input(1)), known_ints(node.input(3))
    if source is None or source.const is None or starts is None or axes is None or any(starts):
        return False
    steps = known_ints(node.input(4)) or (1,) * len(starts)
    last = {source.rank - 1, source.rank - 2}
    inside = all(isinstance(a, int) and a % source.rank in last for a in axes)
    return inside and all(step == 1 for step in steps) and _shows(source.const)


def _shows(array: Array) -> bool:
    """Whether an array of conditions holds exactly on and below its diagonals."""
    if array.ndim < 2 or array.size == 0:
        return False
    rows, columns = array.shape[-2:]
    return bool((array.astype(bool) == np.tri(rows, columns, dtype=bool)).all())


RULES = (CausalMask,)
