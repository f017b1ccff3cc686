"""Zip archives of models: members by name, stored ones without a copy."""

from __future__ import annotations

import errno
import io
import zipfile
import zlib
from struct import error as StructError
from typing import Final

import numpy as np

from infuse.errors import ModelFileError
from infuse.mapped import give_back

_LOCAL: Final = 30
"""Bytes of the header in front of a member, before its name."""
_CHUNK: Final = 1 << 24
"""Bytes of a member that are in memory at once while it is checked."""
_MOST_PACKED: Final = 1 << 31
"""Bytes that a compressed member may have."""
_MOST_TIMES: Final = 1100
"""How much smaller than it was a member can be: deflate reaches 1032."""
_DAMAGED: Final = (
    zipfile.BadZipFile,
    zlib.error,
    StructError,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)


class Archive:
    """The members of a zip archive, by name without the folder that all of them share; nothing is
    ever written to disk. ModelFileError where the archive is damaged.
    """

    def __init__(self, data: memoryview, where: str) -> None:
        self._data, self.where = data, where
        try:
            self._zip = zipfile.ZipFile(io.BufferedReader(View(data)))
            infos = [i for i in self._zip.infolist() if i.filename and not i.is_dir()]
        except _DAMAGED as error:
            raise self._damaged(str(error)) from error
        folders = {info.filename.partition("/")[0] for info in infos}
        shared = len(folders) == 1 and all("/" in info.filename for info in infos)
        self.folder = folders.pop() if shared else ""
        start = len(self.folder) + 1 if shared else 0
        self._members = {info.filename[start:]: info for info in infos}
        if len(self._members) != len(infos):
            raise self._damaged("two members have one name")

    @property
    def names(self) -> list[str]:
        """Names of all members."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> memoryview:
        """The bytes of a member: those in the archive where it is stored, else decompressed."""
        info = self._members.get(name)
        if info is None:
            raise ModelFileError(f"the archive has no member {name!r}", where=self.where)
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
            return self._stored(info)
        if info.file_size > _MOST_PACKED or info.file_size > _MOST_TIMES * info.compress_size + 64:
            raise self._damaged(
                f"member {name!r} says that it has {info.file_size} bytes, of which "
                f"{info.compress_size} are stored"
            )
        try:
            return memoryview(self._zip.read(info))
        except _DAMAGED as error:
            raise self._damaged(f"member {name!r}: {error}") from error

    def check(self, name: str) -> None:
        """ModelFileError where a stored member has not the checksum that the archive tells."""
        checksum = 0
        data = self.read(name)
        for start in range(0, len(data), _CHUNK):
            part = data[start : start + _CHUNK]
            checksum = zlib.crc32(part, checksum)
            give_back(np.frombuffer(part, np.uint8))
        if checksum != self._members[name].CRC:
            raise self._damaged(f"member {name!r} has not its checksum")

    def _stored(self, info: zipfile.ZipInfo) -> memoryview:
        head = bytes(self._data[info.header_offset : info.header_offset + _LOCAL])
        if len(head) < _LOCAL or head[:4] != b"PK\x03\x04":
            raise self._damaged(f"member {info.filename!r} is not where it should be")
        lengths = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        begin = info.header_offset + _LOCAL + lengths
        if info.file_size != info.compress_size or begin + info.file_size > len(self._data):
            raise self._damaged(f"member {info.filename!r} is cut off")
        return self._data[begin : begin + info.file_size]

    def _damaged(self, why: str) -> ModelFileError:
        return ModelFileError(
            f"the zip archive is damaged: {why}",
            where=self.where,
            hint="fetch or export it again",
        )


class View(io.RawIOBase):
    """A file that lies in memory."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._place = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: len(self._data)}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "a place before the start")  # as files do
        self._place = base + offset
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        part = self._data[self._place : self._place + len(buffer)]
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)
