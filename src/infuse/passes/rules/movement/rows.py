"""The work between two changes of shape, done in another shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np

from infuse import ops
from infuse.immutable import replace
from infuse.ir import dims
from infuse.ir.graph import Array, Node, Value
from infuse.ir.types import Shape
from infuse.ops.core.axes import Order
from infuse.passes.rules.common import (
    RESHAPES,
    data,
    require_shape,
    reshape_target,
)
from infuse.passes.rules.movement.exchange import between, require_axes, with_axes
from infuse.rewrite import Refusal, require

FRESH = 1 << 16
"""Number of the first axis that an operator had not."""


class Rows:
    """The work between two changes of shape done in the shape of the second.

    `gain`: how many nodes fewer that is, the last change of shape included.
    """

    def __init__(self, top: Value, root: Node, *, anywhere: bool) -> None:
        """`anywhere`: other values than results of Reshape may be given the shape too, and matrix
        products become those of more or fewer axes.
        """
        require_shape(top, root.output)
        self.root, self.anywhere = root, anywhere
        self.region = tuple(between(top, root, _is_reshape))
        self.gain = 1
        self.products = 0
        self._covered: set[Node] = set()
        self._reshapes: dict[Node, None] = {}
        self._made: dict[tuple[Value, Shape], Any] = {}
        operands = [x for node in self.region for x in node.operands()]
        require(any(_is_reshape(x.producer) for x in operands), "there is one change of shape")
        self.result = self._operator(top, root.output.shape)
        inside = {*self._covered, root}
        alone = all({u.user for u in n.output.uses} <= inside for n in self._covered)
        require(alone, "something between the two is read elsewhere")

    @property
    def nodes(self) -> list[Node]:
        """What is between, each before those that it reads, and the changes of shape that go."""
        return [*(n for n in reversed(self.region) if n in self._covered), *self._reshapes]

    def _value(self, value: Value, shape: Shape) -> Any:
        """A value in another shape."""
        if (value, shape) not in self._made:
            self._made[value, shape] = self._new_value(value, shape)
        return self._made[value, shape]

    def _new_value(self, value: Value, shape: Shape) -> Any:
        if value.producer in self.region:
            state = self.gain, self.products, set(self._covered), dict(self._made)
            reshapes = dict(self._reshapes)
            try:
                return self._operator(value, shape)
            except Refusal:
                if not self.anywhere:
                    raise
                self.gain, self.products, self._covered, self._made = state
                self._reshapes = reshapes
        node = value.producer
        source = value
        if _is_reshape(node):
            assert node.inputs[0] is not None
            source = node.inputs[0]
            require_shape(source)
            if len(value.uses) == 1:
                self.gain += 1
                self._reshapes[node] = None
        require(source is not value or self.anywhere, "an operand has its own shape")
        if source.shape == shape:
            return source
        require(dims.product(source.shape) == dims.product(shape), "there are no columns")
        self.gain -= 1
        return ops.reshape(source, reshape_target(source.shape, shape))

    def _operator(self, value: Value, shape: Shape) -> Any:
        """The operator that makes a value, on operands in other shapes that give it this one."""
        node = value.producer
        assert node is not None
        axes, before = require_axes(node), value.shape
        equal = _common_end(before, shape)
        rows, after = axes.result[: len(before) - equal], shape[: len(shape) - equal]
        require(not axes.mixed & set(rows), "the columns are arranged anew")
        scalar = bool(after) and not rows
        require(not scalar or not any(axes.operands), "a number has no rows")
        fresh = tuple(range(FRESH, FRESH + len(after)))
        args: list[Any] = []
        orders: list[Order | None] = []
        self._covered.add(node)
        for x, order in zip(node.inputs, axes.operands):
            rest = None if order is None else tuple(n for n in order if n not in rows)
            if x is None or order is None or rest is None or (rest == order and not scalar):
                args.append(x)
            elif x.is_const:
                args.append(_of_columns(x, order, rest))
            else:
                fits = order[: len(rows)] == rows and x.shape[: len(rows)] == before[: len(rows)]
                require(fits, "an operand has its own shape")
                args.append(self._value(x, (*after, *x.shape[len(rows) :])))
                rest = (*fresh, *rest)
            orders.append(rest)
        carried = any(order is not None and fresh == order[: len(fresh)] for order in orders)
        require(carried, "only constants have rows")
        result = (*fresh, *axes.result[len(rows) :])
        call = with_axes(node, args, replace(axes, operands=tuple(orders), result=result))
        if node.kind == "Gemm" and call.kind != "Gemm":
            require(self.anywhere, "a matrix is needed")
            self.gain -= call.kind == "Add"
        self.products += node.kind == "Gemm"
        return call


def _common_end(before: Shape, after: Shape) -> int:
    """How many axes at the end two shapes share, without all of the shorter first."""
    same = [a == b for a, b in zip(before[::-1], after[::-1])]
    equal = same.index(False) if False in same else len(same)
    return equal - (equal == len(before) < len(after) and equal > 0)


def _is_reshape(node: Node | None) -> TypeGuard[Node]:
    return node is not None and node.kind in RESHAPES and not node.op.domain


def _of_columns(x: Value, order: Order, columns: Iterable[int]) -> Array:
    """A constant without the axes of rows, over which it must not vary."""
    array = data(x)
    sizes = dict(zip(order, array.shape))
    shape = [sizes[n] for n in columns]
    require(array.size == np.prod(shape), "a constant varies over axes that change")
    return array.reshape(shape)
