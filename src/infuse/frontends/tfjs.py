"""Weights of TensorFlow.js: arrays in binary shards beside `model.json`, which lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.files import map_file
from infuse.ir.graph import Array

_TYPES: Final = {"float32": "<f4", "int32": "<i4", "bool": "?", "uint8": "u1", "float16": "<f2"}
_HINT: Final = "fetch all files of the model"


def read_weights(manifest: Sequence[Mapping[str, Any]], folder: Path) -> dict[str, Array]:
    """The arrays of a weightsManifest by name, in the order of the file: those in the mapped shards
    where they are stored as they are, else what their integers or halves stand for.

    ModelFileError where a shard is missing, lies outside the folder, or has another length.
    """
    arrays: dict[str, Array] = {}
    for group in manifest:
        data = _joined([_shard(folder, path) for path in group["paths"]])
        begin = 0
        for entry in group["weights"]:
            name = str(entry["name"])
            if name in arrays:
                raise ModelFileError(f"two weights are called {name!r}")
            arrays[name], begin = _array(name, entry, data, begin)
        if begin != len(data):
            raise ModelFileError(
                f"weights of {begin} bytes lie in shards of {len(data)}: {group['paths'][:2]}",
                hint=_HINT,
            )
    return arrays


def _shard(folder: Path, path: Any) -> memoryview:
    if not isinstance(path, str) or Path(path).name != path:
        raise ModelFileError(f"the shard {path!r} lies outside the folder", hint=_HINT)
    return map_file(folder / path, f"shard {path!r}")


def _joined(shards: Sequence[memoryview]) -> memoryview:
    return shards[0] if len(shards) == 1 else memoryview(b"".join(shards))


def _array(name: str, entry: Mapping[str, Any], data: memoryview, begin: int) -> tuple[Array, int]:
    shape = [int(size) for size in entry["shape"]]
    if min(shape, default=0) < 0:
        raise ModelFileError(f"the weight {name!r} has the shape {shape}")
    quantization = entry.get("quantization") or {}
    stored = str(quantization.get("dtype", entry["dtype"]))
    if stored == "string":
        return _texts(name, shape, data, begin)
    if stored not in _TYPES and stored != "uint16":
        raise UnsupportedOperatorError(f"the weight {name!r} has elements of type {stored}")
    dtype = np.dtype(_TYPES.get(stored, "<u2"))
    end = begin + prod(shape) * dtype.itemsize
    if end > len(data):
        raise ModelFileError(
            f"the weight {name!r} ends at byte {end} of its shards, which have {len(data)}",
            hint=_HINT,
        )
    array = np.frombuffer(data[begin:end], dtype).reshape(shape)
    return _restored(array, entry, quantization), end


def _texts(name: str, shape: list[int], data: memoryview, begin: int) -> tuple[Array, int]:
    """Strings, each behind the number of its bytes in 4 of them."""
    texts = np.empty(prod(shape), object)
    for index in range(len(texts)):
        first = begin + 4
        end = first + int.from_bytes(data[begin:first], "little")
        if end > len(data):
            raise ModelFileError(
                f"string {index} of the weight {name!r} ends at byte {end} of its shards, which "
                f"have {len(data)}",
                hint=_HINT,
            )
        texts[index] = bytes(data[first:end]).decode("utf-8", "surrogateescape")
        begin = end
    return texts.reshape(shape), begin


def _restored(array: Array, entry: Mapping[str, Any], quantization: Mapping[str, Any]) -> Array:
    """What quantized elements stand for."""
    original = np.dtype(_TYPES[str(entry["dtype"])])
    if not quantization or array.dtype == original:
        return array
    if array.dtype.kind == "f":
        return array.astype(original)
    scale, low = np.float32(quantization["scale"]), np.float32(quantization["min"])
    restored: Array = array.astype(np.float32) * scale + low
    return np.round(restored).astype(original) if original.kind in "iu" else restored
