"""ONNX Runtime's own operators that mean what ONNX's do: those are read in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto, NodeProto, helper

from infuse.frontends.onnx.scopes import Scope
from infuse.ir.graph import Value
from infuse.tracing.microsoft import BODIES, CallBuilder, results_of


def contributed(
    node: NodeProto,
    attributes: Mapping[str, AttributeProto],
    inputs: Sequence[Value | None],
    scope: Scope,
) -> bool:
    """Whether a call of ONNX Runtime's own operator was read, as the nodes that stand for it."""
    if (node.domain, node.op_type) not in BODIES:
        return False
    asked = [bool(name) and scope.reads(name) for name in node.output]
    name = f"{scope.prefix}{node.name or node.op_type}"
    make = CallBuilder(scope.graph, name, asked, scope.typed)
    plain = {name: _plain(attribute) for name, attribute in attributes.items()}
    results = results_of(make, node.op_type, inputs, plain)
    if results is None:
        return False
    for name, value in zip(node.output, results):
        if name and value is not None:
            scope.define(name, value)
            if value.producer is not None and value not in inputs:
                value.name = scope.prefix + name
    return True


def functions_of(domain: str) -> frozenset[str]:
    """The operators of a domain that are read as others."""
    return frozenset(kind for home, kind in BODIES if home == domain)


def _plain(attribute: AttributeProto) -> Any:
    """An attribute as a body takes it: a number, a text, or a tuple of these."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (str, int, float)) or not isinstance(value, Sequence):
        return value
    return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value)
