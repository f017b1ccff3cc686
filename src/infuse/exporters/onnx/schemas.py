"""What ONNX says of its operators in each opset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from onnx import defs

from infuse import dtypes
from infuse.ir.types import MapType, OptionalType, SequenceType, StateType, Type

NEWEST: Final = defs.onnx_opset_version()


@dataclass(frozen=True)
class Definition:
    """What ONNX says of an operator, read once: the library's own objects are copied whenever they
    are asked.
    """

    since_version: int
    min_input: int
    max_input: int
    min_output: int
    max_output: int
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    attributes: Mapping[str, Any]
    required: frozenset[str]


@cache
def schema_of(kind: str, opset: int, domain: str = "") -> Definition | None:
    """ONNX's definition of an operator as of an opset; None when there is none, or it is no longer
    to be used.
    """
    try:
        schema = defs.get_schema(kind, opset, domain)
    except defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    attributes = dict(schema.attributes)
    required = frozenset(name for name, attribute in attributes.items() if attribute.required)
    counts = (
        schema.since_version,
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
    )
    return Definition(*counts, tuple(schema.inputs), tuple(schema.outputs), attributes, required)


def next_version(kind: str, opset: int) -> int | None:
    """The first opset after `opset` that defines `kind` anew."""
    now = schema_of(kind, opset)
    for later in range(opset + 1, NEWEST + 1):
        schema = schema_of(kind, later)
        if schema is not None and (now is None or schema.since_version != now.since_version):
            return later
    return None


@cache
def operand_types(kind: str, opset: int) -> tuple[frozenset[str], ...]:
    """The types that each input takes."""
    schema = schema_of(kind, opset)
    return tuple(frozenset(i.types) for i in schema.inputs) if schema is not None else ()


def type_text(type: Type) -> str:
    """A type as ONNX's definitions name it, without its shape."""
    if isinstance(type, SequenceType):
        return f"seq({type_text(type.element)})"
    if isinstance(type, OptionalType):
        return f"optional({type_text(type.element)})"
    if isinstance(type, MapType):
        return f"map({element_text(type.key)},{type_text(type.element)})"
    if isinstance(type, StateType):
        return f"state({type_text(type.element)})"
    return f"tensor({element_text(type.dtype)})"


def element_text(dtype: dtypes.DType) -> str:
    """An element type as schemas write it."""
    return {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)
