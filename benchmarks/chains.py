"""Models of two to six nodes: what chains of operators are built with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, ValueInfoProto, helper, numpy_helper

from benchmarks.operator_cases import OPSET, Array, Case, floats

SMALL = 0.2
"""Weights are below this, so that sums of many products stay near one."""


@dataclass
class Chain:
    """A graph under construction. Values are names; `shape` says what one has."""

    feeds: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    nodes: list[NodeProto] = field(default_factory=list)
    _shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def input(self, *shape: int) -> str:
        """A further input of random numbers."""
        name = f"x{len(self.feeds)}"
        self.feeds[name] = floats(*shape, seed=len(self.feeds))
        return name

    def constant(self, value: Array | Sequence[int] | int) -> str:
        """A constant; of integers, an int64."""
        array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def weights(self, *shape: int) -> str:
        """A constant of small random numbers."""
        return self.constant(floats(*shape, seed=7 + len(self.constants)) * np.float32(SMALL))

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """All results of a further node."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The only result of a further node."""
        return self.add(kind, *inputs, **attributes)[0]

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of a value, by ONNX's inference."""
        if name in self.feeds:
            return self.feeds[name].shape
        if name not in self._shapes:
            inferred = onnx.shape_inference.infer_shapes(
                self.model("shapes", [name]), data_prop=True, strict_mode=True
            )
            for value in [*inferred.graph.value_info, *inferred.graph.output]:
                sizes = value.type.tensor_type.shape.dim
                self._shapes[value.name] = tuple(d.dim_value for d in sizes)
        return self._shapes[name]

    def model(self, name: str, outputs: Sequence[str]) -> onnx.ModelProto:
        """What was built, with these outputs."""
        typed = [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for k, x in self.feeds.items()
        ]
        graph = helper.make_graph(
            self.nodes,
            name,
            typed,
            [ValueInfoProto(name=each) for each in outputs],
            [numpy_helper.from_array(x, k) for k, x in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def case(self, operator: str, label: str, outputs: Sequence[str]) -> Case:
        """The model as a case."""
        return Case(operator, label, self.model("chain", outputs), self.feeds)


Producer = Callable[[Chain, tuple[int, ...]], str]
"""Adds an input of a shape and an operator that reads it."""
View = Callable[[Chain, str], str | list[str] | None]
"""Adds what moves elements; None where the value does not suit."""


def chained(
    producers: Mapping[str, Producer],
    views: Mapping[str, View],
    consumers: Mapping[str, View],
    names: tuple[str, str, str],
    shape: tuple[int, ...],
) -> Case | None:
    """The case of a producer, a view and a consumer by name; None where they do not suit."""
    chain = Chain()
    producer, view, consumer = names
    value = producers[producer](chain, shape)
    moved = views[view](chain, value)
    if moved is None:
        return None
    parts = [moved] if isinstance(moved, str) else moved
    results: list[str] = []
    for part in parts:
        result = consumers[consumer](chain, part)
        if result is None:
            return None
        results += [result] if isinstance(result, str) else result
    sizes = "×".join(map(str, shape))
    return chain.case(f"{producer}, {view}", f"{consumer}; {sizes}", results)
