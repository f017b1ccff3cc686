"""Products with weights in blocks as files store them, and rows of such weights."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import DataError, ShapeError, TypeMismatchError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.relations import must_equal
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, Sample
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import DEQUANTIZE, Flops, Shapes
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import require_rank
from infuse.ops.core.weight_formats import FORMATS, BlockFormat


class _Blocks(Op, abstract=True):
    """An operator on weights (N, bytes of a row) in a format of `FORMATS` that has blocks."""

    format: str

    domain = "infuse"

    @property
    def blocks(self) -> BlockFormat:
        """How the weights are stored."""
        return FORMATS[self.format]

    def _sizes(self, weights: Value) -> tuple[Dim, int]:
        """Rows and columns of the matrix that is stored."""
        block = FORMATS.get(self.format)
        if block is None or block.unpacked is None:
            raise TypeMismatchError(f"{self.name} knows no blocks {self.format!r}")
        require_rank(weights, 2, self.name, "weights of a row each")
        rows, row = weights.shape
        if weights.dtype != dtypes.uint8 or not isinstance(row, int) or row % block.bytes:
            raise ShapeError(
                f"{self.name} takes uint8 rows of blocks of {block.bytes} bytes, found"
                f" {weights.type}"
            )
        return rows, row // block.bytes * block.weights


def _bytes(rows: int, blocks: int, format: str) -> Array:
    """Random blocks of finite scales."""
    rng = np.random.default_rng(7)
    block = FORMATS[format]
    data = rng.integers(0, 256, (rows * blocks, block.bytes), np.uint8)
    for start in {"Q4_1": (0, 2), "Q6_K": (208,)}.get(format, (0,)):
        data[:, start + 1] = (
            rng.integers(0x28, 0x34, len(data)) | rng.integers(0, 2, len(data)) << 7
        )
    return data.reshape(rows, -1)


class MatMulBlocks(_Blocks):
    """a (…, K) times the transpose of a matrix (N, K) that is stored in blocks.

    Compiled code rounds `a` to integers of 8 bits, block by block, where `rounded`.
    """

    rounded: int = 0

    accuracy = Rounding(ulp=4, abs=8e-6, why="long sums round in another order")
    samples = tuple(
        Sample({"a": a, "weights": _bytes(n, blocks, format)}, {"format": format})
        for a, n, blocks, format in (
            ((3, 64), 5, 2, "Q4_0"),
            ((2, 3, 32), 37, 1, "Q4_1"),
            ((1, 96), 70, 3, "Q8_0"),
            ((19, 256), 33, 1, "Q6_K"),
        )
    )

    def infer(self, a: Value, weights: Value) -> Inferred:
        n, k = self._sizes(weights)
        require_kind(self.name, a.dtype, "f")
        if a.tensor.shape is None:
            return a.type
        if not a.shape or not must_equal(a.shape[-1], k):
            raise ShapeError(f"{self.name} multiplies rows of {k} elements, found {a.type}")
        return TensorType(a.dtype, (*a.shape[:-1], n))

    def eval(self, a: Array, weights: Array) -> Array:
        matrix = self.blocks.dequantize(weights)
        rows = widened(a)
        product: Array = (rows @ matrix.astype(rows.dtype).T).astype(a.dtype)
        return product

    def flops(self, shapes: Shapes) -> Flops:
        """Weights are dequantized once."""
        (rows, row), block = shapes.input(1), self.blocks
        k = row // block.bytes * block.weights
        return Flops(shapes.made * k, rows * k * DEQUANTIZE)


class GatherBlocks(_Blocks):
    """The rows of a matrix (N, K) that is stored in blocks, in float32: indices (…) from 0 to
    N - 1, result (…, K).
    """

    accuracy = Rounding(ulp=2, why="offsets are added to numbers that are centered")
    samples = tuple(
        Sample(
            {"weights": _bytes(n, blocks, format), "indices": Ints(shape, 0, n)},
            {"format": format},
        )
        for n, blocks, format, shape in (
            (37, 2, "Q4_0", (3,)),
            (5, 1, "Q4_1", (2, 3)),
            (70, 3, "Q8_0", ()),
            (33, 1, "Q6_K", (7,)),
        )
    )

    def infer(self, weights: Value, indices: Value) -> Inferred:
        _, k = self._sizes(weights)
        require_kind(self.name, indices.dtype, "i")
        shape = indices.tensor.shape
        return TensorType(dtypes.float32, None if shape is None else (*shape, k))

    def eval(self, weights: Array, indices: Array) -> Array:
        if ((indices < 0) | (indices >= len(weights))).any():
            raise DataError(f"an index is none of the {len(weights)} rows")
        rows = self.blocks.dequantize(weights[indices.reshape(-1)])
        return rows.reshape(*indices.shape, rows.shape[1])

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * DEQUANTIZE)
