"""A small model for a row of the graph optimizer, and texts that several contain."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse.ir.graph import Array, Graph
from infuse.ir.parser import parse

Switch = tuple[str, Callable[..., Any]]
"""A function of the project by its path, and what stands in for it where the row is switched off.
"""


@dataclass(frozen=True)
class Example:
    """A model in text form, and the operators that are left of it at some level.

    A body `%y = Relu(%x)` gets `header` and a return of `%y` around it. Weights written `$w:
    float32[3, 4]` are random. With `native` it is about the kernels: the operators that each
    computes, and how many tensors it reads.
    """

    row: str
    what: str
    body: str
    left: str
    level: str = "basic"
    header: str = "%x: float32[n, 4]"
    runtime: str = ""
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    native: bool = False
    off: tuple[Switch, ...] = field(default=())
    """What to switch off beside the rules and passes that name the row."""

    def graph(self) -> Graph:
        """The model."""
        text = re.sub(r"(\$\w+: float32\[[\d, ]*\])$", r"\1#?", self.body.strip(), flags=re.M)
        whole = f'graph "row" ({self.header}) {{\n{text}\nreturn y = %y\n}}'
        return parse(whole, weights(whole))

    def __str__(self) -> str:
        return f"{self.row}: {self.what}"


def weights(text: str) -> dict[str, Array]:
    """Random numbers, far from zero, for the constants that a text only names."""
    rng = np.random.default_rng(0)
    found = re.findall(r"\$(\w+): float32\[([\d, ]*)\]#\?", text)
    return {
        name: _random(rng, [int(n) for n in shape.split(",") if n.strip()]) for name, shape in found
    }


def _random(rng: np.random.Generator, shape: list[int]) -> Array:
    return np.asarray(rng.uniform(0.5, 1.5, shape)).astype(np.float32)


IMAGE = "%x: float32[n, 4, 6, 6]"
CONV = "$w: float32[4, 4, 3, 3]\n%c = Conv(%x, $w)\n"
STATISTICS = "$s: float32[4]\n$h: float32[4]\n$m: float32[4]\n$v: float32[4]\n"
MATRIX = "$w: float32[4, 5]\n%p = MatMul(%x, $w)\n"
APART: Switch = ("infuse.lowering.kernel_table.KernelTable.has_epilogue", lambda table, node: False)
"""Native code with one kernel for each operator."""
