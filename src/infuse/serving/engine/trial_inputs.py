"""Inputs to try a model with: random ones, or those that its folder has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from infuse.errors import ConfigurationError, InputError
from infuse.runtime.session import Array
from infuse.runtime.shapes import Formula, TensorSpec
from infuse.serving.engine.signature import Checker
from infuse.serving.workers import stored_inputs

_USUAL: Final = 32  # the size of a symbol that nobody has set
_MOST_BYTES: Final = 1 << 30  # of random inputs


def drawn(
    specs: Sequence[TensorSpec],
    sizes: Mapping[str, int],
    batch: str,
    rows: int,
    magnitude: float = 1.0,
) -> list[Array]:
    """Inputs of usual sizes: floats of a normal distribution times `magnitude`, integers from 0 to
    that (at least 1), truth values, short texts.
    """
    generator = np.random.default_rng(0)
    symbols = {
        s for spec in specs for n in spec.shape if isinstance(n, str) for s in Formula(n).symbols
    }
    values = {symbol: sizes.get(symbol, _USUAL) for symbol in symbols} | (
        {batch: rows} if batch else {}
    )
    arrays: list[Array] = []
    shapes = [
        tuple(n if isinstance(n, int) else Formula(n)(values) for n in spec.shape) for spec in specs
    ]
    if sum(prod(shape) * spec.dtype.itemsize for shape, spec in zip(shapes, specs)) > _MOST_BYTES:
        raise InputError(f"random inputs of its sizes have more than {_MOST_BYTES >> 20} MiB")
    for spec, shape in zip(specs, shapes):
        if spec.dtype == object:
            arrays.append(np.full(shape, b"warm", object))
        elif np.issubdtype(spec.dtype, np.floating) or spec.dtype.kind == "V":
            numbers = generator.standard_normal(shape) * magnitude
            arrays.append(numbers.astype(spec.dtype))
        else:
            largest = 127 if spec.dtype.itemsize == 1 else magnitude
            most = 1 if spec.dtype.kind == "b" else int(min(max(magnitude, 1), largest))
            arrays.append(generator.integers(0, most + 1, shape).astype(spec.dtype))
    return arrays


async def stored(folder: Path, name: str, checker: Checker, most: int) -> list[Array]:
    """The inputs of a .npz file in the model's folder, of at most so many bytes."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigurationError(f"the warm-up inputs {name!r} are outside of the model's folder")
    return await stored_inputs.stored(path, checker.inputs, most)
