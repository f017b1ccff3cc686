"""Inputs of a model of which only the interface is there: those that are given, and random ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from infuse.errors import OptionError
from infuse.ir.graph import Array
from infuse.ops.core.feeds import default_size, random_array
from infuse.options.data import require_symbols
from infuse.runtime.shapes import Formula, TensorSpec


def sizes(specs: Sequence[TensorSpec], chosen: Mapping[str, int]) -> dict[str, int]:
    """A size for every symbol in these inputs: the given one, or the default that `--dim`
    describes.
    """
    result: dict[str, int] = {}
    for text in (size for spec in specs for size in spec.shape if isinstance(size, str)):
        for symbol in [text] if text in chosen else _symbols(text):
            result[symbol] = chosen.get(symbol, default_size(symbol))
    require_symbols(chosen, result)
    return result


def _symbols(text: str) -> list[str]:
    return sorted(Formula(text).symbols) if any(c in text for c in "+-*/%(") else [text]


def random_inputs(
    specs: Iterable[TensorSpec], values: Mapping[str, int], seed: int, limits: Mapping[str, int]
) -> dict[str, Array]:
    """Arrays for these inputs but those with a default; `values` are the sizes of symbols, `limits`
    those of integers by input.
    """
    rng = np.random.default_rng(seed)
    made = {}
    for spec in specs:
        if spec.optional:
            continue
        shape = [size if isinstance(size, int) else _size(size, values) for size in spec.shape]
        made[spec.name] = random_array(spec.name, spec.dtype, shape, rng, limits.get(spec.name, 2))
    return made


def _size(text: str, values: Mapping[str, int]) -> int:
    return values[text] if text in values else Formula(text)(values)


def complete(
    specs: Sequence[TensorSpec],
    limits: Mapping[str, int],
    arrays: Mapping[str, Array],
    chosen: Mapping[str, int],
    seed: int = 0,
) -> dict[str, Array]:
    """The given arrays, and random ones for the other inputs; sizes that given ones show hold for
    all. `limits` are those of integers by input.
    """
    shown = {
        size: array.shape[axis]
        for spec in specs
        if (array := arrays.get(spec.name)) is not None and array.ndim == len(spec.shape)
        for axis, size in enumerate(spec.shape)
        if isinstance(size, str) and size.isidentifier()
    }
    values = sizes(specs, {**shown, **chosen})
    return {**random_inputs(specs, values, seed, limits), **arrays}


def swept_sizes(
    specs: Sequence[TensorSpec], sizes: Mapping[str, int], batches: Sequence[int]
) -> list[dict[str, int]]:
    """The sizes of dynamic axes for each batch. OptionError where no first axis is dynamic, or
    `--dim` sets it too.
    """
    if not batches:
        return [dict(sizes)]
    axes = dict.fromkeys(spec.shape[0] for spec in specs if spec.shape)
    dynamic = [axis for axis in axes if isinstance(axis, str) and axis.isidentifier()]
    if not dynamic:
        raise OptionError(
            "--batch needs a dynamic first axis, and the model's inputs have none",
            hint="export the model with a dynamic batch axis",
        )
    twice = [axis for axis in dynamic if axis in sizes]
    if twice:
        raise OptionError(f"--batch and --dim both set {twice[0]!r}", hint="leave one out")
    return [{**sizes, **dict.fromkeys(dynamic, size)} for size in batches]
