"""Random inputs for a graph: usual sizes for its symbols, and elements that are valid where they
select from tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import InputError
from infuse.ir import dims
from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Op
from infuse.ops.core.inference import symbols_of
from infuse.options.data import BATCH_SIZE, IMAGE_SIZE, OTHER_SIZE, require_symbols

SECOND_BATCH, SECOND_IMAGE, SECOND_OTHER = 2, 160, 13
_IMAGE_AXES = ("height", "width", "h", "w")
_KEEP_INDICES = frozenset(
    (
        "Cast",
        "Identity",
        "Reshape",
        "Unsqueeze",
        "Squeeze",
        "Flatten",
        "Transpose",
        "Expand",
        "Slice",
        "Concat",
    )
)


def is_batch(symbol: str) -> bool:
    """Whether a symbol of this name counts examples."""
    return symbol.lower().startswith("batch") or symbol.lower() in ("n", "b")


def is_image_side(symbol: str) -> bool:
    """Whether a symbol of this name is a height or width in pixels."""
    return symbol.lower() in _IMAGE_AXES or symbol.lower().endswith(("height", "width"))


def default_size(symbol: str) -> int:
    """A usual size for a symbol of this name."""
    return BATCH_SIZE if is_batch(symbol) else IMAGE_SIZE if is_image_side(symbol) else OTHER_SIZE


def input_symbols(graph: Graph) -> list[str]:
    """The symbols in the sizes of a graph's inputs, in order of appearance."""
    return list(
        dict.fromkeys(name for value in graph.inputs for name in sorted(symbols_of(value.type)))
    )


def trial_sizes(graph: Graph, fixed: Mapping[str, int]) -> list[dict[str, int]]:
    """The sizes to try: usual ones, and others where some are open. OptionError for a symbol that
    the graph lacks.
    """
    symbols = input_symbols(graph)
    require_symbols(fixed, symbols)
    usual = {name: fixed.get(name, default_size(name)) for name in symbols}
    other = {name: fixed.get(name, _second_size(name)) for name in symbols}
    return [usual, other] if other != usual else [usual]


def _second_size(symbol: str) -> int:
    return (
        SECOND_BATCH
        if is_batch(symbol)
        else SECOND_IMAGE
        if is_image_side(symbol)
        else SECOND_OTHER
    )


def has_tensor_inputs(graph: Graph) -> bool:
    """Whether all inputs are tensors of known rank, so that random ones can be made."""
    return all(isinstance(v.type, TensorType) and v.type.shape is not None for v in graph.inputs)


def drawing_nodes(graph: Graph) -> Iterator[Node]:
    """Nodes whose result is another one each time."""
    for inner in graph.all_graphs():
        yield from (
            n for n in inner.unordered_nodes if isinstance(n.op, Op) and not n.op.deterministic
        )


def random_feeds(graph: Graph, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """Arrays for all inputs without a default, which must be tensors of known rank; `sizes` are
    those of the symbols.

    InputError for an element type that has no random values, or a size that these symbols do not
    give.
    """
    rng = np.random.default_rng(seed)
    limits = index_limits(graph)
    made = {}
    for value in graph.inputs:
        if value.default is not None:
            continue
        extents = [dims.substitute(d, dict(sizes)) for d in value.shape or ()]
        shape = [d for d in extents if isinstance(d, int) and d >= 0]
        if len(shape) < len(extents):
            raise InputError(f"the shape of input {value.name!r} is {extents} under these sizes")
        largest = limits.get(value.name, 2)
        made[value.name] = random_array(value.name, value.dtype.numpy, shape, rng, largest)
    return made


def random_array(
    name: str, dtype: np.dtype[Any], shape: Sequence[int], rng: np.random.Generator, limit: int = 2
) -> Array:
    """An array for the input `name`.

    Floats are normal with variance 1. Inputs whose name says mask are ones. Other integers lie
    below `limit`: 0 and 1 are valid indices nearly everywhere.
    """
    if dtypes.by_numpy(dtype).is_float:
        return rng.standard_normal(tuple(shape), np.float32).astype(dtype)
    if dtype.kind not in "iub":
        raise InputError(
            f"there are no random values of type {dtype} for input {name!r}",
            hint="give it an array",
        )
    if "mask" in name.lower():
        return np.ones(tuple(shape), dtype)
    return rng.integers(0, limit, tuple(shape)).astype(dtype)


def index_limits(graph: Graph) -> dict[str, int]:
    """For inputs whose elements select from a table (Gather): the number of its rows, the smallest
    where several.
    """
    limits: dict[str, int] = {}
    for source in graph.inputs:
        pending, seen = [source], {source}
        while pending:
            value = pending.pop()
            for user in value.users():
                if user.kind in _KEEP_INDICES:
                    fresh = [v for v in user.outputs if v not in seen]
                    seen.update(fresh)
                    pending += fresh
                elif user.kind == "Gather" and user.input(1) is value:
                    rows = _rows(user.input(0), user.op.attributes()["axis"])
                    if rows is not None:
                        limits[source.name] = min(rows, limits.get(source.name, rows))
    return limits


def _rows(table: Value | None, axis: int) -> int | None:
    if table is None or table.tensor.shape is None:
        return None
    size = table.shape[axis]
    return size if isinstance(size, int) and size > 0 else None
