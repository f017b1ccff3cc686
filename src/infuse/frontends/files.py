"""Model files and the files of external tensors beside them, memory-mapped and checked."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from infuse.errors import ModelFileError
from infuse.mapped import contents

_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (
        b"version https://git-lfs",
        "it is a Git LFS pointer; run `git lfs pull` to fetch the model itself",
    ),
    (
        b"PK\x03\x04",
        "it is a zip archive, as PyTorch and Keras write; save it by torch.export, or as ONNX",
    ),
    (b"\x89HDF\r\n\x1a\n", "it is an HDF5 file, as Keras writes; load it with infuse.load"),
    (
        b"GGUF",
        "it is a language model in GGUF; infuse generate and infuse.LanguageModel run it",
    ),
    (b"\x1f\x8b", "it is compressed with gzip; decompress it first"),
    (b"\x80\x02", "it is a Python pickle, as PyTorch writes; save it by torch.export"),
    (b"\x80\x04", "it is a Python pickle; export the model to ONNX first"),
)


def map_file(path: Path, what: str = "model file") -> memoryview:
    """The bytes of a file, mapped into memory where that is safe (`infuse.mapped`); else
    ModelFileError.
    """
    where = str(path)
    try:
        # O_NONBLOCK: opening a pipe must not wait for a writer.
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"the {what} cannot be opened: {_reason(error)}", where=where
        ) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise ModelFileError(
                f"the {what} is {kind}", where=where, hint="give the path of the file itself"
            )
        return memoryview(contents(handle)).toreadonly()
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"the {what} cannot be brought into memory: {_reason(error)}", where=where
        ) from error
    finally:
        os.close(handle)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def foreign_format(head: bytes) -> str | None:
    """What to do with a file that begins like this, when it is known to be something else than
    ONNX.
    """
    for magic, advice in _MAGIC:
        if head.startswith(magic):
            return advice
    if head[4:8] == b"TFL3":
        return "it is a TensorFlow Lite model; load it with infuse.load"
    if head.lstrip()[:1] in (b"{", b"<", b"["):
        return "it is text (JSON, XML or ONNX's text form), not a binary ONNX model"
    if len(head) >= 8 and all(b in b"\t\r\n" or 32 <= b < 127 for b in head):
        return "it is text, not a binary ONNX model"
    return None


@dataclass
class ExternalFiles:
    """The files that external tensors of one model lie in.

    `model` is the model's path, None when it came from memory. A tensor's file must lie inside the
    model's folder after symbolic links are resolved: a model must not make its user read other
    files of the machine.
    """

    model: Path | None
    folder: Path | None = None
    _maps: dict[Path, memoryview] = field(default_factory=dict)
    _ranges: dict[Path, dict[tuple[int, int], str]] = field(default_factory=dict)

    def read(self, tensor: str, entries: dict[str, str], size: int) -> memoryview:
        """The `size` bytes of elements of a tensor whose external_data is `entries`."""
        location = entries.get("location", "")
        path = self._locate(tensor, location)
        offset, length = (_number(tensor, key, entries.get(key)) for key in ("offset", "length"))
        begin = offset or 0
        if length is not None and length != size:
            raise ModelFileError(
                f"its type and shape need {size} bytes, its external data in {location!r} is said "
                f"to have {length}",
                where=f"tensor {tensor!r}",
            )
        if size == 0:
            return memoryview(b"")
        data = self._maps.get(path)
        if data is None:
            data = self._maps[path] = _map_external(tensor, path, location)
        if begin + size > len(data):
            raise ModelFileError(
                f"its {size} bytes begin at byte {begin} of {location!r}, which has only "
                f"{len(data)} bytes",
                where=f"tensor {tensor!r}",
                hint="the file was cut off, or belongs to another model; fetch or export it again",
            )
        self._ranges.setdefault(path, {}).setdefault((begin, begin + size), tensor)
        return data[begin : begin + size]

    def check_overlaps(self) -> None:
        """ModelFileError when two tensors share a part of their bytes; a whole tensor may be
        shared.
        """
        for ranges in self._ranges.values():
            last: tuple[int, int] = (0, 0)
            for begin, end in sorted(ranges, key=lambda r: (r[0], -r[1])):
                if begin < last[1] < end:
                    raise ModelFileError(
                        f"its external bytes {begin} to {end} overlap those of tensor "
                        f"{ranges[last]!r}, "
                        f"{last[0]} to {last[1]}",
                        where=f"tensor {ranges[begin, end]!r}",
                        hint="the offsets in the model are wrong; export it again",
                    )
                last = max(last, (begin, end), key=lambda r: r[1])

    def _locate(self, tensor: str, location: str) -> Path:
        where = f"tensor {tensor!r}"
        if self.model is None and self.folder is None:
            raise ModelFileError(
                f"its elements lie in the file {location!r}, but the model came from memory, "
                "without a folder",
                where=where,
                hint="load the model from its path, or pass folder=",
            )
        if not location or "\0" in location:
            raise ModelFileError(
                f"the location {location!r} of its external data is not a file name", where=where
            )
        folder = self.folder if self.folder is not None else Path(self.model or "").parent
        try:
            roots = {folder.resolve()} | (
                {self.model.resolve().parent} if self.model is not None else set()
            )
            path = (folder / location).resolve()
        except (OSError, RuntimeError) as error:
            raise ModelFileError(
                f"the location {location!r} cannot be resolved: {error}", where=where
            ) from error
        if Path(location).is_absolute() or not any(path.is_relative_to(root) for root in roots):
            raise ModelFileError(
                f"its external data {location!r} lies outside the model's folder",
                where=where,
                hint="external data must be stored beside the model, under a relative path",
            )
        return path


def _map_external(tensor: str, path: Path, location: str) -> memoryview:
    try:
        return map_file(path, f"external data file {location!r}")
    except ModelFileError as error:
        error.within(f"tensor {tensor!r}")
        raise


def _number(tensor: str, key: str, text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ModelFileError(
            f"the {key} {text[:40]!r} of its external data is not a number of bytes",
            where=f"tensor {tensor!r}",
        )
    return int(text)
