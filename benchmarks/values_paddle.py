"""Functions of Paddle beside Paddle in eager mode, for `benchmarks.reader_values`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional

import infuse
from benchmarks.reader_values import Array, Form
from infuse.ir.graph import Graph

_SKIPPED = (
    *("rand", "save", "load", "set_", "get_", "disable", "enable", "batch", "summary", "flops"),
    *("bernoulli", "poisson", "normal", "log_normal", "uniform", "multinomial", "grad", "empty"),
    *("from_dlpack", "to_dlpack", "async", "binomial", "standard", "dropout", "alpha_dropout"),
    *("gumbel", "crop"),
    *("gcd", "lcm"),  # loops of Paddle's own, which need not end
)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of tensors and those of networks."""
    for room, prefix in ((paddle, ""), (paddle.nn.functional, "F.")):
        for name in sorted(dir(room)):
            function = getattr(room, name)
            if not callable(function) or isinstance(function, type) or name.endswith("_"):
                continue
            if not name.startswith(("_", *_SKIPPED)) and getattr(function, "__module__", ""):
                yield prefix + name, function


def _flat(made: Any) -> list[Any]:
    parts = made if isinstance(made, (list, tuple)) else [made]
    return [each for part in parts for each in (_flat(part) if part is not made else [part])]


def _options(options: dict[str, Any]) -> dict[str, Any]:
    return {"keepdim" if key == "keepdims" else key: value for key, value in options.items()}


def eager(function: Callable[..., Any], form: Form) -> list[Array]:
    """Paddle's answer."""
    paddle.disable_static()
    made = _flat(function(*map(paddle.to_tensor, form.feeds), **_options(form.options)))
    if not all(isinstance(each, paddle.Tensor) for each in made):
        raise TypeError("results are no tensors")
    return [np.asarray(each.numpy()) for each in made]


def exported(function: Callable[..., Any], form: Form) -> bytes:
    """A program with the function."""
    paddle.enable_static()
    main, start = paddle.static.Program(), paddle.static.Program()
    with (
        paddle.utils.unique_name.guard(),
        paddle.static.program_guard(main, start),
        tempfile.TemporaryDirectory() as folder,
    ):
        given = [
            paddle.static.data(f"x{i}", list(x.shape), x.dtype.name)
            for i, x in enumerate(form.feeds)
        ]
        made = _flat(function(*given, **_options(form.options)))
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(start)
        prefix = Path(folder) / "m"
        paddle.static.save_inference_model(str(prefix), given, made, executor, program=main)
        return prefix.with_suffix(".json").read_bytes()


def read(model: bytes) -> Graph:
    """What the reader makes of it; the programs have no parameters."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.json"
        path.write_bytes(model)
        return infuse.load(path)
