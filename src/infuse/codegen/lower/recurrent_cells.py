"""The cells of recurrent layers as C++: what a step makes of the gates' sums."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.codegen.lower.indexing import row_major
from infuse.codegen.lowering import Lowering
from infuse.codegen.writer import FunctionWriter
from infuse.ir.graph import Node
from infuse.ops.recurrent_base import Activation, Recurrent
from infuse.targets.cpu.emit.formulas import literal

_NAMES = {
    **{
        "affine": "Affine",
        "elu": "Elu",
        "hardsigmoid": "HardSigmoid",
        "leakyrelu": "LeakyRelu",
        "relu": "Relu",
    },
    **{
        "scaledtanh": "ScaledTanh",
        "sigmoid": "Sigmoid",
        "softplus": "Softplus",
        "softsign": "Softsign",
    },
    **{"tanh": "Tanh", "thresholdedrelu": "ThresholdedRelu"},
}


class Cells:
    """The cells of a node, as a function writes them."""

    def __init__(self, low: Lowering, node: Node, f: FunctionWriter) -> None:
        assert isinstance(node.op, Recurrent)
        self.low, self.node, self.f, self.op = low, node, f, node.op
        self.dtype = node.output.dtype
        self.hidden = node.output.shape[3]

    def of(self, functions: Sequence[Activation]) -> list[str]:
        """The cell of each pass, with these activations."""
        c, op = self.dtype.c_name, self.op.attributes()
        typed = [self._function(a) for a in functions]
        types, values = [t for t, _ in typed], [v for _, v in typed]
        hidden = self.f.number(self.hidden)
        if self.node.kind == "RNN":
            return [f"RnnCell<{c}, {types[0]}>{{{values[0]}}}"]
        if self.node.kind == "GRU" and op["linear_before_reset"]:
            bias = self._of_direction(3, f"6 * {hidden}", f"5 * {hidden}")
            return [f"GruLinearCell<{c}, {', '.join(types)}>{{{', '.join(values)}, {bias}}}"]
        if self.node.kind == "GRU":
            return [
                f"GruGates<{c}, {types[0]}>{{{values[0]}}}",
                f"GruState<{c}, {types[1]}>{{{values[1]}}}",
            ]
        coupled = "true" if op["input_forget"] else "false"
        peepholes = self._of_direction(7, f"3 * {hidden}", "0")
        return [
            (
                f"LstmCell<{c}, {coupled}, {', '.join(types)}>{{{', '.join(values)}, {peepholes}, "
                f"{hidden}}}"
            )
        ]

    def _of_direction(self, index: int, stride: str, start: str) -> str:
        """A pointer into an optional input, null where it is absent."""
        value = self.node.input(index)
        if value is None:
            return "nullptr"
        return f"{self.f.read(row_major(self.low, value))} + w.direction * {stride} + {start}"

    def _function(self, activation: Activation) -> tuple[str, str]:
        """The C++ type and value of an activation function."""
        c, name = self.dtype.c_name, f"{_NAMES[activation.name]}<{self.dtype.c_name}>"
        value = (
            f"{name}{{{literal(activation.alpha, self.dtype)}, "
            f"{literal(activation.beta, self.dtype)}}}"
        )
        if self.op.clip is None:
            return name, value
        clipped = f"Clipped<{c}, {name}>"
        return clipped, f"{clipped}{{{value}, {literal(self.op.clip, self.dtype)}}}"
