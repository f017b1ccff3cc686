"""Attention over keys and values that lie in pages, those of many sequences in one pool."""

from __future__ import annotations

import math

import numpy as np

from infuse import dtypes
from infuse.errors import DataError, ShapeError, TypeMismatchError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, same_dtype
from infuse.ops.core.elementwise import require_kind, widened
from infuse.ops.core.flops import SOFTMAX, Flops, Shapes
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import agree, require_rank, whole_parts


class PagedAttention(Op):
    """Causal attention of the tokens of several sequences, side by side, over all keys and values
    of their own sequence, which lie in pages of a cache; the tokens' own are put there first.

    q (tokens, heads · size), k (tokens, kv_heads · size) and v (tokens, kv_heads · value size) have
    a row for each token, in the order of the sequences: sequence i has the rows from starts[i] to
    starts[i + 1], and of its lengths[i] tokens these are the last. Rows behind the last sequence
    give zeros. Token t of a sequence lies in page pages[i, t // n], at place t % n, where pages are
    of n tokens. `key_cache` is (pages, kv_heads, size, n), `value_cache` (pages, kv_heads, n, value
    size), in a type of their own. Both are given back with the new tokens in them: states are
    changed where they lie, tensors are copied.

    A token sees those before it and itself, at most `left_window_size` before it unless that is
    negative. Scores are multiplied by `scale` (default 1/√size) and bent to ±softcap; `slopes`
    (heads) times the distance of two tokens is taken off (ALiBi); `sinks` (heads) are scores that
    take part in the softmax alone.
    """

    q_num_heads: int
    kv_num_heads: int
    left_window_size: int = -1
    scale: float | None = None
    softcap: float = 0.0

    domain = "infuse"
    updates = {1: 3, 2: 4}
    accuracy = Rounding(ulp=8, abs=4e-6, why="two long sums and exponentials between them")
    samples = (
        cases(
            q=[(5, 32)] * 2,
            k=[(5, 16)] * 2,
            v=[(5, 12)] * 2,
            key_cache=[(7, 2, 8, 4)] * 2,
            value_cache=[(7, 2, 4, 6)] * 2,
            starts=[np.array([0, 1, 4])] * 2,
            lengths=[np.array([9, 3])] * 2,
            pages=[np.array([[5, 0, 2], [4, -1, -1]])] * 2,
            q_num_heads=[4],
            kv_num_heads=[2],
            left_window_size=[-1, 2],
            softcap=[0.0, 2.0],
        ),
        cases(
            q=[(70, 24)] * 2,
            k=[(70, 8)] * 2,
            v=[(70, 8)] * 2,
            key_cache=[(6, 1, 8, 32)] * 2,
            value_cache=[(6, 1, 32, 8)] * 2,
            starts=[np.array([0, 0, 69, 70])] * 2,
            lengths=[np.array([0, 100, 1])] * 2,
            pages=[np.array([[9, 9, 9, 9], [3, 1, 0, 4], [2, 9, 9, 9]])] * 2,
            sinks=[None, (3,)],
            slopes=[(3,), None],
            q_num_heads=[3],
            kv_num_heads=[1],
            scale=[0.5],
        ),
    )

    def infer(
        self,
        q: Value,
        k: Value,
        v: Value,
        key_cache: Value,
        value_cache: Value,
        starts: Value,
        lengths: Value,
        pages: Value,
        sinks: Value | None = None,
        slopes: Value | None = None,
    ) -> Inferred:
        dtype = require_kind(self.name, same_dtype(self.name, q, k, v), "f")
        keys, values = (self._cache(c) for c in (key_cache, value_cache))
        require_kind(self.name, same_dtype(self.name, key_cache, value_cache), "f")
        for lists, rank in ((starts, 1), (lengths, 1), (pages, 2)):
            require_rank(lists, rank, self.name, "what tells of sequences")
            if lists.dtype != dtypes.int64:
                raise TypeMismatchError(f"{self.name} takes int64 of sequences, found {lists.type}")
        agree(starts.shape[0], lengths.shape[0] + 1, f"starts and lengths of {self.name}")
        agree(pages.shape[0], lengths.shape[0], f"pages and lengths of {self.name}")
        heads, shared = self.q_num_heads, self.kv_num_heads
        if shared < 1 or heads < 1 or heads % shared:
            raise ShapeError(f"{self.name} has {heads} heads of queries and {shared} of keys")
        for rows in (q, k, v):
            require_rank(rows, 2, self.name, "a row for each token")
            agree(rows.shape[0], q.shape[0], f"tokens of {self.name}")
        size, value_size = self._size(k), self._size(v)
        agree(q.shape[1], heads * size, f"head sizes of queries and keys of {self.name}")
        assert keys.shape is not None
        assert values.shape is not None
        agree(keys.shape[1], shared, f"heads of keys in the cache of {self.name}")
        agree(keys.shape[2], size, f"sizes of keys in the cache of {self.name}")
        for axis in (0, 1):
            agree(keys.shape[axis], values.shape[axis], f"the caches of {self.name}")
        agree(keys.shape[3], values.shape[2], f"tokens of a page of {self.name}")
        agree(values.shape[3], value_size, f"sizes of values in the cache of {self.name}")
        for each in (sinks, slopes):
            if each is not None:
                require_rank(each, 1, self.name, "a number for each head")
                agree(each.shape[0], heads, f"heads and their numbers of {self.name}")
                same_dtype(self.name, q, each)
        result = TensorType(dtype, (q.shape[0], heads * value_size))
        return result, key_cache.type, value_cache.type

    def _cache(self, value: Value) -> TensorType:
        require_rank(value, 4, self.name, "keys and values by page and head")
        return value.tensor

    def _size(self, rows: Value) -> Dim:
        return whole_parts(rows.shape[1], self.kv_num_heads, f"channels and heads of {self.name}")

    def eval(
        self,
        q: Array,
        k: Array,
        v: Array,
        key_cache: Array,
        value_cache: Array,
        starts: Array,
        lengths: Array,
        pages: Array,
        sinks: Array | None = None,
        slopes: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        keys, values = key_cache.copy(), value_cache.copy()
        heads, shared, (_, _, size, each) = self.q_num_heads, self.kv_num_heads, key_cache.shape
        rows, value_size = len(q), value_cache.shape[3]
        self._check(rows, starts, lengths, pages, len(key_cache), each)
        queries = widened(q).reshape(rows, heads, size)
        result = np.zeros((rows, heads, value_size), queries.dtype)
        scale = 1 / math.sqrt(size) if self.scale is None else self.scale
        for i, (first, last, count) in enumerate(zip(starts, starts[1:], lengths)):
            places = np.arange(count - (last - first), count)
            into, new = pages[i, places // each], slice(first, last)
            keys[into, :, :, places % each] = k[new].reshape(-1, shared, size)
            values[into, :, places % each] = v[new].reshape(-1, shared, value_size)
        for i, (first, last, count) in enumerate(zip(starts, starts[1:], lengths)):
            own = pages[i, : -(-int(count) // each)]
            every = np.moveaxis(widened(keys[own]), 3, 1).reshape(-1, shared, size)[:count]
            mixed = np.moveaxis(widened(values[own]), 2, 1).reshape(-1, shared, value_size)[:count]
            wide = np.repeat(every, heads // shared, axis=1)
            scores = np.einsum("qhd,khd->hqk", queries[first:last], wide) * scale
            if self.softcap:
                scores = self.softcap * np.tanh(scores / self.softcap)
            far = np.arange(count - (last - first), count)[:, None] - np.arange(count)
            if slopes is not None:
                scores = scores - slopes[:, None, None] * far
            seen = (far >= 0) & ((self.left_window_size < 0) | (far <= self.left_window_size))
            scores = np.where(seen, scores, -np.inf)
            top = scores.max(-1, keepdims=True, initial=-np.inf)
            powers = np.exp(scores - np.where(top == -np.inf, 0, top))
            total = powers.sum(-1, keepdims=True)
            if sinks is not None:
                total = total + np.exp(sinks[:, None, None] - top)
            wide = np.repeat(mixed, heads // shared, axis=1)
            result[first:last] = np.einsum("hqk,khd->qhd", powers / total, wide)
        return np.asarray(result.reshape(rows, -1), q.dtype), keys, values

    def _check(
        self, rows: int, starts: Array, lengths: Array, pages: Array, count: int, each: int
    ) -> None:
        """DataError unless the sequences have rows and pages that exist."""
        new = np.diff(starts)
        if starts[0] != 0 or (new < 0).any() or starts[-1] > rows:
            raise DataError(f"starts {starts.tolist()} are no rows of {rows} in order")
        needed = -(-lengths // each)
        if (lengths < new).any() or (needed > pages.shape[1]).any():
            raise DataError(f"lengths {lengths.tolist()} do not fit starts and pages")
        used = pages[np.arange(pages.shape[1]) < needed[:, None]]
        if ((used < 0) | (used >= count)).any():
            raise DataError(f"a page is none of the {count} of the cache")

    def flops(self, shapes: Shapes) -> Flops:
        """Every token against a full page list: how much of it is there only a run tells."""
        (_, _, size, each), width = shapes.input(3), shapes.input(4)[3]
        scores = shapes.input(0)[0] * self.q_num_heads * shapes.input(7)[1] * each
        return Flops(scores * (size + width), scores * SOFTMAX)
