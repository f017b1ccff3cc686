"""Operators that make tensors, and change their element type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten

_LONGEST: Final = 1 << 16
"""Elements of ranges that are made while reading."""


@aten(
    "clone",
    "contiguous",
    "detach",
    "alias",
    "lift_fresh",
    "lift_fresh_copy",
    "lift",
    "_to_copy",
    "to",
    "type_as",
    "detach_copy",
    "alias_copy",
    "resolve_conj",
    "resolve_neg",
    "positive",
    "_conj",
    "conj",
    "real",
    "view_as_real_copy",
    "_autocast_to_full_precision",
    "requires_grad_",
    "_reshape_alias_copy",
    "conj_physical",
    "_conj_physical",
)
def same(g: TorchImporter, x: Value, *options: Any, **more: Any) -> Value:
    """X in the element type of the result."""
    return g.cast(x, g.dtype)


@aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")
def dropout(g: TorchImporter, x: Value, p: float, train: bool | None) -> Any:
    """X itself, as a trained model is run."""
    if train and p:
        raise g.unsupported("dropout in training mode")
    if len(g.results) == 1:
        return x
    return [x, g.expand(g.number(1, dtypes.bool_), g("Shape", x))]


@aten("full")
def full(g: TorchImporter, size: Sequence[Any], fill_value: Any, **options: Any) -> Value:
    """One number in all places."""
    return g.expand(g.tensor(fill_value, g.dtype), size)


def _filled(number: int) -> Any:
    return lambda g, size, *options, **more: full(g, size, number)


def _filled_like(number: int) -> Any:
    return lambda g, x, *options, **more: full_like(g, x, number)


def _filled_new(number: int) -> Any:
    return lambda g, x, size, *options, **more: full(g, size, number)


for _name, _number in (("zeros", 0), ("ones", 1), ("empty", 0)):
    aten(_name)(_filled(_number))
    aten(f"{_name}_like")(_filled_like(_number))
    aten(f"new_{_name}")(_filled_new(_number))
aten("empty_strided", "empty_permuted")(_filled(0))
aten("new_empty_strided")(_filled_new(0))


@aten("full_like")
def full_like(g: TorchImporter, x: Value, fill_value: Any, **options: Any) -> Value:
    """One number in as many places as x has."""
    return g.expand(g.tensor(fill_value, g.dtype), g("Shape", x))


aten("fill", "zero")(lambda g, x, value=0: full_like(g, x, value))
aten("new_full")(lambda g, x, size, fill_value, **options: full(g, size, fill_value))
aten("scalar_tensor")(lambda g, value, **options: g.tensor(value, g.dtype))
aten("rand", "randn")(lambda g, size, **options: _random(g, g.expand(g.number(0, g.dtype), size)))
aten("rand_like", "randn_like")(lambda g, x, **options: _random(g, g.cast(x, g.dtype)))


@aten("copy")
def copy(g: TorchImporter, x: Value, source: Value, non_blocking: bool = False) -> Value:
    """The source, in the sizes and the element type of x."""
    return g.expand(g.cast(source, x.dtype), g("Shape", x))


@aten("arange.start", "arange.start_step")
def arange(g: TorchImporter, start: Any, end: Any, step: Any = 1, **options: Any) -> Value:
    """Start, start + step, … before `end`."""
    if not any(isinstance(x, Value) for x in (start, end, step)):
        count = max(0, math.ceil((end - start) / step))
        if g.dtype.is_integer:  # numbers lose their fractions first; int64's limit does, too
            start, limit, step = (math.trunc(x) for x in (start, end, step))
            if g.dtype == dtypes.int64:
                if step == 0:
                    raise g.unsupported("arange of integers by less than one")
                count = max(0, -((start - limit) // step))
        if count <= _LONGEST:
            whole = all(isinstance(x, int) for x in (start, end, step))
            wide = np.int64 if whole else np.float64
            numbers = start + np.arange(count, dtype=wide) * step
            return g.constant(numbers.astype(g.dtype.numpy))
    whole = g.dtype == dtypes.int64 or all(_is_whole(x) for x in (start, end, step))
    computed = dtypes.int64 if whole else dtypes.float64
    limits = [g.tensor(x, computed) for x in (start, end, step)]
    return g.cast(g("Range", *limits), g.dtype)


def _is_whole(x: Any) -> bool:
    return not x.dtype.is_float if isinstance(x, Value) else isinstance(x, int)


@aten("linspace")
def linspace(g: TorchImporter, start: Any, end: Any, steps: Any, **options: Any) -> Value:
    """Numbers at equal distances, both ends among them."""
    dtype = g.dtype
    if isinstance(steps, Value) or steps > _LONGEST:
        raise g.unsupported("linspace with a computed number of steps")
    if isinstance(start, Value) or isinstance(end, Value):
        if not dtype.is_float:
            raise g.unsupported("linspace of integers between computed limits")
        first, last = (g.tensor(x, dtypes.float64) for x in (start, end))
        parts = g.constant(np.linspace(0, 1, steps))
        y = g("Add", g("Mul", first, g.constant(np.linspace(1, 0, steps))), g("Mul", last, parts))
        return g.cast(y, dtype)
    if dtype.is_integer:
        start, end = math.trunc(start), math.trunc(end)
    numbers = np.full(steps, start, np.float64)
    if steps > 1:
        places, step = np.arange(steps), (end - start) / (steps - 1)
        from_end = end - step * (steps - 1 - places)
        numbers = np.where(places < steps // 2, start + step * places, from_end)
    return g.constant((np.trunc(numbers) if dtype.is_integer else numbers).astype(dtype.numpy))


@aten("eye")
def eye(g: TorchImporter, n: Any, m: Any = None, **options: Any) -> Value:
    """Ones on the diagonal, zeros elsewhere."""
    rows = g("Unsqueeze", g.indices(n), g.ints(1))
    return g.cast(g("Equal", rows, g.indices(n if m is None else m)), g.dtype)


@aten("tril_indices", "triu_indices")
def triangle_indices(
    g: TorchImporter, row: Any, col: Any, offset: int = 0, **options: Any
) -> Value:
    """Rows and columns of the places of a triangle."""
    if not (isinstance(row, int) and isinstance(col, int)) or row * col > _LONGEST:
        raise g.unsupported("indices of a triangle of computed size")
    places = np.tril_indices if g.called.startswith("aten.tril") else np.triu_indices
    return g.constant(np.stack(places(row, offset, col)).astype(g.dtype.numpy))


def _random(g: TorchImporter, like: Value) -> Value:
    kind = "RandomNormalLike" if g.called.startswith("aten.randn") else "RandomUniformLike"
    return g(kind, like)


@aten("randperm")
def randperm(g: TorchImporter, n: Any, **options: Any) -> Value:
    """0, 1, … below n in random order."""
    keys = g("RandomUniformLike", g.expand(g.number(0, dtypes.float32), [n]))
    return g.cast(g.several(2, "TopK", keys, g.ints(n), axis=0)[1], g.dtype)


@aten("bernoulli.p", "bernoulli.default")
def bernoulli(g: TorchImporter, x: Value, p: float | None = None, **options: Any) -> Value:
    """Ones at random, with these chances."""
    chances = x if p is None else full_like(g, x, p)
    return g("Bernoulli", chances, dtype=g.dtype)


aten("arange.default")(lambda g, end, **options: arange(g, 0, end))
