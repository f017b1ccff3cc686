"""Types that operators infer for their outputs."""

from typing import Any

from infuse import dtypes, ops
from infuse.ir.graph import Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Op

F32 = dtypes.float32


def op(name: str, **attributes: Any) -> Op:
    return ops.REGISTRY["", name](**attributes)


def infer_all(
    operator: Op, *given_values: Value | TensorType | None, outputs: int = 1
) -> list[TensorType]:
    values = [
        Value(v, f"x{i}") if isinstance(v, TensorType) else v for i, v in enumerate(given_values)
    ]
    node = Node(operator, values, [Value(TensorType(F32, None)) for _ in range(outputs)])
    operator.infer_node(node)
    return [value.tensor for value in node.outputs]


def infer(operator: Op, *values: Value | TensorType | None) -> TensorType:
    return infer_all(operator, *values)[0]


def shape_text(type: TensorType) -> str:
    assert type.shape is not None
    return ", ".join(map(str, type.shape))
