"""The model server beside itself: what serving adds, how many requests it takes, what batching
gains.

`python -m benchmarks.serving overhead --json FILE`: a request of 602 KB and one of 100 bytes, over
HTTP and gRPC, against a call of the same compiled model in this process. `python -m
benchmarks.serving rate --json FILE`: small requests to a model that does nothing, by number of
clients. `python -m benchmarks.serving batching --json FILE`: minilm_l6 with adaptive batching and
without.

A server is `infuse serve` in a process of its own, with worker processes; clients and server share
the cores of this machine. Exit status 1 where a bar is missed or an answer is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks import machine, options, serving_overhead, terminal
from benchmarks.engines import Infuse
from benchmarks.inputs import default_zoo, make_inputs
from benchmarks.serving_calls import Arrays, CallError, grpc_raw, rest_binary
from benchmarks.serving_load import Load, LoadError, checked
from benchmarks.serving_process import ServerError, infuse_server
from infuse.runtime.cpus import available_cpus

MOST_ADDED = 300e-6
LEAST_RATE = {"REST": 5000.0, "gRPC": 2500.0}
LEAST_GAIN = 1.3
MOST_SLOWER = 1.05
ENCODER = "minilm_l6"
_MANY = 32
_BATCHED, _SINGLE = "adaptive", "max_size 1"
_SERVERS = {_BATCHED: (), _SINGLE: ("--set", "model_defaults.batching.max_size=1")}


@dataclass
class Turn:
    """A turn of load on one kind of server."""

    kind: str
    load: Load
    tokens: int = 0


def overhead(given: argparse.Namespace) -> bool:
    """What serving adds to a call."""
    with tempfile.TemporaryDirectory() as folder:
        rows = serving_overhead.measure(given.rounds, given.runs, Path(folder))
    shown = Table(
        "request",
        "bytes",
        "direct µs",
        "served µs",
        "added µs",
        "of the best turns",
        *serving_overhead.STAGES,
    )
    for row in rows:
        seconds = [
            np.median(row.direct),
            np.median(row.served),
            row.added,
            row.least,
            *row.stages.values(),
        ]
        shown.add_row(row.name, str(row.bytes), *(f"{1e6 * s:.0f}" for s in seconds))
    terminal.console().print(shown)
    figures = [asdict(row) | {"added": row.added, "least": row.least} for row in rows]
    save(
        given,
        {"rounds": given.rounds, "runs": given.runs, "most_added": MOST_ADDED, "rows": figures},
    )
    return rows[0].added <= MOST_ADDED


def rate(given: argparse.Namespace) -> bool:
    """Small requests per second."""
    turns: list[Turn] = []
    with tempfile.TemporaryDirectory() as folder:
        file = serving_overhead.save_model("Identity", ("rows", 4), Path(folder, "same.onnx"))
        feeds = {"x": np.arange(4, dtype=np.float32).reshape(1, 4)}
        with infuse_server({"same": file}) as ports:
            calls = {
                "REST": rest_binary(ports.http, "same", feeds, ["y"]),
                "gRPC": grpc_raw(ports.grpc, "same", feeds, ["y"]),
            }
            cases = [
                (clients, kind)
                for _ in range(given.rounds)
                for clients in given.clients
                for kind in calls
            ]
            for clients, kind in terminal.watched(
                cases, lambda case: f"{case[1]}, {case[0]} clients"
            ):
                turns.append(
                    Turn(kind, checked(calls[kind], {"y": feeds["x"]}, clients, given.seconds))
                )
    terminal.console().print(table(turns))
    save(
        given,
        {"seconds": given.seconds, "least": LEAST_RATE, "turns": [asdict(turn) for turn in turns]},
    )
    return all(
        max(turn.load.rate for turn in turns if turn.kind == kind) >= least
        for kind, least in LEAST_RATE.items()
    )


def batching(given: argparse.Namespace) -> bool:
    """Adaptive batches against single requests; servers take turns."""
    path = given.zoo / f"{ENCODER}.onnx"
    cases: dict[int, tuple[Arrays, Arrays]] = {}
    model = Infuse(path, available_cpus())
    for tokens in given.tokens:
        feeds = make_inputs(path, {"batch": 1, "seq": tokens})
        cases[tokens] = feeds, {"pooler_output": model.answer(feeds)["pooler_output"]}
    turns: list[Turn] = []
    order = [
        kind
        for number in range(given.rounds)
        for kind in (_SERVERS if number % 2 == 0 else reversed(_SERVERS))
    ]
    for kind in terminal.watched(order, str):
        with infuse_server({ENCODER: path}, _SERVERS[kind]) as ports:
            for tokens, (feeds, expected) in cases.items():
                call = rest_binary(ports.http, ENCODER, feeds, list(expected))
                for clients in given.clients:
                    turns.append(
                        Turn(kind, checked(call, expected, clients, given.seconds), tokens)
                    )
    terminal.console().print(table(turns))
    gains = compare(turns)
    for tokens, (gain, slower) in gains.items():
        print(
            f"{tokens} tokens: {gain:.2f} times the throughput at {_MANY} clients, {slower:.3f} "
            "times p50 at 1 client"
        )
    figures = {
        tokens: {"gain": gain, "p50_at_1": slower} for tokens, (gain, slower) in gains.items()
    }
    save(
        given,
        {"seconds": given.seconds, "turns": [asdict(turn) for turn in turns], "gains": figures},
    )
    return all(gain >= LEAST_GAIN and slower <= MOST_SLOWER for gain, slower in gains.values())


def compare(turns: list[Turn]) -> dict[int, tuple[float, float]]:
    """Of adaptive batching over none, by tokens: throughput at 32 clients and p50 at one; nan where
    not measured.
    """

    def median(kind: str, tokens: int, clients: int, value: Callable[[Load], float]) -> float:
        found = [
            value(t.load)
            for t in turns
            if (t.kind, t.tokens, t.load.clients) == (kind, tokens, clients)
        ]
        return float(np.median(found)) if found else float("nan")

    def ratio(tokens: int, clients: int, value: Callable[[Load], float]) -> float:
        return median(_BATCHED, tokens, clients, value) / median(_SINGLE, tokens, clients, value)

    sizes = dict.fromkeys(turn.tokens for turn in turns)
    return {
        n: (ratio(n, _MANY, lambda load: load.rate), ratio(n, 1, lambda load: load.p50))
        for n in sizes
    }


def table(turns: list[Turn]) -> Table:
    """One line a turn."""
    made = Table("kind", "tokens", "clients", "requests/s", "p50 ms", "p99 ms", "longest ms")
    for turn in turns:
        load = turn.load
        cells = [f"{1e3 * seconds:.3f}" for seconds in (load.p50, load.p99, load.longest)]
        made.add_row(
            turn.kind, str(turn.tokens or ""), str(load.clients), f"{load.rate:.0f}", *cells
        )
    return made


def save(given: argparse.Namespace, figures: dict[str, object]) -> None:
    """Write figures where that was asked for."""
    if given.json:
        machine.save(given.json, figures)


def parser() -> argparse.ArgumentParser:
    """The command line: a measurement, then its options."""
    made = options.parser("Measure the model server.")
    made.add_argument("what", choices=list(MEASUREMENTS))
    made.add_argument(
        "--zoo", type=Path, default=default_zoo(), metavar="FOLDER", help="default: $INFUSE_ZOO"
    )
    made.add_argument(
        "--clients", type=options.numbers, metavar="N[,…]", help="of rate and batching"
    )
    made.add_argument(
        "--tokens", type=options.numbers, default=[16, 32], metavar="N[,…]", help="of batching"
    )
    made.add_argument(
        "--runs", type=int, default=1000, help="in a turn of overhead (default: 1000)"
    )
    made.add_argument("--rounds", type=int, default=3, help="turns of each (default: 3)")
    made.add_argument("--seconds", type=int, default=5, help="length of a turn (default: 5)")
    return made


MEASUREMENTS = {"overhead": overhead, "rate": rate, "batching": batching}
CLIENTS = {"overhead": [1], "rate": [1, 2, 4, 8, 16, 32, 64], "batching": [1, _MANY]}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    given = parser().parse_args(arguments)
    given.clients = given.clients or CLIENTS[given.what]
    try:
        return 0 if MEASUREMENTS[given.what](given) else 1
    except (CallError, LoadError, ServerError) as error:
        print(f"{given.what}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
