"""The change from prebuilt kernels to compiled code under load: what callers see of it.

`infuse prebuilt -o kernels; INFUSE_PREBUILT=kernels python -m benchmarks.background --models
mobilenet_v2 --json FILE`

Callers run a model in threads, or ask a server for it (`--server`), without a pause, from its first
answer until some seconds after it has changed. Their times are told apart: before the compiler has
ended, within a second of the change, and after. Each answer is compared with the first one, and a
request without an answer is lost.
"""

import http.client
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.inputs import DEFAULT_DIMS, load_arrays, save_inputs
from benchmarks.serving_calls import HOST, TIMEOUT, CallError, rest_binary
from benchmarks.serving_process import infuse_server

CALLERS = 8
CLIENTS = 64
"""Callers of a server."""
AFTER = 5.0  # seconds of calls after the change
NEAR = 1.0
MOST = 300.0
POLL = 0.001
SERVER_POLL = 0.05
BOUND = 1e-3
"""How far an answer may be from the first one, in parts of its largest element."""
Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass
class Subject:
    """A model that is called: `run` gives an answer, each thread with a connection of its own."""

    run: Callable[[], Arrays]
    is_prebuilt: Callable[[], bool]
    callers: int
    poll: float


def measure(path: Path, threads: int, server: bool) -> dict[str, Any]:
    """Times of calls before, during and after the change, in milliseconds, and wrong answers."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = load_arrays(save_inputs(path, DEFAULT_DIMS, Path(folder) / "inputs.npz"))
    with (_served if server else _compiled)(path, threads, arrays) as subject:
        return _under_load(subject)


@contextmanager
def _compiled(path: Path, threads: int, arrays: Arrays) -> Iterator[Subject]:
    import infuse

    options = infuse.CompileOptions(threads=threads, compile="background")
    with infuse.compile(infuse.optimize(infuse.load(path)), options) as model:
        yield Subject(lambda: model.run(arrays), lambda: model.tier == "prebuilt", CALLERS, POLL)


@contextmanager
def _served(path: Path, threads: int, arrays: Arrays) -> Iterator[Subject]:
    """The model of a server with an empty cache."""
    import infuse

    with tempfile.TemporaryDirectory() as cache:
        os.environ["INFUSE_CACHE"] = cache
        name, setting = path.stem, ["--set", f'model_defaults={{"threads": {threads}}}']
        with infuse_server({name: path}, setting) as ports:

            def get(page: str) -> str:
                connection = http.client.HTTPConnection(HOST, ports.other, timeout=TIMEOUT)
                connection.request("GET", page)
                return connection.getresponse().read().decode()

            def is_prebuilt() -> bool:
                (number,) = re.findall(r"^infuse_prebuilt{.*} (\S+)$", get("/metrics"), re.M)
                return bool(float(number))

            outputs = [value.name for value in infuse.load(path).outputs]
            call = rest_binary(ports.http, name, arrays, outputs)
            yield Subject(lambda: call.answer()[0], is_prebuilt, CLIENTS, SERVER_POLL)


def _under_load(subject: Subject) -> dict[str, Any]:
    from infuse.runtime.swapping import difference

    begin = time.perf_counter()
    first = subject.run()
    calls: list[tuple[float, float, bool]] = []
    lost: list[str] = []
    is_over = threading.Event()

    def call() -> None:
        while not is_over.is_set():
            start = time.perf_counter()
            try:
                results = subject.run()
            except CallError as error:
                lost.append(str(error))
                continue
            end = time.perf_counter()
            wrong = any(difference(first[name], results[name], BOUND) for name in first)
            calls.append((start - begin, end - start, wrong))

    callers = [threading.Thread(target=call) for _ in range(subject.callers)]
    for caller in callers:
        caller.start()
    try:
        while subject.is_prebuilt() and time.perf_counter() - begin < MOST:
            time.sleep(subject.poll)
        changed = time.perf_counter() - begin
        time.sleep(AFTER)
    finally:
        is_over.set()
        for caller in callers:
            caller.join()
    parts = {
        "before": [t for at, t, _ in calls if at + t < changed - NEAR],
        "during": [t for at, t, _ in calls if at < changed + NEAR and at + t > changed - NEAR],
        "after": [t for at, t, _ in calls if at > changed + NEAR],
    }
    return {
        "changed": changed,
        "calls": len(calls),
        "wrong": sum(wrong for *_, wrong in calls),
        "lost": len(lost),
        **{name: _quantiles(times) for name, times in parts.items()},
    }


def _quantiles(times: list[float]) -> dict[str, float]:
    return {f"p{q}": float(np.percentile(times, q)) * 1e3 if times else 0.0 for q in (50, 99)}


def show(results: dict[str, dict[str, Any]]) -> Table:
    """One line a model."""
    parts = ("before", "during", "after")
    table = Table(
        "model", "changed s", "calls", "wrong", "lost", *(f"{part} p50 / p99 ms" for part in parts)
    )
    for model, result in results.items():
        times = (f"{result[part]['p50']:.2f} / {result[part]['p99']:.2f}" for part in parts)
        counts = (str(result[count]) for count in ("calls", "wrong", "lost"))
        numbers = (f"{result['changed']:.1f}", *counts)
        table.add_row(model, *numbers, *times)
    return table


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser("Measure the change from prebuilt kernels to compiled code.")
    options.add_models(parser, "*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--server", action="store_true", help="ask a server for the models")
    given, models = options.parse(parser, arguments)
    results = {
        path.stem: measure(path, given.threads, given.server)
        for path in terminal.watched(models, lambda path: path.stem)
    }
    terminal.console().print(show(results))
    if given.json:
        machine.save(
            given.json, {"threads": given.threads, "server": given.server, "models": results}
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
