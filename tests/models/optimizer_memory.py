"""Memory to optimize and save a language model of seven billion parameters, whose weights lie in a
sparse file.

`python -m tests.models.optimizer_memory --layers 32 --json FILE`
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import infuse
from benchmarks import machine

BAR = 2**30
"""Bytes of memory beyond the mapped weights that the whole run may take."""
HIDDEN, INNER, HEADS, VOCABULARY = 4096, 11008, 32, 32000
LAYERS = 32
PERIOD = 0.005
"""Seconds between two looks at the memory."""


class Model:
    """A decoder as exporters write it, with weights in an external file that takes next to no
    space.
    """

    def __init__(self, folder: Path, layers: int) -> None:
        self.path = folder / "model.onnx"
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.data = folder / "model.onnx.data"
        self.offset = 0
        with self.data.open("wb") as self.file:
            x = self.node("Gather", self.weight("embedding", VOCABULARY, HIDDEN), "ids")
            for layer in range(layers):
                x = self.layer(x, f"layer{layer}")
            tied = self.node("Transpose", "embedding", perm=[1, 0])
            self.node("MatMul", self.norm(x, "last"), tied, name="logits")
            self.file.truncate(self.offset)
        sizes = ["batch", "seq"]
        graph = helper.make_graph(
            self.nodes,
            "decoder",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, sizes)],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [*sizes, VOCABULARY])],
            self.weights,
        )
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
            self.path,
        )

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        output = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, inputs, [output], name=f"node_{output}", **attributes)
        )
        return output

    def weight(self, name: str, *shape: int) -> str:
        """An external tensor of mostly zeros, with a page of its own numbers in front."""
        size = 4 * int(np.prod(shape))
        self.file.seek(self.offset)
        self.file.write(
            np.random.default_rng(self.offset).standard_normal(1024).astype(np.float32).tobytes()
        )
        proto = TensorProto(
            name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL
        )
        for key, text in (
            ("location", self.data.name),
            ("offset", str(self.offset)),
            ("length", str(size)),
        ):
            proto.external_data.add(key=key, value=text)
        self.weights.append(proto)
        self.offset += max(size, 4096)
        return name

    def small(self, name: str, array: Any) -> str:
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def linear(self, x: str, name: str, rows: int, columns: int) -> str:
        return self.node("MatMul", x, self.weight(f"{name}.weight", rows, columns))

    def norm(self, x: str, name: str) -> str:
        two, axes = (
            self.small(f"{name}.two", np.float32(2)),
            self.small(f"{name}.axes", np.array([-1])),
        )
        mean = self.node("ReduceMean", self.node("Pow", x, two), axes, keepdims=1)
        root = self.node(
            "Sqrt", self.node("Add", mean, self.small(f"{name}.epsilon", np.float32(1e-6)))
        )
        one = self.small(f"{name}.one", np.float32(1))
        scaled = self.node("Mul", x, self.node("Div", one, root))
        return self.node("Mul", self.weight(f"{name}.weight", HIDDEN), scaled)

    def heads(self, x: str, name: str) -> str:
        shape = self.small(f"{name}.heads", np.array([0, 0, HEADS, HIDDEN // HEADS]))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=[0, 2, 1, 3])

    def layer(self, x: str, name: str) -> str:
        normal = self.norm(x, f"{name}.attention_norm")
        q, k, v = (
            self.heads(self.linear(normal, f"{name}.{p}", HIDDEN, HIDDEN), f"{name}.{p}")
            for p in "qkv"
        )
        scale = self.small(f"{name}.scale", np.float32((HIDDEN // HEADS) ** -0.5))
        scores = self.node(
            "Mul", self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2])), scale
        )
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        shape = self.small(f"{name}.joined", np.array([0, 0, HIDDEN]))
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]), shape)
        x = self.node("Add", x, self.linear(joined, f"{name}.o", HIDDEN, HIDDEN))
        normal = self.norm(x, f"{name}.mlp_norm")
        gate, up = (self.linear(normal, f"{name}.{p}", HIDDEN, INNER) for p in ("gate", "up"))
        inner = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), up)
        return self.node("Add", x, self.linear(inner, f"{name}.down", INNER, HIDDEN))


class Watch:
    """The most memory of its own that this process had: pages of mapped files do not count."""

    def __init__(self) -> None:
        self.peak = self.now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    @staticmethod
    def now() -> int:
        """Bytes of anonymous memory."""
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * sum(
            int(line.split()[1])
            for line in status.splitlines()
            if line.startswith(("RssAnon", "RssShm"))
        )

    def _look(self) -> None:
        while not self._stop.wait(PERIOD):
            self.peak = max(self.peak, self.now())

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return max(self.peak, self.now())


def measure(path: Path, target: Path, level: str) -> dict[str, Any]:
    """Seconds and bytes of loading, optimizing and saving the model at `path`, in this process."""
    start = Watch.now()
    watch = Watch()
    seconds: dict[str, float] = {}
    began = time.perf_counter()
    graph = infuse.load(path)
    seconds["load"] = time.perf_counter() - began
    began = time.perf_counter()
    better = infuse.optimize(graph, level)
    seconds["optimize"] = time.perf_counter() - began
    optimized = watch.stop() - start
    watch = Watch()
    began = time.perf_counter()
    infuse.save(better, target)
    seconds["save"] = time.perf_counter() - began
    saved = watch.stop() - start
    return {
        "nodes": len(graph),
        "left": len(better),
        "weights": sum(v.const.nbytes for v in graph.constants() if v.const is not None),
        "seconds": seconds,
        "optimize_bytes": optimized,
        "save_bytes": saved,
    }


def measure_apart(layers: int, level: str) -> dict[str, Any]:
    """The same for a new model, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = Model(folder, layers)
        result = folder / "figures.json"
        options = ["--model", str(model.path), "--level", level, "--json", str(result)]
        command = [sys.executable, "-m", "tests.models.optimizer_memory", *options]
        subprocess.run(command, check=True)
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))["figures"]
        return found


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, save; exit status 1 when the bar is missed."""
    parser = argparse.ArgumentParser(
        description="Measure the memory that a model of 7e9 parameters takes to optimize."
    )
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--level", default="extended")
    parser.add_argument(
        "--model", type=Path, metavar="FILE", help="measure this model, in this process"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    if options.model:
        found = measure(options.model, options.model.with_name("optimized.onnx"), options.level)
        machine.save(options.json, {"figures": found})
        return
    found = measure_apart(options.layers, options.level)
    table = Table(
        "nodes", "left", "weights", "load, optimize, save", "memory to optimize", "memory to save"
    )
    seconds = ", ".join(f"{found['seconds'][key]:.1f} s" for key in ("load", "optimize", "save"))
    sizes = [f"{found[key] / 2**20:.0f} MB" for key in ("optimize_bytes", "save_bytes")]
    table.add_row(
        str(found["nodes"]),
        str(found["left"]),
        f"{found['weights'] / 2**30:.1f} GB",
        seconds,
        *sizes,
    )
    Console().print(table)
    if options.json:
        machine.save(
            options.json, {"layers": options.layers, "level": options.level, "figures": found}
        )
    if max(found["optimize_bytes"], found["save_bytes"]) > BAR:
        sys.exit(1)


if __name__ == "__main__":
    main()
