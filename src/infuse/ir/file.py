"""The .infuse file: a header, a FlatBuffers table (flat/infuse.fbs) and the raw bytes of the
weights.

| bytes     | what                                                                           |
|-----------|--------------------------------------------------------------------------------|
| 0 – 7     | `INFUSE` 0 1                                                                   |
| 8 – 11    | version of the format; a reader refuses versions that are newer than it        |
| 12 – 15   | CRC-32 of the table                                                            |
| 16 – 31   | offset and length of the table                                                 |
| 32 – 47   | offset and length of the weight section, which ends the file                   |
| 64 –      | the table, then the weight section; both, and every tensor in the section,     |
|           | start at a multiple of 64                                                      |

All numbers are little-endian. Weights are not read when a file is opened: constants are read-only
views of a memory map, but those that are coded (coding/weights.py), which are decoded at once, and
those of 4 and 2 bits, which lie side by side (coding/narrow.py) and become a byte each.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

import numpy as np

from infuse.errors import GraphError, ModelFileError, OptionError
from infuse.ir.coding.narrow import stored_bytes
from infuse.ir.coding.records import coded as coded_records
from infuse.ir.flat.decode import decode
from infuse.ir.flat.encode import encode
from infuse.ir.flat.from_graph import to_records
from infuse.ir.flat.records import ALIGNMENT, Net
from infuse.ir.flat.to_graph import to_graph
from infuse.ir.graph import Array, Graph
from infuse.mapped import contents

MAGIC = b"INFUSE\0\1"
VERSION = 1
_LAYOUT = struct.Struct("<8sIIQQQQ")


class Header(NamedTuple):
    """The first bytes of a file."""

    magic: bytes
    version: int
    checksum: int
    table: int
    table_length: int
    weights: int
    weights_length: int


def save(
    graph: Graph,
    path: str | os.PathLike[str],
    *,
    coded: bool = False,
    cluster_bits: int | None = None,
) -> None:
    """Write `graph` to an .infuse file.

    The file appears whole or not at all: it is written under another name in the same folder and
    then renamed. Constants of equal bytes are stored once. With `coded`, weights are entropy coded
    where that makes them smaller; with `cluster_bits`, 2 to 8, floats of two and more axes are
    clustered before. GraphError for what cannot be stored, ModelFileError when the file cannot be
    written, OptionError for clusters of a file that is not coded.
    """
    target = Path(path)
    if cluster_bits is not None and not coded:
        raise OptionError("clusters are for coded files", hint="ask for these too: --coded")
    net, arrays = to_records(graph, VERSION, "infuse")
    if coded:
        net, arrays = coded_records(net, arrays, cluster_bits)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            _write(file, net, arrays)
        temporary.replace(target)
    except OSError as error:
        raise ModelFileError(
            f"the file cannot be written: {error.strerror or error}", where=str(target)
        ) from error
    except UnicodeEncodeError as error:
        raise GraphError(
            f"a text of the graph cannot be stored: {error}", where=str(target)
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write(file: IO[bytes], net: Net, arrays: list[Array]) -> None:
    table = encode(net)
    start = _aligned(ALIGNMENT + len(table))
    length = net.weights[-1].offset + net.weights[-1].length if net.weights else 0
    header = Header(MAGIC, VERSION, zlib.crc32(table), ALIGNMENT, len(table), start, length)
    file.write(_LAYOUT.pack(*header).ljust(ALIGNMENT, b"\0"))
    file.write(table)
    for span, array in zip(net.weights, arrays):
        file.write(bytes(start + span.offset - file.tell()))
        file.write(stored_bytes(array).data)
    file.write(bytes(start + length - file.tell()))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph in an .infuse file.

    Constants are read-only views of the file, where it is mapped (`infuse.mapped` says when): then
    nobody but this process's user could change it in place while the graph lives, and `save` never
    does that. ModelFileError when the file is missing, cut off, damaged or of a newer version;
    UnsupportedOperatorError when it has an operator that is not registered.
    """
    try:
        with Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_size < _LAYOUT.size:
                raise ModelFileError("the file is too short to be an .infuse file", where=str(path))
            mapped = memoryview(contents(file.fileno())).toreadonly()
    except (OSError, ValueError) as error:
        raise ModelFileError(f"the file cannot be opened: {error}", where=str(path)) from error
    return load_bytes(mapped, str(path))


def load_bytes(data: bytes | memoryview, where: str) -> Graph:
    """The graph in the contents of an .infuse file; `where` names them in errors. Constants are
    views of `data`.
    """
    header = read_header(data, where)
    try:
        net = decode(bytes(data[header.table : header.table + header.table_length]))
        weights = np.frombuffer(data, np.uint8)[
            header.weights : header.weights + header.weights_length
        ]
        return to_graph(net, weights)
    except ModelFileError as error:
        error.within(where)
        raise


def read_header(data: bytes | memoryview, where: str) -> Header:
    """The header, its extents checked against the size of `data` and the table against its
    checksum.
    """

    def fail(what: str, hint: str = "the file is damaged or incomplete") -> NoReturn:
        raise ModelFileError(what, where=where, hint=hint)

    size = len(data)
    if size < _LAYOUT.size:
        fail("the file is too short to be an .infuse file")
    header = Header(*_LAYOUT.unpack_from(data))
    if header.magic != MAGIC:
        fail("the file is no .infuse file", "it does not begin with INFUSE 0 1")
    if header.version > VERSION:
        fail(
            f"the file has version {header.version}, this release reads up to {VERSION}",
            "install a newer Infuse",
        )
    if (
        header.version < 1
        or header.table != ALIGNMENT
        or header.weights != _aligned(ALIGNMENT + header.table_length)
    ):
        fail("the header of the file contradicts itself")
    if header.weights + header.weights_length != size:
        fail(f"the file should have {header.weights + header.weights_length} bytes, it has {size}")
    if zlib.crc32(data[header.table : header.table + header.table_length]) != header.checksum:
        fail("the table of the file does not match its checksum")
    return header
