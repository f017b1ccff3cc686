"""Loops whose bodies see the iteration number or the condition as a list of one element."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.frontends.onnx.forms import Form
from infuse.ir.graph import Graph, Node, Use, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import TensorType, Type

_TYPES = (dtypes.int64, dtypes.bool_)


def scalar_flags(form: Form) -> None:
    """Let the body of a Loop take both as scalars, as Infuse gives them, and make the lists of one
    where it reads them.

    The body's own declaration tells which they are; an undeclared condition is what the loop is
    started with.
    """
    body = form.attributes.get("body")
    if not isinstance(body, Graph) or len(body.inputs) < 2:
        return
    for index, dtype in enumerate(_TYPES):
        value = body.inputs[index]
        start = form.inputs[index] if index and index < len(form.inputs) else None
        if _rank(value.type) == 1 or (
            _rank(value.type) is None and start is not None and _rank(start.type) == 1
        ):
            _widen(body, value)
        value.type = TensorType(dtype, ())


def _rank(type: Type) -> int | None:
    return len(type.shape) if isinstance(type, TensorType) and type.shape is not None else None


def _widen(body: Graph, value: Value) -> None:
    """Give the readers of a scalar a list of it; the loop itself takes either as its condition."""
    readers = [use for use in value.uses if use != Use(body, 0)]
    if not readers:
        return
    one = Value(TensorType(value.dtype, (1,)), f"{value.name}/list")
    node = Node(
        make_operator("", "Reshape", {}),
        [value, constant(np.array([1], np.int64))],
        [one],
        name=one.name,
    )
    body.add_node(node)
    for use in readers:
        use.user.set_operand(use.index, one)
