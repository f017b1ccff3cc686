"""A real server with small models, in a thread of its own, for tests of the console and its
picture.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from infuse.serving.config import Listener, ServerConfig
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from infuse.serving.server import Server

SECONDS = 120
WIDTH = 64
T = TypeVar("T")
_states = itertools.count()


def write_model(folder: Path, layers: int = 1, config: str = "", factor: float = 1.0) -> None:
    """A version in a folder: layers of [n, 64] with random weights times `factor`; the same for the
    same `layers`.
    """
    rng = np.random.default_rng(layers)
    nodes, weights = [], []
    for i in range(layers):
        values = rng.standard_normal((WIDTH, WIDTH)) * factor * (2 / WIDTH) ** 0.5
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"w{i}"))
        product, last = f"p{i}", "y" if i == layers - 1 else f"h{i}"
        nodes += [helper.make_node("MatMul", ["x" if i == 0 else f"h{i - 1}", f"w{i}"], [product])]
        nodes += [helper.make_node("Relu", [product], [last])]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x", "y")
    ]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], weights)
    folder.mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        folder / "model.onnx",
    )
    if config:
        (folder.parent / "config.yaml").write_text(config)


@dataclass
class Running:
    """A server and the loop that it runs on."""

    server: Server
    loop: asyncio.AbstractEventLoop

    @property
    def engine(self) -> Engine:
        return self.server.engine

    @property
    def url(self) -> str:
        assert self.server.admin is not None
        return f"{self.server.admin.url}/"

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    def describe(self, name: str) -> dict[str, Any]:
        """A model's traffic."""

        async def told() -> dict[str, Any]:
            return self.engine.admin.traffic(name).describe()

        return self.call(told())

    async def ask(self, name: str, rows: int = 1, version: str = "") -> None:
        """One request with random rows."""
        data = np.random.default_rng().standard_normal((rows, WIDTH), np.float32)
        await self.engine.infer(InferRequest(name, version, inputs=[Tensor("x", "FP32", data)]))


@contextmanager
def serving(repository: Path, **fields: Any) -> Iterator[Running]:
    """A server on free ports over a repository; its cache and state lie beside that."""
    options: dict[str, Any] = {
        "cache": repository.parent / "cache",
        "state": repository.parent / f"state-{next(_states)}.json",  # a file has one owner
        "control": "explicit",
        "models": tuple(sorted(path.name for path in repository.iterdir() if path.is_dir())),
        "http": Listener(),
        "grpc": Listener(enabled=False),
        "admin": Listener(),
        **fields,
    }
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def made() -> Server:
        server = Server(ServerConfig(repository=str(repository), **options))
        await server.start()
        return server

    try:
        running = Running(asyncio.run_coroutine_threadsafe(made(), loop).result(SECONDS), loop)
        try:
            yield running
        finally:
            running.call(running.server.stop(1.0))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()
