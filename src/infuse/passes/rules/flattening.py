"""Elementwise work between two changes of shape that undo each other is done in the shape around
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ir.types import Shape
from infuse.ops.core.base import Elementwise
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.common import RESHAPES, data, is_one, require_shape, reshapes
from infuse.rewrite import Rule, require

MOST = 64
"""Elementwise operators between two changes of shape."""


def _region(top: Value, root: Node) -> list[Node]:
    """The elementwise operators that make `top` in its own shape, each after those that it reads.

    Refusal where one of them has a reader outside.
    """
    region: dict[Node, None] = {}
    pending = [top]
    while pending:
        node = pending.pop().producer
        if node is not None and node not in region and _is_pointwise(node, top, root):
            require(len(region) < MOST, "there is much between the two")
            region[node] = None
            pending += node.operands()
    inside = {*region, root}
    for node in region:
        require(
            all(use.user in inside for use in node.output.uses),
            "something between the two is read elsewhere",
        )
    return _depth_first(top, region)[::-1]


def _depth_first(top: Value, region: dict[Node, None]) -> list[Node]:
    """The operators of a region, each before those that it reads."""
    readers = {
        node: sum(isinstance(u.user, Node) and u.user in region for u in node.output.uses)
        for node in region
    }
    pending = [node for node in region if node.output is top]
    order = []
    while pending:
        node = pending.pop()
        order.append(node)
        for value in node.operands():
            if value.producer in readers:
                readers[value.producer] -= 1
                if not readers[value.producer]:
                    pending.append(value.producer)
    return order


def _is_pointwise(node: Node, like: Value, root: Node) -> bool:
    """Whether an operator treats every element alike, gives one result of this shape and lies in
    the root's graph.
    """
    same = len(node.outputs) == 1 and node.graph is root.graph and isinstance(node.op, Elementwise)
    return same and node.output.tensor.shape == like.tensor.shape


def _bent(x: Any) -> Any:
    return x * ops.tanh(x * 0.5 + np.arange(4, dtype=np.float32))


def _cut(x: Any) -> Any:
    return ops.cast(ops.clip(x, 0.0, 2.0), to=11)


def _chosen(x: Any) -> Any:
    return ops.where(ops.greater(x, 0.0), x, np.ones((1, 1, 1), np.float32))


_BETWEEN: tuple[tuple[Callable[[Any], Any], str, tuple[int, ...], list[Any], list[Any]], ...] = (
    (ops.relu, "Reshape", (3, 8), [int64s(3, 2, 4)], []),
    (_bent, "Reshape", (6, 4), [int64s(2, 3, 4)], [int64s(6, 4)]),
    (_cut, "Reshape", (6, 4), [int64s(24)], [int64s(6, 4)]),
    (_chosen, "Reshape", (6, 4), [int64s(3, 2, 4)], [int64s(6, 4)]),
    (ops.sigmoid, "Unsqueeze", (6, 4), [int64s(1)], [int64s(1)]),
    (ops.sigmoid, "Unsqueeze", (6, 4), [int64s(0)], [int64s(6, 4)]),
    (ops.sigmoid, "Squeeze", (6, 1, 4), [int64s(1)], [int64s(1)]),
)


class ComputeInOuterShape(Rule):
    """Reshape(f(Reshape(x), c)), the outer undoing the inner → f(x, c), where f is elementwise work
    of any length
    """

    rows = ("G9", "G24")
    shares = True
    examples = tuple(
        {"x": f(Call(inner, (x, *target))), "more": more} for f, inner, x, target, more in _BETWEEN
    )

    def match(self, x: Variable, more: Variable) -> Any:
        return reshapes(x, more)

    def when(self, x: Value, root: Node) -> None:
        self._computed(x, root, lambda node, args: None)

    def build(self, x: Value, root: Node) -> Any:
        def call(node: Node, args: tuple[Any, ...]) -> Any:
            return Call(node.kind, args, node.op.attributes(), domain=node.op.domain)

        return self._computed(x, root, call)

    def _computed(self, x: Value, root: Node, call: Callable[[Node, tuple[Any, ...]], Any]) -> Any:
        """What `call` makes of each operator between the two and its operands in the outer shape;
        that of the last.
        """
        require_shape(x, root.output)
        shape = root.output.shape
        region = _region(x, root)
        require(len(region) > 0, "nothing elementwise is between the two")
        made: dict[Value, Any] = {}
        sources = 0
        for node in region:
            args = []
            for value in node.inputs:
                if value is not None and value not in made:
                    made[value] = self._outside(value, x.shape, shape)
                    sources += value.const is None
                args.append(None if value is None else made[value])
            made[node.output] = call(node, tuple(args))
        require(sources > 0, "no shape is changed before")
        return made[x]

    def _outside(self, value: Value, inner: Shape, outer: Shape) -> Any:
        """An operand of the region in the outer shape; Refusal where it has none."""
        if value.const is None:
            node = value.producer
            require(
                node is not None and node.kind in RESHAPES and not node.op.domain,
                "an operand has its own shape",
            )
            assert node is not None
            source = node.inputs[0]
            assert source is not None
            require(
                value.tensor.shape == inner and source.tensor.shape == outer,
                "the shapes before and after differ",
            )
            return source
        if value.rank <= len(outer) and value.const.size == 1:
            return value
        if value.const.size == 1:
            return data(value).reshape(())
        rows = value.rank > 0 and all(is_one(size) for size in value.shape[:-1])
        last = len(outer) > 0 and value.shape[-1] == inner[-1] == outer[-1]
        require(rows and last, "a constant varies over axes that change")
        return data(value).reshape(-1)


RULES = (ComputeInOuterShape,)
