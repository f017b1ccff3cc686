"""Hot operators of the long tail, each alone, in Infuse and in ONNX Runtime on one thread.

`python -m benchmarks.operators [--only LSTM,TopK] [--seconds 0.5] [--json FILE]`

Both take turns, a turn being as many calls as a few milliseconds hold; the fastest turn of each
counts, in processor time, so that neighbours on the machine disturb little. A speedup above one
means that Infuse is faster.
"""

import argparse
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from rich.console import Console
from rich.table import Table

import infuse
from benchmarks import machine
from benchmarks.measure import difference, geomean
from benchmarks.operator_cases import GROUPS, Case
from infuse.onnxruntime import InferenceSession, SessionOptions

TURN = 0.003
"""Seconds of one turn."""
CLOSE = 2e-5
"""What outputs may differ, relative to the largest."""

Run = Callable[[], Mapping[str, np.ndarray]]


@dataclass
class Figure:
    """Microseconds of one call, and how far the results are apart; `host_steps` run in Python."""

    family: str
    operator: str
    label: str
    infuse_us: float
    onnxruntime_us: float
    error: float
    host_steps: int

    @property
    def speedup(self) -> float:
        """How many times faster than ONNX Runtime."""
        return self.onnxruntime_us / self.infuse_us


def turns(runs: list[Run], seconds: float) -> list[float]:
    """Processor seconds of one call of each, the fastest of alternating turns."""
    counts = []
    for run in runs:
        start = time.perf_counter()
        run()
        counts.append(max(1, int(TURN / max(time.perf_counter() - start, 1e-7))))
    best = [math.inf] * len(runs)
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end:
        for i, (run, count) in enumerate(zip(runs, counts)):
            start = time.process_time()
            for _ in range(count):
                run()
            best[i] = min(best[i], (time.process_time() - start) / count)
    return best


def engines(case: Case, compiled: str = "wait") -> tuple[Run, Run, int]:
    """One call in Infuse, one in ONNX Runtime, and the host steps of the first; `compiled` is the
    option `compile` of the session.
    """
    model = case.model.SerializeToString()
    ours = InferenceSession(model, SessionOptions(intra_op_num_threads=1, compile=compiled))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    peer = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names, feeds = [o.name for o in peer.get_outputs()], dict(case.feeds)

    def run_ours() -> dict[str, Any]:
        return dict(zip(names, ours.run(names, feeds)))

    def run_peer() -> dict[str, Any]:
        return dict(zip(names, peer.run(names, feeds)))

    return run_ours, run_peer, len(getattr(ours, "host_steps", ()))


def measure(
    family: str, case: Case, seconds: float, close: float = CLOSE, compiled: str = "wait"
) -> Figure:
    """The figure of one case; AssertionError when the results differ by more than `close`."""
    ours, peer, hosts = engines(case, compiled)
    error = difference(ours(), peer())
    assert error <= close, f"{case.operator} {case.label}: the results are {error:.1e} apart"
    mine, its = turns([ours, peer], seconds)
    return Figure(family, case.operator, case.label, mine * 1e6, its * 1e6, error, hosts)


def show(figures: list[Figure], rows: list[Figure] | None = None) -> dict[str, float]:
    """Print a table of `rows` (default: all); the geometric means of the speedups by family and of
    all.
    """
    table = Table("operator", "case", "Infuse µs", "ONNX Runtime µs", "speedup")
    for f in figures if rows is None else rows:
        times = (f"{f.infuse_us:.1f}", f"{f.onnxruntime_us:.1f}")
        table.add_row(f.operator, f.label, *times, f"{f.speedup:.2f}")
    Console(width=140).print(table)
    families = dict.fromkeys(f.family for f in figures)
    means = {name: geomean([f.speedup for f in figures if f.family == name]) for name in families}
    means["all"] = geomean([f.speedup for f in figures])
    Console(width=140).print("  ".join(f"{name} {value:.2f}" for name, value in means.items()))
    return means


def save(path: Path, figures: list[Figure], means: dict[str, float]) -> None:
    """Write all figures and means."""
    rows = [asdict(f) | {"speedup": f.speedup} for f in figures]
    content = {"infuse": infuse.__version__, "geomean_speedup": means, "cases": rows}
    machine.save(path, content)


def main() -> None:
    """Measure, print, and write where --json says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help=f"families, separated by commas: {', '.join(GROUPS)}")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each engine on each case")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else list(GROUPS)
    figures = [measure(name, case, given.seconds) for name in chosen for case in GROUPS[name]()]
    means = show(figures)
    if given.json:
        save(given.json, figures, means)


if __name__ == "__main__":
    main()
