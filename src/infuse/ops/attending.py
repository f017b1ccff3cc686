"""Attention and rotary position embedding."""

from __future__ import annotations

import math

import numpy as np

from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.broadcasting import broadcast_shapes
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import Shape, TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import require_kind, require_shape, widened
from infuse.ops.core.flops import SOFTMAX, Flops, Shapes
from infuse.ops.core.samples import Bools, Ints, cases
from infuse.ops.core.sizes import agree, agree_shapes, at_most, require_rank, whole_parts
from infuse.ops.core.traits import Trait


class Attention(Op):
    """softmax(q · kᵀ · scale + mask) · v for every head; also gives present keys and values, and
    the scores.

    q, k and v have rank 4 (batch, heads, length, size), or rank 3 (batch, length, heads · size)
    with the numbers of heads as attributes. There may be fewer heads of keys and values than of
    queries, each serving several. The mask is added, or where it is boolean says what takes part; a
    query that nothing takes part in gives zeros. With `is_causal`, query i sees keys up to i +
    past, where past counts the keys before the first query. Past keys and values are put before k
    and v; `nonpad_kv_seqlen` (batch) says instead how many of k and v are valid.
    """

    traits = Trait.FLOAT32
    is_causal: int = 0
    kv_num_heads: int | None = None
    left_window_size: int = -1
    q_num_heads: int | None = None
    qk_matmul_output_mode: int = 0
    right_window_size: int = -1
    scale: float | None = None
    softcap: float = 0.0
    softmax_precision: int | None = None

    since = 23
    accuracy = Rounding(ulp=8, abs=4e-6, why="two long sums and exponentials between them")
    samples = (
        cases(
            q=[(2, 4, 3, 8)],
            k=[(2, 4, 5, 8)],
            v=[(2, 4, 5, 6)],
            is_causal=[0, 1],
            scale=[None, 0.5],
            softcap=[0.0, 2.0],
        ),
        cases(
            q=[(2, 4, 3, 8)] * 3,
            k=[(2, 2, 5, 8)] * 3,
            v=[(2, 2, 5, 8)] * 3,
            mask=[(3, 5), Bools((2, 1, 3, 5)), (4, 3, 4)],
            qk_matmul_output_mode=[0, 1, 2, 3],
        ),
        cases(
            q=[(2, 3, 32)],
            k=[(2, 2, 16)],
            v=[(2, 2, 12)],
            past_key=[(2, 2, 4, 8)],
            past_value=[(2, 2, 4, 6)],
            is_causal=[0, 1],
            q_num_heads=[4],
            kv_num_heads=[2],
            left_window_size=[-1, 2],
        ),
        cases(
            q=[(2, 2, 3, 4)],
            k=[(2, 1, 6, 4)],
            v=[(2, 1, 6, 4)],
            nonpad_kv_seqlen=[np.array([6, 2], np.int64)],
            is_causal=[0, 1],
            right_window_size=[-1, 1],
        ),
    )

    def infer(
        self,
        q: Value,
        k: Value,
        v: Value,
        mask: Value | None = None,
        past_key: Value | None = None,
        past_value: Value | None = None,
        nonpad_kv_seqlen: Value | None = None,
    ) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, q, k, past_key), "f")
        values = require_kind(self.name, same_dtype(self.name, v, past_value), "f")
        if (past_key is None) != (past_value is None):
            raise TypeMismatchError("Attention takes past keys and past values together or neither")
        if past_key is not None and nonpad_kv_seqlen is not None:
            raise TypeMismatchError("Attention takes either past keys or nonpad_kv_seqlen")
        if any(x.tensor.shape is None for x in (q, k, v)):
            return tuple(TensorType(t, None) for t in (dtype, dtype, values, dtype))
        queries, keys, contents = self._heads(q, True), self._heads(k, False), self._heads(v, False)
        self._check(queries, keys, contents)
        past: Dim = 0
        for old, new, name in ((past_value, contents, "values"), (past_key, keys, "keys")):
            if old is not None and old.tensor.shape is not None:
                require_rank(old, 4, self.name, f"past {name}")
                agree_shapes(
                    (*old.shape[:2], old.shape[3]),
                    (*new[:2], new[3]),
                    f"past and new {name} of Attention",
                )
                past = (
                    old.shape[2]
                    if old is past_value
                    else agree(past, old.shape[2], "past keys and values")
                )
        total = keys[2] + past
        if nonpad_kv_seqlen is not None:
            require_rank(nonpad_kv_seqlen, 1, self.name, "nonpad_kv_seqlen")
            if nonpad_kv_seqlen.tensor.shape is not None:
                agree(nonpad_kv_seqlen.shape[0], queries[0], "lengths and batches of Attention")
        scores = (queries[0], queries[1], queries[2], total)
        if mask is not None and mask.tensor.shape:
            # The mask may stop before the last key.
            at_most(mask.shape[-1], total, "the mask and the keys of Attention")
            extended = (*mask.shape[:-1], total)
            require_shape(
                "the mask of Attention", broadcast_shapes(extended, scores, exact=True), scores
            )
        result = (
            (*queries[:3], contents[3])
            if q.rank == 4
            else (queries[0], queries[2], queries[1] * contents[3])
        )
        present = [(*x[:2], total, x[3]) for x in (keys, contents)]
        kinds = (dtype, dtype, values, dtype)
        return tuple(
            TensorType(t, s) for t, s in zip(kinds, (result, present[0], present[1], scores))
        )

    def _heads(self, x: Value, query: bool) -> Shape:
        """The shape (batch, heads, length, size) of q, k or v."""
        if x.rank == 4:
            return x.shape
        if x.rank != 3:
            raise ShapeError(f"Attention takes inputs of rank 3 or 4, found {x.type}")
        heads = self.q_num_heads if query else self.kv_num_heads
        if heads is None or heads < 1:
            raise ShapeError("Attention over inputs of rank 3 needs q_num_heads and kv_num_heads")
        batch, length, hidden = x.shape
        return batch, heads, length, whole_parts(hidden, heads, "channels and heads of Attention")

    def _check(self, q: Shape, k: Shape, v: Shape) -> None:
        agree(q[3], k[3], "head sizes of the queries and keys of Attention")
        agree(k[2], v[2], "numbers of keys and values of Attention")
        agree(k[1], v[1], "heads of keys and values of Attention")
        for one in (k, v):
            agree(q[0], one[0], "batches of Attention")
        whole_parts(q[1], k[1], "heads of queries and of keys of Attention")

    def eval(
        self,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        nonpad_kv_seqlen: Array | None = None,
    ) -> tuple[Array, Array, Array, Array]:
        queries = _split(q, self.q_num_heads)
        keys, values = _split(k, self.kv_num_heads), _split(v, self.kv_num_heads)
        past = 0
        if past_key is not None and past_value is not None:
            past = past_key.shape[2]
            keys = np.concatenate([past_key, keys], axis=2)
            values = np.concatenate([past_value, values], axis=2)
        shared = queries.shape[1] // keys.shape[1]
        scale = 1 / math.sqrt(queries.shape[3]) if self.scale is None else self.scale
        wide_keys = np.repeat(widened(keys), shared, axis=1)
        raw = widened(queries) @ wide_keys.swapaxes(2, 3) * scale
        capped = self.softcap * np.tanh(raw / self.softcap) if self.softcap else raw
        bias, seen = self._bias(raw, mask, past, nonpad_kv_seqlen)
        biased = np.where(seen, capped + bias, raw.dtype.type(-np.inf))
        weights = _weights(biased, bias)
        result = weights @ np.repeat(widened(values), shared, axis=1)
        if q.ndim == 3:
            result = result.swapaxes(1, 2).reshape(*q.shape[:2], result.shape[1] * result.shape[3])
        shown = (raw, capped, biased, weights)[self.qk_matmul_output_mode]
        return np.asarray(result, q.dtype), keys, values, np.asarray(shown, q.dtype)

    def _bias(
        self, scores: Array, mask: Array | None, past: int, valid: Array | None
    ) -> tuple[Array, Array]:
        """What is added to the scores: the mask, and −∞ where a query does not see a key; and where
        it does.
        """
        lengths = scores.shape[2:]
        bias = np.zeros((1, 1, *lengths), dtype=scores.dtype)
        query, key = np.arange(lengths[0])[:, None], np.arange(lengths[1])
        seen = np.ones((1, 1, *lengths), dtype=bool)
        first = np.asarray(past)
        if valid is not None:
            first = (valid - lengths[0]).reshape(-1, 1, 1, 1)
            seen = seen & (key < valid.reshape(-1, 1, 1, 1))
        ahead = key - (query + first)
        if self.is_causal:
            seen = seen & (ahead <= 0)
        if self.left_window_size >= 0:
            seen = seen & (-ahead <= self.left_window_size)
        if self.right_window_size >= 0:
            seen = seen & (ahead <= self.right_window_size)
        if mask is not None:
            missing = [(0, 0)] * (mask.ndim - 1) + [(0, lengths[1] - mask.shape[-1])]
            if mask.dtype == bool:
                seen = seen & np.pad(mask, missing)
            else:
                bias = bias + np.pad(
                    widened(mask).astype(scores.dtype), missing, constant_values=-np.inf
                )
        return np.where(seen, bias, -np.inf).astype(scores.dtype), seen

    def flops(self, shapes: Shapes) -> Flops:
        q, k, v = (shapes.input(i) for i in range(3))
        heads = q[1] if len(q) == 4 else self.q_num_heads or 1
        shared = k[1] if len(k) == 4 else self.kv_num_heads or 1
        length, keys = q[-2], k[-2]
        if shapes.has(4):
            keys = keys + shapes.input(4)[2]
        depth = q[3] if len(q) == 4 else dims.floordiv(q[2], heads)
        width = v[3] if len(v) == 4 else dims.floordiv(v[2], shared)
        scores = q[0] * heads * length * keys
        capped = 3 if self.softcap else 0
        return Flops(scores * (depth + width), scores * (SOFTMAX + 1 + int(shapes.has(3)) + capped))


def _split(x: Array, heads: int | None) -> Array:
    """(batch, length, heads · size) as (batch, heads, length, size)."""
    heads = heads or 1
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def _weights(scores: Array, bias: Array) -> Array:
    """Softmax over the keys; zeros for a query that sees none."""
    blind = np.broadcast_to(np.isneginf(bias).all(axis=-1, keepdims=True), (*scores.shape[:3], 1))
    largest = np.where(blind, 0, scores.max(axis=-1, keepdims=True, initial=-np.inf))
    powers = np.where(blind, 0, np.exp(scores - largest))
    return np.asarray(powers / np.where(blind, 1, powers.sum(axis=-1, keepdims=True)))


class RotaryEmbedding(Op):
    """Pairs of channels turned by the angle of their position; cosines and sines come as tables.

    x has rank 4 (batch, heads, length, size), or rank 3 (batch, length, heads · size) with
    `num_heads`. The tables hold (positions, half) when `position_ids` (batch, length) pick from
    them, else (batch, length, half). Pairs are halves apart, or neighbours when `interleaved`; only
    the first `rotary_embedding_dim` channels turn unless that is 0.
    """

    traits = Trait.FLOAT32
    interleaved: int = 0
    num_heads: int | None = None
    rotary_embedding_dim: int = 0

    since = 23
    accuracy = Rounding(ulp=2, abs=3e-7, why="the two products may cancel")
    samples = (
        cases(
            x=[(2, 3, 4, 8)],
            cos=[(10, 4)],
            sin=[(10, 4)],
            position_ids=[Ints((2, 4), 0, 10)],
            interleaved=[0, 1],
        ),
        cases(
            x=[(2, 4, 24)],
            cos=[(2, 4, 2)],
            sin=[(2, 4, 2)],
            num_heads=[3],
            rotary_embedding_dim=[4],
            interleaved=[0, 1],
        ),
    )

    def infer(
        self, x: Value, cos: Value, sin: Value, position_ids: Value | None = None
    ) -> Inferred:
        require_kind(self.name, same_dtype(self.name, x, cos, sin), "f")
        if position_ids is not None:
            require_kind(f"position_ids of {self.name}", position_ids.dtype, "i")
            require_rank(position_ids, 2, self.name, "position_ids")
        for name, table in (("cos", cos), ("sin", sin)):
            require_rank(table, 3 if position_ids is None else 2, self.name, name)
        if x.tensor.shape is None:
            return x.type
        heads = self.num_heads or 0
        if x.rank not in (3, 4) or (x.rank == 3 and heads < 1):
            raise ShapeError(
                f"RotaryEmbedding takes rank 4, or rank 3 and num_heads; found {x.type}"
            )
        size = x.shape[3] if x.rank == 4 else dims.floordiv(x.shape[2], heads)
        turned = self.rotary_embedding_dim or size
        at_most(turned, size, "channels that RotaryEmbedding turns")
        pairs = whole_parts(turned, 2, "channels that RotaryEmbedding turns in pairs")
        length = x.shape[2] if x.rank == 4 else x.shape[1]
        if x.rank == 3:
            whole_parts(x.shape[2], heads, "channels and heads of RotaryEmbedding")
        if position_ids is not None and position_ids.tensor.shape is not None:
            agree_shapes(position_ids.shape, (x.shape[0], length), "positions of RotaryEmbedding")
        for table in (cos, sin):
            if table.tensor.shape is None:
                continue
            agree(table.shape[-1], pairs, "the table and half the channels of RotaryEmbedding")
            if position_ids is None:
                agree_shapes(table.shape[:2], (x.shape[0], length), "the tables of RotaryEmbedding")
        if cos.tensor.shape is not None and sin.tensor.shape is not None:
            agree(cos.shape[0], sin.shape[0], "the tables of RotaryEmbedding")
        return x.type

    def eval(self, x: Array, cos: Array, sin: Array, position_ids: Array | None = None) -> Array:
        heads = widened(_split(x, self.num_heads))
        if position_ids is not None:
            cos, sin = cos[position_ids], sin[position_ids]
        real, imaginary = widened(cos)[:, None], widened(sin)[:, None]
        turned = self.rotary_embedding_dim or heads.shape[3]
        half = turned // 2
        even = slice(0, turned, 2) if self.interleaved else slice(0, half)
        odd = slice(1, turned, 2) if self.interleaved else slice(half, turned)
        result = heads.copy()
        result[..., even] = real * heads[..., even] - imaginary * heads[..., odd]
        result[..., odd] = imaginary * heads[..., even] + real * heads[..., odd]
        if x.ndim == 3:
            result = result.swapaxes(1, 2).reshape(x.shape)
        return np.asarray(result, dtype=x.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(0, shapes.made * 3)
