"""The weights of a compiled model: the file in the making, and how it is written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Event
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from infuse.ir.graph import Graph
from infuse.lowering.tensors import Buffer
from infuse.mapped import give_back
from infuse.runtime.cpus import cpu_limit

Array = npt.NDArray[Any]
Digests = dict[int, tuple[Array, bytes]]
"""Arrays by id, which they keep, with the hashes of their elements."""
Entries = Iterable[tuple[int, Array]]
"""Offsets in the weights file, ascending multiples of `ALIGNMENT`, and what stands there; read
only when compiling.
"""

ALIGNMENT: Final = 64
_CHUNK: Final = 1 << 24
_LARGE: Final = 1 << 20
"""Bytes of an array that a thread of its own hashes."""
_digests: ContextVar[Digests | None] = ContextVar("digests", default=None)


@contextmanager
def hashed_once() -> Iterator[None]:
    """Meanwhile weights hash an array once, of which no content may change, for all lowerings of a
    graph.
    """
    token = _digests.set({})
    try:
        yield
    finally:
        _digests.reset(token)


class Weights:
    """The weight file in the making: arrays at aligned positions, equal ones stored once, made when
    written.

    What is stored is named by a key: how it is packed, and of which constant. `fingerprint` stands
    for all content.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self.float32_reasons: dict[str, str] = {}
        """Tensors that stay in float32 though the precision is fp16, by name: why."""
        self._entries: list[tuple[int, Array, Callable[[Array], Array]]] = []
        self._known: dict[Any, Buffer] = {}
        shared = _digests.get()
        self._digests: Digests = {} if shared is None else shared
        self._hash = hashlib.blake2b()

    def add(self, source: Array, how: Any, size: int, make: Callable[[Array], Array]) -> Buffer:
        """The buffer that holds `make(source)`, `size` bytes; `how` names what `make` does."""
        digest = self.digest(source)
        key = (digest, source.dtype.str, source.shape, how)
        if key not in self._known:
            self._known[key] = Buffer("weight", size, position=self.bytes)
            self._entries.append((self.bytes, source, make))
            self._hash.update(repr((self.bytes, *key)).encode())
            self.bytes += -(-size // ALIGNMENT) * ALIGNMENT
        return self._known[key]

    def hash(self, sources: Iterable[Array]) -> None:
        """Hash those of these arrays that are large side by side, before they are added."""
        large = [s for s in sources if s.nbytes >= _LARGE and id(s) not in self._digests]
        if not large:
            return
        with ThreadPoolExecutor(cpu_limit()) as pool:
            for source, digest in zip(large, pool.map(_digest, large)):
                self._digests[id(source)] = (source, digest)
                give_back(source)

    def digest(self, array: Array) -> bytes:
        """A hash of what is in an array that is to be added."""
        entry = self._digests.get(id(array))
        if entry is None:
            entry = self._digests[id(array)] = (array, _digest(array))
        return entry[1]

    def fingerprint(self) -> str:
        """A hash that stands for the content of the file."""
        return self._hash.hexdigest()

    def at(self, position: int) -> Array:
        """What stands at a position of the file, behind what takes no room there."""
        entries = reversed(self._entries)
        source, make = next(entry[1:] for entry in entries if entry[0] == position)
        return np.ascontiguousarray(make(source))

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        """Positions and arrays, in the order of the file; packed one after another."""
        for position, source, make in self._entries:
            yield position, make(source)
            give_back(source)

    def give_back(self) -> None:
        """Let the arrays that were added leave the memory until they are read again, where they lie
        in mapped files.
        """
        for _, source, _ in self._entries:
            give_back(source)


def constant_bytes(graph: Graph) -> int:
    """Bytes of the constants of a graph and its bodies, each array once, and of defaults."""
    arrays = [v.const for inner in graph.all_graphs() for v in inner.constants()]
    arrays += [value.default for value in graph.inputs]
    return sum({id(array): array.nbytes for array in arrays if array is not None}.values())


def write_weights(path: Path, weights: Entries, total: int, stop: Event | None = None) -> str:
    """Write the weights file, zeros between the arrays, until `stop` is set; returns its
    SHA-256.
    """
    stop = stop or Event()
    position = 0
    with ExitStack() as stack:
        file = stack.enter_context(path.open("wb", buffering=0))
        digest = _Digest(stack.enter_context(ThreadPoolExecutor(1)))

        def put(data: memoryview) -> None:
            for start in range(0, len(data), _CHUNK):
                if stop.is_set():
                    return
                chunk = data[start : start + _CHUNK]
                digest.update(chunk)
                while chunk:
                    chunk = chunk[file.write(chunk) or 0 :]

        for offset, array in weights:
            assert offset >= position, "the weights overlap or are not in order"
            assert offset % ALIGNMENT == 0, "a weight does not start at a multiple of 64"
            if stop.is_set():
                break
            put(memoryview(bytes(offset - position)))
            data = _bytes(array)
            put(data)
            position = offset + len(data)
        assert position <= total or stop.is_set(), "the weights are larger than was announced"
        put(memoryview(bytes(max(0, total - position))))
        return digest.result()


class _Digest:
    """The SHA-256 of what it is given, computed in the thread of `pool`, a part behind the
    caller.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool, self._hash = pool, hashlib.sha256()
        self._last: Future[None] | None = None

    def update(self, data: memoryview) -> None:
        """Hash `data` too, once that before it is hashed."""
        self._wait()
        self._last = self._pool.submit(self._hash.update, data)

    def _wait(self) -> None:
        if self._last is not None:
            self._last.result()

    def result(self) -> str:
        """The digest of all of it."""
        self._wait()
        return self._hash.hexdigest()


def _digest(array: Array) -> bytes:
    return hashlib.sha256(_bytes(array)).digest()


def _bytes(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
