"""Many nodes in one graph, each with what other code makes of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ops.core.base import Rounding
from infuse.options import CompileOptions
from infuse.targets import Target
from infuse.testing.compare import difference

RNG = np.random.default_rng(5)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return np.asarray(RNG.uniform(-1, 1, shape)).astype(dtype)


@dataclass
class Several:
    """Nodes of one graph, so that one library holds them all, each with what it must give."""

    graph: Graph = field(default_factory=lambda: Graph("several"))
    feeds: dict[str, Any] = field(default_factory=dict)
    wanted: list[tuple[str, Any, Rounding]] = field(default_factory=list)

    def input(self, x: Any, symbolic: bool = False) -> Value:
        name = f"x{len(self.feeds)}"
        self.feeds[name] = x
        shape = [dims.symbol(f"{name}_{i}") for i in range(x.ndim)] if symbolic else x.shape
        return self.graph.add_input(name, TensorType(dtypes.by_numpy(x.dtype), tuple(shape)))

    def add(
        self,
        kind: str,
        inputs: Sequence[Any],
        wanted: Sequence[Any],
        accuracy: Rounding,
        *,
        domain: str = "",
        symbolic: bool = False,
        held: Sequence[int] = (),
        **attributes: Any,
    ) -> None:
        """A node whose inputs are fed but for those `held` as constants, and what its outputs must
        be.
        """
        values: list[Value | None] = [
            None if x is None else constant(x) if i in held else self.input(x, symbolic)
            for i, x in enumerate(inputs)
        ]
        outputs = [Value(UNKNOWN, f"v{len(self.graph)}_{i}") for i in range(len(wanted))]
        node = Node(
            make_operator(domain, kind, attributes),
            values,
            outputs,
            name=f"{kind}_{len(self.graph)}",
        )
        node.op.infer_node(self.graph.add_node(node))
        for value, exact in zip(outputs, wanted):
            self.graph.add_output(value, f"y{len(self.wanted)}")
            self.wanted.append((f"{node.op}", exact, accuracy))

    def check(self) -> None:
        generate(self.graph, Target.resolve("x86-64"))  # no stage of the interpreter
        with compile_graph(self.graph, CompileOptions(threads=2)) as model:
            found = model.run(self.feeds)
        wrong = [
            f"{what}: {problem}"
            for (what, exact, accuracy), actual in zip(self.wanted, found.values())
            if (problem := difference(actual, exact, accuracy))
        ]
        assert not wrong, "\n".join(wrong[:20])
