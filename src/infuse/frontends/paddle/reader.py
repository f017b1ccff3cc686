"""A program of Paddle → graph: inputs and outputs by name, parameters, operators in their order."""

from __future__ import annotations

from typing import Any

import infuse.frontends.paddle.operators  # noqa: F401  registers the operators
from infuse.frontends.paddle.calls import TABLE, PaddleScope
from infuse.frontends.paddle.program import (
    Program,
    all_operators,
)
from infuse.ir.graph import Graph
from infuse.tracing.importer import free_name, require_all
from infuse.tracing.layout import LayoutImporter, tidy


class PaddleReader:
    """Reads a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.g = LayoutImporter("model")
        self._scope = PaddleScope(self.g, {}, program)

    def graph(self) -> Graph:
        """The graph; UnsupportedOperatorError names all operators that are not known."""
        require_all(
            ((op.name, f"operator {op.number}") for op in all_operators(self.program.region)),
            TABLE,
            "the model",
            "export the model with other operators, or report the operator",
        )
        values = self._scope.values
        for entry in self.program.inputs:
            sizes: list[Any] = [None if size < 0 else size for size in entry.shape]
            if sizes and sizes[0] is None:
                sizes[0] = "batch"
            values[entry.reference] = self.g.input(entry.name, entry.dtype, sizes)
        self._scope.run(self.program.region)
        for name, reference in self.program.results:
            names = {*self.g.graph.output_names, *(v.name for v in self.g.graph.inputs)}
            self.g.output(free_name(name, names), self._scope.value(reference))
        tidy(self.g.graph)
        return self.g.graph
