"""ONNX Runtime's own normalizations (domain com.microsoft)."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import mean, require_kind, require_shape, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, agree_shapes, at_most, nonempty, require_rank
from infuse.ops.core.traits import Trait
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.normalization import LayerNormalization, RMSNormalization

_MOMENTS = Rounding(ulp=8, abs=2e-6, why="sums round in another order")


class SimplifiedLayerNormalization(RMSNormalization):
    """x / √(mean of x² over all axes from `axis` on + epsilon) · scale: ONNX Runtime's name, in
    ONNX's own domain.
    """

    traits = Trait.FLOAT32
    samples = cases(x=[(2, 3, 8)], scale=[(8,)], epsilon=[1e-5, 1e-2])  # type: ignore[assignment]


class SkipLayerNormalization(Op):
    """LayerNormalization of x + skip + bias over the last axis; gives also mean, 1 / deviation, and
    the sum.

    `skip` may lack the batch or have one of size 1.
    """

    traits = Trait.FLOAT32
    epsilon: float = 1e-12

    domain = DOMAIN
    accuracy = Rounding(ulp=8, abs=4e-6, why="sums round in another order")
    samples = cases(
        x=[(2, 3, 8), (2, 3, 8), (2, 3, 8)],
        skip=[(2, 3, 8), (3, 8), (1, 3, 8)],
        gamma=[(8,)] * 3,
        beta=[(8,), None, (8,)],
        bias=[(8,), None, None],
        epsilon=[1e-5],
    )

    def infer(
        self,
        x: Value,
        skip: Value,
        gamma: Value,
        beta: Value | None = None,
        bias: Value | None = None,
    ) -> Inferred:
        require_kind(self.name, same_dtype(self.name, x, skip, gamma, beta, bias), "f")
        return _skipped(self.name, x, skip, gamma, beta, bias)

    def eval(
        self,
        x: Array,
        skip: Array,
        gamma: Array,
        beta: Array | None = None,
        bias: Array | None = None,
    ) -> tuple[Array, Array, Array, Array]:
        total = _total(x, skip, bias)
        norm, mean, inverse = LayerNormalization(epsilon=self.epsilon).eval(
            total, widened(gamma), _wide(beta)
        )
        return norm.astype(x.dtype), mean, inverse, total.astype(x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0) * (7 + int(shapes.has(3)) + int(shapes.has(4))))


class SkipSimplifiedLayerNormalization(Op):
    """RMSNormalization of x + skip + bias over the last axis; gives also zeros, 1 / deviation, and
    the sum.
    """

    traits = Trait.FLOAT32
    epsilon: float = 1e-12

    domain = DOMAIN
    accuracy = _MOMENTS
    samples = cases(
        x=[(2, 3, 8)] * 2, skip=[(2, 3, 8)] * 2, gamma=[(8,)] * 2, bias=[(8,), None], epsilon=[1e-5]
    )

    def infer(self, x: Value, skip: Value, gamma: Value, bias: Value | None = None) -> Inferred:
        require_kind(self.name, same_dtype(self.name, x, skip, gamma, bias), "f")
        return _skipped(self.name, x, skip, gamma, bias)

    def eval(
        self, x: Array, skip: Array, gamma: Array, bias: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        total = _total(x, skip, bias)
        inverse = 1 / np.sqrt(mean(total * total, (-1,)) + total.dtype.type(self.epsilon))
        norm = total * inverse * widened(gamma)
        return (
            norm.astype(x.dtype),
            np.zeros_like(inverse, np.float32),
            inverse.astype(np.float32),
            total.astype(x.dtype),
        )

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.size(0) * (5 + int(shapes.has(3))))


def _total(x: Array, skip: Array, bias: Array | None) -> Array:
    total = widened(x) + widened(skip)
    return total if bias is None else total + widened(bias)


def _wide(x: Array | None) -> Array | None:
    return None if x is None else widened(x)


def _skipped(op: str, x: Value, *others: Value | None) -> Inferred:
    """Types of the four results; the others must broadcast to x."""
    for other in others:
        if other is not None:
            require_shape(
                op, broadcast_shapes(x.tensor.shape, other.tensor.shape, exact=True), x.tensor.shape
            )
    shape = None if x.tensor.shape is None else (*x.shape[:-1], 1)
    statistics = TensorType(dtypes.float32, shape)
    return x.type, statistics, statistics, x.type


class EmbedLayerNormalization(Op):
    """LayerNormalization of the embeddings of words, positions and segments; also how many words of
    each row count (zeros unless a mask is given and `mask_index_type` is 1), and the sum before it
    is normalized.
    """

    epsilon: float = 1e-12
    mask_index_type: int | None = None

    domain = DOMAIN
    accuracy = _MOMENTS
    samples = cases(
        input_ids=[Ints((2, 3), 0, 9, dtypes.int32)] * 2,
        segment_ids=[Ints((2, 3), 0, 2, dtypes.int32), None],
        word_embedding=[(9, 8)] * 2,
        position_embedding=[(5, 8)] * 2,
        segment_embedding=[(2, 8), None],
        gamma=[(8,)] * 2,
        beta=[(8,)] * 2,
        mask=[Ints((2, 3), 0, 2, dtypes.int32), None],
        position_ids=[None, Ints((2, 3), 0, 5, dtypes.int32)],
        epsilon=[1e-5],
    )

    def infer(
        self,
        input_ids: Value,
        segment_ids: Value | None,
        word_embedding: Value,
        position_embedding: Value,
        segment_embedding: Value | None,
        gamma: Value,
        beta: Value,
        mask: Value | None = None,
        position_ids: Value | None = None,
    ) -> Inferred:
        dtype = same_dtype(
            self.name, word_embedding, position_embedding, segment_embedding, gamma, beta
        )
        rows, width = input_ids.tensor.shape, word_embedding.tensor.shape
        shape = None if rows is None or width is None else (*rows, width[-1])
        require_rank(input_ids, 2, self.name, "input_ids")
        for ids, name in (
            (segment_ids, "segment_ids"),
            (mask, "the mask"),
            (position_ids, "position_ids"),
        ):
            if ids is not None and ids.tensor.shape is not None and rows is not None:
                if ids is position_ids and ids.rank == 2 and ids.shape[0] == 1:
                    agree(ids.shape[1], rows[1], f"{name} and input_ids of {self.name}")
                else:
                    agree_shapes(ids.shape, rows, f"{name} and input_ids of {self.name}")
        for one in (position_embedding, segment_embedding, gamma, beta):
            if one is not None and one.tensor.shape and width:
                agree(one.shape[-1], width[-1], f"the widths of the tables of {self.name}")
        if (
            position_ids is None
            and rows is not None
            and position_embedding.tensor.shape is not None
        ):
            at_most(rows[1], position_embedding.shape[0], f"the positions of {self.name}")
        if width is not None:
            nonempty(width[-1], self.name)
        counts = TensorType(dtypes.int32, None if rows is None else rows[:1])
        result = TensorType(require_kind(self.name, dtype, "f"), shape)
        return result, counts, result

    def eval(
        self,
        input_ids: Array,
        segment_ids: Array | None,
        word_embedding: Array,
        position_embedding: Array,
        segment_embedding: Array | None,
        gamma: Array,
        beta: Array,
        mask: Array | None = None,
        position_ids: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        places = np.arange(input_ids.shape[1]) if position_ids is None else position_ids
        total = widened(word_embedding)[input_ids] + widened(position_embedding)[places]
        if segment_ids is not None and segment_embedding is not None:
            total = total + widened(segment_embedding)[segment_ids]
        norm = LayerNormalization(epsilon=self.epsilon).eval(total, widened(gamma), widened(beta))[
            0
        ]
        counts = (
            np.zeros(len(input_ids), np.int32) if mask is None else mask.sum(axis=1, dtype=np.int32)
        )
        return norm.astype(word_embedding.dtype), counts, total.astype(word_embedding.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * (8 + int(shapes.has(4))))
