"""Products with weights of few bits, in blocks."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.graph import Value, constant
from infuse.ir.relations import must_equal
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Rounding
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.composite import Composite
from infuse.ops.core.elementwise import require_kind
from infuse.ops.core.flops import DEQUANTIZE, Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, at_most, require_rank
from infuse.ops.domains.microsoft import DOMAIN

FLOATS = (dtypes.float8e4m3fn, dtypes.float8e5m2)
"""Codes of 8 bits that are numbers themselves."""
ROUNDED = 4
"""The accuracy level that lets a product round its left operand to integers of 8 bits."""


class MatMulNBits(Composite):
    """a (…, K) times a matrix of K rows and N columns in few bits: for every column, blocks of rows
    that share a scale and a zero point, lowest bits first.

    `b` is (N, blocks, bytes of a block); zero points are packed alike for each column, or numbers.
    `g_idx` names the block of every row. Compiled code rounds `a` to integers of 8 bits, block by
    block, where `accuracy_level` is ROUNDED. Code generation makes such products of floats of 8
    bits, too: `b` has their type, and there are no zero points.
    """

    K: int
    N: int
    block_size: int
    accuracy_level: int = 0
    bits: int = 4
    weight_prepacked: int = 0

    domain = DOMAIN
    accuracy = Rounding(ulp=4, abs=8e-6, why="long sums round in another order")
    samples = (
        cases(
            a=[(3, 40), (2, 3, 40), (2, 40)],
            b=[Ints((5, 3, 8), 0, 256, dtypes.uint8)] * 3,
            scales=[(15,), (15,), (15,)],
            zero_points=[None, Ints((10,), 0, 256, dtypes.uint8), (15,)],
            bias=[None, (5,), None],
            K=[40],
            N=[5],
            block_size=[16],
        ),
        cases(
            a=[(3, 32)],
            b=[Ints((5, 1, 32), 0, 256, dtypes.uint8)],
            scales=[(5,)],
            zero_points=[Ints((5,), 0, 256, dtypes.uint8)],
            K=[32],
            N=[5],
            block_size=[32],
            bits=[8],
        ),
        cases(
            a=[(19, 70), (3, 70)],
            b=[Ints((37, 3, 16), 0, 256, dtypes.uint8)] * 2,
            scales=[(111,), (111,)],
            zero_points=[None, Ints((74,), 0, 256, dtypes.uint8)],
            bias=[(37,), None],
            K=[70],
            N=[37],
            block_size=[32],
        ),
    )

    @property
    def blocks(self) -> int:
        """Blocks of one column."""
        return -(-self.K // self.block_size)

    def infer(
        self,
        a: Value,
        b: Value,
        scales: Value,
        zero_points: Value | None = None,
        g_idx: Value | None = None,
        bias: Value | None = None,
    ) -> Inferred:
        has_floats = b.dtype in FLOATS and self.bits == 8 and zero_points is None
        if self.bits not in (2, 4, 8) or not (b.dtype == dtypes.uint8 or has_floats):
            raise TypeMismatchError(
                f"{self.name} takes 2, 4 or 8 bits in uint8, found {self.bits} in {b.dtype}"
            )
        if self.weight_prepacked:
            raise ShapeError(f"{self.name} cannot read weights that were packed for a device")
        if self.K < 1 or self.N < 1 or self.block_size < 1:
            raise ShapeError(
                f"{self.name} has K {self.K}, N {self.N} and blocks of {self.block_size}"
            )
        blocks = -(-self.K // self.block_size)
        block_bytes, column_bytes = (-(-n * self.bits // 8) for n in (self.block_size, blocks))
        sizes = {"weights": (b, self.N * blocks * block_bytes), "scales": (scales, self.N * blocks)}
        if zero_points is not None:
            packed = zero_points.dtype == dtypes.uint8
            sizes["zero points"] = (zero_points, self.N * (column_bytes if packed else blocks))
        if bias is not None:
            sizes["bias"] = (bias, self.N)
        if g_idx is not None:
            require_rank(g_idx, 1, self.name, "g_idx")
            if g_idx.tensor.size is not None:
                at_most(self.K, g_idx.tensor.size, f"the indices of groups of {self.name}")
        for name, (value, count) in sizes.items():
            if value.tensor.size is not None:
                agree(value.tensor.size, count, f"the elements of the {name} of {self.name}")
        if a.tensor.shape is None:
            return a.type
        if not a.shape or not must_equal(a.shape[-1], self.K):
            raise ShapeError(f"{self.name} multiplies rows of {self.K} elements, found {a.type}")
        return TensorType(require_kind(self.name, a.dtype, "f"), (*a.shape[:-1], self.N))

    def grids(self, scales: Array | None, zero_points: Array | None) -> tuple[Array, Array]:
        """Scales and zero points (N, blocks): a code stands for (code − zero point) · scale."""
        assert scales is not None
        factors = scales.reshape(self.N, self.blocks)
        if zero_points is None:
            zeros = np.full((self.N, self.blocks), 1 << (self.bits - 1), scales.dtype)
        elif zero_points.dtype == np.uint8:
            zeros = unpacked(zero_points.reshape(self.N, -1), self.bits)[:, : self.blocks].astype(
                scales.dtype
            )
        else:
            zeros = zero_points.reshape(self.N, self.blocks).astype(scales.dtype)
        return factors, zeros

    def codes(self, b: Array) -> Array:
        """The codes (N, blocks, block_size) that `b` packs; those of rows beyond K are 0."""
        parts = unpacked(b.reshape(self.N, self.blocks, -1), self.bits)
        rows = parts[..., : self.block_size].reshape(self.N, -1)
        rows[:, self.K :] = 0
        return rows.reshape(self.N, self.blocks, self.block_size)

    def packed(self, codes: Array, scales: Array, zeros: Array) -> tuple[Array, Array, Array]:
        """The operands `b`, `scales` and `zero_points` of codes (N, K), scales and zero points
        (N, blocks); rows beyond K are zero points, which stand for nothing.
        """
        whole = np.repeat(zeros, self.block_size, axis=1)
        whole[:, : self.K] = codes
        rows = bytes_of(whole, self.bits).reshape(self.N, self.blocks, -1)
        factors = np.ascontiguousarray(scales, np.float32).reshape(-1)
        return rows, factors, bytes_of(zeros, self.bits).reshape(-1)

    def matrix(
        self, b: Array, scales: Array, zero_points: Array | None, g_idx: Array | None
    ) -> Array:
        """The matrix (N, K) in full."""
        if b.dtype != np.uint8:
            numbers = b.reshape(self.N, self.blocks, -1).astype(scales.dtype)
            steps = scales.reshape(self.N, self.blocks, 1)
            return np.asarray(numbers * steps).reshape(self.N, -1)[:, : self.K]
        codes = self.codes(b).astype(scales.dtype)
        factors, zeros = self.grids(scales, zero_points)
        shifts = -zeros * factors
        if g_idx is None:
            return np.asarray(codes * factors[..., None] + shifts[..., None]).reshape(self.N, -1)[
                :, : self.K
            ]
        rows = codes.reshape(self.N, -1)[:, : self.K]
        return np.asarray(rows * factors[:, g_idx[: self.K]] + shifts[:, g_idx[: self.K]])

    def body(
        self,
        make: GraphBuilder,
        a: Value,
        b: Value,
        scales: Value,
        zero_points: Value | None = None,
        g_idx: Value | None = None,
        bias: Value | None = None,
    ) -> Value:
        wide = dtypes.float64 if a.dtype == dtypes.float64 else dtypes.float32
        zeros = zero_points
        if zeros is not None and zeros.dtype != dtypes.uint8:
            zeros = make.cast(zeros, wide)
        matrix = self._written(make, b, make.cast(scales, wide), zeros, g_idx)
        result = make("MatMul", make.cast(a, wide), matrix)
        if bias is not None:
            result = make("Add", result, make.cast(bias, wide))
        return make.cast(result, a.dtype)

    def _written(
        self, make: GraphBuilder, b: Value, scales: Value, zeros: Value | None, groups: Value | None
    ) -> Value:
        """The matrix (K, N): at once where it is known."""
        operands = b, scales, zeros, groups
        if all(v is None or v.const is not None for v in operands):
            known, factors, *others = (None if v is None else v.const for v in operands)
            assert known is not None
            assert factors is not None
            return constant(np.ascontiguousarray(self.matrix(known, factors, *others).T))
        if groups is not None:
            make.refuse("rows in an order of their own, where weights are computed")
        rows, blocks, dtype = self.N, self.blocks, scales.dtype
        codes = _unpacked(make, make.reshape(b, rows, blocks, b.shape[-1]), self.bits, dtype)
        codes = make.slice(codes, 2, 0, self.block_size)
        if zeros is None:
            shifted = make("Sub", codes, float(1 << (self.bits - 1)))
        else:
            if zeros.dtype == dtypes.uint8:
                packed = make.reshape(zeros, rows, 1, -(-blocks * self.bits // 8))
                zeros = make.slice(_unpacked(make, packed, self.bits, dtype), 2, 0, blocks)
            shifted = make("Sub", codes, make.reshape(zeros, rows, blocks, 1))
        numbers = make("Mul", shifted, make.reshape(scales, rows, blocks, 1))
        whole = make.reshape(numbers, rows, blocks * self.block_size)
        return make.permute(make.slice(whole, 1, 0, self.K), 1, 0)

    def flops(self, shapes: Shapes) -> Flops:
        """Weights are dequantized once."""
        return Flops(shapes.made * self.K, self.K * self.N * DEQUANTIZE)


def bytes_of(numbers: Array, bits: int) -> Array:
    """Numbers of few bits as bytes along the last axis, lowest first; the last may be padded."""
    codes, together = numbers.astype(np.uint8), 8 // bits
    spare = -codes.shape[-1] % together
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, spare)])
    parts = [codes[..., place::together] << (place * bits) for place in range(together)]
    return np.ascontiguousarray(np.bitwise_or.reduce(parts))


def unpacked(x: Array, bits: int) -> Array:
    """Bytes as numbers of few bits each, lowest first, along the last axis."""
    parts = [(x >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*x.shape[:-1], x.shape[-1] * len(parts))


def _unpacked(make: GraphBuilder, x: Value, bits: int, to: DType) -> Value:
    """Bytes (…, n) as numbers of few bits each, lowest first: (…, n · 8 / bits)."""
    parts = []
    for shift in range(0, 8, bits):
        moved = (
            make("BitShift", x, make.number(shift, dtypes.uint8), direction="RIGHT") if shift else x
        )
        low = make("BitwiseAnd", moved, make.number((1 << bits) - 1, dtypes.uint8))
        parts.append(make.reshape(low, *x.shape, 1))
    whole = make("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]
    return make.cast(make.reshape(whole, *x.shape[:-1], x.shape[-1] * (8 // bits)), to)
