"""What integers have in common."""

from __future__ import annotations

import numpy as np

from infuse.tracing.arrays.array import Array, applied, lifted, node
from infuse.tracing.arrays.control import loop
from infuse.tracing.arrays.elementwise import where
from infuse.tracing.arrays.reduction import any
from infuse.tracing.aten.calls import aten


def _divisor(a: Array, b: Array) -> Array:
    """Euclid's divisor of |a| and |b|, with the sign that remainders of C leave it where there is
    no size of the least integer.
    """
    zero, one = lifted(0, a.dtype), lifted(1, a.dtype)

    def step(a: Array, b: Array) -> tuple[Array, Array]:
        rest = node("Mod", b, where(a == zero, one, a), fmod=1)
        return where(a == zero, a, rest), where(a == zero, b, a)

    a, b = (where(x < zero, zero - x, x) if x.dtype.kind == "i" else x for x in (a, b))
    state = (node("Add", a, zero * b), node("Add", b, zero * a))  # of the shape of both
    return loop(lambda a, _: any(a != zero), step, state)[1]


def _multiple(a: Array, b: Array) -> Array:
    kind = a.dtype
    wide = np.dtype(np.int32) if kind.itemsize < 4 else kind  # as C multiplies
    zero, one = lifted(0, wide), lifted(1, wide)
    divisor = _divisor(a, b).astype(wide)
    product = node("Div", a.astype(wide), where(divisor == zero, one, divisor)) * b.astype(wide)
    size = where(product < zero, zero - product, product)
    return where(divisor == zero, zero, size).astype(kind)


aten("gcd")(lambda g, x, other: applied(g, _divisor, *g.tensors(x, other, dtype=g.dtype))[0])
aten("lcm")(lambda g, x, other: applied(g, _multiple, *g.tensors(x, other, dtype=g.dtype))[0])
