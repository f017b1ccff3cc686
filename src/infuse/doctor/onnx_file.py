"""What an ONNX file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from onnx import GraphProto, NodeProto, TensorProto

from infuse.doctor.facts import FileFacts, FileNode, FileScope
from infuse.frontends.onnx import Opened
from infuse.frontends.onnx.attributes import Readers, field_of, value_of
from infuse.frontends.onnx.constants import constant_elements
from infuse.frontends.onnx.opset_imports import domain_of
from infuse.frontends.onnx.scopes import subgraphs
from infuse.frontends.onnx.tensors import Tensors
from infuse.ir.graph import Graph
from infuse.ir.types import Type

_LEFT_OUT: Final = frozenset(["g", "graphs", "tp", "type_protos"])
"""Fields of attributes that are no attribute of a FileNode: bodies are scopes of their own."""


def facts_of(opened: Opened, graph: Graph) -> FileFacts:
    """The facts of a model, with the types that its graph has."""
    model = opened.model
    walk = _Walk(opened.tensors, _types(graph))
    scopes = list(walk.graph(model.graph, None))
    for function in model.functions:
        scopes += walk.nodes(function.node, {}, frozenset(function.output), None)
    return FileFacts(
        "ONNX",
        model.producer_name,
        model.producer_version,
        {domain_of(entry.domain): int(entry.version) for entry in model.opset_import},
        scopes,
    )


def _types(graph: Graph) -> Mapping[str, Type]:
    types: dict[str, Type] = {}
    for inner in graph.all_graphs():
        values = [*inner.inputs, *inner.constants(), *(v for n in inner.nodes for v in n.outputs)]
        types |= {value.name: value.type for value in values if value.name}
    return types


class _Walk:
    def __init__(self, tensors: Tensors, types: Mapping[str, Type]) -> None:
        self.tensors, self.types = tensors, types
        self.readers: Readers = {
            "t": lambda tensor, name: tensors.array(tensor),
            "sparse_tensor": lambda tensor, name: tensors.dense(tensor),
        }

    def graph(self, proto: GraphProto, parent: FileScope | None) -> Iterator[FileScope]:
        arrays: dict[str, Any] = {t.name: partial(self.array, t) for t in proto.initializer}
        results = frozenset(value.name for value in proto.output)
        yield from self.nodes(proto.node, arrays, results, parent)

    def nodes(
        self,
        protos: Sequence[NodeProto],
        arrays: dict[str, Any],
        results: frozenset[str],
        parent: FileScope | None,
    ) -> Iterator[FileScope]:
        scope = FileScope(self.types, arrays, results, parent)
        for proto in protos:
            if proto.op_type == "Constant" and proto.output and len(proto.attribute) == 1:
                arrays[proto.output[0]] = partial(self.stated, proto)
            else:
                scope.nodes.append(self.node(proto, scope))
        yield scope
        for proto in protos:
            for body in subgraphs(proto):
                yield from self.graph(body, scope)

    def node(self, proto: NodeProto, scope: FileScope) -> FileNode:
        domain = domain_of(proto.domain)
        return FileNode(
            f"{domain}.{proto.op_type}" if domain else proto.op_type,
            proto.name or next(filter(None, proto.output), proto.op_type),
            tuple(proto.input),
            tuple(proto.output),
            {
                each.name: value_of(each, each.name, self.readers, self.tensors.payloads)
                for each in proto.attribute
                if not each.ref_attr_name and field_of(each, each.name) not in _LEFT_OUT
            },
            scope,
            {entry.key: entry.value for entry in proto.metadata_props},
        )

    def array(self, tensor: TensorProto) -> Any:
        return self.tensors.array(tensor)

    def stated(self, proto: NodeProto) -> Any:
        (attribute,) = proto.attribute
        return constant_elements(attribute.name, attribute, self.tensors)
