"""Layers that encode features: categories, bins, and keys of vocabularies of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.ir.graph import Value
from infuse.ir.registry import make_operator


@layer("CategoryEncoding")
def category_encoding(call: KerasCall, x: Value, count_weights: Value | None = None) -> Value:
    """Numbers of categories as rows with a one, ones, or counts."""
    depth = call.config.whole("num_tokens")
    return encoded(call, x, depth, call.config.get("output_mode", "multi_hot"), count_weights)


def encoded(
    call: KerasCall, x: Value, depth: int, mode: Any, weights: Value | None = None
) -> Value:
    """Whole numbers below `depth` in a mode of Keras."""
    g = call.g
    call.config.require("sparse", False)
    if mode == "int":
        return x
    if depth < 1:
        raise ModelFileError(f"{depth} categories")
    whole = g.cast(x, dtypes.int64)
    dtype = call.dtype if call.dtype.is_float else dtypes.float32
    if mode == "one_hot":
        if whole.rank > 1 and whole.shape[-1] == 1:
            whole = call.squeezed(whole, whole.rank - 1)
        return _ones(call, whole, depth, dtype)
    if mode not in ("multi_hot", "binary", "count"):
        raise call.unsupported(f"the output_mode {mode!r}")
    rows = _ones(call, whole, depth, dtype)
    axis = max(whole.rank - 1, 0)
    if whole.rank == 0:
        return rows
    if mode == "count":
        if weights is not None:
            rows = g("Mul", rows, call.unsqueezed(g.cast(weights, dtype), -1))
        return call.reduced("ReduceSum", rows, [axis])
    return call.reduced("ReduceMax", rows, [axis])


def _ones(call: KerasCall, x: Value, depth: int, dtype: Any) -> Value:
    numbers = call.g.constant(np.arange(depth, dtype=np.int64))
    return call.g.cast(call.g("Equal", call.unsqueezed(x, -1), numbers), dtype)


@layer("Discretization")
def discretization(call: KerasCall, x: Value) -> Value:
    """The number of the bin in which a number lies."""
    g = call.g
    bounds = call.config.get("bin_boundaries")
    if not isinstance(bounds, (list, tuple)) or not bounds:
        raise call.unsupported("a layer without bin_boundaries")
    borders = g.constant(np.asarray(bounds, np.float32))
    above = g("GreaterOrEqual", call.unsqueezed(g.cast(x, dtypes.float32), -1), borders)
    numbers = g.cast(above, dtypes.int64)
    y = call.reduced("ReduceSum", numbers, [numbers.rank - 1])
    mode = call.config.get("output_mode", "int")
    if mode == "int":
        return g.cast(y, dtypes.int32) if call.runner.generation == 3 else y
    return encoded(call, y, len(bounds) + 1, mode)


@layer("IntegerLookup")
def integer_lookup(call: KerasCall, x: Value) -> Value:
    """The places of numbers in a vocabulary, behind one for all that are not in it."""
    g, config = call.g, call.config
    words = config.get("vocabulary")
    if not isinstance(words, (list, tuple)) or not all(isinstance(w, int) for w in words):
        raise call.unsupported("a vocabulary that lies in a file of its own")
    config.require("output_mode", "int")
    config.require("num_oov_indices", 1)
    config.require("invert", False)
    mask = config.get("mask_token")
    keys = [word for word in words if word not in (mask, config.get("oov_token", -1))]
    first = 1 if mask is None else 2
    table = dict(zip(keys, range(first, first + len(keys))))
    if mask is not None:
        table[mask] = 0
    options = {"keys_int64s": tuple(table), "values_int64s": tuple(table.values())}
    encoder = make_operator("ai.onnx.ml", "LabelEncoder", {**options, "default_int64": first - 1})
    return g.apply(encoder, [g.cast(x, dtypes.int64)])[0]
