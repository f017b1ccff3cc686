"""Products with weights of few bits, in blocks."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import DEQUANTIZE, Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, at_most, require_rank
from infuse.ops.domains.microsoft import DOMAIN

FLOATS = (dtypes.float8e4m3fn, dtypes.float8e5m2)
"""Codes of 8 bits that are numbers themselves."""
ROUNDED = 4
"""The accuracy level that lets a product round its left operand to integers of 8 bits."""


class MatMulNBits(Op):
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

    def eval(
        self,
        a: Array,
        b: Array,
        scales: Array,
        zero_points: Array | None = None,
        g_idx: Array | None = None,
        bias: Array | None = None,
    ) -> Array:
        matrix = self.matrix(
            b, widened(scales), None if zero_points is None else _plain(zero_points), g_idx
        )
        result = np.matmul(widened(a), matrix.T)
        return np.asarray(result if bias is None else result + widened(bias)).astype(a.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        """Weights are dequantized once."""
        return Flops(shapes.made * self.K, self.K * self.N * DEQUANTIZE)


def _plain(x: Array) -> Array:
    return x if x.dtype == np.uint8 else widened(x)


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
    return np.stack(parts, axis=-1).reshape(*x.shape[:-1], -1)
