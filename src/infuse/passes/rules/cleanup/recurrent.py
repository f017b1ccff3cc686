"""Inputs of recurrent layers that change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import ops
from infuse.ir.contents import known_ints
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.traits import Trait, has_trait
from infuse.passes.rules.common import attribute
from infuse.rewrite import Rule, require

_LENGTHS, _STATES = 1, (2, 3)
"""Where lengths and initial states stand after the weights."""
_CELLS = {"RNN": 1, "GRU": 3, "LSTM": 4}


class RemoveIdleStates(Rule):
    """LSTM, GRU or RNN with initial states of zeros, or with full lengths → the same without"""

    rows = ("G5",)
    examples = tuple(
        {
            "x": (3, 2, 5),
            "w": (1, gates * 4, 5),
            "r": (1, gates * 4, 4),
            "more": [(1, gates * 8), np.array([3, 3], np.int32), np.zeros((1, 2, 4), np.float32)],
        }
        for gates in _CELLS.values()
    )

    def match(self, x: Variable, w: Variable, r: Variable, more: Variable) -> Any:
        return [Call(kind, (x, w, r, ops.rest(more))) for kind in _CELLS]

    def when(self, x: Value, more: tuple[Value | None, ...], root: Node) -> None:
        require(_kept(x, more, root) != more, "its states and lengths matter, or are absent")

    def build(
        self, x: Value, w: Value, r: Value, more: tuple[Value | None, ...], root: Node
    ) -> Any:
        operands = list(_kept(x, more, root))
        while operands and operands[-1] is None:
            operands.pop()
        made = Call(root.kind, (x, w, r, *operands), dict(root.op.attributes()))
        return tuple(made[i] for i in range(len(root.outputs)))


def _kept(x: Value, more: tuple[Value | None, ...], root: Node) -> tuple[Value | None, ...]:
    """The inputs after the weights, idle ones absent."""
    time = x.shape[attribute(root, "layout")] if x.tensor.shape is not None else None

    def is_idle(place: int, value: Value | None) -> bool:
        if value is None:
            return False
        if place == _LENGTHS:
            numbers = known_ints(value)
            return numbers is not None and isinstance(time, int) and all(n == time for n in numbers)
        return place in _STATES and _is_zero(value)

    return tuple(None if is_idle(i, value) else value for i, value in enumerate(more))


def _is_zero(value: Value) -> bool:
    """Whether all elements are known to be zeros, not negative ones; also those that came from
    other places.
    """
    maker = value.producer
    if value.const is not None:
        return not value.const.any() and not np.signbit(value.const).any()
    if maker is not None and has_trait(maker, Trait.MOVEMENT) and maker.inputs[0] is not None:
        return _is_zero(maker.inputs[0])
    if maker is not None and maker.op.domain == "" and maker.kind == "ConstantOfShape":
        fill = attribute(maker, "value")
        return fill is None or (not np.any(fill) and not np.signbit(fill).any())
    return False


RULES = (RemoveIdleStates,)
