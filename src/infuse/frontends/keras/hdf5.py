"""Groups of HDF5 files, of which only what lies in the file itself is read."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.keras import hdf5_process
from infuse.frontends.keras.hdf5_process import Content
from infuse.ir.graph import Array


def opened(data: memoryview) -> StoredGroup:
    """The root of the file that these bytes are; ModelFileError where it is damaged, or h5py is not
    there.
    """
    content = hdf5_process.read(data)
    return StoredGroup(content.root, content, data)


class StoredGroup:
    """A group of a file: its groups, datasets and attributes by name."""

    def __init__(self, entries: dict[str, Any], content: Content, data: memoryview) -> None:
        self._entries, self._content, self._data = entries, content, data

    def group(self, name: str) -> StoredGroup | None:
        """A group inside, by its path; None where there is none."""
        inner = self
        for part in name.split("/"):
            inner._refuse_link(part)
            entries = inner._entries["groups"].get(part)
            if entries is None:
                return None
            inner = StoredGroup(entries, self._content, self._data)
        return inner

    def text(self, attribute: str) -> str | None:
        """An attribute that is text."""
        texts = self._entries["texts"].get(attribute)
        return texts[0] if texts else None

    def texts(self, attribute: str) -> list[str] | None:
        """An attribute that lists texts, which may go on in others with numbers behind its name."""
        texts: list[str] | None = self._entries["texts"].get(attribute)
        if texts is not None:
            return texts
        parts: list[str] = []
        number = 0
        while (part := self._entries["texts"].get(f"{attribute}{number}")) is not None:
            parts.extend(part)
            number += 1
        return parts if number else None

    def datasets(self) -> list[str]:
        """Names of the datasets that lie directly in it."""
        return list(self._entries["datasets"])

    def array(self, name: str) -> Array:
        """The elements of a dataset, by its path: those in the file where they lie in one piece."""
        *groups, last = name.split("/")
        owner = self.group("/".join(groups)) if groups else self
        if owner is not None:
            owner._refuse_link(last)
        entry = None if owner is None else owner._entries["datasets"].get(last)
        if entry is None:
            raise ModelFileError(f"the HDF5 file has no weight {name!r}", hint="save it again")
        if "problem" in entry:
            raise ModelFileError(entry["problem"], where=f"weight {name!r}")
        return self._elements(entry)

    def _elements(self, entry: dict[str, Any]) -> Array:
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        in_file = "offset" in entry
        start = entry["offset" if in_file else "place"]
        source = self._data if in_file else self._content.elements
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(source, dtype, count, start).reshape(shape)
        return array.view(ml_dtypes.bfloat16) if dtype.kind == "V" else array

    def _refuse_link(self, name: str) -> None:
        if name in self._entries["links"]:
            raise ModelFileError(f"{name!r} is a link, and weights lie in the file itself")
