"""Layers of transformers on traced arrays, with weights by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.graph import Array as Elements
from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.elementwise import FUNCTIONS, multiply
from infuse.tracing.arrays.manipulation import expand_dims, permute_dims, reshape


class Weights:
    """Weights by name, below a prefix; `unread` are the names that no layer has asked for."""

    def __init__(self, arrays: Mapping[str, Elements], prefix: str = "") -> None:
        self._arrays, self._prefix = arrays, prefix
        self.unread = set(arrays)

    def within(self, prefix: str) -> Weights:
        """The weights below a further prefix."""
        inner = Weights(self._arrays, f"{self._prefix}{prefix}.")
        inner.unread = self.unread
        return inner

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._arrays

    def array(self, name: str) -> Elements:
        """The elements of a weight; ModelFileError where there is none of the name."""
        full = self._prefix + name
        if full not in self._arrays:
            raise ModelFileError(f"there is no weight {full!r}")
        self.unread.discard(full)
        return self._arrays[full]

    def __call__(self, name: str) -> Array:
        """A weight as a float32 array."""
        return lifted(self.array(name)).astype(np.float32)


def linear(x: Array, w: Weights) -> Array:
    """X · weightᵀ, + bias where there is one."""
    return _with_bias(node("MatMul", x, w("weight").T), w)


def linear_by_columns(x: Array, w: Weights) -> Array:
    """X · weight, + bias where there is one (GPT-2's Conv1D)."""
    return _with_bias(node("MatMul", x, w("weight")), w)


def _with_bias(y: Array, w: Weights) -> Array:
    return node("Add", y, w("bias")) if "bias" in w else y


def layer_norm(x: Array, w: Weights, epsilon: float) -> Array:
    """The last axis to mean 0 and variance 1, scaled and shifted."""
    return node("LayerNormalization", x, w("weight"), w("bias"), epsilon=epsilon)


def rms_norm(x: Array, w: Weights, epsilon: float, offset: float = 0.0) -> Array:
    """The last axis to mean square 1, scaled by weight + offset."""
    scale = w("weight")
    return node("RMSNormalization", x, scale + offset if offset else scale, epsilon=epsilon)


def activation(name: str, x: Array) -> Array:
    """An activation by its name in configurations."""
    if name == "gelu":
        return node("Gelu", x)
    if name in ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"):
        return node("Gelu", x, approximate="tanh")
    if name in ("silu", "swish"):
        return node("Swish", x)
    if name == "quick_gelu":
        return node("Swish", x, alpha=1.702)
    if name in ("relu", "tanh", "sigmoid"):
        return node(name.capitalize(), x)
    raise UnsupportedOperatorError(f"the activation {name!r} is not known")


def embedding(indices: Array, w: Weights) -> Array:
    """Rows of a table."""
    return node("Gather", w("weight"), indices, axis=0)


def split_heads(x: Array, heads: int) -> Array:
    """[batch, length, heads · size] as [batch, heads, length, size]."""
    batch, length, _ = x.shape
    return permute_dims(reshape(x, (batch, length, heads, -1)), (0, 2, 1, 3))


def join_heads(x: Array) -> Array:
    """[batch, heads, length, size] as [batch, length, heads · size]."""
    batch, heads, length, size = x.shape
    return reshape(permute_dims(x, (0, 2, 1, 3)), (batch, length, heads * size))


def attend(q: Array, k: Array, v: Array, mask: Array | None = None, **attributes: Any) -> Array:
    """softmax(q kᵀ · scale + mask) v of arrays [batch, heads, length, size], heads joined."""
    return join_heads(node("Attention", q, k, v, mask, **attributes))


def attention(
    x: Array, parts: tuple[Weights, Weights, Weights], heads: int, mask: Array | None = None
) -> Array:
    """Attention among all places, by projections for queries, keys and values."""
    q, k, v = (split_heads(linear(x, w), heads) for w in parts)
    return attend(q, k, v, mask)


def padding_mask(attention_mask: Array) -> Array:
    """[batch, length] of 0 and 1 as truth values that broadcast to scores."""
    seen = attention_mask.astype(np.bool_)
    return expand_dims(expand_dims(seen, axis=1), axis=1)


def relative_places(length: Any) -> Array:
    """Column - row: [length, length] int64."""
    bounds = lifted(np.int64(0)), lifted(length).astype(np.int64), lifted(np.int64(1))
    places = node("Range", *bounds)
    return expand_dims(places, axis=0) - expand_dims(places, axis=1)


def relative_buckets(length: Any, buckets: int, distance: int, both: bool = True) -> Array:
    """T5's bucket of key place - query place, [length, length], for both directions or for keys
    before the query alone. Near distances have one each, far ones share them by their logarithm.
    """
    relative = relative_places(length)
    if both:
        half = buckets // 2
        ahead = multiply((relative > 0).astype(np.int64), half)
        size = node("Abs", relative)
    else:
        half = buckets
        size = FUNCTIONS["maximum"](-relative, 0)
    exact = half // 2
    safe = FUNCTIONS["maximum"](size, 1).astype(np.float32)
    scale = np.float32((half - exact) / math.log(distance / exact))
    growth = node("Log", safe / np.float32(exact)) * scale
    far = FUNCTIONS["minimum"](growth.astype(np.int64) + exact, half - 1)
    bucket = FUNCTIONS["where"](size < exact, size, far)
    return ahead + bucket if both else bucket
