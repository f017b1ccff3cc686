"""Recurrent layers with weights of 8 bits beside float32 and ONNX Runtime, on one thread in turns.

`python -m benchmarks.recurrent [--seconds 2] [--json FILE]`

Each layer has random weights and reads 32 steps of a sequence. `infuse compress --int8` makes its
integers; what it changes is the root of the power of the difference over that of the answers in
float32. ONNX Runtime runs the model in float32 and, of an LSTM, its own dynamic quantization.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.table import Table

import infuse
from benchmarks.compression_bits import Run, in_turns
from benchmarks.machine import save
from benchmarks.terminal import console

STEPS = 32
LAYERS = (
    *(("LSTM", 4, hidden, 1) for hidden in (256, 512, 1024)),
    ("GRU", 3, 512, 1),
    ("LSTM", 4, 512, 8),
)
"""Operator, gates, hidden units, batch."""


def model(kind: str, gates: int, hidden: int) -> onnx.ModelProto:
    """A layer whose input is as wide as its state."""
    rng = np.random.default_rng(0)
    shapes = {"w": (1, gates * hidden, hidden), "r": (1, gates * hidden, hidden)}
    weights = [
        numpy_helper.from_array((rng.standard_normal(s) / hidden**0.5).astype(np.float32), name)
        for name, s in shapes.items()
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, "batch", hidden])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=hidden)
    graph = helper.make_graph([node], kind, [x], [y], weights)
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def measure(
    kind: str, gates: int, hidden: int, batch: int, seconds: float, folder: Path
) -> dict[str, Any]:
    """Times of one layer, and what integers change."""
    path = folder / "layer.onnx"
    onnx.save(model(kind, gates, hidden), path)
    rng = np.random.default_rng(1)
    feeds = {"x": rng.standard_normal((STEPS, batch, hidden)).astype(np.float32)}
    integers = infuse.compress(
        path, "int8", data=[feeds], options=infuse.CompressOptions(allow_slower=True, threads=1)
    )
    plain, small = (
        infuse.compile(each, infuse.CompileOptions(threads=1)) for each in (path, integers)
    )
    runs: dict[str, Run] = {
        "float32": partial(plain.run, feeds),
        "int8": partial(small.run, feeds),
        "onnxruntime": _peer(path, feeds),
    }
    if kind == "LSTM":
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(path, folder / "dynamic.onnx")
        runs["onnxruntime int8"] = _peer(folder / "dynamic.onnx", feeds)
    exact = plain.run(feeds)["y"].astype(np.float64)
    changed = {
        "int8": small.run(feeds)["y"],
        **{name: run()[0] for name, run in runs.items() if name == "onnxruntime int8"},
    }
    errors = {
        name: float(np.linalg.norm(each - exact) / np.linalg.norm(exact))
        for name, each in changed.items()
    }
    times = in_turns(runs, seconds)
    label = f"{kind} of {hidden}, batch {batch}"
    return {"layer": label, "seconds": times, "errors": errors}


def _peer(path: Path, feeds: dict[str, np.ndarray]) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options)
    return lambda: session.run(None, feeds)


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recurrent")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each layer")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(*layer, options.seconds, Path(folder)) for layer in LAYERS]
    table = Table("layer", "runtime", "least ms", "median ms", "float32 ÷", "changed by")
    for row in rows:
        own = row["seconds"]["float32"][0]
        for name, (least, median) in row["seconds"].items():
            error = row["errors"].get(name)
            table.add_row(
                row["layer"],
                name,
                f"{1e3 * least:.3f}",
                f"{1e3 * median:.3f}",
                f"{own / least:.2f}",
                "" if error is None else f"{error:.1e}",
            )
    console().print(table)
    if options.json is not None:
        save(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
