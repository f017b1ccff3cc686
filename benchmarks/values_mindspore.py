"""Functions of `mindspore.ops` beside MindSpore in PyNative mode, for
`benchmarks.reader_values`.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import ops

import infuse
from benchmarks.reader_values import Array, Form
from infuse.ir.graph import Graph

_SKIPPED = (
    *("rand", "bernoulli", "multinomial", "normal", "uniform", "gamma", "poisson", "laplace"),
    *(
        "standard",
        "dropout",
        "log_uniform",
        "choice",
        "print",
        "get_",
        "grad",
        "vmap",
        "jvp",
        "vjp",
    ),
    *(
        "custom",
        "while_loop",
        "fori_loop",
        "scan",
        "for_each",
        "make_",
        "all_",
        "assign",
        "scatter",
    ),
    *("send", "recv", "broadcast", "barrier", "switch", "derivative", "jet", "stop_gradient"),
    *("empty", "shuffle", "op_info", "tbe", "aicpu", "cpu_", "arange", "range", "hook", "kernel"),
)
_NUMBER = itertools.count()


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All functions of `mindspore.ops`."""
    for name in sorted(dir(ops)):
        function = getattr(ops, name)
        if name[0].islower() and callable(function) and not name.startswith(_SKIPPED):
            yield name, function


def _flat(made: Any) -> list[Any]:
    parts = made if isinstance(made, (list, tuple)) else [made]
    return [each for part in parts for each in (_flat(part) if part is not made else [part])]


def _options(options: dict[str, Any]) -> dict[str, Any]:
    return {"keep_dims" if key == "keepdims" else key: value for key, value in options.items()}


def eager(function: Callable[..., Any], form: Form) -> list[Array]:
    """MindSpore's answer."""
    if any(feed.size == 0 for feed in form.feeds):
        raise ValueError("MindSpore exports no empty tensors")
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    made = _flat(function(*map(ms.Tensor, form.feeds), **_options(form.options)))
    if not all(isinstance(each, ms.Tensor) for each in made):
        raise TypeError("results are no tensors")
    return [np.asarray(each.asnumpy()) for each in made]


def exported(function: Callable[..., Any], form: Form) -> bytes:
    """A network with the function; MindSpore reads the text of what it compiles."""
    name = next(name for name, known in functions() if known is function)
    operands = ", ".join("xyz"[: len(form.feeds)])
    given = "".join(f", {key}={value!r}" for key, value in _options(form.options).items())
    text = (
        "from mindspore import nn, ops\n\n\nclass Net(nn.Cell):\n"
        f"    def construct(self, {operands}):\n        return ops.{name}({operands}{given})\n"
    )
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"net{next(_NUMBER)}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        file = str(Path(folder) / "m")
        ms.export(module.Net(), *map(ms.Tensor, form.feeds), file_name=file, file_format="MINDIR")
        return Path(f"{file}.mindir").read_bytes()


def read(model: bytes) -> Graph:
    """What the reader makes of it."""
    return infuse.load(model)
