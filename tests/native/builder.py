"""Small graphs in a line or two each."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.build.staged import generate
from infuse.dtypes import DType
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, tensor
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.targets import Target


class Builder:
    """A graph in the making; arrays and numbers among the operands become constants."""

    def __init__(self, name: str = "g", seed: int = 0) -> None:
        self.graph = Graph(name)
        self.rng = np.random.default_rng(seed)

    def input(self, *shape: Dim | str, dtype: DType = dtypes.float32, name: str = "") -> Value:
        return self.graph.add_input(name or f"x{len(self.graph.inputs)}", tensor(dtype, *shape))

    def weight(self, *shape: int) -> Value:
        return constant(self.rng.uniform(-1, 1, shape).astype(np.float32))

    def blocks(self, k: int, n: int, filled: int, dtype: DType = dtypes.float32) -> Value:
        """A matrix of which so many blocks of 4 rows of 16 columns are not zero, and the others
        are.
        """
        mask = np.zeros((k // 4, n // 16), bool)
        mask.reshape(-1)[self.rng.choice(mask.size, filled, replace=False)] = True
        whole = np.repeat(np.repeat(mask, 4, axis=0), 16, axis=1)
        numbers = self.rng.uniform(1, 100, (k, n)) * self.rng.choice((-1, 1), (k, n))
        scale = 1 if dtype.is_integer else 0.01
        return constant((numbers * scale * whole).astype(dtype.numpy))

    def several(self, count: int, kind: str, *operands: Any, **attributes: Any) -> list[Value]:
        dtype = next(
            (v.dtype for v in operands if isinstance(v, Value) and not v.dtype.is_bool),
            dtypes.float32,
        )
        inputs = [
            v if v is None or isinstance(v, Value) else self._constant(v, dtype) for v in operands
        ]
        outputs = [Value(UNKNOWN, f"v{len(self.graph)}_{i}") for i in range(count)]
        node = Node(
            make_operator("", kind, attributes), inputs, outputs, name=f"{kind}_{len(self.graph)}"
        )
        node.op.infer_node(self.graph.add_node(node))
        return outputs

    def __call__(self, kind: str, *operands: Any, **attributes: Any) -> Value:
        return self.several(1, kind, *operands, **attributes)[0]

    def _constant(self, value: Any, dtype: DType) -> Value:
        if isinstance(value, (list, tuple)):
            return constant(np.array(value, np.int64))
        return (
            constant(value)
            if isinstance(value, np.ndarray)
            else constant(np.asarray(value), dtype=dtype)
        )

    def output(self, *values: Value) -> None:
        for value in values:
            self.graph.add_output(value, f"y{len(self.graph.outputs)}")

    def feeds(
        self, sizes: Mapping[str, int] | None = None, low: float = -2, high: float = 2
    ) -> dict[str, Any]:
        """Random inputs, their symbols replaced by `sizes`."""
        return {v.name: self._draw(v, sizes or {}, low, high) for v in self.graph.inputs}

    def _draw(self, value: Value, sizes: Mapping[str, int], low: float, high: float) -> Any:
        shape = value.tensor.substitute(sizes).shape
        assert shape is not None
        numbers = self.rng.uniform(low, high, [int(d) for d in shape if isinstance(d, int)])
        return numbers > 0 if value.dtype.is_bool else numbers.astype(value.dtype.numpy)


def assert_plan_is_safe(program: Program, plan: Plan) -> None:
    """No two tensors that are needed at the same time overlap, but those that a step may work on in
    place.
    """
    assert plan.offsets is not None
    place = {
        id(b): (o, o + int(b.bytes))
        for b, o in zip(plan.buffers, plan.offsets)
        if isinstance(b.bytes, int)
    }
    assert all(end <= plan.total for _, end in place.values())
    spans = _spans(program)
    for number, step in enumerate(program.steps):
        live = [
            b
            for b in program.buffers
            if id(b) in spans and spans[id(b)][0] <= number <= spans[id(b)][1]
        ]
        pairs = {(id(w), id(r)) for w, r in step.in_place}
        for i, one in enumerate(live):
            for other in live[:i]:
                together = (id(one), id(other)) in pairs or (id(other), id(one)) in pairs
                assert together or not _overlap(place[id(one.root())], place[id(other.root())]), (
                    step.label
                )


def _spans(program: Program) -> dict[int, tuple[int, int]]:
    """First and last step of every buffer, read off the steps."""
    spans: dict[int, tuple[int, int]] = {}
    for number, step in enumerate(program.steps):
        for buffer in (*step.reads, *step.writes):
            if buffer.kind == "arena":
                spans[id(buffer)] = (spans.get(id(buffer), (number, 0))[0], number)
    return spans


def _overlap(a: Sequence[int], b: Sequence[int]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[0] < a[1] and b[0] < b[1]


__all__ = ["Builder", "assert_plan_is_safe"]


NATIVE = Target.resolve("native")


def planned(graph: Graph) -> tuple[Program, Plan]:
    """The graph generated for this machine, and its memory plan, which is safe."""
    program, memory = generate(graph, NATIVE)
    assert_plan_is_safe(program, memory)
    return program, memory
