"""Graphs and functions of a model: nodes by name, what they read, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir.graph import Array


class Ref(NamedTuple):
    """A result of a node, or of an argument of a function."""

    node: str
    place: int = 0

    def __str__(self) -> str:
        return f"{self.node}:{self.place}" if self.place else self.node


OUTPUTS: Final[dict[str, tuple[str, ...]]] = {
    "Switch": ("output_false", "output_true"), "RefSwitch": ("output_false", "output_true"),
    "Merge": ("output", "value_index"), "RefMerge": ("output", "value_index"),
    "TopKV2": ("values", "indices"), "TopK": ("values", "indices"), "Unique": ("y", "idx"),
    "UniqueV2": ("y", "idx"), "UniqueWithCounts": ("y", "idx", "count"),
    "UniqueWithCountsV2": ("y", "idx", "count"),
    "FusedBatchNorm": ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"),
    "FusedBatchNormV2": (
        "y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2",
    ),
    "FusedBatchNormV3": (
        "y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2",
        "reserve_space_3",
    ),
    "NonMaxSuppressionV4": ("selected_indices", "valid_outputs"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
    "TensorArrayV3": ("handle", "flow"), "TensorListPopBack": ("output_handle", "tensor"),
    "TensorListConcatV2": ("tensor", "lengths"), "TensorArrayConcatV3": ("value", "lengths"),
    "TensorListConcat": ("tensor", "lengths"), "Moments": ("mean", "variance"),
    "ListDiff": ("out", "idx"), "MaxPoolWithArgmax": ("output", "argmax"),
    "BlockLSTM": ("i", "cs", "f", "o", "ci", "co", "h"),
    "BlockLSTMV2": ("i", "cs", "f", "o", "ci", "co", "h"),
    "LSTMBlockCell": ("i", "cs", "f", "o", "ci", "co", "h"),
    "GRUBlockCell": ("r", "u", "c", "h"),
    "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "QuantizeV2": ("output", "output_min", "output_max"),
    "LookupTableExport": ("keys", "values"), "LookupTableExportV2": ("keys", "values"),
    "StringSplitV2": ("indices", "values", "shape"), "StringNGrams": ("ngrams", "ngrams_splits"),
}  # fmt: skip
"""Names of results of operators that have several, each a tensor by itself."""


@dataclass(frozen=True)
class FlowNode:
    """A call of an operator: the results that it reads, the nodes it comes after, attributes."""

    name: str
    op: str
    inputs: tuple[Ref, ...]
    controls: tuple[str, ...]
    attributes: Mapping[str, Any] = field(repr=False)

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as Python has it: numbers, text of bytes, messages of shapes, tensors and
        functions, and lists; `default` where it is not there.
        """
        if name not in self.attributes:
            return default
        message = self.attributes[name]
        for kind in _KINDS:
            if message.HasField(kind):
                value = getattr(message, kind)
                return _listed(value) if kind == "list" else value
        if message.HasField("placeholder"):
            raise UnsupportedOperatorError(
                f"the attribute {name} is that of a function of any types, which is not supported"
            )
        return default


_KINDS: Final = ("s", "i", "f", "b", "type", "shape", "tensor", "list", "func")


def _listed(message: Any) -> list[Any]:
    for kind in ("s", "i", "f", "b", "type", "shape", "func"):
        values = getattr(message, kind)
        if values:
            return list(values)
    return []


@dataclass
class FlowRegion:
    """A graph, or the body of a function: nodes by name, arguments, results."""

    name: str
    nodes: dict[str, FlowNode]
    arguments: tuple[str, ...] = ()
    results: tuple[Ref, ...] = ()
    effects: tuple[str, ...] = ()
    """Nodes that run whether or not a result needs them."""

    def node(self, name: str) -> FlowNode:
        """The node of this name."""
        node = self.nodes.get(name)
        if node is None:
            raise ModelFileError(f"{name!r} is read, and there is no node of that name")
        return node

    @cached_property
    def readers(self) -> dict[str, list[FlowNode]]:
        """Who reads each node."""
        readers: dict[str, list[FlowNode]] = {}
        for node in self.nodes.values():
            for name in dict.fromkeys(ref.node for ref in node.inputs):
                readers.setdefault(name, []).append(node)
        return readers


def _reference(text: str, functions: Mapping[str, Any], ops: Mapping[str, str]) -> Ref:
    name, *place = text.split(":")
    try:
        if not place:
            return Ref(name)
        if len(place) == 1 and place[0].isdigit():
            return Ref(name, int(place[0]))
        index = int(place[1]) if len(place) > 1 else 0
    except ValueError as error:
        raise ModelFileError(f"{text[:80]!r} names no result") from error
    op = ops.get(name, "")
    names = OUTPUTS.get(op)
    if op in functions:
        names = tuple(arg.name for arg in functions[op].signature.output_arg)
    if names is None:
        return Ref(name, index)
    if place[0] not in names:
        raise ModelFileError(f"{text[:80]!r}: {op} has no result {place[0]!r}")
    return Ref(name, names.index(place[0]) + index)


def nodes_of(messages: Sequence[Any], functions: Mapping[str, Any]) -> dict[str, FlowNode]:
    """Nodes by name; ModelFileError where two have one."""
    ops = {message.name: message.op for message in messages}
    if len(ops) != len(messages):
        raise ModelFileError("two nodes have one name")
    nodes = {}
    for message in messages:
        inputs = tuple(
            _reference(text, functions, ops) for text in message.input if text[:1] != "^"
        )
        controls = tuple(text[1:] for text in message.input if text[:1] == "^")
        nodes[message.name] = FlowNode(message.name, message.op, inputs, controls, message.attr)
    return nodes


class FlowModel:
    """A graph with its library of functions. `weights` are constants that lie elsewhere."""

    def __init__(self, graph: Any, weights: Mapping[str, Array] | None = None) -> None:
        self.functions = {function.signature.name: function for function in graph.library.function}
        self.main = FlowRegion("graph", nodes_of(graph.node, self.functions))
        self.weights = weights
        self._regions: dict[str, FlowRegion] = {}

    def function(self, name: str) -> FlowRegion:
        """The body of a function."""
        if name not in self._regions:
            self._regions[name] = self._function(name)
        return self._regions[name]

    def _function(self, name: str) -> FlowRegion:
        message = self.functions.get(name)
        if message is None:
            raise ModelFileError(f"there is no function {name!r}")
        nodes = nodes_of(message.node_def, self.functions)
        ops = {node.name: node.op for node in nodes.values()}
        arguments = tuple(arg.name for arg in message.signature.input_arg)
        results = []
        for arg in message.signature.output_arg:
            if arg.name not in message.ret:
                raise ModelFileError(f"the function {name!r} does not say its result {arg.name!r}")
            results.append(_reference(message.ret[arg.name], self.functions, ops))
        effects = tuple(message.control_ret.values())
        return FlowRegion(name, nodes, arguments, tuple(results), effects)
