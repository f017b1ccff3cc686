"""Reading and writing by index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.ir.relations import Relation
from infuse.lowering.fp16_weights import weight_type
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand, row_major
from infuse.lowering.tensors import Tensor, natural
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.table import lowers

_JOINS = {"none": "Assign", "add": "Add", "mul": "Multiply", "min": "Smaller", "max": "Larger"}


@lowers("Gather")
def gather(low: Lowering, node: Node, group: Group) -> None:
    x, index = operand(node, 0), operand(node, 1)
    axis = node.op.attributes()["axis"] % x.rank
    if index.const is not None and index.const.size == 1:
        number, size = int(index.const.reshape(-1)[0]), x.shape[axis]
        start = size + number if number < 0 else number
        if (
            dims.compare("<", start, size) is not False
            and dims.compare(">=", start, 0) is not False
        ):
            _require_inside(low, node, start, size)
            view = low.storage.tensor(x).slice(axis, start, 1)
            view = view.drop(axis)
            for _ in range(index.rank):
                view = view.insert(axis)
            low.storage.tensors[node.output] = view
            return
    source, places = _table(low, x), row_major(low, index)
    target = low.storage.allocate(node.output)
    f = low.function("gather", node)
    f.include("gather.hpp")
    sizes = [
        dims.product(x.shape[:axis]),
        x.shape[axis],
        dims.product(x.shape[axis + 1 :]),
        dims.product(index.shape),
    ]
    text = f.numbers(*sizes)
    if source.dtype == x.dtype:
        pointers = f"{f.read(source.bits)}, {f.read(places)}, {f.write(target.bits)}"
        f.call("gather", text, pointers, template=(x.dtype.bytes,), failure="2")
    else:
        pointers = f"{f.read(source)}, {f.read(places)}, {f.write(target)}"
        f.call("gather_fp16", text, pointers, failure="2")
    f.finish("Gather")
    low.storage.tensors[node.output] = target


def _table(low: Lowering, x: Value) -> Tensor:
    """The rows to gather from, a constant's perhaps as halves."""
    if x.const is None or weight_type(low, x) == x.dtype:
        return row_major(low, x)
    table = x.const
    return low.program.packed(
        table, "halves", table.size, lambda a: a.astype(np.float16), dtypes.float16
    )


def _require_inside(low: Lowering, node: Node, index: Dim, size: Dim) -> None:
    """A check where symbolic sizes leave open whether an index lies inside."""
    for a, b in ((index, size), (-1, index)):
        if dims.compare("<", a, b) is None:
            low.checks.require(node, Relation("<", a, b))


def sizes_array(f: FunctionWriter, name: str, sizes: Sequence[Dim]) -> None:
    """Define a C array of sizes."""
    f.array(name, f.numbers(*sizes) or "1L")


@lowers("GatherElements")
def gather_elements(low: Lowering, node: Node, group: Group) -> None:
    x, index = operand(node, 0), operand(node, 1)
    axis = node.op.attributes()["axis"] % x.rank
    source, places = row_major(low, x), row_major(low, index)
    target = low.storage.allocate(node.output)
    f = low.function("gather_elements", node)
    f.include("gather.hpp")
    sizes_array(f, "index_sizes", index.shape)
    sizes_array(f, "sizes", x.shape)
    pointers = f"{f.read(source.bits)}, {f.read(places)}, {f.write(target.bits)}"
    f.call(
        "gather_elements",
        x.rank,
        "index_sizes",
        "sizes",
        axis,
        pointers,
        template=(x.dtype.bytes,),
        failure="2",
    )
    f.finish("GatherElements")
    low.storage.tensors[node.output] = target


@lowers("GatherND")
def gather_nd(low: Lowering, node: Node, group: Group) -> None:
    x, index = operand(node, 0), operand(node, 1)
    lead = node.op.attributes()["batch_dims"]
    depth = index.shape[-1]
    if not isinstance(depth, int):
        low.unsupported(node, "index tuples of unknown length")
    source, places = row_major(low, x), row_major(low, index)
    target = low.storage.allocate(node.output)
    f = low.function("gather_nd", node)
    f.include("gather.hpp")
    sizes_array(f, "sizes", x.shape[lead : lead + depth])
    batch, points = dims.product(index.shape[:lead]), dims.product(index.shape[lead:-1])
    slice_ = dims.product(x.shape[lead + depth :])
    text = f"{f.numbers(batch, points)}, {depth}, sizes, {f.number(slice_)}"
    pointers = f"{f.read(source.bits)}, {f.read(places)}, {f.write(target.bits)}"
    f.call("gather_nd", text, pointers, template=(x.dtype.bytes,), failure="2")
    f.finish("GatherND")
    low.storage.tensors[node.output] = target


@lowers("ScatterND")
def scatter_nd(low: Lowering, node: Node, group: Group) -> None:
    x, index, updates = (operand(node, i) for i in range(3))
    depth = index.shape[-1]
    if not isinstance(depth, int) or not x.dtype.c_name:
        low.unsupported(node, "these operands")
    tensors = [row_major(low, v) for v in (x, index, updates)]
    target = low.storage.allocate(node.output)
    f = low.function("scatter_nd", node)
    f.include("gather.hpp")
    sizes_array(f, "sizes", x.shape[:depth])
    points, slice_ = dims.product(index.shape[:-1]), dims.product(x.shape[depth:])
    join, pointers = _joined(f, node, tensors, target)
    text = f"{f.number(points)}, {depth}, sizes, {f.number(slice_)}, {pointers}"
    f.call("scatter_nd", text, template=(join,), failure="2")
    f.finish("ScatterND")
    low.storage.tensors[node.output] = target


@lowers("ScatterElements")
def scatter_elements(low: Lowering, node: Node, group: Group) -> None:
    x, index, updates = (operand(node, i) for i in range(3))
    axis = node.op.attributes()["axis"] % x.rank
    tensors = [row_major(low, v) for v in (x, index, updates)]
    target = low.storage.allocate(node.output)
    f = low.function("scatter_elements", node)
    f.include("gather.hpp")
    sizes_array(f, "index_sizes", index.shape)
    sizes_array(f, "sizes", x.shape)
    join, pointers = _joined(f, node, tensors, target)
    text = f"{x.rank}, index_sizes, sizes, {axis}, {pointers}"
    f.call("scatter_elements", text, template=(join,), failure="2")
    f.finish("ScatterElements")
    low.storage.tensors[node.output] = target


def _joined(
    f: FunctionWriter, node: Node, tensors: Sequence[Tensor], target: Tensor
) -> tuple[str, str]:
    """How elements are joined, and the pointers to `tensors` (elements, index, updates) and to the
    result; elements that are only moved are bits.
    """
    join = _JOINS[node.op.attributes()["reduction"]]
    x, index, updates = tensors
    if join == "Assign":
        x, updates, target = x.bits, updates.bits, target.bits
    return join, ", ".join([*map(f.read, (x, index, updates)), f.write(target)])


@lowers("Trilu")
def trilu(low: Lowering, node: Node, group: Group) -> None:
    x, offset = operand(node), node.input(1)
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("trilu", node)
    f.include("sequence.hpp")
    sizes = f.numbers(dims.product(x.shape[:-2]), *x.shape[-2:])
    offsets = None if offset is None else known_ints(offset)
    if offset is None or offsets is not None:
        diagonal = f.number(offsets[0] if offsets else 0)
    else:
        diagonal = f"isize({f.read(low.storage.dense(offset))}[0])"
    upper = "true" if node.op.attributes()["upper"] else "false"
    # Bits of zero are zero in every type.
    f.call("triangle", sizes, diagonal, upper, f.read(source.bits), f.write(target.bits))
    f.finish("Trilu")
    low.storage.tensors[node.output] = target


@lowers("TopK", runtime_inputs=(0,))
def top_k(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    axis = attributes["axis"] % x.rank
    source = row_major(low, x)
    count = node.output.shape[axis]
    values, places = low.storage.allocate(node.output), _second(low, node)
    f = low.function("top_k", node)
    f.include("sequence.hpp")
    f.scratch("top_k_scratch", "sequence.hpp", count)
    sizes = f.numbers(
        dims.product(x.shape[:axis]), x.shape[axis], dims.product(x.shape[axis + 1 :]), count
    )
    largest = "true" if attributes["largest"] else "false"
    f.call("top_k", sizes, f.read(source), f.write(values), f.write(places), template=(largest,))
    f.finish("TopK")
    low.storage.tensors[node.output] = values


def _second(low: Lowering, node: Node) -> Tensor:
    """Where the second output goes, a place to forget where nobody reads it."""
    if len(node.outputs) < 2:
        return low.storage.scratch_tensor(
            dtypes.int64, node.output.shape, natural(node.output.rank)
        )
    low.storage.tensors[node.outputs[1]] = low.storage.allocate(node.outputs[1])
    return low.storage.tensors[node.outputs[1]]


@lowers("ReverseSequence")
def reverse_sequence(low: Lowering, node: Node, group: Group) -> None:
    x, lengths = operand(node, 0), operand(node, 1)
    attributes = node.op.attributes()
    batch, time = attributes["batch_axis"] % x.rank, attributes["time_axis"] % x.rank
    order = (batch, time, *(a for a in range(x.rank) if a not in (batch, time)))
    source, counts = low.storage.dense(x, order), low.storage.dense(lengths)
    target = low.storage.allocate(node.output, order)
    f = low.function("reverse_sequence", node)
    f.include("lines.hpp")
    rest = dims.product(x.shape[a] for a in order[2:])
    sizes = f.numbers(x.shape[batch], x.shape[time], rest * x.dtype.bytes)
    read, write = f"(const char*){f.read(source.bits)}", f"(char*){f.write(target.bits)}"
    f.call("reverse_lines", sizes, read, f.read(counts), write, failure="2")
    f.finish("ReverseSequence")
    low.storage.tensors[node.output] = target
