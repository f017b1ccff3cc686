"""A model that is a program file, run by a library of closed functions without a compiler."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from infuse.errors import CompiledModelError, RuntimeFailure
from infuse.runtime.cpus import cpu_features
from infuse.runtime.folder import FUNCTIONS, PROGRAM, has_functions
from infuse.runtime.library import CONTEXTS, Library

FOLDER_VARIABLE: Final = "INFUSE_PREBUILT"
"""Names a folder of libraries, in place of that of this package."""
_PACKAGED: Final = Path(__file__).resolve().parents[1] / "prebuilt"
_POINTER = ctypes.c_void_p
_INTERFACE: Final[dict[str, tuple[Any, list[Any]]]] = {
    "infuse_library": (ctypes.c_char_p, []),
    "infuse_functions": (ctypes.c_long, [_POINTER, ctypes.c_long]),
    "infuse_program_load": (
        _POINTER,
        [_POINTER, ctypes.c_int64, _POINTER, ctypes.c_int64, _POINTER, _POINTER, ctypes.c_int64],
    ),
    "infuse_program_close": (None, [_POINTER]),
    "infuse_program_counts": (ctypes.c_int64, [_POINTER, _POINTER, ctypes.c_int64]),
    "infuse_program_open": (_POINTER, [_POINTER, ctypes.c_int]),
    "infuse_program_shapes": (ctypes.c_int, [_POINTER, _POINTER, _POINTER]),
    **CONTEXTS,
}
_OWN: Final[dict[str, tuple[Any, list[Any]]]] = {
    "infuse_library": _INTERFACE["infuse_library"],
    "infuse_function_table": (_POINTER, []),
}
_MESSAGE: Final = 512


@dataclass(frozen=True)
class Facts:
    """What a library is made for: the name of a target, the processor's features that it needs, and
    the stamp of the kernels that it is made of.
    """

    target: str
    features: frozenset[str]
    stamp: str

    @classmethod
    def parse(cls, text: str) -> Facts:
        """Those that a library tells."""
        target, features, stamp = text.split("\n")
        return cls(target, frozenset(features.split()), stamp)

    def text(self) -> str:
        """What `parse` reads."""
        return "\n".join((self.target, " ".join(sorted(self.features)), self.stamp))


class Prebuilt:
    """A library of closed functions, which stays loaded as long as the process runs."""

    def __init__(self, path: Path) -> None:
        """CompiledModelError where it cannot be loaded, or is another library."""
        self.path = path
        self.functions, self.facts, _ = _loaded(path, _INTERFACE)

    @cached_property
    def names(self) -> frozenset[str]:
        """The functions that it has."""
        count = self.functions.infuse_functions(None, 0)
        names = (ctypes.c_char_p * max(1, count))()
        self.functions.infuse_functions(ctypes.addressof(names), count)
        return frozenset(name.decode() for name in names[:count] if name)


def _loaded(path: Path, interface: Mapping[str, tuple[Any, list[Any]]]) -> tuple[Any, Facts, int]:
    """These functions of a library, what it is made for, and its handle."""
    functions = SimpleNamespace()
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in interface.items():
            function = library[name]
            function.restype, function.argtypes = result, arguments
            setattr(functions, name, function)
        return functions, Facts.parse(functions.infuse_library().decode()), library._handle
    except (OSError, AttributeError, ValueError) as error:
        raise CompiledModelError(
            f"the library of kernels cannot be loaded: {error}", where=str(path)
        ) from error


_lock = threading.Lock()


@lru_cache(maxsize=8)
def _opened(path: Path, version: tuple[int, int]) -> Prebuilt:
    return Prebuilt(path)


def prebuilt_folder() -> Path:
    """Where libraries of prebuilt kernels lie."""
    return Path(os.environ.get(FOLDER_VARIABLE) or _PACKAGED)


def prebuilt_libraries() -> list[Prebuilt]:
    """The libraries that this processor runs, the one with the most features first."""
    found = []
    for path in sorted(prebuilt_folder().glob("*.so")):
        status = path.stat()
        with _lock:
            library = _opened(path, (status.st_mtime_ns, status.st_size))
        if library.facts.features <= cpu_features():
            found.append(library)
    return sorted(found, key=lambda library: -len(library.facts.features))


class ProgramLibrary(Library):
    """A program file and its weights, with the library that runs it."""

    def __init__(
        self,
        folder: Path,
        metadata: Mapping[str, Any],
        weights: np.ndarray[Any, np.dtype[np.uint8]],
    ) -> None:
        """CompiledModelError where no library here runs it, or it is broken."""
        self.metadata = dict(metadata)
        prebuilt = _for_program(folder, metadata.get("program"))
        self._functions = prebuilt.functions
        self._weights = weights
        try:
            content = (folder / PROGRAM).read_bytes()
        except OSError as error:
            raise CompiledModelError(
                f"the program cannot be read: {error}", where=str(folder / PROGRAM)
            ) from error
        table, handle = None, None
        if has_functions(metadata):
            table, handle = _own_table(folder / FUNCTIONS, prebuilt)
        why = ctypes.create_string_buffer(_MESSAGE)
        self._program = self._functions.infuse_program_load(
            content, len(content), weights.ctypes.data, weights.nbytes, table, why, _MESSAGE
        )
        closer = weakref.finalize(self, _close, prebuilt, self._program, handle)
        closer.atexit = False
        if not self._program:
            raise CompiledModelError(
                f"the program cannot be run: {why.value.decode('utf-8', 'replace')}",
                where=str(folder / PROGRAM),
                hint="compile the model again",
            )
        self._check_interface(folder)
        self.run = self._functions.infuse_run

    def _check_interface(self, folder: Path) -> None:
        """CompiledModelError where the program has other inputs and outputs than it is said to."""
        outputs, symbols = self.metadata["outputs"], self.metadata["symbols"]
        said = [len(symbols), len(self.metadata["inputs"]), len(outputs)]
        said += [len(output["shape"]) for output in outputs]
        counts = (ctypes.c_int64 * len(said))()
        own = self._functions.infuse_program_counts(
            self._program, ctypes.addressof(counts), len(said)
        )
        if own != len(said) or list(counts) != said:
            raise CompiledModelError(
                "the program has other inputs and outputs than its description",
                where=str(folder / PROGRAM),
                hint="compile the model again",
            )

    def open(self, threads: int) -> int:
        handle = self._functions.infuse_program_open(self._program, threads)
        return self.opened(handle, threads)

    def records(self, handle: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
        raise RuntimeFailure(
            "the model was not compiled for profiling", hint="infuse.profile compiles it so"
        )

    def output_sizes(self, symbols: int, total: int) -> list[int] | None:
        sizes = (ctypes.c_int64 * max(1, total))()
        refused = self._functions.infuse_program_shapes(
            self._program, symbols, ctypes.addressof(sizes)
        )
        return None if refused else list(sizes[:total])


def _close(prebuilt: Prebuilt, program: int | None, functions: int | None) -> None:
    """Free a program, and unload the library of functions with this handle that only it calls."""
    if program:
        prebuilt.functions.infuse_program_close(program)
    if functions:
        _ctypes.dlclose(functions)


def _own_table(path: Path, prebuilt: Prebuilt) -> tuple[int, int]:
    """The address of the functions that a program has beside those of `prebuilt`, and the handle of
    their library.
    """
    functions, facts, handle = _loaded(path, _OWN)
    if facts != prebuilt.facts:
        _ctypes.dlclose(handle)
        raise CompiledModelError(
            "the functions were compiled for other kernels than the program",
            where=str(path),
            hint="compile the model again",
        )
    return int(functions.infuse_function_table()), handle


def _for_program(folder: Path, needed: Any) -> Prebuilt:
    """The library that a program was written for."""
    stamp = needed.get("stamp") if isinstance(needed, dict) else None
    target = needed.get("target") if isinstance(needed, dict) else None
    libraries = prebuilt_libraries()
    for library in libraries:
        if (library.facts.stamp, library.facts.target) == (stamp, target):
            return library
    if not libraries:
        what = f"there is no library of prebuilt kernels for this processor in {prebuilt_folder()}"
    else:
        what = f"it was written for other kernels than those in {prebuilt_folder()}"
    raise CompiledModelError(
        what, where=str(folder), hint="compile the model again, or with a C++ compiler"
    )
