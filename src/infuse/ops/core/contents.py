"""What is known of the elements of results before a run, as dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from infuse.dtypes import DType
from infuse.errors import BudgetError, ShapeError
from infuse.ir import dims
from infuse.ir.graph import Array, Node, Value
from infuse.ir.types import TensorType

CONTENT_LIMIT = 256
"""Elements above which contents are not carried."""


def carried(content: Callable[..., Any], node: Node) -> Sequence[Array | None]:
    """What is known of the elements of each output of `node`, from `content` of the elements of its
    inputs as object arrays; nothing where these are many or not known.
    """
    first = node.output
    if not isinstance(first.type, TensorType) or not (
        first.dtype.is_integer or first.dtype.is_bool
    ):
        return ()
    size = first.type.size if first.type.is_static else None
    if not isinstance(size, int) or size > CONTENT_LIMIT:
        return ()
    contents = [None if v is None else _content_of(v) for v in node.inputs]
    if any(c is None for c, v in zip(contents, node.inputs) if v is not None):
        return ()
    try:
        result = content(*contents)
    except (ShapeError, BudgetError, ValueError, IndexError):
        # Only a number tells the result, or it is too long to be carried, or will fail at run time.
        return ()
    results = result if isinstance(result, tuple) else (result,)
    return [_as_dims(elements, value.dtype) for elements, value in zip(results, node.outputs)]


def _as_dims(content: Any, dtype: DType) -> Array | None:
    """Elements as dimensions; None where they are something else, or run out of what the element
    type holds.
    """
    array = np.array(content, dtype=object)
    flat = array.reshape(-1)
    if content is None or not all(_holds(dtype, x) for x in flat):
        return None
    flat[:] = [int(x) if isinstance(x, np.integer) else x for x in flat]
    return array


def _holds(dtype: DType, element: Any) -> bool:
    if isinstance(element, dims.Expr):
        return dtype.is_signed and dtype.bits >= 32
    if dtype.is_integer and isinstance(element, (int, np.integer)):
        low = -(1 << dtype.bits - 1) if dtype.is_signed else 0
        return low <= int(element) < low + (1 << dtype.bits)
    return isinstance(element, (int, np.integer, np.bool_))


def _content_of(value: Value) -> Any:
    if value.content is not None:
        return value.content
    if (
        value.const is not None
        and value.const.size <= CONTENT_LIMIT
        and value.const.dtype.kind in "iub"
    ):
        return value.const.astype(object)
    return None
