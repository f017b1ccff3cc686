"""The sizes of a jaxpr, which JAX writes as text (`2*batch + 1`, `floordiv(batch, 2)`)."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from operator import add, mul, sub
from typing import Any, Final

from infuse.errors import UnsupportedOperatorError
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.tracing.sizes import Sizes

_INFIX: Final[dict[type[ast.operator], Callable[[Any, Any], Dim]]] = {
    ast.Add: add, ast.Sub: sub, ast.Mult: mul,
}  # fmt: skip
_CALLED: Final[dict[str, Callable[[Dim, Dim], Dim]]] = {
    "floordiv": dims.floordiv, "mod": dims.mod, "max": dims.maximum, "min": dims.minimum,
}  # fmt: skip


def size_of(size: Any, sizes: Sizes) -> Dim:
    """A size of JAX's, a number or an expression of symbols."""
    try:
        return int(size.__index__())
    except Exception:  # JAX has an error of its own for what is no number
        text = str(size)
    try:
        return _size(ast.parse(text.replace("^", "**"), mode="eval").body, sizes)
    except (SyntaxError, ValueError, KeyError) as error:
        raise UnsupportedOperatorError(f"the size {text[:80]} is not supported") from error


def _size(node: ast.expr, sizes: Sizes) -> Dim:
    if isinstance(node, ast.Name):
        return sizes.named(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_size(node.operand, sizes)
    if isinstance(node, ast.BinOp):
        left, right = _size(node.left, sizes), _size(node.right, sizes)
        if isinstance(node.op, ast.Pow) and isinstance(right, int):
            return dims.product([left] * right)
        return _INFIX[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return reduce(_CALLED[node.func.id], (_size(part, sizes) for part in node.args))
    raise ValueError(f"{type(node).__name__} is not a part of a size")
