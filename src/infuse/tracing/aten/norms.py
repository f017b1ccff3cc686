"""Norms and distances of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, axes_of
from infuse.tracing.aten.reductions import reduced


def norm_of(g: TorchImporter, x: Value, order: Any, dim: Any, keepdim: bool) -> Value:
    """The norm of this order over axes."""
    magnitude = g("Abs", x)
    order = float(order)
    if order == 0:
        ones = g.cast(g.cast(x, dtypes.bool_), x.dtype)
        return reduced(g, "ReduceSum", ones, dim, keepdim)
    axes = axes_of(dim, x.rank)
    if all(x.shape[axis] == 1 for axis in axes):  # torch raises no element to a power here
        return magnitude if keepdim or not axes else g("Squeeze", magnitude, g.ints(*axes))
    if math.isinf(order):
        kind = "ReduceMax" if order > 0 else "ReduceMin"
        return reduced(g, kind, magnitude, dim, keepdim)
    if order in (1, 2):
        return reduced(g, f"ReduceL{int(order)}", x, dim, keepdim)
    powers = g("Pow", magnitude, order)
    return g("Pow", reduced(g, "ReduceSum", powers, dim, keepdim), 1 / order)


@aten("linalg_vector_norm")
def vector_norm(
    g: TorchImporter,
    x: Value,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Value:
    """A norm of vectors."""
    return norm_of(g, g.cast(x, g.dtype), ord, dim, keepdim)


@aten("norm")
def norm(
    g: TorchImporter,
    x: Value,
    p: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Value:
    """A norm of vectors."""
    return norm_of(g, g.cast(x, g.dtype), 2 if p is None else p, dim, keepdim)


@aten("_cdist_forward", "cdist", "_euclidean_dist")
def cdist(
    g: TorchImporter, first: Value, second: Value, p: Any = 2, compute_mode: int | None = None
) -> Value:
    """Distances of all pairs of vectors."""
    rows = g("Unsqueeze", first, g.ints(first.rank - 1))
    columns = g("Unsqueeze", second, g.ints(second.rank - 2))
    return norm_of(g, g("Sub", rows, columns), p, -1, False)


@aten("_pdist_forward", "pdist")
def pdist(g: TorchImporter, x: Value, p: Any = 2) -> Value:
    """Distances of each pair of vectors."""
    count = x.shape[0]
    if not isinstance(count, int):
        raise g.unsupported("pdist of a computed number of vectors")
    pairs = np.triu_indices(count, 1)
    first, second = (g("Gather", x, g.constant(i.astype(np.int64)), axis=0) for i in pairs)
    return norm_of(g, g("Sub", first, second), p, -1, False)


@aten("pairwise_distance")
def pairwise_distance(
    g: TorchImporter,
    first: Value,
    second: Value,
    p: Any = 2,
    eps: float = 1e-6,
    keepdim: bool = False,
) -> Value:
    """Distances of vectors."""
    apart = g.cast(g("Sub", *g.tensors(first, second)), g.dtype)
    return norm_of(g, g("Add", apart, eps), p, -1, keepdim)


@aten("cosine_similarity")
def cosine_similarity(
    g: TorchImporter, first: Value, second: Value, dim: int = 1, eps: float = 1e-8
) -> Value:
    """The cosine of the angle between vectors, which have one shape before they are measured."""
    parts = []
    a, b = g.tensors(first, second)
    if a.shape != b.shape:
        a, b = g.expand(a, g("Shape", b)), g.expand(b, g("Shape", a))
    for x in (a, b):
        length = norm_of(g, x, 2, dim, True)
        parts.append(g("Div", x, g("Max", length, eps)))
    return reduced(g, "ReduceSum", g("Mul", *parts), dim, False)


@aten("renorm")
def renorm(g: TorchImporter, x: Value, p: Any, dim: int, maxnorm: Any) -> Value:
    """X, whose parts along an axis are made as long as the limit where they are longer."""
    others = [axis for axis in range(x.rank) if axis != dim % x.rank]
    length = vector_norm(g, x, p, others, True)
    longer = g("Greater", length, g.number(float(maxnorm), x.dtype))
    factor = g("Div", g.number(float(maxnorm), x.dtype), g("Add", length, 1e-7))
    return g("Mul", x, g("Where", longer, factor, g.number(1, x.dtype)))
