"""Worker processes as the server sees them: started, given instances of models, watched, and ended."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from infuse import errors
from infuse.errors import CompiledModelError, InfuseError, ModelFailureError, RuntimeFailure
from infuse.runtime.session import Array
from infuse.serving.workers import wire
from infuse.serving.workers.awake import Vigil
from infuse.serving.workers.environment import child_environment
from infuse.serving.workers.executor import Callback, Result, WorkerLostError
from infuse.serving.workers.load import Load
from infuse.serving.workers.memory import Slot, aligned

_MODULE: Final = "infuse.serving.workers.main"
_SOON: Final = 2e-4  # seconds of a run for whose end the server does not sleep
_SLOTS: Final = 3  # two runs under way, and one whose outputs are being read


class WorkerProcess:
    """A process that runs instances of models. `cores` are those that it keeps to."""

    _numbers = itertools.count(1)

    def __init__(self, cores: Sequence[int], memory_mb: int = 0) -> None:
        self.cores = tuple(cores)
        self.memory_mb = memory_mb
        self.name = f"worker-{next(self._numbers)}"
        self.started_at = time.time()
        self.base_bytes = 0
        self.instances: dict[int, RemoteExecutor] = {}
        self.on_exit: list[Callable[[WorkerProcess], None]] = []
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._starts: dict[int, asyncio.Future[wire.Started]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pidfd = -1
        self.hung = ""
        self.awake = 0.0  # seconds within which it waits for messages without sleeping
        self.vigil: Vigil | None = None
        self.expected = False
        self.farewell = ""
        self.carried: list[RemoteExecutor] = []

    @property
    def pid(self) -> int:
        """Its process number; 0 before it is started."""
        return self._process.pid if self._process else 0

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and not self.ended.done()

    async def start(self) -> None:
        """Start the process. ModelFailureError when the system does not let us."""
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise ModelFailureError(f"no worker process can be started: {error}") from error
        cores = ",".join(map(str, self.cores))
        command = [sys.executable, "-m", _MODULE, str(theirs.fileno()), cores, str(self.memory_mb)]
        environment = child_environment()
        try:
            self._process = await asyncio.to_thread(
                subprocess.Popen,
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise ModelFailureError(f"no worker process can be started: {error}") from error
        finally:
            theirs.close()
        ours.setblocking(False)
        self._control = ours
        loop = asyncio.get_running_loop()
        loop.add_reader(ours.fileno(), self._answered)
        self._pidfd = os.pidfd_open(self._process.pid)
        loop.add_reader(self._pidfd, self._exited)

    async def add(self, label: str, folder: Path, threads: int, seconds: float) -> RemoteExecutor:
        """Load a compiled model in the worker. CompiledModelError when it cannot, WorkerLostError when it died."""
        try:
            executor = RemoteExecutor(self, label, threads)
        except OSError as error:
            raise ModelFailureError(f"{self.name} cannot be given memory and a socket: {error}") from error
        number = executor.number
        started: asyncio.Future[wire.Started] = asyncio.get_running_loop().create_future()
        self._starts[number] = started
        try:
            if not self.alive or self._control is None:
                raise WorkerLostError(f"{self.name} is not there")
            message = wire.encode(wire.Start(number, str(folder), threads, self.awake))
            descriptors = executor.descriptors()
            await asyncio.to_thread(socket.send_fds, self._control, [message], descriptors)
            answer = await asyncio.wait_for(started, seconds)
        except (asyncio.TimeoutError, OSError) as error:
            executor.abandon()
            self.kill()
            what = f"{self.name} has not loaded the model within {seconds:g} s"
            raise WorkerLostError(what if isinstance(error, asyncio.TimeoutError) else f"{what}: {error}") from error
        except BaseException:
            executor.abandon()
            raise
        finally:
            self._starts.pop(number, None)
        if answer.error:
            executor.abandon()
            raise CompiledModelError(f"the worker cannot load the model: {answer.error}", where=str(folder))
        executor.open(answer.weights)
        self.base_bytes = self.base_bytes or answer.before
        self.instances[number] = executor
        return executor

    def kill(self) -> None:
        """End it at once; its exit is noticed as any other."""
        if self._process is not None and not self.ended.done():
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self, grace: float = 5.0) -> None:
        """End it: by closing its socket, then by force."""
        if self._process is None or self.ended.done():
            return
        closed = WorkerLostError(f"{self.name} is closed")
        for executor in list(self.instances.values()):
            executor.lost(closed)
        self._close_control()
        try:
            await asyncio.wait_for(asyncio.shield(self.ended), grace)
        except asyncio.TimeoutError:
            self.kill()
            await self.ended

    def _answered(self) -> None:
        assert self._control is not None
        try:
            message = self._control.recv(wire.MOST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._close_control()
            return
        answer = wire.from_worker.decode(message)
        waiting = self._starts.get(answer.instance)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _close_control(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
            self._control = None

    def _exited(self) -> None:
        assert self._process is not None
        status = self._process.poll()
        if status is None:
            return
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._close_control()
        self.ended.set_result(status)
        why = f"hung ({self.hung})" if self.hung else ending(status)
        self.farewell = f"{self.name} (process {self.pid}) {why}"
        lost = WorkerLostError(self.farewell)
        for waiting in self._starts.values():
            if not waiting.done():
                waiting.set_exception(lost)
        self.carried = list(self.instances.values())
        for executor in self.carried:
            executor.lost(lost)
        self.instances.clear()
        for notify in self.on_exit:
            notify(self)


def ending(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    hint = " (killed; perhaps the machine ran out of memory)" if -status == signal.SIGKILL else ""
    return f"was ended by {name}{hint}"


def restored(error: tuple[str, str, str, str]) -> InfuseError:
    """An error that a worker described."""
    name, what, where, hint = error
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, InfuseError)):
        kind = RuntimeFailure
    return kind(what, where=where or None, hint=hint or None)


class _Pending:
    __slots__ = ("done", "long", "timer")

    def __init__(self, done: Callback, timer: asyncio.TimerHandle, long: bool) -> None:
        self.done = done
        self.timer = timer
        self.long = long


class RemoteExecutor:
    """An instance of a model in a worker process."""

    _numbers = itertools.count(1)

    def __init__(self, worker: WorkerProcess, label: str, threads: int = 1) -> None:
        self.worker = worker
        self.label = label
        self.threads = threads
        self.load = Load()
        self.number = next(self._numbers)
        self.weights_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self._slots = [Slot() for _ in range(_SLOTS)]
        self._idle = list(range(_SLOTS))
        self._pending: dict[int, _Pending] = {}
        self._open = False
        self._retired = False
        self._compute = 1.0  # mean seconds of a run
        self.depth = 1
        self.suspect = False  # whether it ran something when its worker was lost

    @property
    def name(self) -> str:
        return f"{self.worker.name}/{self.number}"

    @property
    def alive(self) -> bool:
        return self._open and not self._retired

    @property
    def free(self) -> int:
        return self.depth - len(self._pending) if self.alive else 0

    @property
    def slot_bytes(self) -> int:
        """Memory that it shares with the worker for inputs and outputs."""
        return sum(slot.size for slot in self._slots)

    def retire(self) -> None:
        """Take no more runs: another instance has its place. Those in progress end as ever."""
        self._retired = True

    def descriptors(self) -> list[int]:
        """What the worker needs: its end of the socket, and the memory of the slots."""
        return [self._theirs.fileno(), *(slot.descriptor for slot in self._slots)]

    def open(self, weights_bytes: int) -> None:
        """The worker has loaded the model."""
        self.weights_bytes = weights_bytes
        self._theirs.close()
        self._open = True
        self._loop.add_reader(self._ours.fileno(), self._answered)

    def submit(self, parts: Sequence[Sequence[Array]], seconds: float, done: Callback) -> None:
        """Copy the inputs into a slot, one below the other, and tell the worker."""
        number = self._idle.pop()
        slot = self._slots[number]
        timer = self._loop.call_later(seconds * (1 + len(self._pending)), self._hung, seconds)
        vigil, long = self.worker.vigil, self._compute >= _SOON
        self._pending[number] = _Pending(done, timer, long)
        if vigil is not None:
            vigil.runs += long
        try:
            end, inputs = 0, []
            for arrays in parts:
                if len(arrays) == 1:
                    where = slot.write(arrays, end)[0]
                else:
                    rows = sum(array.shape[0] for array in arrays)
                    where = slot.stack(arrays, end, (rows, *arrays[0].shape[1:]))
                inputs.append(where)
                end = where[2] + where[3]
            alone = vigil is None or vigil.alone
            self._ours.send(wire.encode(wire.Work(number, slot.size, aligned(end), inputs, alone)))
            if vigil is not None and not long:
                vigil.keep(min(self._compute + _SOON, self.worker.awake))
        except ConnectionError as error:
            lost = WorkerLostError(f"{self.name} does not take work: {error}")
            lost.begun = False
            self._loop.call_soon(self._finish, number, Result(error=lost))
        except (InfuseError, OSError, ValueError) as error:
            failure = error if isinstance(error, InfuseError) else ModelFailureError(str(error), where=self.name)
            self._loop.call_soon(self._finish, number, Result(error=failure))

    def lost(self, error: WorkerLostError) -> None:
        """The worker has ended, and with it all runs that it did not answer: the first is the one that had begun."""
        self.depth = 0
        if self._open:
            self._answered()
        self.suspect = bool(self._pending)
        self.abandon()
        for place, number in enumerate(list(self._pending)):
            told = WorkerLostError(error.what)
            told.begun = place == 0
            self._finish(number, Result(error=told))

    def abandon(self) -> None:
        """Close the socket and the memory; the worker ends the instance."""
        if self._open:
            self._loop.remove_reader(self._ours.fileno())
        self._open = False
        self._ours.close()
        self._theirs.close()
        for slot in self._slots:
            slot.close()
        self.worker.instances.pop(self.number, None)

    async def close(self) -> None:
        while self._pending:
            await asyncio.sleep(0.005)
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
            # The end of the process is noticed by itself; a worker that closed one socket but lives is ended.
            if self._open:
                self._loop.remove_reader(self._ours.fileno())
                self._open = False
                self.worker.kill()

    def _take(self, message: bytes) -> None:
        answer = wire.from_instance.decode(message)
        if answer.slot not in self._pending:
            return
        slot = self._slots[answer.slot]
        self.load.add(answer.busy * self.threads / 1e9)
        self._compute += 0.2 * ((answer.ended - answer.began) / 1e9 - self._compute)
        if answer.error is not None:
            result = Result(error=restored(answer.error), began=answer.began, ended=answer.ended)
        else:
            try:
                slot.reserve(answer.size)
                outputs = [slot.view(where) for where in answer.outputs]
                result = Result(outputs, answer.began, answer.ended)
            except InfuseError as error:
                result = Result(error=error)
        self._finish(answer.slot, result)

    def _finish(self, number: int, result: Result) -> None:
        pending = self._pending.pop(number, None)
        if pending is None:
            return
        pending.timer.cancel()
        if self.worker.vigil is not None:
            self.worker.vigil.runs -= pending.long
        try:
            pending.done(result)
        finally:
            self._idle.append(number)

    def _hung(self, seconds: float) -> None:
        """No answer in time: the worker is ended, which ends its runs."""
        self.worker.hung = f"a run took longer than {seconds:g} s"
        self.worker.kill()
