"""ONNX Runtime's own normalizations (domain com.microsoft)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from infuse import dtypes
from infuse.dtypes import is_half
from infuse.ir.graph import Value
from infuse.ir.types import TensorType, Type
from infuse.ops.core.base import Rounding, same_dtype
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.composite import Composite, Results
from infuse.ops.core.elementwise import require_kind
from infuse.ops.core.samples import Ints, cases
from infuse.ops.core.sizes import agree, agree_shapes, at_most, nonempty, require_rank
from infuse.ops.core.traits import Trait
from infuse.ops.domains.microsoft import DOMAIN, require_extent
from infuse.ops.normalization import RMSNormalization

_MOMENTS = Rounding(ulp=8, abs=2e-6, why="sums round in another order")


class SimplifiedLayerNormalization(Composite, RMSNormalization):  # type: ignore[misc]
    """x / √(mean of x² over all axes from `axis` on + epsilon) · scale: ONNX Runtime's name, in
    ONNX's own domain.
    """

    traits = Trait.FLOAT32
    samples = cases(x=[(2, 3, 8)], scale=[(8,)], epsilon=[1e-5, 1e-2])  # type: ignore[assignment]

    def body(self, make: GraphBuilder, x: Value, scale: Value) -> Value:
        return make("RMSNormalization", x, scale, **self.attributes())


class SkipLayerNormalization(Composite):
    """LayerNormalization of x + skip + bias over the last axis; gives also mean, 1 / deviation, and
    the sum.

    `skip` may lack the batch or have one of size 1.
    """

    traits = Trait.FLOAT32
    outputs = 4
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

    def body(
        self,
        make: GraphBuilder,
        x: Value,
        skip: Value,
        gamma: Value,
        beta: Value | None = None,
        bias: Value | None = None,
    ) -> Results:
        total = _total(self.name, make, x, skip, gamma, beta, bias=bias)
        last = max((i for i in (1, 2) if make.asks(i)), default=0)
        normal = make.several(
            last + 1, "LayerNormalization", total, gamma, beta, epsilon=self.epsilon
        )
        return *normal, *[None] * (2 - last), total


class SkipSimplifiedLayerNormalization(Composite):
    """RMSNormalization of x + skip + bias over the last axis; gives also zeros, 1 / deviation, and
    the sum.
    """

    traits = Trait.FLOAT32
    outputs = 4
    epsilon: float = 1e-12

    domain = DOMAIN
    accuracy = _MOMENTS
    samples = cases(
        x=[(2, 3, 8)] * 2, skip=[(2, 3, 8)] * 2, gamma=[(8,)] * 2, bias=[(8,), None], epsilon=[1e-5]
    )

    def body(
        self, make: GraphBuilder, x: Value, skip: Value, gamma: Value, bias: Value | None = None
    ) -> Results:
        total = _total(self.name, make, x, skip, gamma, bias=bias)
        normal = make("RMSNormalization", total, gamma, epsilon=self.epsilon)
        if not (make.asks(1) or make.asks(2)):
            return normal, None, None, total
        wide = make.cast(total, dtypes.float32)
        square = make.reduce("ReduceMean", wide * wide, total.rank - 1)
        inverse = make("Reciprocal", make("Sqrt", square + self.epsilon))
        zero = make.number(0, dtypes.float32)
        zeros = make("Where", make("IsNaN", inverse), zero, make("Min", inverse, 0.0))
        return normal, zeros, inverse, total


def _total(
    op: str, make: GraphBuilder, x: Value, skip: Value, *vectors: Value | None, bias: Value | None
) -> Value:
    """X + skip + bias; the others must broadcast to x."""
    require_kind(op, same_dtype(op, x, skip, *vectors, bias), "f")
    require_extent(op, x, skip, *vectors, bias)
    total = make(x + skip)
    return total if bias is None else make(total + bias)


class EmbedLayerNormalization(Composite):
    """LayerNormalization of the embeddings of words, positions and segments; also how many words of
    each row count (zeros unless a mask is given and `mask_index_type` is 1), and the sum before it
    is normalized.
    """

    outputs = 3
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

    def unshaped(self, *inputs: Value | None) -> Sequence[Type]:
        ids, _, table = inputs[:3]
        assert ids is not None
        assert table is not None
        rows = ids.tensor.shape
        result = TensorType(table.dtype, None)
        return result, TensorType(dtypes.int32, None if rows is None else rows[:1]), result

    def body(
        self,
        make: GraphBuilder,
        input_ids: Value,
        segment_ids: Value | None,
        word_embedding: Value,
        position_embedding: Value,
        segment_embedding: Value | None,
        gamma: Value,
        beta: Value,
        mask: Value | None = None,
        position_ids: Value | None = None,
    ) -> Results:
        tables = [word_embedding, position_embedding, segment_embedding]
        dtype = require_kind(self.name, same_dtype(self.name, *tables, gamma, beta), "f")
        require_rank(input_ids, 2, self.name, "input_ids")
        self._check_ids(input_ids, segment_ids, mask, position_ids)
        width, length = word_embedding.shape[-1], input_ids.shape[1]
        for one in (position_embedding, segment_embedding, gamma, beta):
            if one is not None:
                agree(one.shape[-1], width, f"the widths of the tables of {self.name}")
        nonempty(width, self.name)
        if position_ids is None:
            at_most(length, position_embedding.shape[0], f"the positions of {self.name}")
            position_ids = make.range(length)
        wide = dtypes.float32 if is_half(dtype) else dtype
        parts = [
            make.cast(make("Gather", table, ids, axis=0), wide)
            for table, ids in zip(tables, (input_ids, position_ids, segment_ids))
            if table is not None and ids is not None
        ]
        total = functools.reduce(lambda a, b: make(a + b), parts)
        scales = [make.cast(v, wide) for v in (gamma, beta)]
        normal = make("LayerNormalization", total, *scales, epsilon=self.epsilon)
        counts: Value | None = None
        if make.asks(1) and mask is not None:
            counts = make("ReduceSum", mask, make.ints(1), keepdims=0)
        elif make.asks(1):
            rows = make.ints(input_ids.shape[0])
            counts = make("ConstantOfShape", rows, value=0, dtype=dtypes.int32)
        return make.cast(normal, dtype), counts, make.cast(total, dtype)

    def _check_ids(self, ids: Value, *others: Value | None) -> None:
        """ShapeError unless segments, the mask and positions have the shape of `ids`; positions may
        be those of all rows.
        """
        for other, name in zip(others, ("segment_ids", "the mask", "position_ids")):
            if other is None:
                continue
            shared = name == "position_ids" and other.rank == 2 and other.shape[0] == 1
            whole = (1, ids.shape[1]) if shared else ids.shape
            agree_shapes(other.shape, whole, f"{name} and input_ids of {self.name}")
