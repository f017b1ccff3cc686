"""WAV files: what is in the chunks `fmt ` and `data`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from infuse.errors import RequestError
from infuse.runtime.session import Array

_PCM: Final = 1
_FLOAT: Final = 3
_EXTENSIBLE: Final = 0xFFFE
_FORMAT: Final = struct.Struct(
    "<HHIIHH"
)  # kind, channels, rate, bytes a second, bytes a frame, bits a sample
_UNKNOWN: Final = 0xFFFFFFFF  # the size of a chunk whose writer did not know it


@dataclass(frozen=True)
class Sound:
    """Samples [frames, channels] in float64, and how many frames a second has."""

    data: Array
    rate: int


def read_wave(file: bytes, check: Callable[[int, int, int], None]) -> Sound:
    """A WAV file of integers of 8 to 32 bits or floats of 32 or 64. `check(rate, channels, frames)`
    may refuse it.
    """
    head: tuple[int, int, int, int, int] | None = None
    for name, start, size in _chunks(file):
        if name == b"fmt ":
            head = _head(file[start : start + size])
        elif name == b"data":
            if head is None:
                raise RequestError("it is a WAV file whose samples come before their format")
            kind, channels, rate, width, bits = head
            body = memoryview(file)[start : start + size]
            frames = len(body) // (width * channels)
            check(rate, channels, frames)
            samples = _samples(body[: frames * width * channels], kind, width, bits)
            return Sound(samples.reshape(frames, channels), rate)
    raise RequestError("it is a WAV file without samples")


def _chunks(file: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and size of the chunks."""
    position = 12
    while position + 8 <= len(file):
        name, size = struct.unpack_from("<4sI", file, position)
        start = position + 8
        if size == _UNKNOWN and name == b"data":
            size = len(file) - start
        if start + size > len(file):
            text = name.decode("ascii", "replace").strip()
            raise RequestError(
                f"it is a WAV file that is cut off: chunk '{text}' has {size} bytes, "
                f"{len(file) - start} are there"
            )
        yield name, start, size
        position = start + size + size % 2


def _head(chunk: bytes) -> tuple[int, int, int, int, int]:
    """Kind, channels, rate, bytes a sample, and bits of them that count."""
    if len(chunk) < _FORMAT.size:
        raise RequestError("it is a WAV file whose format is cut off")
    kind, channels, rate, _, frame, bits = _FORMAT.unpack_from(chunk)
    if kind == _EXTENSIBLE and len(chunk) >= 26:
        kind = int.from_bytes(chunk[24:26], "little")
    width = (bits + 7) // 8
    supported = (kind == _PCM and 1 <= width <= 4) or (kind == _FLOAT and bits in (32, 64))
    if not supported:
        raise RequestError(
            f"it is a WAV file of a kind that is not read (format {kind}, {bits} bits)"
        )
    if channels == 0 or frame != width * channels:
        raise RequestError(
            f"it is a WAV file whose format contradicts itself: {channels} channels, {frame} bytes "
            "each"
        )
    return kind, channels, rate, width, bits


def _samples(body: memoryview, kind: int, width: int, bits: int) -> Array:
    """All samples in float64, integers over their largest magnitude."""
    if kind == _FLOAT:
        return np.frombuffer(body, f"<f{width}").astype(np.float64)
    if width == 1:
        return (np.frombuffer(body, np.uint8).astype(np.float64) - 128) / 128
    if width == 3:
        wide = np.zeros((len(body) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(body, np.uint8).reshape(-1, 3)
        return wide.view("<i4").reshape(-1).astype(np.float64) / 2.0**31
    return np.frombuffer(body, f"<i{width}").astype(np.float64) / 2.0 ** (8 * width - 1)
