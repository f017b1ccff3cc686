"""More functions of JAX: sorting, and functions inside functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.models.jax_cases import BITS, SPECIAL, T, X, Y, after, case, floats, whole

# -- sorted ----------------------------------------------------------------------------------------

for _axis in (0, 1, -1):
    case(f"sort-{_axis}", after(lax.sort, dimension=_axis), T)
case("sort-nan", lax.sort, SPECIAL)
case("sort-bool", lax.sort, BITS)
case("sort-int", lax.sort, whole(9))
case("sort-empty", lax.sort, floats(3, 0))
case("sort-pair", lambda x, y: lax.sort((x, y), dimension=0), whole(9, low=0, high=3), floats(9))
case(
    "sort-keys",
    lambda x, y, z: lax.sort((x, y, z), num_keys=2),
    whole(9, low=0, high=3),
    whole(9, low=0, high=4, dtype=np.int8)[::-1].copy(),
    floats(9),
)
case("argsort-descending", lambda x: jnp.argsort(x, descending=True), whole(9, low=0, high=4))
case("top_k", lambda x: lax.top_k(x, 2), X)
case("top_k-nan", lambda x: lax.top_k(x, 3), SPECIAL)
case("top_k-ties", lambda x: lax.top_k(x, 4), whole(20, low=0, high=3))
case("top_k-none", lambda x: lax.top_k(x, 0), X)

# -- functions inside functions --------------------------------------------------------------------

case("jit", lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.sin)(2 * x), X)
case("checkpoint", jax.checkpoint(lambda x: jnp.sin(x) * x), X)
case("custom_jvp", jax.nn.relu, X)


@jax.custom_vjp
def _custom(x: Any) -> Any:
    return jnp.sin(x)


_custom.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
case("custom_vjp", _custom, X)
case("custom_vjp-grad", jax.grad(lambda x: _custom(x).sum()), X)
for _flag in (0.0, 1.0):
    case(
        f"cond-{_flag}",
        lambda f, x: lax.cond(f > 0, jnp.sin, lambda v: v * 2, x),
        np.float32(_flag),
        X,
    )
for _index in (-1, 0, 1, 2, 7):
    case(
        f"switch-{_index}",
        lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * 3, lambda v: v], x),
        np.int32(_index),
        X,
    )
case("cond-nothing", lambda x: lax.cond(x[0, 0] > 0, lambda v: (), lambda v: (), x) or x, X)


def _double(state: Any) -> Any:
    return state[0] + 1, state[1] * 2


def _counted(x: Any, reverse: bool) -> Any:
    return lax.scan(lambda c, _: (c * 2, c.sum()), x, None, length=4, reverse=reverse)


case("while", lambda x: lax.while_loop(lambda s: jnp.sum(s[1]) < 100, _double, (0, jnp.abs(x))), X)
case("while-never", lambda x: lax.while_loop(lambda s: jnp.sum(s) > 1e9, lambda s: s * 2, x), X)
case("fori", lambda x: lax.fori_loop(0, 5, lambda i, s: s + i * x, x), X)
case("fori-computed", lambda n, x: lax.fori_loop(0, n, lambda i, s: s + i * x, x), np.int32(4), X)
for _reverse in (False, True):
    case(
        f"scan-{_reverse}",
        lambda x, w, r=_reverse: lax.scan(
            lambda c, v: (jnp.tanh(c @ w + v), (c, v * 2)), jnp.zeros(4), x, reverse=r
        ),
        T[0],
        floats(4, 4),
    )
    case(f"scan-count-{_reverse}", after(_counted, _reverse), X)
case("scan-map", lambda x: lax.map(lambda v: jnp.sin(v).sum(), x), T)
case("scan-empty", lambda x: lax.scan(lambda c, v: (c + v, c), jnp.zeros(3), x), floats(0, 3))
case("scan-only-state", lambda x: lax.scan(lambda c, v: (c + v, None), jnp.zeros(4), x)[0], X)
case(
    "scan-nested",
    lambda x: lax.scan(
        lambda c, v: (lax.fori_loop(0, 3, lambda i, s: s + v * i, c), c), jnp.zeros(4), X
    ),
    X,
)
case("associative_scan", lambda x: lax.associative_scan(jnp.add, x), X)
case("vmap-cond", jax.vmap(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)), X)
case("vmap-while", jax.vmap(lambda x: lax.while_loop(lambda s: s.sum() < 9, lambda s: s * 2, x)), Y)
case("vmap-gather", jax.vmap(lambda x, i: x[i]), X, np.array([[0, 3], [1, -1], [2, 2]], np.int32))
case("vmap-scatter", jax.vmap(lambda x, i: x.at[i].add(1.0)), X, np.array([0, 3, 9], np.int32))
case(
    "vmap-slice",
    jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,))),
    X,
    np.array([0, 3, 9], np.int32),
)
