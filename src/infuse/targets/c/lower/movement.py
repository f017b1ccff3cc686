"""Padding, ranges and filled tensors."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.expressions import AddressOf, Element
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import longs, operand, row_major
from infuse.lowering.operators.pads import centered, pads_before
from infuse.lowering.writer import FunctionWriter
from infuse.targets.c.table import call, lowers
from infuse.targets.text.literals import literal


def _stored(f: FunctionWriter, name: str, number: float, node: Node) -> AddressOf:
    """A number as it lies in memory, under a name; its address."""
    dtype = node.output.dtype
    text = literal(number, dtype)
    f.constant(name, f"to_{dtype.c_name}({text})", type=dtype.c_name)
    return AddressOf(name)


@lowers("Pad", runtime_inputs=(0, 2))
def pad(low: Lowering, node: Node, group: Group) -> None:
    _padded(low, node, pads_before(low, node), node.input(2), node.op.attributes()["mode"])


@lowers("CenterCropPad", runtime_inputs=(0,))
def center_crop_pad(low: Lowering, node: Node, group: Group) -> None:
    _padded(low, node, centered(node), None, "constant")


def _padded(
    low: Lowering, node: Node, before: Sequence[Dim], value: Value | None, mode: str
) -> None:
    data = operand(node)
    source, target = row_major(low, data), low.storage.allocate(node.output)
    f = low.function("pad", node)
    number = f.read(low.storage.dense(value)) if value is not None else _stored(f, "value", 0, node)
    for name, sizes in (("size", data.shape), ("begin", before), ("out", target.shape)):
        longs(f, name, map(f.number, sizes))
    how = "size", "begin", "out", f"PAD_{mode.upper()}", number
    arguments = data.dtype.bytes, data.rank, *how
    f.call("pad", *arguments, f.read(source), f.write(target), context=False)
    f.finish("Pad")
    low.storage.tensors[node.output] = target


@lowers("ConstantOfShape", runtime_inputs=())
def constant_of_shape(low: Lowering, node: Node, group: Group) -> None:
    target = low.storage.allocate(node.output)
    f = low.function("fill", node)
    number = _stored(f, "value", node.op.attributes()["value"], node)
    sizes = target.dtype.bytes, f.number(target.size)
    f.call("fill_elements", *sizes, number, f.write(target), context=False)
    f.finish("fill")
    low.storage.tensors[node.output] = target


@lowers("Range")
def range_(low: Lowering, node: Node, group: Group) -> None:
    start, step = (low.storage.tensor(operand(node, i)) for i in (0, 2))
    target = low.storage.allocate(node.output)
    f = low.function("range", node)
    ends = (Element(f.read(tensor), 0) for tensor in (start, step))
    count = f.number(node.output.shape[0])
    call(f, "range", target.dtype, *ends, count, f.write(target))
    f.finish("range")
    low.storage.tensors[node.output] = target
