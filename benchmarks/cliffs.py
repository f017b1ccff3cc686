"""Kernels that fall off: one operator at a time, over its whole space, beside ONNX Runtime on one
thread.

`python -m benchmarks.cliffs [--only groups,pools] [--seconds 0.05] [--below 0.8] [--json FILE]`

Prints the cases that are slower than `--below` times ONNX Runtime, and the geometric mean of each
group. A case below is measured again, four times as long, before it counts. Exit status 1 where one
is left. Calls that take less than FLOOR microseconds in both engines do not count: they show what a
call from Python costs.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import operators
from benchmarks.cliff_cases import GROUPS
from benchmarks.operator_cases import Case
from benchmarks.operators import Figure

CLOSE = 2e-4
"""What outputs may differ, relative to the largest: products of tiles round otherwise."""
FLOOR = 15.0
AGAIN = 4


def measure(group: str, case: Case, seconds: float, below: float) -> Figure:
    """The figure of one case; AssertionError when the results differ."""
    figure = operators.measure(group, case, seconds, CLOSE)
    if figure.speedup >= below:
        return figure
    return operators.measure(group, case, seconds * AGAIN, CLOSE)


def counts(figure: Figure) -> bool:
    """Whether a call is long enough to say something of its kernel."""
    return max(figure.infuse_us, figure.onnxruntime_us) >= FLOOR


def show(figures: list[Figure], below: float) -> dict[str, float]:
    """Print what is slow; the geometric means of the speedups by group and of all."""
    slow = [f for f in figures if f.speedup < below]
    means = operators.show(figures, sorted(slow, key=lambda f: f.speedup))
    Console(width=140).print(f"{len(figures)} cases, {len(slow)} below {below:g}")
    return means


def main() -> None:
    """Measure, print, and write where --json says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help=f"groups, separated by commas: {', '.join(GROUPS)}")
    parser.add_argument("--seconds", type=float, default=0.05, help="of each engine on each case")
    parser.add_argument("--below", type=float, default=0.8, help="speedups that are printed")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(GROUPS)
    if unknown := set(chosen) - GROUPS.keys():
        parser.error(f"there is no group {min(unknown)!r}; one of: {', '.join(GROUPS)}")
    figures = []
    for group in chosen:
        for case in GROUPS[group]():
            figure = measure(group, case, options.seconds, options.below)
            figures += [figure] if counts(figure) else []
    means = show(figures, options.below)
    if options.json:
        operators.save(options.json, figures, means)
    sys.exit(any(f.speedup < options.below for f in figures))


if __name__ == "__main__":
    main()
