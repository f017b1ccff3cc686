"""AttributeProto → Python values, and references of functions to their caller's attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
from onnx import AttributeProto, NodeProto

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.onnx.tensors import element_type
from infuse.frontends.onnx.wire import Payloads
from infuse.ops.core.base import REGISTRY
from infuse.ops.domains.ml import lists_of

FIELDS: Final = {
    "FLOAT": "f",
    "INT": "i",
    "STRING": "s",
    "TENSOR": "t",
    "GRAPH": "g",
    "TYPE_PROTO": "tp",
    "FLOATS": "floats",
    "INTS": "ints",
    "STRINGS": "strings",
    "TENSORS": "tensors",
    "GRAPHS": "graphs",
    "SPARSE_TENSOR": "sparse_tensor",
    "SPARSE_TENSORS": "sparse_tensors",
    "TYPE_PROTOS": "type_protos",
}
"""The field of an AttributeProto that holds the value, by the name of its type."""
_BY_NUMBER: Final = {
    AttributeProto.AttributeType.Value(name): field for name, field in FIELDS.items()
}
_ELEMENTS: Final = {
    "floats": "f",
    "ints": "i",
    "strings": "s",
    "tensors": "t",
    "graphs": "g",
    "sparse_tensors": "sparse_tensor",
    "type_protos": "tp",
}

_NUMBERS: Final = {"floats": np.float32, "ints": np.int64}

Bindings = Mapping[str, AttributeProto]
Readers = Mapping[str, Callable[[Any, str], Any]]
"""What turns a tensor (`t`), a graph (`g`), a sparse tensor or a type into its value, given its
name.
"""


def resolved(node: NodeProto, bindings: Bindings) -> dict[str, AttributeProto]:
    """The attributes of a node by name; references stand for the caller's attributes and vanish
    where it gives none.
    """
    attributes: dict[str, AttributeProto] = {}
    for attribute in node.attribute:
        if attribute.name in attributes:
            raise ModelFileError(f"attribute {attribute.name!r} is given twice")
        if not attribute.ref_attr_name:
            attributes[attribute.name] = attribute
        elif attribute.ref_attr_name in bindings:
            attributes[attribute.name] = bindings[attribute.ref_attr_name]
    return attributes


def value_of(
    attribute: AttributeProto,
    name: str,
    readers: Readers,
    payloads: Payloads,
    as_array: bool = False,
) -> Any:
    """The value of an attribute: a number, a text, or what its reader makes of it; lists become
    tuples, lists of numbers arrays where they are wanted `as_array`.
    """
    kind = field_of(attribute, name)
    value = getattr(attribute, kind)
    if kind not in _ELEMENTS:
        return _convert(kind, value, name, readers)
    left = payloads.take_list(attribute.s)
    if as_array and kind in _NUMBERS:
        return np.array(value, _NUMBERS[kind]) if left is None else left
    if isinstance(left, tuple):
        return left
    if left is not None:
        value = left.tolist()
    return tuple(_convert(_ELEMENTS[kind], v, f"{name}/{i}", readers) for i, v in enumerate(value))


def field_of(attribute: AttributeProto, name: str) -> str:
    """The field that holds the value; files older than the type number tell it by what is set."""
    kind = _BY_NUMBER.get(attribute.type)
    if kind is None and attribute.type == AttributeProto.UNDEFINED:
        kind = next(
            (
                field.name
                for field, _ in attribute.ListFields()
                if field.name in _BY_NUMBER.values()
            ),
            None,
        )
    if kind is None:
        raise ModelFileError(
            f"attribute {name!r} has type number {attribute.type}, which is not known"
        )
    return kind


def _convert(kind: str, value: Any, name: str, readers: Readers) -> Any:
    if kind == "f":
        return shortest(value)
    if kind == "i":
        return int(value)
    if kind == "s":
        return value.decode("utf-8", "surrogateescape")
    return readers[kind](value, name)


def shortest(value: float) -> float:
    """The float32 number `value` as the shortest decimal that rounds to it: 1e-05 and not
    9.999999747378752e-06.
    """
    return float(str(np.float32(value)))


def with_element_types(domain: str, kind: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes with ONNX's numbers of element types as types, where the operator wants
    types.
    """
    fields = _element_type_fields(domain, kind)
    return {
        k: _element_type(v, fields[k]) if k in fields and isinstance(v, int) else v
        for k, v in attributes.items()
    }


def _element_type(code: int, optional: bool) -> Any:
    return None if optional and code == 0 else element_type(code)


@cache
def array_attributes(domain: str, kind: str) -> frozenset[str]:
    """The attributes of an operator that are lists of numbers as arrays."""
    op: Any = REGISTRY.get((domain, kind))
    return frozenset() if op is None else lists_of(op)


@cache
def _element_type_fields(domain: str, kind: str) -> dict[str, bool]:
    """The attributes of an operator that are element types, and whether they may be absent."""
    fields = dataclasses.fields(REGISTRY[domain, kind])  # type: ignore[arg-type]
    return {f.name: f.default is None for f in fields if dtypes.DType.__name__ in str(f.type)}
