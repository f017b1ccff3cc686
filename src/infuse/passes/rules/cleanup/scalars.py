"""Scalar constants as attributes of one operator, and weighted sums; and back.

The ones that make attributes run last of all, when nothing is looked for any more that they could
hide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.scalars import WITH_SCALAR, WeightedSum, WithScalar
from infuse.passes.rules.common import attribute, number, require_float, require_same_type
from infuse.rewrite import Rule, require

DOMAIN = "infuse"


class WriteOutScalar(Rule):
    """MulScalar(x, value=c) → x · c, and so on, as other rules look for it"""

    rows = ("G3",)
    examples = ({"x": (3, 4), "root": {"value": 0.75}},)

    def match(self, x: Variable) -> Any:
        return [Call(op.name, (x,), domain=DOMAIN) for op in WITH_SCALAR]

    def build(self, x: Value, root: Node) -> Any:
        assert isinstance(root.op, WithScalar)
        return root.op.written_out(x, x.dtype)


class WriteOutWeightedSum(Rule):
    """WeightedSum(x, y, alpha=a, beta=b) → a · x + b · y, as other rules look for it"""

    rows = ("G30",)
    rounding = "each product is rounded"
    examples = ({"x": (3, 4), "y": (3, 4), "root": {"alpha": 0.75, "beta": -0.5}},)

    def match(self, x: Variable, y: Variable) -> Any:
        return Call("WeightedSum", (x, y), domain=DOMAIN)

    def build(self, x: Value, y: Value, root: Node) -> Any:
        assert isinstance(root.op, WeightedSum)
        return root.op.written_out(x, y, x.dtype)


class ScalarAsAttribute(Rule):
    """x · c → MulScalar(x, value=c) for a number c; so are sums, differences, quotients and
    powers
    """

    level = "all"
    closing = True
    rows = ("G3",)
    examples = ({"x": (3, 4), "c": np.float32(0.7)},)

    def match(self, x: Variable, c: Variable) -> Any:
        c = Variable(c.name, constant=True)
        written = [Call(op.operator, (c, x) if op.is_reversed else (x, c)) for op in WITH_SCALAR]
        return [*written, Call("Sub", (x, c), label="difference")]

    def when(self, x: Value, c: Value, root: Node) -> None:
        require_float(x)
        require_same_type(x, root, "the constant stretches the shape")
        value = number(c)
        require(np.isfinite(value), "the constant is not a finite number")
        require(value != 0 or not np.signbit(value), "an attribute does not keep the sign of zero")
        with np.errstate(over="ignore"):
            held = float(np.asarray(value).astype(x.dtype.numpy))
        require(held == value, f"{x.dtype} does not hold the constant")

    def build(self, x: Value, c: Value, root: Node, difference: Node | None = None) -> Any:
        value = number(c)
        if difference is not None:
            return Call("AddScalar", (x,), {"value": 0.0 - value}, domain=DOMAIN)
        kinds = {(op.operator, op.is_reversed): op.name for op in WITH_SCALAR}
        kind = kinds.get((root.kind, root.inputs[0] is c)) or kinds[root.kind, False]
        return Call(kind, (x,), {"value": value}, domain=DOMAIN)


class FuseWeightedSum(Rule):
    """MulScalar(x, value=a) + MulScalar(y, value=b) → WeightedSum(x, y, alpha=a, beta=b), also
    with one of the factors, and differences
    """

    level = "all"
    closing = True
    rows = ("G30",)
    rounding = "one operator, rounded once"
    examples = ({"x": (3, 4), "y": (3, 4), "first": {"value": 0.3}, "second": {"value": 0.7}},)

    def match(self, x: Variable, y: Variable) -> Any:
        first = Call("MulScalar", (x,), domain=DOMAIN, label="first")
        second = Call("MulScalar", (y,), domain=DOMAIN, label="second")
        return [
            first + second,
            first + y,
            *(Call("Sub", pair) for pair in ((first, second), (first, y), (x, second))),
        ]

    def when(self, x: Value, y: Value, second: Node | None = None) -> None:
        require(x.dtype.bits >= 32, f"{x.dtype} rounds each product")
        require(x.const is None and y.const is None, "an operand is a constant")
        require(second is None or attribute(second, "value") != 0, "a factor is zero")

    def build(
        self, x: Value, y: Value, root: Node, first: Node | None = None, second: Node | None = None
    ) -> Any:
        alpha, beta = (
            1.0 if node is None else attribute(node, "value") for node in (first, second)
        )
        weights = {"alpha": alpha, "beta": -beta if root.kind == "Sub" else beta}
        return Call("WeightedSum", (x, y), weights, domain=DOMAIN)


RULES = (WriteOutScalar, WriteOutWeightedSum, ScalarAsAttribute, FuseWeightedSum)
