"""Tiny models for tests of the engine: what they compute is known, or how they fail."""

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import infuse
from infuse.build.toolchain import Toolchain
from infuse.runtime.folder import LIBRARY, METADATA, digest
from infuse.serving.config import ServerConfig, Workers
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, InferResponse, Tensor

POISON = 666.0
"""The element of a row that `crashing` dies of."""


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Sequence[Any] = (),
) -> bytes:
    """An ONNX file."""
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(constants))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def tensor(
    name: str, kind: int = TensorProto.FLOAT, sizes: Sequence[int | str] = ("rows", 4)
) -> Any:
    """An input or output of a model; FP32[rows, 4] if nothing else is said."""
    return helper.make_tensor_value_info(name, kind, list(sizes))


def adder(value: float, sizes: Sequence[int | str] = ("rows", 4)) -> bytes:
    """y = x + value."""
    constant = numpy_helper.from_array(np.array(value, np.float32), "c")
    node = helper.make_node("Add", ["x", "c"], ["y"])
    return model([node], [tensor("x", sizes=sizes)], [tensor("y", sizes=sizes)], [constant])


def identity(kind: int, sizes: Sequence[int | str] = ("rows", 4)) -> bytes:
    """y = x, of an element type of ONNX."""
    node = helper.make_node("Identity", ["x"], ["y"])
    return model([node], [tensor("x", kind, sizes)], [tensor("y", kind, sizes)])


def filler() -> bytes:
    """y = zeros of the shape that the input gives: as large an output as one likes."""
    node = helper.make_node("ConstantOfShape", ["shape"], ["y"])
    return model([node], [tensor("shape", TensorProto.INT64, [1])], [tensor("y", sizes=["n"])])


FOREVER = 9_000_000
"""Turns of `looping` that take minutes; more are refused as endless."""


def looping() -> bytes:
    """y = x + turns, counted one by one in 65,536 places: `turns` says how long it takes."""
    size = 1 << 16
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Add", ["v", "one"], ["w"]),
        ],
        "body",
        [
            tensor("i", TensorProto.INT64, []),
            tensor("go", TensorProto.BOOL, []),
            tensor("v", TensorProto.DOUBLE, [size]),
        ],
        [tensor("on", TensorProto.BOOL, []), tensor("w", TensorProto.DOUBLE, [size])],
    )
    constants = [
        numpy_helper.from_array(np.array(True), "yes"),
        numpy_helper.from_array(np.array([1.0]), "one"),
        numpy_helper.from_array(np.array([size]), "sizes"),
    ]
    nodes = [
        helper.make_node("Expand", ["x", "sizes"], ["begin"]),
        helper.make_node("Loop", ["turns", "yes", "begin"], ["end"], body=body),
        helper.make_node("ReduceMax", ["end"], ["y"], keepdims=1),
    ]
    inputs = [tensor("turns", TensorProto.INT64, []), tensor("x", TensorProto.DOUBLE, [1])]
    return model(nodes, inputs, [tensor("y", TensorProto.DOUBLE, [1])], constants)


def write(repository: Path, name: str, content: bytes, version: int = 1, config: str = "") -> Path:
    """Put a version into a repository, whole at once; its folder."""
    if config:
        (repository / name).mkdir(parents=True, exist_ok=True)
        (repository / name / "config.yaml").write_text(config)
    hidden = repository / name / f".{version}"
    hidden.mkdir(parents=True)
    (hidden / "model.onnx").write_bytes(content)
    (hidden / "_SUCCESS").touch()
    return hidden.rename(repository / name / str(version))


def compiled(folder: Path, content: bytes) -> Path:
    """A compiled model in `folder`."""
    source = folder.with_suffix(".onnx")
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_bytes(content)
    infuse.compile(source, infuse.CompileOptions(threads=1), output=folder).close()
    source.unlink()
    return folder


_CRASHING = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static void *find(const char *name) {
  static void *library = 0;
  if (!library) library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : 0;
}
#define CALL(type, name, ...) ((type)find(name))(__VA_ARGS__)

const char *infuse_metadata(void) { return CALL(const char *(*)(void), "infuse_metadata"); }
void *infuse_open(const void *w, int t) {
    return CALL(void *(*)(const void *, int), "infuse_open", w, t); }
int infuse_shapes(void *a, void *b) { return CALL(int (*)(void *, void *), "infuse_shapes", a, b); }
void *infuse_output(void *a, int n, void *b) {
    return CALL(void *(*)(void *, int, void *), "infuse_output", a, n, b); }
void infuse_cancel(void *a, int b) { CALL(void (*)(void *, int), "infuse_cancel", a, b); }
const char *infuse_error(void *a) { return CALL(const char *(*)(void *), "infuse_error", a); }
int64_t infuse_arena_bytes(void *a) { return CALL(int64_t (*)(void *), "infuse_arena_bytes", a); }
int64_t infuse_live_bytes(void *a) { return CALL(int64_t (*)(void *), "infuse_live_bytes", a); }
void infuse_close(void *a) { CALL(void (*)(void *), "infuse_close", a); }

int infuse_run(void *context, const int64_t *symbols, const void *const *inputs,
    void *const *outputs) {
  for (int64_t row = 0; row < symbols[0]; ++row)
    if (((const float *)inputs[0])[4 * row] == POISON) DEED;
  return CALL(int (*)(void *, const int64_t *, const void *const *, void *const *), "infuse_run",
              context, symbols, inputs, outputs);
}
"""


def crashing(folder: Path, value: float, deed: str = "abort()") -> Path:
    """A compiled `adder` whose process dies of a row that begins with `POISON`, or does another
    deed.
    """
    compiled(folder, adder(value))
    real = folder / "real.so"
    (folder / LIBRARY).rename(real)
    source = folder / "crashing.cpp"
    source.write_text(f'extern "C" {{{_CRASHING}}}')
    macros = [f'-DREAL="{real}"', f"-DPOISON={POISON}f", f"-DDEED={deed}"]
    command = [*Toolchain.find().command, "-shared", "-fPIC", *macros]
    subprocess.run([*command, str(source), "-o", str(folder / LIBRARY), "-ldl"], check=True)
    metadata = json.loads((folder / METADATA).read_text())
    library = folder / LIBRARY
    metadata["files"][LIBRARY] = {"bytes": library.stat().st_size, "sha256": digest(library)}
    (folder / METADATA).write_text(json.dumps(metadata))
    return folder


def hanging(folder: Path, value: float) -> Path:
    """A compiled `adder` that sleeps for ever over a row that begins with `POISON`."""
    return crashing(folder, value, "for (;;) sleep(1000)")


def config(folder: Path, **fields: Any) -> ServerConfig:
    """A server's configuration over `folder`/models, in process and not warmed up if nothing else
    is said.
    """
    given: dict[str, Any] = {
        "repository": str(folder / "models"),
        "cache": folder / "cache",
        "poll_seconds": 0.05,
        "workers": Workers(mode="inprocess"),
        "model_defaults": {"warmup": {"enabled": False}, "threads": 1},
    }
    return ServerConfig(**(given | fields))


def rows(value: float, count: int = 1) -> np.ndarray[Any, Any]:
    """An input of `adder`."""
    return np.full((count, 4), value, np.float32)


def request(name: str, value: Any = 1.0, version: str = "", **fields: Any) -> InferRequest:
    """A request to an `adder`: one row of `value`, or the array itself."""
    array = rows(value) if np.isscalar(value) else value
    return InferRequest(name, version, inputs=[Tensor("x", "FP32", array)], **fields)


async def ask(
    engine: Engine, name: str, value: Any = 1.0, version: str = "", **fields: Any
) -> float:
    """What an `adder` says to one row of `value`."""
    response = await engine.infer(request(name, value, version, **fields))
    return first(response)


def first(response: InferResponse) -> float:
    """The first element of the first output."""
    return float(response.outputs[0].data.reshape(-1)[0])


async def until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    """Wait until something is so."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.005)


def remove(repository: Path, name: str, version: int | None = None) -> None:
    """Take a model, or a version of it, out of a repository at once."""
    place = repository / name / str(version) if version is not None else repository / name
    hidden = place.with_name(f".gone-{place.name}")
    place.rename(hidden)
    shutil.rmtree(hidden)
