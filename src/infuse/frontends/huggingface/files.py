"""The files of a Hugging Face folder: configuration and weights (safetensors), read in place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.files import map_file
from infuse.ir.graph import Array

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
INDEX: Final = "model.safetensors.index.json"
_MOST_HEADER: Final = 100 << 20
_DTYPES: Final[Mapping[str, DType]] = {
    "F64": dtypes.float64, "F32": dtypes.float32, "F16": dtypes.float16,
    "BF16": dtypes.bfloat16, "I64": dtypes.int64, "I32": dtypes.int32, "I16": dtypes.int16,
    "I8": dtypes.int8, "U8": dtypes.uint8, "BOOL": dtypes.bool_, "U16": dtypes.uint16,
    "U32": dtypes.uint32, "U64": dtypes.uint64, "F8_E4M3": dtypes.float8e4m3fn,
    "F8_E5M2": dtypes.float8e5m2,
}  # fmt: skip


class Config:
    """The configuration of a model: its fields as attributes, an error where one is missing."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self._fields, self._where = fields, where

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or a default where it is absent or null."""
        value = self._fields.get(name)
        return default if value is None else value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self._fields.get(name)
        if value is None:
            raise ModelFileError(f"{CONFIG} has no {name!r}", where=self._where)
        return value

    def require(self, name: str, *allowed: Any) -> None:
        """UnsupportedOperatorError where a field has another value than these, or the first."""
        value = self.get(name, allowed[0])
        if value not in allowed:
            choices = " or ".join(map(repr, allowed))
            raise UnsupportedOperatorError(
                f"{CONFIG} says {name} = {value!r}; {choices} is supported", where=self._where
            )


def read_config(folder: Path) -> Config:
    """The configuration of a folder."""
    return Config(_json(folder / CONFIG), str(folder))


def read_weights(folder: Path) -> dict[str, Array]:
    """All weights of a folder by name, in their places of the mapped files; ModelFileError where a
    file is missing or damaged.
    """
    if (folder / WEIGHTS).is_file():
        return read_safetensors(folder / WEIGHTS)
    if not (folder / INDEX).is_file():
        raise ModelFileError(
            f"there is neither {WEIGHTS} nor {INDEX}",
            where=str(folder),
            hint="save the model with save_pretrained(folder, safe_serialization=True)",
        )
    places = _json(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(p, str) for p in places.values()):
        raise ModelFileError(f"{INDEX} has no weight_map", where=str(folder))
    weights: dict[str, Array] = {}
    for name in sorted(set(places.values())):
        if Path(name).name != name:
            raise ModelFileError(f"the shard {name!r} lies outside the folder", where=str(folder))
        if not (folder / name).is_file():
            raise ModelFileError(
                f"the shard {name!r} is missing",
                where=str(folder),
                hint="fetch all files of the model",
            )
        weights |= read_safetensors(folder / name)
    missing = sorted(places.keys() - weights.keys())
    if missing:
        raise ModelFileError(
            f"{len(missing)} weights of {INDEX} are in no shard, {missing[0]!r} first",
            where=str(folder),
        )
    return weights


def read_safetensors(path: Path) -> dict[str, Array]:
    """The tensors of a file by name, in their places of the mapped file."""
    where, data = str(path), map_file(path)
    length = int.from_bytes(bytes(data[:8]), "little")
    if len(data) < 8 or length > min(len(data) - 8, _MOST_HEADER):
        raise ModelFileError(
            "it is not a safetensors file, or was cut off", where=where, hint="fetch it again"
        )
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {name: _tensor(entry, data[8 + length :]) for name, entry in entries.items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ModelFileError(
            f"its header is damaged: {error}", where=where, hint="fetch it again"
        ) from error


def _tensor(entry: Mapping[str, Any], data: memoryview) -> Array:
    dtype = _DTYPES[entry["dtype"]].numpy
    begin, end = entry["data_offsets"]
    shape = [int(size) for size in entry["shape"]]
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(data):
        raise ValueError(f"a tensor of shape {shape} lies at {begin} to {end} of {len(data)}")
    return np.frombuffer(data[begin:end], dtype).reshape(shape)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(bytes(map_file(path)))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"it is not JSON: {error}", where=str(path)) from error
    if not isinstance(content, dict):
        raise ModelFileError("it is not a JSON object", where=str(path))
    return content
