"""Memory of a server and its workers over many loads and unloads, and over many requests: does it
grow?

`python -m benchmarks.serving_memory [--cycles 1000] [--requests 1000000] [--json FILE]`

First a model is loaded, asked once and unloaded, again and again. Then client processes send
requests over HTTP and gRPC to a model that stays loaded, whose answers are checked. Meanwhile the
memory of the server and of its workers is looked at: what is resident (RSS), of that what is no
file's (anonymous), and the part of what is shared with others (PSS; it is not judged, for it
changes with those others). *Growth* is the median of the last tenth of the looks over the median of
the second tenth; the first tenth is warm-up. Linux only. Exit status 1 where resident or anonymous
memory grew by more than `--most` percent, or more than a few descriptors are left over.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.progress import Progress
from rich.table import Table

from benchmarks import machine, options, serving_faults, terminal
from benchmarks.process import Memory
from benchmarks.serving_calls import HOST
from benchmarks.serving_clients import Clients, Task
from benchmarks.serving_process import Ports, running

MODEL: Final = "add"
_FEW: Final = 4  # descriptors: connections come and go
_LOOKS: Final = 200  # at the memory, over all requests


class MemoryBenchError(RuntimeError):
    """The server did not do what it was asked."""


@dataclass
class Look:
    """What was held at one time: bytes of the server and of all its workers, and the server's open
    descriptors.
    """

    done: int
    server_resident: int
    server_anonymous: int
    server_pss: int
    workers_resident: int
    workers_anonymous: int
    workers_pss: int
    descriptors: int


@dataclass
class Phase:
    """One kind of work, and the looks while it went on."""

    name: str
    looks: list[Look] = field(default_factory=list)
    seconds: float = 0.0
    wrong: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def growth(self, of: str) -> float:
        """The part by which it grew after the warm-up."""
        begin, end = self.ends(of)
        return end / begin - 1 if begin else 0.0

    def ends(self, of: str) -> tuple[float, float]:
        """The medians after the warm-up and at the end."""
        values = [getattr(look, of) for look in self.looks]
        tenth = max(1, len(values) // 10)
        return statistics.median(values[tenth : 2 * tenth] or values), statistics.median(
            values[-tenth:]
        )

    def grown(self) -> dict[str, float]:
        """Growth of all that is looked at, where there is any of it."""
        names = [name for name in asdict(self.looks[0]) if name != "done" and self.ends(name)[1]]
        return {name: self.growth(name) for name in names}

    def some(self) -> list[dict[str, int]]:
        """About a hundred of the looks, as plain data."""
        return [asdict(look) for look in self.looks[:: 1 + len(self.looks) // 100]]

    def is_good(self, most: float) -> bool:
        """Whether nothing grew by more than `most`, and nothing went wrong."""
        return (
            not self.wrong
            and not self.errors
            and not any(self.is_bad(name, most) for name in self.grown())
        )

    def is_bad(self, of: str, most: float) -> bool:
        """Whether this grew by more than it may."""
        if of == "descriptors":
            begin, end = self.ends(of)
            return end - begin > _FEW
        return not of.endswith("_pss") and self.growth(of) > most


class Bench:
    """A server process and its ports."""

    def __init__(self, pid: int, ports: Ports) -> None:
        self._pid = pid
        self._ports = ports

    def cycles(self, count: int, progress: Progress) -> Phase:
        """Load, ask and unload so many times."""
        phase, began = Phase("loads and unloads"), time.monotonic()
        for number in progress.track(range(count), description=phase.name):
            self._post(self._ports.other, f"/v2/repository/models/{MODEL}/load", {})
            self._ask(float(number))
            self._post(self._ports.other, f"/v2/repository/models/{MODEL}/unload", {})
            phase.looks.append(self.look(number + 1))
        phase.seconds = time.monotonic() - began
        return phase

    def requests(self, count: int, connections: int, progress: Progress) -> Phase:
        """Answer so many requests of several clients."""
        phase = Phase("requests")
        self._post(self._ports.other, f"/v2/repository/models/{MODEL}/load", {})
        ports = [(False, self._ports.http), (True, self._ports.grpc)]
        tasks = [
            Task(grpc, port, connections, (MODEL,), {}, number)
            for number, (grpc, port) in enumerate(ports)
        ]
        began, next_look = time.monotonic(), 0
        bar = progress.add_task(phase.name, total=count)
        clients = Clients(tasks)
        while (done := clients.answered) < count:
            progress.update(bar, completed=done)
            if done >= next_look:
                phase.looks.append(self.look(done))
                next_look = done + max(1, count // _LOOKS)
            time.sleep(0.02)
        tally = clients.stop()
        phase.seconds = time.monotonic() - began
        phase.wrong = tally.wrong_count + tally.lost_count
        phase.errors = dict(tally.errors)
        self._post(self._ports.other, f"/v2/repository/models/{MODEL}/unload", {})
        return phase

    def look(self, done: int) -> Look:
        """What the server and its workers hold now."""
        server = Memory.of(self._pid)
        workers = [Memory.of(pid) for pid in self._workers()]
        descriptors = sum(1 for _ in Path(f"/proc/{self._pid}/fd").iterdir())
        return Look(
            done,
            server.resident,
            server.anonymous,
            server.shared,
            sum(worker.resident for worker in workers),
            sum(worker.anonymous for worker in workers),
            sum(worker.shared for worker in workers),
            descriptors,
        )

    def _workers(self) -> list[int]:
        return [
            worker["pid"]
            for worker in self._answer(self._ports.other, "GET", "/v2/placement")["workers"]
        ]

    def _ask(self, value: float) -> None:
        data = [value] * 4
        item = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": data}
        found = self._post(self._ports.http, f"/v2/models/{MODEL}/infer", {"inputs": [item]})
        wanted = serving_faults.expected("good", 1, value)
        if not np.allclose(found["outputs"][0]["data"], wanted):
            raise MemoryBenchError(f"{found} is not {wanted}")

    def _post(self, port: int, path: str, body: dict[str, Any]) -> Any:
        return self._answer(port, "POST", path, json.dumps(body).encode())

    def _answer(self, port: int, method: str, path: str, body: bytes | None = None) -> Any:
        connection = http.client.HTTPConnection(HOST, port, timeout=120)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise MemoryBenchError(f"{path} says {answer.status}: {content[:300]!r}")
        return json.loads(content) if content else None


@contextmanager
def bench(given: argparse.Namespace) -> Iterator[Bench]:
    """A server over one small model, which is not loaded."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "models", MODEL, "1")
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(serving_faults.model("good", 1))
        ports = Ports.free()
        config = {
            "repository": f"{folder}/models",
            "cache": f"{folder}/cache",
            "control": "explicit",
            "http": {"port": ports.http},
            "grpc": {"port": ports.grpc},
            "admin": {"port": ports.other},
            "workers": {"mode": given.workers},
            "model_defaults": {"threads": 1},
        }
        path = Path(folder, "server.yaml")
        path.write_text(json.dumps(config), encoding="utf-8")
        command = [sys.executable, "-m", "infuse", "serve", "--config", str(path)]
        with running(command, ports.http, "/v2/health/ready") as server:
            yield Bench(server.pid, ports)


def table(phases: Sequence[Phase], most: float) -> Table:
    """One line for each thing that is looked at."""
    made = Table(title="memory", title_justify="left")
    for name in ("while", "of", "after warm-up", "at the end", "growth"):
        made.add_column(name, justify="left" if name in ("while", "of") else "right")
    for phase in phases:
        for name, grown in phase.grown().items():
            unit = 1 if name == "descriptors" else 1 << 20
            begin, end = (
                f"{value / unit:.1f}{'' if unit == 1 else ' MiB'}" for value in phase.ends(name)
            )
            style = "red" if phase.is_bad(name, most) else None
            made.add_row(
                phase.name, name.replace("_", " "), begin, end, f"{grown:+.2%}", style=style
            )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run, print, save."""
    parser = options.parser("Watch the memory of a server over loads, unloads and requests.")
    parser.add_argument(
        "--cycles", type=int, default=1000, help="loads and unloads (default: 1000)"
    )
    parser.add_argument("--requests", type=int, default=1_000_000, help="(default: 1000000)")
    parser.add_argument(
        "--connections", type=int, default=8, help="of each client process (default: 8)"
    )
    parser.add_argument(
        "--workers", choices=("process", "inprocess"), default="process", help="(default: process)"
    )
    parser.add_argument(
        "--most", type=float, default=2.0, help="percent that it may grow (default: 2)"
    )
    given = parser.parse_args(arguments)
    phases = []
    console, most = terminal.console(), given.most / 100
    with (
        Progress(console=type(console)(stderr=True), transient=True) as progress,
        bench(given) as server,
    ):
        if given.cycles:
            phases.append(server.cycles(given.cycles, progress))
        if given.requests:
            phases.append(server.requests(given.requests, given.connections, progress))
    console.print(table(phases, most))
    for phase in phases:
        told = (
            f", {phase.wrong} wrong or lost, {sum(phase.errors.values())} errors"
            if phase.name == "requests"
            else ""
        )
        console.print(f"{phase.looks[-1].done} {phase.name} in {phase.seconds:.0f} s{told}")
    if given.json:
        figures = [
            asdict(phase) | {"looks": phase.some(), "growth": phase.grown()} for phase in phases
        ]
        asked = {name: value for name, value in vars(given).items() if name != "json"}
        machine.save(given.json, {"asked": asked, "phases": figures})
    return 0 if all(phase.is_good(most) for phase in phases) else 1


if __name__ == "__main__":
    sys.exit(main())
