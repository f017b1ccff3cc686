"""Functions of JAX with arguments, by name: primitives, functions of jax.numpy, and models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import primitives
from jax.scipy import special

Case = tuple[Callable[..., Any], tuple[Any, ...]]
CASES: dict[str, Case] = {}


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def floats(*shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = np.float32) -> Any:
    return rng().uniform(low, high, shape).astype(dtype)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: Any = np.int32) -> Any:
    return rng().integers(low, high, shape).astype(dtype)


def after(function: Callable[..., Any], *rest: Any, **options: Any) -> Callable[..., Any]:
    """The function of its first arguments, with these behind them."""
    return lambda *xs: function(*xs, *rest, **options)


def case(name: str, function: Callable[..., Any], *args: Any) -> None:
    assert name not in CASES, name
    CASES[name] = function, args


X, Y = floats(3, 4), floats(3, 4, low=0.2)[::-1].copy()
BITS = whole(3, 4, low=0) > 3
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 0.5], np.float32)
BF16 = jnp.bfloat16

# -- every element by itself -----------------------------------------------------------------------

for _name in (
    *("abs", "ceil", "cos", "cosh", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor"),
    *("is_finite", "log1p", "logistic", "neg", "round", "sign", "sin", "sinh", "square", "tan"),
    *("tanh", "asinh", "atan", "cbrt"),
):
    _function = getattr(lax, _name)
    case(_name, _function, floats(3, 4, low=-0.9, high=0.9))
    if _name not in ("cosh", "sinh", "tan", "sin", "cos"):
        case(f"{_name}-special", _function, SPECIAL)
for _name in ("acosh", "digamma", "lgamma", "log", "rsqrt", "sqrt"):
    case(_name, getattr(lax, _name), floats(3, 4, low=1.1, high=6))
for _name in ("lgamma", "digamma"):
    case(f"{_name}-left", getattr(lax, _name), np.array([-3.5, -0.3, 0.2, 0.7, 30.0], np.float32))
_SMALL = np.array([1e-30, -1e-30, 1e-9, -1e-9, -1e-20, -2.5, 1.25], np.float32)
for _name in ("lgamma", "digamma", "bessel_i0e", "bessel_i1e"):
    case(f"{_name}-small", getattr(lax, _name), _SMALL)
for _name in ("i0", "i1", "i0e", "i1e"):
    case(_name, getattr(special, _name), np.linspace(-45, 45, 91, dtype=np.float32))
case("lgamma-ends", lax.lgamma, np.array([np.inf, 0.0, -1.0, 1.0, 2.0], np.float32))
case("digamma-poles", lax.digamma, np.array([-1.0, -2.0, 1.0], np.float32))
for _name in ("acos", "asin", "atanh"):
    case(_name, getattr(lax, _name), floats(3, 4, low=-0.9, high=0.9))
for _name in ("abs", "neg", "sign", "bitwise_not", "population_count", "clz"):
    for _dtype in (np.int32, np.int8, np.uint8, np.uint32):
        if _name != "abs" or np.dtype(_dtype).kind == "i":
            case(f"{_name}-{np.dtype(_dtype)}", getattr(lax, _name), whole(9).astype(_dtype))
case("not-bool", lax.bitwise_not, BITS)
case(
    "round-away",
    lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    np.array([0.49999997, 0.5, -0.5, 1.5, 2.5, -2.5, 3.2, -0.2], np.float32),
)
case(
    "round-even",
    lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4], np.float32),
)
for _name in (
    "add",
    "sub",
    "mul",
    "div",
    "max",
    "min",
    "rem",
    "atan2",
    "eq",
    "ne",
    "ge",
    "gt",
    "le",
    "lt",
):
    case(_name, getattr(lax, _name), X, Y)
    case(f"{_name}-scalar", getattr(lax, _name), np.float32(1.5), np.float32(-0.5))
    case(f"{_name}-special", getattr(lax, _name), SPECIAL, SPECIAL[::-1].copy())
    if _name != "atan2":
        case(f"{_name}-int", getattr(lax, _name), whole(20), whole(20)[::-1].copy())
        case(
            f"{_name}-uint8",
            getattr(lax, _name),
            whole(20, low=0, dtype=np.uint8),
            whole(20, low=0, dtype=np.uint8)[::-1].copy(),
        )
        case(f"{_name}-half", getattr(lax, _name), X.astype(np.float16), Y.astype(np.float16))
for _name in ("eq", "ne", "lt", "ge", "max", "min", "bitwise_and", "bitwise_or", "bitwise_xor"):
    case(f"{_name}-bool", getattr(lax, _name), BITS, BITS[::-1].copy())
for _name in ("div", "rem"):
    case(
        f"{_name}-ends",
        getattr(lax, _name),
        np.array([-(2**31), 5, -5, 7], np.int32),
        np.array([-1, 0, 0, -1], np.int32),
    )
    case(
        f"{_name}-unsigned-ends",
        getattr(lax, _name),
        np.array([5, 255], np.uint8),
        np.array([0, 255], np.uint8),
    )
    case(f"{_name}-number", after(getattr(lax, _name), np.int32(-3)), whole(9))
case(
    "atan2-axes",
    jnp.arctan2,
    np.array([0, -0.0, 0, -0.0, 1, -1, 2], np.float32),
    np.array([1, 1, -1, -1, 0, 0, -0.0], np.float32),
)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    case(_name, getattr(lax, _name), whole(9), whole(9)[::-1].copy())
for _name in ("shift_left", "shift_right_arithmetic", "shift_right_logical"):
    for _dtype in (np.int32, np.int8, np.uint8):
        case(
            f"{_name}-{np.dtype(_dtype)}",
            getattr(lax, _name),
            whole(8).astype(_dtype),
            np.array([0, 1, 2, 3, 7, 8, 31, 40], _dtype),
        )
case("pow", lax.pow, floats(3, 4, low=0.1, high=3), X)
case("pow-int", lambda x, y: lax.pow(x, y), X, whole(3, 4, low=-3, high=4))
for _power in (-3, -1, 0, 1, 2, 3, 7):
    case(f"integer_pow-{_power}", after(lax.integer_pow, _power), X)
case("integer_pow-int", lambda x: lax.integer_pow(x, 3), whole(6))
case("clamp", lambda x: lax.clamp(-0.5, x, 1.0), SPECIAL)
case("clamp-array", lax.clamp, -Y, X * 3, Y)
case("select_n-bool", lambda c, x, y: lax.select_n(c, x, y), BITS, X, Y)
case("select_n-int", lambda c, *xs: lax.select_n(c, *xs), whole(3, 4, low=0, high=3), X, Y, X * Y)
case("select_n-scalar", lambda c, x, y: lax.select_n(c, x, y), np.bool_(True), X, Y)
case("bitcast", lambda x: lax.bitcast_convert_type(x, jnp.int32), X)
case("bitcast-back", lambda x: lax.bitcast_convert_type(x, jnp.float32), whole(5))
for _bits in ((5, 10), (8, 7), (8, 23)):
    _tag = f"reduce_precision-{_bits[1]}"
    case(_tag, after(lax.reduce_precision, *_bits), X * 100)
_NUMBERS = np.array(
    [np.nan, np.inf, -np.inf, 1e20, -1e20, 2.7, -2.7, 130.5, -130.5, 300, 2147483648.0]
)
for _to in ("int8", "uint8", "int16", "int32", "uint32", "bool", "float16", "bfloat16"):
    for _from in (np.float32, np.float16, BF16) if _to in ("uint8", "int32") else (np.float32,):
        with np.errstate(all="ignore"):
            _array = np.asarray(_NUMBERS).astype(_from)
        case(
            f"convert-{np.dtype(_from)}-{_to}",
            after(lax.convert_element_type, _to),
            _array,
        )
    case(
        f"convert-int-{_to}",
        after(lax.convert_element_type, _to),
        np.array([0, 1, -1, 200, -200, 70000, -(2**31)], np.int32),
    )
    case(f"convert-bool-{_to}", after(lax.convert_element_type, _to), BITS)

# -- moved -----------------------------------------------------------------------------------------

T = floats(2, 3, 4)
case("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 5, 4), (1, 3)), X)
case("broadcast_in_dim-ones", lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)), floats(2, 1))
case("broadcast_in_dim-scalar", lambda x: lax.broadcast_in_dim(x, (2, 3), ()), np.float32(3))
case("broadcast_in_dim-none", lambda x: lax.broadcast_in_dim(x, (), ()), np.float32(3))
case("broadcast_in_dim-empty", lambda x: lax.broadcast_in_dim(x, (0, 3), (1,)), floats(3))
case("reshape", after(lax.reshape, (4, 3)), X)
case("reshape-scalar", after(lax.reshape, ()), floats(1, 1))
case("reshape-empty", after(lax.reshape, (3, 0)), floats(0, 2))
case("squeeze", after(lax.squeeze, (0, -1)), floats(1, 3, 1))
case("expand_dims", after(lax.expand_dims, (0, -1)), X)
case("transpose", after(lax.transpose, (2, 0, 1)), T)
case("concatenate", lambda x, y: lax.concatenate([x, y, x], 1), X, floats(3, 2))
case("concatenate-one", lambda x: lax.concatenate([x], 0), X)
case("tile", lambda x: jnp.tile(x, (2, 1, 3)), X)
case("split", lambda x: lax.split(x, (1, 3), axis=1), X)
case("split-one", lambda x: lax.split(x, (4,), axis=1), X)
case("rev", after(lax.rev, (0, 2)), T)
case("rev-none", after(lax.rev, ()), T)
case("slice", lambda x: lax.slice(x, (0, 1, 0), (2, 3, 4), (1, 1, 3)), T)
case("slice-empty", lambda x: lax.slice(x, (1, 0), (1, 4)), X)
case("iota", lambda: lax.broadcasted_iota(jnp.float32, (3, 4), 1))
case("iota-empty", lambda: lax.iota(jnp.int32, 0))
for _number, _config in enumerate(
    (
        ((1, 2, 0), (0, 3, 0)),
        ((-1, 0, 0), (0, -2, 0)),
        ((0, 0, 2), (1, 1, 1)),
        ((-1, 2, 1), (2, -3, 2)),
        ((0, 0, 0), (0, 0, 0)),
        ((3, -5, 1), (-4, 4, 0)),
    )
):
    case(f"pad-{_number}", after(lax.pad, _config), X, np.float32(7))
case("pad-int", lambda x: lax.pad(x, np.int8(1), ((1, 1, 1),)), whole(3, dtype=np.int8))
case("pad-bool", lambda x: lax.pad(x, True, ((1, 1, 0), (0, 0, 1))), BITS)
case("pad-empty", lambda x: lax.pad(x, np.float32(1), ((1, 1, 2),)), floats(0))
case("copy", lambda x: lax.copy_p.bind(x) if hasattr(lax, "copy_p") else jnp.copy(x), X)
case("stop_gradient", lax.stop_gradient, X)
case("optimization_barrier", lambda x, y: lax.optimization_barrier((x, y)), X, Y)
case("stack", lambda x, y: jnp.stack([x, y], 1), X, Y)
for _ordered in (primitives.eq_to_p, primitives.le_to_p, primitives.lt_to_p):
    case(str(_ordered), lambda x, p=_ordered: p.bind(x, x[::-1]), SPECIAL)
