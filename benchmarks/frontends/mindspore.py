"""Networks in their full sizes as MindSpore's export writes them, and MindIR files; they run on
MindSpore's CPU backend in graph mode.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn

from benchmarks.frontends import Case, Feeds, file_case, files, random_feeds
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


def cases(names: Sequence[str]) -> Iterator[Case]:
    """The networks that are named, or the files of places; by default all networks."""
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    networks = [name for name in names if name in NETWORKS]
    places = [Path(name) for name in names if name not in NETWORKS]
    with tempfile.TemporaryDirectory() as folder:
        module = module_of(Path(folder), "mindspore_networks", SOURCE)
        for name in networks or ([] if places else NETWORKS):
            yield exported(name, module, Path(folder))
        for path in files(places, "*.mindir"):
            net = nn.GraphCell(ms.load(str(path)))
            yield file_case(path, _runner(net), lambda graph: random_feeds(graph, 1, 1))


def exported(name: str, module: Any, folder: Path) -> Case:
    """A network with random weights as a file."""
    text, shapes = NETWORKS[name]
    rng = np.random.default_rng(0)
    net = eval(text, vars(module))
    net.set_train(False)
    spread(net, rng)
    arrays = [
        rng.integers(0, 2, shape).astype(np.int32)
        if len(shape) == 2
        else rng.normal(size=shape).astype(np.float32)
        for shape in shapes
    ]
    path = folder / f"{name}.mindir"
    tensors = [ms.Tensor(array) for array in arrays]
    ms.export(net, *tensors, file_name=str(path.with_suffix("")), file_format="MINDIR")
    named = lambda graph: dict(zip([value.name for value in graph.inputs], arrays))  # noqa: E731
    return file_case(path, _runner(net), named)


def _runner(net: Any) -> Any:
    def run(feeds: Feeds) -> list[np.ndarray]:
        return flat(net(*(ms.Tensor(feed) for feed in feeds.values())))

    return run


def spread(net: Any, rng: np.random.Generator) -> None:
    """Numbers for the parameters that keep signals as large as they are."""
    for parameter in net.get_parameters():
        shape = parameter.shape
        size = max(int(np.prod(shape[1:])), 1)
        numbers = rng.uniform(-1, 1, shape) * np.sqrt(6 / size)
        if len(shape) == 1:
            numbers = 1 + rng.uniform(-0.2, 0.2, shape)
        parameter.set_data(ms.Tensor(numbers.astype(np.float32)))
