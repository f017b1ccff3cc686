"""Constant folding: a node whose inputs are all known becomes constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse.errors import InfuseError
from infuse.ir.graph import Node, Value, constant
from infuse.ir.types import TensorType
from infuse.ops.base import Op

GROWTH_LIMIT = 1 << 20
"""Bytes by which a folded result may be larger than what it is made of: folding must not blow up the file."""


class Folder:
    """Evaluates nodes at compile time; `limit` bounds the growth of the constants, `skipped` counts what it held back."""

    def __init__(self, limit: int = GROWTH_LIMIT) -> None:
        self.limit = limit
        self.skipped: dict[str, str] = {}

    def __call__(self, node: Node) -> Sequence[Value] | None:
        """Constants for the outputs of `node`, None where it stays."""
        op = node.op
        if not isinstance(op, Op) or not op.deterministic or node.subgraphs:
            return None
        known = _from_content(node)
        if known is not None:
            return known
        if not node.outputs or any(v is not None and v.const is None for v in node.inputs):
            return None
        if not all(isinstance(v.type, TensorType) for v in node.outputs):
            return None
        if self._grows(node):
            return None
        try:
            with np.errstate(all="ignore"):
                result = op.eval(*(None if v is None else v.const for v in node.inputs))
        except InfuseError as error:
            self.skipped[node.name] = str(error)
            return None
        arrays = result if isinstance(result, tuple) else (result,)
        return [_constant(array, value) for array, value in zip(arrays, node.outputs)]

    def _grows(self, node: Node) -> bool:
        given = sum(v.const.nbytes for v in node.operands() if v.const is not None)
        made = 0
        for value in node.outputs:
            size = value.tensor.size
            made += size * value.dtype.bytes if isinstance(size, int) else 0
        if made - given <= self.limit:
            return False
        self.skipped[node.name] = f"{node.kind} would turn {given} bytes of constants into {made}"
        return True


def _from_content(node: Node) -> Sequence[Value] | None:
    """Constants from what is known of the elements although inputs are not (sizes of static shapes)."""
    results = []
    for value in node.outputs:
        content = value.content
        if content is None or not all(isinstance(x, (int, bool, np.integer, np.bool_)) for x in content.reshape(-1)):
            return None
        results.append(_constant(content.astype(value.dtype.numpy), value))
    return results or None


def _constant(array: object, like: Value) -> Value:
    data = np.asarray(array)
    result = constant(np.ascontiguousarray(data).reshape(data.shape), dtype=like.dtype)
    result.name = like.name
    return result
