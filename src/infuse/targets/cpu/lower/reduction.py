"""Reductions, arg reductions and running sums."""

from __future__ import annotations

from infuse import dtypes
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.along import along
from infuse.lowering.operators.operands import operand
from infuse.lowering.operators.reduced import reduced_axes, seen_apart
from infuse.lowering.tensors import Order, Tensor, natural
from infuse.targets.cpu.families.reduction import ReduceSizes
from infuse.targets.cpu.lower.linear import label
from infuse.targets.cpu.table import lowers

_REDUCERS = {
    "ReduceSum": "Sum",
    "ReduceMean": "Mean",
    "ReduceMax": "Max",
    "ReduceMin": "Min",
    "ReduceProd": "Product",
    "ReduceSumSquare": "SumSquare",
    "ReduceL1": "L1",
    "ReduceL2": "L2",
    "ReduceLogSum": "LogSum",
}
_OF_ONE = ("ReduceSum", "ReduceMean", "ReduceProd")
"""Of one element that element, whose sign and whose last bits `Max` keeps: 0 + -0 is 0."""


def _split(tensor: Tensor, axes: list[int]) -> tuple[Order, list[int], list[int]]:
    """An order in which the reduced axes lie together, the kept axes before them and after them."""
    order = [a for a in tensor.order if tensor.shape[a] != 1 or a not in axes]
    places = [i for i, a in enumerate(order) if a in axes]
    together = not places or places[-1] - places[0] + 1 == len(places)
    outer = [a for a in order if a not in axes]
    ones = [a for a in tensor.order if a not in order]
    if not together:
        return (*ones, *outer, *axes), outer, []
    first = places[0] if places else len(order)
    return (*ones, *order), order[:first], [a for a in order[first:] if a not in axes]


class _Plan(Immutable):
    """How a reduction runs: over dense `tensor` of `sizes` (before, reduced, after), giving a
    result in `order` whose rows are made of its last `inner` axes at most.
    """

    tensor: Tensor
    sizes: list[Dim]
    order: Order
    inner: int | None = None


def _plan(low: Lowering, node: Node) -> _Plan:
    x, axes = operand(node), reduced_axes(node)
    if axes is None:
        seen = seen_apart(low, node)
        sizes: list[Dim] = [
            dims.product(seen.shape[: x.rank]),
            dims.product(seen.shape[x.rank :]),
            1,
        ]
        return _Plan(low.storage.arranged(seen, seen.order), sizes, natural(node.output.rank))
    order, before, after = _split(low.storage.tensor(x), axes)
    sizes = [dims.product(x.shape[a] for a in part) for part in (before, axes, after)]
    result_order = _result_order(node, axes, [*before, *after])
    return _Plan(low.storage.dense(x, order), sizes, result_order, len(after) or None)


@lowers(*_REDUCERS, "ReduceLogSumExp", has_epilogue=True, runtime_inputs=(0,))
def reduce(low: Lowering, node: Node, group: Group) -> None:
    x, plan = operand(node), _plan(low, node)
    tensor, reducer = plan.tensor, _REDUCERS.get(node.kind)
    if node.kind in _OF_ONE and reduced_axes(node) == []:
        reducer = "Max"
    f = low.function(node.kind, *group.nodes)
    f.include("reduce.hpp")
    if x.dtype != dtypes.float32:
        target = low.storage.allocate(node.output, plan.order)
        shape = f.sizes(ReduceSizes._make([*plan.sizes, 1]))
        template = [reducer] if reducer else []
        kernel = "reduce_scalar" if template else "log_sum_exp"
        f.call(kernel, shape, f.read(tensor), f.write(target), template=template)
        low.storage.tensors[node.output] = target
        f.finish(node.kind)
        return
    sink, columns = low.fusing.wide_sink(f, group, plan.order, plan.inner)
    shape = f.sizes(ReduceSizes._make([*plan.sizes, columns]))
    if reducer is None:
        f.call("log_sum_exp", shape, f.read(tensor), sink)
    else:
        f.call("reduce", shape, f.read(tensor), sink, template=(reducer,))
    f.finish(label(group))


def _result_order(node: Node, axes: list[int], outer: list[int]) -> Order:
    if node.op.attributes()["keepdims"]:
        return (*axes, *outer)
    new = {a: i for i, a in enumerate(sorted(outer))}
    return tuple(new[a] for a in outer)


@lowers("ArgMax", "ArgMin")
def arg_extreme(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    axis = attributes["axis"] % x.rank
    tensor = low.storage.dense(x, natural(x.rank))
    target = low.storage.allocate(node.output)
    sizes = [dims.product(x.shape[:axis]), x.shape[axis], dims.product(x.shape[axis + 1 :])]
    f = low.function(node.kind, node)
    f.include("extremes.hpp")
    largest = "true" if node.kind == "ArgMax" else "false"
    last = "true" if attributes["select_last_index"] else "false"
    printed = map(f.printed, sizes)
    f.call("arg_extreme", *printed, last, f.read(tensor), f.write(target), template=(largest,))
    f.finish(node.kind)
    low.storage.tensors[node.output] = target


@lowers("CumSum", "CumProd", runtime_inputs=(0,))
def running(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    lines = along(low, node, x, node.input(1))
    tensor = low.storage.dense(x, natural(x.rank))
    target = low.storage.allocate(node.output)
    f = low.function(node.kind, node)
    f.include("lines.hpp")
    sizes = f.numbers(*lines.sizes)
    exclusive, reverse = (
        "true" if attributes[name] else "false" for name in ("exclusive", "reverse")
    )
    join = "RunningSum" if node.kind == "CumSum" else "RunningProduct"
    f.call("running", sizes, exclusive, reverse, f.read(tensor), f.write(target), template=(join,))
    f.finish(node.kind)
    low.storage.tensors[node.output] = target
