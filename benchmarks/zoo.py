"""Every network of the zoo in every engine: right, how fast, how much memory.

`python -m benchmarks.zoo --against onnxruntime[,openvino,ncnn,mnn] --threads 1,2 --models 'resnet*'
--json FILE`

With `--dims batch=8` (or `batch=8,seq=77`) the networks are those that `python -m
benchmarks.zoo_models FOLDER --free-batch` exports. Peers beside those above: `tract` (one thread),
`openvino-default` (OpenVINO in the precision that it chooses), and of the same networks in PyTorch
`torch-inductor` (torch.compile with freezing and max-autotune) and `litert` (converted by
litert-torch). A peer whose answer is beyond the tolerance is named; one that computes in fewer bits
than asked for, or is wrong by more than bfloat16 explains, is timed but never the best.

Each engine runs in a process of its own; rounds alternate between them (A B A B), so that a change
of the machine's speed meets all of them. Speed is the peer's best time over ours. Exit status 1
where Infuse fails or is wrong.

With `--precision bf16 --against openvino` both compute products in bfloat16; the answers are still
held against the reference in fp32, with a tolerance of 3e-2 unless another one is given. With
`--precision fp16`, Infuse stores weights as halves; the peers run in fp32, as they compute in that
on processors anyway (OpenVINO's fp16 too).
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

import infuse
from benchmarks import machine, options, terminal
from benchmarks.engines import PRECISIONS, REFERENCE, Arrays
from benchmarks.inputs import symbols
from benchmarks.measure import Timing, difference, geomean
from benchmarks.worker import Worker, WorkerError, alternate
from infuse.analysis import totals
from infuse.profiling.roof import measure_roof
from infuse.targets import Target

OURS = "infuse"
APART = {"fp16": "stores weights in fp16", "bf16x2": "splits operands into two bfloat16"}
"""What Infuse does in precisions that no peer has."""
TOLERANCES = {"fp32": 1e-4, "bf16x2": 3e-4, "bf16": 3e-2, "fp16": 3e-3}
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
    bound: float | None = None
    """Seconds that the machine needs at least, `roof`."""
    peers: dict[str, float] = field(default_factory=dict)
    """The same of the others' answers."""
    apart: list[str] = field(default_factory=list)
    """Peers that are never the best, `is_apart`."""

    def speed(self, peer: str) -> float | None:
        """Best time of the peer over our best."""
        times = {name: timing.best for name, timing in self.times.items()}
        ours = times.pop(OURS, None)
        equals = [seconds for name, seconds in times.items() if name not in self.apart]
        theirs = min(equals, default=None) if peer == BEST else times.get(peer)
        return theirs / ours if ours and theirs else None

    def share(self) -> float | None:
        """Of the roof: the least time over ours. Winograd multiplies less than is counted, and may
        exceed 1.
        """
        ours = self.times.get(OURS)
        return self.bound / ours.best if ours and self.bound else None

    def arena(self) -> float | None:
        """Arena over the largest sum of bytes alive at once."""
        facts = self.facts.get(OURS, {})
        bound = facts.get("arena_lower_bound")
        return facts["arena_bytes"] / bound if bound else None


def precision_of(engine: str, asked: str) -> str:
    """In what an engine runs: the reference always in fp32, and so the peers in precisions that
    they do not have.
    """
    return "fp32" if engine == REFERENCE or (asked in APART and engine != OURS) else asked


def roof(path: Path, threads: int, dims: Mapping[str, int], precision: str) -> float:
    """Seconds that a model takes at least on this machine: the larger of arithmetic at its measured
    peak, convolutions counted as direct ones, and of its weights read once at the measured
    bandwidth of memory.
    """
    found = totals(infuse.optimize(path), dims)
    peak = measure_roof(Target.resolve("native"), threads)
    assert isinstance(found.cost.flops, int), (
        f"{path.stem}: its arithmetic is not known: {found.cost.flops}"
    )
    weights = found.weight_bytes / (2 if precision in ("bf16", "fp16") else 1)
    return peak.bound(found.cost.flops, weights, "fp32" if precision == "fp16" else precision)


def run(path: Path, threads: int, given: argparse.Namespace) -> Row:
    """Measure one model in all engines."""
    row = Row(path.stem, threads, bound=roof(path, threads, given.dims, given.precision))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers: dict[str, Worker] = {}
        answers: dict[str, Arrays] = {}
        for name in dict.fromkeys([OURS, REFERENCE, *given.against]):
            try:
                precision = precision_of(name, given.precision)
                worker = stack.enter_context(Worker(name, path, threads, given.dims, precision))
                answers[name] = worker.answer(folder / f"{name}.npz")
            except WorkerError as error:
                row.errors[name] = str(error)
                continue
            workers[name], row.facts[name] = worker, worker.facts
        if OURS in answers and REFERENCE in answers:
            row.difference = difference(answers[OURS], answers[REFERENCE])
            others = answers.keys() - {OURS, REFERENCE}
            row.peers = {
                name: difference(answers[name], answers[REFERENCE]) for name in sorted(others)
            }
            row.apart = [
                name
                for name, far in row.peers.items()
                if is_apart(far, row.facts[name], given.precision)
            ]
        timed = {name: worker for name, worker in workers.items() if name in (OURS, *given.against)}
        times = alternate(timed, row.errors, given.rounds, given.seconds, given.least)
        row.times = {name: Timing.of(found) for name, found in times.items()}
    return row


def summarize(rows: list[Row], peers: list[str]) -> dict[str, dict[str, float]]:
    """Geometric mean and worst speed against each peer, by number of threads."""
    summary = {}
    for peer in compared(peers):
        for threads in sorted({row.threads for row in rows}):
            speeds = [
                speed for row in rows if row.threads == threads and (speed := row.speed(peer))
            ]
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


def is_apart(far: float, facts: Mapping[str, float], asked: str) -> bool:
    """A peer computes in fewer bits than asked for, or is wrong by more than bfloat16 explains."""
    return far > TOLERANCES["bf16"] or facts.get("bits", 32) < (16 if asked == "bf16" else 32)


def table(rows: list[Row], peers: list[str], tolerance: float, precision: str = "fp32") -> Table:
    """One line a row: milliseconds best / median, speed against each peer."""
    title = "best / median ms; speed = peer's best over ours"
    if precision in APART:
        title += f"; {OURS} {APART[precision]}, the peers run in fp32"
    made = Table(title=title, title_justify="left")
    for name in (
        "model",
        "threads",
        OURS,
        *peers,
        *(f"vs {peer}" for peer in compared(peers)),
        "of roof",
        "difference",
        "arena",
        "compile s",
    ):
        made.add_column(name, justify="left" if name == "model" else "right")
    for row in rows:
        facts, arena = row.facts.get(OURS, {}), row.arena()
        times = [_times(row, name) for name in (OURS, *peers)]
        speeds = [
            f"{speed:.2f}×" if (speed := row.speed(peer)) else "–" for peer in compared(peers)
        ]
        share = f"{row.share():.0%}" if row.share() else "–"
        wrong = "–" if row.difference is None else f"{row.difference:.1e}"
        plan = f"{facts['arena_bytes'] / 2**20:.1f} MiB, {arena:.2f}×" if arena else "–"
        seconds = f"{facts['compile_s']:.1f}" if "compile_s" in facts else "–"
        style = None if is_good(row, tolerance) else "red"
        made.add_row(
            row.model, str(row.threads), *times, *speeds, share, wrong, plan, seconds, style=style
        )
    return made


def _times(row: Row, name: str) -> str:
    timing = row.times.get(name)
    return f"{timing.best * 1e3:.2f} / {timing.median * 1e3:.2f}" if timing else "–"


def report(rows: list[Row], given: argparse.Namespace, console: Console) -> None:
    """Print the table, what failed, and the summary."""
    console.print(table(rows, given.against, given.tolerance, given.precision))
    for row in rows:
        far = {
            peer: f"its answer differs by {far:.1e}"
            for peer, far in row.peers.items()
            if far > given.tolerance
        }
        terminal.complain(console, f"{row.model}, {row.threads} threads", row.errors | far)
    for name, speed in summarize(rows, given.against).items():
        console.print(
            f"{name}: geomean {speed['geomean']:.2f}×, worst {speed['worst']:.2f}×, "
            f"{speed['models']} models"
        )


def save(rows: list[Row], given: argparse.Namespace) -> None:
    """Write everything measured as JSON."""
    content = {
        "dims": given.dims,
        "rounds": given.rounds,
        "seconds_a_turn": given.seconds,
        "precision": given.precision,
        "tolerance": given.tolerance,
        "summary": summarize(rows, given.against),
        "rows": [
            asdict(row)
            | {"speed": {peer: row.speed(peer) for peer in compared(given.against)}}
            | {"arena": row.arena(), "share": row.share()}
            for row in rows
        ],
    }
    machine.save(given.json, content)


def parse(arguments: list[str] | None) -> tuple[argparse.Namespace, list[Path]]:
    """Options, and the models that they select."""
    parser = options.parser("Compare Infuse with other runtimes over the zoo.")
    options.add_models(parser)
    options.add_against(parser)
    options.add_threads(parser)
    options.add_turns(parser)
    options.add_dims(parser)
    parser.add_argument("--least", type=int, default=5, help="runs in a turn at least (default: 5)")
    parser.add_argument(
        "--precision", default="fp32", choices=["fp32", *PRECISIONS], help="(default: fp32)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        help="of the largest output (default: 1e-4, in bf16 3e-2, fp16 3e-3)",
    )
    given, models = options.parse(parser, arguments)
    given.tolerance = given.tolerance or TOLERANCES[given.precision]
    free = given.dims["batch"] == 1
    if fixed := [path.stem for path in models if not free and "batch" not in symbols(path)]:
        parser.error(
            f"{', '.join(fixed)}: the batch is fixed; `python -m benchmarks.zoo_models FOLDER "
            "--free-batch` exports for any"
        )
    return given, models


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    given, models = parse(arguments)
    cases = [(path, threads) for path in models for threads in given.threads]
    rows = [
        run(*case, given)
        for case in terminal.watched(cases, lambda case: f"{case[0].stem}, {case[1]} threads")
    ]
    report(rows, given, terminal.console())
    if given.json:
        save(rows, given)
    return 0 if all(is_good(row, given.tolerance) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
