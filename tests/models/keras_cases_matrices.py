"""Operations of `keras.ops` on matrices: `MATRICES[name](keras)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.models.keras_cases import Case

MATRICES: dict[str, Callable[[Any], Case]] = {}
NUMBERS = np.random.default_rng(0).normal(size=(2, 4, 5)).astype(np.float32)
NUMBERS[0, 1] = [0.0, -0.0, np.nan, 1, 2]
NUMBERS[1, 2] = [np.inf, -3, 4, -np.inf, 0]


def matrices(name: str, build: Callable[..., Any], *feeds: np.ndarray) -> None:
    """`build(ops, *inputs)` gives the results."""

    def make(keras: Any) -> Case:
        given = [keras.Input(batch_shape=f.shape, dtype=f.dtype.name) for f in feeds]
        return keras.Model(given, build(keras.ops, *given)), list(feeds)

    MATRICES[name] = make


for k in range(-1, 4):
    matrices(f"rot90-{k}", lambda o, x, k=k: o.rot90(x, k), NUMBERS)
    matrices(f"rot90-{k}-axes", lambda o, x, k=k: o.rot90(x, k, axes=(2, 0)), NUMBERS)
for name in ("fliplr", "flipud"):
    matrices(name, lambda o, x, n=name: getattr(o, n)(x), NUMBERS)
for offset in (0, 2, -1, 9):
    matrices(f"diagonal-{offset}", lambda o, x, k=offset: o.diagonal(x, k, 1, 2), NUMBERS)
matrices("diagonal-axes", lambda o, x: o.diagonal(x, 1, 2, 0), NUMBERS)
# Of torch, which made the file, sums of uint8 are int32, and uint32 elsewhere.
for dtype in ("float32", "float16", "int8", "int16", "int32", "bool"):
    whole = np.nan_to_num(NUMBERS * 50, posinf=99, neginf=-99).astype(np.int32).astype(dtype)
    matrices(f"trace-{dtype}", lambda o, x: o.trace(x, 1, 1, 2), whole)
matrices("append", lambda o, x, y: o.append(x, y, axis=-1), NUMBERS, NUMBERS[:, :, :2])
matrices("append-flat", lambda o, x, y: o.append(x, y), NUMBERS, np.arange(3, dtype=np.int32))
for order in (None, 0, 1, 2, 3, -1, 0.5, np.inf, -np.inf):
    matrices(f"norm-{order}", lambda o, x, p=order: o.norm(x, p, axis=-1), NUMBERS)
    matrices(f"norm-{order}-kept", lambda o, x, p=order: o.norm(x, p, 1, True), NUMBERS)
matrices("norm-all", lambda o, x: o.norm(x), NUMBERS[:, 3])
matrices("norm-frobenius", lambda o, x: o.norm(x, "fro", axis=(1, 2)), NUMBERS)
matrices("norm-int", lambda o, x: o.norm(x, axis=1), np.arange(12, dtype=np.int32).reshape(3, 4))
