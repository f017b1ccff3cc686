"""Bodies of operators that ONNX itself defines by other operators."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, defs

from infuse.errors import ModelFileError
from infuse.frontends.onnx.attributes import FIELDS, field_of
from infuse.ir.graph import Value
from infuse.ir.types import MapType, OptionalType, SequenceType, TensorType, Type

NEWEST: Final = defs.onnx_opset_version()
LENIENT: Final = (("", "LayerNormalization"),)
"""Operators of which ONNX Runtime ignores attributes that it does not know, so that there are
models with some.
"""
_ANY: Final = 2**31 - 1


@cache
def schema_of(domain: str, kind: str, opset: int) -> Any:
    """ONNX's definition of an operator as of an opset, None when there is none."""
    try:
        return defs.get_schema(kind, opset, domain)
    except defs.SchemaError:
        return None


@cache
def opset_of(domain: str, kind: str, opset: int) -> int:
    """The opset to read a call in: the model's, or the operator's first where a model uses it too
    early.
    """
    newest = range(opset, NEWEST + 1 if not domain else opset + 1)
    return next((v for v in newest if schema_of(domain, kind, v) is not None), opset)


@cache
def _attribute_types(domain: str, kind: str, opset: int) -> tuple[dict[str, str], frozenset[str]]:
    """The fields that the attributes of an operator are stored in, and the attributes that must be
    given.
    """
    attributes = schema_of(domain, kind, opset).attributes
    fields = {name: FIELDS[str(a.type).rsplit(".", 1)[-1]] for name, a in attributes.items()}
    return fields, frozenset(name for name, a in attributes.items() if a.required)


def check_call(
    node: NodeProto, domain: str, opset: int, attributes: Mapping[str, AttributeProto]
) -> dict[str, AttributeProto]:
    """The attributes of a call that count; ModelFileError unless it has such inputs, outputs and
    attributes as ONNX defines. An attribute that ONNX does not define is an error, as in ONNX
    Runtime, but where that lets it pass.
    """
    schema = schema_of(domain, node.op_type, opset)
    if schema is None:
        return dict(attributes)
    for what, count, least, most in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            bounds = (
                str(least)
                if least == most
                else f"at least {least}"
                if most >= _ANY
                else f"{least} to {most}"
            )
            raise ModelFileError(
                f"{node.op_type} of opset {opset} has {bounds} {what}, the node has {count}"
            )
    fields, required = _attribute_types(domain, node.op_type, opset)
    for name in required - attributes.keys():
        raise ModelFileError(f"its attribute {name!r} is missing")
    for name, attribute in attributes.items():
        if name not in fields and (domain, node.op_type) in LENIENT:
            text = (
                f"{node.op_type} node {node.name!r}: its attribute {name!r} is not known, and "
                "ignored"
            )
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            continue
        if name not in fields:
            raise ModelFileError(f"{node.op_type} of opset {opset} has no attribute {name!r}")
        if field_of(attribute, name) != fields[name]:
            raise ModelFileError(
                f"its attribute {name!r} is stored as {field_of(attribute, name)}, not "
                f"{fields[name]}"
            )
    return {name: attribute for name, attribute in attributes.items() if name in fields}


def default_attributes(schema: Any) -> dict[str, AttributeProto]:
    """The attributes of an operator that have a default."""
    return {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}


def body_of(
    node: NodeProto,
    opset: int,
    attributes: Mapping[str, AttributeProto],
    inputs: Sequence[Value | None],
) -> FunctionProto | None:
    """The function that a call of a standard operator stands for, None when ONNX does not define it
    by one.
    """
    schema = schema_of(node.domain, node.op_type, opset)
    if schema is None:
        return None
    if schema.has_function:
        versions = [
            v for v in schema.function_opset_versions if v <= opset
        ] or schema.function_opset_versions[:1]
        return _parsed(schema.get_function_with_opset_version(max(versions)))
    if schema.has_context_dependent_function:
        call = NodeProto()
        call.CopyFrom(node)
        del call.attribute[:]
        for name, attribute in attributes.items():
            call.attribute.add().CopyFrom(attribute)
            call.attribute[-1].name = name
        types = [type_proto(v.type).SerializeToString() if v is not None else b"" for v in inputs]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        if versions:
            return _parsed(
                schema.get_context_dependent_function_with_opset_version(
                    max(versions), call.SerializeToString(), types
                )
            )
    return None


def _parsed(data: bytes) -> FunctionProto | None:
    return FunctionProto.FromString(data) if data else None


def type_proto(type: Type) -> TypeProto:
    """ONNX's form of a type; sizes that are expressions stay unknown."""
    proto = TypeProto()
    if isinstance(type, TensorType):
        proto.tensor_type.elem_type = type.dtype.onnx
        if type.shape is not None:
            proto.tensor_type.shape.SetInParent()
            for size in type.shape:
                dim = proto.tensor_type.shape.dim.add()
                if isinstance(size, int):
                    dim.dim_value = size
    elif isinstance(type, SequenceType):
        proto.sequence_type.elem_type.CopyFrom(type_proto(type.element))
    elif isinstance(type, OptionalType):
        proto.optional_type.elem_type.CopyFrom(type_proto(type.element))
    elif isinstance(type, MapType):
        proto.map_type.key_type = type.key.onnx
        proto.map_type.value_type.CopyFrom(type_proto(type.element))
    return proto
