"""How much arithmetic one application of an operator does, from the shapes of its operands and
results.

Counted are multiplications with accumulation (MACs, two operations each) and other operations:
additions, products, comparisons and functions of one element, each as one, whatever their type.
Integers count as floats do. Moving, converting and making elements is no arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from infuse.dtypes import DType
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.types import Shape
from infuse.ops.core.formula import Term

SOFTMAX = 5
"""Operations on each element of a softmax: largest, difference, exponential, sum, quotient."""
QUANTIZE, DEQUANTIZE = 4, 2
"""Operations on an element: a quotient, rounding, a summand, limits; a difference and a factor."""
_WEIGHTS = {"input": 0, "const": 0, "cast": 0, "sigmoid": 4, "softplus": 3}
"""Operations of a function in a formula, where that is not one: a sigmoid is a negation,
exponential, sum, quotient.
"""


class Flops(NamedTuple):
    """MACs, and operations that are not part of one."""

    macs: Dim = 0
    others: Dim = 0


class Shapes(Immutable):
    """Shapes and element types of one application: of operands (None: absent) and results. Sizes
    may be symbolic.
    """

    inputs: Sequence[Shape | None]
    outputs: Sequence[Shape]
    types: Sequence[DType | None]
    """Element types of the operands."""

    def has(self, index: int) -> bool:
        """Whether this operand is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def input(self, index: int) -> Shape:
        """The shape of an operand that is there."""
        operand = self.inputs[index]
        assert operand is not None
        return operand

    def size(self, index: int) -> Dim:
        """Elements of an operand that is there."""
        return dims.product(self.input(index))

    @property
    def made(self) -> Dim:
        """Elements of the first result."""
        return dims.product(self.outputs[0])


def weight(term: Term) -> int:
    """Operations in a formula; what occurs twice is computed once."""
    seen: set[Term] = set()
    pending = [term]
    while pending:
        each = pending.pop()
        if each not in seen:
            seen.add(each)
            pending.extend(each.args)
    return sum(_WEIGHTS.get(each.op, 1) for each in seen)
