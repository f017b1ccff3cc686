"""Networks of MindSpore beside MindSpore: `python -m benchmarks.frontends_mindspore [PLACE …]`.

For every network: its MindIR file, written by MindSpore's own export, the nodes before and after
optimization, and the largest difference of Infuse's outputs from MindSpore's (CPU backend, graph
mode), as a part of the largest output. The networks are ResNet-50, MobileNetV2, LeNet and BERT in
their full sizes, with random weights; places are `.mindir` files, or folders of them, which
MindSpore loads itself. Needs `pip install mindspore`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn

import infuse
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate
from tests.models.make_mindspore import flat, module_of
from tests.models.mindspore_models import SOURCE

ROWS = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1)),
    *((6, 160, 3, 2), (6, 320, 1, 1)),
)
"""Blocks of MobileNetV2: factor, channels, count and stride."""
NETWORKS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "LeNet": ("LeNet()", [(8, 1, 28, 28)]),
    "ResNet-50": ("ResNet(64)", [(1, 3, 224, 224)]),
    "MobileNetV2": (f"MobileNetV2({ROWS}, 32, 1280)", [(1, 3, 224, 224)]),
    "BERT": ("Bert(768, 12, 12, 30522)", [(1, 12), (1, 12)]),
    "LSTM": ("Tagger()", [(4, 30)]),
}
"""How a network is made, and the shapes of its inputs: whole numbers where there are two axes."""
Row = tuple[str, Path, Any, list[np.ndarray]]


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a network disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="*", type=Path, metavar="PLACE")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args(arguments)
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        sources = files(options.places) if options.places else networks(Path(folder))
        for name, path, net, feeds in sources:
            results.append(row(name, path, net, feeds))
            print("  ".join(f"{key} {value}" for key, value in results[-1].items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    agree = [r for r in results if r.get("difference", 1) <= options.tolerance]
    print(f"{len(results)} networks, {len(agree)} agree")
    return int(len(agree) < len(results))


def networks(folder: Path) -> Iterator[Row]:
    """The networks, exported."""
    module = module_of(folder, "mindspore_networks", SOURCE)
    rng = np.random.default_rng(0)
    for name, (text, shapes) in NETWORKS.items():
        net = eval(text, vars(module))
        net.set_train(False)
        spread(net, rng)
        feeds = [
            rng.integers(0, 2, shape).astype(np.int32)
            if len(shape) == 2
            else rng.normal(size=shape).astype(np.float32)
            for shape in shapes
        ]
        path = folder / f"{name}.mindir"
        tensors = [ms.Tensor(feed) for feed in feeds]
        ms.export(net, *tensors, file_name=str(path.with_suffix("")), file_format="MINDIR")
        yield name, path, net, feeds


def spread(net: Any, rng: np.random.Generator) -> None:
    """Numbers for the parameters that keep signals as large as they are."""
    for parameter in net.get_parameters():
        shape = parameter.shape
        size = max(int(np.prod(shape[1:])), 1)
        numbers = rng.uniform(-1, 1, shape) * np.sqrt(6 / size)
        if len(shape) == 1:
            numbers = 1 + rng.uniform(-0.2, 0.2, shape)
        parameter.set_data(ms.Tensor(numbers.astype(np.float32)))


def files(places: list[Path]) -> Iterator[Row]:
    """Files, as MindSpore loads them."""
    rng = np.random.default_rng(0)
    for place in places:
        for path in sorted(place.rglob("*.mindir")) if place.is_dir() else [place]:
            graph = infuse.load(path)
            feeds = [
                rng.random([n if isinstance(n, int) else 1 for n in v.shape]).astype(v.dtype.numpy)
                for v in graph.inputs
            ]
            yield path.name, path, nn.GraphCell(ms.load(str(path))), feeds


def row(name: str, path: Path, net: Any, feeds: list[np.ndarray]) -> dict[str, Any]:
    """What there is to say of one network."""
    begin = time.perf_counter()
    try:
        graph = infuse.load(path)
    except InfuseError as error:
        return {"name": name, "refused": str(error)}
    seconds = time.perf_counter() - begin
    expected = flat(net(*(ms.Tensor(feed) for feed in feeds)))
    names = [value.name for value in graph.inputs]
    results = list(evaluate(graph, dict(zip(names, feeds))).values())
    largest = 0.0
    for ours, theirs in zip(results, expected, strict=True):
        wide = theirs.astype(np.float64)
        scale = np.abs(wide).max(initial=0) or 1.0
        largest = max(largest, float(np.abs(ours - wide).max(initial=0) / scale))
    nodes = len(graph.nodes)
    optimized = len(infuse.optimize(graph).nodes)
    return {
        "name": name, "seconds": round(seconds, 3), "nodes": nodes, "optimized": optimized,
        "difference": largest,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
