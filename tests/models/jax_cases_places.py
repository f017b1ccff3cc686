"""More functions of JAX: reading and writing at computed places."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from tests.models.jax_cases import BITS, T, X, after, case, floats, whole

# -- read and written at places --------------------------------------------------------------------

PLACES = np.array([[0, 2], [-1, 1], [5, 0]], np.int32)


def gathered(name: str, numbers: Any, sizes: Any, operand: Any, indices: Any) -> None:
    for mode in ("clip", "fill", "promise_in_bounds"):
        inside = np.clip(indices, 0, 1) if mode[0] == "p" else indices
        case(f"gather-{name}-{mode}", after(lax.gather, numbers, sizes, mode=mode), operand, inside)


G = lax.GatherDimensionNumbers
gathered("rows", G((1,), (0,), (0,)), (1, 4), X, PLACES[:, :1])
gathered("columns", G((0,), (1,), (1,)), (3, 1), X, PLACES[:, :1])
gathered("elements", G((), (0, 1), (0, 1)), (1, 1), X, PLACES)
gathered("turned", G((), (0, 1), (1, 0)), (1, 1), X, PLACES)
gathered("windows", G((0, 1), (), (0, 1)), (2, 3), X, PLACES)
gathered("window-last", G((1, 2), (), (0, 1)), (2, 2), X, PLACES)
gathered("one-of-size-one", G((1, 2), (), (0, 1)), (1, 2), X, PLACES)
gathered("part", G((1, 2), (0,), (0,)), (1, 2, 4), T, PLACES[:, :1])
gathered("between", G((0, 2), (1,), (1,)), (2, 1, 4), T, PLACES[:, :1])
gathered("scalar", G((0,), (0,), (0,)), (1, 4), X, PLACES[1, :1])
gathered("whole", G((1, 2), (), ()), (3, 4), X, np.zeros((2, 0), np.int32))
gathered("batched", G((1,), (1,), (1,), (0,), (0,)), (1, 1, 4), T, PLACES[:2, :1])
gathered("batched-window", G((1, 2), (), (1, 2), (0,), (0,)), (1, 2, 2), T, PLACES[:2])
gathered("int", G((1,), (0,), (0,)), (1, 4), whole(3, 4), PLACES[:, :1])
gathered("uint8", G((1,), (0,), (0,)), (1, 4), whole(3, 4, low=0, dtype=np.uint8), PLACES[:, :1])
gathered("bool", G((1,), (0,), (0,)), (1, 4), BITS, PLACES[:, :1])
gathered("none", G((1,), (0,), (0,)), (1, 4), X, PLACES[:0, :1])

S = lax.ScatterDimensionNumbers
for _kind in ("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max", "scatter_sub"):
    _modes = ("clip", "fill", "promise_in_bounds")
    for _mode in _modes if _kind in ("scatter", "scatter_add") else ("fill",):
        _inside = np.clip(PLACES, 0, 1) if _mode[0] == "p" else PLACES
        for _label, _numbers, _updates, _operand, _indices in (
            ("rows", S((1,), (0,), (0,)), floats(3, 4), X, _inside[:, :1]),
            ("columns", S((0,), (1,), (1,)), floats(3, 3), X, _inside[:, :1]),
            ("elements", S((), (0, 1), (1, 0)), floats(3), X, _inside),
            ("windows", S((1, 2), (), (0, 1)), floats(3, 2, 2), X, _inside),
            ("size-one", S((1, 2), (), (0, 1)), floats(3, 1, 4), X, _inside * [1, 0]),
            ("batched", S((1,), (1,), (1,), (0,), (0,)), floats(2, 4), T, _inside[:2, :1]),
            ("whole", S((1, 2), (), (0,)), floats(3, 3, 4), X, _inside[:, :1] * 0),
        ):
            case(
                f"{_kind}-{_label}-{_mode}",
                after(getattr(lax, _kind), _numbers, mode=_mode),
                _operand,
                _indices.astype(np.int32),
                _updates,
            )
case("scatter-bool", lambda x, i: x.at[i].set(True), BITS, PLACES[:, 0])
case("scatter_max-bool", lambda x, i: x.at[i].max(True), BITS, PLACES[:, 0])
case("scatter_add-int", lambda x, i: x.at[i].add(3), whole(3, 4), PLACES[:, 0])
for _number, _start in enumerate(((0, 0), (1, 2), (-1, 3), (9, -9))):
    _starts = np.array(_start, np.int32)
    case(f"dynamic_slice-{_number}", lambda x, s: lax.dynamic_slice(x, s, (2, 2)), X, _starts)
    case(
        f"dynamic_slice-rows-{_number}",
        lambda x, s: lax.dynamic_slice(x, (s[0], s[1]), (1, 4)),
        X,
        _starts,
    )
    case(
        f"dynamic_update_slice-{_number}",
        lambda x, y, s: lax.dynamic_update_slice(x, y, s),
        X,
        floats(2, 3),
        _starts,
    )
    case(
        f"dynamic_update_slice-columns-{_number}",
        lambda x, y, s: lax.dynamic_update_slice(x, y, s),
        X,
        floats(3, 2),
        _starts,
    )
case("dynamic_slice-number", lambda x: lax.dynamic_slice(x, (1, 5), (2, 2)), X)
case("dynamic_update_slice-whole", lambda x: lax.dynamic_update_slice(x, -x, (1, 5)), X)
case(
    "dynamic_update_slice-empty",
    lambda x, y: lax.dynamic_update_slice(x, y, (1, 1)),
    X,
    floats(0, 2),
)
case(
    "dynamic_index", lambda x, i: lax.dynamic_index_in_dim(x, i, 1, keepdims=False), X, np.int32(2)
)
