"""ONNX Runtime's rotary embedding."""

from __future__ import annotations

import numpy as np

from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import (
    agree,
    agree_shapes,
    at_most,
    require_rank,
    whole_parts,
)
from infuse.ops.core.traits import Trait
from infuse.ops.domains.heads import join, split
from infuse.ops.domains.microsoft import DOMAIN


class RotaryEmbedding(Op):
    """Pairs of channels turned by the angles of their positions, which tables (positions, half)
    give.

    x is (batch, heads, length, size) or (batch, length, heads · size); `position_ids` (batch,
    length), or the first position of all rows.
    """

    traits = Trait.FLOAT32
    interleaved: int = 0
    is_packed_batching: int = 0
    num_heads: int = 0
    rotary_embedding_dim: int = 0
    scale: float = 1.0

    domain = DOMAIN
    accuracy = Rounding(ulp=2, abs=3e-7, why="the two products may cancel")
    samples = (
        cases(
            x=[(2, 3, 4, 8), (2, 3, 4, 8)],
            position_ids=[Ints((2, 4), 0, 10), np.array([3], np.int64)],
            cos=[(10, 4)] * 2,
            sin=[(10, 4)] * 2,
            interleaved=[0, 1],
        ),
        cases(
            x=[(2, 4, 24)],
            position_ids=[Ints((2, 4), 0, 10)],
            cos=[(10, 2)],
            sin=[(10, 2)],
            num_heads=[3],
            rotary_embedding_dim=[4],
        ),
    )

    def infer(self, x: Value, position_ids: Value, cos: Value, sin: Value) -> Inferred:
        require_kind(self.name, same_dtype(self.name, x, cos, sin), "f")
        require_kind(f"position_ids of {self.name}", position_ids.dtype, "i")
        for table in (cos, sin):
            require_rank(table, 2, self.name, "a table")
        if any(v.tensor.shape is None for v in (x, position_ids, cos, sin)):
            return x.type
        if x.rank not in (3, 4):
            raise ShapeError(f"{self.name} takes rank 3 or 4, found {x.type}")
        agree_shapes(cos.shape, sin.shape, f"the tables of {self.name}")
        turned, length = cos.shape[1] * 2, x.shape[1] if x.rank == 3 else x.shape[2]
        if x.rank == 4:
            size = x.shape[3]
        else:
            heads: Dim = self.num_heads
            if not heads:
                heads = whole_parts(
                    x.shape[2], turned, f"channels and turned channels of {self.name}"
                )
            size = whole_parts(x.shape[2], heads, f"channels and heads of {self.name}")
        at_most(turned, size, f"channels that {self.name} turns")
        if self.rotary_embedding_dim:
            agree(
                turned, self.rotary_embedding_dim, f"twice the columns of the tables of {self.name}"
            )
        if position_ids.rank == 2:
            agree_shapes(position_ids.shape, (x.shape[0], length), f"positions of {self.name}")
        elif position_ids.tensor.size is not None:
            agree(position_ids.tensor.size, 1, f"first positions of {self.name}")
        return x.type

    def eval(self, x: Array, position_ids: Array, cos: Array, sin: Array) -> Array:
        if self.is_packed_batching:
            raise UnsupportedOperatorError(f"{self.name} over packed batches")
        size = 2 * cos.shape[1] if not self.rotary_embedding_dim else 0
        heads = x if x.ndim == 4 else split(x, self.num_heads or x.shape[2] // size)
        places = position_ids
        if position_ids.size == 1:
            places = np.broadcast_to(
                position_ids.reshape(()) + np.arange(heads.shape[2]), heads.shape[::2][:2]
            )
        result = turned(
            widened(heads), widened(cos)[places], widened(sin)[places], bool(self.interleaved)
        )
        return (result if x.ndim == 4 else join(result)).astype(x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * 3)


def turned(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    """X (batch, heads, length, size) turned by angles (batch, length, half)."""
    half = cos.shape[-1]
    real, imaginary = cos[:, None], sin[:, None]
    even, odd = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if interleaved
        else (slice(0, half), slice(half, 2 * half))
    )
    result: Array = x.copy()
    result[..., even] = real * x[..., even] - imaginary * x[..., odd]
    result[..., odd] = imaginary * x[..., even] + real * x[..., odd]
    return result
