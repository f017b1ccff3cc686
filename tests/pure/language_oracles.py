"""Operators of language models by their definition, one token and one head after the other."""

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from infuse.testing.samples import Row

Array = Any


def paged_attention(row: Row) -> list[Array]:
    q, k, v, key_cache, value_cache, starts, lengths, pages, *rest = row.inputs
    sinks, slopes = (*rest, None, None)[:2]
    op, page = row.op, key_cache.shape[3]
    size, value_size = key_cache.shape[2], value_cache.shape[3]
    group = op.q_num_heads // op.kv_num_heads
    keys, values = key_cache.copy(), value_cache.copy()
    y = np.zeros((len(q), op.q_num_heads * value_size))
    tokens = [
        (row, i, lengths[i] - starts[i + 1] + row)
        for i in range(len(lengths))
        for row in range(starts[i], starts[i + 1])
    ]
    for token, i, place in tokens:
        for head in range(op.kv_num_heads):
            at = pages[i, place // page], head
            keys[(*at, slice(None), place % page)] = k[token, head * size :][:size]
            values[(*at, place % page)] = v[token, head * value_size :][:value_size]
    for token, i, place in tokens:
        for head in range(op.q_num_heads):
            query = q[token, head * size :][:size].astype(np.float64)
            first = 0 if op.left_window_size < 0 else max(0, place - op.left_window_size)
            scores, mixed = [], []
            for other in range(first, place + 1):
                at = pages[i, other // page], head // group
                key = keys[(*at, slice(None), other % page)].astype(np.float64)
                score = query @ key * (op.scale or 1 / math.sqrt(size))
                if op.softcap:
                    score = op.softcap * math.tanh(score / op.softcap)
                scores.append(score - (0 if slopes is None else slopes[head]) * (place - other))
                mixed.append(values[(*at, other % page)].astype(np.float64))
            top = max(scores)
            shares = np.exp(np.array(scores) - top)
            total = shares.sum() + (0 if sinks is None else math.exp(sinks[head] - top))
            y[token, head * value_size :][:value_size] = shares @ np.array(mixed) / total
    return [y, keys, values]


def _half(block: bytes, at: int) -> float:
    return float(struct.unpack_from("<e", block, at)[0])


def _decoded(block: bytes, format: str) -> list[float]:
    """The weights of one block, bit by bit."""
    if format == "Q8_0":
        return [_half(block, 0) * code for code in struct.unpack_from("<32b", block, 2)]
    if format == "Q6_K":
        scales = struct.unpack_from("<16b", block, 192)
        weights = []
        for i in range(256):
            half, j = divmod(i, 128)
            low = block[half * 64 + j % 64] >> (j // 64 * 4) & 15
            high = block[128 + half * 32 + j % 32] >> (j // 32 * 2) & 3
            weights.append(_half(block, 208) * scales[i // 16] * ((low | high << 4) - 32))
        return weights
    start = {"Q4_0": 2, "Q4_1": 4}[format]
    codes = [block[start + i % 16] >> (i // 16 * 4) & 15 for i in range(32)]
    if format == "Q4_0":
        return [_half(block, 0) * (code - 8) for code in codes]
    return [_half(block, 0) * code + _half(block, 2) for code in codes]


def stored_matrix(weights: Array, format: str) -> Array:
    size = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34, "Q6_K": 210}[format]
    return np.array(
        [
            [x for i in range(0, len(row), size) for x in _decoded(row[i : i + size], format)]
            for row in (row.tobytes() for row in weights)
        ]
    )


def matmul_blocks(row: Row) -> list[Array]:
    a, weights = row.inputs
    return [a.astype(np.float64) @ stored_matrix(weights, row.op.format).T]


def gather_blocks(row: Row) -> list[Array]:
    weights, indices = row.inputs
    return [stored_matrix(weights, row.op.format)[indices]]


LANGUAGE_ORACLES: dict[str, Callable[[Row], list[Any]]] = {
    "PagedAttention": paged_attention,
    "MatMulBlocks": matmul_blocks,
    "GatherBlocks": gather_blocks,
}
