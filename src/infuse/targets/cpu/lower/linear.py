"""Matrix products: packed weights, or two computed operands."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.immutable import replace
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.lowering.fp16_weights import weight_type
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import Tensor, dense, natural
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.families.gemm import (
    SUFFIXES,
    GemmSizes,
    pack_gemm_b,
    pack_gemm_bf16,
    pack_gemm_bf16x2,
    split_size,
)
from infuse.targets.cpu.families.matmul import MatmulSizes
from infuse.targets.cpu.families.panels import panel_words
from infuse.targets.cpu.lower.plain import define_offset, plain_matmul
from infuse.targets.cpu.lower.sparse import call_sparse_gemm, faster_blocks, sparse_floats
from infuse.targets.cpu.table import lowers


def require_float32(low: Lowering, node: Node) -> None:
    """UnsupportedOperatorError unless the node computes in float32."""
    if node.output.dtype != dtypes.float32:
        low.unsupported(node, f"element type {node.output.dtype}")


def _reads_parts(node: Node, axis: int) -> bool:
    """Rows that lie further apart than they need; of a product of floats."""
    a = operand(node)
    turned = bool(node.op.attributes().get("transA"))
    return a.dtype == dtypes.float32 and a.rank > 1 and axis == a.rank - 1 and not turned


@lowers("MatMul", has_epilogue=True, reads_parts=_reads_parts)
def matmul(low: Lowering, node: Node, group: Group) -> None:
    if node.output.dtype != dtypes.float32:
        plain_matmul(low, node)
        return
    a, b = operand(node, 0), operand(node, 1)
    if b.const is not None and b.rank == 2 and a.rank >= 2:
        packed_product(low, node, group, a, b, transposed=False)
    else:
        batched_product(low, node, group, low.storage.tensor(a), low.storage.tensor(b))


@lowers("Gemm", has_epilogue=True, reads_parts=_reads_parts)
def gemm(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    a, b, c = operand(node, 0), operand(node, 1), node.input(2)
    attributes = node.op.attributes()
    alpha, beta = float(attributes["alpha"]), float(attributes["beta"])
    if c is not None and beta != 1.0 and c.const is None:
        low.unsupported(node, "beta with a computed addend")
    bias = None
    if c is not None and beta != 0.0:
        bias = low.storage.tensor(c)
        if c.const is not None and beta != 1.0:
            bias = low.program.weight(c.const * np.float32(beta))
    turned = bool(attributes["transA"])
    if b.const is not None:
        packed_product(low, node, group, a, b, bool(attributes["transB"]), bias, alpha, turned)
        return
    left, right = low.storage.tensor(a), low.storage.tensor(b)
    left = left.permute((1, 0)) if turned else left
    right = right.permute((1, 0)) if attributes["transB"] else right
    batched_product(low, node, group, left, right, bias, alpha)


def packed_product(
    low: Lowering,
    node: Node,
    group: Group,
    a: Value,
    b: Value,
    transposed: bool,
    bias: Tensor | None = None,
    scale: float = 1.0,
    turned: bool = False,
) -> None:
    """Rows of `a`, or its columns where it is `turned`, times a constant matrix that is packed at
    compile time.
    """
    shape = a.shape[::-1] if turned else a.shape
    k, n = shape[-1], node.output.shape[-1]
    rows = dims.product(shape[:-1])
    left = None if turned else low.storage.tensor(a).reshape((rows, k))
    if left is None or left.strides[1] != 1:
        whole = low.storage.dense(a, (1, 0) if turned else natural(a.rank))
        left = dense(whole.buffer, whole.dtype, (rows, k))
        left = replace(left, offset=whole.offset)
    f = low.function("matmul", *group.nodes)
    sink = low.fusing.sink(f, group, natural(node.output.rank), bias=bias, scale=scale)
    row = left.strides[0] if rows != 1 else k
    sizes = GemmSizes(rows, n, k, row)
    sparse = None
    if left.dtype == dtypes.float32:
        matrix_of = np.transpose if transposed else np.asarray
        sparse = sparse_floats(low, b.const, (transposed,), matrix_of)
    sparse = faster_blocks(low, sizes[:3], sparse)
    if sparse is not None:
        call_sparse_gemm(low, f, sizes, left, sparse, sink)
        f.finish(label(group))
        return
    form = "bf16" if left.dtype == dtypes.bfloat16 else product_form(low, sizes)
    call_gemm(low, f, sizes, left, packed_weights(low, b, transposed, form), sink, form)
    f.finish(label(group))


def call_gemm(
    low: Lowering,
    f: FunctionWriter,
    sizes: GemmSizes,
    left: Tensor,
    weights: Tensor,
    sink: str,
    form: str = "fp32",
) -> None:
    """Write the call of the kernel that multiplies rows by packed weights."""
    kernel = "gemm" + kernel_suffix(weights, form)
    f.include(f"{kernel}.hpp")
    f.scratch(f"{kernel}_scratch", f"{kernel}.hpp", sizes)
    f.call(kernel, f.sizes(sizes), f.read(left), f.read(weights), sink)


def kernel_suffix(weights: Tensor, form: str) -> str:
    """What the name of a kernel ends in that reads these packed weights."""
    return "_bf16x2" if form.endswith("bf16x2") else SUFFIXES[weights.dtype]


def product_form(low: Lowering, sizes: GemmSizes) -> str:
    """What a product with a constant matrix makes of its operands: fp32 leaves them as they are,
    bf16 rounds them, and bf16x2 splits them into two bfloat16 each.
    """
    if low.precision not in ("bf16", "bf16x2") or sizes.k == 0:
        return "fp32"
    return low.choose("gemm", sizes[:3], "fp32", low.precision)


def packed_weights(low: Lowering, b: Value, transposed: bool, form: str) -> Tensor:
    """The weight file's packed form of a constant matrix, of a form that `product_form` gives."""
    assert b.const is not None
    n, k = b.const.shape if transposed else b.const.shape[::-1]
    panel, lanes = 2 * low.lanes, low.lanes
    if form == "bf16x2":
        return low.program.packed(
            b.const,
            ("gemm_bf16x2", transposed, lanes),
            split_size(k, n, lanes),
            lambda w: pack_gemm_bf16x2(w.T if transposed else w, lanes),
            dtypes.bfloat16,
        )
    if form == "bf16":
        tiled = low.machine.has_bf16_tiles
        return low.program.packed(
            b.const,
            ("gemm_bf16", transposed, lanes, tiled),
            -(-n // panel) * panel * panel_words(-(-k // 2), tiled) * 2,
            lambda w: pack_gemm_bf16(w.T if transposed else w, lanes, tiled),
            dtypes.bfloat16,
        )
    dtype = weight_type(low, b)
    return low.program.packed(
        b.const,
        ("gemm", transposed, lanes, dtype.name),
        -(-n // panel) * panel * k,
        lambda w: pack_gemm_b(w.T if transposed else w, lanes, dtype.numpy),
        dtype,
    )


def batched_product(
    low: Lowering,
    node: Node,
    group: Group,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    scale: float = 1.0,
) -> None:
    """Two computed operands with any strides; leading axes broadcast."""
    if a.rank == 1:
        a = a.insert(0)
    if b.rank == 1:
        b = b.insert(1)
    a, b = (_gathered(low, tensor) for tensor in (a, b))
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    shape = node.output.shape
    lead = shape[: len(shape) - (operand(node, 0).rank > 1) - (operand(node, 1).rank > 1)]
    a, b = a.expand((*lead, m, k)), b.expand((*lead, k, n))
    f = low.function("matmul", *group.nodes)
    sink = low.fusing.sink(f, group, natural(len(shape)), bias=bias, scale=scale)
    pa, pb = f.read(a), f.read(b)
    batch = dims.product(lead)
    strides = [_batch_stride(a, len(lead)), _batch_stride(b, len(lead))]
    general = None in strides
    a_batch, b_batch = (0 if general or stride is None else stride for stride in strides)
    (a_row, a_column), (b_row, b_column) = a.strides[-2:], b.strides[-2:]
    sizes = MatmulSizes(batch, m, n, k, a_batch, a_row, a_column, b_batch, b_row, b_column)
    form = _computed_form(low, sizes)
    kernel = "matmul" if form == "fp32" else f"matmul_{form}"
    f.include(f"{kernel}.hpp")
    named = f.sizes(sizes)
    f.scratch(f"{kernel}_scratch", f"{kernel}.hpp", sizes)
    if not general:
        f.call(kernel, named, pa, pb, sink)
    else:
        for side, tensor in (("a", a), ("b", b)):
            define_offset(f, side, tensor, len(lead))
        f.call(kernel, named, pa, pb, "a_at", "b_at", sink)
    f.finish(label(group))


def _gathered(low: Lowering, x: Tensor) -> Tensor:
    """Matrices of which each lies together: the kernel reads those by rows or columns, and a copy
    turns several elements at a time.
    """
    axes = [axis for axis in x.order if x.shape[axis] != 1]
    matrices = {x.rank - 2, x.rank - 1} <= set(axes)
    if not matrices or axes[-1] >= x.rank - 2 or x.strides[axes[-1]] != 1:
        return x
    if any(x.strides[axis] == 0 for axis in axes):
        return x
    turned = x.order.index(x.rank - 2) > x.order.index(x.rank - 1)
    swap = (*range(x.rank - 2), x.rank - 1, x.rank - 2)
    rows = low.storage.arranged(x.permute(swap) if turned else x, natural(x.rank))
    return rows.permute(swap) if turned else rows


def _computed_form(low: Lowering, sizes: MatmulSizes) -> str:
    """What a product of computed operands makes of them, as `product_form`: only tile registers
    gain by rounding both.
    """
    if low.precision not in ("bf16", "bf16x2") or not low.machine.has_bf16_tiles:
        return "fp32"
    return low.choose("matmul", sizes[:4], "fp32", low.precision)


def _batch_stride(tensor: Tensor, lead: int) -> Dim | None:
    """The distance from one matrix to the next, None where it is not constant."""
    stride: Dim | None = None
    below: Dim = 1
    for axis in range(lead - 1, -1, -1):
        if tensor.shape[axis] == 1:
            continue
        if stride is None:
            stride = tensor.strides[axis]
        elif tensor.strides[axis] != stride * below:
            return None
        below = below * tensor.shape[axis]
    return 0 if stride is None else stride


def label(group: Group) -> str:
    """The kinds of a group's nodes for people."""
    return " + ".join(n.kind for n in group.all_nodes)
