"""Microseconds of one call of a model that does almost nothing: what Python and the runtime cost.

`python -m benchmarks.overhead [--elements 16] [--json FILE]`

One operator with one input (Relu) and with two (Add), in Infuse and in ONNX Runtime, one thread
each; the fastest of several repeats counts, and the repeats of all callers alternate.
"""

import argparse
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import infuse
from benchmarks import machine
from infuse.onnxruntime import InferenceSession, SessionOptions

CALLS = 5000
REPEATS = 9


def write_model(path: Path, operator: str, inputs: int) -> None:
    """An ONNX file with one operator on float32[batch, n]."""
    names = [f"x{i}" for i in range(inputs)]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "n"])
        for name in (*names, "y")
    ]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"])], operator, values[:-1], values[-1:]
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )


def callers(path: Path, feeds: dict[str, np.ndarray[Any, Any]]) -> dict[str, Callable[[], Any]]:
    """Every way to run the model once."""
    model = infuse.compile(infuse.optimize(infuse.load(path)), infuse.CompileOptions(threads=1))
    session = model.session()
    ours = InferenceSession(path, SessionOptions(intra_op_num_threads=1))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    peer = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    arrays = list(feeds.values())
    return {
        "onnxruntime run": lambda: peer.run(None, feeds),
        "infuse model.run": lambda: model.run(feeds),
        "infuse model()": lambda: model(*arrays),
        "infuse session.run": lambda: session.run(feeds),
        "infuse InferenceSession.run": lambda: ours.run(None, feeds),
    }


def measure(elements: int) -> dict[str, dict[str, float]]:
    """Microseconds by model and caller; the cost of the lambda around each call is taken off."""
    found: dict[str, dict[str, float]] = {}
    empty = min(timeit.repeat(lambda: None, number=CALLS, repeat=REPEATS))
    for operator, inputs in (("Relu", 1), ("Add", 2)):
        feeds = {f"x{i}": np.ones((1, elements), np.float32) for i in range(inputs)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{operator}.onnx"
            write_model(path, operator, inputs)
            timers = {name: timeit.Timer(call) for name, call in callers(path, feeds).items()}
        best = dict.fromkeys(timers, float("inf"))
        for _ in range(REPEATS):
            for name, timer in timers.items():
                best[name] = min(best[name], timer.timeit(CALLS))
        found[operator] = {name: (seconds - empty) / CALLS * 1e6 for name, seconds in best.items()}
    return found


def main() -> None:
    """Print the table, and write it where --json says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=16, help="elements of each input")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    found = measure(options.elements)
    table = Table("µs a call", *found)
    for name in next(iter(found.values())):
        table.add_row(name, *(f"{figures[name]:.2f}" for figures in found.values()))
    Console().print(table)
    if options.json:
        machine.save(options.json, {"overhead_us": found})


if __name__ == "__main__":
    main()
