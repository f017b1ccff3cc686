"""ONNX Runtime's own attention operators (domain com.microsoft).

`eval` covers what the runtime's processor kernels do; what only other devices have raises
UnsupportedOperatorError.
"""

from __future__ import annotations

import numpy as np

from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import require_kind, require_shape, widened
from infuse.ops.core.flops import SOFTMAX, Flops, Shapes
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import agree, agree_shapes, fresh_dim, require_rank, whole_parts
from infuse.ops.core.traits import Trait
from infuse.ops.domains.heads import (
    attend,
    bias_of,
    causal_mask,
    heads_flops,
    join,
    padding_mask,
    split,
)
from infuse.ops.domains.microsoft import DOMAIN

SUMS = Rounding(ulp=8, abs=1e-5, why="two long sums and exponentials between them")


class MultiHeadAttention(Op):
    """softmax(q · kᵀ · scale + bias + mask) · v for each head, q, k and v (batch, length, heads ·
    size); also gives present keys and values, and what softmax is of.

    `bias` is that of the projections, added to q, k and v first. k and v may have the heads in
    front already (batch, heads, length, size). The mask says how many keys count, or by ones which
    (batch, keys).
    """

    traits = Trait.FLOAT32

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

    def infer(
        self,
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
    ) -> Inferred:
        dtype = require_kind(
            self.name, same_dtype(self.name, query, key, value, attention_bias), "f"
        )
        regular = key is not None and value is not None and past_sequence_length is None
        shaped = regular and not any(
            x is None or x.tensor.shape is None for x in (query, key, value)
        )
        if not shaped or key is None or value is None or query.rank != 3:
            return tuple(TensorType(dtype, None) for _ in range(4))
        batch, length, width = query.shape
        heads = [_headed(x.shape, self.num_heads, self.name) for x in (key, value)]
        size = whole_parts(width, self.num_heads, f"channels and heads of {self.name}")
        agree_shapes(
            heads[0],
            (batch, self.num_heads, heads[1][2], size),
            f"queries, keys and values of {self.name}",
        )
        agree_shapes(heads[1][:2], (batch, self.num_heads), f"queries and values of {self.name}")
        past: Dim = 0
        if past_key is not None:
            past = past_key.shape[2] if past_key.tensor.shape is not None else fresh_dim("past")
        for old, new in ((past_key, heads[0]), (past_value, heads[1])):
            if old is not None and old.tensor.shape is not None:
                agree_shapes(
                    old.shape, (*new[:2], past, new[3]), f"past and new keys of {self.name}"
                )
        total = heads[0][2] + past
        if bias is not None and bias.tensor.shape is not None:
            agree_shapes(
                bias.shape, (2 * width + self.num_heads * heads[1][3],), f"the bias of {self.name}"
            )
        _check_masks(
            self.name, key_padding_mask, attention_bias, (batch, self.num_heads, length, total)
        )
        present = [TensorType(dtype, (batch, self.num_heads, total, x[3])) for x in heads]
        result = TensorType(dtype, (batch, length, heads[1][3] * self.num_heads))
        return result, *present, TensorType(dtype, (batch, self.num_heads, length, total))

    def eval(
        self,
        query: Array,
        key: Array | None = None,
        value: Array | None = None,
        bias: Array | None = None,
        key_padding_mask: Array | None = None,
        attention_bias: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        past_sequence_length: Array | None = None,
        cache_indirection: Array | None = None,
    ) -> tuple[Array, Array, Array, Array]:
        if key is None or value is None or query.ndim != 3 or past_sequence_length is not None:
            raise UnsupportedOperatorError(f"{self.name} over packed inputs or shared buffers")
        parts = [widened(x) for x in (query, key, value)]
        if bias is not None:
            widths = [x.shape[2] if x.ndim == 3 else x.shape[1] * x.shape[3] for x in parts]
            shifts = np.split(widened(bias), np.cumsum(widths)[:2])
            parts = [x + bias_of(b, x) for x, b in zip(parts, shifts)]
        q, k, v = (split(x, self.num_heads) for x in parts)
        if past_key is not None and past_value is not None:
            k, v = (
                np.concatenate([widened(p), x], axis=2) for p, x in ((past_key, k), (past_value, v))
            )
        mask, unseen = padding_mask(key_padding_mask, q, k, self.mask_filter_value), None
        if self.unidirectional:
            causal = causal_mask(
                q.shape[2], k.shape[2], 0 if past_key is None else past_key.shape[2]
            )
            mask, unseen = mask + causal, causal < 0
        if attention_bias is not None:
            mask = mask + widened(attention_bias)
        result, scores = attend(q, k, v, mask, self.scale, unseen=unseen)
        own = query.dtype
        return join(result).astype(own), k.astype(own), v.astype(own), scores.astype(own)

    def flops(self, shapes: Shapes) -> Flops:
        return heads_flops(shapes, self.num_heads)


class Attention(Op):
    """MultiHeadAttention of x · weights + bias, the weights of q, k and v side by side; also gives
    the present keys and values as one tensor (2, batch, heads, length, size), which goes in as
    `past`.

    The mask says how many keys count (batch), where they end and begin (2 · batch), or by ones
    which they are: (batch, keys), (batch, queries, keys).
    Present values are NaN where they do not have the size of keys.
    """

    traits = Trait.FLOAT32

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

    def infer(
        self,
        x: Value,
        weights: Value,
        bias: Value | None = None,
        mask_index: Value | None = None,
        past: Value | None = None,
        attention_bias: Value | None = None,
        past_sequence_length: Value | None = None,
    ) -> Inferred:
        dtype = require_kind(
            self.name, same_dtype(self.name, x, weights, bias, past, attention_bias), "f"
        )
        if (
            x.tensor.shape is None
            or weights.tensor.shape is None
            or past_sequence_length is not None
        ):
            return TensorType(dtype, None), TensorType(dtype, None)
        if x.rank != 3 or weights.rank != 2:
            raise ShapeError(
                f"Attention takes (batch, length, size) and a matrix, found {x.type} and "
                f"{weights.type}"
            )
        batch, length, _ = x.shape
        agree(x.shape[2], weights.shape[0], f"channels and weights of {self.name}")
        widths = self._widths(weights.shape[1])
        agree(sum(widths, 0), weights.shape[1], f"the weights of {self.name}")
        if bias is not None and bias.tensor.shape is not None:
            agree_shapes(bias.shape, (weights.shape[1],), f"the bias of {self.name}")
        sizes = [
            whole_parts(width, self.num_heads, f"channels and heads of {self.name}")
            for width in widths
        ]
        agree(sizes[0], sizes[1], f"queries and keys of {self.name}")
        keys, values = widths[1:]
        before: Dim = 0
        if past is not None:
            before = past.shape[3] if past.tensor.shape is not None else fresh_dim("past")
            if past.tensor.shape is not None:
                whole = (2, batch, self.num_heads, before, sizes[1])
                agree_shapes(past.shape, whole, f"past and new keys of {self.name}")
                agree(sizes[1], sizes[2], f"past keys and values of {self.name}")
        _check_masks(
            self.name, mask_index, attention_bias, (batch, self.num_heads, length, length + before)
        )
        present = (2, batch, self.num_heads, length + before, dims.floordiv(keys, self.num_heads))
        return TensorType(dtype, (batch, length, values)), TensorType(dtype, present)

    def _widths(self, total: Dim) -> tuple[Dim, ...]:
        return self.qkv_hidden_sizes or (dims.floordiv(total, 3),) * 3

    def eval(
        self,
        x: Array,
        weights: Array,
        bias: Array | None = None,
        mask_index: Array | None = None,
        past: Array | None = None,
        attention_bias: Array | None = None,
        past_sequence_length: Array | None = None,
    ) -> tuple[Array, Array]:
        if self.do_rotary or past_sequence_length is not None:
            raise UnsupportedOperatorError(f"{self.name} with rotary embedding or shared buffers")
        projected = widened(x) @ widened(weights)
        if bias is not None:
            projected = projected + widened(bias)
        widths = [int(str(w)) for w in self._widths(weights.shape[1])]
        q, k, v = (
            split(p, self.num_heads) for p in np.split(projected, np.cumsum(widths)[:2], axis=2)
        )
        if past is not None:
            k, v = (np.concatenate([widened(p), new], axis=2) for p, new in zip(past, (k, v)))
        mask, unseen = padding_mask(mask_index, q, k, self.mask_filter_value), None
        if self.unidirectional:
            causal = causal_mask(q.shape[2], k.shape[2], k.shape[2] - q.shape[2])
            mask, unseen = mask + causal, causal < 0
        if attention_bias is not None:
            mask = mask + widened(attention_bias)
        result, _ = attend(q, k, v, mask, self.scale, unseen=unseen)
        present = np.stack([k, v if k.shape == v.shape else np.full_like(k, np.nan)])
        return join(result).astype(x.dtype), present.astype(x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        rows = dims.product(shapes.input(0)[:-1])
        projected = rows * shapes.size(1)
        keys = shapes.outputs[1][3] if len(shapes.outputs) > 1 else shapes.input(0)[1]
        scores = rows * keys * self.num_heads
        added = rows * shapes.input(1)[-1] * int(shapes.has(2))
        return Flops(projected + shapes.made * keys * 2, scores * (SOFTMAX + 1) + added)


# -- parts -----------------------------------------------------------------------------------------


def _headed(shape: Shape, heads: int, op: str) -> Shape:
    """(batch, length, heads · size) as (batch, heads, length, size); the latter as it is."""
    if len(shape) == 4:
        return shape
    if len(shape) != 3:
        return (fresh_dim("size"), heads, fresh_dim("length"), fresh_dim("size"))
    return shape[0], heads, shape[1], whole_parts(shape[2], heads, f"channels and heads of {op}")


def _check_masks(op: str, mask: Value | None, bias: Value | None, scores: Shape) -> None:
    """ShapeError unless a padding mask and what is added fit scores (batch, heads, queries,
    keys).
    """
    batch, _, length, total = scores
    if mask is not None and mask.tensor.shape is not None:
        shapes = {1: (batch,), 2: (batch, total), 3: (batch, length, total)}
        ends_and_starts = mask.rank == 1 and mask.shape[0] == batch * 2
        if mask.rank in shapes and not ends_and_starts:
            agree_shapes(mask.shape, shapes[mask.rank], f"the mask of {op}")
    if bias is not None and bias.tensor.shape is not None:
        require_rank(bias, 4, op, "the attention bias")
        require_shape(
            f"the attention bias of {op}", broadcast_shapes(bias.shape, scores, exact=True), scores
        )
