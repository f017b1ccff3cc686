"""The memory of an instance in a worker process: slots for its runs, some of which requests are
received in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Final, TypeVar

from infuse.errors import ModelFailureError
from infuse.runtime.session import Array
from infuse.serving.datatypes import name_of
from infuse.serving.tuning import PIECE_BYTES, PIECE_ELEMENTS, THREADS
from infuse.serving.workers import wire
from infuse.serving.workers.memory import Slot, address_of

_T = TypeVar("_T")

_SLOTS: Final = 3  # two runs under way, and one whose outputs are being read
RECEIVE_BUFFERS: Final = 2  # more slots, which requests are received in
MOST_BUFFER_BYTES: Final = 16 << 20  # bytes: slots do not shrink


def written(slot: Slot, parts: Sequence[Sequence[Array]]) -> list[wire.Where]:
    """Copy inputs into a slot, each as its parts below each other; where they lie."""
    end, inputs = 0, []
    for arrays in parts:
        if len(arrays) == 1:
            where = slot.write(arrays, end)[0]
        else:
            rows = sum(array.shape[0] for array in arrays)
            where = slot.stack(arrays, end, (rows, *arrays[0].shape[1:]))
        inputs.append(where)
        end = where[2] + where[3]
    return inputs


def heavy(arrays: Sequence[Array]) -> bool:
    """Whether writing them takes so long that others should not wait for it."""
    size = 0
    for array in arrays:
        if array.dtype != object:
            size += array.nbytes
        elif array.size > PIECE_ELEMENTS:
            return True
        else:
            size += sum(map(len, array.flat))
    return size > PIECE_BYTES


@cache
def _copiers() -> ThreadPoolExecutor:
    """Threads that copy tensors."""
    return ThreadPoolExecutor(THREADS, "copy")


class Slots:
    """Slots by their numbers. `busy`: those that a run is in, as it is at the time."""

    def __init__(self, busy: Container[int]) -> None:
        self._busy = busy
        self._slots = [Slot() for _ in range(_SLOTS + RECEIVE_BUFFERS)]
        self._idle = list(range(len(self._slots)))
        self._buffers: dict[int, tuple[int, int]] = {}  # by slot: where the buffer begins and ends
        self._aside: set[int] = set()  # in which a thread reads or writes
        self._closed = False

    def __getitem__(self, number: int) -> Slot:
        return self._slots[number]

    def descriptors(self) -> list[int]:
        """The memory of each, for the worker."""
        return [slot.descriptor for slot in self._slots]

    def take(self) -> int:
        """A slot for a run; there is one for as many as an instance is given at once."""
        return self._idle.pop()

    def release(self, number: int) -> None:
        """The run in a slot has ended, and its outputs were read."""
        if number not in self._buffers:
            self._idle.append(number)

    def receive_buffer(self, size: int) -> Array | None:
        """Memory for inputs, which are not copied then where one run takes them alone; None: there
        is none.
        """
        if len(self._buffers) == RECEIVE_BUFFERS or size > MOST_BUFFER_BYTES:
            return None
        number = self._idle.pop()
        try:
            buffer = self._slots[number].receive_buffer(size, partial(self._returned, number))
        except ModelFailureError:
            self._idle.append(number)
            return None
        start = address_of(buffer)
        self._buffers[number] = (start, start + size)
        return buffer

    def _returned(self, number: int) -> None:
        """Nobody refers to a receive buffer any more."""
        del self._buffers[number]
        if number not in self._busy:
            self._idle.append(number)

    def buffer_with(self, parts: Sequence[Sequence[Array]]) -> tuple[int, list[wire.Where]] | None:
        """The receive buffer that all inputs lie in, and where; None: there is none, or it is being
        run from.
        """
        if not self._buffers:
            return None
        first = address_of(parts[0][0]) if parts else 0
        placed = [number for number, (start, end) in self._buffers.items() if start <= first < end]
        if not placed or placed[0] in self._busy:
            return None
        start, end = self._buffers[placed[0]]
        inputs: list[wire.Where] = []
        for arrays in parts:
            array = arrays[0]
            place = address_of(array)
            inside = start <= place and place + array.nbytes <= end
            if (
                len(arrays) > 1
                or not inside
                or array.dtype == object
                or not array.flags.c_contiguous
            ):
                return None
            inputs.append((name_of(array.dtype), array.shape, place - start, array.nbytes))
        return placed[0], inputs

    def aside(
        self, number: int, work: Callable[[], _T], then: Callable[[Callable[[], _T]], None]
    ) -> None:
        """Do work with a slot in a thread, `then` go on with what gives its result or raises its
        error.
        """

        def ended(done: asyncio.Future[_T]) -> None:
            self._aside.discard(number)
            if self._closed:
                self._slots[number].close()
            if not done.cancelled() and (done.exception() is None or number in self._busy):
                then(done.result)

        self._aside.add(number)
        asyncio.get_running_loop().run_in_executor(_copiers(), work).add_done_callback(ended)

    def close(self) -> None:
        """Give all memory back; what a thread is at work in, once that has ended."""
        self._closed = True
        for number, slot in enumerate(self._slots):
            if number not in self._aside:
                slot.close()
