"""A coder as the server sees it: a process that does one job after another."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import weakref
from contextlib import suppress
from typing import Final

import msgspec

from infuse.errors import UnavailableError
from infuse.serving.transports.coders.memory import Memory
from infuse.serving.transports.coders.messages import PLACE, Done, Job
from infuse.serving.workers.environment import child_environment
from infuse.serving.workers.failures import restored
from infuse.serving.workers.process import ending

_MODULE: Final = "infuse.serving.transports.coders.main"
_answers: Final = msgspec.msgpack.Decoder(Done)


class Coder:
    """A process that may take so many bytes of memory (0: no limit). UnavailableError where there
    can be none.
    """

    def __init__(self, memory: int) -> None:
        try:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            lifeline, self._lifeline = os.pipe()
        except OSError as error:
            raise UnavailableError(
                f"no process can be started that reads large messages: {error}"
            ) from error
        inherited = [theirs.fileno(), lifeline]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, *map(str, inherited), str(memory)],
                pass_fds=inherited,
                stdin=subprocess.DEVNULL,
                env=child_environment(),
                start_new_session=True,
            )
        except OSError as error:
            self._channel.close()
            os.close(self._lifeline)
            raise UnavailableError(
                f"no process can be started that reads large messages: {error}"
            ) from error
        finally:
            theirs.close()
            os.close(lifeline)
        self._finalizer = weakref.finalize(self, _end, self._process, self._channel, self._lifeline)

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def do(self, job: Job, source: Memory, target: Memory) -> Done:
        """What came of a job; its error is raised. UnavailableError: the process has ended over
        it.
        """
        place = source.put(msgspec.msgpack.encode(job))
        try:
            socket.send_fds(
                self._channel, [PLACE.pack(*place)], [source.descriptor, target.descriptor]
            )
            answer = self._channel.recv(PLACE.size)
        except OSError:
            answer = b""
        if not answer:
            self.kill()
            what = f"the process that read or wrote this message {ending(self._process.wait())}"
            raise UnavailableError(what, hint="send tensors as binary data, or in several requests")
        done = _answers.decode(target.view(PLACE.unpack(answer)))
        if done.error is not None:
            raise restored(done.error)
        return done

    def kill(self) -> None:
        """End the process at once, without waiting for its end."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def close(self) -> None:
        """End the process, and wait for its end."""
        self._finalizer()


def _end(process: subprocess.Popen[bytes], channel: socket.socket, lifeline: int) -> None:
    process.kill()
    process.wait()
    channel.close()
    os.close(lifeline)
