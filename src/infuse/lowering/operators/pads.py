"""What Pad adds, which may be data."""

from __future__ import annotations

from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.expressions import Element, Pointed, invoke
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import array, longs, new_symbol, operand


def stated_pads(node: Node) -> bool:
    """Whether amounts and axes are sizes, and not what the run computes."""
    axes = node.input(3)
    return known_ints(node.input(1)) is not None and (axes is None or known_ints(axes) is not None)


def pads_before(low: Lowering, node: Node) -> list[Dim]:
    """What is added before every axis, negative where elements are cut; a step finds it, and the
    sizes of the result, where only the run knows.
    """
    data, pads = operand(node), known_ints(node.input(1))
    axes = tuple(range(data.rank)) if node.input(3) is None else known_ints(node.input(3))
    if pads is None or axes is None:
        return _computed(low, node)
    before: list[Dim] = [0] * data.rank
    for axis, amount in zip(axes, pads):
        assert isinstance(axis, int)
        before[axis % data.rank] = amount
    return before


def _computed(low: Lowering, node: Node) -> list[Dim]:
    data, pads, axes = operand(node), operand(node, 1), node.input(3)
    names = [new_symbol(low) for _ in data.shape]
    f = low.function("pad_sizes", node)
    count = array(low, f, node, "pads", pads) // 2
    if axes is not None:
        array(low, f, node, "axes", axes)
    else:
        f.array("axes", *map(str, range(data.rank)))
    longs(f, "in", data.shape)
    f.room({"before": data.rank, "out": data.rank})
    repeats = "false" if node.op.attributes()["mode"] == "constant" else "true"
    f.fail_unless(
        invoke("pad_sizes", "in", data.rank, "pads", "axes", count, repeats, "before", "out")
    )
    low.resolve_sizes(f, node, node.output.shape, "out")
    for axis, name in enumerate(names):
        f.assign(Pointed(f.resolves(name)), Element("before", axis))
    f.finish(f"Pad {node.name}: sizes")
    return [dims.symbol(name) for name in names]


def centered(node: Node) -> list[Dim]:
    """What CenterCropPad adds before every axis, negative where it cuts."""
    before: list[Dim] = []
    for size, to in zip(operand(node).shape, node.output.shape):
        added, cut = dims.maximum(to - size, 0), dims.maximum(size - to, 0)
        before.append(dims.floordiv(added, 2) - dims.floordiv(cut, 2))
    return before
