"""Products of 8-bit integers, and how their operands are stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.expressions import infix
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor, dense, natural
from infuse.lowering.writer import FunctionWriter
from infuse.targets import DotType
from infuse.targets.cpu.families.integers import (
    I16X2,
    U8S8X4,
    Integers,
    Layout,
    filled_lines,
    pack_groups,
    packed_groups,
)
from infuse.targets.cpu.lower.linear import label
from infuse.targets.cpu.lower.plain import batch_offset
from infuse.targets.cpu.lower.sparse import SparseMatrix, faster_blocks, sparse_integers
from infuse.targets.cpu.table import lowers


def zero_text(f: FunctionWriter, low: Lowering, zero: Value | None, dtype: dtypes.DType) -> str:
    """C++ text of a pointer to zero points and of the distance from one to the next."""
    if zero is None:
        return f"(const {dtype.c_name}*)nullptr, 0L"
    points = low.storage.dense(zero, natural(zero.rank))
    return f"{f.read(points)}, {0 if zero.tensor.size == 1 else 1}L"


def is_constant(zero: Value | None) -> bool:
    return zero is None or zero.const is not None


def layout_of(low: Lowering, weights: Integers) -> Layout:
    """The best layout for known weights less their zero points."""
    fits = weights.size == 0 or (weights.min() >= -128 and weights.max() <= 127)
    unit = low.machine.dot(DotType.U8S8)
    return U8S8X4 if fits and unit is not None and unit.products == U8S8X4.group else I16X2


class Packed(Immutable):
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


@lowers("MatMulInteger", has_epilogue=True, accumulates=dtypes.int32)
def matmul_integer(low: Lowering, node: Node, group: Group) -> None:
    a, b, zero = operand(node, 0), operand(node, 1), node.input(2)
    left = low.storage.tensor(a)
    left = left.insert(0) if a.rank == 1 else left
    rows, depth, columns = left.shape[-2], left.shape[-1], b.shape[-1]
    lead = node.output.shape[: node.output.rank - (a.rank > 1) - 1]
    left = low.storage.arranged(left, natural(left.rank))
    if b.rank == 2 and (zero is None or zero.tensor.size == 1):
        rows, lead = dims.product(left.shape[:-1]), ()
    blocks = None if lead else blocks_of(low, _known_matrix(node), rows)
    f = low.function("integer_matmul", *group.nodes)
    if blocks is not None:
        sink, pointers = low.fusing.sink(f, group, natural(node.output.rank)), f.read(left)
        zeros = zero_text(f, low, zero, a.dtype)
        call_blocks(low, f, blocks, (rows, columns, depth, depth), (pointers, zeros), sink)
        f.finish(label(group))
        return
    packed = _packed_matrices(low, node)
    f.include("integer.hpp")
    sink = low.fusing.sink(f, group, natural(node.output.rank))
    sizes = f.numbers(rows, columns, depth, depth)
    name = packed.layout.name
    x, zeros, (w, sums) = f.read(left), zero_text(f, low, zero, a.dtype), packed.text(f)
    f.scratch("integer_scratch", "integer.hpp", depth, template=(name,))
    if lead:
        left = left.expand((*lead, left.shape[-2], depth))
        weights = packed.integers.expand((*lead, packed.integers.shape[-1]))
        starts = (batch_offset(f, name, t, len(lead)) for name, t in (("a", left), ("b", weights)))
        a_at, b_at = starts
        with f.repeat(infix("i", "<", f.number(dims.product(lead)))):
            f.constant("a", infix(x, "+", a_at), type="auto*")
            f.constant("b", infix(w, "+", b_at), type="auto*")
            f.constant("first", infix("i", "*", f.number(rows)))
            with f.define("part", "auto acc, isize row, isize col, auto lanes", references=True):
                f.call(sink, "acc", infix("first", "+", "row"), "col", "lanes", context=False)
            f.call("integer_matmul", sizes, "a", zeros, "b", sums, "part", template=(name,))
    else:
        f.call("integer_matmul", sizes, x, zeros, w, sums, sink, template=(name,))
    f.finish(label(group))


def _packed_matrices(low: Lowering, node: Node) -> Packed:
    """The right operand, packed when it is known or else by a step."""
    b, zero, wide = operand(node, 1), node.input(3), _known_matrix(node)
    lead, (depth, columns) = b.shape[:-2], b.shape[-2:]
    if wide is not None:
        return stored(low, wide, lead, "matrices")
    whole = low.storage.arranged(low.storage.tensor(b), natural(b.rank))
    return packed_in_run(low, node, whole, zero, lead, (depth, columns), (columns, 1), 0)


def _known_matrix(node: Node) -> Integers | None:
    """The right operand less its zero points, where both are known."""
    b, zero = operand(node, 1), node.input(3)
    if b.const is None or not is_constant(zero):
        return None
    shift = 0 if zero is None or zero.const is None else zero.const.astype(np.int16)
    return np.asarray(b.const.astype(np.int16) - shift)


class Blocks(Immutable):
    """A right operand whose zero blocks are left out, and the sums of its columns."""

    layout: Layout
    matrix: SparseMatrix
    sums: Tensor | None


def blocks_of(low: Lowering, matrix: Integers | None, rows: Dim) -> Blocks | None:
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


def call_blocks(
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
    f.scratch("sparse_integer_scratch", "sparse_integer.hpp", sizes[2], template=(name,))
    numbers = f.numbers(*sizes, blocks.matrix.filled)
    text = ", ".join((numbers, *left, *block_texts(low, f, blocks), sink))
    f.call("sparse_integer_matmul", text, template=(name,))


def block_texts(low: Lowering, f: FunctionWriter, blocks: Blocks) -> list[str]:
    """C++ text of the pointers to the parts of a matrix in blocks and to the sums."""
    sums = "(const int32_t*)nullptr" if blocks.sums is None else f.read(blocks.sums)
    return [*(f.read(part) for part in blocks.matrix.parts(low)), sums]


def stored(
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


def packed_in_run(
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
    target = low.storage.scratch_tensor(dtypes.int16, (*lead, each), natural(len(lead) + 1))
    f = low.function("integer_pack", node)
    f.include("integer.hpp")
    sizes = f.numbers(dims.product(lead), k, n, k * n, *strides)
    zeros, last = zero_text(f, low, zero, whole.dtype), f.number(shift)
    f.call("integer_pack", sizes, f.read(whole), zeros, last, f.write(target))
    f.finish("pack")
    return Packed(I16X2, target, None)
