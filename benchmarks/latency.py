"""How steady latency is: percentiles over thousands of runs, in Infuse and in ONNX Runtime.

`python -m benchmarks.latency --models mobilenet_v2,resnet18,minilm_l6 --threads 2 --runs 2000
--json FILE`

Each engine runs in a process of its own; they take turns of 100 runs, so that a disturbance of the
machine meets both. With `--spin`, a further process keeps one processor busy at random, half of the
time. Exit status 1 where p99 over p50 is above MOST (alone), or worse than every peer's, or an
engine fails.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.worker import Worker, WorkerError, alternate
from benchmarks.zoo import OURS

TURN = 100
MOST = 1.5
"""p99 over p50."""
_SPINNING = """
import os, random, time
chance, parent = random.Random(1), os.getppid()
while os.getppid() == parent:
    end = time.perf_counter() + chance.uniform(0.0005, 0.02)
    while time.perf_counter() < end:
        pass
    time.sleep(chance.uniform(0.0005, 0.02))
"""


@dataclass
class Spread:
    """Seconds: half of all runs take at most `p50`, 99 of 100 at most `p99`."""

    p50: float
    p99: float
    longest: float
    runs: int

    @staticmethod
    def of(times: list[float]) -> "Spread":
        """Percentiles of the seconds of each run."""
        p50, p99 = np.percentile(times, [50, 99]).tolist()
        return Spread(p50, p99, max(times), len(times))

    @property
    def ratio(self) -> float:
        """p99 over p50."""
        return self.p99 / self.p50


@dataclass
class Row:
    """One model at one number of threads."""

    model: str
    threads: int
    spreads: dict[str, Spread] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    spins: bool = False
    """Whether a process kept a processor busy at random."""

    @property
    def is_good(self) -> bool:
        """Whether it keeps both bars."""
        ours = self.spreads.get(OURS)
        peers = [spread.ratio for name, spread in self.spreads.items() if name != OURS]
        bar = max(peers, default=MOST)
        most = bar if self.spins else min(MOST, bar)
        return not self.errors and ours is not None and ours.ratio <= most


@contextmanager
def spinning() -> Iterator[None]:
    """In the block, a process keeps a processor busy at random."""
    process = subprocess.Popen([sys.executable, "-c", _SPINNING])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(path: Path, threads: int, given: argparse.Namespace) -> Row:
    """One model in all engines."""
    row = Row(path.stem, threads, spins=given.spin)
    with ExitStack() as stack:
        workers = {}
        for name in dict.fromkeys([OURS, *given.against]):
            try:
                workers[name] = stack.enter_context(Worker(name, path, threads, given.dims))
            except WorkerError as error:
                row.errors[name] = str(error)
        if given.spin:
            stack.enter_context(spinning())
        times = alternate(workers, row.errors, -(-given.runs // TURN), 0.0, TURN)
    row.spreads = {name: Spread.of(found) for name, found in times.items()}
    return row


def table(rows: list[Row]) -> Table:
    """One line a model and engine."""
    made = Table("model", "threads", "engine", "p50 ms", "p99 ms", "longest ms", "p99/p50")
    for row in rows:
        for name, spread in row.spreads.items():
            cells = [f"{1e3 * seconds:.3f}" for seconds in (spread.p50, spread.p99, spread.longest)]
            style = "red" if name == OURS and not row.is_good else None
            made.add_row(
                row.model, str(row.threads), name, *cells, f"{spread.ratio:.2f}", style=style
            )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = options.parser("Compare how steady the latency is.")
    options.add_models(parser, "mobilenet_v2,resnet18,minilm_l6")
    options.add_against(parser)
    options.add_threads(parser, "2")
    options.add_dims(parser)
    parser.add_argument("--spin", action="store_true", help="beside a process that spins")
    parser.add_argument("--runs", type=int, default=2000, help="of each engine (default: 2000)")
    given, models = options.parse(parser, arguments)
    cases = [(path, threads) for path in models for threads in given.threads]
    rows = [
        measure(*case, given)
        for case in terminal.watched(cases, lambda case: f"{case[0].stem}, {case[1]} threads")
    ]
    console = terminal.console()
    console.print(table(rows))
    for row in rows:
        terminal.complain(console, row.model, row.errors)
    if given.json:
        figures = [
            asdict(row)
            | {"p99_over_p50": {name: spread.ratio for name, spread in row.spreads.items()}}
            for row in rows
        ]
        machine.save(
            given.json,
            {"runs": given.runs, "turn": TURN, "dims": given.dims, "most": MOST, "rows": figures},
        )
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
