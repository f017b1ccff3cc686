"""Attention over heads, as Microsoft's operators share it."""

from __future__ import annotations

import math

import numpy as np

from infuse.ops.core.base import Array
from infuse.ops.core.flops import SOFTMAX, Flops, Shapes


def heads_flops(shapes: Shapes, heads: int) -> Flops:
    """The arithmetic of attention over this many heads, whose first result is (batch, length, …)
    and whose second one, where it is asked for, is the keys so far.
    """
    batch, length = shapes.outputs[0][:2]
    keys = shapes.input(1)[-2] if shapes.has(1) else length
    if len(shapes.outputs) > 1:
        keys = shapes.outputs[1][2]
    scores = batch * length * keys * heads
    return Flops(shapes.made * keys * 2, scores * (SOFTMAX + 1))


def split(x: Array, heads: int) -> Array:
    """(batch, length, heads · size) as (batch, heads, length, size); the latter as it is."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def join(x: Array) -> Array:
    """(batch, heads, length, size) as (batch, length, heads · size)."""
    return np.asarray(x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3]))


def attend(
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    scale: float | None,
    softcap: float = 0.0,
    sinks: Array | None = None,
    *,
    unseen: Array | None = None,
) -> tuple[Array, Array]:
    """softmax(q · kᵀ · scale, capped, + mask) · v for each head, and what softmax is of.

    `sinks` has for each head a score that takes part in the softmax alone. A query whose keys are
    all `unseen`, or whose mask is −∞ for them, gives zeros; the scores of unseen keys are told as
    the mask, also where their own is NaN.
    """
    scores = q @ k.swapaxes(2, 3) * (scale or 1 / math.sqrt(q.shape[3]))
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    hidden, scores = np.isneginf(mask), scores + mask
    told = scores
    if unseen is not None:
        told = np.where(unseen, mask, scores)
        hidden, scores = hidden | unseen, np.where(unseen, -np.inf, scores)
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    blind = np.broadcast_to(hidden, scores.shape).all(axis=-1, keepdims=True)
    powers: Array = np.where(blind, 0, np.exp(scores - largest))
    total = powers.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks.reshape(-1, 1, 1) - largest)
    weights = powers / np.where(blind, 1, total)
    return np.asarray(weights @ v), told
