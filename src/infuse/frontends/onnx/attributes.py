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
from infuse.ops.base import REGISTRY

_KINDS: Final[dict[int, str]] = {
    **{AttributeProto.FLOAT: "f", AttributeProto.INT: "i", AttributeProto.STRING: "s", AttributeProto.TENSOR: "t"},
    **{AttributeProto.GRAPH: "g", AttributeProto.SPARSE_TENSOR: "sparse_tensor", AttributeProto.TYPE_PROTO: "tp"},
    **{AttributeProto.FLOATS: "floats", AttributeProto.INTS: "ints", AttributeProto.STRINGS: "strings"},
    **{AttributeProto.TENSORS: "tensors", AttributeProto.GRAPHS: "graphs"},
    **{AttributeProto.SPARSE_TENSORS: "sparse_tensors", AttributeProto.TYPE_PROTOS: "type_protos"},
}
_ELEMENTS: Final = {
    **{"floats": "f", "ints": "i", "strings": "s", "tensors": "t", "graphs": "g"},
    **{"sparse_tensors": "sparse_tensor", "type_protos": "tp"},
}

Bindings = Mapping[str, AttributeProto]
Readers = Mapping[str, Callable[[Any, str], Any]]
"""What turns a tensor (`t`), a graph (`g`), a sparse tensor or a type into its value, given its name."""


def resolved(node: NodeProto, bindings: Bindings) -> dict[str, AttributeProto]:
    """The attributes of a node by name; references stand for the caller's attributes and vanish where it gives none."""
    found: dict[str, AttributeProto] = {}
    for attribute in node.attribute:
        if attribute.name in found:
            raise ModelFileError(f"attribute {attribute.name!r} is given twice")
        if not attribute.ref_attr_name:
            found[attribute.name] = attribute
        elif attribute.ref_attr_name in bindings:
            found[attribute.name] = bindings[attribute.ref_attr_name]
    return found


def value_of(attribute: AttributeProto, name: str, readers: Readers) -> Any:
    """The value of an attribute: a number, a text, or what its reader makes of it; lists become tuples."""
    kind = _field(attribute, name)
    value = getattr(attribute, kind)
    if kind not in _ELEMENTS:
        return _convert(kind, value, name, readers)
    return tuple(_convert(_ELEMENTS[kind], v, f"{name}/{i}", readers) for i, v in enumerate(value))


def _field(attribute: AttributeProto, name: str) -> str:
    """The field that holds the value; files older than the type number tell it by what is set."""
    kind = _KINDS.get(attribute.type)
    if kind is None and attribute.type == AttributeProto.UNDEFINED:
        kind = next((field.name for field, _ in attribute.ListFields() if field.name in _KINDS.values()), None)
    if kind is None:
        raise ModelFileError(f"attribute {name!r} has type number {attribute.type}, which is not known")
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
    """The float32 number `value` as the shortest decimal that rounds to it: 1e-05 and not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def with_element_types(domain: str, kind: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes with ONNX's numbers of element types as types, where the operator wants types."""
    names = _element_type_fields(domain, kind) & attributes.keys()
    return {k: _element_type(v) if k in names else v for k, v in attributes.items()}


def _element_type(code: Any) -> Any:
    if not isinstance(code, int):
        return code
    return element_type(code) if code else None


@cache
def _element_type_fields(domain: str, kind: str) -> frozenset[str]:
    fields = dataclasses.fields(REGISTRY[domain, kind])  # type: ignore[arg-type]
    return frozenset(f.name for f in fields if dtypes.DType.__name__ in str(f.type))
