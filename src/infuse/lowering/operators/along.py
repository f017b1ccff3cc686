"""The axis that an operator runs along, given by an attribute, a constant, or by what the run
computes.
"""

from __future__ import annotations

from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.expressions import AsSize, Element, Pointed, infix, invoke
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import longs, new_symbol


class Along(Immutable):
    """A tensor as lines: `outer` · `inner` of them, `size` elements each, `inner` elements
    apart.
    """

    axis: Dim
    outer: Dim
    size: Dim
    inner: Dim

    @property
    def sizes(self) -> tuple[Dim, Dim, Dim]:
        return self.outer, self.size, self.inner


def along(
    low: Lowering, node: Node, x: Value, axis: Value | None, default: int = 0, *, last: int = 0
) -> Along:
    """`x` as lines along the axis that a scalar input names; `last` axes at its end cannot be
    chosen.
    """
    axes = None if axis is None else known_ints(axis)
    if axis is None or axes is not None:
        place = int(default if axes is None else axes[0]) % x.rank
        outer, inner = dims.product(x.shape[:place]), dims.product(x.shape[place + 1 :])
        return Along(place, outer, x.shape[place], inner)
    names = [new_symbol(low) for _ in range(4)]
    f = low.function("find_axis", node)
    longs(f, "in", x.shape)
    stated = AsSize(Element(f.read(low.storage.dense(axis)), 0))
    f.constant("axis", invoke("axis_index", stated, x.rank), type="int")
    f.fail_unless(infix(infix("axis", ">=", 0), "&&", infix("axis", "<", x.rank - last)))
    f.variable("isize", outer=1, inner=1)
    with f.repeat(infix("i", "<", "axis"), type="int"):
        f.assign("outer", infix("outer", "*", Element("in", "i")))
    with f.repeat(infix("i", "<", x.rank), first=infix("axis", "+", 1), type="int"):
        f.assign("inner", infix("inner", "*", Element("in", "i")))
    for name, size in zip(names, ("axis", "outer", Element("in", "axis"), "inner")):
        f.assign(Pointed(f.resolves(name)), size)
    f.finish(f"{node.kind} {node.name}: axis")
    return Along(*map(dims.symbol, names))
