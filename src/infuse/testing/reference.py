"""ONNX's own word on one operator: its reference evaluator and its shape inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.defs import onnx_opset_version
from onnx.reference import ReferenceEvaluator

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.types import (
    HOLDERS,
    MapType,
    OptionalType,
    SequenceType,
    StateType,
    TensorType,
    Type,
)
from infuse.ops.core.base import Op
from infuse.ops.domains.ml import MlOp
from infuse.testing.samples import Row, is_constant, type_of


def model_of(row: Row, outputs_used: Sequence[bool]) -> onnx.ModelProto:
    """A model of one node with the wanted outputs; inputs that types may depend on are
    initializers.
    """
    names = ["" if x is None else f"x{i}" for i, x in enumerate(row.inputs)]
    results = [f"y{i}" if one else "" for i, one in enumerate(outputs_used)]
    node = helper.make_node(row.op.name, names, results, domain=row.op.domain)
    node.attribute.extend(attributes_of(row.op))
    fed = [
        (n, x)
        for i, (n, x) in enumerate(zip(names, row.inputs))
        if x is not None and not is_constant(row, i)
    ]
    held = [(n, x) for i, (n, x) in enumerate(zip(names, row.inputs)) if is_constant(row, i)]
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_value_info(n, proto_of(type_of(x))) for n, x in fed],
        [onnx.ValueInfoProto(name=n) for n in results if n],
        [numpy_helper.from_array(x, n) for n, x in held],
    )
    opsets = [helper.make_opsetid("", onnx_opset_version())]
    if row.op.domain:
        opsets.append(
            helper.make_opsetid(row.op.domain, row.op.since if row.op.domain == MlOp.domain else 1)
        )
    return helper.make_model(graph, opset_imports=opsets)


def evaluate(row: Row, outputs_used: Sequence[bool] = (True,)) -> list[Any]:
    """The wanted outputs of this row by ONNX's reference evaluator."""
    model = model_of(row, outputs_used)
    feeds = {
        f"x{i}": x for i, x in enumerate(row.inputs) if x is not None and not is_constant(row, i)
    }
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model).run(None, feeds))


_LISTS: Final = (onnx.defs.OpSchema.AttrType.INTS, onnx.defs.OpSchema.AttrType.FLOATS)


def inferred(row: Row, outputs_used: Sequence[bool] = (True,)) -> list[TensorType | None]:
    """Types of the wanted outputs by ONNX's shape inference (None: it says nothing, or no
    tensor).
    """
    model = onnx.shape_inference.infer_shapes(
        model_of(row, outputs_used), check_type=True, strict_mode=True, data_prop=True
    )
    return [_tensor_of(value.type) for value in model.graph.output]


def attributes_of(op: Op) -> list[onnx.AttributeProto]:
    """The attributes as ONNX writes them; those that are unset are left out."""
    values = dict(op.attributes())
    if op.name == "ConstantOfShape":
        values = {"value": np.full(1, values["value"], values["dtype"].numpy)}
    schema: Any = onnx.defs.get_schema(op.name, onnx_opset_version(), op.domain).attributes
    written = {
        k: v
        for k, v in values.items()
        if v is not None and (schema[k].required or not _is_empty(v))
    }
    return [
        helper.make_attribute(k, _attribute(v, schema[k].type), attr_type=schema[k].type.value)
        for k, v in written.items()
    ]


def _is_empty(value: Any) -> bool:
    return isinstance(value, tuple) and not value


def _attribute(value: Any, kind: Any) -> Any:
    if isinstance(value, DType):
        return value.onnx
    if kind in _LISTS and isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        return numpy_helper.from_array(np.asarray(value))
    if isinstance(value, (TensorType, *HOLDERS)):
        return proto_of(value)
    return value


def proto_of(type: Type) -> onnx.TypeProto:
    """A type as ONNX writes it."""
    if isinstance(type, SequenceType):
        return helper.make_sequence_type_proto(proto_of(type.element))
    if isinstance(type, OptionalType):
        return helper.make_optional_type_proto(proto_of(type.element))
    if isinstance(type, MapType):
        return helper.make_map_type_proto(type.key.onnx, proto_of(type.element))
    if isinstance(type, StateType):
        return proto_of(type.element)
    return helper.make_tensor_type_proto(
        type.dtype.onnx, None if type.shape is None else list(map(_dim, type.shape))
    )


def _dim(dim: Any) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _tensor_of(proto: onnx.TypeProto) -> TensorType | None:
    if not proto.HasField("tensor_type") or not proto.tensor_type.elem_type:
        return None
    dtype = dtypes.by_onnx(proto.tensor_type.elem_type)
    if not proto.tensor_type.HasField("shape"):
        return TensorType(dtype, None)
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in proto.tensor_type.shape.dim]
    numbers = [int(s) for s in sizes if s is not None]
    return TensorType(dtype, tuple(numbers) if len(numbers) == len(sizes) else None)
