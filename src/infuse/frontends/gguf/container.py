"""The container of GGUF files (versions 2 and 3, little-endian): fields and tensors in place.

Source: docs/gguf.md of the repository ggml-org/ggml. Nothing that a file states is used before it
is held against the file's size, and nothing is executed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.files import foreign_format, map_file
from infuse.frontends.gguf.metadata import Metadata
from infuse.frontends.gguf.wire import HINT, Header
from infuse.immutable import Immutable
from infuse.ops.core.weight_formats import BlockFormat, format_of

MAGIC: Final = b"GGUF"
ALIGNMENT: Final = "general.alignment"
_ALIGNED: Final = 32
_VERSIONS: Final = (2, 3)
_AXES: Final = 4
_LONGEST_NAME: Final = 65535
_MOST_ELEMENTS: Final = 1 << 56
_LEAST_FIELD, _LEAST_TENSOR = 13, 24
"""Bytes that a field and the description of a tensor have at least."""
_SHARD: Final = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


class GgufTensor(Immutable, eq=False):
    """A tensor: `shape` with the outermost axis first, `format` of its blocks, `offset` in bytes
    from the beginning of its file, and `rows`, its bytes in the mapped file, uint8 (rows, bytes of
    a row), where a row is the last axis.
    """

    name: str
    shape: tuple[int, ...]
    format: BlockFormat
    offset: int
    rows: npt.NDArray[np.uint8]

    def array(self) -> npt.NDArray[Any]:
        """The elements in their shape: plain types of the format as they lie in the file, blocks
        dequantized to float32. UnsupportedOperatorError for a format that is not supported.
        """
        return self.format.elements(self.rows).reshape(self.shape)


class GgufFile:
    """A GGUF file, or all files of one that is split, mapped into memory.

    `metadata`: its fields (those of the first file); `tensors`: by name, in their order.
    ModelFileError for a file that is damaged or no GGUF file, UnsupportedOperatorError for another
    version, big-endian files and unknown formats, and BudgetError for a header that lists more than
    the budget `entries` allows.
    """

    metadata: Metadata
    tensors: Mapping[str, GgufTensor]

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        fields, tensors = _read(self.path)
        count = Metadata(fields, str(self.path)).integer("split.count", 1)
        self.paths = [self.path]
        if count > 1:
            self.paths = _shards(self.path, count)
            parts = [_read(shard) for shard in self.paths]
            fields, tensors = parts[0][0], _joined(self.paths, parts)
        self.metadata, self.tensors = Metadata(fields, str(self.paths[0])), tensors


def _read(path: Path) -> tuple[dict[str, Any], dict[str, GgufTensor]]:
    """The fields and tensors of one file."""
    data, where = map_file(path), str(path)
    _check_version(bytes(data[:8]), where)
    header = Header(data, where)
    header.word("the magic")
    header.word("the version")
    tensor_count = header.count(_LEAST_TENSOR, "tensors")
    fields = _fields(header, header.count(_LEAST_FIELD, "fields"))
    aligned = Metadata(fields, where).integer(ALIGNMENT, _ALIGNED)
    if aligned <= 0 or aligned % 8:
        raise ModelFileError(f"{ALIGNMENT} is {aligned}, no multiple of 8", where=where, hint=HINT)
    described = [_described(header, number) for number in range(tensor_count)]
    start = -(-header.place // aligned) * aligned
    tensors: dict[str, GgufTensor] = {}
    for name, shape, block, offset in described:
        if name in tensors:
            raise ModelFileError(f"two tensors are named {name!r}", where=where, hint=HINT)
        if offset % aligned:
            raise ModelFileError(
                f"its offset {offset} is no multiple of {aligned}",
                where=f"{where}: tensor {name!r}",
                hint=HINT,
            )
        tensors[name] = _tensor(data, name, shape, block, start + offset, where)
    _check_overlaps(tensors, where)
    return fields, tensors


def _check_version(head: bytes, where: str) -> None:
    if head[:4] != MAGIC:
        advice = foreign_format(head) if head else "it is empty"
        raise ModelFileError("it is not a GGUF file", where=where, hint=advice)
    if len(head) < 8:
        raise ModelFileError("it ends within its header", where=where, hint=HINT)
    version = int.from_bytes(head[4:], "little")
    if version in _VERSIONS:
        return
    if int.from_bytes(head[4:], "big") in (*_VERSIONS, 1):
        raise UnsupportedOperatorError(
            "it is a big-endian GGUF file",
            where=where,
            hint="convert it to little-endian, as gguf_convert_endian.py of llama.cpp does",
        )
    raise UnsupportedOperatorError(
        f"it is a GGUF file of version {version}; versions 2 and 3 are supported",
        where=where,
        hint="convert the model again with a newer converter" if version == 1 else None,
    )


def _fields(header: Header, count: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for number in range(count):
        key = header.text(f"the name of field {number}")
        if not key or len(key) > _LONGEST_NAME:
            raise ModelFileError(
                f"the name of field {number} has {len(key)} characters",
                where=header.where,
                hint=HINT,
            )
        if key in fields:
            raise ModelFileError(f"it has two fields {key!r}", where=header.where, hint=HINT)
        fields[key] = header.value(f"the field {key!r}")
    return fields


def _described(header: Header, number: int) -> tuple[str, tuple[int, ...], BlockFormat, int]:
    """The name, the shape, the format and the offset from the data's begin of the next tensor."""
    name = header.text(f"the name of tensor {number}")
    where = f"{header.where}: tensor {name[:_LONGEST_NAME]!r}"
    if len(name) > _LONGEST_NAME:
        raise ModelFileError("its name is too long", where=where, hint=HINT)
    rank = header.word(f"the rank of tensor {name!r}")
    if rank > _AXES:
        raise ModelFileError(f"it has {rank} axes; {_AXES} are allowed", where=where, hint=HINT)
    shape = header.longs(rank, f"the shape of tensor {name!r}")[::-1]
    try:
        block = format_of(header.word(f"the format of tensor {name!r}"))
    except UnsupportedOperatorError as error:
        error.within(where)
        raise
    return name, shape, block, header.long(f"the offset of tensor {name!r}")


def _tensor(
    data: memoryview, name: str, shape: tuple[int, ...], block: BlockFormat, start: int, where: str
) -> GgufTensor:
    length = shape[-1] if shape else 1
    if length % block.weights:
        raise ModelFileError(
            f"its rows have {length} elements, no multiple of the {block.weights} of a block of "
            f"{block.name}",
            where=f"{where}: tensor {name!r}",
            hint=HINT,
        )
    rows, size = math.prod(shape[:-1]), length // block.weights * block.bytes
    elements = math.prod(max(axis, 1) for axis in shape)
    if start + rows * size > len(data) or elements > _MOST_ELEMENTS:
        raise ModelFileError(
            f"its {rows * size} bytes of shape {list(shape)} ({block.name}) begin at byte {start}, "
            f"and the file has {len(data)}",
            where=f"{where}: tensor {name!r}",
            hint=HINT,
        )
    content = np.frombuffer(data[start : start + rows * size], np.uint8).reshape(rows, size)
    return GgufTensor(name, shape, block, start, content)


def _check_overlaps(tensors: Mapping[str, GgufTensor], where: str) -> None:
    last, end = "", 0
    for tensor in sorted((t for t in tensors.values() if t.rows.size), key=lambda t: t.offset):
        if tensor.offset < end:
            raise ModelFileError(
                f"its bytes begin at byte {tensor.offset}, within those of tensor {last!r}",
                where=f"{where}: tensor {tensor.name!r}",
                hint=HINT,
            )
        last, end = tensor.name, tensor.offset + tensor.rows.size


def _shards(path: Path, count: int) -> list[Path]:
    """The files that a model of `count` files is split into, any of which is `path`."""
    match = _SHARD.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise ModelFileError(
            f"it is one of {count} files, which its name does not say",
            where=str(path),
            hint=f"name the files NAME-00001-of-{count:05}.gguf and so on",
        )
    shards = [
        path.with_name(f"{match['stem']}-{number:05}-of-{count:05}.gguf")
        for number in range(1, count + 1)
    ]
    for shard in shards:
        if not shard.is_file():
            raise ModelFileError(
                f"the model is split into {count} files, and {shard.name!r} is missing",
                where=str(path),
                hint="fetch all files of the model into one folder",
            )
    return shards


def _joined(
    paths: list[Path], parts: list[tuple[dict[str, Any], dict[str, GgufTensor]]]
) -> dict[str, GgufTensor]:
    """The tensors of all files of one model."""
    tensors: dict[str, GgufTensor] = {}
    for number, (path, (fields, own)) in enumerate(zip(paths, parts)):
        metadata = Metadata(fields, str(path))
        stated = metadata.integer("split.no", 0), metadata.integer("split.count", 1)
        if stated != (number, len(paths)):
            raise ModelFileError(
                f"it says that it is file {stated[0] + 1} of {stated[1]}, not "
                f"{number + 1} of {len(paths)}",
                where=str(path),
                hint="the files belong to different models, or were renamed; fetch them again",
            )
        twice = sorted(own.keys() & tensors.keys())
        if twice:
            raise ModelFileError(
                f"the tensor {twice[0]!r} is in a file before, too", where=str(path), hint=HINT
            )
        tensors |= own
    total = Metadata(parts[0][0], str(paths[0])).integer("split.tensors.count", len(tensors))
    if total != len(tensors):
        raise ModelFileError(
            f"its files have {len(tensors)} tensors, not the {total} that it states",
            where=str(paths[0]),
            hint="fetch all files again",
        )
    return tensors
