"""Products and convolutions of 8-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.codegen.groups import Group
from infuse.codegen.kernel_table import lowers
from infuse.codegen.lower.convolution import Window, depthwise_sizes, window
from infuse.codegen.lower.linear import label
from infuse.codegen.lower.plain import batch_offset
from infuse.codegen.lower.runtime_operands import operand
from infuse.codegen.lower.sparse import SparseMatrix, faster_blocks, sparse_integers
from infuse.codegen.lower.windows import _windows
from infuse.codegen.lowering import Lowering
from infuse.codegen.tensors import Tensor, channels_last, dense, natural
from infuse.codegen.writer import FunctionWriter
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.ops.convolution import Convolving
from infuse.targets import DotType
from infuse.targets.cpu.emit.sizes import size_text
from infuse.targets.cpu.families.integers import (
    I16X2,
    U8S8X4,
    Integers,
    Layout,
    filled_lines,
    fills_lines,
    pack_columns,
    pack_groups,
    packed_groups,
)


def _zero(f: FunctionWriter, low: Lowering, zero: Value | None, dtype: dtypes.DType) -> str:
    """C++ text of a pointer to zero points and of the distance from one to the next."""
    if zero is None:
        return f"(const {dtype.c_name}*)nullptr, 0L"
    return f"{f.read(low.dense(zero, natural(zero.rank)))}, {0 if zero.tensor.size == 1 else 1}L"


def _known(zero: Value | None) -> bool:
    return zero is None or zero.const is not None


def layout_of(low: Lowering, weights: Integers) -> Layout:
    """The best layout for known weights less their zero points."""
    fits = weights.size == 0 or (weights.min() >= -128 and weights.max() <= 127)
    unit = low.machine.dot(DotType.U8S8)
    return U8S8X4 if fits and unit is not None and unit.products == U8S8X4.group else I16X2


@dataclass(frozen=True)
class Packed:
    """A right operand as kernels read it: its integers [.., integers of one], and the sums of its
    columns.
    """

    layout: Layout
    integers: Tensor
    sums: Tensor | None

    def text(self, f: FunctionWriter) -> tuple[str, str]:
        """C++ text of the pointers to both."""
        return f.read(self.integers), "(const int32_t*)nullptr" if self.sums is None else f.read(
            self.sums
        )


# -- matrices --------------------------------------------------------------------------------------


@lowers("MatMulInteger", has_epilogue=True, accumulates=dtypes.int32)
def matmul_integer(low: Lowering, node: Node, group: Group) -> None:
    a, b, zero = operand(node, 0), operand(node, 1), node.input(2)
    left = low.tensor(a)
    left = left.insert(0) if a.rank == 1 else left
    rows, depth, columns = left.shape[-2], left.shape[-1], b.shape[-1]
    lead = node.output.shape[: node.output.rank - (a.rank > 1) - 1]
    left = low.arranged(left, natural(left.rank))
    if b.rank == 2 and (zero is None or zero.tensor.size == 1):
        rows, lead = dims.product(left.shape[:-1]), ()
    blocks = None if lead else _blocks(low, _known_matrix(node), rows)
    f = low.function("integer_matmul", *group.nodes)
    if blocks is not None:
        sink, pointers = low.sink(f, group, natural(node.output.rank)), f.read(left)
        zeros = _zero(f, low, zero, a.dtype)
        _call_blocks(low, f, blocks, (rows, columns, depth, depth), (pointers, zeros), sink)
        f.finish(label(group))
        return
    packed = _packed_matrices(low, node)
    f.include("integer.hpp")
    sink = low.sink(f, group, natural(node.output.rank))
    sizes = f.numbers(rows, columns, depth, depth)
    name = packed.layout.name
    x, zeros, (w, sums) = f.read(left), _zero(f, low, zero, a.dtype), packed.text(f)
    f.scratch(f"integer_scratch<{name}>({size_text(depth)})", "integer.hpp")
    if lead:
        left = left.expand((*lead, left.shape[-2], depth))
        weights = packed.integers.expand((*lead, packed.integers.shape[-1]))
        with f.repeat(f"i < {f.number(dims.product(lead))}"):
            f.constant("a", f"{x} + {batch_offset(f, left, len(lead))}", type="auto*")
            f.constant("b", f"{w} + {batch_offset(f, weights, len(lead))}", type="auto*")
            f.constant("first", f"i * {f.number(rows)}")
            with f.define("part", "auto acc, long row, long col, auto lanes", references=True):
                f.call(sink, "acc", "first + row", "col", "lanes", context=False)
            f.call("integer_matmul", sizes, "a", zeros, "b", sums, "part", template=(name,))
    else:
        f.call("integer_matmul", sizes, x, zeros, w, sums, sink, template=(name,))
    f.finish(label(group))


def _packed_matrices(low: Lowering, node: Node) -> Packed:
    """The right operand, packed when it is known or else by a step."""
    b, zero, wide = operand(node, 1), node.input(3), _known_matrix(node)
    lead, (depth, columns) = b.shape[:-2], b.shape[-2:]
    if wide is not None:
        return _stored(low, wide, lead, "matrices")
    whole = low.arranged(low.tensor(b), natural(b.rank))
    return _packed(low, node, whole, zero, lead, (depth, columns), (columns, 1), 0)


def _known_matrix(node: Node) -> Integers | None:
    """The right operand less its zero points, where both are known."""
    b, zero = operand(node, 1), node.input(3)
    if b.const is None or not _known(zero):
        return None
    shift = 0 if zero is None or zero.const is None else zero.const.astype(np.int16)
    return np.asarray(b.const.astype(np.int16) - shift)


@dataclass(frozen=True)
class Blocks:
    """A right operand whose zero blocks are left out, and the sums of its columns."""

    layout: Layout
    matrix: SparseMatrix
    sums: Tensor | None


def _blocks(low: Lowering, matrix: Integers | None, rows: Dim) -> Blocks | None:
    """A known matrix [k, n] less its zero points in blocks, where that is faster for so many
    rows.
    """
    if matrix is None or matrix.ndim != 2:
        return None
    layout, (k, n) = layout_of(low, matrix), matrix.shape
    sparse = faster_blocks(
        low, (rows, n, -(-k // layout.group)), sparse_integers(low, matrix, layout)
    )
    if sparse is None:
        return None
    return Blocks(layout, sparse, _sums(low, matrix, layout))


def _sums(low: Lowering, matrices: Integers, layout: Layout) -> Tensor | None:
    """The sums of the columns of matrices [.., k, n], where the layout needs them."""
    if layout is not U8S8X4:
        return None
    return low.program.weight(matrices.sum(-2, dtype=np.int32).reshape(-1))


def _call_blocks(
    low: Lowering,
    f: FunctionWriter,
    blocks: Blocks,
    sizes: Sequence[Dim],
    left: tuple[str, str],
    sink: str,
) -> None:
    """Write the call of the kernel that multiplies rows by blocks: `sizes` are rows, columns, depth
    and the distance of rows; `left` the texts of the pointers to them and their zero points.
    """
    name = blocks.layout.name
    f.include("sparse_integer.hpp")
    f.scratch(f"sparse_integer_scratch<{name}>({size_text(sizes[2])})", "sparse_integer.hpp")
    numbers = f.numbers(*sizes, blocks.matrix.filled)
    text = ", ".join((numbers, *left, *_block_texts(low, f, blocks), sink))
    f.call("sparse_integer_matmul", text, template=(name,))


def _block_texts(low: Lowering, f: FunctionWriter, blocks: Blocks) -> list[str]:
    """C++ text of the pointers to the parts of a matrix in blocks and to the sums."""
    sums = "(const int32_t*)nullptr" if blocks.sums is None else f.read(blocks.sums)
    return [*(f.read(part) for part in blocks.matrix.parts(low)), sums]


def _stored(
    low: Lowering, matrices: Integers, lead: Sequence[Dim], what: str, lines: int = 0
) -> Packed:
    """Known matrices [.., k, n] less their zero points in the weight file; tile registers take each
    of the `lines` along k as whole blocks.
    """
    layout = layout_of(low, matrices) if what == "filters" or not lead else I16X2
    tiled = layout is U8S8X4 and DotType.U8S8 in low.machine.tiled
    sums = _sums(low, matrices, layout)
    if tiled and lines:
        matrices = filled_lines(matrices, lines, layout)
    k, n = matrices.shape[-2:]
    each = packed_groups(k, n, low.lanes, layout, tiled)
    count = int(np.prod(matrices.shape[:-2], dtype=np.int64))
    buffer = low.program.weights.add(
        np.ascontiguousarray(matrices),
        (layout.name, low.lanes, tiled),
        layout.dtype.bytes * each * count,
        lambda array: np.stack(
            [pack_groups(one, low.lanes, layout, tiled) for one in array.reshape(-1, k, n)]
        ),
    )
    return Packed(layout, dense(buffer, layout.dtype, (*lead, each)), sums)


def _packed(
    low: Lowering,
    node: Node,
    whole: Tensor,
    zero: Value | None,
    lead: Sequence[Dim],
    shape: tuple[Dim, Dim],
    strides: tuple[Dim, Dim],
    shift: Dim,
) -> Packed:
    """Matrices of this shape and strides, one after another in `whole`, packed at run time."""
    k, n = shape
    width = 2 * low.lanes
    each = dims.ceildiv(n, width) * dims.ceildiv(k, 2) * (2 * width)
    target = low.scratch_tensor(dtypes.int16, (*lead, each), natural(len(lead) + 1))
    f = low.function("integer_pack", node)
    f.include("integer.hpp")
    sizes = f.numbers(dims.product(lead), k, n, k * n, *strides)
    zeros, last = _zero(f, low, zero, whole.dtype), f.number(shift)
    f.call("integer_pack", sizes, f.read(whole), zeros, last, f.write(target))
    f.finish("pack")
    return Packed(I16X2, target, None)


# -- images ----------------------------------------------------------------------------------------


@lowers("ConvInteger", has_epilogue=True, accumulates=dtypes.int32)
def conv_integer(low: Lowering, node: Node, group: Group) -> None:
    x, w, op = operand(node, 0), operand(node, 1), node.op
    assert isinstance(op, Convolving)
    tensor = low.dense(x, channels_last(x.rank))
    alone = op.group == x.shape[1] and w.shape[:2] == (op.group, 1) and op.group > 1
    alone = alone and w.const is not None and _known(node.input(3))
    win = window(node, low) if x.rank in (3, 4) else None
    f = low.function("integer_conv", *group.nodes)
    f.include("integer.hpp")
    sink = low.sink(f, group, channels_last(x.rank))
    zeros = _zero(f, low, node.input(2), x.dtype)
    pointers = f.read(tensor), zeros.rpartition(",")[0]
    if alone:
        _depthwise(low, node, f, win, pointers, sink)
    elif op.group == 1 and (blocks := _blocks(low, _filter_matrix(node), _places(node))):
        _conv_blocks(low, node, f, blocks, win, (pointers[0], zeros), sink)
    elif win is not None and _is_point(win) and op.group == 1:
        packed = _filters(low, node, 1)
        rows, depth = _places(node), x.shape[1]
        f.scratch(f"integer_scratch<{packed.layout.name}>({size_text(depth)})", "integer.hpp")
        sizes = f.numbers(rows, w.shape[0], depth, depth)
        text = ", ".join((sizes, pointers[0], zeros, *packed.text(f), sink))
        f.call("integer_matmul", text, template=(packed.layout.name,))
    else:
        packed = _filters(low, node, op.group)
        _windows(low, node, f, w.shape[2:])
        f.scratch(_scratch_text(node, packed.layout, win), "integer.hpp")
        text = ", ".join((f.numbers(w.shape[0], op.group), *pointers, *packed.text(f), sink))
        f.call("integer_conv", "windows", text, template=(packed.layout.name,))
    f.finish(label(group))


def _scratch_text(node: Node, layout: Layout, win: Window | None) -> str:
    """C++ text of the bytes of scratch that a convolution needs."""
    w, x, out = operand(node, 1), operand(node), node.output
    depth = size_text(dims.product(w.shape[1:]))
    if win is None or layout is not U8S8X4:  # filters that are computed may have any size
        return f"integer_scratch<{layout.name}>({depth})"
    sides = [(1, 1), *zip(x.shape[2:], out.shape[2:], strict=True)][-2:]
    axes = zip(sides, win.kernel, win.strides, win.dilations, win.before, strict=True)
    texts = [
        ", ".join(map(size_text, (*side, kernel, stride, dilation, before)))
        for side, kernel, stride, dilation, before in axes
    ]
    down, across = (f"detail::TapAxis{{{text}}}" for text in texts)
    assert isinstance(node.op, Convolving)
    sizes = f"{depth}, {size_text(w.shape[1])}, {node.op.group}L, {down}, {across}"
    return f"integer_conv_scratch<{layout.name}>({sizes})"


def _line_count(low: Lowering, node: Node) -> int:
    """Lines of the window that tile registers take as whole blocks; 0 where they do not."""
    op, x, w = node.op, operand(node), operand(node, 1)
    assert isinstance(op, Convolving)
    depth, rank = w.shape[1], x.rank - 2
    assert isinstance(depth, int)
    if rank > 2 or _is_point(window(node, low)):
        return 0
    if not fills_lines(depth, op.group, op.spread(rank)[-1]):
        return 0
    return int(dims.product(w.shape[2:-1]))


def _places(node: Node) -> Dim:
    """Pixels of the result of a convolution."""
    shape = node.output.shape
    return dims.product([shape[0], *shape[2:]])


def _conv_blocks(
    low: Lowering,
    node: Node,
    f: FunctionWriter,
    blocks: Blocks,
    win: Window | None,
    left: tuple[str, str],
    sink: str,
) -> None:
    """Filters whose zero blocks are left out."""
    w = operand(node, 1)
    depth, name = dims.product(w.shape[1:]), blocks.layout.name
    if win is not None and _is_point(win):
        sizes = (_places(node), w.shape[0], depth, depth)
        return _call_blocks(low, f, blocks, sizes, left, sink)
    f.include("sparse_integer.hpp")
    _windows(low, node, f, w.shape[2:])
    f.scratch(f"sparse_integer_scratch<{name}>({size_text(depth)})", "sparse_integer.hpp")
    numbers = f.numbers(w.shape[0], blocks.matrix.filled)
    zero = left[1].rpartition(",")[0]
    text = ", ".join((numbers, left[0], zero, *_block_texts(low, f, blocks), sink))
    return f.call("sparse_integer_conv", "windows", text, template=(name,))


def _is_point(win: Window) -> bool:
    """Whether a convolution is a product of matrices."""
    plain = win.kernel == [1, 1] and win.strides == [1, 1]
    return plain and all(p == 0 for p in (*win.before, *win.after))


def _shifted_filters(node: Node) -> Integers:
    """Known filters without their zero points."""
    w, zero = operand(node, 1).const, node.input(3)
    assert w is not None
    wide = w.astype(np.int16)
    if zero is None or zero.const is None:
        return wide
    return np.asarray(wide - zero.const.astype(np.int16).reshape(-1, *(1,) * (w.ndim - 1)))


def _depthwise(
    low: Lowering,
    node: Node,
    f: FunctionWriter,
    win: Window | None,
    pointers: tuple[str, str],
    sink: str,
) -> None:
    """Filters of one channel each."""
    f.include("integer_depthwise.hpp")
    wide = _shifted_filters(node)
    if win is None or not _has_kernel(win):
        weights = low.program.weight(np.ascontiguousarray(wide.reshape(wide.shape[0], -1).T))
        _windows(low, node, f, operand(node, 1).shape[2:])
        f.call("integer_depthwise_any", "windows", *pointers, f.read(weights), sink)
        return
    layout = layout_of(low, wide)
    sizes = depthwise_sizes(node, win)
    height, kw = (int(k) for k in win.kernel if isinstance(k, int))
    together = -(-height // -(-height // layout.group))
    filters = wide.reshape(wide.shape[0], height, kw)
    packed = pack_columns(filters, together, layout)
    sums = filters.sum((1, 2), dtype=np.int32)
    total = f.read(low.program.weight(sums)) if layout is U8S8X4 else "(const int32_t*)nullptr"
    f.scratch(
        f"integer_depthwise_scratch({size_text(sizes.width)}, {size_text(sizes.channels)})",
        "integer_depthwise.hpp",
    )
    text = ", ".join((f.sizes(sizes), *pointers, f.read(low.program.weight(packed)), total, sink))
    f.call(
        "integer_depthwise",
        text,
        template=(
            layout.name,
            together,
            kw,
            win.strides[1],
        ),
    )


def _has_kernel(win: Window) -> bool:
    """Whether kernels/integer_depthwise.hpp has these windows as constants."""
    height, width = win.kernel
    fits = isinstance(height, int) and height <= 12 and width in (3, 5, 7)
    return fits and win.strides[1] in (1, 2) and win.dilations[1] == 1


def _filter_matrix(node: Node) -> Integers | None:
    """Known filters (M, C, …) without their zero points as a matrix [taps · C, M]."""
    if operand(node, 1).const is None or not _known(node.input(3)):
        return None
    filters = _shifted_filters(node)
    apart = filters.reshape(*filters.shape[:2], -1)
    return np.asarray(apart.transpose(2, 1, 0).reshape(-1, len(filters)))


def _filters(low: Lowering, node: Node, groups: int) -> Packed:
    """Filters (M, C/group, …) as packed matrices [taps · C/group, M/group], one for each group."""
    w, zero = operand(node, 1), node.input(3)
    wide, depth, taps = dims.floordiv(w.shape[0], groups), w.shape[1], dims.product(w.shape[2:])
    if w.const is not None and _known(zero):
        matrices = _shifted_filters(node).reshape(groups, wide, depth, taps).transpose(0, 3, 2, 1)
        whole = matrices.reshape(groups, int(taps) * int(depth), int(wide))
        return _stored(low, whole, (groups,), "filters", _line_count(low, node))
    whole = low.dense(w, natural(w.rank)).reshape((groups, wide, depth, taps))
    if whole is None:
        low.unsupported(node, "filters of unknown sizes")
    whole = low.arranged(whole.permute((0, 1, 3, 2)), natural(4))
    k = dims.product([taps, depth])
    return _packed(low, node, whole, zero, (groups,), (k, wide), (1, k), wide)
