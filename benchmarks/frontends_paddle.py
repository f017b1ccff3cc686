"""Models of Paddle beside Paddle: `python -m benchmarks.frontends_paddle FORMAT [PLACE …]`.

For every network of paddle.vision.models, saved as `FORMAT` (`pir`, or `old` with Paddle 3.0), and
for every model in the places: whether Infuse reads it, its nodes, and the largest difference from
Paddle on random images, as a part of the largest output. `--json FILE` writes the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import infuse
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate

FLAG = "FLAGS_enable_pir_api"
SIZE = 64
SIZES = {"inception_v3": 128, "googlenet": 224}
NETWORKS: dict[str, dict[str, Any]] = {
    "resnet18": {}, "resnext50_32x4d": {}, "mobilenet_v1": {"scale": 0.25},
    "mobilenet_v2": {"scale": 0.35}, "mobilenet_v3_small": {"scale": 0.5},
    "shufflenet_v2_x0_25": {}, "shufflenet_v2_swish": {}, "squeezenet1_1": {},
    "densenet121": {}, "googlenet": {}, "inception_v3": {}, "vgg11": {},
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a model disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("format", choices=("pir", "old"))
    parser.add_argument("places", nargs="*", type=Path, metavar="PLACE")
    parser.add_argument("--only", nargs="*", default=list(NETWORKS))
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ[FLAG] = str(int(options.format == "pir"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = [saved(name, Path(folder)) for name in options.only]
        files += [file for p in options.places for file in sorted(p.rglob("*.pdmodel"))]
        for file in files:
            rows.append(row(file))
            print(*(f"{value!s:>12}" for value in rows[-1].values()))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any(not r.get("difference", 0) <= options.tolerance for r in rows))


def saved(name: str, folder: Path) -> Path:
    """The program of a network with random weights."""
    import paddle

    paddle.disable_static()
    paddle.seed(0)
    network = getattr(paddle.vision.models, name)(pretrained=False, **NETWORKS[name])
    network.eval()
    size = SIZES.get(name, SIZE)
    spec = [paddle.static.InputSpec([None, 3, size, size], "float32", "image")]
    paddle.jit.save(network, str(folder / name), spec)
    files = (folder / f"{name}.{suffix}" for suffix in ("json", "pdmodel"))
    return next(file for file in files if file.exists())


def row(file: Path) -> dict[str, Any]:
    """The figures of one model."""
    begin = time.perf_counter()
    try:
        graph = infuse.load(file)
    except InfuseError as error:
        return {"model": file.stem, "refused": str(error)}
    seconds = time.perf_counter() - begin
    (value,) = graph.inputs
    free = (2, 3, SIZE, SIZE)
    shape = [size if isinstance(size, int) else free[i] for i, size in enumerate(value.shape)]
    image = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    ours = list(evaluate(graph, {value.name: image}).values())
    difference = max(distance(*pair) for pair in zip(ours, theirs(file, image), strict=True))
    return {
        "model": file.parent.name if file.stem == "inference" else file.stem,
        "nodes": len(graph),
        "seconds": round(seconds, 3),
        "difference": difference,
    }


def theirs(file: Path, image: np.ndarray) -> list[np.ndarray]:
    """Paddle's outputs."""
    import paddle

    paddle.enable_static()
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor = paddle.static.Executor(paddle.CPUPlace())
        program, names, fetches = paddle.static.load_inference_model(
            str(file.with_suffix("")), executor
        )
        made = executor.run(program, feed={names[0]: image}, fetch_list=fetches)
    paddle.disable_static()
    return [np.asarray(array) for array in made]


def distance(ours: np.ndarray, other: np.ndarray) -> float:
    """The largest difference, as a part of the largest element."""
    if (ours.shape, ours.dtype) != (other.shape, other.dtype):
        return float("nan")
    return float(np.abs(ours - other).max(initial=0) / (np.abs(other).max(initial=0) or 1.0))


if __name__ == "__main__":
    sys.exit(main())
