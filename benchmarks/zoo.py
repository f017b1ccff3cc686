"""Every network of the zoo in every engine: right, how fast, how much memory.

`python -m benchmarks.zoo --against onnxruntime[,openvino,ncnn,mnn] --threads 1,2 --models 'resnet*' --json FILE`

Each engine runs in a process of its own; rounds alternate between them (A B A B), so that a change of the machine's
speed meets all of them. Speed is the peer's best time over ours. Exit status 1 where Infuse fails or is wrong.

With `--precision bf16 --against openvino` both compute products in bfloat16; the answers are still held against the
reference in fp32, with a tolerance of 3e-2 unless another one is given.
"""

import argparse
import fnmatch
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import machine
from benchmarks.engines import ENGINES, PRECISIONS, REFERENCE, Arrays
from benchmarks.inputs import default_zoo, parse_dims
from benchmarks.measure import Timing, difference, geomean
from benchmarks.worker import Worker, WorkerError

OURS = "infuse"
BEST = "the best"
"""In place of a peer: the fastest of them, for each model another one."""


@dataclass
class Row:
    """One model at one number of threads."""

    model: str
    threads: int
    times: dict[str, Timing] = field(default_factory=dict)
    facts: dict[str, dict[str, float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    difference: float | None = None
    """Of our answer from the reference, as measure.difference has it."""
    peers: dict[str, float] = field(default_factory=dict)
    """The same of the others' answers."""

    def speed(self, peer: str) -> float | None:
        """Best time of the peer over our best."""
        times = {name: timing.best for name, timing in self.times.items()}
        ours = times.pop(OURS, None)
        theirs = min(times.values(), default=None) if peer == BEST else times.get(peer)
        return theirs / ours if ours and theirs else None

    def arena(self) -> float | None:
        """Arena over the largest sum of bytes alive at once."""
        facts = self.facts.get(OURS, {})
        bound = facts.get("arena_lower_bound")
        return facts["arena_bytes"] / bound if bound else None


def run(path: Path, threads: int, options: argparse.Namespace) -> Row:
    """Measure one model in all engines."""
    row = Row(path.stem, threads)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers: dict[str, Worker] = {}
        answers: dict[str, Arrays] = {}
        for name in dict.fromkeys([OURS, REFERENCE, *options.against]):
            precision = "fp32" if name == REFERENCE else options.precision
            try:
                worker = stack.enter_context(Worker(name, path, threads, options.dims, precision))
                answers[name] = worker.answer(folder / f"{name}.npz")
            except WorkerError as error:
                row.errors[name] = str(error)
                continue
            workers[name], row.facts[name] = worker, worker.facts
        if OURS in answers and REFERENCE in answers:
            row.difference = difference(answers[OURS], answers[REFERENCE])
            others = answers.keys() - {OURS, REFERENCE}
            row.peers = {name: difference(answers[name], answers[REFERENCE]) for name in sorted(others)}
        timed = {name: worker for name, worker in workers.items() if name in (OURS, *options.against)}
        row.times = {name: Timing.of(times) for name, times in alternate(timed, row, options).items()}
    return row


def alternate(workers: dict[str, Worker], row: Row, options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of all runs, the engines taking turns; an engine that fails drops out."""
    times: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(options.rounds):
        for name in list(times):
            try:
                times[name] += workers[name].time(options.seconds, options.least)
            except WorkerError as error:
                row.errors[name] = str(error)
                del times[name]
    return times


def summarize(rows: list[Row], peers: list[str]) -> dict[str, dict[str, float]]:
    """Geometric mean and worst speed against each peer, by number of threads."""
    summary = {}
    for peer in compared(peers):
        for threads in sorted({row.threads for row in rows}):
            speeds = [speed for row in rows if row.threads == threads and (speed := row.speed(peer))]
            if speeds:
                summary[f"{peer}, {threads} threads"] = {
                    "geomean": geomean(speeds),
                    "worst": min(speeds),
                    "models": len(speeds),
                }
    return summary


def compared(peers: list[str]) -> list[str]:
    """The peers, and the best of them where there are several."""
    return [*peers, BEST] if len(peers) > 1 else peers


def is_good(row: Row, tolerance: float) -> bool:
    """Infuse ran, and its answer is within the tolerance."""
    return OURS not in row.errors and row.difference is not None and row.difference <= tolerance


def table(rows: list[Row], peers: list[str], tolerance: float) -> Table:
    """One line a row: milliseconds best / median, speed against each peer."""
    made = Table(title="best / median ms; speed = peer's best over ours", title_justify="left")
    for name in (
        "model",
        "threads",
        OURS,
        *peers,
        *(f"vs {peer}" for peer in compared(peers)),
        "difference",
        "arena",
        "compile s",
    ):
        made.add_column(name, justify="left" if name == "model" else "right")
    for row in rows:
        facts, arena = row.facts.get(OURS, {}), row.arena()
        times = [_times(row, name) for name in (OURS, *peers)]
        speeds = [f"{speed:.2f}×" if (speed := row.speed(peer)) else "–" for peer in compared(peers)]
        wrong = "–" if row.difference is None else f"{row.difference:.1e}"
        plan = f"{facts['arena_bytes'] / 2**20:.1f} MiB, {arena:.2f}×" if arena else "–"
        seconds = f"{facts['compile_s']:.1f}" if "compile_s" in facts else "–"
        style = None if is_good(row, tolerance) else "red"
        made.add_row(row.model, str(row.threads), *times, *speeds, wrong, plan, seconds, style=style)
    return made


def _times(row: Row, name: str) -> str:
    timing = row.times.get(name)
    return f"{timing.best * 1e3:.2f} / {timing.median * 1e3:.2f}" if timing else "–"


def report(rows: list[Row], options: argparse.Namespace, console: Console) -> None:
    """Print the table, what failed, and the summary."""
    console.print(table(rows, options.against, options.tolerance))
    for row in rows:
        for name, error in row.errors.items():
            console.print(f"[red]{row.model}, {row.threads} threads, {name}:[/] ", end="")
            console.print(error, markup=False, highlight=False)
    for name, speed in summarize(rows, options.against).items():
        console.print(f"{name}: geomean {speed['geomean']:.2f}×, worst {speed['worst']:.2f}×, {speed['models']} models")


def save(rows: list[Row], options: argparse.Namespace) -> None:
    """Write everything measured as JSON."""
    content = {
        "dims": options.dims,
        "rounds": options.rounds,
        "seconds_a_turn": options.seconds,
        "precision": options.precision,
        "tolerance": options.tolerance,
        "summary": summarize(rows, options.against),
        "rows": [
            asdict(row) | {"speed": {peer: row.speed(peer) for peer in compared(options.against)}, "arena": row.arena()}
            for row in rows
        ],
    }
    machine.save(options.json, content)


def parse(arguments: list[str] | None) -> tuple[argparse.Namespace, list[Path]]:
    """Options, and the models that they select."""
    parser = argparse.ArgumentParser(description="Compare Infuse with other runtimes over the zoo.")
    parser.add_argument("--against", type=names, default=["onnxruntime"], metavar="ENGINE[,…]")
    parser.add_argument(
        "--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2], metavar="N[,…]"
    )
    parser.add_argument("--models", type=lambda text: text.split(","), default=["*"], metavar="GLOB[,…]")
    parser.add_argument("--zoo", type=Path, default=default_zoo(), metavar="FOLDER", help="default: $INFUSE_ZOO")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine (default: 5)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a turn (default: 0.5)")
    parser.add_argument("--least", type=int, default=5, help="runs in a turn at least (default: 5)")
    parser.add_argument("--dims", type=parse_dims, default=parse_dims(""), metavar="NAME=N[,…]")
    parser.add_argument("--precision", default="fp32", choices=["fp32", *PRECISIONS], help="(default: fp32)")
    parser.add_argument("--tolerance", type=float, help="of the largest output (default: 1e-4, in bf16 3e-2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    options.tolerance = options.tolerance or (1e-4 if options.precision == "fp32" else 3e-2)
    files = sorted(options.zoo.glob("*.onnx"))
    chosen = [path for path in files if any(fnmatch.fnmatch(path.stem, glob) for glob in options.models)]
    if not chosen:
        parser.error(f"no model {','.join(options.models)} in {options.zoo}: run `make zoo`")
    return options, chosen


def names(text: str) -> list[str]:
    """Engines by name."""
    if unknown := set(text.split(",")) - ENGINES.keys():
        raise argparse.ArgumentTypeError(
            f"no such engine: {', '.join(sorted(unknown))} (there are {', '.join(ENGINES)})"
        )
    return text.split(",")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    options, models = parse(arguments)
    rows: list[Row] = []
    console = Console(width=None if sys.stdout.isatty() else 160)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(models) * len(options.threads))
        for path in models:
            for threads in options.threads:
                progress.update(task, description=f"{path.stem}, {threads} threads")
                rows.append(run(path, threads, options))
                progress.advance(task)
    report(rows, options, console)
    if options.json:
        save(rows, options)
    return 0 if all(is_good(row, options.tolerance) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
