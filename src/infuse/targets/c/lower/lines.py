"""Reductions, and what runs along one axis."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Node
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.along import along
from infuse.lowering.operators.operands import longs, operand, row_major
from infuse.lowering.operators.reduced import reduced_axes, seen_apart
from infuse.lowering.tensors import Tensor, natural
from infuse.targets.c.table import call, call_checked, lowers

_KINDS = {
    "ReduceSum": "SUM",
    "ReduceMean": "MEAN",
    "ReduceProd": "PROD",
    "ReduceMax": "MAX",
    "ReduceMin": "MIN",
    "ReduceL1": "L1",
    "ReduceL2": "L2",
    "ReduceSumSquare": "SUM_SQUARE",
    "ReduceLogSum": "LOG_SUM",
    "ReduceLogSumExp": "LOG_SUM_EXP",
}


@lowers(*_KINDS, runtime_inputs=(0,))
def reduce(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    axes = reduced_axes(node)
    source = low.storage.tensor(x) if axes is not None else seen_apart(low, node)
    if axes is None:
        axes = list(range(x.rank, 2 * x.rank))
    rest = [axis for axis in range(source.rank) if axis not in axes]
    target = low.storage.allocate(node.output)
    f = low.function("reduce", node)
    for name, chosen in (("outside", rest), ("inside", axes)):
        longs(f, name, [f.number(source.shape[a]) for a in chosen])
        longs(f, f"{name}_steps", [f.number(source.strides[a]) for a in chosen])
    steps = len(rest), "outside", "outside_steps", len(axes), "inside", "inside_steps"
    pointers = f.read(source), f.write(target)
    kind = f"REDUCE_{_KINDS[node.kind]}"
    call(f, "reduce", x.dtype, kind, *steps, *pointers)
    f.finish(node.kind)
    low.storage.tensors[node.output] = target


@lowers("ArgMax", "ArgMin")
def arg_extreme(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    lines = along(low, node, x, None, attributes["axis"])
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("arg_extreme", node)
    largest = "true" if node.kind == "ArgMax" else "false"
    last = "true" if attributes["select_last_index"] else "false"
    arguments = largest, last, f.numbers(*lines.sizes), f.read(source), f.write(target)
    call(f, "arg_extreme", x.dtype, *arguments)
    f.finish(node.kind)
    low.storage.tensors[node.output] = target


@lowers("CumSum", "CumProd", runtime_inputs=(0,))
def running(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    lines = along(low, node, x, node.input(1))
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("running", node)
    flags = ["true" if attributes[name] else "false" for name in ("exclusive", "reverse")]
    product = "true" if node.kind == "CumProd" else "false"
    sizes, pointers = f.numbers(*lines.sizes), (f.read(source), f.write(target))
    call(f, "running", x.dtype, product, sizes, *flags, *pointers)
    f.finish(node.kind)
    low.storage.tensors[node.output] = target


@lowers("TopK", runtime_inputs=(0,))
def top_k(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    axis = attributes["axis"] % x.rank
    lines = along(low, node, x, None, axis)
    source, values = row_major(low, x), low.storage.allocate(node.output)
    places = _places(low, node)
    f = low.function("top_k", node)
    largest = "true" if attributes["largest"] else "false"
    sizes = f.numbers(*lines.sizes, node.output.shape[axis])
    pointers = f.read(source), f.write(values), f.write(places)
    call(f, "top_k", x.dtype, largest, sizes, *pointers)
    f.finish("TopK")
    low.storage.tensors[node.output] = values


def _places(low: Lowering, node: Node) -> Tensor:
    """Where the indices go: scratch memory where there is no such output."""
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
    rest = dims.product(x.shape[a] for a in order[2:])
    sizes = f.numbers(rest * x.dtype.bytes, x.shape[batch], x.shape[time])
    pointers = f.read(source.bits), f.read(counts), f.write(target.bits)
    call_checked(f, "reverse_lines", lengths.dtype, sizes, *pointers)
    f.finish("ReverseSequence")
    low.storage.tensors[node.output] = target
