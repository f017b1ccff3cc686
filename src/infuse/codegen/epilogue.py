"""The elementwise work of a group as C++ inside one function of row and column."""

from __future__ import annotations

from infuse.codegen.formulas import FormulaPrinter
from infuse.codegen.groups import Group
from infuse.codegen.iteration_space import IterationSpace
from infuse.codegen.tensors import Tensor
from infuse.codegen.writer import FunctionWriter
from infuse.errors import UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value


class Epilogue:
    """Prints the fused elementwise work of a group inside one row/column function, which stores it
    in `target`.
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
        self.printer = FormulaPrinter()

    def load(self, tensor: Tensor) -> str:
        """C++ text of an operand's elements at (row, col)."""
        pointer = self.f.read(tensor, self.target)
        offset = self.space.row_offset(tensor, self.f.number)
        stride = self.space.column_stride(tensor)
        if stride == 0:
            return f"splat<L>(load({pointer} + {offset}, One{{}}))"
        column = "col" if stride == 1 else self._strided_column(tensor, stride)
        return f"load({pointer} + {offset} + {column}, lanes)"

    def _strided_column(self, tensor: Tensor, stride: Dim | None) -> str:
        if stride is None:
            raise UnsupportedOperatorError("an operand whose columns do not merge")
        return f"col * {self.f.number(stride)}"

    def text(self, start: str) -> list[str]:
        """Lines that compute the group from the anchor's result `start` and store it."""
        assert self.target is not None
        result = self.result(start)
        pointer = self.f.write(self.target)
        offset = self.space.row_offset(self.target, self.f.number)
        return [*self.printer.lines, f"store({pointer} + {offset} + col, {result}, lanes);"]

    def value(self, start: str) -> list[str]:
        """Lines that compute the group from the anchor's result `start` and return it."""
        result = self.result(start)
        return [*self.printer.lines, f"return {result};"]

    def result(self, start: str) -> str:
        """The group's result as an expression; what it needs is in the printer's lines."""
        names: dict[Value, str] = {}
        if self.group.anchor is not None:
            names[self.group.anchor.output] = start
        for node in self.group.nodes:
            if node is self.group.anchor:
                continue
            for value in self.group.reads(node):
                if value not in names:
                    names[value] = self._operand(value)
            leaves = {
                i: names[v] for i, v in enumerate(node.inputs) if v is not None and v in names
            }
            names[node.output] = self.printer.print(self.group.formulas[node], leaves)
        return names[self.group.result]

    def _operand(self, value: Value) -> str:
        return self.printer.define(self.load(self.tensors[value]))
