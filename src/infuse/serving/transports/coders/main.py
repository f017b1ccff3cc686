"""A coder: `python -m infuse.serving.transports.coders.main SOCKET LIFELINE MEMORY`, started
by the server and ended with it.

It reads and writes one message after another, in memory that comes with each, and sees nothing
else: no model, no file.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from infuse.errors import TooLargeError
from infuse.serving.transports.coders.memory import Memory
from infuse.serving.transports.coders.messages import PLACE, Done, Job
from infuse.serving.workers.failures import describe

_FIRST_TO_GO: Final = "900"  # of 1000: what the kernel ends first when memory runs out
_jobs: Final = msgspec.msgpack.Decoder(Job)


def _done(source: Memory, target: Memory, place: tuple[int, int]) -> Done:
    try:
        job = _jobs.decode(source.view(place))
        module, _, name = job.work.partition(":")
        done: Done = getattr(importlib.import_module(module), name)(job, source, target)
        return done
    except MemoryError:
        what = "it takes more memory to read or to write this message than a process has for that"
        return Done(
            describe(
                TooLargeError(what, hint="send tensors as binary data, or in several requests")
            )
        )
    except Exception as error:  # whatever it is belongs to this message: the server is told
        return Done(describe(error))


def serve(channel: socket.socket) -> None:
    """Do what the server says, until it closes the socket."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, PLACE.size, 2)
        if not message:
            return
        source, target = map(Memory, descriptors)
        done = _done(source, target, PLACE.unpack(message))
        place = target.put(msgspec.msgpack.encode(done))
        source.close()
        target.close()
        del done
        channel.send(PLACE.pack(*place))
        gc.collect()


def _end_with(lifeline: int) -> None:
    """Let the kernel end this process as soon as the other end of a pipe is closed, whatever it is
    doing.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    watch = select.poll()
    watch.register(lifeline, 0)
    if watch.poll(0):
        os._exit(0)


def main(arguments: Sequence[str]) -> int:
    """Serve over the inherited socket: descriptors of it and of a pipe, memory in bytes (0: no
    limit).
    """
    descriptor, lifeline, memory = map(int, arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # both are the server's to answer
        signal.signal(number, signal.SIG_IGN)
    _end_with(lifeline)
    # it would look at all elements again and again, and there is nothing to collect among them
    gc.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    with suppress(OSError):  # only a hint to the kernel
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, "ascii")
    with socket.socket(fileno=descriptor) as channel:
        serve(channel)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
