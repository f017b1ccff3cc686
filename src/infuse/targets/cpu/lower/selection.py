"""Elements that a condition, or a number, selects."""

from __future__ import annotations

from infuse.ir import dims
from infuse.ir.graph import Node
from infuse.lowering.expressions import (
    PointerTo,
)
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import (
    longs,
    operand,
    row_major,
)
from infuse.lowering.operators.sizes import compressed_shape
from infuse.targets.cpu.table import lowers


@lowers("NonZero")
def nonzero(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("nonzero", node)
    f.include("sizes.hpp")
    longs(f, "in", x.shape)
    total, count = f.number(dims.product(x.shape)), f.number(node.output.shape[1])
    f.call("nonzero", f.read(source), "in", x.rank, total, count, f.write(target), context=False)
    f.finish("NonZero")
    low.storage.tensors[node.output] = target


@lowers("Compress")
def compress(low: Lowering, node: Node, group: Group) -> None:
    x, condition = operand(node), operand(node, 1)
    shape, axis = compressed_shape(node)
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("compress", node)
    f.include("sizes.hpp")
    arguments = f"{f.read(low.storage.dense(condition))}, {f.number(condition.shape[0])}"
    inner = dims.product(shape[axis + 1 :]) * x.dtype.bytes
    sizes = f.numbers(dims.product(shape[:axis]), shape[axis], inner)
    f.call(
        "compress",
        PointerTo(f.read(source.bits)),
        arguments,
        sizes,
        PointerTo(f.write(target.bits), is_written=True),
        context=False,
    )
    f.finish("Compress")
    low.storage.tensors[node.output] = target


@lowers("OneHot", runtime_inputs=(0, 2))
def one_hot(low: Lowering, node: Node, group: Group) -> None:
    index, values = operand(node), operand(node, 2)
    axis = node.op.attributes()["axis"] % (index.rank + 1)
    places, choices, target = (
        row_major(low, index),
        low.storage.dense(values),
        low.storage.allocate(node.output),
    )
    f = low.function("one_hot", node)
    f.include("sizes.hpp")
    sizes = f.numbers(
        dims.product(index.shape[:axis]), node.output.shape[axis], dims.product(index.shape[axis:])
    )
    f.call(
        "one_hot", f.read(places), sizes, f.read(choices.bits), f.write(target.bits), context=False
    )
    f.finish("OneHot")
    low.storage.tensors[node.output] = target
