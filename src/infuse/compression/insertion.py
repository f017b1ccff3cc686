"""Writing compressed layers into a graph: activations between QuantizeLinear and DequantizeLinear,
weights and biases behind DequantizeLinear.

That is the form in which ONNX files carry quantized models, so a compressed graph runs in any
runtime; code generation multiplies integers where it sees it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from infuse.compression.forms import Form, Writer
from infuse.compression.layers import Layer
from infuse.compression.ranges import Scale
from infuse.ir.clone import clone
from infuse.ir.graph import Graph, Node, Value
from infuse.ops.core.traits import Trait, has_trait

POOLS = frozenset(("MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "Resize"))
MOVES = (Trait.MOVEMENT, Trait.ZERO_FLOPS, Trait.ARITHMETIC, Trait.FINITE)
"""Traits of operators that read the integers of an activation, where a layer reads them too."""


def with_forms(graph: Graph, forms: Mapping[Layer, Form], between: Mapping[Value, Scale]) -> Graph:
    """A copy of a graph in which layers have these forms; `between` are activations that no layer
    reads, and that are integers between operators all the same.
    """
    values: dict[Value, Value] = {}
    copy = clone(graph, values)
    write_forms(copy, values, forms, between)
    return copy


def write_forms(
    copy: Graph,
    values: Mapping[Value, Value],
    forms: Mapping[Layer, Form],
    between: Mapping[Value, Scale],
    *,
    are_alone: bool = False,
) -> None:
    """Give layers their forms in a copy of their graph; `values` are the copies of its values. With
    `are_alone`, nobody but the layers reads rounded activations.
    """
    nodes = {layer: values[layer.node.output].producer for layer in forms}
    rounding: dict[tuple[Value, Scale], set[Node | None]] = defaultdict(set)
    for layer, form in forms.items():
        if form.activation:
            rounding[layer.activation, form.activation].add(nodes[layer])
    for value, scale in between.items():
        rounding[value, scale] |= set()
    for (value, scale), static in rounding.items():
        passes = not are_alone and scale.dtype.bits == 8
        _round_activation(copy, values.get(value, value), scale, static, passes)
    for layer, form in forms.items():
        node = nodes[layer]
        assert node is not None
        form.write(copy, node, layer)


def _round_activation(
    graph: Graph, value: Value, scale: Scale, static: set[Node | None], passes: bool
) -> None:
    """Let these layers, and where it `passes` those operators that pass bytes on, read an
    activation as rounded.
    """
    users = [user for user in value.users() if user.graph is graph]
    reading = [user for user in users if user in static or (passes and passes_bytes(user, value))]
    owner = next((user for user in reading if user in static), value.producer)
    write = Writer(graph, owner, value.name or "activation")
    rounded = write.dequantize(_quantized(write, value, scale, reading), scale)
    for user in reading:
        for index, operand in enumerate(list(user.inputs)):
            if operand is value and not (user in static and index > 0):
                user.set_operand(index, rounded)
    if value.producer is not None and not any(v.uses for v in value.producer.outputs):
        graph.remove(value.producer)


def _quantized(write: Writer, value: Value, scale: Scale, reading: Sequence[Node]) -> Value:
    """The integers of an activation; parts of a concatenation are rounded before they meet."""
    node = value.producer
    readers = list(value.users())
    if node is None or node.kind != "Concat" or len(readers) != len(reading):
        return write.quantize(value, scale)
    parts = [write.quantize(part, scale) for part in node.operands()]
    return write("Concat", *parts, **node.op.attributes())


def passes_bytes(user: Node, value: Value) -> bool:
    """Whether a reader of an activation that is rounded reads it so too."""
    if value.tensor.shape is None or value.rank < 4 or user.subgraphs or user.op.domain:
        return False
    return user.kind in POOLS or any(has_trait(user, trait) for trait in MOVES)
