"""Calls of torch's operators on special values: what `benchmarks.torch_operators --special`
compares in place of the samples of torch's own tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch.testing._internal.opinfo.core import (
    BinaryUfuncInfo,
    OpInfo,
    ReductionOpInfo,
    UnaryUfuncInfo,
)

from benchmarks.torch_calls import Call, calls_of

FLOATS: Final = (
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5),
    *(1e-40, -1e-40, 100.0, -100.0, 3.4e38, 1e-30, 3.0, -7.0),
)
DIVISIONS: Final = ("div", "floor_divide", "remainder", "fmod", "true_divide")
FAULTY: Final = ("gcd", "lcm")
"""Those that may end the process of torch."""


def values(dtype: torch.dtype) -> torch.Tensor:
    """NaN, zeros of both signs, infinities, subnormals, halves; the limits of integers."""
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_floating_point:
        return torch.tensor(FLOATS, dtype=dtype)
    info = torch.iinfo(dtype)
    signed = {info.min, info.min + 1, -1, -2, -7} if info.min else set()
    whole = {0, 1, 2, 3, 5, 7, 8, info.max - 1, info.max} | signed
    return torch.tensor(sorted(whole), dtype=dtype)


def arguments(op: OpInfo, dtype: torch.dtype) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Positional arguments and those by name; none of an operator of another kind."""
    x = values(dtype)
    if isinstance(op, UnaryUfuncInfo):
        yield (x,), {}
    elif isinstance(op, BinaryUfuncInfo):
        a, b = _pairs(op.name, x)
        yield (a, b), {}
        if op.name == "div":
            yield (a, b), {"rounding_mode": "floor"}
            yield (a, b), {"rounding_mode": "trunc"}
    elif isinstance(op, ReductionOpInfo):
        rows = torch.stack([x, x.roll(1), x.flip(0)])
        last = rows[:, -1:].clone()
        for shaped in (rows, last, rows[:0].clone(), rows[:, :0].clone(), x[:1].clone(), x[0]):
            for options in ({}, {"dim": 0}, {"dim": -1, "keepdim": True}):
                yield (shaped,), options


def _pairs(name: str, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of values, without those for which torch raises an error or ends the process."""
    a, b = (grid.reshape(-1).clone() for grid in torch.meshgrid(x, x, indexing="ij"))
    if x.dtype.is_floating_point or x.dtype == torch.bool:
        return a, b
    keep = b != 0 if name in DIVISIONS else b >= 0 if name == "pow" else torch.full_like(b, 1) > 0
    least = torch.iinfo(x.dtype).min
    if name in DIVISIONS and least:
        keep = keep & ~((b == -1) & (a == least))
    return a[keep], b[keep]


def special_calls(operators: Sequence[OpInfo], dtypes: Sequence[torch.dtype]) -> Iterator[Call]:
    """Calls of elementwise operators and of reductions."""
    called = set(FAULTY)
    for op in operators:
        if op.name in called:  # variants differ in samples alone
            continue
        called.add(op.name)
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            for args, options in arguments(op, dtype):
                try:
                    calls = calls_of(op.get_op(), args, options)
                except Exception:  # whatever torch raises: it has no answer for these
                    continue
                yield from calls
