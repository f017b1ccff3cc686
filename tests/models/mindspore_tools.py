"""Files that MindSpore wrote, with its own outputs, and how a graph is held against them."""

from __future__ import annotations

import io
import lzma
from functools import cache
from pathlib import Path

import numpy as np

import infuse
from infuse.ops.core.evaluate import evaluate

DATA = Path(__file__).resolve().parent / "data" / "mindspore"
Record = dict[str, np.ndarray]


@cache
def records(name: str) -> dict[str, Record]:
    """The cases of a file of `make_mindspore`: `model`, `in0`, … and `out0`, … by name."""
    cases: dict[str, Record] = {}
    for key, array in stored(name).items():
        case, _, part = key.rpartition("|")
        cases.setdefault(case, {})[part] = array
    return cases


def stored(name: str) -> Record:
    """The arrays of a file of `make_mindspore`."""
    opened = np.load(io.BytesIO(lzma.decompress((DATA / f"{name}.npz.xz").read_bytes())))
    return {key: opened[key] for key in opened.files}


def listed(record: Record, prefix: str) -> list[np.ndarray]:
    count = sum(key.startswith(prefix) for key in record)
    return [record[f"{prefix}{i}"] for i in range(count)]


def difference(record: Record, tolerance: float = 1e-5) -> float:
    """The largest difference from MindSpore's outputs, whose types and shapes are the same."""
    graph = infuse.load(record["model"].tobytes())
    feeds = dict(zip((value.name for value in graph.inputs), listed(record, "in")))
    results = list(evaluate(graph, feeds).values())
    outputs = listed(record, "out")
    assert len(results) == len(outputs)
    largest = 0.0
    for result, output in zip(results, outputs):
        assert np.asarray(result).dtype == output.dtype
        assert np.asarray(result).shape == output.shape
        a, b = (np.asarray(array).astype(np.float64) for array in (result, output))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        if a.size:
            largest = max(largest, float(np.nanmax(np.abs(a - b), initial=0.0)))
    return largest
