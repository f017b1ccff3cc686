"""The elementwise work of a group as a statement inside one function of row and column."""

from __future__ import annotations

from infuse.codegen.groups import Group
from infuse.codegen.iteration_space import IterationSpace
from infuse.codegen.tensors import Tensor
from infuse.codegen.writer import FunctionWriter
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.ops.core.formula import Term
from infuse.targets.cpu.emit.elementwise import Applied, Elementwise, Place, RowStep, Source


class Epilogue:
    """Collects the fused elementwise work of a group, which a function of row and column stores in
    `target` or returns.
    """

    def __init__(
        self,
        f: FunctionWriter,
        group: Group,
        space: IterationSpace,
        tensors: dict[Value, Tensor],
        target: Tensor | None = None,
    ) -> None:
        self.f, self.group, self.space, self.tensors, self.target = f, group, space, tensors, target
        self._definitions: list[Place | Applied] = []

    def load(self, tensor: Tensor) -> Source:
        """An operand's elements at (row, col)."""
        return self._define(self._place(self.f.read(tensor, self.target), tensor))

    def apply(self, term: Term, *leaves: Source) -> Source:
        """A formula whose input leaves stand for these, in order."""
        return self._define(Applied(term, dict(enumerate(leaves))))

    def statement(self, start: Source) -> Elementwise:
        """The group's work on the anchor's result `start`."""
        result = self._result(start)
        if self.target is None:
            return Elementwise(tuple(self._definitions), result, None)
        place = self._place(self.f.write(self.target), self.target)
        assert place.column in ("", "1"), "columns are stored side by side"
        return Elementwise(tuple(self._definitions), result, place)

    def _result(self, start: Source) -> Source:
        sources: dict[Value, Source] = {}
        if self.group.anchor is not None:
            sources[self.group.anchor.output] = start
        for node in self.group.nodes:
            if node is self.group.anchor:
                continue
            for value in self.group.reads(node):
                if value not in sources:
                    sources[value] = self.load(self.tensors[value])
            operands = {i: v for i, v in enumerate(node.inputs) if v is not None and v in sources}
            leaves = {i: sources[v] for i, v in operands.items()}
            sources[node.output] = self._define(Applied(self.group.formulas[node], leaves))
        return sources[self.group.result]

    def _define(self, definition: Place | Applied) -> Source:
        self._definitions.append(definition)
        return len(self._definitions) - 1

    def _place(self, pointer: str, tensor: Tensor) -> Place:
        rows = tuple(
            RowStep(below, size, "1" if stride == 1 else self.f.number(stride))
            for below, size, stride in self.space.row_steps(tensor)
        )
        return Place(pointer, rows[::-1], self._column(tensor))

    def _column(self, tensor: Tensor) -> str:
        stride = self.space.column_stride(tensor)
        if stride is None:
            raise UnsupportedOperatorError("an operand whose columns do not merge")
        if stride == 0:
            return ""
        return "1" if stride == 1 else self.f.number(stride)
