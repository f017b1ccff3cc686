"""The inputs on which a model is profiled: those that are given, and random ones for the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from infuse.errors import InputError, OptionError
from infuse.ir import dims
from infuse.ir.graph import Graph
from infuse.ir.types import TensorType
from infuse.ops.core.feeds import (
    default_size,
    has_tensor_inputs,
    input_symbols,
    random_feeds,
)
from infuse.options.data import require_symbols


def complete_feeds(
    graph: Graph, feeds: Mapping[str, Any], sizes: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """Values for all inputs of `graph` that have no default: the given ones, and random ones.

    Symbols have the size that given inputs show, else the one in `sizes`, else a usual one.
    OptionError for symbols that the model does not have and sizes that given inputs contradict,
    InputError for inputs that it does not
    have, or that nobody can make up.
    """
    symbols = input_symbols(graph)
    require_symbols(sizes, symbols)
    names = [value.name for value in graph.inputs]
    unknown = [name for name in feeds if name not in names]
    if unknown:
        listed = ", ".join(map(repr, names))
        raise InputError(
            f"the model has no input {', '.join(map(repr, unknown))}", hint=f"it takes {listed}"
        )
    shown = shown_sizes(graph, feeds)
    _require_equal(sizes, shown)
    if all(name in feeds for name in names):
        return dict(feeds)
    if not has_tensor_inputs(graph):
        missing = next(value for value in graph.inputs if value.name not in feeds)
        raise InputError(
            f"no value is given for the input {missing.name!r}: {missing.type}, and none can be "
            "made up"
        )
    values = {symbol: default_size(symbol) for symbol in symbols} | dict(sizes) | shown
    made = random_feeds(graph, values, seed)
    every = {**made, **feeds}
    return {name: every[name] for name in names if name in every}


def _require_equal(sizes: Mapping[str, int], shown: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        if shown.get(name, size) != size:
            raise OptionError(
                f"the dynamic axis {name!r} is to be {size}, and the inputs have {shown[name]}",
                hint="leave the size out, or give inputs of that size",
            )


def shown_sizes(graph: Graph, feeds: Mapping[str, Any]) -> dict[str, int]:
    """The sizes of symbols that arrays for these inputs have."""
    sizes = {}
    for value in graph.inputs:
        if value.name not in feeds or not isinstance(value.type, TensorType):
            continue
        for dim, size in zip(value.type.shape or (), np.shape(feeds[value.name])):
            sizes.update({name: size for name in dims.symbols(dim) if dim == dims.symbol(name)})
    return sizes


def describe(value: Any) -> str:
    """`float32[1, 3]`, or what it is in place of an array."""
    if not hasattr(value, "shape"):
        return type(value).__name__
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
