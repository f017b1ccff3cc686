"""Models on disk: streamed without a second copy of the weights, and put in place only when they
are complete.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from os import SEEK_CUR
from pathlib import Path
from typing import IO, Final

import numpy as np
from onnx import ModelProto, TensorProto

from infuse import dtypes
from infuse.errors import ModelFileError, OptionError
from infuse.exporters.onnx.messages import elements, tensor, tensor_head
from infuse.exporters.onnx.writing import Constant

LIMIT: Final = 2**31 - 1
"""What protobuf can read."""
INLINE: Final = 1024
"""Constants below this many bytes stay in the model even when the others lie beside it."""
PIECE: Final = 2**20
"""Bytes that are looked through for numbers other than zero at a time."""
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9


def total_bytes(model: ModelProto, constants: Sequence[Constant]) -> int:
    """About how large the model is in one file, never less."""
    return int(model.ByteSize()) + sum(c.array.nbytes + len(c.name) * 4 + 256 for c in constants)


def store(
    model: ModelProto, constants: Sequence[Constant], path: Path, external: bool | str | None
) -> None:
    """Write a model to `path`; see `save`."""
    if external is None:
        external = total_bytes(model, constants) > LIMIT
    name = external if isinstance(external, str) else f"{path.name}.data"
    external = external is not False
    if external and (not name or Path(name).name != name or name == path.name):
        raise OptionError(
            f"external data cannot be called {name!r}", hint="give a file name without a folder"
        )
    if path.is_dir():
        raise ModelFileError("the model cannot be written: it is a folder", where=str(path))
    targets = ([path.parent / name] if external else []) + [path]
    temporary = [target.with_name(f".{target.name}.{secrets.token_hex(6)}") for target in targets]
    try:
        outside = _write_data(temporary[0], constants) if external else {}
        _write_model(temporary[-1], model, constants, outside, name)
        for source, target in zip(temporary, targets):
            source.replace(target)
    except OSError as error:
        raise ModelFileError(
            f"the model cannot be written: {error.strerror or error}", where=str(path)
        ) from error
    finally:
        for source in temporary:
            source.unlink(missing_ok=True)


def _write_data(path: Path, constants: Sequence[Constant]) -> dict[str, tuple[int, int]]:
    """Write large constants one after another; where each lies."""
    places: dict[str, tuple[int, int]] = {}
    with path.open("wb") as file:
        for item in constants:
            if item.array.nbytes < INLINE or item.dtype == dtypes.string:
                continue
            data = elements(item.array, item.dtype)
            step = 4096 if len(data) >= 4096 else 64
            begin = -(-file.tell() // step) * step
            file.seek(begin)
            _write_sparsely(file, data)
            places[item.name] = (begin, len(data))
        file.truncate()
    return places


def _write_sparsely(file: IO[bytes], data: bytes | memoryview) -> None:
    """Write `data` with holes where it is zero, which take no space on most file systems."""
    for begin in range(0, len(data), PIECE):
        piece = data[begin : begin + PIECE]
        if np.frombuffer(piece, np.uint8).any():
            file.write(piece)
        else:
            file.seek(len(piece), SEEK_CUR)


def _write_model(
    path: Path,
    model: ModelProto,
    constants: Sequence[Constant],
    outside: dict[str, tuple[int, int]],
    location: str,
) -> None:
    """Write the message of the model, with the initializers as further fields of its graph."""
    chunks: list[bytes | memoryview] = []
    for item in constants:
        parts = _initializer(item, outside.get(item.name), location)
        chunks += [_head(_INITIALIZER, sum(map(len, parts))), *parts]
    graph = model.graph.SerializeToString()
    outer = ModelProto()
    outer.CopyFrom(model)
    outer.ClearField("graph")
    head = outer.SerializeToString()
    size = len(graph) + sum(map(len, chunks))
    if len(head) + size + 16 > LIMIT:
        raise ModelFileError(
            f"in one file the model would take {len(head) + size} bytes; protobuf reads at most "
            f"{LIMIT}",
            where=str(path),
            hint="let the weights lie beside it: external_data=True",
        )
    with path.open("wb") as file:
        file.writelines([head, _head(_GRAPH, size), graph, *chunks])


def _initializer(
    item: Constant, place: tuple[int, int] | None, location: str
) -> list[bytes | memoryview]:
    """The message of a constant in parts that are not copied."""
    if item.dtype == dtypes.string:
        return [tensor(item.name, item.array, item.dtype).SerializeToString()]
    proto = tensor_head(item.name, item.array, item.dtype)
    if place is not None:
        proto.data_location = TensorProto.EXTERNAL
        for key, text in (
            ("location", location),
            ("offset", str(place[0])),
            ("length", str(place[1])),
        ):
            proto.external_data.add(key=key, value=text)
        return [proto.SerializeToString()]
    data = elements(item.array, item.dtype)
    return [proto.SerializeToString(), _head(_RAW_DATA, len(data)), data]


def _head(field: int, size: int) -> bytes:
    """The tag and length in front of a field."""
    out = bytearray([field << 3 | 2])
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)
