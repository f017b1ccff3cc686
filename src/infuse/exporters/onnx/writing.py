"""A lowered graph as a ModelProto, its constants apart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto
from onnx.helper import VERSION_TABLE

from infuse import dtypes
from infuse.dtypes import DType
from infuse.exporters.onnx.lowering import Lowered
from infuse.exporters.onnx.messages import Array, attribute, put_text, value_info
from infuse.exporters.onnx.outputs import outputs_of
from infuse.exporters.onnx.schemas import schema_of
from infuse.ir.description import OF_GRAPH, PREFIX, own_metadata
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import UNKNOWN, TensorType, Type
from infuse.ops.core.opaque import Opaque
from infuse.ops.domains.ml import MlOp

_FIRST_IR: Final = {
    **{
        d.name: 9
        for d in (
            dtypes.float8e4m3fn,
            dtypes.float8e4m3fnuz,
            dtypes.float8e5m2,
            dtypes.float8e5m2fnuz,
        )
    },
    "uint4": 10,
    "int4": 10,
    "float4e2m1": 11,
    "float8e8m0": 12,
    "uint2": 13,
    "int2": 13,
    "float6e2m3": 14,
    "float6e3m2": 14,
}
"""The first version of the file format that has an element type."""
_METADATA_IR: Final = 10
"""The first version of the file format that has metadata of nodes and graphs."""


@dataclass(frozen=True)
class Constant:
    """An initializer that is not part of the message yet."""

    name: str
    array: Array
    dtype: DType


def write(lowered: Lowered) -> tuple[ModelProto, list[Constant]]:
    """The model without its initializers, and those."""
    writer = _Writer(lowered)
    graph = lowered.graph
    model = ModelProto()
    model.graph.CopyFrom(writer.graph(graph))
    domains = {node.op.domain for inner in graph.all_graphs() for node in inner.unordered_nodes}
    for domain in ["", *sorted(domains - {""})]:
        version = lowered.opset if not domain else _domain_version(graph, domain)
        model.opset_import.add(domain=domain, version=version)
    model.ir_version = _ir_version(lowered.opset, graph)
    _write_metadata(model, graph)
    return model, list(writer.constants.values())


class _Writer:
    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.names: dict[Value, str] = {}
        self.taken: set[str] = {""}
        self.node_names: set[str] = {""}
        self.constants: dict[Value, Constant] = {}
        top = lowered.graph
        self.texts: dict[str, str] = json.loads(top.metadata.get("onnx.sizes", "{}"))
        self.stated: dict[str, Any] = json.loads(top.metadata.get("onnx.outputs", "{}"))
        self.words: dict[str, Any] = json.loads(top.metadata.get("onnx.values", "{}"))
        for value in top.inputs:
            self.names[value] = self.unique(value.name, "input")
            if value.default is not None:
                self.constants[value] = Constant(self.names[value], value.default, value.dtype)
        for value, name in zip(top.outputs, top.output_names):
            if value not in self.names:
                self.names[value] = self.unique(name, "output")

    def unique(self, name: str, otherwise: str) -> str:
        """`name`, numbered where it is taken."""
        name = name or otherwise
        result, count = name, 1
        while result in self.taken:
            count += 1
            result = f"{name}_{count}"
        self.taken.add(result)
        return result

    def name(self, value: Value | None, otherwise: str = "value") -> str:
        """The name of a value; constants are collected on the way."""
        if value is None:
            return ""
        if value not in self.names:
            self.names[value] = self.unique(value.name, "constant" if value.is_const else otherwise)
            if value.const is not None:
                self.constants[value] = Constant(self.names[value], value.const, value.dtype)
        return self.names[value]

    def graph(self, graph: Graph) -> GraphProto:
        """The message of a graph or body."""
        proto = GraphProto(name=graph.name or "graph", doc_string=graph.doc)
        for key, text in graph.metadata.items():
            if graph.parent is not None or key.startswith(OF_GRAPH):
                proto.metadata_props.add(key=key.removeprefix(OF_GRAPH), value=text)
        proto.input.extend(
            value_info(self.name(v, "input"), _stated(v, graph), self.texts) for v in graph.inputs
        )
        for node in graph.nodes:
            proto.node.append(self.node(node))
            if isinstance(node.op, Opaque):
                inner = [v for v in node.outputs if v.uses and not v.is_graph_output]
                proto.value_info.extend(
                    value_info(self.name(v), v.type, self.texts) for v in inner if _is_typed(v)
                )
        for value, name in zip(graph.outputs, graph.output_names):
            info = proto.output.add()
            info.CopyFrom(value_info(self.name(value, "output"), _stated(value, graph), self.texts))
            if graph.parent is None and name in self.stated:
                _write_stated(info, *self.stated[name])
        if graph.parent is None:
            for info in (*proto.input, *proto.output):
                doc, properties = self.words.get(info.name, ("", {}))
                if doc:
                    info.doc_string = doc
                for key, text in properties.items():
                    info.metadata_props.add(key=key, value=text)
        return proto

    def node(self, node: Node) -> NodeProto:
        """The message of a node."""
        spelling = self.lowered.spellings[node]
        schema = schema_of(spelling.kind, self.lowered.opset) if not spelling.domain else None
        if isinstance(node.op, MlOp):
            schema = schema_of(spelling.kind, node.op.since, spelling.domain)
        proto = NodeProto(
            op_type=spelling.kind, domain=spelling.domain or None, doc_string=node.doc or None
        )
        proto.name = _unique_name(node.name or spelling.kind, self.node_names)
        proto.input.extend(
            self.name(v)
            for v in _trimmed(spelling.inputs, 0 if schema is None else schema.min_input)
        )
        outputs = outputs_of(spelling, schema)
        proto.output.extend(self.name(v, f"{proto.name}_output") for v in outputs)
        values: dict[str, Any] = {**spelling.attributes, **_grouped(spelling.bodies)}
        for name in sorted(values):
            proto.attribute.append(attribute(name, values[name], schema, self.graph))
        for key, text in node.metadata.items():
            proto.metadata_props.add(key=key, value=text)
        return proto


def _trimmed(values: Iterable[Value | None], least: int) -> list[Value | None]:
    result = list(values)
    while len(result) > least and result[-1] is None:
        result.pop()
    return result


def _unique_name(name: str, taken: set[str]) -> str:
    result, count = name, 1
    while result in taken:
        count += 1
        result = f"{name}_{count}"
    taken.add(result)
    return result


def _grouped(bodies: dict[str, Graph]) -> dict[str, Any]:
    """Bodies by attribute; `name/0`, `name/1` are a list."""
    result: dict[str, Any] = {}
    for key, body in bodies.items():
        name, _, index = key.partition("/")
        if index:
            result.setdefault(name, []).append(body)
        else:
            result[name] = body
    return result


def _stated(value: Value, graph: Graph) -> Type | None:
    """The type to write for an input or output; a dead branch may have values without one."""
    return None if graph.parent is not None and value.type is UNKNOWN else value.type


def _write_stated(
    info: ValueInfoProto, sizes: list[int | str], inferred: list[int | None] | None
) -> None:
    """Write the sizes that the model stated for an output, but for those that have been fixed
    since, and where nothing else tells its rank.
    """
    written = info.type.tensor_type.shape.dim
    if inferred is None or len(written) != len(sizes):
        return
    for dim, size, before in zip(written, sizes, inferred):
        fixed = dim.dim_value if dim.WhichOneof("value") == "dim_value" else None
        if fixed == before:
            dim.Clear()
            if isinstance(size, int):
                dim.dim_value = size
            else:
                put_text(dim, size)


def _is_typed(value: Value) -> bool:
    return not isinstance(value.type, TensorType) or value.type.shape is not None


def _domain_version(graph: Graph, domain: str) -> int:
    operators = [node.op for inner in graph.all_graphs() for node in inner.unordered_nodes]
    versions = [op.version for op in operators if isinstance(op, Opaque) and op.domain == domain]
    stated = graph.opsets.get(domain) or max(versions, default=0) or 1
    # The forms of ONNX's own second domain are the newest ones, whatever the model was written in.
    needed = [op.since for op in operators if isinstance(op, MlOp) and op.domain == domain]
    return max(stated, *needed, 1)


def _ir_version(opset: int, graph: Graph) -> int:
    """The version of the file format: that of the release that brought the opset, or later for what
    came later.
    """
    released = min(ir for _, ir, version, *_ in VERSION_TABLE if version >= opset)
    values = [v for g in graph.all_graphs() for v in g.inputs]
    for inner in graph.all_graphs():
        for node in inner.unordered_nodes:
            values += [*node.outputs, *node.operands()]
    needed = [_FIRST_IR.get(v.type.dtype.name, 0) for v in values if isinstance(v.type, TensorType)]
    inside = any(k.startswith(OF_GRAPH) or k == "onnx.values" for k in graph.metadata) or any(
        (inner.parent is not None and inner.metadata)
        or any(n.metadata for n in inner.unordered_nodes)
        for inner in graph.all_graphs()
    )
    return max([released, _METADATA_IR if inside else 0, *needed])


def _write_metadata(model: ModelProto, graph: Graph) -> None:
    """The graph's metadata; what was read from fields of a model goes back there."""
    fields = {k.removeprefix(PREFIX): v for k, v in graph.metadata.items() if k.startswith(PREFIX)}
    model.producer_name = fields.get("producer_name", "infuse")
    model.producer_version = fields.get("producer_version", "")
    model.domain = fields.get("domain", "")
    model.doc_string = fields.get("doc_string", "")
    version = fields.get("model_version", "0")
    model.model_version = int(version) if version.lstrip("-").isdigit() else 0
    for key, text in own_metadata(graph).items():
        model.metadata_props.add(key=key, value=text)
