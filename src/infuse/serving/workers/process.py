"""Worker processes as the server sees them: started, given instances of models, watched, and
ended.
"""

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

from infuse.errors import CompiledModelError, ModelFailureError
from infuse.serving.tuning import END_SECONDS
from infuse.serving.workers import wire
from infuse.serving.workers.environment import child_environment
from infuse.serving.workers.executor import WorkerLostError
from infuse.serving.workers.polling import Waiting
from infuse.serving.workers.process_executor import ProcessExecutor

_MODULE: Final = "infuse.serving.workers.main"


class WorkerProcess:
    """A process that runs instances of models. `cores` are those that it keeps to, `waiting` how
    the server waits for its answers.
    """

    _numbers = itertools.count(1)

    def __init__(
        self, cores: Sequence[int], memory_mb: int = 0, waiting: Waiting | None = None
    ) -> None:
        self.waiting = waiting or Waiting()
        self.cores = tuple(cores)
        self.memory_mb = memory_mb
        self.name = f"worker-{next(self._numbers)}"
        self.started_at = time.time()
        self.base_bytes = 0
        self.instances: dict[int, ProcessExecutor] = {}
        self.on_exit: list[Callable[[WorkerProcess], None]] = []
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._starts: dict[int, asyncio.Future[wire.Started]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pidfd = -1
        self.hung = ""
        self.given_up = False
        self.expected = False
        self.farewell = ""
        self.carried: list[ProcessExecutor] = []

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

    async def add(self, label: str, folder: Path, threads: int, seconds: float) -> ProcessExecutor:
        """Load a compiled model in the worker. CompiledModelError when it cannot, WorkerLostError
        when it died.
        """
        try:
            executor = ProcessExecutor(self, label, threads)
        except OSError as error:
            raise ModelFailureError(
                f"{self.name} cannot be given memory and a socket: {error}"
            ) from error
        number = executor.number
        started: asyncio.Future[wire.Started] = asyncio.get_running_loop().create_future()
        self._starts[number] = started
        try:
            if not self.alive or self._control is None:
                raise WorkerLostError(f"{self.name} is not there")
            message = wire.encode(wire.Start(number, str(folder), threads, self.waiting.seconds))
            descriptors = executor.descriptors()
            await asyncio.to_thread(socket.send_fds, self._control, [message], descriptors)
            answer = await asyncio.wait_for(started, seconds)
        except (asyncio.TimeoutError, OSError) as error:
            executor.abandon()
            self.kill()
            what = f"{self.name} has not loaded the model within {seconds:g} s"
            raise WorkerLostError(
                what if isinstance(error, asyncio.TimeoutError) else f"{what}: {error}"
            ) from error
        except BaseException:
            executor.abandon()
            raise
        finally:
            self._starts.pop(number, None)
        if answer.error:
            executor.abandon()
            raise CompiledModelError(
                f"the worker cannot load the model: {answer.error}", where=str(folder)
            )
        executor.open(answer.weights)
        self.base_bytes = self.base_bytes or answer.before
        self.instances[number] = executor
        return executor

    def kill(self) -> None:
        """End it at once; its exit is noticed as any other."""
        if self._process is not None and not self.ended.done():
            with suppress(ProcessLookupError):
                self._process.kill()

    async def close(self, grace: float = END_SECONDS) -> None:
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
        if self.given_up:
            why = "was ended: nobody waited for its run, and others waited for its end"
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
