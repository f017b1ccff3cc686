"""Covariances and correlations of variables, a row of observations each."""

from __future__ import annotations

from typing import Any

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten


@aten("cov")
def cov(
    g: TorchImporter,
    x: Value,
    *,
    correction: Any = 1,
    fweights: Value | None = None,
    aweights: Value | None = None,
) -> Value:
    """Covariances of rows; observations count as often as `fweights` says, and as much as
    `aweights` does.
    """
    x = x if x.dtype.is_float else g.cast(x, dtypes.float32)
    if aweights is not None and aweights.dtype.is_float and aweights.dtype.bits > x.dtype.bits:
        x = g.cast(x, aweights.dtype)
    rows = g.shaped(x, 1, -1) if x.rank < 2 else x
    dtype, zero = x.dtype, g.number(0, x.dtype)
    given = [g.cast(w, dtype) for w in (fweights, aweights) if w is not None]
    spread = g.tensor(correction, dtype)
    if not given:
        count = g.cast(g.tensor(g.size_of(rows, 1), dtypes.int64), dtype)
        mean = g("ReduceMean", rows, g.ints(1), keepdims=1)
        freedom = g("Sub", count, spread)
        apart = weighted = g("Sub", rows, mean)
    else:
        weights = given[0] if len(given) == 1 else g("Mul", *given)
        total = g("ReduceSum", weights, keepdims=0)
        mean = g("Div", g("ReduceSum", g("Mul", rows, weights), g.ints(1), keepdims=1), total)
        if aweights is not None:
            squares = g("ReduceSum", g("Mul", weights, g.cast(aweights, dtype)), keepdims=0)
            spread = g("Div", g("Mul", spread, squares), total)
        freedom = g("Sub", total, spread)
        apart = g("Sub", rows, mean)
        weighted = g("Mul", apart, weights)
    products = g("MatMul", apart, g.permute(weighted, 1, 0))
    y = g("Div", products, g("Max", freedom, zero))
    return g.shaped(y) if rows.shape[0] == 1 else y


@aten("corrcoef")
def corrcoef(g: TorchImporter, x: Value) -> Value:
    """Correlations of rows."""
    y = cov(g, x)
    if y.rank == 0:
        return g("Div", y, y)
    eye = g.cast(g("EyeLike", y), dtypes.bool_)
    own = g("ReduceSum", g("Where", eye, y, g.number(0, y.dtype)), g.ints(1), keepdims=0)
    deviation = g("Sqrt", own)
    y = g("Div", g("Div", y, g("Unsqueeze", deviation, g.ints(1))), deviation)
    return g("Clip", y, g.number(-1, y.dtype), g.number(1, y.dtype))
