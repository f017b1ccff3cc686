"""Products that Einsum spells."""

from __future__ import annotations

from typing import Any

from infuse import ops
from infuse.ir.expression import Variable
from infuse.ir.graph import Node, Value
from infuse.passes.rules.common import (
    attribute,
    require_shape,
)
from infuse.rewrite import Rule, require


class EinsumAsMatMul(Rule):
    """Einsum of two operands that is a product of matrices, up to the order of axes → MatMul"""

    rows = ("G24",)
    rounding = "sums run in another order"

    def match(self, x: Variable, y: Variable) -> Any:
        return ops.einsum(x, y)

    def when(self, x: Value, y: Value, root: Node) -> None:
        require_shape(x, y)
        self._plan(root)

    def build(self, x: Value, y: Value, root: Node) -> Any:
        left, right, made, target = self._plan(root)
        a, b = _labels(root)[:2]
        product = ops.matmul(_ordered(x, a, left), _ordered(y, b, right))
        return _ordered(product, made, target)

    def _plan(self, root: Node) -> tuple[str, str, str, str]:
        """Orders of the labels of both operands, of their product, and of the result."""
        parts = _labels(root)
        require(len(parts) == 3 and "." not in "".join(parts), "the equation is not written out")
        a, b, out = parts
        require(all(len(set(p)) == len(p) for p in parts), "a label comes twice in one operand")
        batch = [c for c in out if c in a and c in b]
        summed = [c for c in a if c in b and c not in out]
        rows, columns = ([c for c in p if c not in other] for p, other in ((a, b), (b, a)))
        require(set(rows + columns) <= set(out), "it sums over one operand alone")
        # Batches of rows meet one matrix.
        many = not batch and len(rows) > 1
        require(
            len(summed) == 1 and (many or len(rows) == 1) and len(columns) == 1,
            "it is not a product of matrices",
        )
        shapes = dict(zip(a, root.inputs[0].shape)), dict(zip(b, root.inputs[1].shape))  # type: ignore[union-attr]
        require(all(shapes[0][c] == shapes[1][c] for c in batch + summed), "an axis is broadcast")
        lead, own = "".join(batch), "".join(rows)
        return (
            lead + own + summed[0],
            lead + summed[0] + columns[0],
            lead + own + columns[0],
            out,
        )


def _labels(einsum: Node) -> list[str]:
    """Labels of the operands and of the result."""
    equation: str = attribute(einsum, "equation")
    return equation.replace(" ", "").replace("->", ",").split(",")


def _ordered(x: Any, labels: str, target: str) -> Any:
    return x if labels == target else ops.transpose(x, perm=tuple(labels.index(c) for c in target))


RULES = (EinsumAsMatMul,)
