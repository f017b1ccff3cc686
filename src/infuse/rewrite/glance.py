"""A quick look before the search: whether the kinds of what makes a node's operands, and of what
makes the operands of these, let a pattern fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

from infuse.ir.expression import Call, OneOf, Variable
from infuse.ir.graph import Node, Value
from infuse.rewrite.matcher import is_commutative

NARROW = 6
"""Operands by which nodes are told apart; of nodes with more, all patterns are tried."""
_CONSTANT: Final = -1
_END: Final = -2  # numbers, since any text may be the kind of an operator


def key_of(node: Node) -> Hashable:
    """All that a glance sees of a node."""
    key: list[Any] = [node.op.domain, node.op.name]
    for value in node.inputs:
        if value is None:
            key.append(None)
        elif value.const is not None:
            key.append(_CONSTANT)
        elif value.producer is None:
            key.append(None)
        else:
            maker = value.producer
            key += (maker.op.name, value.index)
            if len(maker.inputs) <= NARROW:
                key += map(_kind_of, maker.inputs)
                key.append(_END)
    return tuple(key)


def _kind_of(value: Value | None) -> str | int | None:
    if value is None:
        return None
    if value.const is not None:
        return _CONSTANT
    return None if value.producer is None else value.producer.op.name


def may_match(pattern: Call, node: Node) -> bool:
    """False where a pattern certainly does not fit at `node`."""
    args, inputs = pattern.args, node.inputs
    if _may_be_operands(args, inputs, True):
        return True
    swaps = len(args) == 2 == len(inputs) and is_commutative(node)
    return swaps and _may_be_operands(args, inputs[::-1], True)


def _may_be_operands(args: Sequence[Any], values: Sequence[Value | None], is_root: bool) -> bool:
    for place, arg in enumerate(args):
        if isinstance(arg, Variable) and arg.variadic:
            return True
        if not _may_be(arg, values[place] if place < len(values) else None, is_root):
            return False
    return len(values) <= len(args)


def _may_be(arg: Any, value: Value | None, is_root: bool) -> bool:
    maker = None if value is None else value.producer
    if isinstance(arg, OneOf):
        choices = arg.of_kind(None if maker is None else maker.op.name)
        return any(_may_be(choice, value, is_root) for choice in choices)
    if isinstance(arg, Call):
        if value is None or maker is None or maker.op.name != arg.kind:
            return False
        return not is_root or (value.index == arg.output and _may_make(arg, maker))
    if arg is None or (isinstance(arg, Variable) and (arg.optional or not arg.constant)):
        return True
    return value is not None and value.const is not None


def _may_make(pattern: Call, maker: Node) -> bool:
    """Whether what makes an operand may fit a pattern, with its own operands in either order."""
    args, inputs = pattern.args, maker.inputs
    if len(inputs) > NARROW or _may_be_operands(args, inputs, False):
        return True
    return len(args) == 2 == len(inputs) and _may_be_operands(args, inputs[::-1], False)
