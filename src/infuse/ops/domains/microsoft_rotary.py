"""ONNX Runtime's rotary embedding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.ir.types import Type
from infuse.ops.core.base import Array, Rounding
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.composite import Composite
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, agree_shapes, require_single, whole_parts
from infuse.ops.core.traits import Trait
from infuse.ops.domains.microsoft import DOMAIN


class RotaryEmbedding(Composite):
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

    def unshaped(self, *inputs: Value | None) -> Sequence[Type]:
        assert inputs[0] is not None
        return (inputs[0].type,)

    def body(
        self, make: GraphBuilder, x: Value, position_ids: Value, cos: Value, sin: Value
    ) -> Value:
        if self.is_packed_batching:
            make.refuse("packed batches")
        turned, heads = cos.shape[1] * 2, self.num_heads
        if self.rotary_embedding_dim:
            agree(
                turned, self.rotary_embedding_dim, f"twice the columns of the tables of {self.name}"
            )
        agree_shapes(cos.shape, sin.shape, f"the tables of {self.name}")
        if x.rank == 3 and not heads:
            count = whole_parts(x.shape[2], turned, f"channels and turned channels of {self.name}")
            if not isinstance(count, int):
                make.refuse("an unknown number of heads")
            heads = count
        length = x.shape[-2] if x.rank == 4 else x.shape[1]
        places = position_ids
        if places.rank != 2:
            require_single(self.name, places)
            first = make.reshape(make.cast(places, dtypes.int64), 1)
            places = make("Expand", make.range(length) + first, make.ints(x.shape[0], length))
        options = {
            "num_heads": heads,
            "rotary_embedding_dim": turned if isinstance(turned, int) else 0,
            "interleaved": self.interleaved,
        }
        return make("RotaryEmbedding", x, cos, sin, places, **options)


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
