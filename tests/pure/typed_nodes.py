"""Single nodes with inferred types."""

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir import (
    Node,
    OptionalType,
    SequenceType,
    TensorType,
    Value,
    constant,
    dim_text,
    dims,
    tensor,
)
from infuse.ops.core.base import Op, infer_node
from infuse.ops.core.sizes import numbering

X = tensor(dtypes.float32, "batch", "seq", 768)
UNKNOWN_RANK = TensorType(dtypes.float32, None)
SIZES = tensor(dtypes.int64, 3)
SIZE_LIST = tensor(dtypes.int64, "n")
INDEX = tensor(dtypes.int64)


def node(op: Op, *inputs: Any, outputs: int = 1) -> Node:
    """An inferred node; types become inputs, lists of sizes constants or contents, arrays
    constants.
    """
    result = Node(
        op, [as_value(x) for x in inputs], [Value(UNKNOWN_RANK) for _ in range(outputs)], name="n"
    )
    with numbering([]):
        infer_node(result)
    return result


def as_value(given: Any) -> Value | None:
    if given is None or isinstance(given, Value):
        return given
    if isinstance(given, (TensorType, SequenceType, OptionalType)):
        return Value(given, "x")
    if isinstance(given, list) and any(isinstance(d, (dims.Expr, str)) for d in given):
        value = Value(tensor(dtypes.int64, len(given)), "sizes")
        value.content = np.array(
            [dim_text.parse(d) if isinstance(d, str) else d for d in given], dtype=object
        )
        return value
    return constant(np.array(given, dtype=np.int64) if isinstance(given, (list, int)) else given)


def inferred(op: Op, *inputs: Any) -> str:
    return str(node(op, *inputs).output.type)
