"""Weights of few bits: how fast products are, how large files, and what a language model loses.

`python -m benchmarks.compression_bits [FOLDER_OF_TASKS] [--json FILE]`

Products of 1, 8 and 128 rows with matrices in blocks of 64 are measured in turns with float32 and,
where it is installed, with ONNX Runtime on the same file of MatMulNBits, on one thread. Each model
has as many matrices as exceed the caches, as those of a language model do. With a folder of tasks
(`benchmarks.compression_tasks`), its GPT is compressed by every method.
"""

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import infuse
from benchmarks.compression_tasks import task
from benchmarks.compression_tasks.base import whole_runs
from benchmarks.machine import save
from benchmarks.terminal import console
from infuse import dtypes
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, tensor

SIZES = ((4096, 4096, 1), (768, 768, 24), (768, 3072, 6), (3072, 768, 6))
"""Depth, columns, and how many matrices."""
ROWS = (1, 8, 128)
BLOCK = 64
KINDS = {"8 bits": (8, 0), "4 bits": (4, 0), "2 bits": (2, 0), "4 bits, rounded rows": (4, 4)}
"""Bits and accuracy level of MatMulNBits."""
METHODS = (infuse.Int4(), infuse.Int3(), infuse.Int2())
Run = Callable[[], object]


def products(rows: int, depth: int, columns: int, count: int, kind: str | None) -> Graph:
    """So many products of one input, with matrices of a kind; None: of float32."""
    rng, graph = np.random.default_rng(0), Graph("products")
    sizes: tuple[Dim, ...] = (rows, depth)
    x = graph.add_input("x", tensor(dtypes.float32, *sizes))
    for number in range(count):
        if kind is None:
            weights = (rng.standard_normal((depth, columns)) / depth**0.5).astype(np.float32)
            op, arrays = make_operator("", "MatMul", {}), [weights]
        else:
            op, arrays = _few_bits(rng, depth, columns, *KINDS[kind])
        output = Value(UNKNOWN, f"y{number}")
        node = graph.add_node(Node(op, [x, *map(constant, arrays)], [output]))
        node.op.infer_node(node)
        graph.add_output(output, output.name)
    return graph


def _few_bits(
    rng: np.random.Generator, depth: int, columns: int, bits: int, level: int
) -> tuple[Operator, list[np.ndarray]]:
    attributes = {"K": depth, "N": columns, "block_size": BLOCK, "bits": bits}
    op = make_operator("com.microsoft", "MatMulNBits", attributes | {"accuracy_level": level})
    blocks = depth // BLOCK
    arrays = [
        rng.integers(0, 256, (columns, blocks, BLOCK * bits // 8), np.uint8),
        rng.uniform(0.01, 0.02, columns * blocks).astype(np.float32),
        rng.integers(0, 256, columns * -(-blocks * bits // 8), np.uint8),
    ]
    return op, arrays


def in_turns(runs: Mapping[str, Run], seconds: float) -> dict[str, tuple[float, float]]:
    """The least and the median time of each, measured in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[next(iter(times))]) < 5:
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: (min(all), statistics.median(all)) for name, all in times.items()}


def _peer(graph: Graph, feeds: dict[str, np.ndarray]) -> Run | None:
    """A run of ONNX Runtime, if it is installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "products.onnx"
        infuse.save(graph, path)
        session = onnxruntime.InferenceSession(path, options)
    return lambda: session.run(None, feeds)


def speeds(seconds: float) -> list[dict[str, Any]]:
    """Times of products by size, rows and kind."""
    figures = []
    for depth, columns, count in SIZES:
        for rows in ROWS:
            data = np.random.default_rng(1).standard_normal((rows, depth)).astype(np.float32)
            feeds = {"x": data}
            plain = infuse.compile(
                products(rows, depth, columns, count, None), infuse.CompileOptions(threads=1)
            )
            for kind in KINDS:
                graph = products(rows, depth, columns, count, kind)
                ours = infuse.compile(graph, infuse.CompileOptions(threads=1))
                runs: dict[str, Run] = {
                    "float32": partial(plain.run, feeds),
                    "infuse": partial(ours.run, feeds),
                }
                peer = _peer(graph, feeds)
                if peer is not None:
                    runs["onnxruntime"] = peer
                times = in_turns(runs, seconds)
                place = {"depth": depth, "columns": columns, "matrices": count, "rows": rows}
                figures.append({**place, "kind": kind, "seconds": times})
    return figures


def losses(folder: Path) -> list[dict[str, Any]]:
    """Size and perplexity of the GPT by method, without and with data."""
    one = task("gpt_kjv", folder)
    halves = one.model.stat().st_size / 2
    with infuse.compile(infuse.optimize(one.model), infuse.CompileOptions(threads=1)) as model:
        figures = [{"method": "float32", "perplexity": one.score(model.run), "part": 2.0}]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "small.infuse"
        for method in METHODS:
            data, options = (
                whole_runs(one.calibration),
                infuse.CompressOptions(allow_slower=True, threads=1),
            )
            cases: dict[str, tuple[Any, Any]] = {
                f"{method.name}, nearest": (method, None),
                f"{method.name}, data": (method, data),
                f"{method.name}, data, rounded rows": (
                    replace(method, rounded_activations=True),
                    data,
                ),
            }
            for label, (asked, examples) in cases.items():
                graph = infuse.compress(one.model, asked, data=examples, options=options)
                infuse.save(graph, path)
                with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
                    score = one.score(model.run)
                part = path.stat().st_size / halves
                figures.append({"method": label, "perplexity": score, "part": part})
    return figures


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compression_bits")
    parser.add_argument("tasks", type=Path, nargs="?", metavar="FOLDER_OF_TASKS")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each product")
    options = parser.parse_args(arguments)
    shown = console()
    figures = speeds(options.seconds)
    table = Table("product", "rows", "kind", "float32 ms", "ms", "× float32", "× ONNX Runtime")
    for one in figures:
        times = one["seconds"]
        ratios = [
            "/".join(f"{a / b:.2f}" for a, b in zip(times[peer], times["infuse"]))
            if peer in times
            else ""
            for peer in ("float32", "onnxruntime")
        ]
        milliseconds = [f"{1e3 * times[name][0]:.3f}" for name in ("float32", "infuse")]
        size = f"{one['matrices']} × [{one['depth']}, {one['columns']}]"
        table.add_row(size, str(one["rows"]), one["kind"], *milliseconds, *ratios)
    shown.print(table)
    shown.print("Ratios are those of the least times and of the medians.")
    scores = [] if options.tasks is None else losses(options.tasks)
    if scores:
        table = Table("GPT", "perplexity", "of the size in float16")
        for one in scores:
            table.add_row(one["method"], f"{one['perplexity']:.3f}", f"{one['part']:.3f}")
        shown.print(table)
    if options.json:
        save(options.json, {"products": figures, "gpt": scores})
    return 0


if __name__ == "__main__":
    sys.exit(main())
