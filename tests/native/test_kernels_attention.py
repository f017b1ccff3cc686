"""Attention against NumPy,
for every width of vectors that this machine has.
"""

from __future__ import annotations

import ctypes
import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.native.kernel_driver import (
    INF,
    Array,
    Driver,
    Rng,
    close,
    floats,
    libraries,
    run,
    zeros,
)
from tests.native.kernel_tools import fenced

__all__ = ["libraries", "run"]


# ---- attention


class AttentionCall(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_long)
            for name in (
                *(
                    "batch",
                    "heads",
                    "kv_heads",
                    "queries",
                    "keys",
                    "dim",
                    "value_dim",
                    "causal",
                    "offset",
                    "merge",
                ),
            )
        ),
        *((name, ctypes.c_long * 3) for name in "qkv"),
        ("mask", ctypes.c_long * 4),
    ]


def steps(x: Array, count: int = 4) -> Any:
    return (ctypes.c_long * count)(*(stride // x.itemsize for stride in x.strides[:count]))


def reference(
    q: Array, k: Array, v: Array, scale: float, mask: Array | None, visible: Array
) -> Array:
    """Attention of q [b, h, m, d] in float64, the heads of k and v repeated."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v))
    scores = np.einsum("bhmd,bhnd->bhmn", q.astype(np.float64), k) * scale
    if mask is not None:
        scores = np.where(mask, scores, -INF) if mask.dtype == bool else scores + mask
    scores = np.where(visible, scores, -INF)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        weights[np.isneginf(scores).all(-1)] = 0  # a query that sees no key
        return np.einsum("bhmn,bhnd->bhmd", weights, v)  # type: ignore[no-any-return]


ATTENTIONS = [  # batch, heads, kv heads, queries, keys, dim, value dim
    (1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 5, 7, 8, 8), (2, 3, 3, 49, 49, 32, 32), (1, 2, 1, 13, 300, 20,
        36),
    (1, 4, 2, 1, 70, 64, 64), (2, 2, 2, 33, 17, 64, 40), (1, 1, 1, 300, 260, 16, 16), (1, 2, 2, 12,
        129, 5, 3),
    (1, 6, 3, 3, 600, 33, 17), (1, 1, 1, 197, 40, 9, 10), (1, 3, 1, 150, 30, 4, 4),
    (1, 1, 1, 1100, 40, 9, 10), (1, 1, 1, 530, 260, 128, 128),
]  # fmt: skip


def attend(
    run: Driver,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    causal: bool,
    offset: int,
    merge: bool,
) -> Array:
    b, h, m, d = q.shape
    kv_heads, n, values = v.shape[1:]
    kind = 0 if mask is None else 2 if mask.dtype == bool else 1
    call = AttentionCall(
        b,
        h,
        kv_heads,
        m,
        n,
        d,
        values,
        causal,
        offset,
        merge,
        steps(q, 3),
        steps(k, 3),
        steps(v, 3),
    )
    if mask is not None:
        call.mask = steps(mask)
    y = zeros(b, m, h, values) if merge else zeros(b, h, m, values)
    run("attend", ctypes.byref(call), 1 / math.sqrt(d), kind, q, k, v, mask, y, result=None)
    return y.transpose(0, 2, 1, 3) if merge else y


@pytest.mark.parametrize("mask_kind", ["none", "add", "add_row", "bool", "causal"])
@pytest.mark.parametrize("sizes", ATTENTIONS)
def test_attention(run: Driver, rng: Rng, sizes: tuple[int, ...], mask_kind: str) -> None:
    b, h, kv_heads, m, n, d, values = sizes
    scale = 1 / math.sqrt(d)
    visible, mask, causal = np.ones((m, n), bool), None, mask_kind == "causal"
    if mask_kind == "add":
        mask = fenced(rng.uniform(-3, 3, (1, h, m, n)).astype(np.float32))
        mask[:, :, :, 0] = -INF if n > 1 else 0
        mask = np.broadcast_to(mask, (b, h, m, n))
    elif mask_kind == "add_row":
        mask = np.broadcast_to(
            fenced(rng.uniform(-3, 3, (b, 1, m, 1)).astype(np.float32)), (b, h, m, n)
        )
    elif mask_kind == "bool":
        mask = np.broadcast_to(fenced(rng.random((b, 1, 1, n)) < 0.7), (b, h, m, n))
    offsets = [n - m, 0, 3] if causal else [0]
    for merge, offset in product((True, False), offsets):
        if merge:  # [batch, sequence, head, dim]: one projection of the input, seen by heads
            q, k, v = (
                floats(rng, b, rows, heads, width).transpose(0, 2, 1, 3)
                for rows, heads, width in ((m, h, d), (n, kv_heads, d), (n, kv_heads, values))
            )
        else:
            q, k, v = (
                floats(rng, b, h, m, d),
                floats(rng, b, kv_heads, n, d),
                floats(rng, b, kv_heads, n, values),
            )
        if causal:
            visible = np.arange(n)[None] <= np.arange(m)[:, None] + offset
        y = attend(run, q, k, v, mask, causal, offset, merge)
        close(y, reference(q, k, v, scale, mask, visible), 2e-6)


def test_attention_spreads_nan_and_survives_large_scores(run: Driver, rng: Rng) -> None:
    q, k, v = floats(rng, 1, 1, 20, 8), floats(rng, 1, 1, 300, 8), floats(rng, 1, 1, 300, 8)
    q[0, 0, 3] *= 1000
    q[0, 0, 4] = np.nan
    y = attend(run, q, k, v, None, False, 0, False)
    close(y, reference(q, k, v, 1 / math.sqrt(8), None, np.ones((20, 300), bool)), 2e-5)
