"""Tasks for compression: `python -m benchmarks.compression_tasks FOLDER [NAME…] [--json FILE]`.

Makes the tasks that are not below the folder yet (packages are fetched, networks trained: minutes)
and prints the score in float32, by ONNX Runtime and by Infuse. Exit status 1 where the two differ
by more than TOLERANCE.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime

import infuse
from benchmarks import machine
from benchmarks.compression_tasks import NAMES, Feeds, Run, Task, task
from benchmarks.compression_tasks.base import Answers
from benchmarks.compression_tasks.series import SETS

TOLERANCE: Final = 2e-3
"""Between two scores in float32, of the larger: rounding may turn a run whose best two classes
have the same score, one or two of the thousand that a test has.
"""


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where the scores of a task differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    for name in options.names or NAMES:
        row = scored(task(name, options.folder))
        rows.append(row)
        print(
            f"{name:28} {row['metric']:32} ONNX Runtime {row['onnxruntime']:.4f}, "
            f"Infuse {row['infuse']:.4f}, {row['test']} runs, {row['bytes'] / 1e6:.2f} MB",
            flush=True,
        )
    for network in ("cnn", "lstm"):
        means = mean_over_sets(network, rows)
        if means:
            print(f"{network}: {means}")
    if options.json:
        machine.save(options.json, {"rows": rows})
    return int(any(not agrees(row) for row in rows))


def mean_over_sets(network: str, rows: list[dict[str, Any]]) -> str:
    """The mean scores of a network over the sets of series, where all were asked for."""
    of_network = [row for row in rows if row["name"].startswith(f"{network}_")]
    if len(of_network) < len(SETS):
        return ""
    means = [np.mean([row[engine] for row in of_network]) for engine in ("onnxruntime", "infuse")]
    return f"mean top-1 of {len(SETS)} sets: ONNX Runtime {means[0]:.4f}, Infuse {means[1]:.4f}"


def scored(one: Task) -> dict[str, Any]:
    """A row of the table: the scores in float32, and how long both took."""
    row: dict[str, Any] = {
        "name": one.name,
        "metric": one.metric,
        "bytes": one.model.stat().st_size,
        "calibration": len(one.calibration),
        "test": len(one.test),
    }
    for engine, run in (("onnxruntime", by_onnxruntime(one.model)), ("infuse", by_infuse(one))):
        start = time.perf_counter()
        row[engine] = one.score(run)
        row[f"{engine}_seconds"] = round(time.perf_counter() - start, 2)
    return row


def by_onnxruntime(model: Path) -> Run:
    """What ONNX Runtime answers on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    outputs = [value.name for value in session.get_outputs()]

    def run(feeds: Feeds) -> Answers:
        return dict(zip(outputs, session.run(None, feeds)))

    return run


def by_infuse(one: Task) -> Run:
    """What Infuse answers on one thread, compiled."""
    return infuse.compile(
        infuse.optimize(infuse.load(one.model)), infuse.CompileOptions(threads=1)
    ).run


def agrees(row: dict[str, Any]) -> bool:
    """Whether both engines have the same score."""
    ours, theirs = row["infuse"], row["onnxruntime"]
    return abs(ours - theirs) <= TOLERANCE * max(abs(ours), abs(theirs))


if __name__ == "__main__":
    raise SystemExit(main())
