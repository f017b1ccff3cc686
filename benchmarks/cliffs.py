"""Kernels that fall off: one operator at a time over its whole space, and chains of a producer, a
view and a consumer, beside ONNX Runtime on one thread.

`python -m benchmarks.cliffs [--only groups,pools] [--sample 300] [--below 0.8] [--json FILE]`
`INFUSE_PREBUILT=kernels python -m benchmarks.cliffs --tier prebuilt`

Prints the cases that are slower than `--below` times ONNX Runtime, those whose results differ, the
geometric mean of each group, and how long the run took. Cases are measured in a random order that
`--seed` names, the first `--sample` of it or all; where they are compiled, `--jobs` processes do so
before the first is timed. A case below is measured again, four times as long, before it counts.
Exit status 1 where one is left. Calls that take less than FLOOR microseconds in both engines do not
count: they show what a call from Python costs.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks import operators, terminal
from benchmarks.chain_cases import CHAINS
from benchmarks.cliff_cases import GROUPS as SINGLE
from benchmarks.operator_cases import Case
from benchmarks.operators import Figure
from infuse.onnxruntime.errors import InvalidGraph

CLOSE = 2e-4
"""What outputs may differ, relative to the largest: products of tiles round otherwise."""
FLOOR = 15.0
AGAIN = 4
GROUPS = SINGLE | CHAINS
TIERS = {"compiled": "wait", "prebuilt": "never"}
"""What a session is told, by what runs the model."""


def cases(groups: Sequence[str], seed: int, sample: int | None = None) -> list[tuple[str, Case]]:
    """Cases with their groups in a random order, at most `sample` of them."""
    every = [(name, case) for name in groups for case in GROUPS[name]()]
    random.Random(seed).shuffle(every)
    return every[:sample]


def measure(group: str, case: Case, seconds: float, below: float, tier: str) -> Figure | str:
    """The figure of one case; where results differ or the model is refused, what is wrong."""
    take = partial(operators.measure, group, case, close=CLOSE, compiled=TIERS[tier])
    try:
        figure = take(seconds)
        return figure if figure.speedup >= below else take(seconds * AGAIN)
    except AssertionError as error:
        return f"{group}: {error}"
    except InvalidGraph as error:
        return f"{group}: {case.operator} {case.label}: {error}"


def prepare(case: Case) -> None:
    """Compile a case, so that its session is opened from the cache."""
    operators.engines(case)


def compiled_ahead(chosen: list[tuple[str, Case]], jobs: int) -> None:
    """Compile the cases in several processes."""
    with ProcessPoolExecutor(jobs) as pool:
        for _ in pool.map(prepare, (case for _, case in chosen), chunksize=4):
            pass


def counts(figure: Figure) -> bool:
    """Whether a call is long enough to say something of its kernel."""
    return max(figure.infuse_us, figure.onnxruntime_us) >= FLOOR


def show(figures: list[Figure], below: float) -> dict[str, float]:
    """Print what is slow; the geometric means of the speedups by group and of all."""
    slow = [f for f in figures if f.speedup < below]
    means = operators.show(figures, sorted(slow, key=lambda f: f.speedup))
    Console(width=140).print(f"{len(figures)} cases, {len(slow)} below {below:g}")
    return means


def parser() -> argparse.ArgumentParser:
    """The command line."""
    commands = argparse.ArgumentParser(description=__doc__)
    commands.add_argument("--only", help=f"groups, separated by commas: {', '.join(GROUPS)}")
    commands.add_argument("--sample", type=int, help="measure so many cases (default: all)")
    commands.add_argument("--seed", type=int, default=0, help="of the order of cases")
    commands.add_argument("--tier", choices=TIERS, default="compiled", help="what runs the models")
    commands.add_argument("--jobs", type=int, default=os.cpu_count(), help="compiling processes")
    commands.add_argument("--seconds", type=float, default=0.05, help="of each engine on each case")
    commands.add_argument("--below", type=float, default=0.8, help="speedups that are printed")
    commands.add_argument("--json", type=Path, help="write the figures here")
    return commands


def main() -> None:
    """Measure, print, and write where --json says."""
    commands = parser()
    options = commands.parse_args()
    groups = options.only.split(",") if options.only else list(GROUPS)
    if unknown := set(groups) - GROUPS.keys():
        commands.error(f"there is no group {min(unknown)!r}; one of: {', '.join(GROUPS)}")
    start = time.monotonic()
    chosen = cases(groups, options.seed, options.sample)
    if options.tier == "compiled":
        compiled_ahead(chosen, options.jobs)
    ready = time.monotonic()
    results = [
        measure(group, case, options.seconds, options.below, options.tier)
        for group, case in terminal.watched(chosen, lambda entry: entry[1].operator)
    ]
    wrong = [each for each in results if isinstance(each, str)]
    figures = [each for each in results if isinstance(each, Figure) and counts(each)]
    means = show(figures, options.below)
    end = time.monotonic()
    print(*wrong, sep="\n")
    print(f"{len(chosen)} cases: {ready - start:.0f} s to prepare, {end - ready:.0f} s to measure")
    if options.json:
        operators.save(options.json, figures, means)
    sys.exit(bool(wrong) or any(f.speedup < options.below for f in figures))


if __name__ == "__main__":
    main()
