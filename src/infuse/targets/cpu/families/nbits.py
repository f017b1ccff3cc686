"""Products with weights of few bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infuse import dtypes
from infuse.dtypes import DType
from infuse.targets.cpu.families.base import (
    Arguments,
    Array,
    Size,
    Stores,
    computes,
    declared_in,
    matrix,
    writes,
)

WORD = 32
FLOAT8_E4M3FN, FLOAT8_E5M2 = 43, 52
"""Kinds of codes that are floats of 8 bits; other kinds are the numbers of bits of integers."""
_FLOATS = {FLOAT8_E4M3FN: dtypes.float8e4m3fn, FLOAT8_E5M2: dtypes.float8e5m2}
Codes = NDArray[np.uint8]
Words = NDArray[np.uint32]


@declared_in("nbits.hpp")
class NBitsSizes(NamedTuple):
    """A product with weights of few bits in blocks of `block`; rows of the left operand are `row`
    apart.
    """

    m: Size
    n: Size
    k: Size
    block: Size
    row: Size


@declared_in("nbits_rounded.hpp")
class RoundedSizes(NamedTuple):
    """The same, codes being counted from `zero`."""

    m: Size
    n: Size
    k: Size
    block: Size
    row: Size
    zero: Size


def unit_of(bits: int) -> tuple[int, int]:
    """The words of a unit of rows of a column, and its rows."""
    words = 3 if bits == 3 else 1
    return words, words * WORD // bits


def packed_words(codes_shape: tuple[int, int], bits: int, lanes: int) -> int:
    """Words of a packed matrix [columns, rows]."""
    (columns, rows), (words, unit) = codes_shape, unit_of(bits)
    return -(-columns // (2 * lanes)) * 2 * lanes * rows // unit * words


def _places(bits: int) -> Iterator[tuple[int, int, int]]:
    """Word, bit, and row of a unit for whole codes that lie in one word, as NBits of nbits.hpp."""
    words, _ = unit_of(bits)
    in_word = WORD // bits
    for word in range(words):
        for i in range(in_word):
            per_byte = 8 // bits
            row = word * in_word + i if bits == 3 else i % per_byte * 4 + i // per_byte
            yield word, i * bits, row


_SPARE = tuple(
    (word, bit, 30 + at // 3, at % 3)
    for at, (word, bit) in enumerate((w, b) for w in range(3) for b in (30, 31))
)
"""Word, bit, row of a unit, and bit of the code, of the last two codes of 3 bits."""


def pack_codes(codes: Codes, bits: int, lanes: int) -> Words:
    """Codes [columns, rows] as [panel, unit, word, column] for kernels/nbits.hpp; rows are a
    multiple of those of a unit.
    """
    (columns, rows), (words, unit) = codes.shape, unit_of(bits)
    width = 2 * lanes
    panels = -(-columns // width)
    packed = np.zeros((panels, width, rows // unit, words), np.uint32)
    flat = packed.reshape(panels * width, rows // unit, words)
    whole = codes.reshape(columns, rows // unit, unit)
    for word, bit, row in _places(bits):
        flat[:columns, :, word] |= whole[:, :, row].astype(np.uint32) << np.uint32(bit)
    for word, bit, row, which in _SPARE if bits == 3 else ():
        part = (whole[:, :, row] >> which & 1).astype(np.uint32)
        flat[:columns, :, word] |= part << np.uint32(bit)
    return np.ascontiguousarray(packed.transpose(0, 2, 3, 1))


def unpacked_codes(packed: Words, shape: tuple[int, int], bits: int, lanes: int) -> Codes:
    """The codes [columns, rows] that `pack_codes` packed."""
    (columns, rows), (words, unit) = shape, unit_of(bits)
    parts = packed.view(np.uint32).reshape(-1, rows // unit, words, 2 * lanes)
    whole = np.zeros((len(parts), rows // unit, unit, 2 * lanes), np.uint8)
    for word, bit, row in _places(bits):
        whole[:, :, row] = parts[:, :, word] >> np.uint32(bit) & np.uint32((1 << bits) - 1)
    for word, bit, row, which in _SPARE if bits == 3 else ():
        part = parts[:, :, word] >> np.uint32(bit) & np.uint32(1)
        whole[:, :, row] |= part.astype(np.uint8) << which
    return np.ascontiguousarray(whole.transpose(0, 3, 1, 2).reshape(-1, rows)[:columns])


def pack_steps(
    scales: Array, shifts: Array | None, lanes: int, dtype: DType = dtypes.float32
) -> Array:
    """Scales and shifts [columns, blocks] as [panel, block, 1 or 2, column]."""
    (columns, blocks), width = scales.shape, 2 * lanes
    panels = -(-columns // width)
    kinds = [scales] if shifts is None else [scales, shifts]
    packed = np.zeros((panels * width, blocks, len(kinds)), dtype.numpy)
    for number, kind in enumerate(kinds):
        packed[:columns, :, number] = kind
    return np.ascontiguousarray(packed.reshape(panels, width, blocks, -1).transpose(0, 2, 3, 1))


@computes("nbits_matmul")
def nbits_matmul(call: Arguments) -> Array:
    """Rows times the matrix whose codes stand for (code − 2^(bits − 1)) · scale + shift, or are the
    floats that are scaled.
    """
    bits, kinds = (int(number) for number in call.template)
    s, left, words, steps = call.arguments[:4]
    rows = matrix(left.astype(np.float64), (s.m, s.k), (s.row, 1))
    product: Array = rows @ _matrix(s, words, steps, bits, kinds, call.lanes)
    return product


@computes("nbits_rounded")
def nbits_rounded(call: Arguments) -> Array:
    """The same, each block of a row rounded to multiples of its largest magnitude / 127."""
    s, left, words, steps = call.arguments[:4]
    spare = -s.k % s.block
    rows = np.pad(matrix(left.astype(np.float32), (s.m, s.k), (s.row, 1)), [(0, 0), (0, spare)])
    parts = rows.reshape(s.m, -1, s.block)
    largest = np.abs(parts).max(-1, keepdims=True)
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 1e-36)
    rounded = np.rint(parts * inverse) * (largest.astype(np.float64) / 127)
    bits, _, kinds = call.template
    weights = _matrix(s, words, steps, int(bits), int(kinds), call.lanes, s.zero)
    product: Array = rounded.reshape(s.m, -1)[:, : s.k] @ weights
    return product


def _matrix(
    s: Any, words: Array, steps: Array, kind: int, kinds: int, lanes: int, zero: int | None = None
) -> Array:
    """The matrix [k, n] that words and steps stand for."""
    bits = 8 if kind in _FLOATS else kind
    blocks, width = -(-s.k // s.block), 2 * lanes
    panels, shape = -(-s.n // width), (s.n, blocks * s.block)
    codes_as_stored = words[: packed_words(shape, bits, lanes)]
    codes = unpacked_codes(codes_as_stored, shape, bits, lanes)
    parts = steps[: panels * blocks * kinds * width].reshape(panels, blocks, kinds, width)
    wide = parts.astype(np.float64).transpose(2, 0, 3, 1).reshape(kinds, -1, blocks, 1)[:, : s.n]
    numbers: Array = codes - float(1 << (bits - 1) if zero is None else zero)
    if kind in _FLOATS:
        numbers = codes.view(_FLOATS[kind].numpy).astype(np.float64)
    weights = numbers.reshape(s.n, blocks, s.block) * wide[0]
    if kinds == 2:
        weights = weights + wide[1]
    result: Array = weights.reshape(s.n, -1)[:, : s.k].T
    return result


@writes("gather_codes")
def gather_codes(call: Arguments) -> Stores:
    """Columns of a matrix of codes."""
    s, words, steps, indices, _ = call.arguments
    bits, _, kinds, _ = call.template
    matrix = _matrix(s, words, steps, int(bits), int(kinds), call.lanes, s.zero)
    picked = indices[: s.m]
    if ((picked < 0) | (picked >= s.n)).any():
        raise IndexError("an index of a column that does not exist")
    return {4: matrix.T[picked].astype(np.float32).reshape(-1)}
