"""What every layer of a graph costs: parameters, arithmetic and memory access, with quantized
weights as they are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from infuse import dtypes
from infuse.analysis.cost import (
    NOTHING,
    Cost,
    Sizes,
    body_of,
    checked_sizes,
    cost_of,
    count_nodes,
    stored_bytes,
    unknown_notes,
)
from infuse.dtypes import DType
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import TensorType
from infuse.ops.core.feeds import input_symbols
from infuse.ops.core.traits import Trait, has_trait

FLOAT: Final = "fp32"
"""What arithmetic is done on where a processor has nothing faster for the operands."""
_MOVING: Final = (Trait.RESHAPE, Trait.MOVEMENT, Trait.VIEW)


@dataclass(frozen=True)
class Layer:
    """One node, and what all of its runs in one run of the graph cost."""

    name: str
    kind: str
    body: str
    """The control-flow body that it stands in; empty in the main graph."""
    output: str
    """The type of its first result, with symbols where sizes are."""
    runs: int
    parameters: int
    """Floating-point elements of its constants, and quantized ones; those that several layers
    share count at the first.
    """
    weight_bytes: int
    """What these constants take, types of fewer than eight bits packed."""
    cost: Cost
    number: str = FLOAT
    """What its products are made of: fp32, bf16 or int8."""


@dataclass
class Layers:
    """The layers of a graph in execution order, and what one must know to read them."""

    rows: list[Layer] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes of symbols that were given or assumed."""
    notes: list[str] = field(default_factory=list)


def layers_of(graph: Graph, values: Mapping[str, int] | None = None) -> Layers:
    """The layers of a graph with these sizes for its symbols, and usual ones for the others.

    Every node reads its operands and writes its results, nothing fused. Weights count as they are
    stored: what only dequantizes or moves constants costs nothing itself, and its readers read what
    is stored. OptionError for symbols that the graph does not have, and for
    sizes below zero.
    """
    sizes = checked_sizes(graph, values)
    entries, notes = count_nodes(graph, sizes)
    weights = _Weights()
    rows = [_layer(node, runs, sizes, weights) for node, runs, _ in entries]
    unknown = Counter(
        node.kind for node, _, cost in entries if not cost.is_known and not node.subgraphs
    )
    notes = unknown_notes(unknown) + notes
    late = sizes.assumed.keys() - input_symbols(graph)
    if late:
        notes.append(f"sizes that only a run finds out count as 1: {', '.join(sorted(late))}")
    shown = {name: sizes.values[name] for name in input_symbols(graph)}
    return Layers(rows, shown, notes)


def _layer(node: Node, runs: int, sizes: Sizes, weights: _Weights) -> Layer:
    is_stored = weights.keeps(node)
    own = [] if is_stored else weights.first_read(node)
    cost = NOTHING if is_stored else _stored_cost(node, sizes, weights) * runs
    return Layer(
        node.name or (node.output.name if node.outputs else ""),
        node.kind,
        body_of(node),
        str(node.output.type) if node.outputs else "",
        runs,
        sum(_parameters(part) for part in own),
        sum(stored_bytes(part.value) for part in own),
        replace(cost, is_known=cost.is_known or bool(node.subgraphs)),
        _number_kind(node, weights) if cost.macs else FLOAT,
    )


class _Part(NamedTuple):
    """A constant, and the node that reads it as it is stored."""

    value: Value
    reader: Node


class _Weights:
    """What of a graph's values is stored, as nodes are met in execution order."""

    def __init__(self) -> None:
        self._parts: dict[Value, list[_Part]] = {}
        self._counted: set[int] = set()

    def of(self, value: Value, reader: Node) -> list[_Part]:
        """The constants that an operand is made of by dequantizing and moving alone; none for
        other operands.
        """
        return [_Part(value, reader)] if value.const is not None else self._parts.get(value, [])

    def keeps(self, node: Node) -> bool:
        """Whether a node only makes of constants what its readers read as it is stored."""
        dequantizes = node.kind == "DequantizeLinear"
        if not dequantizes and not _moves_all(node):
            return False
        parts = [self.of(value, node) for value in node.operands()]
        if not parts or not all(parts):
            return False
        taken = parts if dequantizes else parts[:1]
        self._parts[node.output] = [part for each in taken for part in each]
        return True

    def first_read(self, node: Node) -> list[_Part]:
        """The constants that a node reads, and no node before it."""
        own = []
        for value in node.operands():
            for part in self.of(value, node):
                if id(part.value.const) not in self._counted:
                    self._counted.add(id(part.value.const))
                    own.append(part)
        return own


def _moves_all(node: Node) -> bool:
    """Whether a node gives all elements of its first operand, in some order."""
    operand = node.input(0)
    if operand is None or not any(has_trait(node, trait) for trait in _MOVING):
        return False
    types = (operand.type, node.output.type)
    if not all(isinstance(each, TensorType) and each.shape is not None for each in types):
        return False
    return operand.tensor.size == node.output.tensor.size


def _stored_cost(node: Node, sizes: Sizes, weights: _Weights) -> Cost:
    """The cost of one run, in which weights are read as they are stored."""
    stored = {}
    for place, value in enumerate(node.inputs):
        parts = [] if value is None else weights.of(value, node)
        if parts:
            stored[place] = sum(stored_bytes(part.value) for part in parts)
    inputs = [None if v is None else v.type for v in node.inputs]
    return cost_of(node.op, inputs, [v.type for v in node.outputs], sizes, stored)


def _parameters(part: _Part) -> int:
    """How many parameters of a model a constant holds: floating-point elements, and integers of
    eight bits and fewer in matrices, which are quantized ones (several in a byte where the reader
    packs them). Zero points are none.
    """
    value, reader = part
    array, dtype = value.const, value.dtype
    assert array is not None
    if dtype.is_float:
        return int(array.size)
    is_zero = reader.kind == "DequantizeLinear" and reader.input(2) is value
    if not dtype.is_integer or dtype.bits > 8 or array.ndim < 2 or is_zero:
        return 0
    packed = reader.op.attributes().get("bits", 8)
    return int(array.size) * 8 // packed if dtype == dtypes.uint8 else int(array.size)


def _number_kind(node: Node, weights: _Weights) -> str:
    """What a product is made of: int8 where its first operand and another one are integers of
    eight bits and fewer, or stand for such; bf16 where the first is of that type; else fp32.
    """
    operands = [value for value in node.operands() if _is_matrix(value)]
    kinds = [_element(value, weights.of(value, node)) for value in operands]
    if kinds and kinds[0] == dtypes.bfloat16:
        return "bf16"
    small = [kind is not None and kind.is_integer and kind.bits <= 8 for kind in kinds]
    return "int8" if len(small) > 1 and small[0] and any(small[1:]) else FLOAT


def _is_matrix(value: Value) -> bool:
    kind = value.type
    return isinstance(kind, TensorType) and (kind.shape is None or len(kind.shape) > 1)


def _element(value: Value, parts: list[_Part]) -> DType | None:
    """The element type of a value, or of what it was dequantized from."""
    node = value.producer
    if parts:
        value = parts[0].value
    elif node is not None and node.kind == "DequantizeLinear":
        value = node.inputs[0] or value
    return value.dtype if isinstance(value.type, TensorType) else None
