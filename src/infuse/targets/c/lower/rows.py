"""Kernels that make some rows at a time, and what follows elementwise on each (`plain_rows.h`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.graph import Node, Value
from infuse.lowering.expressions import expression
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.statements import KernelCall, RowWork, Work
from infuse.lowering.tensors import Order, Tensor, channels_last, natural
from infuse.lowering.writer import FunctionWriter
from infuse.ops.convolution import Convolving
from infuse.ops.core.base import Array

TOGETHER = 2
"""Rows that a kernel makes at a time, so that each weight is loaded once for both."""
_FOURS = 4
"""Integers of a window that are multiplied at a time."""


def rows_of(
    low: Lowering,
    f: FunctionWriter,
    group: Group,
    order: Order,
    kernel: tuple[str, Sequence[str], Sequence[object]],
    *,
    bias: Tensor | None = None,
    together: int = TOGETHER,
) -> None:
    """Add the rows of a group's result, whose axes lie in `order`, and what follows on them.
    `kernel`: its name, template and first arguments.
    """
    assert group.anchor is not None
    value = group.anchor.output
    columns = value.shape[order[-1]]
    line = low.storage.scratch_tensor(value.dtype, (together, columns), natural(2))
    name, template, arguments = kernel
    own = (*arguments, "first", "count", f.write(line))
    call = KernelCall(name, tuple(map(expression, own)), tuple(template), "", context=False)
    _add_work(low, f, group, order, call, f.write(line), together, bias)


def is_float(node: Node) -> bool:
    """Whether a node makes float32, after whose products elementwise work may follow."""
    return node.output.dtype == dtypes.float32


def whole_result(low: Lowering, node: Node) -> Tensor:
    """Where a kernel puts a whole result in natural order: scratch memory where elementwise work
    may follow.
    """
    value = node.output
    if value.dtype in (dtypes.float32, dtypes.int32):
        return low.storage.scratch_tensor(value.dtype, value.shape, natural(value.rank))
    return low.storage.allocate(value)


def finish_whole(low: Lowering, node: Node, group: Group, f: FunctionWriter, whole: Tensor) -> None:
    """Add what follows on a whole result, which `f` writes before."""
    if whole.dtype in (dtypes.float32, dtypes.int32):
        _add_work(low, f, group, natural(whole.rank), None, f.write(whole), 1, None)
    else:
        low.storage.tensors[node.output] = whole


def trail(low: Lowering, f: FunctionWriter, group: Group, source: Tensor, order: Order) -> None:
    """State of a group of one result, whose kernel reads a dense `source` row by row, that the
    result may be written over it, as its rows lie in `order`.
    """
    assert group.anchor is not None
    others = {low.storage.tensor(v).buffer for v in group.operands() if v.const is None}
    if len(group.results) != 1 or source.offset != 0 or source.buffer in others:
        return
    target = low.storage.tensors[group.results[0]]
    if target.is_dense(order) and target.offset == 0:
        f.trailing.append((target.buffer, source.buffer))


def _add_work(
    low: Lowering,
    f: FunctionWriter,
    group: Group,
    order: Order,
    call: KernelCall | None,
    line: str,
    together: int,
    bias: Tensor | None,
) -> None:
    assert group.anchor is not None
    shape, dtype = group.anchor.output.shape, group.anchor.output.dtype
    with f.collect() as inner:
        low.fusing.sink(f, group, order, bias=bias)
    (work,) = (each.work for each in inner if isinstance(each, Work))
    rows = f.number(dims.product(shape[axis] for axis in order[:-1]))
    columns = f.number(shape[order[-1]] if order else 1)
    f.checks = f.checks or work.divides
    f.add(RowWork(rows, columns, together, call, line, dtype, work))


# -- convolutions ----------------------------------------------------------------------------------


def is_depthwise(node: Node) -> bool:
    """Whether each channel has one filter of its own."""
    groups, shape = node.op.attributes()["group"], operand(node, 1).shape
    return bool(groups > 1 and shape[:2] == (groups, 1))


def float_conv(low: Lowering, node: Node, group: Group, f: FunctionWriter) -> None:
    """Add a convolution of float32; `f` has its `window`."""
    x, w, bias = operand(node), operand(node, 1), node.input(2)
    f.include("plain_rows.h")
    order, taps = channels_last(node.output.rank), tuple(range(2, w.rank))
    image = low.storage.dense(x, channels_last(x.rank))
    source = f.read(image)
    addend = None if bias is None else low.storage.tensor(bias)
    if addend is not None:
        for _ in taps:
            addend = addend.insert(1)
    if is_depthwise(node):
        weights = f.read(low.storage.dense(w, (*taps, 0, 1)))
        arguments: list[object] = ["&window", f.number(x.shape[1]), source, _none("float"), weights]
        rows_of(
            low,
            f,
            group,
            order,
            ("depthwise_rows", ("float", "float"), arguments),
            bias=addend,
            together=1,
        )
        return
    weights = f.read(low.storage.dense(w, (0, *taps, 1)))
    depth = dims.product(w.shape[1:])
    if _is_point(node):
        arguments = [f.numbers(depth, w.shape[0]), source, weights]
        rows_of(low, f, group, order, ("matmul_rows", ("float",), arguments), bias=addend)
        trail(low, f, group, image, order)
        return
    window = low.storage.scratch_tensor(dtypes.float32, (TOGETHER, depth), natural(2))
    sizes = f.numbers(x.shape[1], w.shape[0], node.op.attributes()["group"], depth)
    arguments = ["&window", sizes, source, weights, f.write(window)]
    kernel = "conv_rows", ("float",), arguments
    rows_of(low, f, group, order, kernel, bias=addend)


def _none(dtype: str) -> str:
    return f"(const {dtype}*)NULL"


def integer_conv(low: Lowering, node: Node, group: Group, f: FunctionWriter) -> bool:
    """Add a convolution of bytes with known filters; `f` has its `window`. False, and nothing is
    added, where they are not known.
    """
    x, w = operand(node), operand(node, 1)
    known = _shifted(w, node.input(3), (-1, *(1,) * (w.rank - 1)))
    if known is None:
        return False
    f.include("plain_rows.h")
    order, taps = channels_last(node.output.rank), tuple(range(2, w.rank))
    image = low.storage.dense(x, channels_last(x.rank))
    source = f.read(image)
    zero, name = _zero(low, f, node.input(2), x.dtype), x.dtype.c_name
    channels, template = f.number(x.shape[1]), (name, _kind(known))
    if is_depthwise(node):
        matrix = known.transpose((*taps, 0, 1)).reshape(-1, known.shape[0])
        weights = f.read(low.program.weight(np.ascontiguousarray(matrix)))
        arguments: list[object] = ["&window", channels, source, zero, weights]
        rows_of(low, f, group, order, ("depthwise_rows", template, arguments), together=1)
        return True
    matrix = _in_fours(known.transpose((0, *taps, 1)).reshape(known.shape[0], -1))
    weights, depth = f.read(low.program.weight(matrix)), matrix.shape[1]
    window = low.storage.scratch_tensor(dtypes.int16, (TOGETHER, depth), natural(2))
    if _is_point(node):
        sizes = f.numbers(x.shape[1], w.shape[0], depth)
        arguments = [sizes, source, zero, weights, f.write(window)]
        rows_of(low, f, group, order, ("matmul_rows", template, arguments))
        trail(low, f, group, image, order)
        return True
    sizes = f.numbers(w.shape[0], node.op.attributes()["group"], depth)
    arguments = ["&window", channels, sizes, source, zero, weights, f.write(window)]
    rows_of(low, f, group, order, ("conv_rows", template, arguments))
    return True


def _is_point(node: Node) -> bool:
    """Whether each pixel of the result is made of the same pixel of the image alone."""
    x, w, op = operand(node), operand(node, 1), node.op
    assert isinstance(op, Convolving)
    alone = op.group == 1 and dims.product(w.shape[2:]) == 1
    alone = alone and all(before == 0 for before, _ in op.padding(x.shape[2:], w.shape[2:]))
    return alone and x.shape[2:] == node.output.shape[2:] and set(op.steps(w.rank - 2)) == {1}


def _zero(low: Lowering, f: FunctionWriter, zero: Value | None, dtype: DType) -> object:
    """A pointer to the zero point of an activation."""
    return _none(dtype.c_name) if zero is None else f.read(low.storage.dense(zero))


def _shifted(w: Value, zero: Value | None, shape: tuple[int, ...]) -> Array | None:
    """Known weights less their zero points, which lie in this shape: of 8 bits where all fit; None
    where they are not known.
    """
    if w.const is None or (zero is not None and zero.const is None):
        return None
    wide = w.const.astype(np.int16)
    if zero is not None and zero.const is not None:
        points = zero.const.astype(np.int16)
        wide = wide - (points.reshape(shape) if points.size > 1 else points.reshape(()))
    fits = not wide.size or (wide.min() >= -128 and wide.max() <= 127)
    return np.asarray(wide.astype(np.int8) if fits else wide)


def _kind(known: Array) -> str:
    return f"{known.dtype}_t"


def _in_fours(matrix: Array) -> Array:
    """A matrix with zeros behind its rows, up to a multiple of four."""
    more = -matrix.shape[1] % _FOURS
    return np.ascontiguousarray(np.pad(matrix, ((0, 0), (0, more))))


# -- matrices --------------------------------------------------------------------------------------


def takes_integers(node: Node) -> bool:
    """Whether a MatMulInteger has rows of bytes and a known matrix."""
    a, b, a_zero = node.input(0), node.input(1), node.input(2)
    if a is None or b is None or a.rank < 2 or b.rank != 2 or b.const is None:
        return False
    zero = node.input(3)
    scalar = a_zero is None or a_zero.tensor.size == 1
    return scalar and (zero is None or zero.const is not None) and b.const.size > 0


def integer_matmul(low: Lowering, node: Node, group: Group, f: FunctionWriter) -> None:
    """Add a product of rows of bytes with a known matrix."""
    a, b = operand(node), operand(node, 1)
    known = _shifted(b, node.input(3), (1, -1))
    assert known is not None
    f.include("plain_rows.h")
    matrix = _in_fours(known.T)
    source, zero = f.read(low.storage.dense(a, natural(a.rank))), node.input(2)
    weights, depth = f.read(low.program.weight(matrix)), matrix.shape[1]
    window = low.storage.scratch_tensor(dtypes.int16, (TOGETHER, depth), natural(2))
    sizes = f.numbers(*b.shape, depth)
    points = _zero(low, f, zero, a.dtype)
    arguments: list[Any] = [sizes, source, points, weights, f.write(window)]
    kernel = "matmul_rows", (a.dtype.c_name, _kind(known)), arguments
    rows_of(low, f, group, natural(node.output.rank), kernel)


def float_matmul(low: Lowering, node: Node, group: Group, f: FunctionWriter) -> None:
    """Add a product of rows of float32 with a known matrix."""
    a, b = operand(node), operand(node, 1)
    f.include("plain_rows.h")
    source = f.read(low.storage.dense(a, natural(a.rank)))
    weights = f.read(low.storage.dense(b, (1, 0)))
    kernel = "matmul_rows", ("float",), [f.numbers(*b.shape), source, weights]
    rows_of(low, f, group, natural(node.output.rank), kernel)
