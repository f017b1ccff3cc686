"""ModelProto → Graph: nodes in order, names resolved, old forms lifted, functions inlined, types
inferred.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    ValueInfoProto,
)

from infuse.budgets import check_time, spend
from infuse.errors import GraphError, InfuseError, ModelFileError
from infuse.frontends.onnx import adapters, legacy  # noqa: F401  (they register their lifts)
from infuse.frontends.onnx.attributes import (
    Readers,
    array_attributes,
    resolved,
    value_of,
    with_element_types,
)
from infuse.frontends.onnx.constants import constant_elements
from infuse.frontends.onnx.contributed import contributed
from infuse.frontends.onnx.counting import count_nodes
from infuse.frontends.onnx.forms import Form, adapt
from infuse.frontends.onnx.functions import (
    NEWEST,
    body_of,
    check_call,
    default_attributes,
    schema_of,
)
from infuse.frontends.onnx.guesses import Guesses
from infuse.frontends.onnx.independent import separate_sizes
from infuse.frontends.onnx.lenient import settle
from infuse.frontends.onnx.loops import scalar_flags
from infuse.frontends.onnx.malformed import MALFORMED, malformed
from infuse.frontends.onnx.notes import keep_texts, metadata_of
from infuse.frontends.onnx.opset_imports import call_opset, domain_of, opsets_of
from infuse.frontends.onnx.scopes import Scope, in_order, label, label_name
from infuse.frontends.onnx.signatures import read_type, sizes_of, type_of
from infuse.frontends.onnx.tensors import Tensors
from infuse.frontends.onnx.training import training_body
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.operator import Operator
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, TensorType, Type
from infuse.ops.core.base import REGISTRY, Op
from infuse.ops.core.opaque import Opaque
from infuse.ops.domains.ml import DOMAIN as ML

OVERRIDABLE_IR: Final = 4
"""The first version of the file format in which an initializer need not be an input: one that is
may be overridden.
"""
_DEPTH: Final = 64
_NEW_NAMES: Final = {"Scatter": "ScatterElements", "Upsample": "Resize"}


class Builder:
    """Builds the graph of one model."""

    def __init__(self, model: ModelProto, tensors: Tensors) -> None:
        self.model, self.tensors = model, tensors
        self.sizes = sizes_of(model.graph)
        self.functions = {(domain_of(f.domain), f.name, f.overload): f for f in model.functions}
        self.nodes, self.guesses = 0, Guesses()

    def graph(self) -> Graph:
        """The model's graph, typed."""
        model = self.model
        spend("nodes", count_nodes(model), "with its functions inlined, the model has")
        opsets = opsets_of(model.opset_import)
        if not opsets and model.ir_version < 3:
            opsets = {"": 1}
        graph = Graph(model.graph.name or "graph")
        graph.opsets = opsets
        self.fill(model.graph, _scope_of(model.graph, graph, opsets))
        self.guesses.tell()
        separate_sizes(graph, self.sizes)
        graph.metadata.update(metadata_of(model))
        keep_texts(model, self.sizes, graph)
        return graph

    # -- graphs ------------------------------------------------------------------------------------

    def fill(self, proto: GraphProto, scope: Scope) -> None:
        """Fill the graph of `scope` from `proto`."""
        graph, top = scope.graph, scope.parent is None
        graph.doc = proto.doc_string
        prefix = "onnx.graph." if top else ""
        graph.metadata.update({prefix + entry.key: entry.value for entry in proto.metadata_props})
        inputs = {info.name for info in proto.input}
        self.constants(proto, scope, set() if top else inputs)
        defaults = set(scope.values)
        for info in proto.input:
            if top and info.name in defaults:
                self.default(info, scope)
                continue
            type = type_of(info, self.sizes)
            if not info.name or (top and type is None):
                raise ModelFileError(
                    f"input {info.name!r} of the graph has no {'type' if info.name else 'name'}"
                )
            scope.define(info.name, graph.add_input(scope.prefix + info.name, type or UNKNOWN))
        for node in in_order(scope):
            self.node(node, scope)
        for name in scope.outputs:
            value = scope.find(name)
            if value is None:
                raise GraphError(
                    "an output of the graph has no name, or stands for an input that is not given"
                )
            graph.add_output(value, name)

    def constants(self, proto: GraphProto, scope: Scope, inputs: set[str]) -> None:
        """The initializers, as constants; in a body, an input of the same name has the word."""
        named = [(t.name, self.tensors.array(t)) for t in proto.initializer if t.name not in inputs]
        named += [(t.values.name, self.tensors.dense(t)) for t in proto.sparse_initializer]
        if any(not name for name, _ in named):
            raise ModelFileError("an initializer has no name")
        elements = dict(named)  # of several ones of a name the last counts, as in ONNX Runtime
        if len(elements) < len(named):
            counts = Counter(name for name, _ in named)
            twice = ", ".join(repr(n) for n in sorted(n for n in counts if counts[n] > 1)[:8])
            warnings.warn(
                f"the model has several initializers of one name ({twice}): the last one counts",
                RuntimeWarning,
                stacklevel=2,
            )
        for name, array in elements.items():
            scope.define(name, constant(array, scope.prefix + name))

    def default(self, info: ValueInfoProto, scope: Scope) -> None:
        """An initializer that the model lists as an input too: a default, before version 4 of the
        format a constant.
        """
        stored = scope.values[info.name]
        if self.model.ir_version < OVERRIDABLE_IR or stored is None or stored.const is None:
            return
        declared = type_of(info, self.sizes)
        if isinstance(declared, TensorType) and declared.dtype != stored.dtype:
            raise ModelFileError(
                f"input {info.name!r} is {declared}, its initializer {stored.type}"
            )
        value = scope.graph.add_input(info.name, stored.type)
        value.default = stored.const
        scope.values[info.name] = value

    def body(self, proto: GraphProto, name: str, scope: Scope) -> Graph:
        """A subgraph of a node."""
        inner = _scope_of(proto, Graph(proto.name or name), scope.opsets)
        inner.parent, inner.prefix, inner.bindings = scope, scope.prefix, scope.bindings
        inner.functions, inner.typed = scope.functions, False
        self.fill(proto, inner)
        return inner.graph

    # -- nodes -------------------------------------------------------------------------------------

    def node(self, proto: NodeProto, scope: Scope) -> None:
        """Add what a node stands for; errors say which node it was."""
        self.nodes += 1
        if not self.nodes & 1023:
            check_time("reading the model")
        try:
            self._node(proto, scope)
        except InfuseError as error:
            if not error.where or repr(scope.prefix + label_name(proto)) not in error.where:
                error.within(label(proto))
            raise
        except MALFORMED as error:
            raise malformed(proto, error, label(proto)) from error

    def _node(self, proto: NodeProto, scope: Scope) -> None:
        domain = domain_of(proto.domain)
        attributes = resolved(proto, scope.bindings)
        if (domain, proto.op_type) == ("", "Constant"):
            check_call(proto, "", call_opset("", "Constant", scope), attributes)
            return self.constant_node(proto, attributes, scope)
        function = self.functions.get((domain, proto.op_type, proto.overload))
        inputs = [] if function is not None else [scope.find(name) for name in proto.input]
        if function is not None:
            return self.inline(function, proto, attributes, scope)
        if contributed(proto, attributes, inputs, scope):
            return None
        opset = call_opset(domain, proto.op_type, scope)
        attributes = check_call(proto, domain, opset, attributes)
        form = self.form(proto, inputs, attributes, scope)
        function = training_body(form, opset) if domain == "" else None
        if function is not None:
            call = NodeProto(name=proto.name, op_type=proto.op_type, input=proto.input)
            call.output.extend(proto.output[: len(function.output)])
            return self.inline(function, call, {}, scope)
        if domain in ("", ML) and (domain, _NEW_NAMES.get(form.kind, form.kind)) in REGISTRY:
            adapt(form, opset)
            if form.kind == "Loop":
                scalar_flags(form)
            elif form.kind == "Split":
                adapters.check_parts(form)
            settle(form)
        if (domain, form.kind) not in REGISTRY:
            body = body_of(proto, opset, attributes, inputs)
            if body is not None:
                schema = schema_of(domain, proto.op_type, opset)
                defaults = default_attributes(schema) if schema is not None else {}
                return self.inline(body, proto, {**defaults, **attributes}, scope)
        op = _operator(domain, form, opset)
        if not form.used and isinstance(op, Op):
            return None
        node = self.add(op, form, _names(proto, scope), scope)
        node.doc = proto.doc_string
        node.metadata.update({entry.key: entry.value for entry in proto.metadata_props})
        for name, value in zip(proto.output, node.outputs):
            if name:
                scope.define(name, value)
        return None

    def form(
        self,
        proto: NodeProto,
        inputs: list[Value | None],
        attributes: Mapping[str, AttributeProto],
        scope: Scope,
    ) -> Form:
        """The call that a node makes."""
        readers: Readers = {
            "t": lambda tensor, name: self.tensors.array(tensor),
            "sparse_tensor": lambda tensor, name: self.tensors.dense(tensor),
            "g": lambda graph, name: self.body(graph, name, scope),
            "tp": lambda proto, name: read_type(proto, name, self.sizes),
        }
        arrays = array_attributes(domain_of(proto.domain), proto.op_type)
        values = {
            name: value_of(attribute, name, readers, self.tensors.payloads, name in arrays)
            for name, attribute in attributes.items()
        }
        used = [bool(name) and scope.reads(name) for name in proto.output]
        name = scope.prefix + label_name(proto)

        def emit(kind: str, inputs: Sequence[Value | None], attributes: dict[str, Any]) -> Value:
            inner = Form(kind, list(inputs), attributes, [True], f"{name}/{kind}", emit)
            return self.add(
                _operator("", inner, NEWEST), inner, [f"{name}/{kind}"], scope, origin=name
            ).output

        return Form(proto.op_type, inputs, values, used, name, emit)

    def add(
        self, op: Operator, form: Form, names: Sequence[str], scope: Scope, *, origin: str = ""
    ) -> Node:
        """Add a node to the graph of `scope` and infer its types."""
        is_opaque = isinstance(op, Opaque)
        types = [(self.stated(name, scope) if is_opaque else None) or UNKNOWN for name in names]
        outputs = [Value(type, name) for _, type, name in zip(form.used, types, names)]
        bodies = _bodies(form.attributes)
        node = Node(
            op,
            form.inputs,
            outputs,
            name=form.name,
            origin=(origin,) if origin else (),
            subgraphs=bodies,
        )
        scope.graph.add_node(node)
        try:
            op.infer_node(node)
        except InfuseError as error:
            if scope.typed:
                raise self.guesses.explained(node, error) from error
        if self.guesses.concern(node):
            self.guesses.follow(node, [self.stated(v.name, scope) for v in outputs])
        return node

    def stated(self, name: str, scope: Scope) -> Type | None:
        """The type that the file states for a value."""
        info = scope.declared.get(name.removeprefix(scope.prefix))
        return None if info is None else type_of(info, self.sizes)

    def constant_node(
        self, proto: NodeProto, attributes: Mapping[str, AttributeProto], scope: Scope
    ) -> None:
        """A Constant node, whatever form its value has."""
        if len(attributes) != 1 or len(proto.output) != 1 or not proto.output[0]:
            raise ModelFileError(
                f"a Constant needs one value and one output, it has {sorted(attributes)}"
            )
        array = constant_elements(*next(iter(attributes.items())), self.tensors)
        scope.define(proto.output[0], constant(array, scope.prefix + proto.output[0]))

    # -- functions ---------------------------------------------------------------------------------

    def inline(
        self,
        function: FunctionProto,
        proto: NodeProto,
        attributes: Mapping[str, AttributeProto],
        scope: Scope,
    ) -> None:
        """Add the nodes of a function in place of a call."""
        inner = _scope_of_call(function, proto, attributes, scope)
        for node in in_order(inner):
            self.node(node, inner)
        for name, result in zip(proto.output, function.output):
            value = (
                inner.find(result) if name and (inner.knows(result) or scope.reads(name)) else None
            )
            if value is not None:
                scope.define(name, value)
                if value.producer is not None and value.producer.name.startswith(inner.prefix):
                    value.name = scope.prefix + name


def _operator(domain: str, form: Form, opset: int) -> Operator:
    """The operator of a form, opaque where it is not known, or in another version than ours of a
    foreign domain.
    """
    values = {name: value for name, value in form.attributes.items() if not _has_graph(value)}
    operator_class = REGISTRY.get((domain, form.kind))
    attributes = dataclasses.fields(operator_class) if operator_class else ()  # type: ignore[arg-type]
    if operator_class is None or (domain and not values.keys() <= {a.name for a in attributes}):
        return Opaque(domain, form.kind, values, opset)
    return make_operator(domain, form.kind, with_element_types(domain, form.kind, values))


def _bodies(attributes: Mapping[str, Any]) -> dict[str, Graph]:
    """The graphs among attributes, those of lists by their numbers. A list is of one type."""
    bodies: dict[str, Graph] = {}
    for name, value in attributes.items():
        if isinstance(value, Graph):
            bodies[name] = value
        elif _has_graph(value):
            bodies.update((f"{name}/{i}", graph) for i, graph in enumerate(value))
    return bodies


def _has_graph(value: Any) -> bool:
    return isinstance(value, Graph) or (
        isinstance(value, tuple) and bool(value) and isinstance(value[0], Graph)
    )


def _names(proto: NodeProto, scope: Scope) -> list[str]:
    return [scope.prefix + name if name else "" for name in proto.output]


def _scope_of(proto: GraphProto, graph: Graph, opsets: Mapping[str, int]) -> Scope:
    return Scope(
        graph,
        opsets,
        proto.node,
        [v.name for v in proto.output],
        [*proto.value_info, *proto.output],
    )


def _scope_of_call(
    function: FunctionProto,
    proto: NodeProto,
    attributes: Mapping[str, AttributeProto],
    scope: Scope,
) -> Scope:
    """The scope in which the nodes of a function are read for a call of it; GraphError where the
    call does not fit.
    """
    key = (domain_of(proto.domain), proto.op_type, proto.overload)
    if key in scope.functions or len(scope.functions) > _DEPTH:
        raise GraphError(
            f"function {proto.op_type!r} calls itself, or functions are nested too deeply"
        )
    if len(proto.input) > len(function.input) or len(proto.output) > len(function.output):
        raise GraphError(
            f"function {proto.op_type!r} has {len(function.input)} inputs and "
            f"{len(function.output)} outputs, "
            f"it is called with {len(proto.input)} and {len(proto.output)}"
        )
    inner = Scope(
        scope.graph,
        {**scope.opsets, **opsets_of(function.opset_import)},
        function.node,
        function.output,
    )
    inner.hints = getattr(function, "value_info", ())
    inner.prefix = f"{scope.prefix}{proto.name or proto.op_type}/"
    inner.bindings = {**{a.name: a for a in function.attribute_proto}, **attributes}
    inner.functions, inner.typed = (*scope.functions, key), scope.typed
    for index, name in enumerate(function.input):
        inner.define(name, scope.find(proto.input[index]) if index < len(proto.input) else None)
    return inner
