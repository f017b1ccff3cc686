"""The program of the process that opens HDF5 files: HDF5's own library may crash on a damaged file,
or never end.

Requests on standard input are files, each after its length in 8 bytes. The answer is a JSON object,
after its length, and the elements of datasets that do not lie in the file as they are, after
theirs. The process ends with its input, and when it was idle for some seconds. It imports nothing
of Infuse, so that it starts quickly.
"""

import io
import json
import os
import resource
import select
import sys
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np

IDLE_SECONDS = 10
MOST_TIMES = 1100  # how much smaller than it was a compressed dataset can be: deflate reaches 1032
MOST_LEVELS = 64
ROOM = 1 << 30  # bytes of memory beside those of the file and its copies
DAMAGED = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)


class Listing:
    """What a file holds, as plain data; `elements` of datasets that are compressed or in pieces."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.elements: list[bytes] = []
        self._length = 0

    def tree(self) -> dict[str, Any]:
        """The root group, or the reason why there is none as its `problem`."""
        try:
            with h5py.File(io.BytesIO(self._data), "r") as file:
                return self._group(file, 0)
        except DAMAGED as error:
            return {"problem": str(error)}

    def _group(self, group: Any, level: int) -> dict[str, Any]:
        if level > MOST_LEVELS:
            raise ValueError(f"groups are nested more than {MOST_LEVELS} times")
        groups, datasets, links = {}, {}, []
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                links.append(name)
                continue
            member = group.get(name)
            if isinstance(member, h5py.Group):
                groups[name] = self._group(member, level + 1)
            elif isinstance(member, h5py.Dataset):
                datasets[name] = self._dataset(member)
        texts = {name: _texts(group.attrs, name) for name in group.attrs}
        return {"groups": groups, "datasets": datasets, "links": links, "texts": texts}

    def _dataset(self, dataset: Any) -> dict[str, Any]:
        try:
            return self._placed(dataset)
        except DAMAGED as error:
            return {"problem": f"the HDF5 file is damaged: {error}"}

    def _placed(self, dataset: Any) -> dict[str, Any]:
        """Type, shape, and where the elements are: `offset` in the file, `place` in `elements`."""
        if dataset.external or dataset.is_virtual:
            return {"problem": "its elements lie in another file"}
        dtype, size = dataset.dtype, dataset.size or 0
        if dtype.kind not in "biufV" or (dtype.kind == "V" and dtype.itemsize != 2):
            return {"problem": f"its elements have the type {dtype}"}
        stored, total = dataset.id.get_storage_size(), size * dtype.itemsize
        if total > MOST_TIMES * stored + 64:
            return {"problem": f"it says that it has {total} bytes, of which {stored} are stored"}
        entry = {"dtype": dtype.str, "shape": dataset.shape}
        offset = dataset.id.get_offset()
        if offset is not None and stored == total and offset + total <= len(self._data):
            return {**entry, "offset": offset}
        content = np.ascontiguousarray(dataset[()]).tobytes()
        self.elements.append(content)
        self._length += len(content)
        return {**entry, "place": self._length - len(content)}


def _texts(attributes: Any, name: str) -> list[str] | None:
    """The texts of an attribute, one or several; none of one with other elements."""
    entries = np.asarray(attributes[name]).reshape(-1).tolist()
    if not all(isinstance(entry, (str, bytes)) for entry in entries):
        return None
    return [entry if isinstance(entry, str) else entry.decode() for entry in entries]


def answer(data: bytes, output: BinaryIO) -> None:
    """Write the answer for one file."""
    size = os.sysconf("SC_PAGE_SIZE")
    with Path("/proc/self/statm").open(encoding="ascii") as statm:
        used = int(statm.read().split()[0]) * size
    room = used + 4 * len(data) + ROOM
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    least = room if most == resource.RLIM_INFINITY else min(room, most)
    resource.setrlimit(resource.RLIMIT_AS, (least, most))
    listing = Listing(data)
    text = json.dumps(listing.tree()).encode()
    output.write(len(text).to_bytes(8, "little") + text)
    output.write(sum(map(len, listing.elements)).to_bytes(8, "little"))
    for content in listing.elements:
        output.write(content)
    output.flush()


def main() -> None:
    """Answer requests until there are no more."""
    requests, output = sys.stdin.buffer, sys.stdout.buffer
    while select.select([requests], [], [], IDLE_SECONDS)[0]:
        head = requests.read(8)
        if len(head) < 8:
            return
        answer(requests.read(int.from_bytes(head, "little")), output)


if __name__ == "__main__":
    main()
