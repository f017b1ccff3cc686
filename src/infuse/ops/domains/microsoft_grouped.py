"""ONNX Runtime's attention with shared heads and a cache, and its rotary embedding (domain
com.microsoft).
"""

from __future__ import annotations

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import (
    agree,
    agree_shapes,
    at_most,
    fresh_dim,
    known_one,
    require_rank,
    whole_parts,
)
from infuse.ops.core.traits import Trait
from infuse.ops.domains.heads import attend, heads_flops, join, split
from infuse.ops.domains.microsoft import DOMAIN
from infuse.ops.domains.microsoft_attention import SUMS
from infuse.ops.domains.microsoft_rotary import turned


class Grouped(Immutable):
    """Sizes of grouped attention's queries, and what its other operands must agree with; the checks
    raise ShapeError.
    """

    name: str
    heads: int
    kv_heads: int
    batch: Dim
    length: Dim
    size: Dim
    """Elements of one head."""

    def check_keys(self, *fresh: Value | None) -> None:
        """New keys and values are (batch, length, heads · size)."""
        for one in fresh:
            if one is not None and one.tensor.shape is not None:
                agree_shapes(
                    one.shape,
                    (self.batch, self.length, self.size * self.kv_heads),
                    f"keys and values of {self.name}",
                )

    def check_past(self, *past: Value | None) -> None:
        """Past keys and values are (batch, heads, past length, size)."""
        stored: Dim | None = None
        for one in past:
            if one is not None and one.tensor.shape is not None:
                require_rank(one, 4, self.name, "the past")
                stored = one.shape[2] if stored is None else stored
                agree_shapes(
                    one.shape,
                    (self.batch, self.kv_heads, stored, self.size),
                    f"the past of {self.name}",
                )

    def check_rotation(self, cos: Value | None, sin: Value | None, places: Value | None) -> None:
        """Tables are (positions, at most half a head), positions (batch, length)."""
        half: Dim | None = None
        for table in (cos, sin):
            if table is not None and table.tensor.shape is not None:
                require_rank(table, 2, self.name, "a table")
                at_most(table.shape[1] * 2, self.size, f"channels that {self.name} turns")
                half = (
                    table.shape[1]
                    if half is None
                    else agree(half, table.shape[1], f"tables of {self.name}")
                )
        if places is not None and places.tensor.shape is not None:
            agree_shapes(places.shape, (self.batch, self.length), f"positions of {self.name}")

    def check_scores(self, bias: Value | None, sinks: Value | None) -> None:
        """A bias is (batch or 1, heads or 1, length or 1, keys), sinks are one for each head."""
        if bias is not None and bias.tensor.shape is not None:
            require_rank(bias, 4, self.name, "the attention bias")
            for size, other in zip(bias.shape[:3], (self.batch, self.heads, self.length)):
                if size != 1:
                    agree(size, other, f"the attention bias of {self.name}")
        if sinks is not None and sinks.tensor.shape is not None:
            agree_shapes(sinks.shape, (self.heads,), f"the sinks of {self.name}")


class GroupQueryAttention(Op):
    """Causal attention in which several heads of queries share a head of keys and values; also
    gives present keys and values.

    q, k and v are (batch, length, heads · size), or q holds all three and k and v are absent. Row b
    of the batch has `seqlens_k[b]` + 1 keys, the past ones first; with `do_rotary` q and k are
    turned by their positions.
    """

    traits = Trait.FLOAT32

    num_heads: int
    kv_num_heads: int
    causal: int = 1
    do_rotary: int = 0
    k_quant_type: str = "NONE"
    kv_cache_bit_width: int | None = None
    local_window_size: int = -1
    qk_norm_epsilon: float = 1e-6
    qk_output: int = 0
    rotary_interleaved: int = 0
    scale: float | None = None
    sliding_window_cache: int = 0
    smooth_softmax: int = -1
    softcap: float = 0.0
    v_quant_type: str = "NONE"

    domain = DOMAIN
    accuracy = SUMS
    samples = (
        cases(
            query=[(2, 3, 64), (2, 3, 128)],
            key=[(2, 3, 32), None],
            value=[(2, 3, 32), None],
            past_key=[None, None],
            past_value=[None, None],
            seqlens_k=[np.array([2, 2], np.int32)] * 2,
            total_sequence_length=[np.array(3, np.int32)] * 2,
            num_heads=[4],
            kv_num_heads=[2],
            softcap=[0.0, 2.0],
        ),
        cases(
            query=[(2, 1, 64)],
            key=[(2, 1, 32)],
            value=[(2, 1, 32)],
            past_key=[(2, 2, 4, 16)],
            past_value=[(2, 2, 4, 16)],
            seqlens_k=[np.array([4, 4], np.int32)],
            total_sequence_length=[np.array(5, np.int32)],
            cos_cache=[(16, 8)],
            sin_cache=[(16, 8)],
            num_heads=[4],
            kv_num_heads=[2],
            do_rotary=[0, 1],
            local_window_size=[-1, 3],
        ),
        cases(
            query=[(1, 3, 64)] * 2,
            key=[(1, 3, 32)] * 2,
            value=[(1, 3, 32)] * 2,
            past_key=[None, (1, 2, 2, 16)],
            past_value=[None, (1, 2, 2, 16)],
            seqlens_k=[np.array([2], np.int32), np.array([4], np.int32)],
            total_sequence_length=[np.array(3, np.int32), np.array(5, np.int32)],
            head_sink=[(4,), None],
            num_heads=[4],
            kv_num_heads=[2],
            smooth_softmax=[-1, 1],
        ),
    )

    def infer(
        self,
        query: Value,
        key: Value | None,
        value: Value | None,
        past_key: Value | None,
        past_value: Value | None,
        seqlens_k: Value,
        total_sequence_length: Value,
        cos_cache: Value | None = None,
        sin_cache: Value | None = None,
        position_ids: Value | None = None,
        attention_bias: Value | None = None,
        head_sink: Value | None = None,
        k_scale: Value | None = None,
        v_scale: Value | None = None,
        q_norm_weight: Value | None = None,
        k_norm_weight: Value | None = None,
    ) -> Inferred:
        dtype = require_kind(self.name, query.dtype, "f")
        cache = past_key.dtype if past_key is not None else dtype
        if query.tensor.shape is None or query.rank != 3:
            return tuple(TensorType(t, None) for t in (dtype, cache, cache, dtype))
        batch, length, width = query.shape
        heads = self.num_heads if key is not None else self.num_heads + 2 * self.kv_num_heads
        size = whole_parts(width, heads, f"channels and heads of {self.name}")
        whole_parts(self.num_heads, self.kv_num_heads, f"heads of queries and keys of {self.name}")
        operands = Grouped(self.name, self.num_heads, self.kv_num_heads, batch, length, size)
        operands.check_keys(key, value)
        operands.check_past(past_key, past_value)
        if seqlens_k.tensor.size is not None:
            agree(seqlens_k.tensor.size, batch, f"the lengths of {self.name}")
        operands.check_rotation(cos_cache, sin_cache, position_ids)
        operands.check_scores(attention_bias, head_sink)
        stored = known_one(total_sequence_length, self.name)
        total = fresh_dim("total") if stored is None else stored
        if past_key is not None:
            total = (
                fresh_dim("total")
                if past_key.tensor.shape is None
                else dims.maximum(total, past_key.shape[2])
            )
        present = TensorType(cache, (batch, self.kv_num_heads, total, size))
        scores = TensorType(dtype, (batch, self.num_heads, length, total))
        return TensorType(dtype, (batch, length, size * self.num_heads)), present, present, scores

    def eval(
        self,
        query: Array,
        key: Array | None,
        value: Array | None,
        past_key: Array | None,
        past_value: Array | None,
        seqlens_k: Array,
        total_sequence_length: Array,
        cos_cache: Array | None = None,
        sin_cache: Array | None = None,
        position_ids: Array | None = None,
        attention_bias: Array | None = None,
        head_sink: Array | None = None,
        k_scale: Array | None = None,
        v_scale: Array | None = None,
        q_norm_weight: Array | None = None,
        k_norm_weight: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        special = (k_scale, v_scale, q_norm_weight, k_norm_weight)
        if any(x is not None for x in special) or self.sliding_window_cache:
            raise UnsupportedOperatorError(
                f"{self.name} with quantized or sliding caches or normalized heads"
            )
        q, k, v = self._parts(query, key, value)
        batch, _, length, size = q.shape
        sinks = np.zeros(self.num_heads, q.dtype) if self.smooth_softmax > 0 else None
        sinks = sinks if head_sink is None else widened(head_sink)
        total = int(total_sequence_length)
        stored = total if past_key is None else max(total, past_key.shape[2])
        present = np.zeros((2, batch, self.kv_num_heads, stored, size), k.dtype)
        result = np.zeros_like(q)
        for row, last in enumerate(seqlens_k.reshape(-1).tolist()):
            before = 0 if length == total else last + 1 - length
            places = (
                np.arange(before, before + length) if position_ids is None else position_ids[row]
            )
            own, new = (x[row : row + 1] for x in (q, k))
            if self.do_rotary and cos_cache is not None and sin_cache is not None:
                cos, sin = (widened(table)[places][None] for table in (cos_cache, sin_cache))
                own, new = (turned(x, cos, sin, bool(self.rotary_interleaved)) for x in (own, new))
            if past_key is not None and past_value is not None:
                for cache, past in zip(present, (past_key, past_value)):
                    cache[row, :, : past.shape[2]] = past[row]
            present[0, row, :, before : before + length] = new[0]
            present[1, row, :, before : before + length] = v[row]
            keys, values = (
                np.repeat(x[row, :, : before + length], self._shared, axis=0)[None] for x in present
            )
            mask = self._mask(length, before, attention_bias, row)
            unseen = np.isneginf(mask)
            result[row] = attend(
                own, keys, values, mask, self.scale, self.softcap, sinks, unseen=unseen
            )[0][0]
        return (
            join(result).astype(query.dtype),
            present[0].astype(query.dtype),
            present[1].astype(query.dtype),
        )

    @property
    def _shared(self) -> int:
        return self.num_heads // self.kv_num_heads

    def _parts(
        self, query: Array, key: Array | None, value: Array | None
    ) -> tuple[Array, Array, Array]:
        """Queries, keys and values by heads."""
        if key is not None and value is not None:
            heads = (self.num_heads, self.kv_num_heads, self.kv_num_heads)
            q, k, v = (split(widened(x), n) for x, n in zip((query, key, value), heads))
            return q, k, v
        whole = split(widened(query), self.num_heads + 2 * self.kv_num_heads)
        q, k, v = np.split(whole, np.cumsum([self.num_heads, self.kv_num_heads]), axis=1)
        return q, k, v

    def _mask(self, length: int, before: int, attention_bias: Array | None, row: int) -> Array:
        ahead = np.arange(before + length) - np.arange(before, before + length)[:, None]
        hidden = np.zeros(ahead.shape, bool)
        if self.causal:
            hidden = ahead > 0
        if self.local_window_size >= 0:
            hidden = hidden | (-ahead >= self.local_window_size)
        mask: Array = np.where(hidden, np.float32(-np.inf), np.float32(0))[None, None]
        if attention_bias is None:
            return mask
        own = attention_bias[min(row, len(attention_bias) - 1)][None]
        return np.asarray(mask + widened(own)[..., : before + length])

    def flops(self, shapes: Shapes) -> Flops:
        return heads_flops(shapes, self.num_heads)
