"""Nodes that optimizers leave of every network of the zoo, how long they take, and how fast ONNX
Runtime then runs it.

`python -m benchmarks.optimizer [--runtime] --models 'bert*' --zoo FOLDER --json FILE`

(a) standard operators at the model's own opset, beside onnxslim, onnxsim, onnxscript and ONNX
Runtime's basic level; (b) for ONNX Runtime with its own operators, beside its extended level; (c)
the fused operators of opset 24. Every result is run beside the original on random inputs. Times are
of a model in memory to a model in memory, the best of several rounds in which the tools take turns,
each in a process of its own. `--runtime` times ONNX Runtime, with all its optimizations, on the
original and on (a), in turn. Exit status 1 where a result of ours fails or is wrong.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import onnx
from rich.console import Console
from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.measure import geomean
from benchmarks.optimizer_engines import OPTIMIZERS, count_nodes
from benchmarks.optimizer_worker import OptimizerError, ask
from benchmarks.worker import Worker, WorkerError

BASIC, EXTENDED, NEWEST = OURS = ("infuse basic", "infuse for onnxruntime", "infuse opset 24")
BASIC_PEERS = ("onnxslim", "onnxsim", "onnxscript", "onnxruntime basic")
EXTENDED_PEERS = ("onnxruntime extended",)
TIMED_PEERS = ("onnxslim", "onnxsim")
NEAR = 1.05
"""A peer is compared by time where it leaves at most so many times our nodes."""


@dataclass
class Result:
    """What one optimizer made of one model."""

    nodes: int
    times: list[float]
    difference: float | None = None
    """From the original, relative to its largest output; None where it was not run."""

    @property
    def best(self) -> float:
        """Seconds of the fastest run."""
        return min(self.times)


@dataclass
class Row:
    """One model."""

    model: str
    nodes: int
    results: dict[str, Result] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    runtime: dict[str, float] = field(default_factory=dict)
    """Best seconds of a run in ONNX Runtime: of the original, and of (a)."""

    def fewest(self, ours: str, peers: tuple[str, ...]) -> bool | None:
        """Whether no peer leaves fewer nodes; None where ours failed."""
        if ours not in self.results:
            return None
        return all(
            self.results[ours].nodes <= self.results[p].nodes for p in peers if p in self.results
        )

    def speed(self) -> tuple[float, str] | None:
        """Seconds of the fastest of onnxslim and onnxsim that comes near our nodes, over ours; that
        peer.
        """
        if BASIC not in self.results:
            return None
        ours = self.results[BASIC]
        near = [
            p
            for p in TIMED_PEERS
            if p in self.results and self.results[p].nodes <= NEAR * ours.nodes
        ]
        return min(
            ((self.results[p].best / ours.best, p) for p in near),
            key=lambda found: found[0],
            default=None,
        )

    def runtime_speed(self) -> float | None:
        """Speed of ONNX Runtime on (a) over its speed on the original."""
        return (
            self.runtime["original"] / self.runtime["optimized"]
            if "optimized" in self.runtime
            else None
        )


def measure(path: Path, given: argparse.Namespace) -> Row:
    """Optimize one model with all tools, check what they made, and run it."""
    row = Row(path.stem, count_nodes(onnx.load(path, load_external_data=False)))
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.onnx" for name in given.tools}
        for turn in range(given.rounds):
            for name, file in files.items():
                _optimize(row, name, path, file, given.seconds if turn else 0.0)
        _verify(row, path, {name: files[name] for name in row.results}, given.dims)
        if given.runtime and BASIC in row.results:
            _run(row, {"original": path, "optimized": files[BASIC]}, given)
    return row


def _optimize(row: Row, name: str, path: Path, file: Path, seconds: float) -> None:
    if name in row.errors:
        return
    try:
        made = ask("optimize", name, path, file, seconds)
    except OptimizerError as error:
        row.errors[name] = str(error)
        row.results.pop(name, None)
        return
    row.results.setdefault(name, Result(made["nodes"], [])).times += made["times"]


def _verify(row: Row, path: Path, files: dict[str, Path], dims: dict[str, int]) -> None:
    try:
        found = ask("verify", json.dumps(dims), path, *files.values())["differences"]
    except OptimizerError as error:
        row.errors["original"] = f"it does not run: {error}"
        return
    for name, difference in zip(files, found, strict=True):
        if isinstance(difference, str):
            row.errors[name] = f"the result does not run: {difference}"
        else:
            row.results[name].difference = difference


def _run(row: Row, files: dict[str, Path], given: argparse.Namespace) -> None:
    """Times of both files in ONNX Runtime, taking turns."""
    times: dict[str, list[float]] = {name: [] for name in files}
    try:
        with ExitStack() as stack:
            workers = {
                name: stack.enter_context(Worker("onnxruntime", file, given.threads, given.dims))
                for name, file in files.items()
            }
            for _ in range(given.turns):
                for name, worker in workers.items():
                    times[name] += worker.time(given.turn, 5)
    except WorkerError as error:
        row.errors["runtime"] = str(error)
        return
    row.runtime = {name: min(found) for name, found in times.items()}


def is_good(row: Row, tolerance: float) -> bool:
    """Every result of ours was made, runs, and is right."""
    found = [row.results.get(name) for name in OURS]
    return not set(OURS) & row.errors.keys() and all(
        r is None or (r.difference is not None and r.difference <= tolerance) for r in found
    )


# -- what is shown ---------------------------------------------------------------------------------


def summarize(rows: list[Row], tolerance: float) -> dict[str, object]:
    """How many models are won, and what is lost."""
    speeds = {row.model: found[0] for row in rows if (found := row.speed())}
    runtime = {row.model: found for row in rows if (found := row.runtime_speed())}
    summary: dict[str, object] = {
        "models": len(rows),
        "wrong": [row.model for row in rows if not is_good(row, tolerance)],
        "(a) not fewest": [row.model for row in rows if row.fewest(BASIC, BASIC_PEERS) is False],
        "(b) not fewest": [
            row.model for row in rows if row.fewest(EXTENDED, EXTENDED_PEERS) is False
        ],
        "slower": [name for name, speed in speeds.items() if speed < 1],
    }
    if speeds:
        summary["speed geomean"], summary["speed lowest"] = (
            geomean(list(speeds.values())),
            min(speeds.values()),
        )
    if runtime:
        summary["runtime geomean"] = geomean(list(runtime.values()))
        summary["runtime lowest"] = min(runtime.values())
    return summary


def basic_table(rows: list[Row], tolerance: float) -> Table:
    """(a): nodes, seconds, and the largest difference from the original."""
    names = [BASIC, *BASIC_PEERS]
    made = Table(
        title="(a) standard operators, the model's own opset: nodes / seconds", title_justify="left"
    )
    for name in ("model", "nodes", *names, "speed", "difference"):
        made.add_column(name, justify="left" if name == "model" else "right")
    for row in rows:
        fastest = row.speed()
        speed = f"{fastest[0]:.1f}× {fastest[1]}" if fastest else "–"
        good = row.fewest(BASIC, BASIC_PEERS) and is_good(row, tolerance)
        cells = [_cell(row, name, tolerance) for name in names]
        made.add_row(
            row.model,
            str(row.nodes),
            *cells,
            speed,
            _difference(row, BASIC),
            style=None if good else "red",
        )
    return made


def extended_table(rows: list[Row], tolerance: float) -> Table:
    """(b) and (c): nodes, seconds, and the largest difference from the original."""
    names = [EXTENDED, *EXTENDED_PEERS, NEWEST]
    made = Table(title="(b) for ONNX Runtime, (c) opset 24: nodes / seconds", title_justify="left")
    for name in ("model", "nodes", *names, "(c) / (a)", "difference (b)", "difference (c)"):
        made.add_column(name, justify="left" if name == "model" else "right")
    for row in rows:
        share = "–"
        if BASIC in row.results and NEWEST in row.results:
            share = f"{row.results[NEWEST].nodes / row.results[BASIC].nodes:.2f}"
        good = row.fewest(EXTENDED, EXTENDED_PEERS) and is_good(row, tolerance)
        cells = [_cell(row, name, tolerance) for name in names]
        wrong = [_difference(row, EXTENDED), _difference(row, NEWEST)]
        made.add_row(
            row.model, str(row.nodes), *cells, share, *wrong, style=None if good else "red"
        )
    return made


def runtime_table(rows: list[Row]) -> Table:
    """Milliseconds of ONNX Runtime on the original and on (a)."""
    made = Table(
        title="ONNX Runtime, all its optimizations: ms of the original and of (a)",
        title_justify="left",
    )
    for name in ("model", "original", "optimized", "speed"):
        made.add_column(name, justify="left" if name == "model" else "right")
    for row in rows:
        speed = row.runtime_speed()
        if speed:
            times = [f"{row.runtime[name] * 1e3:.2f}" for name in ("original", "optimized")]
            made.add_row(row.model, *times, f"{speed:.3f}×", style="red" if speed < 0.98 else None)
    return made


def _cell(row: Row, name: str, tolerance: float) -> str:
    result = row.results.get(name)
    if result is None:
        return "failed" if name in row.errors else "–"
    wrong = result.difference is None or result.difference > tolerance
    return f"{result.nodes} / {result.best:.2f}{' wrong' if wrong else ''}"


def _difference(row: Row, name: str) -> str:
    result = row.results.get(name)
    return "–" if result is None or result.difference is None else f"{result.difference:.1e}"


def report(rows: list[Row], given: argparse.Namespace, console: Console) -> None:
    """Print the tables, what failed, and the summary."""
    console.print(basic_table(rows, given.tolerance))
    console.print(extended_table(rows, given.tolerance))
    if given.runtime:
        console.print(runtime_table(rows))
    for row in rows:
        terminal.complain(console, row.model, row.errors)
    for name, value in summarize(rows, given.tolerance).items():
        shown = (
            f"{value:.2f}"
            if isinstance(value, float)
            else ", ".join(value)
            if isinstance(value, list)
            else value
        )
        console.print(f"{name}: {shown if shown != '' else 'none'}")


def save(rows: list[Row], given: argparse.Namespace) -> None:
    """Write everything measured as JSON."""
    content = {
        "dims": given.dims,
        "rounds": given.rounds,
        "tolerance": given.tolerance,
        "summary": summarize(rows, given.tolerance),
        "rows": [
            asdict(row) | {"speed": row.speed(), "runtime_speed": row.runtime_speed()}
            for row in rows
        ],
    }
    machine.save(given.json, content)


def parse(arguments: list[str] | None) -> tuple[argparse.Namespace, list[Path]]:
    """Options, and the models that they select."""
    parser = options.parser("Compare Infuse with other graph optimizers over the zoo.")
    options.add_models(parser)
    options.add_turns(parser, rounds=3)
    options.add_dims(parser)
    parser.add_argument("--tools", type=tools, default=list(OPTIMIZERS), metavar="TOOL[,…]")
    parser.add_argument(
        "--tolerance", type=float, default=1e-4, help="of the largest output (default: 1e-4)"
    )
    parser.add_argument(
        "--runtime", action="store_true", help="time ONNX Runtime on the original and on (a)"
    )
    parser.add_argument("--threads", type=int, default=2, help="of ONNX Runtime (default: 2)")
    parser.add_argument(
        "--turns", type=int, default=5, help="turns of each file in ONNX Runtime (default: 5)"
    )
    parser.add_argument(
        "--turn", type=float, default=0.5, help="seconds of such a turn (default: 0.5)"
    )
    return options.parse(parser, arguments)


def tools(text: str) -> list[str]:
    """Optimizers by name."""
    if unknown := set(text.split(",")) - OPTIMIZERS.keys():
        there = ", ".join(OPTIMIZERS)
        raise argparse.ArgumentTypeError(
            f"no such optimizer: {', '.join(sorted(unknown))} (there are {there})"
        )
    return text.split(",")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    given, models = parse(arguments)
    rows: list[Row] = []
    for path in terminal.watched(models, lambda path: path.stem):
        rows.append(measure(path, given))
        if given.json:
            save(rows, given)
    report(rows, given, terminal.console(190))
    return 0 if all(is_good(row, given.tolerance) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
