"""The cells of recurrent layers as C++: what a step makes of the gates' sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.ir.graph import Node
from infuse.lowering.expressions import Aggregate, Expression, elements
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import row_major
from infuse.lowering.writer import FunctionWriter
from infuse.ops.recurrent_base import Activation, Recurrent
from infuse.targets.text.literals import literal

_NAMES = (
    "affine",
    "elu",
    "hardsigmoid",
    "leakyrelu",
    "relu",
    "scaledtanh",
    "sigmoid",
    "softplus",
    "softsign",
    "tanh",
    "thresholdedrelu",
)
"""As kernels/cells.hpp numbers them (`AnyFunction`)."""
_USUAL = {"sigmoid": "Sigmoid", "tanh": "Tanh"}
"""Functions of cells for which no others are named."""


class Cells:
    """The cells of a node, as a function writes them."""

    def __init__(self, low: Lowering, node: Node, f: FunctionWriter) -> None:
        assert isinstance(node.op, Recurrent)
        self.low, self.node, self.f, self.op = low, node, f, node.op
        self.dtype = node.output.dtype
        self.hidden = node.output.shape[3]
        usual = tuple(name.lower() for name in self.op.usual)
        all_names = [tuple(f.name for f in functions) for functions in self.op.functions()]
        self.is_usual = self.op.clip is None and all(names == usual for names in all_names)

    def of(self, functions: Sequence[Activation]) -> list[Aggregate]:
        """The cell of each pass, with these activations."""
        op = self.op.attributes()
        values = [self._function(a) for a in functions]
        types = [_type(v) for v in values]
        hidden = self.f.number(self.hidden)
        if self.node.kind == "RNN":
            return [self._cell("RnnCell", types, *values)]
        if self.node.kind == "GRU" and op["linear_before_reset"]:
            bias = self._of_direction(3, f"6 * {hidden}", f"5 * {hidden}")
            return [self._cell("GruLinearCell", types, *values, bias)]
        if self.node.kind == "GRU":
            gates = self._cell("GruGates", types[:1], values[0])
            return [gates, self._cell("GruState", types[1:], values[1])]
        coupled = "true" if op["input_forget"] else "false"
        peepholes = self._of_direction(7, f"3 * {hidden}", "0")
        return [self._cell("LstmCell", [coupled, *types], *values, peepholes, hidden)]

    def _cell(self, kind: str, how: Sequence[str], *fields: Expression) -> Aggregate:
        return elements(*fields, type=kind, template=(self.dtype.c_name, *how))

    def _of_direction(self, index: int, stride: str, start: str) -> str:
        """A pointer into an optional input, null where it is absent."""
        value = self.node.input(index)
        if value is None:
            return f"(const {self.dtype.c_name}*)nullptr"
        return f"{self.f.read(row_major(self.low, value))} + w.direction * {stride} + {start}"

    def _function(self, activation: Activation) -> Aggregate:
        """An activation function; what is not usual is chosen by number when it runs, so that
        functions do not differ by it.
        """
        numbers = [activation.alpha, activation.beta]
        if self.is_usual:
            return self._cell(_USUAL[activation.name], (), *map(self._literal, numbers))
        numbers.append(np.inf if self.op.clip is None else self.op.clip)
        number = str(_NAMES.index(activation.name))
        return self._cell("AnyFunction", (), number, *map(self._literal, numbers))

    def _literal(self, number: float) -> str:
        return literal(number, self.dtype)


def _type(value: Aggregate) -> str:
    """A type as C++."""
    return f"{value.type}<{', '.join(value.template)}>"
