"""Nodes that only look at the elements of their operand differently, and where an operand has to
lie so that what is seen lies where it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infuse.ir.graph import Node, Value
from infuse.lowering.tensors import Tensor
from infuse.ops.core.traits import Trait, has_trait


def chain_to(value: Value, goes_on: Callable[[Value], bool]) -> tuple[Value, list[Node]]:
    """The first value of which `value` is a view while `goes_on` says of the operand that the chain
    may begin there, and the nodes between, in order.
    """
    chain: list[Node] = []
    while (node := value.producer) is not None and _is_view(node):
        operand = node.inputs[0]
        if operand is None or operand.dtype != value.dtype or not goes_on(operand):
            break
        chain.insert(0, node)
        value = operand
    return value, chain


def _is_view(node: Node) -> bool:
    return _is_transpose(node) or has_trait(node, Trait.RESHAPE)


def _is_transpose(node: Node) -> bool:
    return node.kind == "Transpose" and node.op.domain == ""


def seen_through(chain: Sequence[Node], place: Tensor) -> Tensor | None:
    """Where the result of a chain lies whose operand lies in `place`; None where it has to be
    copied.
    """
    view: Tensor | None = place
    for node in chain:
        if view is None:
            break
        if _is_transpose(node):
            view = view.permute(_permutation(node))
        else:
            view = view.reshape(node.output.shape)
    return view


def place_before(chain: Sequence[Node], place: Tensor) -> Tensor | None:
    """Where the operand of a chain has to lie, so that its result lies in `place`; None where no
    strides say that.
    """
    before: Tensor | None = place
    for node in reversed(chain):
        operand = node.inputs[0]
        assert operand is not None
        if before is None:
            break
        if _is_transpose(node):
            perm = _permutation(node)
            before = before.permute([perm.index(axis) for axis in range(len(perm))])
        else:
            before = before.reshape(operand.shape)
    return before


def _permutation(node: Node) -> list[int]:
    return [*(node.op.attributes()["perm"] or range(node.output.rank)[::-1])]
