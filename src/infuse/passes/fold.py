"""Constant folding: a node whose inputs are all known becomes constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.errors import InfuseError
from infuse.ir.graph import Array, Node, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.core.base import Op, kinds_with
from infuse.ops.core.evaluate import evaluate_node
from infuse.ops.core.traits import Trait

GROWTH_LIMIT = 1 << 20
"""Bytes by which a folded result may be larger than what it is made of: folding must not blow up
the file.
"""
GROWTH_FACTOR = 4
"""How many times as large it may be in any case: weights stored in fewer bits are widened once, not
at every run.
"""
TOTAL = 16
"""How many times the limit all results together may add: many small ones blow up a file, too."""
VIEWS = frozenset({"Transpose", "Identity", *kinds_with(Trait.RESHAPE)})
"""Operators whose results share the bytes of their operand."""
KEPT = frozenset({"DequantizeLinear"})
"""Operators whose constants stay as they are: runtimes look for them, to compute with few bits."""


class Folder:
    """Evaluates nodes at compile time; `limit` bounds the growth of the constants, `skipped` tells
    what stayed.

    What a node reads alone goes when it is folded; what others read, too, stays beside the result.
    """

    def __init__(self, limit: int = GROWTH_LIMIT) -> None:
        self.limit = limit
        self.skipped: dict[Node, str] = {}
        self.added = 0
        """Bytes by which all constants together have grown."""

    def __call__(self, node: Node) -> Sequence[Value] | None:
        """Constants for the outputs of `node`, None where it stays."""
        op = node.op
        if not isinstance(op, Op) or not op.deterministic or node.subgraphs or not node.outputs:
            return None
        constants = _from_content(node)
        if constants is not None:
            return constants
        for value in node.inputs:
            if value is not None and value.const is None:
                return None
        if node in self.skipped or op.name in KEPT:
            return None
        if not all(isinstance(v.type, TensorType) for v in node.outputs) or self._grows(node):
            return None
        try:
            results = evaluate_node(node, [None if v is None else v.const for v in node.inputs])
        except InfuseError as error:
            if isinstance(
                error.__cause__, MemoryError
            ):  # a model that is too large, not one that is wrong
                raise error.__cause__ from None
            self.skipped[node] = str(error)
            return None
        self.added += _growth(node)
        return [_constant(array, value) for array, value in zip(results, node.outputs)]

    def notes(self) -> list[str]:
        """What could have been folded and was not, and why."""
        return [
            f"{node.name or node.kind} is not folded: {why}"
            for node, why in self.skipped.items()
            if node.graph
        ]

    def _grows(self, node: Node) -> bool:
        growth, freed = _growth(node), _freed(node)
        if growth <= 0 or growth + freed <= GROWTH_FACTOR * freed:
            return False
        if growth <= self.limit and self.added + growth <= TOTAL * self.limit:
            return False
        before = sum(v.const.nbytes for v in dict.fromkeys(node.operands()) if v.const is not None)
        others = f", {before - freed} of which others read" if freed < before else ""
        total = f"; {self.added} bytes were added before" if growth <= self.limit else ""
        self.skipped[node] = (
            f"{node.kind} would turn {before} bytes of constants{others} into "
            f"{growth + freed}{total}"
        )
        return True


def _growth(node: Node) -> int:
    """Bytes by which constants grow where those that `node` gives take the place of those that it
    alone reads.
    """
    if node.op.name in VIEWS:
        return 0
    sizes = [(value.tensor.size, value.dtype.bytes) for value in node.outputs]
    return sum(size * width for size, width in sizes if isinstance(size, int)) - _freed(node)


def _freed(node: Node) -> int:
    """Bytes of constants that only `node` reads."""
    operands = dict.fromkeys(v for v in node.operands() if v.const is not None)
    alone = [v for v in operands if all(use.user is node for use in v.uses)]
    return sum(v.const.nbytes for v in alone if v.const is not None)


def _from_content(node: Node) -> Sequence[Value] | None:
    """Constants from what is known of the elements although inputs are not (sizes of static
    shapes).
    """
    results = []
    for value in node.outputs:
        result = None if value.content is None else _of_elements(value, value.content)
        if result is None:
            return None
        results.append(result)
    return results


def _of_elements(value: Value, content: Array) -> Value | None:
    """The constant with these elements, None where some are no numbers."""
    elements = content.reshape(-1).tolist()
    plain = True
    for element in elements:
        if not isinstance(element, int):
            plain = False
            if not isinstance(element, (np.integer, np.bool_)):
                return None
    data = content.astype(value.dtype.numpy)
    if not plain or value.tensor.shape != data.shape or data.reshape(-1).tolist() != elements:
        return _constant(data, value)
    result = Value(value.type, value.name, data)
    result.content = content
    return result


def _constant(array: object, like: Value) -> Value:
    """A constant with these elements; a view of a large weight (its transpose, say) stays a
    view.
    """
    return constant(np.asarray(array), like.name, like.dtype)
