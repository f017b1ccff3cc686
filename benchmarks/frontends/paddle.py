"""Networks of paddle.vision.models with random weights, and files of Paddle."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frontends import Case, Feeds, file_case, files, random_feeds
from infuse.ir.graph import Graph

FLAG = "FLAGS_enable_pir_api"
SIZE = 64
SIZES = {"inception_v3": 128, "googlenet": 224}
NETWORKS: dict[str, dict[str, Any]] = {
    "resnet18": {}, "resnext50_32x4d": {}, "mobilenet_v1": {"scale": 0.25},
    "mobilenet_v2": {"scale": 0.35}, "mobilenet_v3_small": {"scale": 0.5},
    "shufflenet_v2_x0_25": {}, "shufflenet_v2_swish": {}, "squeezenet1_1": {},
    "densenet121": {}, "googlenet": {}, "inception_v3": {}, "vgg11": {},
}  # fmt: skip


def cases(names: Sequence[str], *, old: bool = False) -> Iterator[Case]:
    """The networks that are named, by default all, and the models of places."""
    os.environ[FLAG] = str(int(not old))
    networks = [name for name in names if name in NETWORKS]
    places = [Path(name) for name in names if name not in NETWORKS]
    with tempfile.TemporaryDirectory() as folder:
        for name in networks or ([] if places else NETWORKS):
            yield _case(saved(name, Path(folder)), name)
        for file in files(places, "*.pdmodel"):
            yield _case(file, file.parent.name if file.stem == "inference" else file.stem)


def _case(file: Path, name: str) -> Case:
    def images(graph: Graph) -> Feeds:
        found = random_feeds(graph, size=SIZE)
        rng = np.random.default_rng(0)
        return {n: rng.standard_normal(a.shape).astype(np.float32) for n, a in found.items()}

    return file_case(file, lambda feeds: theirs(file, *feeds.values()), images, name)


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
    found = (folder / f"{name}.{suffix}" for suffix in ("json", "pdmodel"))
    return next(file for file in found if file.exists())


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
