"""Operators that only look at the same elements differently: views where strides allow, else one
copy.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from infuse.immutable import replace
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.ir.types import Shape
from infuse.lowering.expressions import Chosen, Expression, Grouped, Pointed, Size, infix, invoke
from infuse.lowering.groups import Group
from infuse.lowering.kernel_table import COMMON
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import (
    array,
    define,
    integers,
    longs,
    new_symbol,
    operand,
)
from infuse.lowering.statements import CopyElements
from infuse.lowering.tensors import Buffer, Order, Tensor, dense, match_shapes, natural

INT_MAX = 2**31 - 1


@COMMON.lowers("Identity", "Dropout", runtime_inputs=(0,))
def identity(low: Lowering, node: Node, group: Group) -> None:
    low.storage.tensors[node.output] = low.storage.tensor(operand(node))
    for mask in node.outputs[1:]:
        if mask.uses:
            low.unsupported(node, "a mask output")


@COMMON.lowers("Assert", domain="infuse")
def assert_(low: Lowering, node: Node, group: Group) -> None:
    condition = low.storage.dense(operand(node, 1))
    f = low.function("assert", node)
    f.fail_unless(Pointed(f.read(condition)), "ASSERTION")
    f.finish(node.op.attributes()["message"] or f"Assert {node.name}")
    low.storage.tensors[node.output] = low.storage.tensor(operand(node))


@COMMON.lowers("Transpose")
def transpose(low: Lowering, node: Node, group: Group) -> None:
    perm = node.op.attributes()["perm"] or range(operand(node).rank)[::-1]
    low.storage.tensors[node.output] = low.storage.tensor(operand(node)).permute(perm)


@COMMON.lowers("Reshape", "Flatten", "Squeeze", "Unsqueeze", runtime_inputs=(0,))
def reshape(low: Lowering, node: Node, group: Group) -> None:
    x, out = operand(node), node.output
    if low.storage.homes.outputs.get(out) and x.const is None:
        tensor = low.storage.tensor(x)
        target = low.storage.allocate(out) if tensor.reshape(out.shape) is None else None
        place = None if target is None else target.reshape(x.shape)
        if target is not None and place is not None:
            low.storage.copy(tensor, place, "output")
            low.storage.tensors[out] = target
            return
    low.storage.tensors[out] = reshaped(low, x, out.shape)


def reshaped(low: Lowering, value: Value, shape: Shape) -> Tensor:
    """A value in another shape; copied where its strides do not allow a view."""
    tensor = low.storage.tensor(value)
    view = tensor.reshape(shape)
    if view is None:
        view = low.storage.arranged(tensor, _mergeable_order(tensor, shape), value).reshape(shape)
    if view is None:
        view = low.storage.arranged(tensor, natural(tensor.rank), value).reshape(shape)
    if view is None:
        whole = low.storage.arranged(tensor, natural(tensor.rank), value)
        view = dense(whole.buffer, whole.dtype, shape)
        view = Tensor(view.buffer, view.dtype, view.shape, view.strides, view.order, whole.offset)
    return view


def _mergeable_order(tensor: Tensor, shape: Shape) -> Order:
    """The memory order closest to the tensor's own in which the reshape is a view."""
    groups = match_shapes(tensor.shape, shape)
    if groups is None:
        return natural(tensor.rank)
    order = list(tensor.order)
    for axes, _ in groups:
        real = [a for a in axes if tensor.shape[a] != 1]
        if len(real) < 2:
            continue
        last = max(order.index(a) for a in real)
        tail = list(order[last + 1 :])
        head = [a for a in order[: last + 1] if a not in real]
        order = [*head, *real, *tail]
    return tuple(order)


@COMMON.lowers("Expand", runtime_inputs=(0,))
def expand(low: Lowering, node: Node, group: Group) -> None:
    tensor, shape = low.storage.tensor(operand(node)), node.output.shape
    shift = len(shape) - tensor.rank
    open_ = [
        a
        for a, size in enumerate(tensor.shape)
        if isinstance(size, dims.Expr) and size != shape[a + shift]
    ]
    # Of a shape without producer (`_repeat_inputs` of the expansions) the sizes are mostly equal.
    stretch = _repeated if open_ and operand(node, 1).producer is None else _stretched
    low.storage.tensors[node.output] = stretch(low, node, tensor, open_, shift).expand(shape)


def _repeated(low: Lowering, node: Node, tensor: Tensor, axes: list[int], shift: int) -> Tensor:
    """The tensor where it lies when it has the sizes of the result along these axes, else a copy of
    it with the elements repeated along those of them that have one.
    """
    source = low.storage.arranged(tensor, None, operand(node))
    shape = tuple(
        node.output.shape[axis + shift] if axis in axes else size
        for axis, size in enumerate(source.shape)
    )
    pairs = [(source.shape[axis], shape[axis]) for axis in axes]
    missing = reduce(add, (dims.maximum(to - size, size - to) for size, to in pairs))
    place = dense(low.program.arena(0, node.name), source.dtype, shape, source.order)
    place.buffer.bytes = place.size * source.dtype.bytes * dims.minimum(1, missing)
    f = low.function("repeat", node)
    f.end_when(infix(f.number(missing), "==", 0))
    strides: list[Expression] = [f.number(stride) for stride in source.strides]
    for axis in axes:
        is_one = infix(f.number(source.shape[axis]), "==", 1)
        strides[axis] = Grouped(Chosen(is_one, "0", strides[axis]))
    read, write = f.read(source.bits), f.write(place.bits)
    sizes, writes = (tuple(map(f.number, each)) for each in (shape, place.strides))
    copied = source.dtype.bytes, source.rank, sizes, tuple(strides), writes
    f.add(CopyElements(*copied, read, write))
    f.finish(f"Expand {node.name}")
    buffer = Buffer("either", place.size * source.dtype.bytes, either=(missing, source, place))
    return replace(place, buffer=buffer)


def _stretched(low: Lowering, node: Node, tensor: Tensor, axes: list[int], shift: int) -> Tensor:
    """The tensor with the sizes of the result along axes of which only the run knows whether they
    are repeated.
    """
    if not axes:
        return tensor
    f = low.function("stretch", node)
    shape, strides = list(tensor.shape), list(tensor.strides)
    for axis in axes:
        name, target = new_symbol(low), node.output.shape[axis + shift]
        is_one = infix(Size(shape[axis]), "==", 1)
        f.assign(Pointed(f.resolves(name)), Chosen(is_one, "0", Size(strides[axis])))
        shape[axis], strides[axis] = target, dims.symbol(name)
    f.finish(f"Expand {node.name}: strides")
    return replace(tensor, shape=tuple(shape), strides=tuple(strides))


@COMMON.lowers("Slice", runtime_inputs=(0,))
def slice_(low: Lowering, node: Node, group: Group) -> None:
    data = operand(node)
    starts, steps = known_ints(node.input(1)), known_ints(node.input(4))
    axes = known_ints(node.input(3))
    open_axes = node.input(3) is not None and axes is None
    open_steps = node.input(4) is not None and (
        steps is None or not all(isinstance(s, int) for s in steps)
    )
    if starts is None or open_axes or open_steps or not low.are_known(node):
        _slice_as_found(low, node)
        return
    tensor = low.storage.tensor(data)
    for i, start in enumerate(starts):
        axis = axes[i] if axes is not None else i
        step = steps[i] if steps is not None else 1
        assert isinstance(axis, int)
        assert isinstance(step, int)
        axis %= data.rank
        first = _clamped(start, data.shape[axis], step)
        tensor = tensor.slice(axis, first, node.output.shape[axis], step)
    low.storage.tensors[node.output] = tensor


def _slice_as_found(low: Lowering, node: Node) -> None:
    """A slice of which only the run knows where it begins, ends or steps to: a view all the
    same.
    """
    data = operand(node)
    first, step = ([new_symbol(low) for _ in data.shape] for _ in range(2))
    f = low.function("slice_ranges", node)
    count = array(low, f, node, "starts", operand(node, 1))
    array(low, f, node, "ends", operand(node, 2))
    for i, name, plain in ((3, "axes", map(str, range(count))), (4, "steps", ["1L"] * count)):
        value = node.input(i)
        if value is not None:
            array(low, f, node, name, value)
        else:
            longs(f, name, plain)
    longs(f, "in", data.shape)
    f.room({"first": data.rank, "step": data.rank, "out": data.rank})
    lists = "starts", "ends", "axes", "steps", count, "first", "step", "out"
    f.fail_unless(invoke("slice_ranges", "in", data.rank, *lists))
    low.resolve_sizes(f, node, node.output.shape, "out")
    for axis in range(data.rank):
        start, stride = f.resolves(first[axis]), f.resolves(step[axis])
        f.assign_all({f"*{start}": f"first[{axis}]", f"*{stride}": f"step[{axis}]"})
    f.finish(f"Slice {node.name}: sizes")
    tensor = low.storage.tensor(data)
    for axis in range(data.rank):
        tensor = tensor.slice(
            axis, dims.symbol(first[axis]), node.output.shape[axis], dims.symbol(step[axis])
        )
    low.storage.tensors[node.output] = tensor


def _clamped(start: Dim, size: Dim, step: int) -> Dim:
    """The first index of a slice, counted from the front, inside the axis."""
    if dims.compare("<", start, 0) is True:
        start = start + size
    last = size if step > 0 else size - 1
    return (
        dims.minimum(dims.maximum(start, 0), last)
        if not (isinstance(start, int) and start == 0)
        else 0
    )


@COMMON.lowers("Split", runtime_inputs=(0,))
def split(low: Lowering, node: Node, group: Group) -> None:
    data = operand(node)
    axis = node.op.attributes()["axis"] % data.rank
    start: Dim = 0
    for output in node.outputs:
        size = output.shape[axis]
        low.storage.tensors[output] = low.storage.tensor(data).slice(axis, start, size)
        start = start + size


@COMMON.lowers("Concat")
def concat(low: Lowering, node: Node, group: Group) -> None:
    axis = node.op.attributes()["axis"] % node.output.rank
    whole = low.storage.tensors.get(node.output)
    if whole is None:
        order = low.storage.output_order(node.output)
        if order is None:
            order = low.storage.tensor(max(node.operands(), key=_static_size)).order
        whole = low.storage.allocate(node.output, order, strided=True)
        low.storage.tensors[node.output] = whole
    start: Dim = 0
    for value in node.operands():
        size = value.shape[axis]
        low.storage.join(value, whole.slice(axis, start, size), node)
        start = start + size


def _static_size(value: Value) -> int:
    size = value.tensor.size
    return size if isinstance(size, int) else 0


@COMMON.lowers("Tile", runtime_inputs=(0,))
def tile(low: Lowering, node: Node, group: Group) -> None:
    data, repeats = operand(node), integers(low, node, 1, least=0)
    assert repeats is not None
    if not dims.symbols(dims.product(node.output.shape)) <= low.program.available_sizes:
        define(low, node, node.output, [a * b for a, b in zip(data.shape, repeats)])
    source = low.storage.tensor(data)
    target = low.storage.allocate(node.output)
    spread, whole = source, target
    shape: list[Dim] = []
    for axis in range(data.rank):
        spread = spread.insert(2 * axis)
        whole = whole.unfold(2 * axis, repeats[axis], data.shape[axis])
        shape += [repeats[axis], data.shape[axis]]
    low.storage.copy(spread.expand(tuple(shape)), whole, "tile", node)
    low.storage.tensors[node.output] = target
