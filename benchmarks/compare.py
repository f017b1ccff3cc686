"""Two checkouts of Infuse on the same models: speed, seconds of optimizing and compiling, and
nodes, as ratios.

`python -m benchmarks.compare OLD NEW [--models 'resnet*'] [--operators] [--threads 1,2] [--json
FILE]`

OLD and NEW are folders of checkouts, or names that git knows of commits of this one. Each runs in
processes of its own, in turns (A B A B); both begin with an empty cache. A ratio above one means
that NEW is faster. With `--operators`, the models are the hot operators of `benchmarks.operators`
in place of the zoo. Exit status 1 where a model fails in one of them, or the answers are more than
`--tolerance` of the largest output apart.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import onnx
from rich.table import Table

from benchmarks import machine, options, terminal
from benchmarks.measure import Timing, difference, geomean
from benchmarks.operator_cases import GROUPS
from benchmarks.worker import ROOT, Worker, WorkerError, alternate

SIDES = ("old", "new")


@dataclass
class Row:
    """One model at one number of threads, in both checkouts."""

    model: str
    threads: int
    times: dict[str, Timing] = field(default_factory=dict)
    facts: dict[str, dict[str, float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    difference: float | None = None

    def ratio(self, figure: Callable[["Row", str], float | None]) -> float | None:
        """A figure of OLD over that of NEW, None where one of them is missing."""
        old, new = (figure(self, side) for side in SIDES)
        return old / new if old and new else None


def best(row: Row, side: str) -> float | None:
    """Seconds of the fastest run."""
    return row.times[side].best if side in row.times else None


def median(row: Row, side: str) -> float | None:
    """Seconds of the median run."""
    return row.times[side].median if side in row.times else None


def fact(name: str) -> Callable[[Row, str], float | None]:
    """What opening a model cost, or its plan has, by its name in `Engine.facts`."""
    return lambda row, side: row.facts.get(side, {}).get(name)


RATIOS = {
    "best": best,
    "median": median,
    "optimize": fact("optimize_s"),
    "compile": fact("compile_s"),
    "nodes": fact("nodes_after"),
}
"""What is compared: for each of them, more is worse."""


@contextmanager
def checkout(name: str) -> Iterator[Path]:
    """The folder of a checkout: `name` itself, or one of the commit of that name which exists for
    the block.
    """
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory(prefix="infuse-compare-") as folder:
        made = Path(folder) / "checkout"
        try:
            subprocess.run(
                [*git, "add", "--detach", str(made), name],
                check=True,
                capture_output=True,
                text=True,
            )
        except subprocess.CalledProcessError as error:
            sys.exit(f"{name!r} is neither a folder nor a commit: {error.stderr.strip()}")
        try:
            yield made
        finally:
            subprocess.run([*git, "remove", "--force", str(made)], check=True, capture_output=True)


def operators(folder: Path) -> list[tuple[Path, Path | None]]:
    """The hot operators as files of models, each with a file of its inputs."""
    files: list[tuple[Path, Path | None]] = []
    for family, cases in GROUPS.items():
        for case in cases():
            label = "".join(
                c if c.isalnum() else "_" for c in f"{family}.{case.operator}.{case.label}"
            )
            model, inputs = folder / f"{label}.onnx", folder / f"{label}.npz"
            onnx.save(case.model, model)
            np.savez(inputs, **case.feeds)  # type: ignore[arg-type]
            files.append((model, inputs))
    return files


def run(
    model: Path,
    inputs: Path | None,
    threads: int,
    sides: Mapping[str, Path],
    chosen: argparse.Namespace,
) -> Row:
    """One model in both checkouts, in turns."""
    row = Row(model.stem, threads)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        workers = {}
        for side, place in sides.items():
            try:
                worker = Worker(
                    "infuse", model, threads, chosen.dims, "fp32", inputs, place, folder / side
                )
            except WorkerError as error:
                row.errors[side] = str(error)
                continue
            workers[side] = stack.enter_context(worker)
        times = alternate(workers, row.errors, chosen.rounds, chosen.seconds, chosen.least)
        row.times = {side: Timing.of(found) for side, found in times.items()}
        answers = {side: workers[side].answer(folder / f"{side}.npz") for side in times}
        row.facts = {side: workers[side].facts for side in times}
    if len(answers) == len(SIDES):
        row.difference = difference(answers["new"], answers["old"])
    return row


def table(rows: list[Row]) -> Table:
    """One line a row, and the geometric means."""
    made = Table(title="OLD over NEW: above 1, NEW is faster", title_justify="left")
    for name in ("model", "threads", "old ms", "new ms", *RATIOS, "difference"):
        made.add_column(name, justify="left" if name == "model" else "right")
    for row in rows:
        times = [
            f"{row.times[side].best * 1e3:.3f}" if side in row.times else "–" for side in SIDES
        ]
        ratios = [
            f"{ratio:.3f}" if (ratio := row.ratio(figure)) else "–" for figure in RATIOS.values()
        ]
        apart = "–" if row.difference is None else f"{row.difference:.1e}"
        made.add_row(row.model, str(row.threads), *times, *ratios, apart)
    made.add_section()
    made.add_row(
        "geomean", "", "", "", *(f"{mean:.3f}" for mean, _ in summarize(rows).values()), ""
    )
    made.add_row(
        "lowest", "", "", "", *(f"{lowest:.3f}" for _, lowest in summarize(rows).values()), ""
    )
    return made


def summarize(rows: list[Row]) -> dict[str, tuple[float, float]]:
    """Of each ratio its geometric mean and the lowest one."""
    found = {
        name: [r for row in rows if (r := row.ratio(figure))] for name, figure in RATIOS.items()
    }
    return {
        name: (geomean(ratios), min(ratios)) if ratios else (0.0, 0.0)
        for name, ratios in found.items()
    }


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = options.parser("Compare two checkouts of Infuse.")
    made.add_argument("old", metavar="OLD", help="a checkout, or a commit")
    made.add_argument("new", metavar="NEW", help="a checkout, or a commit")
    made.add_argument("--operators", action="store_true", help="hot operators in place of the zoo")
    options.add_models(made)
    options.add_threads(made)
    options.add_turns(made)
    options.add_dims(made)
    made.add_argument("--least", type=int, default=5, help="runs in a turn at least (default: 5)")
    made.add_argument(
        "--tolerance", type=float, default=1e-4, help="of the largest output (default: 1e-4)"
    )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    with ExitStack() as stack:
        if (chosen := parser().parse_args(arguments)).operators:
            models = operators(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        else:
            chosen, paths = options.parse(parser(), arguments)
            models = [(path, None) for path in paths]
        sides = {side: stack.enter_context(checkout(getattr(chosen, side))) for side in SIDES}
        cases = [(*files, threads) for files in models for threads in chosen.threads]
        watched = terminal.watched(cases, lambda case: f"{case[0].stem}, {case[2]} threads")
        rows = [run(*case, sides, chosen) for case in watched]
    console = terminal.console()
    console.print(table(rows))
    for row in rows:
        terminal.complain(console, f"{row.model}, {row.threads} threads", row.errors)
    if chosen.json:
        ratios = [
            asdict(row) | {"ratios": {n: row.ratio(figure) for n, figure in RATIOS.items()}}
            for row in rows
        ]
        machine.save(
            chosen.json,
            {"old": chosen.old, "new": chosen.new, "summary": summarize(rows), "rows": ratios},
        )
    apart = [row for row in rows if row.difference is None or row.difference > chosen.tolerance]
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
