"""A worker process: `python -m infuse.serving.workers.main SOCKET`, started by the server and ended
with it.

Each instance of a model has a thread, a socket and slots of shared memory of its own. The worker
opens compiled models only; it never sees a model file, the network or another model's requests.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NoReturn

import numpy as np

import infuse
from infuse.runtime.session import Array
from infuse.serving.workers import wire
from infuse.serving.workers.budget import memory_of
from infuse.serving.workers.failures import describe
from infuse.serving.workers.memory import Slot, aligned
from infuse.serving.workers.polling import PollingReceiver


class Runner:
    """A compiled model that runs on arrays in the order of its inputs."""

    def __init__(self, folder: str, threads: int) -> None:
        self.model = infuse.load_compiled(folder, threads)
        inputs = [spec for spec in self.model.inputs if not spec.optional]
        self._names = [spec.name for spec in inputs]
        self._text = [spec.dtype == object for spec in inputs]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs in order; texts are bytes on both sides."""
        if any(self._text):
            inputs = [_decoded(array) if text else array for array, text in zip(inputs, self._text)]
        outputs = [
            np.asarray(value) for value in self.model.run(dict(zip(self._names, inputs))).values()
        ]
        return [_encoded(array) if array.dtype == object else array for array in outputs]

    def close(self) -> None:
        """Free the model."""
        if hasattr(self.model, "close"):
            self.model.close()


def _decoded(array: Array) -> Array:
    texts = np.empty(array.shape, object)
    for index, element in np.ndenumerate(array):
        texts[index] = element.decode("utf-8", "surrogateescape")
    return texts


def _encoded(array: Array) -> Array:
    texts = np.empty(array.shape, object)
    for index, element in np.ndenumerate(array):
        texts[index] = (
            element
            if isinstance(element, bytes)
            else str(element).encode("utf-8", "surrogateescape")
        )
    return texts


class Instance(threading.Thread):
    """Serves one compiled model over one socket, one run at a time."""

    running: ClassVar[set[int]] = set()
    """The numbers of those that compute, of all in this process."""

    def __init__(self, start: wire.Start, channel: socket.socket, slots: Sequence[Slot]) -> None:
        super().__init__(daemon=True, name=f"instance-{start.instance}")
        self._channel = channel
        self._ear = PollingReceiver(channel, wire.MOST_BYTES, start.awake, self.running)
        self._number = start.instance
        self._slots = slots
        self.runner = Runner(start.folder, start.threads)

    def run(self) -> None:
        """Answer work until the other side closes the socket."""
        try:
            while message := self._ear.receive():
                work = wire.to_instance.decode(message)
                self._ear.alone = work.alone
                self.running.add(self._number)
                done = self._done(work)
                self.running.discard(self._number)
                self._channel.send(wire.encode(done))
        except OSError as error:
            print(f"instance lost its socket: {error}", file=sys.stderr)  # noqa: T201
        finally:
            self._channel.close()
            for slot in self._slots:
                slot.close()
            self.runner.close()

    def _done(self, work: wire.Work) -> wire.Done:
        slot = self._slots[work.slot]
        began, busy = time.perf_counter_ns(), time.thread_time_ns()
        try:
            slot.reserve(work.size)
            outputs = self.runner([slot.view(where) for where in work.inputs])
            ended = time.perf_counter_ns()
            places = slot.write(outputs, aligned(work.results))
        # whatever it is belongs to this run: the server is told, and the worker goes on
        except Exception as error:
            busy = time.thread_time_ns() - busy
            return wire.Done(
                work.slot, slot.size, [], began, time.perf_counter_ns(), describe(error), busy
            )
        return wire.Done(
            work.slot, slot.size, places, began, ended, None, time.thread_time_ns() - busy
        )


def serve(control: socket.socket) -> None:
    """Start and end instances as the server says, until it closes the socket."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, wire.MOST_BYTES, 64)
        if not message:
            return
        order = wire.to_worker.decode(message)
        before = memory_of(os.getpid()).own
        try:
            slots = [Slot(descriptor) for descriptor in descriptors[1:]]
            instance = Instance(order, socket.socket(fileno=descriptors[0]), slots)
        except Exception as error:  # a model that does not load is told to the server; others go on
            for descriptor in descriptors:
                with suppress(OSError):
                    os.close(descriptor)
            control.send(
                wire.encode(wire.Started(order.instance, str(error) or type(error).__name__))
            )
            continue
        instance.start()
        weights = instance.runner.model.weights_bytes
        control.send(wire.encode(wire.Started(order.instance, "", weights, before)))


def limit(cores: Sequence[int], memory_mb: int) -> None:
    """Keep to these cores and this much memory, and be what the kernel ends first when memory runs
    out.
    """
    if cores:
        os.sched_setaffinity(0, cores)
    if memory_mb:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory_mb << 20, memory_mb << 20))
    with suppress(OSError):  # only a hint to the kernel
        Path("/proc/self/oom_score_adj").write_text("500", "ascii")


def main(arguments: Sequence[str]) -> int:
    """Serve over the inherited socket: descriptor, cores (comma-separated), memory in MiB (0: no
    limit).
    """
    descriptor, cores, memory = arguments
    for number in (signal.SIGINT, signal.SIGTERM):  # both are the server's to answer
        signal.signal(number, signal.SIG_IGN)
    limit([int(core) for core in cores.split(",") if core], int(memory))
    with socket.socket(fileno=int(descriptor)) as control:
        serve(control)
    return 0


def _exit(status: int) -> NoReturn:
    os._exit(status)  # threads may still be inside of native code


if __name__ == "__main__":
    _exit(main(sys.argv[1:]))
