"""The shared library of a compiled model and its weights, in memory."""

from __future__ import annotations

import _ctypes
import ctypes
import json
import mmap
import os
import re
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from infuse.errors import CompiledModelError, RuntimeFailure
from infuse.mapped import MappedFile, contents, give_back, is_ours
from infuse.runtime.folder import LIBRARY, check_abi, may_refuse

_POINTER = ctypes.c_void_p
CONTEXTS: dict[str, tuple[Any, list[Any]]] = {
    "infuse_run": (ctypes.c_int, [_POINTER, _POINTER, _POINTER, _POINTER]),
    "infuse_cancel": (None, [_POINTER, ctypes.c_int]),
    "infuse_output": (_POINTER, [_POINTER, ctypes.c_int, _POINTER]),
    "infuse_error": (ctypes.c_char_p, [_POINTER]),
    "infuse_arena_bytes": (ctypes.c_int64, [_POINTER]),
    "infuse_live_bytes": (ctypes.c_int64, [_POINTER]),
    "infuse_close": (None, [_POINTER]),
}
"""Functions of an open context, whatever opened it: what each gives and takes."""
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "infuse_metadata": (ctypes.c_char_p, []),
    "infuse_open": (_POINTER, [_POINTER, ctypes.c_int]),
    "infuse_shapes": (ctypes.c_int, [_POINTER, _POINTER]),
    **CONTEXTS,
}


class Library(ABC):
    """The binary interface of a model, and its weights mapped read-only. Every open context keeps a
    reference.
    """

    metadata: dict[str, Any]
    """What is known of the model."""
    _functions: Any
    _weights: np.ndarray[Any, np.dtype[np.uint8]]
    run: Any
    """`infuse_run`."""

    @abstractmethod
    def open(self, threads: int) -> int:
        """A new context with its own arena and threads; to be given to `close`."""

    @abstractmethod
    def output_sizes(self, symbols: int, total: int) -> list[int] | None:
        """The `total` sizes of all outputs for the symbol values at this address; None if they are
        invalid.
        """

    @abstractmethod
    def records(self, handle: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
        """A copy of the records of the last run of a context, and how many more there were.

        A row is a step that ran, in the order in which they ended: the number of its program, its
        own, when it began and ended (nanoseconds), and the values of the symbols that the metadata
        lists as `profile`.
        """

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights file."""
        return int(self._weights.nbytes)

    def give_back(self) -> None:
        """Let the weights leave the memory of this process until a run reads them again."""
        give_back(self._weights)

    def opened(self, handle: int | None, threads: int) -> int:
        """The handle of a context; RuntimeFailure where it was not opened."""
        if handle:
            return int(handle)
        if refused := self.error(0) if may_refuse(self.metadata) else "":
            raise RuntimeFailure(
                refused, hint="compile it for another target, such as x86-64-v4 or aarch64"
            )
        raise RuntimeFailure(
            f"there is not enough memory to open the model with {threads} threads",
            hint="use fewer threads or fewer concurrent calls, or give the process more memory",
        )

    def close(self, handle: int) -> None:
        """End a context that no call is using."""
        self._functions.infuse_close(handle)

    def cancel(self, handle: int, cancelled: bool) -> None:
        """Let runs of a context end before their next step, or go on; any thread may."""
        self._functions.infuse_cancel(handle, cancelled)

    def error(self, handle: int) -> str:
        """The text of the last failure of a context."""
        return (self._functions.infuse_error(handle) or b"").decode("utf-8", "replace")

    def late_output(
        self, handle: int, number: int, dtype: np.dtype[Any], rank: int
    ) -> np.ndarray[Any, Any]:
        """A copy of an output whose sizes the last run of a context found out."""
        sizes = (ctypes.c_int64 * max(1, rank))()
        address = self._functions.infuse_output(handle, number, ctypes.addressof(sizes))
        result = np.empty(tuple(sizes[:rank]), dtype)
        if result.nbytes:
            ctypes.memmove(result.ctypes.data, address, result.nbytes)
        return result

    def arena_bytes(self, handle: int) -> int:
        """Bytes of working memory of a context."""
        return int(self._functions.infuse_arena_bytes(handle))

    def live_bytes(self, handle: int) -> int:
        """The most bytes of intermediate tensors that were live at once in the last run of a
        context.
        """
        return int(self._functions.infuse_live_bytes(handle))


class CompiledLibrary(Library):
    """The shared library of a compiled model, with the functions of its interface.

    Unloaded when the last reference is gone.
    """

    def __init__(
        self, folder: Path, weights: np.ndarray[Any, np.dtype[np.uint8]], prefix: str = "infuse"
    ) -> None:
        """`prefix`: what the names of the functions begin with, as the folder's metadata says."""
        path = folder / LIBRARY
        if not re.fullmatch(r"[A-Za-z]\w*", prefix, re.ASCII):
            raise CompiledModelError(
                f"its functions cannot begin with {prefix!r}", where=str(folder)
            )
        self._prefix = prefix
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise CompiledModelError(
                f"the library cannot be loaded: {error}",
                where=str(path),
                hint="compile the model again",
            ) from error
        self._functions: Any = SimpleNamespace()
        weakref.finalize(self, _ctypes.dlclose, self._library._handle).atexit = False
        for name, (result, arguments) in _PROTOTYPES.items():
            function = self._function(name)
            if function is None:
                raise CompiledModelError(
                    f"the library has no function {self._named(name)}",
                    where=str(path),
                    hint="compile the model again",
                )
            function.restype, function.argtypes = result, arguments
            setattr(self._functions, name, function)
        self.metadata = self._read_metadata(path)
        self._weights = weights
        self._profile = self._find_profile() if "profile" in self.metadata else None
        self.run = self._functions.infuse_run

    def _named(self, function: str) -> str:
        """The name of a function of the interface in this library."""
        return f"{self._prefix}{function.removeprefix('infuse')}"

    def _function(self, name: str) -> Any:
        """A new function object, None where the library has none. The library refers to those that
        are its attributes, so that it would stay until garbage is collected, with its weights.
        """
        try:
            return self._library[self._named(name)]
        except AttributeError:
            return None

    def _find_profile(self) -> Any:
        function = self._function("infuse_profile")
        function.restype, function.argtypes = _POINTER, [_POINTER] * 3
        return function

    def _read_metadata(self, path: Path) -> dict[str, Any]:
        text = self._functions.infuse_metadata()
        try:
            metadata = json.loads(text or b"")
        except ValueError as error:
            raise CompiledModelError(
                f"the library's metadata cannot be read: {error}", where=str(path)
            ) from error
        if not isinstance(metadata, dict):
            raise CompiledModelError("the library's metadata is not a JSON object", where=str(path))
        check_abi(metadata, path)
        return metadata

    def open(self, threads: int) -> int:
        handle = self._functions.infuse_open(self._weights.ctypes.data, threads)
        return self.opened(handle, threads)

    def records(self, handle: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
        if self._profile is None:
            raise RuntimeFailure(
                "the model was not compiled for profiling", hint="infuse.profile compiles it so"
            )
        count, lost = ctypes.c_int64(), ctypes.c_int64()
        address = self._profile(handle, ctypes.addressof(count), ctypes.addressof(lost))
        rows = np.empty((count.value, 4 + len(self.metadata["profile"])), np.int64)
        if rows.nbytes:
            ctypes.memmove(rows.ctypes.data, address, rows.nbytes)
        return rows, lost.value

    def output_sizes(self, symbols: int, total: int) -> list[int] | None:
        sizes = (ctypes.c_int64 * max(1, total))()
        refused = self._functions.infuse_shapes(symbols, ctypes.addressof(sizes))
        return None if refused else list(sizes[:total])


_mapped: weakref.WeakValueDictionary[tuple[int, int], MappedFile] = weakref.WeakValueDictionary()
"""Mappings in use, by device and inode, which no other file has while it is mapped."""


def map_weights(path: Path) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A file as a read-only array, which shares its memory with all processes where that is safe
    (`infuse.mapped`), and its mapping with all that this process has of the file.
    """
    try:
        with path.open("rb") as file:
            data = _contents(file.fileno())
    except (OSError, ValueError) as error:
        raise CompiledModelError(f"the weights cannot be read: {error}", where=str(path)) from error
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_WILLNEED"):
        data.madvise(mmap.MADV_WILLNEED)
    return np.frombuffer(memoryview(data).toreadonly(), np.uint8)


def _contents(descriptor: int) -> mmap.mmap | bytes:
    status = os.fstat(descriptor)
    key = status.st_dev, status.st_ino
    mapped = _mapped.get(key)
    if mapped is not None and len(mapped) == status.st_size and is_ours(status):
        return mapped
    data = contents(descriptor)
    if isinstance(data, MappedFile):
        _mapped[key] = data
    return data
