"""Arrays in NumPy's files. Those that are stored as they are lie in the mapped file, so that data
larger than memory can be read.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from infuse.errors import InputError, ModelFileError, OptionError
from infuse.frontends.archives import Archive, View
from infuse.frontends.files import map_file
from infuse.ir.graph import Array

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
"""How an archive begins, and one without members."""
_SUFFIX = ".npy"


def load_arrays(path: Path) -> Array | dict[str, Array]:
    """The array of an .npy file, or the arrays of an .npz file by name, read-only. InputError where
    the file cannot be read, or holds anything else.
    """
    try:
        data = map_file(path, "file")
        if bytes(data[:4]) not in _ZIP:
            return _array(data)
        archive = Archive(data, str(path))
        folder = f"{archive.folder}/" if archive.folder else ""
        arrays = {}
        for name in archive.names:
            archive.check(name)
            arrays[(folder + name).removesuffix(_SUFFIX)] = _array(archive.read(name))
        return arrays
    except ModelFileError as error:
        raise InputError(error.what, where=str(path), hint=error.hint) from error
    except (ValueError, EOFError) as error:
        raise InputError(
            "the file holds no NumPy arrays",
            where=str(path),
            hint="numpy.save and numpy.savez write such files",
        ) from error


def _array(data: memoryview) -> Array:
    """The array of the bytes of an .npy file, in their memory; ValueError where they are none."""
    file: Any = io.BufferedReader(View(data))
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        file.seek(0)
        return _copied(file)
    count = math.prod(shape)
    if dtype.hasobject or not dtype.itemsize or not count:
        file.seek(0)
        return _copied(file)
    flat = np.frombuffer(data, dtype, count, file.tell())
    return flat.reshape(shape[::-1]).T if is_fortran else flat.reshape(shape)


def _copied(file: Any) -> Array:
    array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array


def read_archive(path: Path, hint: str) -> dict[str, Array]:
    """The arrays of an .npz file by name; InputError with this hint for any other file."""
    loaded = load_arrays(path)
    if not isinstance(loaded, dict):
        raise InputError("it is not an .npz archive", where=str(path), hint=hint)
    return loaded


def read_inputs_of(path: Path, flag: str = "") -> dict[str, Array]:
    """The arrays of the inputs in an .npz file by name; InputError for any other file."""
    return read_archive(path, "numpy.savez writes such files, with the names of the inputs")


def read_array(path: Path, flag: str = "") -> Array:
    """The array of an .npy file; InputError for any other file."""
    loaded = load_arrays(path)
    if isinstance(loaded, dict):
        raise InputError(
            "it is an archive of arrays", where=str(path), hint="numpy.save writes one array"
        )
    array: Array = loaded
    return array


class FileArrays(dict[str, Array]):
    """The arrays of a file by name, and its path."""

    def __init__(self, path: Path, arrays: Mapping[str, Array]) -> None:
        super().__init__(arrays)
        self.path = path


def read_data(paths: Iterable[Path], flag: str = "") -> list[FileArrays]:
    """The sets of inputs in the files of `--data`."""
    return [FileArrays(path, read_inputs_of(path)) for path in paths]


def read_inputs(
    files: Iterable[str] | None, archive: Path | None, names: Sequence[str]
) -> dict[str, Array]:
    """Arrays by input name from `--inputs FILE.npz` and from `--input NAME=FILE.npy`, which
    wins.
    """
    hint = "give one array with --input"
    arrays = {} if archive is None else read_archive(archive, hint)
    for text in files or ():
        name, path = _named(text, names)
        array = load_arrays(path)
        if isinstance(array, dict):
            raise InputError(
                "it is an archive of arrays", where=str(path), hint="give it with --inputs"
            )
        arrays[name] = array
    return arrays


def _named(text: str, names: Sequence[str]) -> tuple[str, Path]:
    """Input and file of `NAME=FILE`, where the name may hold = itself."""
    for name in sorted(names, key=len, reverse=True):
        if text.startswith(f"{name}="):
            return name, Path(text[len(name) + 1 :])
    name, equals, path = text.partition("=")
    if not equals:
        raise OptionError(
            f"--input {text} names no input", hint=f"write it as --input {names[0]}={text}"
        )
    return name, Path(path)
