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
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

import infuse
from benchmarks import machine
from benchmarks.cliff_cases import GROUPS
from benchmarks.measure import difference, geomean
from benchmarks.operator_cases import Case
from benchmarks.operators import Figure, engines, turns

CLOSE = 2e-4
"""What outputs may differ, relative to the largest: products of tiles round otherwise."""
FLOOR = 15.0
AGAIN = 4


def measure(group: str, case: Case, seconds: float, below: float) -> Figure:
    """The figure of one case; AssertionError when the results differ."""
    ours, peer, hosts = engines(case)
    error = difference(ours(), peer())
    assert error <= CLOSE, f"{case.operator} {case.label}: the results are {error:.1e} apart"
    mine, its = turns([ours, peer], seconds)
    if its < below * mine:
        mine, its = turns([ours, peer], seconds * AGAIN)
    return Figure(group, case.operator, case.label, mine * 1e6, its * 1e6, error, hosts)


def counts(figure: Figure) -> bool:
    """Whether a call is long enough to say something of its kernel."""
    return max(figure.infuse_us, figure.onnxruntime_us) >= FLOOR


def show(figures: list[Figure], below: float) -> dict[str, float]:
    """Print what is slow; the geometric means of the speedups by group and of all."""
    table = Table("operator", "case", "Infuse µs", "ONNX Runtime µs", "speedup")
    for f in sorted(figures, key=lambda f: f.speedup):
        if f.speedup < below:
            times = (f"{f.infuse_us:.1f}", f"{f.onnxruntime_us:.1f}")
            table.add_row(f.operator, f.label, *times, f"{f.speedup:.2f}")
    Console(width=140).print(table)
    groups = dict.fromkeys(f.family for f in figures)
    means = {name: geomean([f.speedup for f in figures if f.family == name]) for name in groups}
    means["all"] = geomean([f.speedup for f in figures])
    Console(width=140).print("  ".join(f"{name} {value:.2f}" for name, value in means.items()))
    slow = sum(f.speedup < below for f in figures)
    Console(width=140).print(f"{len(figures)} cases, {slow} below {below:g}")
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
        rows = [asdict(f) | {"speedup": f.speedup} for f in figures]
        content = {"infuse": infuse.__version__, "geomean_speedup": means, "cases": rows}
        machine.save(options.json, content)
    sys.exit(any(f.speedup < options.below for f in figures))


if __name__ == "__main__":
    main()
