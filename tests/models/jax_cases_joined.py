"""More functions of JAX: products, convolutions, reductions, windows."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.models.jax_cases import BF16, BITS, SPECIAL, T, X, Y, after, case, floats, whole

# -- products --------------------------------------------------------------------------------------


def product(name: str, a: Any, b: Any, numbers: Any, **options: Any) -> None:
    case(f"dot_general-{name}", lambda x, y: lax.dot_general(x, y, numbers, **options), a, b)


product("matrix", X, floats(4, 5), (((1,), (0,)), ((), ())))
product("vector", floats(4), floats(4), (((0,), (0,)), ((), ())))
product("matrix-vector", X, floats(4), (((1,), (0,)), ((), ())))
product("vector-matrix", floats(3), X, (((0,), (0,)), ((), ())))
product("outer", floats(3), floats(4), (((), ()), ((), ())))
product("scalars", np.float32(2), np.float32(3), (((), ()), ((), ())))
product("three", T, floats(4, 5), (((2,), (0,)), ((), ())))
product("three-middle", T, floats(5, 3, 2), (((1,), (1,)), ((), ())))
product("two", T, floats(4, 3, 5), (((1, 2), (1, 0)), ((), ())))
product("batch", T, floats(2, 4, 5), (((2,), (1,)), ((0,), (0,))))
product("batch-last", T, floats(5, 4, 3), (((2,), (1,)), ((1,), (2,))))
product("batches", floats(2, 3, 4, 5), floats(3, 2, 6, 5), (((3,), (3,)), ((0, 1), (1, 0))))
product("batch-free", floats(2, 3, 4, 5), floats(2, 5), (((3,), (1,)), ((0,), (0,))))
product("batch-only", X, X, (((), ()), ((0, 1), (0, 1))))
product("empty", floats(3, 0), floats(0, 5), (((1,), (0,)), ((), ())))
product("int", whole(3, 4), whole(4, 5), (((1,), (0,)), ((), ())))
product(
    "int8", whole(3, 4, dtype=np.int8) * 9, whole(4, 5, dtype=np.int8) * 9, (((1,), (0,)), ((), ()))
)
product(
    "int8-wide",
    whole(3, 4, dtype=np.int8),
    whole(4, 5, dtype=np.int8),
    (((1,), (0,)), ((), ())),
    preferred_element_type=np.int32,
)
product("half", X.astype(np.float16), Y.T.astype(np.float16), (((1,), (0,)), ((), ())))
product(
    "half-wide",
    X.astype(np.float16),
    Y.T.astype(np.float16),
    (((1,), (0,)), ((), ())),
    preferred_element_type=np.float32,
)
product(
    "bfloat16",
    X.astype(BF16),
    Y.T.astype(BF16),
    (((1,), (0,)), ((), ())),
    preferred_element_type=np.float32,
)

IMAGE, KERNEL = floats(2, 4, 9, 8), floats(6, 4, 3, 2)


def convolution(name: str, x: Any, w: Any, **options: Any) -> None:
    options = {"window_strides": (1,) * (x.ndim - 2), "padding": "VALID", **options}
    case(f"conv-{name}", lambda a, b: lax.conv_general_dilated(a, b, **options), x, w)


convolution("plain", IMAGE, KERNEL)
convolution("same", IMAGE, KERNEL, padding="SAME", window_strides=(2, 3))
convolution(
    "nhwc",
    IMAGE.transpose(0, 2, 3, 1),
    KERNEL.transpose(2, 3, 1, 0),
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
    padding="SAME",
)
convolution(
    "mixed",
    IMAGE.transpose(2, 1, 3, 0),
    KERNEL.transpose(3, 0, 2, 1),
    dimension_numbers=("HCWN", "WOHI", "WNCH"),
)
convolution("dilated", IMAGE, KERNEL, rhs_dilation=(2, 3))
convolution("spread", IMAGE, KERNEL, lhs_dilation=(2, 3), padding=((1, 2), (0, 1)))
convolution("cut", IMAGE, KERNEL, padding=((-1, 2), (1, -2)))
convolution("groups", IMAGE, floats(6, 2, 3, 2), feature_group_count=2)
convolution("depthwise", IMAGE, floats(8, 1, 3, 3), feature_group_count=4, padding="SAME")
convolution("line", floats(2, 3, 9), floats(4, 3, 3), padding="SAME", window_strides=(2,))
convolution("volume", floats(1, 2, 4, 5, 6), floats(3, 2, 2, 2, 3))
convolution("none", floats(3, 4), floats(5, 4))
convolution(
    "int8",
    whole(1, 2, 5, 5, dtype=np.int8),
    whole(3, 2, 2, 2, dtype=np.int8),
    preferred_element_type=np.int32,
)
convolution(
    "half", IMAGE.astype(np.float16), KERNEL.astype(np.float16), preferred_element_type=np.float32
)
case(
    "conv-transpose",
    lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
    floats(1, 5, 5, 3),
    floats(3, 3, 3, 4),
)

# -- joined ----------------------------------------------------------------------------------------

for _name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod"):
    for _axes in ((), (0,), (1, 2), (0, 1, 2)):
        case(f"{_name}-{len(_axes)}", after(getattr(lax, _name), _axes), T)
    case(f"{_name}-int", after(getattr(lax, _name), (0,)), whole(3, 4))
    case(f"{_name}-int8", after(getattr(lax, _name), (0,)), whole(9, 4, dtype=np.int8) * 9)
    case(f"{_name}-special", after(getattr(lax, _name), (0,)), SPECIAL)
for _name in ("reduce_and", "reduce_or", "reduce_xor"):
    for _axes in ((), (0,), (0, 1)):
        case(f"{_name}-{len(_axes)}", after(getattr(lax, _name), _axes), BITS)
case("reduce_sum-empty", lambda x: jnp.sum(x, 0), floats(0, 3))
case("reduce_max-bool", lambda x: lax.reduce_max(x, (0,)), BITS)
case("reduce-mul", lambda x: lax.reduce(x, np.float32(2), lax.mul, (0,)), X)
case("reduce-add", lambda x: lax.reduce(x, np.float32(2), lax.add, (0, 1)), X)
for _name in ("argmax", "argmin"):
    for _axis in (0, 1):
        case(f"{_name}-{_axis}", after(getattr(lax, _name), _axis, np.int32), X)
    case(f"{_name}-nan", after(getattr(lax, _name), 0, np.int32), SPECIAL)
    case(
        f"{_name}-ties",
        after(getattr(lax, _name), 0, np.int32),
        whole(30, low=0, high=3),
    )
    case(f"{_name}-bool", after(getattr(lax, _name), 1, np.int32), BITS)
for _name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
    for _axis, _reverse in ((0, False), (1, True)):
        case(f"{_name}-{_axis}", after(getattr(lax, _name), _axis, _reverse), T)
    if _name != "cumlogsumexp":
        case(f"{_name}-int", getattr(lax, _name), whole(7, low=1, high=4))
    case(f"{_name}-special", getattr(lax, _name), SPECIAL[::-1].copy())

P = floats(2, 6, 7, 3)
for _name, _first, _join in (
    ("max", -np.inf, lax.max),
    ("min", np.inf, lax.min),
    ("add", 0.0, lax.add),
    ("mul", 2.0, lax.mul),
    ("add-more", 3.0, lax.add),
):
    for _label, _options in (
        ("same", ((1, 3, 2, 1), (1, 2, 1, 1), "SAME")),
        ("valid", ((1, 2, 3, 1), (1, 2, 2, 1), "VALID")),
        ("line", ((1, 3, 1, 1), (1, 1, 1, 1), "SAME")),
        ("every", ((2, 2, 2, 2), (1, 1, 2, 1), "VALID")),
        ("pads", ((1, 2, 2, 1), (1, 1, 1, 1), ((0, 0), (3, 2), (-1, 1), (0, 0)))),
        ("dilated", ((1, 2, 2, 1), (1, 1, 1, 1), "VALID", (1, 1, 1, 1), (1, 2, 3, 1))),
        ("spread", ((1, 2, 2, 1), (1, 2, 1, 1), "VALID", (1, 2, 3, 1), (1, 1, 1, 1))),
    ):
        case(
            f"reduce_window-{_name}-{_label}",
            after(lax.reduce_window, np.float32(_first), _join, *_options),
            P,
        )
case(
    "reduce_window-int",
    lambda x: lax.reduce_window(x, np.int32(0), lax.add, (2,), (1,), "SAME"),
    whole(7),
)
POOL = after(lax.reduce_window, np.int32(-(2**31)), lax.max, (3,), (2,), "SAME")
case("reduce_window-int-max", POOL, whole(7))
case(
    "reduce_window-matrix",
    lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "SAME"),
    X,
)
case(
    "reduce_window-empty", lambda x: lax.reduce_window(x, 0.0, lax.add, (5, 1), (1, 1), "VALID"), X
)
