"""Inputs for a served model, of which only the protocol's metadata are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from infuse.data.arrays import read_archive
from infuse.errors import InputError, OptionError
from infuse.ir.graph import Array
from infuse.ops.core.feeds import BATCH_SIZE, OTHER_SIZE, random_array, require_symbols
from infuse.options.serving import RequestOptions

if TYPE_CHECKING:
    from infuse.serving.load.remote import Port, RemoteModel
    from infuse.serving.messages import Tensor

VARIETY = 4
"""Requests with other random elements, which are sent in turn."""
_MOST_ELEMENTS = 1 << 26


def requests_for(
    model: RemoteModel, archive: Path | None, options: RequestOptions, seed: int
) -> list[list[Tensor]]:
    """The inputs of requests to a model: those of a file, or random ones of these sizes, by
    `INPUT.AXIS`.

    InputError where a file's arrays are not what the model takes; OptionError for sizes that it has
    fixed.
    """
    if archive is not None:
        return [_stored(model, archive)]
    chosen = _axis_sizes(model, options.batch, options.sizes)
    rng = np.random.default_rng(seed)
    return [[_random(port, chosen, rng) for port in model.inputs] for _ in range(VARIETY)]


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


def _random(port: Port, sizes: Mapping[tuple[str, int], int], rng: np.random.Generator) -> Tensor:
    """A tensor of random elements; InputError for an element type that is not one of the
    protocol.
    """
    from infuse.serving.datatypes import BYTES, NUMPY
    from infuse.serving.messages import Tensor

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
    data = random_array(port.name, NUMPY[port.datatype], shape, rng)
    return Tensor(port.name, port.datatype, data)


def _stored(model: RemoteModel, path: Path) -> list[Tensor]:
    """The tensors of a file's arrays."""
    from infuse.serving.messages import Tensor

    arrays = read_archive(path, "numpy.savez writes such files, with the names of the inputs")
    names = [port.name for port in model.inputs]
    _require_names(list(arrays), names, path)
    return [
        Tensor(port.name, port.datatype, _fitting(port, arrays[port.name], path))
        for port in model.inputs
    ]


def _require_names(actual: Sequence[str], expected: Sequence[str], path: Path) -> None:
    missing = [name for name in expected if name not in actual]
    unknown = [name for name in actual if name not in expected]
    if missing or unknown:
        what = f"misses {missing[0]!r}" if missing else f"has {unknown[0]!r}"
        raise InputError(f"the file {what}, the model takes {', '.join(expected)}", where=str(path))


def _fitting(port: Port, array: Array, path: Path) -> Array:
    """An array as the port takes it; InputError for another element type or shape."""
    from infuse.serving.datatypes import BYTES, NUMPY

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
