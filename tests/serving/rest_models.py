"""A repository of tiny models, and a whole server over it in a thread."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from infuse.serving.config import Limits, Listener, ServerConfig, Workers
from infuse.serving.server import Server

TYPES: Mapping[str, int] = {
    "BOOL": TensorProto.BOOL,
    **{
        f"{sign}INT{bits}": getattr(TensorProto, f"{sign}INT{bits}")
        for sign in ("", "U")
        for bits in (8, 16, 32, 64)
    },
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16,
}


def identities(kinds: Mapping[str, int], sizes: list[Any]) -> bytes:
    """A model that gives each input `x…` as an output `y…`."""
    inputs = [
        helper.make_tensor_value_info(f"x{name}", kind, sizes) for name, kind in kinds.items()
    ]
    outputs = [
        helper.make_tensor_value_info(f"y{name}", kind, sizes) for name, kind in kinds.items()
    ]
    nodes = [helper.make_node("Identity", [f"x{name}"], [f"y{name}"]) for name in kinds]
    graph = helper.make_graph(nodes, "identities", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def write(repository: Path, name: str, model: bytes, version: int = 1) -> None:
    folder = repository / name / str(version)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model)


def fill(repository: Path) -> None:
    """`echo`: FP32, any number of rows of four; `kinds`: an input of every type of numbers;
    `words`: BYTES.
    """
    echo = identities({"": TensorProto.FLOAT}, ["rows", 4])
    for version in (1, 2):
        write(repository, "echo", echo, version)
    (repository / "echo" / "config.yaml").write_text(
        "version_policy: {all: true}\nlabels: {stable: 1}\n"
    )
    write(repository, "later", echo)
    write(repository, "kinds", identities(TYPES, ["rows", "columns"]))
    write(repository, "words", identities({"": TensorProto.STRING}, ["rows"]))
    write(repository, "picture", identities({"": TensorProto.FLOAT}, ["rows", 3, 224, 224]))


@contextmanager
def whole_server(folder: Path, **fields: Any) -> Iterator[Server]:
    """A server with HTTP and admin ports over the models of `fill`; `later` is not loaded."""
    fill(folder / "models")
    config = ServerConfig(
        repository=str(folder / "models"),
        cache=folder / "cache",
        control="explicit",
        models=("echo", "kinds", "words", "picture"),
        http=Listener(),
        admin=Listener(),
        grpc=Listener(enabled=False),
        workers=Workers(mode="inprocess"),
        limits=Limits(request_bytes=32 << 20),
        model_defaults={"warmup": {"enabled": False}},
        **fields,
    )
    with running(config) as server:
        yield server


@contextmanager
def running(config: ServerConfig) -> Iterator[Server]:
    """A whole server in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> Server:
        server = Server(config)
        await server.start()
        return server

    try:
        server = asyncio.run_coroutine_threadsafe(start(), loop).result(120)
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(5), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()
