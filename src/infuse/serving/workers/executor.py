"""What the batcher asks of whoever runs a model, and the form in which it runs inside the server
itself.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

import numpy as np

from infuse.errors import InfuseError, ModelFailureError, UnavailableError
from infuse.runtime.session import Array
from infuse.serving.tuning import WAIT_SECONDS
from infuse.serving.workers.load import Load


class WorkerLostError(UnavailableError):
    """The worker ended, or was ended because it hung, before it answered.

    `begun`: this run was the one under way; it may be the cause. Others had not begun.
    """

    begun: bool = True


@dataclass(slots=True)
class Result:
    """What came of a run: outputs in the model's order, or the error.

    Outputs are valid until the callback returns, unless they are `owned` by whoever gets them.
    """

    outputs: Sequence[Array] = field(default_factory=list)
    began: int = 0
    ended: int = 0
    error: Exception | None = None
    owned: bool = False

    def clamp(self, dispatched: int, now: int) -> None:
        """Let it have run between two moments of this process's clock, whatever the worker says.

        A worker may also begin a run before this process has taken note of the end of the one
        before.
        """
        self.ended = min(max(self.ended or now, dispatched), now)
        self.began = min(max(self.began or now, dispatched), self.ended)


Callback = Callable[[Result], None]


class Executor(Protocol):
    """A place where one version of a model runs.

    `freed` is called, where it is set, whenever `free` may have risen, whoever's run has ended:
    what waits is looked at again then.
    """

    freed: Callable[[], None] | None
    start_seconds: float
    """What starting it has taken."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def free(self) -> int:
        """How many more runs it takes now."""

    @property
    def alive(self) -> bool:
        """Whether it can run at all."""

    def submit(self, parts: Sequence[Sequence[Array]], seconds: float, done: Callback) -> None:
        """Run once: for each input of the model, arrays that are stacked along the first axis (or
        the only one).

        `done` is called on the loop, once. After `seconds` without an answer the run counts as
        hung.
        """

    def give_up(self, done: Callback) -> None:
        """Nobody waits for this run, and others wait for its end: end it if it can be ended, at the
        price of a start.
        """

    def receive_buffer(self, size: int) -> Array | None:
        """Memory for so many bytes of inputs to come, which need not be copied then; None: there is
        none.
        """

    async def close(self) -> None:
        """End it; runs in progress end first."""


def stacked(parts: Sequence[Array]) -> Array:
    """Arrays below each other, or the only one itself."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class LocalExecutor:
    """Runs a compiled model on a thread of the server. A crash of the model is a crash of the
    server.

    The end of the process waits for no run.
    """

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        from infuse.serving.workers.main import Runner

        self.name = name
        self.threads = threads
        self.start_seconds = 0.0
        self.load = Load()
        self.freed: Callable[[], None] | None = None
        self._runner = Runner(str(folder), threads)
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._busy = self._hung = 0
        self._closed = False
        self.weights_bytes = self._runner.model.weights_bytes
        threading.Thread(target=self._serve, daemon=True, name=name).start()

    @property
    def free(self) -> int:
        return 0 if self._closed else 1 - self._busy

    @property
    def alive(self) -> bool:
        return not self._closed

    def give_up(self, done: Callback) -> None:
        """A thread cannot be ended."""

    def receive_buffer(self, size: int) -> Array | None:
        """None: inputs are not copied, wherever they lie."""
        return None

    def submit(self, parts: Sequence[Sequence[Array]], seconds: float, done: Callback) -> None:
        """Run on the thread. A run that hangs cannot be ended here: it is reported, and the place
        stays busy.
        """
        loop = asyncio.get_running_loop()
        self._busy += 1
        answered = False

        def hung() -> None:
            nonlocal answered
            answered = True
            self._hung += 1
            error = ModelFailureError(
                f"the model has not answered within {seconds:g} s", where=self.name
            )
            done(Result(error=error))

        def finished(result: Result) -> None:
            self._busy -= 1
            self.load.add((result.ended - result.began) * self.threads / 1e9)
            timer.cancel()
            if answered:
                self._hung -= 1
            else:
                done(result)
            if self.freed is not None:
                self.freed()

        def work() -> None:
            result = self._run(parts)
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(finished, result)

        timer = loop.call_later(seconds, hung)
        self._work.put(work)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work
        self._runner.close()

    def _run(self, parts: Sequence[Sequence[Array]]) -> Result:
        began = time.perf_counter_ns()
        try:
            outputs = [
                np.array(output, copy=True)
                for output in self._runner([stacked(part) for part in parts])
            ]
        except InfuseError as error:
            return Result(error=error)
        except Exception as error:  # it is handed to whoever waits for the run
            return Result(
                error=ModelFailureError(f"{type(error).__name__}: {error}", where=self.name)
            )
        return Result(outputs, began, time.perf_counter_ns(), owned=True)

    async def close(self) -> None:
        """End it once its run has ended; one that hangs is left behind."""
        self._closed = True
        while self._busy > self._hung:
            await asyncio.sleep(WAIT_SECONDS)
        self._work.put(None)
