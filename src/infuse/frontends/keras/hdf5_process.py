"""Asks the process that opens HDF5 files: `hdf5_worker.py` says why it is one."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from infuse.errors import ModelFileError

_PROGRAM: Final = Path(__file__).with_name("hdf5_worker.py")
_SECONDS: Final = 6.0
"""For a file, and one more for each `_BYTES_A_SECOND`."""
_BYTES_A_SECOND: Final = 20_000_000
_HINT: Final = "fetch the model or save it again"


@dataclass(frozen=True)
class Content:
    """A file's groups as plain data (see `hdf5_worker.py`), and elements that are not as they are
    in the file.
    """

    root: dict[str, Any]
    elements: bytes


def read(data: memoryview) -> Content:
    """The content of a file; ModelFileError where h5py is not there, or the file is damaged so that
    the library crashes or does not end.
    """
    if find_spec("h5py") is None:
        raise ModelFileError(
            "weights of Keras lie in HDF5, which needs the package h5py",
            hint="pip install h5py",
        )
    return _WORKER.read(data)


class _Worker:
    """The process, started when it is needed; one request at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self.close)

    def read(self, data: memoryview) -> Content:
        """The content of a file."""
        with self._lock:
            try:
                text, elements = self._answer(data)
            except BaseException:
                # An answer that nobody reads would be taken for the next file's.
                self._end()
                raise
        root = json.loads(text)
        if "problem" in root:
            raise ModelFileError(f"the HDF5 file is damaged: {root['problem']}", hint=_HINT)
        return Content(root, elements)

    def _answer(self, data: memoryview) -> tuple[bytes, bytes]:
        process = self._started()
        try:
            self._send(process, data)
        except BrokenPipeError:
            # It ended between two requests, as it does when it is idle.
            self._end()
            process = self._started()
            self._send(process, data)
        return self._received(process, len(data))

    def _started(self) -> subprocess.Popen[bytes]:
        """The process of this one; a process that was forked has none yet."""
        if self._owner != os.getpid():
            self._process, self._owner = None, os.getpid()
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self._process

    @staticmethod
    def _send(process: subprocess.Popen[bytes], data: memoryview) -> None:
        assert process.stdin is not None
        process.stdin.write(len(data).to_bytes(8, "little"))
        process.stdin.write(data)
        process.stdin.flush()

    def _received(self, process: subprocess.Popen[bytes], length: int) -> tuple[bytes, bytes]:
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(_SECONDS + length / _BYTES_A_SECOND, stop)
        timer.start()
        try:
            return self._part(process), self._part(process)
        except EOFError as error:
            reason = "does not end" if late.is_set() else "crashes"
            raise ModelFileError(
                f"the HDF5 file is damaged: HDF5's library {reason} on it", hint=_HINT
            ) from error
        finally:
            timer.cancel()

    @staticmethod
    def _part(process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        head = process.stdout.read(8)
        length = int.from_bytes(head, "little")
        part = process.stdout.read(length) if len(head) == 8 else b""
        if len(head) < 8 or len(part) < length:
            raise EOFError
        return part

    def close(self) -> None:
        """End the process if this one has started it."""
        if self._owner == os.getpid():
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # what was not sent is not needed


_WORKER: Final = _Worker()
