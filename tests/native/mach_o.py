"""What files of macOS and iOS say of themselves, read as the format has it (mach-o/loader.h)."""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAGIC: Final = 0xFEEDFACF
ARM64: Final = 0x0100000C
SYMBOLS, LOADS, IS, BUILT_FOR = 0x2, 0xC, 0xD, 0x32
"""Load commands."""
MACOS, IOS, SIMULATOR = 1, 2, 7
"""Platforms."""
_UNDEFINED, _EXTERNAL, _KIND = 0x0, 0x1, 0x0E


@dataclass
class MachO:
    """An object or a shared library."""

    processor: int
    platform: int = 0
    least: tuple[int, int] = (0, 0)
    """The oldest version of the system."""
    name: str = ""
    """What a shared library calls itself."""
    libraries: list[str] = field(default_factory=list)
    """What it loads."""
    defined: set[str] = field(default_factory=set)
    undefined: set[str] = field(default_factory=set)


def read(data: bytes) -> MachO:
    """A file's content."""
    magic, processor, _, _, count = struct.unpack_from("<5I", data)
    assert magic == MAGIC
    result, place = MachO(processor), 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, place)
        part = data[place : place + size]
        if command == BUILT_FOR:
            _, _, result.platform, least = struct.unpack_from("<4I", part)
            result.least = least >> 16, least >> 8 & 0xFF
        elif command in (IS, LOADS):
            (start,) = struct.unpack_from("<I", part, 8)
            name = part[start:].partition(b"\0")[0].decode()
            if command == IS:
                result.name = name
            else:
                result.libraries.append(name)
        elif command == SYMBOLS:
            _read_symbols(result, data, *struct.unpack_from("<4I", part, 8))
        place += size
    return result


def _read_symbols(result: MachO, data: bytes, start: int, count: int, texts: int, _: int) -> None:
    for number in range(count):
        name, kind = struct.unpack_from("<IB", data, start + 16 * number)
        text = data[texts + name :].partition(b"\0")[0].decode()
        if kind & _EXTERNAL:
            names = result.undefined if kind & _KIND == _UNDEFINED else result.defined
            names.add(text)


def members(archive: Path) -> list[MachO]:
    """The objects of a static library."""
    data, place, found = archive.read_bytes(), 8, []
    assert data[:8] == b"!<arch>\n"
    while place < len(data):
        size = int(data[place + 48 : place + 58])
        name, start = data[place : place + 16], place + 60
        if name.startswith(b"#1/"):
            start += int(name[3:])
        content = data[start : place + 60 + size]
        if content[:4] == struct.pack("<I", MAGIC):
            found.append(read(content))
        place += 60 + size + size % 2
    return found
