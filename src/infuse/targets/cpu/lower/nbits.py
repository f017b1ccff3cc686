"""Products with matrices of few bits, decoded where they are multiplied."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Array, Node
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand
from infuse.lowering.tensors import natural
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.domains.microsoft_bits import ROUNDED, MatMulNBits
from infuse.targets.cpu.families.nbits import (
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    NBitsSizes,
    RoundedSizes,
    pack_codes,
    pack_steps,
    packed_words,
)
from infuse.targets.cpu.lower.linear import label
from infuse.targets.cpu.table import lowers

FLOATS = {dtypes.float8e4m3fn: FLOAT8_E4M3FN, dtypes.float8e5m2: FLOAT8_E5M2}
WIDTHS = (2, 3, 4, 8)
"""Bits of the codes that the kernel takes."""


def decodes(node: Node) -> bool:
    """Whether the kernel takes a MatMulNBits: constant weights in blocks that fill vectors, in
    float32.
    """
    op, constants = node.op, [node.input(i) for i in (1, 2, 3)]
    assert isinstance(op, MatMulNBits)
    return (
        op.block_size % 32 == 0
        and node.input(4) is None
        and node.output.dtype == dtypes.float32
        and all(v is None or v.const is not None for v in constants)
    )


@lowers("MatMulNBits", domain=DOMAIN, has_epilogue=True, takes=decodes)
def matmul_n_bits(low: Lowering, node: Node, group: Group) -> None:
    a, op, bias = operand(node), node.op, node.input(5)
    assert isinstance(op, MatMulNBits)
    left = low.storage.dense(a, natural(a.rank))
    weights = _constant(node, 1)
    kind = FLOATS.get(operand(node, 1).dtype)
    if kind is not None:
        weights = weights.view(np.uint8)
    codes = op.codes(weights).reshape(op.N, -1)
    bits = (
        8
        if kind is not None
        else next(each for each in WIDTHS if codes.max(initial=0) >> each == 0)
    )
    is_rounded = op.accuracy_level == ROUNDED and bits <= 4
    # Words of 4 bits hold the codes of fewer, moved to the middle.
    wide = 4 if is_rounded else bits
    lift = np.uint8((1 << (wide - 1)) - (1 << (bits - 1)))
    scales, zeros = op.grids(
        *(None if v is None else v.const for v in (node.input(2), node.input(3)))
    )
    shifts = (float(1 << (bits - 1)) - zeros.astype(np.float64)) * scales
    if kind is not None:
        shifts = np.zeros_like(scales)
    f = low.function("matmul_n_bits", *group.nodes)
    kernel = "nbits_rounded" if is_rounded else "nbits"
    f.include(f"{kernel}.hpp")
    sink = low.fusing.sink(
        f, group, natural(node.output.rank), bias=None if bias is None else low.storage.tensor(bias)
    )
    sizes: NBitsSizes | RoundedSizes
    sizes = NBitsSizes(dims.product(a.shape[:-1]), op.N, op.K, op.block_size, op.K)
    if is_rounded:
        sizes = RoundedSizes(*sizes, 8)
    words = low.program.packed(
        weights,
        ("nbits", op.N, op.K, op.block_size, op.bits, wide, int(lift), low.lanes),
        packed_words(codes.shape, wide, low.lanes),
        lambda array: pack_codes(op.codes(array).reshape(op.N, -1) + lift, wide, low.lanes),
        dtypes.int32,
    )
    kinds = 2 if shifts.any() else 1
    steps = low.program.weight(pack_steps(scales, shifts if kinds == 2 else None, low.lanes))
    f.scratch(f"{kernel}_scratch", f"{kernel}.hpp", sizes)
    pointers = ", ".join(f.read(tensor) for tensor in (left, words, steps))
    if is_rounded:
        f.call("nbits_rounded", f.sizes(sizes), pointers, sink, template=(4, "float", kinds))
    else:
        f.call("nbits_matmul", f.sizes(sizes), pointers, sink, template=(kind or bits, kinds))
    f.finish(label(group))


def _constant(node: Node, index: int) -> Array:
    array = operand(node, index).const
    assert array is not None
    return array
