"""Programs of TorchScript, read and held against torch."""

from __future__ import annotations

import io
import linecache
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np
import torch

import infuse
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate


def saved(module: Any) -> bytes:
    """The file of a scripted or traced module."""
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer.getvalue()


def scripted(module: torch.nn.Module) -> Any:
    """A module in evaluation mode, scripted."""
    return torch.jit.script(module.eval())


def module_from(body: str, names: Sequence[str]) -> Any:
    """A scripted module whose forward has these parameters and this body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"def forward(self, {', '.join(names)}):\n{lines}"
    file = f"<{len(linecache.cache)} {body[:30]}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space: dict[str, Any] = {
        "torch": torch,
        "F": torch.nn.functional,
        "math": math,
        "Optional": Optional,
    }
    exec(compile(text, file, "exec"), space)
    return torch.jit.script(type("Net", (torch.nn.Module,), {"forward": space["forward"]})().eval())


def traced(module: torch.nn.Module, *inputs: torch.Tensor) -> Any:
    """A module in evaluation mode, traced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(module.eval(), inputs)


def leaves(result: Any) -> list[Any]:
    """Tensors and numbers of a result, in order."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [leaf for part in result for leaf in leaves(part)]
    return [] if result is None else [result]


def spec_of(x: Any, dynamic: str = "") -> Any:
    """What is said of an input like x; its first size is a symbol where that has a name."""
    if isinstance(x, torch.Tensor):
        shape: list[Any] = list(x.shape)
        if dynamic and shape:
            shape[0] = dynamic
        return infuse.Spec(str(x.dtype).removeprefix("torch."), tuple(shape))
    return [spec_of(part, dynamic) for part in x] if isinstance(x, list) else x


def read(module: Any, inputs: Mapping[str, Any], dynamic: str = "") -> Graph:
    """The graph of a module for inputs like these."""
    said = {name: spec_of(x, dynamic) for name, x in inputs.items()}
    return infuse.from_torchscript(saved(module), said)


def feeds_of(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors among inputs as arrays by the names that the graph has."""
    feeds = {}
    for name, x in inputs.items():
        for number, part in enumerate(x if isinstance(x, list) else [x]):
            if isinstance(part, torch.Tensor):
                key = f"{name}_{number}" if isinstance(x, list) else name
                feeds[key] = part.detach().numpy()
    return feeds


def difference(module: Any, inputs: Mapping[str, Any], dynamic: str = "") -> float:
    """The largest difference between the outputs of torch and of the graph, which have to be of the
    same types and shapes.
    """
    graph = read(module, inputs, dynamic)
    return compare(graph, module, inputs)


def compare(graph: Graph, module: Any, inputs: Mapping[str, Any]) -> float:
    """The largest difference relative to what torch computes (at least 1)."""
    feeds = feeds_of(inputs)
    copies = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}
    with torch.no_grad():
        expected = leaves(module(**copies))
    outputs = evaluate(graph, feeds)
    actual = [v for name, v in outputs.items() if not name.endswith(".out")]
    assert len(actual) == len(expected), (len(actual), len(expected))
    return max((apart(a, e) for a, e in zip(actual, expected)), default=0.0)


def apart(actual: Any, expected: Any) -> float:
    """How far an output is from torch's; AssertionError where its type or shape differs."""
    if not isinstance(expected, torch.Tensor):
        return abs(float(actual) - float(expected))
    wide = expected.float() if expected.dtype == torch.bfloat16 else expected
    name = str(expected.dtype).removeprefix("torch.")
    assert str(actual.dtype) == name, f"{actual.dtype} is not {name}"
    array = wide.detach().numpy()
    assert actual.shape == array.shape, f"{actual.shape} is not {array.shape}"
    if array.size == 0:
        return 0.0
    a, e = np.asarray(actual, np.float64), np.asarray(array, np.float64)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    if same.all():
        return 0.0
    if not np.isfinite(a[~same]).all() or not np.isfinite(e[~same]).all():
        return float("inf")
    return float(np.max(np.abs(a - e)[~same] / np.maximum(1, np.abs(e[~same]))))


def in_order(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Inputs by name."""
    return dict(zip(names, values, strict=True))
