"""Reductions, arg reductions and running sums."""

from __future__ import annotations

from infuse import dtypes
from infuse.codegen.groups import Group
from infuse.codegen.lower.linear import label
from infuse.codegen.lower.views import operand
from infuse.codegen.lowering import Lowering, lowers
from infuse.codegen.program import size_text
from infuse.codegen.tensors import Order, Tensor, natural
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, known_ints

_REDUCERS = {
    **{"ReduceSum": "Sum", "ReduceMean": "Mean", "ReduceMax": "Max", "ReduceMin": "Min", "ReduceProd": "Product"},
    **{"ReduceSumSquare": "SumSquare", "ReduceL1": "L1", "ReduceL2": "L2", "ReduceLogSum": "LogSum"},
}


def _axes(low: Lowering, node: Node) -> list[int]:
    x = operand(node)
    if node.input(1) is None:
        known: tuple[Dim, ...] | None = ()
    else:
        known = known_ints(node.input(1))
    if known is None:
        low.unsupported(node, "axes that are computed from data")
    axes = sorted({int(a) % x.rank for a in known or () if isinstance(a, int)})
    if not axes and not node.op.attributes()["noop_with_empty_axes"]:
        axes = list(range(x.rank))
    return axes


def _split(tensor: Tensor, axes: list[int]) -> tuple[Order, list[int], list[int]]:
    """An order in which the reduced axes lie together, the kept axes before them and after them."""
    order = [a for a in tensor.order if tensor.shape[a] != 1 or a not in axes]
    places = [i for i, a in enumerate(order) if a in axes]
    together = not places or places[-1] - places[0] + 1 == len(places)
    kept = [a for a in order if a not in axes]
    ones = [a for a in tensor.order if a not in order]
    if not together:
        return (*ones, *kept, *axes), kept, []
    first = places[0] if places else len(order)
    return (*ones, *order), order[:first], [a for a in order[first:] if a not in axes]


@lowers(*_REDUCERS, "ReduceLogSumExp", fuses=True, reads=(0,))
def reduce(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    axes = _axes(low, node)
    order, before, after = _split(low.tensor(x), axes)
    tensor = low.dense(x, order)
    sizes = [dims.product(x.shape[a] for a in part) for part in (before, axes, after)]
    result_order = _result_order(node, axes, [*before, *after])
    columns = x.shape[([*before, *after] or [0])[-1]] if before or after else 1
    f = low.function(node.kind, *group.nodes)
    shape = f"ReduceShape{{{f.numbers(*sizes, columns)}}}"
    f.include("reduce.hpp")
    if x.dtype != dtypes.float32:
        if node.kind not in _REDUCERS:
            low.unsupported(node, f"element type {x.dtype}")
        target = low.allocate(node.output, result_order)
        f.line(f"reduce_scalar<{_REDUCERS[node.kind]}>(c, {shape}, {f.read(tensor)}, {f.write(target)});")
        low.tensors[node.output] = target
        f.finish(node.kind)
        return
    sink = low.sink(f, group, result_order)
    if node.kind == "ReduceLogSumExp":
        width = f.number(sizes[1] if sizes[2] == 1 else sizes[2])
        pointer = f.read(tensor)
        f.line("const auto input = [=](long row, long col, auto lanes) INFUSE_LAMBDA {")
        f.line(f"  return load({pointer} + row * {width} + col, lanes);")
        f.line("};")
        f.line(f"log_sum_exp(c, {shape}, input, {sink});")
    else:
        f.line(f"reduce<{_REDUCERS[node.kind]}>(c, {shape}, {f.read(tensor)}, {sink});")
    f.finish(label(group))


def _result_order(node: Node, axes: list[int], kept: list[int]) -> Order:
    if node.op.attributes()["keepdims"]:
        return (*axes, *kept)
    new = {a: i for i, a in enumerate(sorted(kept))}
    return tuple(new[a] for a in kept)


@lowers("ArgMax", "ArgMin")
def arg_extreme(low: Lowering, node: Node, group: Group) -> None:
    x, given = operand(node), node.op.attributes()
    axis = given["axis"] % x.rank
    tensor = low.dense(x, natural(x.rank))
    target = low.allocate(node.output)
    sizes = [dims.product(x.shape[:axis]), x.shape[axis], dims.product(x.shape[axis + 1 :])]
    f = low.function(node.kind, node)
    f.include("reduce.hpp")
    largest = "true" if node.kind == "ArgMax" else "false"
    last = "true" if given["select_last_index"] else "false"
    text = ", ".join(map(size_text, sizes))
    f.line(f"arg_extreme<{largest}>(c, {text}, {last}, {f.read(tensor)}, {f.write(target)});")
    f.finish(node.kind)
    low.tensors[node.output] = target


@lowers("CumSum", "CumProd", reads=(0,))
def running(low: Lowering, node: Node, group: Group) -> None:
    x, given = operand(node), node.op.attributes()
    known = known_ints(node.input(1))
    if known is None or not isinstance(known[0], int):
        low.unsupported(node, "an axis that is computed from data")
    axis = known[0] % x.rank
    tensor = low.dense(x, natural(x.rank))
    target = low.allocate(node.output)
    f = low.function(node.kind, node)
    f.include("lines.hpp")
    sizes = f.numbers(*(dims.product(part) for part in (x.shape[:axis], x.shape[axis : axis + 1], x.shape[axis + 1 :])))
    exclusive, reverse = ("true" if given[name] else "false" for name in ("exclusive", "reverse"))
    join = "RunningSum" if node.kind == "CumSum" else "RunningProduct"
    f.line(f"running<{join}>(c, {sizes}, {exclusive}, {reverse}, {f.read(tensor)}, {f.write(target)});")
    f.finish(node.kind)
    low.tensors[node.output] = target
