"""Products with weights in blocks as files store them, and rows of such weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.graph import Array, Node, Value
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand, row_major
from infuse.lowering.tensors import Tensor, natural
from infuse.ops.core.weight_blocks import Parts
from infuse.ops.quantized_weights import GatherBlocks, MatMulBlocks
from infuse.targets.cpu.families.nbits import (
    NBitsSizes,
    RoundedSizes,
    pack_codes,
    pack_steps,
    packed_words,
)
from infuse.targets.cpu.lower.linear import label, require_float32
from infuse.targets.cpu.table import lowers

FEW = 4
"""Bits of codes that are not stored as bytes."""


@dataclass
class _Stored:
    """A matrix (n, k) of codes in the weights: (code - zero) · scale + shift."""

    n: int
    k: int
    block: int
    bits: int
    zero: int
    words: Tensor
    steps: Tensor
    kinds: int


@lowers("MatMulBlocks", domain="infuse", has_epilogue=True)
def matmul_blocks(low: Lowering, node: Node, group: Group) -> None:
    require_float32(low, node)
    op, a = node.op, operand(node)
    assert isinstance(op, MatMulBlocks)
    left = low.storage.dense(a, natural(a.rank))
    w = _stored(low, node, operand(node, 1), centered=not op.rounded)
    kernel = "nbits_rounded" if op.rounded else "nbits"
    f = low.function("matmul_blocks", *group.nodes)
    f.include(f"{kernel}.hpp")
    sink = low.fusing.sink(f, group, natural(node.output.rank))
    plain = NBitsSizes(dims.product(a.shape[:-1]), w.n, w.k, w.block, w.k)
    sizes = RoundedSizes(*plain, w.zero) if op.rounded else plain
    f.scratch(f"{kernel}_scratch", f"{kernel}.hpp", sizes)
    pointers = ", ".join(f.read(tensor) for tensor in (left, w.words, w.steps))
    template: tuple[Any, ...] = (w.bits, w.kinds)
    if op.rounded:
        template = (w.bits, _step_type(w), w.kinds)
    name = "nbits_rounded" if op.rounded else "nbits_matmul"
    f.call(name, f.sizes(sizes), pointers, sink, template=template)
    f.finish(label(group))


@lowers("GatherBlocks", domain="infuse")
def gather_blocks(low: Lowering, node: Node, group: Group) -> None:
    op, indices = node.op, operand(node, 1)
    assert isinstance(op, GatherBlocks)
    w = _stored(low, node, operand(node), centered=False)
    index = row_major(low, indices)
    target = low.storage.allocate(node.output)
    f = low.function("gather_blocks", node)
    f.include("gather_codes.hpp", "failure.h")
    sizes = RoundedSizes(dims.product(indices.shape), w.n, w.k, w.block, w.k, w.zero)
    pointers = [f.read(tensor) for tensor in (w.words, w.steps, index)]
    f.call(
        "gather_codes",
        f.sizes(sizes),
        *pointers,
        f.write(target),
        template=(w.bits, _step_type(w), w.kinds, indices.dtype.c_name),
        failure="BAD_INDEX",
    )
    f.finish("GatherBlocks")
    low.storage.tensors[node.output] = target


def _step_type(w: _Stored) -> str:
    return "float" if w.steps.dtype == dtypes.float32 else "float16"


def _stored(low: Lowering, node: Node, value: Value, *, centered: bool) -> _Stored:
    """The matrix in the weights; `centered`: codes are counted from the middle, scales and shifts
    are floats.
    """
    op, weights = node.op, value.const
    assert isinstance(op, MatMulBlocks | GatherBlocks)
    if weights is None:
        low.unsupported(node, "weights that are computed")

    def codes(array: Array) -> _Codes:
        return _codes(op.blocks.parts(array), centered)

    # Of what is unpacked only these facts stay: packing unpacks one matrix after the other again.
    own = codes(weights)
    (n, k), blocks, group = own.codes.shape, own.scale.shape[1], own.group
    bits, zero, dtype = own.bits, own.zero, own.dtype
    kinds = 1 if own.shift is None else 2
    how = (op.format, bits, zero, low.lanes)

    def packed_steps(array: Array) -> Array:
        made = codes(array)
        return pack_steps(made.scale, made.shift, low.lanes, dtype)

    words = low.program.packed(
        weights,
        ("blocks", *how),
        packed_words((n, k), bits, low.lanes),
        lambda array: pack_codes(codes(array).codes, bits, low.lanes),
        dtypes.int32,
    )
    columns = -(-n // (2 * low.lanes)) * 2 * low.lanes
    steps = low.program.packed(
        weights,
        ("steps of blocks", *how, dtype.name),
        columns * blocks * kinds,
        packed_steps,
        dtype,
    )
    return _Stored(n, k, group, bits, zero, words, steps, kinds)


@dataclass
class _Codes:
    """Codes (n, k), and scales and shifts (n, k / group) in an element type."""

    codes: Array
    bits: int
    zero: int
    scale: Array
    shift: Array | None
    group: int
    dtype: DType


def _codes(parts: Parts, centered: bool) -> _Codes:
    """Parts of weights as codes of 4 or 8 bits."""
    quants, shift = parts.quants, parts.offset
    low, high = int(quants.min(initial=0)), int(quants.max(initial=0))
    bits = FEW if high - low < 1 << FEW and low >= -8 and high < 16 else 8
    middle = 1 << (bits - 1)
    zero = middle if low < 0 else 0
    codes = (quants.astype(np.int16) + zero).astype(np.uint8)
    if centered and not zero:
        shift = (0 if shift is None else shift) + parts.scale * np.float32(middle)
        zero = middle
    kinds = [each for each in (parts.scale, shift) if each is not None]
    with np.errstate(over="ignore"):
        is_half = not centered and all(
            np.array_equal(each.astype(np.float16).astype(np.float32), each) for each in kinds
        )
    dtype = dtypes.float16 if is_half else dtypes.float32
    return _Codes(codes, bits, zero, parts.scale, shift, parts.group, dtype)
