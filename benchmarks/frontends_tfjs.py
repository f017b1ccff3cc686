"""Graph models of TensorFlow.js beside TensorFlow.js itself, run by node on its plain backend:
`python -m benchmarks.frontends_tfjs NODE_MODULES MODEL.json … [--json FILE]`.

NODE_MODULES is where `npm install @tensorflow/tfjs` put the package. Inputs are random; the
difference is that of the largest output, and a part of it; `own` is how far answers move when the
inputs move by a part of 1e-7.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

import infuse
from benchmarks import machine
from benchmarks.measure import difference
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

RUNNER: Final = Path(__file__).with_name("tfjs_runner.mjs")
SIZE: Final = 96
"""Of what is not fixed, but the batch."""
Feeds = dict[str, np.ndarray]


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a model disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", type=Path)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = {path.name: compared(path, options.modules) for path in options.models}
    for name, row in rows.items():
        print(f"{name:30} difference {row['difference']:.1e}, own {row['own']:.1e}")
    if options.json:
        content = {"machine": machine.describe(), "models": rows}
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    agree = [row["difference"] <= max(options.tolerance, 10 * row["own"]) for row in rows.values()]
    print(f"{sum(agree)} of {len(rows)} agree")
    return int(not all(agree))


def compared(path: Path, modules: Path) -> dict[str, Any]:
    """The figures of a model."""
    graph = infuse.load(path)
    rng, feeds = np.random.default_rng(0), random_feeds(graph)
    near = {
        n: (x * (1 + 1e-7 * rng.normal(size=x.shape))).astype(x.dtype) for n, x in feeds.items()
    }
    nodes = signature(path)
    ours = {nodes.get(name, name): x for name, x in evaluate(graph, feeds).items()}
    theirs = by_tensorflow_js(path, modules, feeds)
    moved = by_tensorflow_js(path, modules, near)
    if set(ours) != set(theirs):
        raise SystemExit(f"{path.name}: outputs are {sorted(ours)} and {sorted(theirs)}")
    return {"difference": difference(ours, theirs), "own": difference(moved, theirs)}


def signature(path: Path) -> dict[str, str]:
    """The nodes that compute a model's outputs, by the names of these."""
    document = json.loads(path.read_text("utf-8"))
    stated = document.get("signature") or document["userDefinedMetadata"]["signature"]
    return {name: entry["name"].partition(":")[0] for name, entry in stated["outputs"].items()}


def random_feeds(graph: Graph) -> Feeds:
    """Numbers from 0 to 1, integers up to 255."""
    rng, feeds = np.random.default_rng(0), {}
    for value in graph.inputs:
        shape = [
            size if isinstance(size, int) else SIZE if axis else 1
            for axis, size in enumerate(value.shape)
        ]
        numbers = rng.random(shape)
        kind = value.dtype.numpy
        feeds[value.name] = (numbers if kind.kind == "f" else numbers * 256).astype(kind)
    return feeds


def by_tensorflow_js(path: Path, modules: Path, feeds: Feeds) -> Feeds:
    """The answers of TensorFlow.js, by the names of nodes."""
    with tempfile.TemporaryDirectory() as name:
        request, answer = Path(name, "feeds.json"), Path(name, "answers.json")
        entries = {
            name.partition(":")[0]: {
                "dtype": str(x.dtype),
                "shape": x.shape,
                "data": base64.b64encode(x.tobytes()).decode(),
            }
            for name, x in feeds.items()
        }
        request.write_text(json.dumps(entries), "utf-8")
        command = ["node", str(RUNNER), *map(str, (modules, path, request, answer))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not answer.exists():
            raise SystemExit(f"TensorFlow.js cannot run {path}:\n{done.stderr[-2000:]}")
        content = json.loads(answer.read_text("utf-8"))
    return {
        name: np.frombuffer(
            base64.b64decode(entry["data"]),
            np.uint8 if entry["dtype"] == "bool" else entry["dtype"],
        ).reshape(entry["shape"])
        for name, entry in content.items()
    }


if __name__ == "__main__":
    raise SystemExit(main())
