"""Reading and writing by index."""

from __future__ import annotations

from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node
from infuse.lowering.expressions import AsSize, Element, expression
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import longs, operand, row_major
from infuse.lowering.operators.sizes import compressed_shape
from infuse.lowering.tensors import Tensor
from infuse.lowering.writer import FunctionWriter
from infuse.targets.c.table import call, call_checked, lowers


def _steps(f: FunctionWriter, tensor: Tensor, index: Tensor, axis: int) -> tuple[object, ...]:
    """The arguments of a walk over an index tensor: its rank, its sizes and the strides of the
    elements that it names along an axis, and how many there are.
    """
    longs(f, "shape", map(f.number, index.shape))
    longs(f, "strides", map(f.number, tensor.strides))
    return index.rank, "shape", "strides", axis, f.number(tensor.shape[axis])


@lowers("Gather")
def gather(low: Lowering, node: Node, group: Group) -> None:
    x, index = operand(node), operand(node, 1)
    axis = node.op.attributes()["axis"] % x.rank
    source, places = row_major(low, x), row_major(low, index)
    target = low.storage.allocate(node.output)
    f = low.function("gather", node)
    inner = dims.product(x.shape[axis + 1 :]) * x.dtype.bytes
    outer, count = dims.product(x.shape[:axis]), dims.product(index.shape)
    sizes = f.numbers(inner, outer, x.shape[axis], count)
    pointers = f.read(source.bits), f.read(places), f.write(target.bits)
    call_checked(f, "gather", index.dtype, sizes, *pointers)
    f.finish("Gather")
    low.storage.tensors[node.output] = target


@lowers("GatherElements")
def gather_elements(low: Lowering, node: Node, group: Group) -> None:
    x, index = operand(node), operand(node, 1)
    source, places = row_major(low, x), row_major(low, index)
    target = low.storage.allocate(node.output)
    f = low.function("gather_elements", node)
    steps = _steps(f, source, places, node.op.attributes()["axis"] % x.rank)
    pointers = f.read(source.bits), f.read(places), f.write(target.bits)
    call_checked(f, "gather_elements", index.dtype, x.dtype.bytes, *steps, *pointers)
    f.finish("GatherElements")
    low.storage.tensors[node.output] = target


@lowers("GatherND")
def gather_nd(low: Lowering, node: Node, group: Group) -> None:
    x, index = operand(node), operand(node, 1)
    lead, depth = node.op.attributes()["batch_dims"], index.shape[-1]
    if not isinstance(depth, int):
        low.unsupported(node, "index tuples of unknown length")
    source, places = row_major(low, x), row_major(low, index)
    target = low.storage.allocate(node.output)
    f = low.function("gather_nd", node)
    longs(f, "sizes", map(f.number, x.shape[lead : lead + depth]))
    slice_ = dims.product(x.shape[lead + depth :]) * x.dtype.bytes
    batch, points = dims.product(index.shape[:lead]), dims.product(index.shape[lead:-1])
    sizes = f.numbers(slice_, batch, points), depth, "sizes"
    pointers = f.read(source.bits), f.read(places), f.write(target.bits)
    call_checked(f, "gather_nd", index.dtype, *sizes, *pointers)
    f.finish("GatherND")
    low.storage.tensors[node.output] = target


@lowers("ScatterElements", "ScatterND")
def scatter(low: Lowering, node: Node, group: Group) -> None:
    """A copy of the data, in which elements are replaced or joined with updates."""
    x, index, updates = (operand(node, i) for i in range(3))
    attributes, depth = node.op.attributes(), index.shape[-1] if index.rank else 1
    if index.dtype.c_name != "int64_t" or not isinstance(depth, int):
        low.unsupported(node, "these indices")
    places, values = row_major(low, index), row_major(low, updates)
    target = low.storage.allocate(node.output)
    low.storage.copy(low.storage.tensor(x), target, "scatter", node)
    f = low.function("scatter", node)
    join = f"JOIN_{attributes['reduction'].upper()}"
    write = f.write(target)
    pointers = f.read(places), f.read(values), write
    if node.kind == "ScatterElements":
        steps = _steps(f, target, places, attributes["axis"] % x.rank)
        call_checked(f, "scatter_elements", x.dtype, join, *steps, *pointers)
    else:
        longs(f, "sizes", map(f.number, x.shape[:depth]))
        points, slice_ = dims.product(index.shape[:-1]), dims.product(x.shape[depth:])
        sizes = f.number(points), depth, "sizes", f.number(slice_)
        call_checked(f, "scatter_nd", x.dtype, join, *sizes, *pointers)
    step = f.finish(node.kind)
    step.reads.append(target.buffer)
    low.storage.tensors[node.output] = target


@lowers("NonZero")
def nonzero(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("nonzero", node)
    longs(f, "in", map(f.number, x.shape))
    total, count = f.number(dims.product(x.shape)), f.number(node.output.shape[1])
    arguments = f.read(source), "in", x.rank, total, count, f.write(target)
    call(f, "nonzero", x.dtype, *arguments)
    f.finish("NonZero")
    low.storage.tensors[node.output] = target


@lowers("Compress")
def compress(low: Lowering, node: Node, group: Group) -> None:
    x, condition = operand(node), operand(node, 1)
    shape, axis = compressed_shape(node)
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("compress", node)
    holds = f.read(low.storage.dense(condition)), f.number(condition.shape[0])
    inner = dims.product(shape[axis + 1 :]) * x.dtype.bytes
    sizes = f.numbers(dims.product(shape[:axis]), shape[axis], inner)
    f.call("compress", f.read(source.bits), *holds, sizes, f.write(target.bits), context=False)
    f.finish("Compress")
    low.storage.tensors[node.output] = target


@lowers("Trilu")
def trilu(low: Lowering, node: Node, group: Group) -> None:
    x, offset = operand(node), node.input(1)
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("trilu", node)
    sizes = f.numbers(dims.product(x.shape[:-2]), *x.shape[-2:])
    offsets = None if offset is None else known_ints(offset)
    if offset is None or offsets is not None:
        diagonal = expression(f.number(offsets[0] if offsets else 0))
    else:
        diagonal = AsSize(Element(f.read(low.storage.dense(offset)), 0))
    upper = "true" if node.op.attributes()["upper"] else "false"
    pointers = f.read(source.bits), f.write(target.bits)
    f.call("triangle", x.dtype.bytes, sizes, diagonal, upper, *pointers, context=False)
    f.finish("Trilu")
    low.storage.tensors[node.output] = target
