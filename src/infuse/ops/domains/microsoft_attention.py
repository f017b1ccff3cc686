"""ONNX Runtime's own attention operators (domain com.microsoft).

They cover what the runtime's processor kernels do; what only other devices have raises
UnsupportedOperatorError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.graph import Value
from infuse.ir.types import Shape
from infuse.ops.core.base import Rounding, same_dtype
from infuse.ops.core.building import GraphBuilder
from infuse.ops.core.composite import Composite, Results
from infuse.ops.core.elementwise import require_kind, require_shape
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import agree, agree_shapes, require_rank
from infuse.ops.core.traits import Trait
from infuse.ops.domains.microsoft import DOMAIN

SUMS = Rounding(ulp=8, abs=1e-5, why="two long sums and exponentials between them")


class MultiHeadAttention(Composite):
    """softmax(q · kᵀ · scale + bias + mask) · v for each head, q, k and v (batch, length, heads ·
    size); also gives present keys and values, and what softmax is of.

    `bias` is that of the projections, added to q, k and v first. k and v may have the heads in
    front already (batch, heads, length, size). The mask says how many keys count, or by ones which
    (batch, keys).
    """

    traits = Trait.FLOAT32
    outputs = 4

    num_heads: int
    mask_filter_value: float = -10000.0
    scale: float | None = None
    unidirectional: int = 0

    domain = DOMAIN
    accuracy = SUMS
    samples = (
        cases(
            query=[(2, 3, 8)] * 2,
            key=[(2, 5, 8)] * 2,
            value=[(2, 5, 12)] * 2,
            bias=[None, (28,)],
            attention_bias=[(1, 2, 3, 5), None],
            num_heads=[2],
            scale=[None, 0.5],
        ),
        cases(
            query=[(2, 3, 8)] * 2,
            key=[(2, 5, 8), (2, 2, 5, 4)],
            value=[(2, 5, 8), (2, 2, 5, 4)],
            key_padding_mask=[np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], np.int32), None],
            num_heads=[2],
        ),
        cases(
            query=[(2, 3, 8)],
            key=[(2, 3, 8)],
            value=[(2, 3, 8)],
            past_key=[(2, 2, 4, 4)],
            past_value=[(2, 2, 4, 4)],
            num_heads=[2],
            unidirectional=[0, 1],
        ),
    )

    def body(
        self,
        make: GraphBuilder,
        query: Value,
        key: Value | None = None,
        value: Value | None = None,
        bias: Value | None = None,
        key_padding_mask: Value | None = None,
        attention_bias: Value | None = None,
        past_key: Value | None = None,
        past_value: Value | None = None,
        past_sequence_length: Value | None = None,
        cache_indirection: Value | None = None,
    ) -> Results:
        require_kind(self.name, same_dtype(self.name, query, key, value, attention_bias), "f")
        if key is None or value is None or query.rank != 3 or past_sequence_length is not None:
            make.refuse("packed inputs or shared buffers")
        parts = [query, key, value]
        if bias is not None:
            parts = self._shifted(make, parts, bias)
        if past_key is not None:
            parts[1:] = [by_heads(make, x, self.num_heads) for x in parts[1:]]
        keys = key.shape[-2] + (past_key.shape[2] if past_key is not None else 0)
        scores = query.shape[0], self.num_heads, query.shape[1], keys
        added = _mask(self, make, query, scores, key_padding_mask, attention_bias)
        return _attended(self, make, parts, added, [past_key, past_value])

    def _shifted(self, make: GraphBuilder, parts: list[Value], bias: Value) -> list[Value]:
        """q, k and v with the bias of their projections added."""
        widths = [x.shape[2] if x.rank == 3 else x.shape[1] * x.shape[3] for x in parts]
        agree_shapes(bias.shape, (sum(widths, 0),), f"the bias of {self.name}")
        result = []
        for i, (x, width) in enumerate(zip(parts, widths)):
            start = sum(widths[:i], 0)
            part = make.slice(bias, 0, start, start + width)
            if x.rank == 4:
                part = make.reshape(part, 1, x.shape[1], 1, x.shape[3])
            result.append(make(x + part))
        return result


class Attention(Composite):
    """MultiHeadAttention of x · weights + bias, the weights of q, k and v side by side; also gives
    the present keys and values as one tensor (2, batch, heads, length, size), which goes in as
    `past`.

    The mask says how many keys count (batch), where they end and begin (2 · batch), or by ones
    which they are: (batch, keys), (batch, queries, keys).
    Present values are NaN where they do not have the size of keys.
    """

    traits = Trait.FLOAT32
    outputs = 2

    num_heads: int
    do_rotary: int = 0
    mask_filter_value: float = -10000.0
    past_present_share_buffer: int | None = None
    qkv_hidden_sizes: tuple[int, ...] = ()
    rotary_embedding_dim: int | None = None
    scale: float | None = None
    unidirectional: int = 0

    domain = DOMAIN
    accuracy = SUMS
    samples = (
        cases(
            x=[(2, 3, 6)] * 3,
            weights=[(6, 24)] * 3,
            bias=[(24,)] * 3,
            mask_index=[
                None,
                np.array([3, 2], np.int32),
                np.array([[1, 1, 0], [1, 0, 1]], np.int32),
            ],
            attention_bias=[(1, 2, 3, 3), None, None],
            num_heads=[2],
            unidirectional=[0, 1],
        ),
        cases(
            x=[(2, 3, 6)],
            weights=[(6, 24)],
            bias=[(24,)],
            num_heads=[2],
            qkv_hidden_sizes=[(8, 8, 8)],
        ),
        cases(
            x=[(2, 3, 6)], weights=[(6, 24)], bias=[(24,)], past=[(2, 2, 2, 4, 4)], num_heads=[2]
        ),
    )

    def body(
        self,
        make: GraphBuilder,
        x: Value,
        weights: Value,
        bias: Value | None = None,
        mask_index: Value | None = None,
        past: Value | None = None,
        attention_bias: Value | None = None,
        past_sequence_length: Value | None = None,
    ) -> Results:
        require_kind(self.name, same_dtype(self.name, x, weights, bias, past, attention_bias), "f")
        if self.do_rotary or past_sequence_length is not None:
            make.refuse("rotary embedding or shared buffers")
        if x.rank != 3 or weights.rank != 2:
            raise ShapeError(
                f"Attention takes (batch, length, size) and a matrix, found {x.type} and "
                f"{weights.type}"
            )
        total = weights.shape[1]
        widths = self.qkv_hidden_sizes or (dims.floordiv(total, 3),) * 3
        agree(sum(widths, 0), total, f"the weights of {self.name}")
        projected = make("MatMul", x, weights)
        if bias is not None:
            agree_shapes(bias.shape, (total,), f"the bias of {self.name}")
            projected = make(projected + bias)
        ends = [sum(widths[: i + 1], 0) for i in range(3)]
        parts = [make.slice(projected, 2, end - width, end) for end, width in zip(ends, widths)]
        caches: list[Value | None] = [None, None]
        keys = x.shape[1]
        if past is not None:
            require_rank(past, 5, self.name, "the past")
            agree(past.shape[0], 2, f"the past keys and values of {self.name}")
            caches = [make.reshape(make.slice(past, 0, i, i + 1), *past.shape[1:]) for i in (0, 1)]
            keys = keys + past.shape[3]
        if past is not None or make.asks(1):
            parts[1:] = [by_heads(make, part, self.num_heads) for part in parts[1:]]
        scores = x.shape[0], self.num_heads, x.shape[1], keys
        added = _mask(self, make, x, scores, mask_index, attention_bias)
        result, *present = _attended(self, make, parts, added, caches)
        return result, _joined(make, present[0], present[1]) if make.asks(1) else None


# -- parts -----------------------------------------------------------------------------------------


def by_heads(make: GraphBuilder, x: Value, heads: int) -> Value:
    """(batch, length, heads · size) as (batch, heads, length, size); the latter as it is."""
    if x.rank == 4:
        return x
    split = make.reshape(x, x.shape[0], x.shape[1], heads, dims.floordiv(x.shape[2], heads))
    return make.permute(split, 0, 2, 1, 3)


def _joined(make: GraphBuilder, keys: Value, values: Value) -> Value:
    """Keys and values as one tensor (2, batch, heads, length, size)."""
    if values.shape != keys.shape:
        values = make("Expand", make.number(math.nan, keys.dtype), make.ints(*keys.shape))
    return make.reshape(make("Concat", keys, values, axis=0), 2, *keys.shape)


def _attended(
    op: MultiHeadAttention | Attention,
    make: GraphBuilder,
    parts: Sequence[Value],
    mask: Value | None,
    past: Sequence[Value | None],
) -> list[Value]:
    """ONNX's attention over q, k and v: the result, and as far as they are asked for present keys
    and values, and the scores.
    """
    last = max((i for i in range(op.outputs) if make.asks(i)), default=0)
    count = 3 if last and isinstance(op, Attention) else last + 1
    found = make.several(
        count,
        "Attention",
        *parts,
        mask,
        *past,
        q_num_heads=op.num_heads,
        kv_num_heads=op.num_heads,
        is_causal=op.unidirectional,
        scale=op.scale or None,
        qk_matmul_output_mode=2,
    )
    if count == 4 and op.unidirectional:
        found[3] = _limited(make, found[3])
    return found


def _limited(make: GraphBuilder, scores: Value) -> Value:
    """Causal scores with the lowest number, not −∞, at keys that lie behind their query."""
    queries, keys = scores.shape[2:]
    last = make.reshape(make("Add", make.range(queries), make.ints(keys - queries)), queries, 1)
    seen = make("LessOrEqual", make.range(keys), last)
    return make("Where", seen, scores, make.number(np.finfo(np.float32).min, scores.dtype))


def _mask(
    op: MultiHeadAttention | Attention,
    make: GraphBuilder,
    x: Value,
    scores: Shape,
    padding: Value | None,
    bias: Value | None,
) -> Value | None:
    """What is added to the scores of x; ShapeError unless it fits (batch, heads, queries, keys)."""
    if bias is not None:
        require_rank(bias, 4, op.name, "the attention bias")
        wide = broadcast_shapes(bias.shape, scores, exact=True)
        require_shape(f"the attention bias of {op.name}", wide, scores)
    if padding is None:
        return bias
    hidden = _padding(op.name, make, padding, x, scores, op.mask_filter_value)
    return hidden if bias is None else make(hidden + bias)


def _padding(
    op: str, make: GraphBuilder, mask: Value, x: Value, scores: Shape, hidden: float
) -> Value:
    """What is added to the scores of x for a mask that says how many keys count in each row, and in
    a second half of the list where they begin; or which count.
    """
    (batch, _, queries, keys), dtype = scores, x.dtype
    zero, low = make.number(0, dtype), make.number(hidden, dtype)
    if mask.rank == 1:
        limits = make.cast(mask, dtypes.int64)
        if mask.shape[0] != batch * 2:
            agree_shapes(mask.shape, (batch,), f"the mask of {op}")
            counts = make.reshape(limits, batch, 1, 1, 1)
            return make("Where", make("Less", make.range(keys), counts), zero, low)
        ends, starts = (
            make.reshape(make.slice(limits, 0, batch * i, batch * (i + 1)), batch, 1, 1, 1)
            for i in range(2)
        )
        hidden_before = make("Less", make.range(keys), starts)
        seen = make("And", make("Less", make.range(keys), ends), make("Not", hidden_before))
        return make("Where", seen, zero, low)
    if mask.rank not in (2, 3):
        make.refuse(f"a mask of rank {mask.rank}")
    whole = (batch, keys) if mask.rank == 2 else (batch, queries, keys)
    agree_shapes(mask.shape, whole, f"the mask of {op}")
    shape = (mask.shape[0], 1, 1 if mask.rank == 2 else mask.shape[1], mask.shape[-1])
    return make("Where", make("Equal", make.reshape(mask, *shape), 0), low, zero)
