"""Inputs for a served model, of which only the protocol's metadata are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from infuse.errors import InputError, OptionError
from infuse.options.data import BATCH_SIZE, OTHER_SIZE, require_symbols
from infuse.options.serving import RequestOptions
from infuse.runtime.session import Array
from infuse.serving.datatypes import BYTES, NUMPY
from infuse.serving.load.remote import Port, RemoteModel
from infuse.serving.messages import Tensor

VARIETY: Final = 4
"""Requests with other random elements, which are sent in turn."""
_MOST_ELEMENTS: Final = 1 << 26


Draw = Callable[[str, np.dtype[Any], Sequence[int], np.random.Generator], Array]
"""Random elements for an input of this name, element type and shape."""


def random_requests(
    model: RemoteModel, options: RequestOptions, seed: int, draw: Draw
) -> list[list[Tensor]]:
    """Requests to a model with random inputs of these sizes, by `INPUT.AXIS`, of other elements
    each. OptionError for sizes that it has fixed; InputError for an element type without random
    values.
    """
    chosen = _axis_sizes(model, options.batch, options.sizes)
    rng = np.random.default_rng(seed)
    return [[_random(port, chosen, rng, draw) for port in model.inputs] for _ in range(VARIETY)]


def stored_request(model: RemoteModel, arrays: Mapping[str, Array], where: str) -> list[Tensor]:
    """A request to a model with these arrays. InputError, about the file `where`, for arrays that
    are not what it takes.
    """
    names = [port.name for port in model.inputs]
    missing = [name for name in names if name not in arrays]
    unknown = [name for name in arrays if name not in names]
    if missing or unknown:
        what = f"misses {missing[0]!r}" if missing else f"has {unknown[0]!r}"
        raise InputError(f"the file {what}, the model takes {', '.join(names)}", where=where)
    return [
        Tensor(port.name, port.datatype, _fitting(port, arrays[port.name], where))
        for port in model.inputs
    ]


def _axis_sizes(
    model: RemoteModel, batch: int | None, sizes: Mapping[str, int]
) -> dict[tuple[str, int], int]:
    """The sizes of dynamic axes by input and axis."""
    axes = {
        f"{port.name}.{axis}": (port.name, axis)
        for port in model.inputs
        for axis, size in enumerate(port.shape)
        if size < 0
    }
    require_symbols(sizes, axes)
    firsts = [place for place in axes.values() if place[1] == 0]
    if batch is not None and not firsts:
        raise OptionError(
            "--batch needs a dynamic first axis, and the model's inputs have none",
            hint=f"it takes {', '.join(map(str, model.inputs))}",
        )
    usual = BATCH_SIZE if batch is None else batch
    return {
        place: sizes.get(name, usual if place[1] == 0 else OTHER_SIZE)
        for name, place in axes.items()
    }


def _random(
    port: Port, sizes: Mapping[tuple[str, int], int], rng: np.random.Generator, draw: Draw
) -> Tensor:
    """A tensor of random elements; InputError for an element type that is not one of the
    protocol.
    """
    shape = [size if size >= 0 else sizes[port.name, axis] for axis, size in enumerate(port.shape)]
    if prod(shape) > _MOST_ELEMENTS:
        raise InputError(
            f"random values of the shape {shape} are more than {_MOST_ELEMENTS}",
            where=f"input {port.name!r}",
        )
    if port.datatype == BYTES:
        numbers = rng.integers(0, 1000, shape)
        texts = np.array([f"text {n}".encode() for n in numbers.flat], object)
        return Tensor(port.name, BYTES, texts.reshape(shape))
    if port.datatype not in NUMPY:
        raise InputError(
            f"there are no random values of type {port.datatype}", where=f"input {port.name!r}"
        )
    data = draw(port.name, NUMPY[port.datatype], shape, rng)
    return Tensor(port.name, port.datatype, data)


def _fitting(port: Port, array: Array, path: str) -> Array:
    """An array as the port takes it; InputError for another element type or shape."""
    where = f"{path}: input {port.name!r}"
    if port.datatype == BYTES and array.dtype.kind in "SU":
        encoded = np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array
        array = encoded.astype(object)
    if array.dtype != NUMPY.get(port.datatype):
        raise InputError(f"the model takes {port.datatype}, not {array.dtype}", where=where)
    is_same_rank = len(port.shape) == array.ndim
    if not is_same_rank or any(d not in (-1, n) for d, n in zip(port.shape, array.shape)):
        raise InputError(f"the model takes {port}, not the shape {list(array.shape)}", where=where)
    return array
