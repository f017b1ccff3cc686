"""Steps of optimizers in elementwise operators; what does not vary with the elements is computed in
float64.
"""

from __future__ import annotations

from infuse import dtypes, ops
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.domains.training import DOMAIN, Adagrad, Adam, Momentum


class _Step:
    """The rate and the number of steps as float64 scalars, and the tensors group by group."""

    def __init__(self, make: Composer, node: Node, groups: int) -> None:
        self.make = make
        rate, steps = (v for v in node.inputs[:2] if v is not None)
        self.rate, self.steps = (make.cast(make.reshape(v), dtypes.float64) for v in (rate, steps))
        self.tensors = [v for v in node.inputs[2:] if v is not None]
        self.count = len(self.tensors) // groups

    def number(self, value: float) -> Value:
        return self.make.number(value, dtypes.float64)

    def started(self, then: Value | Call, otherwise: Value | float) -> Value:
        """One number after the first step, another before."""
        other = self.number(otherwise) if isinstance(otherwise, float) else otherwise
        return self.make("Where", self.make("Greater", self.steps, 0), then, other)

    def group(self, i: int) -> list[Value]:
        return self.tensors[i :: self.count]

    def like(self, number: Value, x: Value) -> Value:
        return self.make.cast(number, x.dtype)


def _slope(x: Value, g: Value, coefficient: float) -> Call:
    return x * coefficient + g


def _in_groups(rows: list[list[Value]]) -> Results:
    return [row[k] for k in range(len(rows[0])) for row in rows]


@expands("Adagrad", domain=DOMAIN)
def adagrad(make: Composer, node: Node) -> Results:
    op = node.op
    assert isinstance(op, Adagrad)
    step = _Step(make, node, op.groups)
    rate = make(step.rate / (step.steps * op.decay_factor + 1)) if op.decay_factor else step.rate
    rows = []
    for x, g, h in map(step.group, range(step.count)):
        slope = make(_slope(x, g, op.norm_coefficient))
        squares = make(h + slope * slope)
        moved = make(x - step.like(rate, x) * slope / (ops.sqrt(squares) + op.epsilon))
        rows.append([moved, squares])
    return _in_groups(rows)


@expands("Adam", domain=DOMAIN)
def adam(make: Composer, node: Node) -> Results:
    op = node.op
    assert isinstance(op, Adam)
    step = _Step(make, node, op.groups)
    powers = [make("Pow", step.number(base), step.steps) for base in (op.alpha, op.beta)]
    rate = step.started(make(step.rate * ops.sqrt(1 - powers[1]) / (1 - powers[0])), step.rate)
    rows = []
    for x, g, v, h in map(step.group, range(step.count)):
        slope = make(_slope(x, g, op.norm_coefficient))
        mean = make(v * op.alpha + slope * (1 - op.alpha))
        square = make(h * op.beta + slope * slope * (1 - op.beta))
        moved = make(x - step.like(rate, x) * mean / (ops.sqrt(square) + op.epsilon))
        rows.append([make(moved * (1 - op.norm_coefficient_post)), mean, square])
    return _in_groups(rows)


@expands("Momentum", domain=DOMAIN)
def momentum(make: Composer, node: Node) -> Results:
    op = node.op
    assert isinstance(op, Momentum)
    step = _Step(make, node, op.groups)
    share = step.started(step.number(op.beta), 1.0)
    rows = []
    for x, g, v in map(step.group, range(step.count)):
        slope = make(_slope(x, g, op.norm_coefficient))
        total = make(v * op.alpha + slope * step.like(share, x))
        way = total if op.mode == "standard" else make(slope + total * op.alpha)
        rows.append([make(x - step.like(step.rate, x) * way), total])
    return _in_groups(rows)
