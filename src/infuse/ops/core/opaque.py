"""Operators that are not known here: they can be read, kept and written, but not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.ir.equality import same_attribute
from infuse.ir.graph import Graph, Node
from infuse.ir.registry import register_fallback
from infuse.ir.types import Type
from infuse.ops.core.inference import infer_body


class Opaque:
    """An unknown operator: its name, domain, opset version (0: that of the graph) and attributes as
    they came.

    Its outputs keep the types that they were given. Two are equal when all of this is, tensors byte
    by byte.
    """

    commutative: ClassVar[bool] = False
    carries_dims: ClassVar[bool] = False
    deterministic: ClassVar[bool] = False

    __slots__ = ("_attributes", "domain", "name", "version")

    def __init__(
        self, domain: str, name: str, attributes: Mapping[str, Any] | None = None, version: int = 0
    ) -> None:
        self.domain = domain
        self.name = name
        self.version = version
        self._attributes = dict(attributes or {})

    def attributes(self) -> Mapping[str, Any]:
        """Attribute values by name."""
        return dict(self._attributes)

    def infer_types(self, node: Node) -> Sequence[Type]:
        """The types that the outputs have already."""
        for body in node.subgraphs.values():
            infer_body(body)
        return [value.type for value in node.outputs]

    def infer_node(self, node: Node) -> None:
        """Leave the outputs as they are."""
        self.infer_types(node)

    def refusal(self, node: Node) -> UnsupportedOperatorError:
        """The error for who wants to run `node`."""
        opset = self.version or (
            node.graph.opsets.get(self.domain, 0) if node.graph is not None else 0
        )
        version = f" of opset {opset}" if opset else ""
        return UnsupportedOperatorError(
            f"operator {self.domain or 'ai.onnx'}::{self.name}{version} is not known and cannot be "
            "run",
            where=f"node {node.name!r}",
            hint="define it as an infuse.ops.Op, or export the model without it",
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Opaque)
            and (self.domain, self.name, self.version) == (other.domain, other.name, other.version)
            and self._attributes.keys() == other._attributes.keys()
            and all(same_attribute(v, other._attributes[k]) for k, v in self._attributes.items())
        )

    def __hash__(self) -> int:
        items = frozenset((k, _key(v)) for k, v in self._attributes.items())
        return hash((self.domain, self.name, self.version, items))

    def __repr__(self) -> str:
        attributes = ", ".join(
            f"{k}={v}" for k, v in self._attributes.items() if not isinstance(v, np.ndarray)
        )
        return f"Opaque({self.domain}::{self.name}, {attributes})"


def _key(value: Any) -> Any:
    """Something hashable that is equal for equal attributes."""
    if isinstance(value, np.ndarray):
        return (
            value.dtype.str,
            value.shape,
            value.tobytes() if value.dtype != object else str(value.tolist()),
        )
    if isinstance(value, (tuple, list)):
        return tuple(map(_key, value))
    return value


def unknown_nodes(part: Graph | Node) -> list[Node]:
    """The nodes of a graph or node, bodies included, whose operator is not supported."""
    if isinstance(part, Graph):
        return [
            node
            for inner in part.all_graphs()
            for node in inner.nodes
            if isinstance(node.op, Opaque)
        ]
    inside = [node for body in part.subgraphs.values() for node in unknown_nodes(body)]
    return [part, *inside] if isinstance(part.op, Opaque) else inside


def require_known(graph: Graph) -> None:
    """UnsupportedOperatorError that names the unknown operators of a graph that is to be run, if it
    has any.
    """
    nodes = unknown_nodes(graph)
    if not nodes:
        return
    by_operator: dict[str, list[str]] = {}
    for node in nodes:
        by_operator.setdefault(f"{node.op.domain or 'ai.onnx'}::{node.op.name}", []).append(
            repr(node.name)
        )
    names = [f"{kind} ({_some(where)})" for kind, where in by_operator.items()]
    raise UnsupportedOperatorError(
        f"unsupported operator{'s' * (len(names) > 1)} {_some(names, ', ')}",
        where=f"graph {graph.name!r}",
        hint="define them as infuse.ops.Op, or export the model without them",
    )


def _some(names: Sequence[str], between: str = ", ", most: int = 5) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return between.join([*names[:most], *more])


def _fallback(domain: str, name: str, attributes: Mapping[str, Any]) -> Opaque:
    return Opaque(domain, name, attributes)


register_fallback(_fallback)
