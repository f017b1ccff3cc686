"""Functions of every element that are put together."""

from __future__ import annotations

from collections.abc import Callable

from infuse import dtypes
from infuse.frontends.jax.calls import JaxCall, JaxImporter, primitive
from infuse.ir.graph import Value
from infuse.tracing.semantics import arithmetic, special

_Function = Callable[[JaxImporter, Value], Value]


def _exact(function: _Function) -> Callable[[JaxCall], Value]:
    """A function computed in float64."""

    def build(call: JaxCall) -> Value:
        wide = call.g.cast(call.x, dtypes.float64)
        return call.g.cast(function(call.g, wide), call.dtype)

    return build


def _bessel(order: int, scaled: bool) -> _Function:
    return lambda g, x: special.bessel_i(g, x, order, scaled)


for _name, _function in {
    "log1p": arithmetic.log1p, "expm1": arithmetic.expm1, "erfc": special.erfc,
    "erf_inv": special.erf_inv, "lgamma": special.lgamma,
    "digamma": special.digamma, "bessel_i0e": _bessel(0, True),
    "bessel_i1e": _bessel(1, True),
}.items():  # fmt: skip
    primitive(_name)(_exact(_function))
