"""Operators that move elements: padding, repetition, ranges, filled tensors."""

from __future__ import annotations

from infuse.codegen.formulas import literal
from infuse.codegen.groups import Group
from infuse.codegen.lower.views import operand
from infuse.codegen.lowering import Lowering, lowers
from infuse.codegen.program import size_text
from infuse.codegen.tensors import Tensor
from infuse.ir.graph import Node, known_ints


@lowers("Pad", reads=(0, 2))
def pad(low: Lowering, node: Node, group: Group) -> None:
    data, pads = operand(node), known_ints(node.input(1))
    axes = known_ints(node.input(3)) if node.input(3) is not None else tuple(range(data.rank))
    if pads is None or axes is None:
        low.unsupported(node, "sizes that are computed from data")
    if node.op.attributes()["mode"] != "constant":
        low.unsupported(node, f"mode {node.op.attributes()['mode']}")
    assert pads is not None
    assert axes is not None
    value = node.input(2)
    if value is not None and value.const is None:
        low.unsupported(node, "a fill value that is computed")
    number = 0 if value is None or value.const is None else value.const.reshape(-1)[0].item()
    source = low.tensor(data)
    target = low.allocate(node.output, source.order)
    fill(low, target, number, node)
    inside = target
    for i, axis in enumerate(axes):
        assert isinstance(axis, int)
        axis %= data.rank
        inside = inside.slice(axis, pads[i], data.shape[axis])
    cropped = [p for p in pads if isinstance(p, int) and p < 0]
    if cropped:
        low.unsupported(node, "negative sizes")
    low.copy(source, inside, "pad", node)
    low.tensors[node.output] = target


def fill(low: Lowering, target: Tensor, number: float | int | bool, node: Node | None) -> None:
    """A step that writes one number everywhere."""
    f = low.function("fill", node)
    f.include("copy.hpp")
    f.line(f"fill(c, {f.write(target)}, {size_text(target.size)}, {literal(number, target.dtype)});")
    f.finish("fill")


@lowers("ConstantOfShape", reads=())
def constant_of_shape(low: Lowering, node: Node, group: Group) -> None:
    value = node.op.attributes()["value"]
    target = low.allocate(node.output)
    number = value if isinstance(value, (int, float)) else getattr(value, "item", lambda: 0)()
    fill(low, target, number, node)
    low.tensors[node.output] = target


@lowers("Tile", reads=(0,))
def tile(low: Lowering, node: Node, group: Group) -> None:
    data, repeats = operand(node), known_ints(node.input(1))
    if repeats is None:
        low.unsupported(node, "repeats that are computed from data")
    assert repeats is not None
    tensor = low.tensor(data)
    view = tensor
    shape = []
    for axis in range(data.rank):
        view = view.insert(2 * axis)
        shape += [repeats[axis], data.shape[axis]]
    target = low.allocate(node.output)
    whole = target.reshape(tuple(shape))
    if whole is None:
        low.unsupported(node, "these sizes")
    assert whole is not None
    low.copy(view.expand(tuple(shape)), whole, "tile", node)
    low.tensors[node.output] = target


@lowers("Range")
def range_(low: Lowering, node: Node, group: Group) -> None:
    start, _, step = (low.tensor(operand(node, i)) for i in range(3))
    target = low.allocate(node.output)
    f = low.function("range", node)
    kind = node.output.dtype.c_name
    first, delta, out = f.read(start), f.read(step), f.write(target)
    count = size_text(node.output.shape[0])
    f.line(f"for (long i = 0; i < {count}; ++i) {out}[i] = ({kind})({first}[0] + ({kind})i * {delta}[0]);")
    f.finish("range")
    low.tensors[node.output] = target
