"""Large messages of every kind, and how long the health of the server takes meanwhile.

`python -m benchmarks.serving_lists [--mib 60] [--most 100] [--only TEXT[,…]] [--repeat 1] [--json
FILE]`

`infuse serve` answers one message after another, of `--mib` MiB each. A process of its own asks for
the server's health over HTTP and gRPC every 5 ms; what is shown is the longest that this took, the
least of `--repeat` times. The row of nothing says what the machine itself does. Exit status 1 where
health took longer than `--most` milliseconds, or an answer is none that it may be.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from rich.table import Table

from benchmarks import machine, options, serving_list_cases, terminal
from benchmarks.serving_list_cases import GRPC, HOST, REST, Case
from benchmarks.serving_process import ROOT, infuse_server

SERVICE: Final = "/inference.GRPCInferenceService"
PAUSE: Final = 0.005
_SECONDS: Final = 600.0
CHANNEL: Final = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_LIVE: Final = b"\x08\x01"  # ServerLiveResponse(live=true)


class WrongAnswerError(RuntimeError):
    """Health was not answered, or not so."""


def sent(port: int, request: bytes) -> int:
    """The HTTP status of the answer to these bytes."""
    with socket.create_connection((HOST, port), timeout=_SECONDS) as connection:
        writer = threading.Thread(target=_written, args=(connection, request), daemon=True)
        writer.start()
        answer = _received(connection)
        writer.join()
    return int(answer.split(b" ", 2)[1])


def _written(connection: socket.socket, request: bytes) -> None:
    with contextlib.suppress(OSError):  # it has been refused already
        connection.sendall(request)


def _received(connection: socket.socket) -> bytes:
    """The beginning of the answer, once all of it has come."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 20):
            answer += part[: max(0, 64 - len(answer))]
    return answer


def called(channel: grpc.Channel, method: str, message: bytes) -> str:
    """The name of the status of a call; of a stream, OK where it has one answer that is none of an
    error.
    """
    try:
        if method == "ModelStreamInfer":
            (answer,) = channel.stream_stream(f"{SERVICE}/{method}")(
                iter([message]), timeout=_SECONDS
            )
            return "OK" if answer[:1] == b"\x12" else "INVALID_ARGUMENT"
        channel.unary_unary(f"{SERVICE}/{method}")(message, timeout=_SECONDS)
    except grpc.RpcError as error:
        return str(error.code().name)  # type: ignore[attr-defined]
    return "OK"


# ------------------------------------------------------------------------------------------- health


def watch(http: int, rpc: int) -> None:
    """Ask for health; for each line on standard input, print the longest that it took since the
    last one, as JSON.
    """
    worst: dict[str, float] = {}
    channel = grpc.insecure_channel(f"{HOST}:{rpc}")
    live = serving_list_cases.http(b"", path="/v2/health/live", verb="GET")
    asks: Mapping[str, Callable[[], bool]] = {
        "http": lambda: sent(http, live) == 200,
        "grpc": lambda: (
            channel.unary_unary(f"{SERVICE}/ServerLive")(b"", timeout=_SECONDS) == _LIVE
        ),
    }

    def ask(name: str) -> None:
        while True:
            began = time.perf_counter()
            right = asks[name]()
            took = time.perf_counter() - began if right else _SECONDS
            worst[name] = max(worst.get(name, 0.0), took)
            time.sleep(PAUSE)

    for name in asks:
        threading.Thread(target=ask, args=(name,), daemon=True).start()
    for _ in sys.stdin:
        print(json.dumps(worst), flush=True)
        worst.clear()


class Watch:
    """The process that asks for health."""

    def __init__(self, http: int, rpc: int) -> None:
        command = [sys.executable, "-m", "benchmarks.serving_lists", "--watch", f"{http},{rpc}"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._told()

    def during(self, work: Callable[[], Any]) -> tuple[Any, float, dict[str, float]]:
        """What comes of work, its seconds, and the longest that health took meanwhile, in
        milliseconds.
        """
        time.sleep(0.2)
        self._told()
        began = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - began
        time.sleep(0.2)
        worst = self._told()
        if set(worst) != {"http", "grpc"}:
            raise WrongAnswerError(f"health was answered only over {', '.join(worst) or 'nothing'}")
        return result, seconds, {name: 1000 * took for name, took in worst.items()}

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _told(self) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))


# ---------------------------------------------------------------------------------------- measuring


@contextlib.contextmanager
def server() -> Iterator[Any]:
    """A server with the models of the cases; its ports."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, kind in serving_list_cases.ECHOES.items():
            place = Path(folder, f"{name}.onnx")
            place.write_bytes(serving_list_cases.echo(kind))
            files[f"echo_{name.lower()}"] = place
        fields = [
            "--set",
            "security.admin_on_data_port=true",
            "--set",
            "limits.request_bytes=67108864",
        ]
        with infuse_server(files, fields) as ports:
            yield ports


def measure(watching: Watch, ports: Any, kind: str, case: Case, size: int) -> dict[str, Any]:
    """Send a message: its bytes, the seconds until its answer, whether that is right, and what
    health took.
    """
    message = case.make(size)
    if kind == "http":
        status, seconds, health = watching.during(lambda: sent(ports.http, message))
    else:
        with grpc.insecure_channel(f"{HOST}:{ports.grpc}", CHANNEL) as channel:
            status, seconds, health = watching.during(lambda: called(channel, case.method, message))
    right = status in case.statuses
    return {
        "bytes": len(message),
        "status": status,
        "right": right,
        "seconds": seconds,
        "health": health,
    }


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = options.parser("How long health takes while large messages are answered.")
    made.add_argument("--mib", type=float, default=60.0, help="of a message (default: 60)")
    made.add_argument(
        "--most", type=float, default=100.0, help="milliseconds of health (default: 100)"
    )
    made.add_argument(
        "--only",
        type=options.words,
        default=[],
        metavar="TEXT[,…]",
        help="cases with these in their name",
    )
    made.add_argument(
        "--repeat", type=int, default=1, help="how often; the least counts (default: 1)"
    )
    made.add_argument("--watch", help=argparse.SUPPRESS)
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run, print, save."""
    chosen = parser().parse_args(arguments)
    if chosen.watch:
        watch(*map(int, chosen.watch.split(",")))
        return 0
    cases = [
        (kind, name, case)
        for kind, all_ in (("http", REST), ("grpc", GRPC))
        for name, case in all_.items()
    ]
    cases = [
        each
        for each in cases
        if not chosen.only or any(text in f"{each[0]} {each[1]}" for text in chosen.only)
    ]
    rows: dict[str, dict[str, Any]] = {}
    with server() as ports, contextlib.closing(Watch(ports.http, ports.grpc)) as watching:
        _, seconds, health = watching.during(lambda: time.sleep(5))
        rows["nothing"] = {
            "bytes": 0,
            "status": "",
            "right": True,
            "seconds": seconds,
            "health": health,
        }
        for kind, name, case in terminal.watched(cases, lambda each: each[1]):
            found = [
                measure(watching, ports, kind, case, int(chosen.mib * 2**20))
                for _ in range(chosen.repeat)
            ]
            rows[f"{kind} {name}"] = min(
                found, key=lambda row: (row["right"], max(row["health"].values()))
            )
    table = Table("message", "MiB", "answer", "seconds", "health over HTTP, ms", "over gRPC, ms")
    late = False
    for name, row in rows.items():
        wrong = "" if row["right"] else " (wrong)"
        late |= not row["right"] or max(row["health"].values()) > chosen.most
        figures = (
            f"{row['bytes'] / 2**20:.1f}",
            f"{row['status']}{wrong}",
            f"{row['seconds']:.2f}",
        )
        table.add_row(name, *figures, *(f"{row['health'][over]:.0f}" for over in ("http", "grpc")))
    terminal.console().print(table)
    if chosen.json:
        machine.save(chosen.json, {"mib": chosen.mib, "rows": rows})
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
