"""A server in a process of its own, from its start until it is ready, and its end."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.serving_calls import HOST

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
READY_SECONDS = 120.0
_LEAVE_SECONDS = 20.0


class ServerError(RuntimeError):
    """A server did not start."""


@dataclass
class Ports:
    """Free ports, taken for a server that is to listen there."""

    http: int
    grpc: int
    other: int
    process: int = 0
    """The server's, where it runs."""

    @classmethod
    def free(cls) -> Ports:
        """Ports that nobody listens on now."""
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
            for each in sockets:
                each.bind((HOST, 0))
            return cls(*(each.getsockname()[1] for each in sockets))


@contextlib.contextmanager
def running(
    command: Sequence[str], port: int, ready: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The process of `command`, once `GET ready` on `port` is answered with 200; ServerError shows
    its log.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            end = time.monotonic() + READY_SECONDS
            while not _is_ready(port, ready):
                if process.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    text = log.read().decode(errors="replace")[-1500:]
                    raise ServerError(f"{Path(command[0]).name} does not serve: {text}")
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def infuse_server(models: Mapping[str, Path], options: Sequence[str] = ()) -> Iterator[Ports]:
    """`infuse serve` with these ONNX files as models; `options` such as `--set FIELD=VALUE`."""
    ports = Ports.free()
    with tempfile.TemporaryDirectory() as folder:
        for name, file in models.items():
            place = Path(folder, "repository", name, "1")
            place.mkdir(parents=True)
            shutil.copyfile(file, place / "model.onnx")
        numbers = {"http": ports.http, "grpc": ports.grpc, "admin": ports.other}
        command = [
            sys.executable,
            "-m",
            "infuse",
            "serve",
            str(Path(folder, "repository")),
            "--control",
            "none",
        ]
        command += [
            word for name, port in numbers.items() for word in (f"--{name}-port", str(port))
        ]
        command += ["--set", f"state={Path(folder, 'state.json')}", *options]
        with running(command, ports.http, "/v2/health/ready") as process:
            yield replace(ports, process=process.pid)


def python_of(folder: Path, packages: Sequence[str]) -> Path:
    """The Python of a virtual environment with these packages; it is made when it is not there."""
    python, done = folder / "bin" / "python", folder / "packages.txt"
    if done.is_file() and done.read_text("utf-8").split("\n") == list(packages):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    install = [str(python), "-m", "pip", "install", "-q", *packages]
    for command in ([sys.executable, "-m", "venv", str(folder)], install):
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode:
            raise ServerError(f"the environment {folder} cannot be made: {ended.stderr[-1500:]}")
    done.write_text("\n".join(packages), encoding="utf-8")
    return python


def _is_ready(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
