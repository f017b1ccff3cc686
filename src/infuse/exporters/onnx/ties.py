"""Weights that the optimizer sees in two orders of axes are stored once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from infuse.ir.graph import Array, Graph, Node, Value
from infuse.ir.registry import make_operator

SMALLEST: Final = 1 << 16
"""Bytes from which on a weight is not stored a second time."""


def keep_ties(graph: Graph) -> None:
    """Let a constant that shows another one with its axes in another order be made from that by a
    Transpose.

    A file would hold the elements of both. Networks that read words and write words have one such
    table for the two.
    """
    constants = [v for v in _constants(graph) if v.const is not None and v.const.nbytes >= SMALLEST]
    stored = {
        _place(v.const): v for v in constants if v.const is not None and v.const.flags.c_contiguous
    }
    for value in constants:
        assert value.const is not None
        other = stored.get(_place(value.const))
        if other is None or other.const is None or value.const.flags.c_contiguous:
            continue
        perm = _order(other.const, value.const)
        if perm is not None:
            made = Value(value.type, value.name)
            op = make_operator("", "Transpose", {"perm": perm})
            graph.add_node(Node(op, [other], [made], name=f"{value.name}/Transpose"))
            value.replace_by(made)


def _constants(graph: Graph) -> Iterable[Value]:
    """The constants that the graph and its bodies read, each once."""
    read = (
        v for inner in graph.all_graphs() for node in inner.unordered_nodes for v in node.operands()
    )
    return dict.fromkeys(v for v in read if v.is_const)


def _place(array: Array) -> tuple[int, int, str]:
    """Where the elements lie."""
    return array.__array_interface__["data"][0], array.size, array.dtype.str


def _order(stored: Array, shown: Array) -> tuple[int, ...] | None:
    """The order of axes in which `shown` shows the elements of `stored`, None where it does not."""
    left = list(range(stored.ndim))
    order = []
    for size, step in zip(shown.shape, shown.strides):
        axis = next((a for a in left if (stored.shape[a], stored.strides[a]) == (size, step)), None)
        if axis is None:
            return None
        left.remove(axis)
        order.append(axis)
    return tuple(order) if not left else None
