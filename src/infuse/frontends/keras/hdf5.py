"""HDF5 files by h5py, of which only what lies in the file itself is read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import ml_dtypes
import numpy as np

from infuse.errors import InfuseError, ModelFileError
from infuse.frontends.archives import View
from infuse.ir.graph import Array

_MOST_TIMES: Final = 1100
"""How much smaller than it was a compressed dataset can be: deflate reaches 1032."""
_DAMAGED: Final = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)
"""What h5py raises of a damaged file."""


@contextmanager
def opened(data: memoryview) -> Iterator[Group]:
    """The root of the file that these bytes are; ModelFileError where it is damaged, or h5py is not
    there.
    """
    try:
        import h5py
    except ImportError as error:
        raise ModelFileError(
            "weights of Keras lie in HDF5, which needs the package h5py",
            hint='pip install "infuse[keras]"',
        ) from error
    try:
        file = h5py.File(io.BufferedReader(View(data)), "r")
    except _DAMAGED as error:
        raise _damaged(error) from error
    try:
        yield Group(file, data, h5py)
    finally:
        file.close()


class Group:
    """A group of a file: its groups, datasets and attributes by name."""

    def __init__(self, group: Any, data: memoryview, h5py: Any) -> None:
        self._group, self._data, self._h5py = group, data, h5py

    def group(self, name: str) -> Group | None:
        """A group inside, by its path; None where there is none."""
        inner = self
        for part in name.split("/"):
            member = inner._member(part)
            if not isinstance(member, self._h5py.Group):
                return None
            inner = Group(member, self._data, self._h5py)
        return inner

    def text(self, attribute: str) -> str | None:
        """An attribute that is text."""
        value = self._attribute(attribute)
        if isinstance(value, bytes):
            return value.decode()
        return value if isinstance(value, str) else None

    def texts(self, attribute: str) -> list[str] | None:
        """An attribute that lists texts, which may go on in others with numbers behind its name."""
        value = self._attribute(attribute)
        if value is None:
            parts, number = [], 0
            while (part := self._attribute(f"{attribute}{number}")) is not None:
                parts.extend(np.asarray(part).reshape(-1).tolist())
                number += 1
            if not number:
                return None
        else:
            parts = np.asarray(value).reshape(-1).tolist()
        return [part.decode() if isinstance(part, bytes) else str(part) for part in parts]

    def _attribute(self, name: str) -> Any:
        try:
            return self._group.attrs.get(name)
        except _DAMAGED as error:
            raise _damaged(error) from error

    def datasets(self) -> list[str]:
        """Names of the datasets that lie directly in it."""
        try:
            names = list(self._group)
        except _DAMAGED as error:
            raise _damaged(error) from error
        return [name for name in names if isinstance(self._member(name), self._h5py.Dataset)]

    def array(self, name: str) -> Array:
        """The elements of a dataset, by its path: those in the file where they lie in one piece."""
        *groups, last = name.split("/")
        owner = self.group("/".join(groups)) if groups else self
        dataset = owner._member(last) if owner is not None else None
        if not isinstance(dataset, self._h5py.Dataset):
            raise ModelFileError(f"the HDF5 file has no weight {name!r}", hint="save it again")
        try:
            return self._elements(dataset)
        except InfuseError as error:
            error.within(f"weight {name!r}")
            raise
        except (*_DAMAGED, MemoryError) as error:
            raise _damaged(error) from error

    def _member(self, name: str) -> Any:
        """A group or dataset; links to elsewhere are refused."""
        try:
            link = self._group.get(name, getlink=True)
            if link is None:
                return None
            if not isinstance(link, self._h5py.HardLink):
                raise ModelFileError(f"{name!r} is a link, and weights lie in the file itself")
            return self._group.get(name)
        except _DAMAGED as error:
            raise _damaged(error) from error

    def _elements(self, dataset: Any) -> Array:
        if dataset.external or dataset.is_virtual:
            raise ModelFileError("its elements lie in another file", hint="save the model again")
        dtype, size = dataset.dtype, dataset.size or 0
        if dtype.kind not in "biufV" or (dtype.kind == "V" and dtype.itemsize != 2):
            raise ModelFileError(f"its elements have the type {dtype}")
        stored, total = dataset.id.get_storage_size(), size * dtype.itemsize
        if total > _MOST_TIMES * stored + 64:
            raise ModelFileError(f"it says that it has {total} bytes, of which {stored} are stored")
        offset = dataset.id.get_offset()
        plain = offset is not None and stored == total
        if plain and offset + total <= len(self._data):
            elements = np.frombuffer(self._data[offset : offset + total], dtype)
            array = elements.reshape(dataset.shape)
        else:
            array = np.asarray(dataset[()])
        result: Array = array.view(ml_dtypes.bfloat16) if dtype.kind == "V" else array
        return result


def _damaged(error: BaseException) -> ModelFileError:
    return ModelFileError(
        f"the HDF5 file is damaged: {error}", hint="fetch the model or save it again"
    )
