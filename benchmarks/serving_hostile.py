"""Hostile models, configurations and requests, and how long the health of the server takes
meanwhile.

`python -m benchmarks.serving_hostile [--seconds 30] [--memory 2048] [--most 100] [--only TEXT[,…]]
[--json FILE]`

The cases are those of the tests, one after another: models that ask for too much are uploaded, and
run once if they load; configurations are uploaded with a model that is sound; requests are sent as
they are. `--seconds` limits what a build, a run while warming up and a request take, `--memory` a
build and a worker. A process of its own asks for the server's health every 5 ms; what is shown is
the longest that this took, and what memory of its own the server's process took beyond what it had.
Exit status 1 where a case lasted twice `--seconds` or longer, health took longer than `--most`
milliseconds, that memory is more than 256 MiB, or an answer is no refusal of ours.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import ModelProto
from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.process import OwnMemory
from benchmarks.serving_lists import Watch, sent
from benchmarks.serving_process import HOST, Ports, infuse_server
from tests.models import hostile_models
from tests.serving import hostile_cases
from tests.serving.models import adder

_PATIENCE: Final = 900.0
_SMALL: Final = 2
_ELEMENTS: Final = 10**6
_MEBIBYTES: Final = 256


@dataclass
class Ending:
    """How a case ended: the HTTP status, the beginning of the error, and whether both may be so."""

    status: int
    error: str
    right: bool


@dataclass(frozen=True)
class Case:
    """`run` sends it to a server that listens there."""

    name: str
    run: Callable[[int], Ending]


def cases(memory: int) -> list[Case]:
    """All of them, named by their kind first; workers of models may take so many MiB."""
    return [
        *(
            Case(f"model: {name}", partial(_model, make=make, memory=memory))
            for name, make in hostile_models.CASES.items()
        ),
        *(
            Case(f"configuration: {name}", partial(_configuration, name=name, text=text))
            for name, (text, _) in hostile_cases.CONFIGURATIONS.items()
        ),
        *(
            Case(f"request: {name}", partial(_request, message=message, expected=expected))
            for name, (message, expected) in hostile_cases.SINGLE.items()
        ),
        *(
            Case(
                f"list: {name}",
                partial(_request, message=make(hostile_cases.SMALL), expected=expected),
            )
            for name, (make, expected) in hostile_cases.LISTS.items()
        ),
    ]


# ------------------------------------------------------------------------------------------ sending


def _post(port: int, path: str, content: dict[str, Any]) -> tuple[int, Any]:
    return _called(port, "POST", path, json.dumps(content).encode())


def _called(port: int, verb: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    connection = http.client.HTTPConnection(HOST, port, timeout=_PATIENCE)
    try:
        connection.request(verb, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    return answer.status, json.loads(text) if text else {}


def _model(port: int, make: Callable[[], ModelProto], memory: int) -> Ending:
    """Load it; if it loads, run it once, and take it off."""
    parameters = {
        "file:1/model.onnx": base64.b64encode(make().SerializeToString()).decode(),
        "config": json.dumps({"memory_mb": memory}),
    }
    status, answer = _post(port, "/v2/repository/models/hostile/load", {"parameters": parameters})
    if status != http.client.OK:
        return _refused(status, answer)
    status, answer = _infer(port)
    _post(port, "/v2/repository/models/hostile/unload", {})
    return Ending(status, "", right=True) if status == http.client.OK else _refused(status, answer)


def _infer(port: int) -> tuple[int, Any]:
    status, signature = _called(port, "GET", "/v2/models/hostile")
    if status != http.client.OK:
        return status, signature
    inputs = []
    for each in signature["inputs"]:
        shape = [_SMALL if size < 0 else size for size in each["shape"]]
        count = int(np.prod(shape, dtype=object))
        if count > _ELEMENTS:
            return http.client.OK, {}
        element: Any = {"BOOL": True, "BYTES": "a"}.get(each["datatype"], 1)
        inputs.append(
            {
                "name": each["name"],
                "shape": shape,
                "datatype": each["datatype"],
                "data": [element] * count,
            }
        )
    return _post(port, "/v2/models/hostile/infer", {"inputs": inputs})


def _configuration(port: int, name: str, text: str) -> Ending:
    file = "config.pbtxt" if name.startswith("{") else "config.yaml"
    parameters = {"file:1/model.onnx": adder(1.0), f"file:{file}": text.encode()}
    coded = {path: base64.b64encode(content).decode() for path, content in parameters.items()}
    return _refused(*_post(port, "/v2/repository/models/hostile/load", {"parameters": coded}))


def _refused(status: int, answer: Any) -> Ending:
    error = str(answer.get("error", ""))
    return Ending(status, error[:200], status >= http.client.BAD_REQUEST and "INF-" in error)


def _request(port: int, message: bytes, expected: int) -> Ending:
    status = sent(port, message)
    refused = http.client.BAD_REQUEST <= status < http.client.INTERNAL_SERVER_ERROR
    return Ending(status, "", status == expected or (not expected and refused))


# ---------------------------------------------------------------------------------------- measuring


@contextlib.contextmanager
def server(seconds: int, memory: int) -> Iterator[Ports]:
    """A server with these limits and the model `add`."""
    fields = {
        "security.admin_on_data_port": "true",
        "limits.request_seconds": seconds,
        "workers.build_seconds": seconds,
        "workers.start_seconds": 2 * seconds,
        "workers.build_memory_mb": memory,
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "add.onnx")
        file.write_bytes(adder(1.0))
        settings = [word for name, value in fields.items() for word in ("--set", f"{name}={value}")]
        with infuse_server({"add": file}, settings) as ports:
            yield ports


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = options.parser(
        "How hostile models, configurations and requests end, and what health takes meanwhile."
    )
    made.add_argument(
        "--seconds", type=int, default=30, help="that a build or a request may take (default: 30)"
    )
    made.add_argument(
        "--memory", type=int, default=2048, help="MiB of a build and of a worker (default: 2048)"
    )
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
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run, print, save."""
    chosen = parser().parse_args(arguments)
    listed = [
        case
        for case in cases(chosen.memory)
        if not chosen.only or any(text in case.name for text in chosen.only)
    ]
    rows: dict[str, dict[str, Any]] = {}
    with (
        server(chosen.seconds, chosen.memory) as ports,
        contextlib.closing(Watch(ports.http, ports.grpc)) as watching,
    ):
        _, _, idle = watching.during(lambda: time.sleep(5))
        for case in terminal.watched(listed, lambda each: each.name):
            with OwnMemory(ports.process) as memory:
                ending, seconds, health = watching.during(partial(case.run, ports.http))
            more = (memory.most - memory.begin) >> 20
            figures = {"seconds": seconds, "health": health, "mebibytes": more}
            rows[case.name] = {**asdict(ending), **figures}
    late = [
        name
        for name, row in rows.items()
        if not row["right"]
        or row["seconds"] >= 2 * chosen.seconds
        or max(row["health"].values()) > chosen.most
        or row["mebibytes"] > _MEBIBYTES
    ]
    table = Table(
        *("kind", "cases", "not as they should", "longest, s"),
        *("health over HTTP, ms", "over gRPC, ms", "memory, MiB"),
    )
    for kind in dict.fromkeys(name.partition(":")[0] for name in rows):
        of_kind = {name: row for name, row in rows.items() if name.startswith(f"{kind}:")}
        worst = (max(row["health"][over] for row in of_kind.values()) for over in ("http", "grpc"))
        longest = max(row["seconds"] for row in of_kind.values())
        wrong = sum(not row["right"] for row in of_kind.values())
        table.add_row(
            kind,
            str(len(of_kind)),
            str(wrong),
            f"{longest:.1f}",
            *(f"{took:.0f}" for took in worst),
            str(max(row["mebibytes"] for row in of_kind.values())),
        )
    shown = terminal.console()
    shown.print(table)
    shown.print(f"health of a server that does nothing: {max(idle.values()):.0f} ms")
    for name in late:
        shown.print(f"{name}: {rows[name]}", markup=False, highlight=False)
    if chosen.json:
        limits = {"seconds": chosen.seconds, "memory": chosen.memory}
        machine.save(chosen.json, {**limits, "idle": idle, "rows": rows})
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
