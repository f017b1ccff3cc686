"""A spelling of an operator: its model, and what is to be left of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto

import infuse
from infuse.ir.graph import Graph
from infuse.passes.explain import why
from infuse.passes.run import opened
from tests.spellings.written import declared, written

SIZES = {"N": 2, "S": 6, "T": 5, "H": 8, "W": 10, "P": 3}
"""What stands for sizes that only a run knows."""


@dataclass(frozen=True)
class Form:
    """How an exporter writes an operator.

    `left` are the operators that remain at `level`, in their order. `refused_by` names the rule
    that could have made the operator, and `reason` is a part of what it says.
    """

    operator: str
    exporter: str
    inputs: str
    text: str
    left: str
    level: str = "all"
    runtime: str = ""
    refused_by: str = ""
    reason: str = ""
    opset: int = 18
    constants: Mapping[str, Any] = field(default_factory=dict)
    enable: tuple[str, ...] = ()
    low: float = -2.0
    high: float = 2.0
    tolerance: float = 1e-5

    def __str__(self) -> str:
        return f"{self.operator} of {self.exporter}"

    def model(self) -> ModelProto:
        """The form as an ONNX model."""
        return written(self.inputs, self.text, self.opset, self.constants)

    def feeds(self) -> dict[str, np.ndarray]:
        """Random inputs: floats from `low` to `high`, integers from zero to two."""
        rng = np.random.default_rng(1)
        result: dict[str, np.ndarray] = {}
        for name, kind, shape in declared(self.inputs):
            sizes = [SIZES[s] if isinstance(s, str) else s for s in shape]
            if kind in ("float", "half"):
                array = rng.uniform(self.low, self.high, sizes)
                result[name] = array.astype(np.float32 if kind == "float" else np.float16)
            else:
                result[name] = rng.integers(0, 2 if kind == "bool" else 3, sizes).astype(kind)
        return result

    def optimized(self) -> Graph:
        """What Infuse makes of it, scalars that became attributes written out again."""
        graph = infuse.load(self.model().SerializeToString())
        better = infuse.optimize(
            graph, infuse.Rules(self.level, runtime=self.runtime, enable=self.enable)
        )
        return opened(better)

    def refusals(self) -> list[str]:
        """What `infuse why` says of the rule that could have made the operator."""
        graph = infuse.load(self.model().SerializeToString())
        return [str(e) for e in why(graph, self.refused_by) if not e.fires]


def forms(
    operator: str, inputs: str, left: str, *spellings: tuple[str, str], **rest: Any
) -> list[Form]:
    """A form for each pair of exporter and text, with the same inputs and the same result."""
    return [Form(operator, exporter, inputs, text, left, **rest) for exporter, text in spellings]


def operators(graph: Graph) -> str:
    """The operators of a graph, in their order."""
    return " ".join(node.kind for node in graph.nodes)
