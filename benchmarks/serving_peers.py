"""Infuse's server beside others that run ONNX Runtime: the same model, the same clients, one server
at a time.

`python -m benchmarks.serving_peers --models resnet50 --json FILE`, then `--models minilm_l6 --json
FILE`: what FILE holds already is kept and not measured again, so that a long table can be made in
parts (`--servers`, `--clients`).

* infuse: `infuse serve`, as it comes; HTTP with binary tensors.
* fastapi_json: FastAPI and ONNX Runtime as tutorials write it. uvicorn with uvloop and httptools.
* fastapi_bytes: the same with raw bytes and the model in a thread of its own, with all cores;
  fastapi_bytes_each: a process per core, one thread each.
* mlserver_json, mlserver_grpc: MLServer with a runtime of ours (it has none for ONNX), one worker
  process with all cores; mlserver_grpc_each: a worker per core, one thread each;
  mlserver_grpc_here: no workers; mlserver_grpc_batch: adaptive batching (up to 16 requests, 5 ms).
  JSON is the only form of tensors that it has over HTTP.

All answer one output. The peers live in an environment of their own under build/, which is made
when it is not there. Exit status 1 where throughput is below LEAST times the best peer's, or p99
not lower than that of every peer, or Infuse fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.engines import OnnxRuntime
from benchmarks.inputs import make_inputs
from benchmarks.serving_calls import (
    Arrays,
    Call,
    CallError,
    grpc_raw,
    plain_bytes,
    plain_json,
    rest_binary,
    rest_json,
)
from benchmarks.serving_load import Load, LoadError, checked
from benchmarks.serving_process import (
    BUILD,
    ROOT,
    Ports,
    ServerError,
    infuse_server,
    python_of,
    running,
)
from infuse.runtime.cpus import available_cpus

LEAST = 1.5
OURS = "infuse"
OUTPUTS = {"resnet50": "output", "minilm_l6": "pooler_output"}
APPS = ROOT / "benchmarks" / "serving_apps"
PACKAGES = (
    "fastapi",
    "mlserver==1.7.1",
    "onnxruntime",
    "orjson",
    "uvicorn[standard]",
    "uvloop<0.22",  # MLServer 1.7.1 asks for the current event loop, which later ones do not make
)
ALL = "all"


@dataclass(frozen=True)
class Task:
    """A model and what it is asked; `output` is the one that is answered."""

    name: str
    path: Path
    output: str
    feeds: Arrays
    expected: Arrays

    @classmethod
    def of(cls, path: Path, dims: Mapping[str, int]) -> Task:
        """A model of the zoo. The right answer is ONNX Runtime's."""
        name = OUTPUTS.get(path.stem)
        if name is None:
            raise ServerError(f"{path.stem} is not one of {', '.join(OUTPUTS)}")
        feeds = make_inputs(path, dims)
        right = OnnxRuntime(path, available_cpus()).answer(feeds)[name]
        return cls(path.stem, path, name, feeds, {name: right})


@dataclass(frozen=True)
class Peer:
    """How a server is started and asked. `processes` run the model, each with `threads` (ALL: as
    many as cores).
    """

    kind: str
    protocol: str
    processes: int | str = 1
    threads: int | str = ALL
    batching: Mapping[str, float] = field(default_factory=dict)


SERVERS: dict[str, Peer] = {
    OURS: Peer("infuse", "binary"),
    "fastapi_json": Peer("tutorial_json", "json"),
    "fastapi_bytes": Peer("careful_bytes", "bytes"),
    "fastapi_bytes_each": Peer("careful_bytes", "bytes", ALL, 1),
    "mlserver_json": Peer("mlserver", "json"),
    "mlserver_grpc": Peer("mlserver", "grpc"),
    "mlserver_grpc_each": Peer("mlserver", "grpc", ALL, 1),
    "mlserver_grpc_here": Peer("mlserver", "grpc", 0),
    "mlserver_grpc_batch": Peer(
        "mlserver", "grpc", 1, ALL, {"max_batch_size": 16, "max_batch_time": 0.005}
    ),
}
_FIXED = {"resnet50": ("mlserver_grpc_batch",)}
"""Servers that do not take a model: batches need a free first dimension."""


def count(number: int | str) -> int:
    """A number, or that of the cores."""
    return available_cpus() if number == ALL else int(number)


@contextlib.contextmanager
def serving(name: str, task: Task, python: Path) -> Iterator[Call]:
    """A server with the model, ready; the request that it takes."""
    peer = SERVERS[name]
    if peer.kind == "infuse":
        with infuse_server({task.name: task.path}) as ports:
            yield rest_binary(ports.http, task.name, task.feeds, [task.output])
    elif peer.kind == "mlserver":
        with _mlserver(peer, task, python) as ports:
            make, port = (
                (grpc_raw, ports.grpc) if peer.protocol == "grpc" else (rest_json, ports.http)
            )
            yield make(port, task.name, task.feeds, [task.output])
    else:
        with _fastapi(peer, task, python) as port:
            yield (
                plain_json(port, task.feeds)
                if peer.protocol == "json"
                else plain_bytes(port, task.feeds, task.output)
            )


@contextlib.contextmanager
def _fastapi(peer: Peer, task: Task, python: Path) -> Iterator[int]:
    port = Ports.free().http
    settings = {
        "MODEL": str(task.path),
        "OUTPUT": task.output,
        "THREADS": str(count(peer.threads)),
        "AT_ONCE": "1",
    }
    command = [
        str(python),
        "-m",
        "uvicorn",
        f"{peer.kind}:app",
        "--app-dir",
        str(APPS),
        "--port",
        str(port),
    ]
    command += [
        "--workers",
        str(count(peer.processes)),
        "--no-access-log",
        "--log-level",
        "warning",
    ]
    command += ["--loop", "uvloop", "--http", "httptools"]
    with running(command, port, "/ready", settings):
        yield port


@contextlib.contextmanager
def _mlserver(peer: Peer, task: Task, python: Path) -> Iterator[Ports]:
    ports = Ports.free()
    with tempfile.TemporaryDirectory() as folder:
        server = {
            "host": "127.0.0.1",
            "http_port": ports.http,
            "grpc_port": ports.grpc,
            "metrics_port": ports.other,
        }
        server |= {"parallel_workers": count(peer.processes), "debug": False}
        Path(folder, "settings.json").write_text(json.dumps(server), encoding="utf-8")
        extra = {"threads": count(peer.threads), "output": task.output}
        model = {"name": task.name, "implementation": "mlserver_onnx.OnnxModel", **peer.batching}
        model |= {"parameters": {"uri": str(task.path.resolve()), "version": "1", "extra": extra}}
        Path(folder, "model-settings.json").write_text(json.dumps(model), encoding="utf-8")
        command = [str(python.parent / "mlserver"), "start", folder]
        with running(
            command, ports.http, f"/v2/models/{task.name}/ready", {"PYTHONPATH": str(APPS)}
        ):
            yield ports


@dataclass
class Turn:
    """A turn of load; `error` says why there is none."""

    model: str
    server: str
    clients: int
    round: int
    load: Load | None = None
    error: str = ""

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What was measured."""
        return self.model, self.server, self.clients, self.round


def measure(
    task: Task, given: argparse.Namespace, python: Path, turns: list[Turn], keep: Callable[[], None]
) -> None:
    """All turns with a model that are not there yet; `keep` is called after each server."""
    known = {turn.key for turn in turns}
    names = [name for name in given.servers if name not in _FIXED.get(task.name, ())]
    for number in range(given.rounds):
        for name in terminal.watched(
            names if number % 2 == 0 else names[::-1], lambda each: f"{task.name}, {each}"
        ):
            left = [n for n in given.clients if (task.name, name, n, number) not in known]
            if left:
                turns += _turns(task, name, left, number, given.seconds, python)
                keep()


def _turns(
    task: Task, name: str, clients: list[int], number: int, seconds: int, python: Path
) -> list[Turn]:
    found = [Turn(task.name, name, each, number) for each in clients]
    try:
        with serving(name, task, python) as call:
            for turn in found:
                try:
                    turn.load = checked(call, task.expected, turn.clients, seconds)
                except (CallError, LoadError) as error:
                    turn.error = str(error)
    except ServerError as error:
        for turn in found:
            turn.error = str(error)
    return found


@dataclass
class Line:
    """A model at one load: medians of the turns."""

    model: str
    clients: int
    rate: dict[str, float]
    p50: dict[str, float]
    p99: dict[str, float]

    @property
    def peers(self) -> list[str]:
        """All servers but ours."""
        return [name for name in self.rate if name != OURS]

    @property
    def ratio(self) -> float:
        """Our throughput over that of the best peer; nan where either was not measured."""
        best = max((self.rate[name] for name in self.peers), default=float("nan"))
        return self.rate.get(OURS, float("nan")) / best

    @property
    def tail(self) -> float:
        """Our p99 over the lowest of the peers."""
        return self.p99.get(OURS, float("nan")) / min(
            (self.p99[name] for name in self.peers), default=float("nan")
        )

    @property
    def is_good(self) -> bool:
        """Whether it keeps both bars."""
        return self.ratio >= LEAST and self.tail < 1


def summarize(turns: list[Turn]) -> list[Line]:
    """A line for each model and number of clients."""
    lines = []
    for model, clients in dict.fromkeys((turn.model, turn.clients) for turn in turns):
        loads: dict[str, list[Load]] = {}
        for turn in turns:
            if (turn.model, turn.clients) == (model, clients) and turn.load:
                loads.setdefault(turn.server, []).append(turn.load)
        figures = (
            {
                name: float(np.median([getattr(load, value) for load in found]))
                for name, found in loads.items()
            }
            for value in ("rate", "p50", "p99")
        )
        lines.append(Line(model, clients, *figures))
    return sorted(lines, key=lambda line: (line.model, line.clients))


def table(lines: list[Line]) -> Table:
    """One line a model, load and server."""
    made = Table(
        "model",
        "clients",
        "server",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "× best peer",
        "p99 / lowest",
    )
    for line in lines:
        for name in line.rate:
            cells = [
                f"{line.rate[name]:.1f}",
                f"{1e3 * line.p50[name]:.2f}",
                f"{1e3 * line.p99[name]:.2f}",
            ]
            last = [f"{line.ratio:.2f}", f"{line.tail:.2f}"] if name == OURS else ["", ""]
            style = "red" if name == OURS and not line.is_good else None
            made.add_row(line.model, str(line.clients), name, *cells, *last, style=style)
    return made


def read(path: Path | None) -> list[Turn]:
    """The turns that a file holds, without those that failed; none where there is no file."""
    if path is None or not path.is_file():
        return []
    found = [Turn(**turn) for turn in json.loads(path.read_text("utf-8"))["turns"]]
    for turn in found:
        turn.load = Load(**turn.load) if isinstance(turn.load, dict) else None
    return [turn for turn in found if turn.load]


def versions(python: Path) -> dict[str, str]:
    """What the peers' environment holds of note."""
    names = [
        "fastapi",
        "mlserver",
        "numpy",
        "onnxruntime",
        "starlette",
        "uvicorn",
        "uvloop",
        "grpcio",
        "pydantic",
    ]
    text = (
        f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in "
        f"{names}}}))"
    )
    found: dict[str, str] = json.loads(
        subprocess.run([python, "-c", text], check=True, capture_output=True).stdout
    )
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = options.parser("Compare model servers under load.")
    options.add_models(made, ",".join(OUTPUTS))
    options.add_dims(made)
    shown = ", ".join(SERVERS)
    made.add_argument(
        "--servers",
        type=options.words,
        default=list(SERVERS),
        metavar="NAME[,…]",
        help=f"of {shown}",
    )
    made.add_argument("--clients", type=options.numbers, default=[1, 4, 16, 64], metavar="N[,…]")
    made.add_argument("--rounds", type=int, default=2, help="turns of each (default: 2)")
    made.add_argument("--seconds", type=int, default=5, help="length of a turn (default: 5)")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    made = parser()
    given, models = options.parse(made, arguments)
    if unknown := set(given.servers) - SERVERS.keys():
        made.error(f"no such server: {', '.join(sorted(unknown))}")
    console = terminal.console()
    turns = read(given.json)
    try:
        python = python_of(BUILD / "peers", PACKAGES)
        facts = {
            "peers": versions(python),
            "seconds": given.seconds,
            "dims": given.dims,
            "least": LEAST,
        }

        def keep() -> None:
            if given.json:
                lines = [
                    asdict(line) | {"ratio": line.ratio, "tail": line.tail}
                    for line in summarize(turns)
                ]
                machine.save(
                    given.json, facts | {"turns": [asdict(turn) for turn in turns], "lines": lines}
                )

        for path in models:
            measure(Task.of(path, given.dims), given, python, turns, keep)
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    lines = summarize(turns)
    console.print(table(lines))
    failed = any(turn.error for turn in turns if turn.server == OURS)
    for turn in turns:
        if turn.error:
            terminal.complain(
                console, f"{turn.model}, {turn.clients} clients", {turn.server: turn.error}
            )
    return 0 if all(line.is_good for line in lines) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
