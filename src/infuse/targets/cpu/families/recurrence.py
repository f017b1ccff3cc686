"""Recurrences along a sequence: causal convolution with a state, linear attention; and
determinants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.targets.cpu.families.base import Arguments, Array, Stores, writes


@writes("causal_conv")
def causal_conv(call: Arguments) -> Stores:
    """Lines convolved with the taps of their channel, after a past; and what comes after them."""
    rows, channels, length, taps, gate, x, weight, bias, past = call.arguments[:9]
    reach = taps - 1
    before = _rows(past, rows, reach)
    line = np.concatenate([before, _rows(x, rows, length)], axis=1)
    channel = np.arange(rows) % channels
    weights = _rows(weight, channels, taps)[channel]
    made = sum((weights[:, j, None] * line[:, j : j + length] for j in range(taps)), np.zeros(1))
    if bias is not None:
        made = made + bias[channel][:, None]
    return {9: made / (1 + np.exp(-made)) if gate else made, 10: line[:, length:]}


def _rows(elements: Array | None, rows: int, size: int) -> Array:
    if elements is None:
        return np.zeros((rows, size))
    whole: Array = elements[: rows * size].astype(np.float64).reshape(rows, size)
    return whole


@writes("linear_attention")
def linear_attention(call: Arguments) -> Stores:
    """What queries read of the states that keys and values make step by step, and the last ones."""
    s, q, k, v, past, decay, beta = call.arguments[:7]
    lead, shared = (s.batch, s.length), s.q_heads // s.heads
    queries = _shaped(q, *lead, s.heads, shared, s.key)
    keys, values = _shaped(k, *lead, s.heads, s.key), _shaped(v, *lead, s.heads, s.value)
    shape = s.batch, s.heads, s.key, s.value
    state = np.zeros(shape) if past is None else _shaped(past, *shape)
    results = np.zeros((*lead, s.heads, shared, s.value))
    for t in range(s.length):
        if s.decays:
            state = state * np.exp(_shaped(decay, *lead, s.heads, s.decays))[:, t, ..., None]
        new = values[:, t]
        if s.rates:
            seen = np.einsum("nhkv,nhk->nhv", state, keys[:, t])
            new = _shaped(beta, *lead, s.rates)[:, t, :, None] * (new - seen)
        state = state + keys[:, t, :, :, None] * new[:, :, None]
        results[:, t] = np.einsum("nhgk,nhkv->nhgv", queries[:, t], state)
    return {7: results * (s.scale or 1 / np.sqrt(s.key)), 8: state}


def _shaped(elements: Array, *shape: Any) -> Array:
    shaped: Array = elements[: int(np.prod(shape))].astype(np.float64).reshape(shape)
    return shaped


@writes("determinants")
def determinants(call: Arguments) -> Stores:
    """The determinants of square matrices."""
    batch, n, x = call.arguments[:3]
    return {3: np.linalg.det(_shaped(x, batch, n, n))}
