"""The axes of reductions, which may be data."""

from __future__ import annotations

from infuse.immutable import replace
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node
from infuse.lowering.expressions import Element, Pointed, invoke
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import array, longs, new_symbol, operand
from infuse.lowering.tensors import Tensor, natural


def reduced_axes(node: Node) -> list[int] | None:
    """The reduced axes; None where only the run knows them."""
    x = operand(node)
    numbers = () if node.input(1) is None else known_ints(node.input(1))
    if numbers is None:
        return None
    axes = sorted({int(a) % x.rank for a in numbers or () if isinstance(a, int)})
    if not axes and not node.op.attributes()["noop_with_empty_axes"]:
        axes = list(range(x.rank))
    return axes


def seen_apart(low: Lowering, node: Node) -> Tensor:
    """The operand of a reduction whose axes only the run knows, with twice as many axes: the first
    ones are those that stay, each of its size or of one, and the others those that are reduced.
    """
    x, out, attributes = operand(node), node.output, node.op.attributes()
    outer, reduced = ([new_symbol(low) for _ in x.shape] for _ in range(2))
    f = low.function("reduced_sizes", node)
    count = array(low, f, node, "axes", operand(node, 1))
    longs(f, "in", x.shape)
    f.room({"kept": x.rank + 1, "reduced": x.rank + 1, "out": out.rank + 1})
    none, keep = (
        "true" if attributes[name] else "false" for name in ("noop_with_empty_axes", "keepdims")
    )
    how = x.rank, "axes", count, none, keep, out.rank
    f.fail_unless(invoke("reduced_sizes", "in", *how, "kept", "reduced", "out"))
    low.resolve_sizes(f, node, out.shape, "out")
    for axis in range(x.rank):
        for symbol, name in ((outer[axis], "kept"), (reduced[axis], "reduced")):
            f.assign(Pointed(f.resolves(symbol)), Element(name, axis))
    f.finish(f"{node.kind} {node.name}: sizes")
    tensor = low.storage.tensor(x)
    shape = tuple(map(dims.symbol, [*outer, *reduced]))
    strides = (*tensor.strides, *tensor.strides)
    return replace(tensor, shape=shape, strides=strides, order=natural(len(shape)))
