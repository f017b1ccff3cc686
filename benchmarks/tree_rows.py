"""Small ensembles of trees beside ONNX Runtime, one thread, by the rows of a call: the same rows in
every call, and other rows in each: `python -m benchmarks.tree_rows [--trees 20] [--depth 8]`.

A processor that has predicted the branches of the same few rows a thousand times makes an engine
that branches look faster than any caller will see it.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime as ort

import infuse
from benchmarks.tree_load import write

_FEATURES, _CALLS, _BATCHES = 60, 300, 1000


def _microseconds(call: Callable[[Any], object], batches: Iterator[Any]) -> float:
    start = time.perf_counter()
    for _ in range(_CALLS):
        call(next(batches))
    return (time.perf_counter() - start) / _CALLS * 1e6


def main() -> None:
    """Measure in turns, print the least and the median of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trees.onnx")
        write(path, options.trees, options.depth, _FEATURES)
        session = ort.InferenceSession(str(path), settings)
        with infuse.compile(str(path), infuse.CompileOptions(threads=1)) as model:
            for rows in (1, 5, 10, 20, 50, 100):
                for kind, count in (("the same", 1), ("other", _BATCHES)):
                    given = itertools.cycle(
                        rng.normal(size=(count, rows, _FEATURES)).astype(np.float32)
                    )
                    ours, theirs = [], []
                    for _ in range(options.rounds):
                        ours.append(_microseconds(lambda x: model.run({"x": x}), given))
                        theirs.append(_microseconds(lambda x: session.run(None, {"x": x}), given))
                    print(
                        f"{rows:4} rows, {kind:8}: "
                        f"infuse {min(ours):6.1f} ({median(ours):.1f}) µs, "
                        f"onnxruntime {min(theirs):6.1f} ({median(theirs):.1f}) µs, "
                        f"{min(theirs) / min(ours):.2f}×"
                    )


if __name__ == "__main__":
    main()
