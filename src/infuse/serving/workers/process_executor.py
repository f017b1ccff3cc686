"""An instance of a model in a worker process, as the server sees it: what it runs, and the memory
for that.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import msgspec

from infuse.errors import InfuseError, ModelFailureError
from infuse.runtime.session import Array
from infuse.serving.tuning import PIECE_BYTES, WAIT_SECONDS
from infuse.serving.workers import wire
from infuse.serving.workers.executor import Callback, Result, WorkerLostError
from infuse.serving.workers.failures import restored
from infuse.serving.workers.load import Load
from infuse.serving.workers.memory import Slot, aligned
from infuse.serving.workers.polling import NEWEST, Waiting
from infuse.serving.workers.slots import Slots, heavy, written

_SOON: Final = 2e-4  # seconds of a run for whose end the server does not sleep


def _read(slot: Slot, answer: wire.Done, owned: bool) -> Result:
    """What a worker gave; `owned`: a copy of it."""
    try:
        slot.reserve(answer.size)
        outputs = [slot.view(where) for where in answer.outputs]
        if owned:
            outputs = [array if array.dtype == object else array.copy() for array in outputs]
    except InfuseError as error:
        return Result(error=error)
    except MemoryError:
        return Result(
            error=ModelFailureError(f"there is no memory for {answer.size} bytes of outputs")
        )
    return Result(outputs, answer.began, answer.ended, owned=owned)


class _Pending:
    __slots__ = ("answered", "done", "long", "seconds", "sent", "timer", "unwanted")

    def __init__(self, done: Callback, seconds: float, long: bool) -> None:
        self.done = done
        self.seconds = seconds
        self.timer: asyncio.TimerHandle | None = None
        self.long = long
        self.sent = False
        self.answered = False
        self.unwanted = False

    def stop(self) -> None:
        """Its time is not counted any more."""
        if self.timer is not None:
            self.timer.cancel()


class Worker(Protocol):
    """The process that instances run in, as those see it that do not start it."""

    name: str
    instances: dict[int, ProcessExecutor]
    ended: asyncio.Future[int]
    expected: bool
    farewell: str
    hung: str
    given_up: bool
    base_bytes: int
    waiting: Waiting

    @property
    def alive(self) -> bool:
        """Whether it runs."""

    async def add(self, label: str, folder: Path, threads: int, seconds: float) -> ProcessExecutor:
        """Load a compiled model. CompiledModelError when it cannot, WorkerLostError when it
        died.
        """

    def kill(self) -> None:
        """End it at once."""

    async def close(self) -> None:
        """End it, and wait for its end."""


class ProcessExecutor:
    """An instance of a model in a worker process."""

    _numbers = itertools.count(1)

    def __init__(self, worker: Worker, label: str, threads: int = 1) -> None:
        self.worker = worker
        self.label = label
        self.threads = threads
        self.load = Load()
        self.number = next(self._numbers)
        self.weights_bytes = 0
        self.start_seconds = 0.0
        self._loop = asyncio.get_running_loop()
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self._pending: dict[int, _Pending] = {}  # by slot
        self._slots = Slots(self._pending)
        self._open = False
        self._retired = False
        self._compute = 1.0  # mean seconds of a run
        self._depth = 1
        self.freed: Callable[[], None] | None = None
        self.suspect = False  # whether it ran something when its worker was lost
        self.runs = 0
        """Runs that ended without an error."""

    @property
    def name(self) -> str:
        return f"{self.worker.name}/{self.number}"

    @property
    def alive(self) -> bool:
        return self._open and not self._retired

    @property
    def depth(self) -> int:
        """How many runs it is given at once."""
        return self._depth

    @depth.setter
    def depth(self, runs: int) -> None:
        self._depth = runs
        if self.freed is not None:
            self.freed()

    @property
    def free(self) -> int:
        return self._depth - len(self._pending) if self.alive else 0

    def retire(self) -> None:
        """Take no more runs: another instance has its place. Those in progress end as ever."""
        self._retired = True

    def descriptors(self) -> list[int]:
        """What the worker needs: its end of the socket, and the memory of the slots."""
        return [self._theirs.fileno(), *self._slots.descriptors()]

    def open(self, weights_bytes: int) -> None:
        """The worker has loaded the model."""
        self.weights_bytes = weights_bytes
        self._theirs.close()
        self._open = True
        self._loop.add_reader(self._ours.fileno(), self._answered)

    def receive_buffer(self, size: int) -> Array | None:
        """Memory for inputs, which are not copied then where one run takes them alone; None: there
        is none.
        """
        return self._slots.receive_buffer(size) if self.alive else None

    def submit(self, parts: Sequence[Sequence[Array]], seconds: float, done: Callback) -> None:
        """Copy the inputs into a slot, one below the other, if they are not in one already, and
        tell the worker.
        """
        placed = self._slots.buffer_with(parts)
        number = self._slots.take() if placed is None else placed[0]
        slot = self._slots[number]
        long = self._compute >= _SOON
        self._pending[number] = _Pending(done, seconds, long)
        self._watch()
        if long:
            self.worker.waiting.run_begins()
        if placed is None and heavy([array for arrays in parts for array in arrays]):
            self._slots.aside(number, partial(written, slot, parts), partial(self._send, number))
        else:
            self._send(number, lambda: written(slot, parts) if placed is None else placed[1])

    def _watch(self) -> None:
        """Let the run under way, which is the first that was not answered, have its time; the
        others have theirs when they begin.
        """
        for pending in self._pending.values():
            if not pending.answered:
                if pending.timer is None:
                    seconds = pending.seconds
                    pending.timer = self._loop.call_later(seconds, self._hung, seconds)
                return

    def give_up(self, done: Callback) -> None:
        """Nobody waits for this run. The worker is ended once it runs nothing else; what had not
        begun runs in its successor.
        """
        for pending in self._pending.values():
            pending.unwanted = pending.unwanted or pending.done is done
        if not any(executor.wanted for executor in self.worker.instances.values()):
            self.worker.given_up = True
            self.worker.kill()

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for what it runs now."""
        first = next(iter(self._pending.values()), None)
        return first is not None and not first.unwanted

    def _send(self, number: int, write: Callable[[], list[wire.Where]]) -> None:
        """Tell the worker where the inputs lie, which `write` says."""
        waiting, slot = self.worker.waiting, self._slots[number]
        pending = self._pending.get(number)
        if pending is None:
            return
        pending.sent = True
        try:
            inputs = write()
            end = max((offset + length for *_, offset, length in inputs), default=0)
            work = wire.Work(number, slot.size, aligned(end), inputs, waiting.alone)
            self._ours.send(wire.encode(work))
            if not pending.long:
                waiting.expect(self._compute + _SOON)
        except ConnectionError as error:
            lost = WorkerLostError(f"{self.name} does not take work: {error}")
            lost.begun = False
            self._loop.call_soon(self._finish, number, Result(error=lost))
        except (InfuseError, OSError, ValueError, MemoryError) as error:
            failure = (
                error
                if isinstance(error, InfuseError)
                else ModelFailureError(str(error), where=self.name)
            )
            self._loop.call_soon(self._finish, number, Result(error=failure))

    def lost(self, error: WorkerLostError) -> None:
        """The worker has ended, and with it all runs that it did not answer: the first is the one
        that had begun.
        """
        self._depth = 0
        if self._open:
            self._answered()
        self.suspect = any(not pending.answered for pending in self._pending.values())
        self.abandon()
        begun = True
        for number, pending in list(self._pending.items()):
            if pending.answered:
                continue
            told = WorkerLostError(error.what)
            told.begun = begun and pending.sent
            begun = begun and not pending.sent
            self._finish(number, Result(error=told))

    def abandon(self) -> None:
        """Close the socket and the memory; the worker ends the instance."""
        if self._open:
            self._loop.remove_reader(self._ours.fileno())
        self._open = False
        self._ours.close()
        self._theirs.close()
        self._slots.close()
        self.worker.instances.pop(self.number, None)

    async def close(self) -> None:
        while self._pending:
            await asyncio.sleep(WAIT_SECONDS)
        self.abandon()

    def _answered(self) -> None:
        try:
            while True:
                message = self._ours.recv(wire.MOST_BYTES)
                if not message:
                    raise ConnectionResetError
                self._take(message)
                if not self._pending:
                    return
        except BlockingIOError:
            return
        except (OSError, msgspec.MsgspecError):
            # The end of the process is noticed by itself; a worker that closed one socket but lives
            # is ended.
            if self._open:
                self._loop.remove_reader(self._ours.fileno())
                self._open = False
                self.worker.kill()

    def _take(self, message: bytes) -> None:
        answer = wire.from_instance.decode(message)
        pending = self._pending.get(answer.slot)
        if pending is None:
            return
        pending.answered = True
        pending.stop()
        self._watch()
        slot = self._slots[answer.slot]
        self.load.add(answer.busy * self.threads / 1e9)
        self._compute += NEWEST * ((answer.ended - answer.began) / 1e9 - self._compute)
        if answer.error is not None:
            result = Result(error=restored(answer.error), began=answer.began, ended=answer.ended)
            self._finish(answer.slot, result)
        elif sum(length for *_, length in answer.outputs) > PIECE_BYTES:
            read = partial(_read, slot, answer, owned=True)
            self._slots.aside(answer.slot, read, lambda result: self._finish(answer.slot, result()))
        else:
            self._finish(answer.slot, _read(slot, answer, owned=False))

    def _finish(self, number: int, result: Result) -> None:
        pending = self._pending.pop(number, None)
        if pending is None:
            return
        self.runs += result.error is None
        pending.stop()
        self._watch()
        if pending.long:
            self.worker.waiting.run_ends()
        try:
            pending.done(result)
        finally:
            self._slots.release(number)
            if self.freed is not None:
                self.freed()

    def _hung(self, seconds: float) -> None:
        """No answer in time: the worker is ended, which ends its runs."""
        self.worker.hung = f"a run took longer than {seconds:g} s"
        self.worker.kill()
