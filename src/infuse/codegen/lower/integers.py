"""Products and convolutions of 8-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infuse import dtypes
from infuse.codegen.groups import Group
from infuse.codegen.lower.finding import operand
from infuse.codegen.lower.plain import batch_offset
from infuse.codegen.lower.windows import _windows
from infuse.codegen.lowering import Lowering, lowers
from infuse.codegen.program import FunctionWriter, size_text
from infuse.codegen.tensors import Tensor, channels_last, dense, natural
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.ops.convolution import Convolving

Integers = NDArray[np.integer[Any]]


def pack_pairs(b: Integers, lanes: int) -> NDArray[np.int16]:
    """The matrix b[k, n] as [panel, pair of rows, 2 · lanes, row of the pair] for kernels/integer.hpp."""
    k, n = b.shape
    width = 2 * lanes
    pairs, panels = -(-k // 2), -(-n // width)
    whole = np.zeros((2 * pairs, panels * width), np.int16)
    whole[:k, :n] = b
    return np.ascontiguousarray(whole.reshape(pairs, 2, panels, width).transpose(2, 0, 3, 1))


def _zero(f: FunctionWriter, low: Lowering, zero: Value | None, dtype: dtypes.DType) -> str:
    """C++ text of a pointer to zero points and of the distance from one to the next."""
    if zero is None:
        return f"(const {dtype.c_name}*)nullptr, 0L"
    return f"{f.read(low.dense(zero, natural(zero.rank)))}, {0 if zero.tensor.size == 1 else 1}L"


def _known(zero: Value | None) -> bool:
    return zero is None or zero.const is not None


# -- matrices ----------------------------------------------------------------------------------------------------


@lowers("MatMulInteger")
def matmul_integer(low: Lowering, node: Node, group: Group) -> None:
    a, b, zero = operand(node, 0), operand(node, 1), node.input(2)
    left, right = low.tensor(a), low.tensor(b)
    left = left.insert(0) if a.rank == 1 else left
    right = right.insert(1) if b.rank == 1 else right
    rows, depth, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    lead = node.output.shape[: node.output.rank - (a.rank > 1) - (b.rank > 1)]
    packed = _packed_matrices(low, node, right)
    target = low.allocate(node.output)
    left = low.arranged(left, natural(left.rank))
    if right.rank == 2 and (zero is None or zero.tensor.size == 1):
        rows, lead = dims.product(left.shape[:-1]), ()
    f = low.function("integer_matmul", node)
    f.include("integer.hpp")
    sizes = f.numbers(rows, columns, depth, depth)
    pointers = f"{f.read(left)}", _zero(f, low, zero, a.dtype), f.read(packed), f.write(target)
    f.scratch(f"integer_scratch({size_text(rows)}, {size_text(depth)})", "integer.hpp")
    if lead:
        left, packed = left.expand((*lead, rows, depth)), packed.expand((*lead, packed.shape[-1]))
        f.line(f"for (long i = 0; i < {f.number(dims.product(lead))}; ++i) {{")
        starts = batch_offset(f, left, len(lead)), batch_offset(f, packed, len(lead))
        f.line(f"  const auto *x = {pointers[0]} + {starts[0]};")
        f.line(f"  const auto *w = {pointers[2]} + {starts[1]};")
        f.line(f"  integer_matmul(c, {sizes}, x, {pointers[1]}, w, {pointers[3]} + i * {f.number(rows * columns)});")
        f.line("}")
    else:
        f.line(f"integer_matmul(c, {sizes}, {', '.join(pointers)});")
    f.finish(node.kind)
    low.tensors[node.output] = target


def _packed_matrices(low: Lowering, node: Node, right: Tensor) -> Tensor:
    """The right operand, [matrices .., integers of one], packed when it is known or else by a step."""
    b, zero = operand(node, 1), node.input(3)
    depth, columns = right.shape[-2:]
    if b.const is not None and _known(zero):
        shift = 0 if zero is None or zero.const is None else zero.const.astype(np.int16)
        wide = np.asarray(b.const.astype(np.int16) - shift)
        return _stored(low, wide.reshape(*wide.shape[:-2], *(int(d) for d in (depth, columns))), right.shape[:-2])
    whole = low.arranged(right, natural(right.rank))
    return _packed(low, node, whole, zero, right.shape[:-2], (depth, columns), (columns, 1), 0)


def _stored(low: Lowering, matrices: Integers, lead: Sequence[Dim]) -> Tensor:
    """Known matrices [.., k, n] of 16-bit integers in the weight file."""
    k, n = matrices.shape[-2:]
    width = 2 * low.lanes
    each = -(-n // width) * -(-k // 2) * 2 * width
    count = int(np.prod(matrices.shape[:-2], dtype=np.int64))
    buffer = low.program.weights.add(
        np.ascontiguousarray(matrices),
        ("pairs", low.lanes),
        2 * each * count,
        lambda found: np.stack([pack_pairs(one, low.lanes) for one in found.reshape(-1, k, n)]),
    )
    return dense(buffer, dtypes.int16, (*lead, each))


def _packed(
    low: Lowering,
    node: Node,
    whole: Tensor,
    zero: Value | None,
    lead: Sequence[Dim],
    shape: tuple[Dim, Dim],
    strides: tuple[Dim, Dim],
    shift: Dim,
) -> Tensor:
    """Matrices of this shape and strides, one after another in `whole`, packed at run time."""
    k, n = shape
    width = 2 * low.lanes
    each = dims.ceildiv(n, width) * dims.ceildiv(k, 2) * (2 * width)
    target = low.scratch_tensor(dtypes.int16, (*lead, each), natural(len(lead) + 1))
    f = low.function("integer_pack", node)
    f.include("integer.hpp")
    sizes = f.numbers(dims.product(lead), k, n, k * n, *strides)
    zeros, last = _zero(f, low, zero, whole.dtype), f.number(shift)
    f.line(f"integer_pack(c, {sizes}, {f.read(whole)}, {zeros}, {last}, {f.write(target)});")
    f.finish("pack")
    return target


# -- images ------------------------------------------------------------------------------------------------------


@lowers("ConvInteger")
def conv_integer(low: Lowering, node: Node, group: Group) -> None:
    x, w, op = operand(node, 0), operand(node, 1), node.op
    assert isinstance(op, Convolving)
    tensor = low.dense(x, channels_last(x.rank))
    alone = op.group == x.shape[1] and w.shape[:2] == (op.group, 1) and op.group > 1
    alone = alone and w.const is not None and _known(node.input(3))
    filters = _depthwise_filters(low, node) if alone else _filters(low, node, op.group)
    target = low.allocate(node.output, channels_last(x.rank))
    f = low.function("integer_conv", node)
    _windows(low, node, f, w.shape[2:])
    f.include("integer.hpp")
    zero = _zero(f, low, node.input(2), x.dtype).rpartition(",")[0]
    pointers = f"{f.read(tensor)}, {zero}, {f.read(filters)}, {f.write(target)}"
    if alone:
        f.line(f"integer_depthwise(c, windows, {pointers});")
    else:
        rows, depth = dims.product([x.shape[0], *node.output.shape[2:]]), dims.product(w.shape[1:])
        f.scratch(f"integer_scratch({size_text(rows)}, {size_text(depth)})", "integer.hpp")
        f.line(f"integer_conv(c, windows, {f.numbers(w.shape[0], op.group)}, {pointers});")
    f.finish(node.kind)
    low.tensors[node.output] = target


def _shifted_filters(node: Node) -> Integers:
    """Known filters without their zero points."""
    w, zero = operand(node, 1).const, node.input(3)
    assert w is not None
    wide = w.astype(np.int16)
    if zero is None or zero.const is None:
        return wide
    return np.asarray(wide - zero.const.astype(np.int16).reshape(-1, *(1,) * (w.ndim - 1)))


def _depthwise_filters(low: Lowering, node: Node) -> Tensor:
    """Filters of one channel each as [taps, channels]."""
    wide = _shifted_filters(node)
    return low.program.weight(np.ascontiguousarray(wide.reshape(wide.shape[0], -1).T))


def _filters(low: Lowering, node: Node, groups: int) -> Tensor:
    """Filters (M, C/group, …) as packed matrices [taps · C/group, M/group], one for each group."""
    w, zero = operand(node, 1), node.input(3)
    wide, depth, taps = dims.floordiv(w.shape[0], groups), w.shape[1], dims.product(w.shape[2:])
    if w.const is not None and _known(zero):
        matrices = _shifted_filters(node).reshape(groups, wide, depth, taps).transpose(0, 3, 2, 1)
        return _stored(low, matrices.reshape(groups, int(taps) * int(depth), int(wide)), (groups,))
    whole = low.dense(w, natural(w.rank)).reshape((groups, wide, depth, taps))
    assert whole is not None
    whole = low.arranged(whole.permute((0, 1, 3, 2)), natural(4))
    k = dims.product([taps, depth])
    return _packed(low, node, whole, zero, (groups,), (k, wide), (1, k), wide)
