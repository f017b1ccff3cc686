"""Sequences and optionals whose parts are known before the run, as plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from infuse import dtypes
from infuse.ir.clone import clone, clone_nodes
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import OptionalType, SequenceType, TensorType
from infuse.lowering.expand.composer import Composer
from infuse.ops.core.inference import infer_graph

_KINDS: Final = (
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceConstruct",
    "SequenceEmpty",
)
_KINDS_OF_PARTS: Final = (
    "SequenceAt",
    "SequenceLength",
    "SplitToSequence",
    "SequenceMap",
    "ConcatFromSequence",
)
Step = Callable[["_Flattening", Composer, Node], bool]
_STEPS: dict[str, Step] = {}
"""How an operator is understood; False where it is not, so that the node stays."""


def flatten(graph: Graph) -> Graph:
    """`graph`, or a copy that has plain tensors in place of sequences and optionals whose parts are
    known.

    Where such a sequence leaves the graph, it is made of its parts at the very end.
    """
    kinds = {
        n.kind for inner in graph.all_graphs() for n in inner.unordered_nodes if n.op.domain == ""
    }
    if not kinds & {*_KINDS, *_KINDS_OF_PARTS}:
        return graph
    copy = clone(graph)
    flattening = _Flattening()
    flattening.run(copy)
    if not flattening.changed:
        return graph
    seen: set[int] = set()
    for node in copy.nodes:
        if node.serial in seen:  # each can be left to the interpreter alone
            node.renumber()
        seen.add(node.serial)
    infer_graph(copy)
    return copy


def is_flattened(domain: str, kind: str) -> bool:
    """Whether an operator becomes plain tensors where its parts are known."""
    return not domain and kind in (*_KINDS, *_KINDS_OF_PARTS, "SequenceInsert", "SequenceErase")


def _step(*kinds: str) -> Callable[[Step], Step]:
    def register(function: Step) -> Step:
        _STEPS.update(dict.fromkeys(kinds, function))
        return function

    return register


class _Flattening:
    """What is known of sequences and optionals while a graph is read from its beginning."""

    def __init__(self) -> None:
        self.parts: dict[Value, list[Value]] = {}
        """The elements of a sequence."""
        self.held: dict[Value, Value | None] = {}
        """What an optional holds, or None."""
        self.changed = False

    def run(self, graph: Graph) -> None:
        pending = graph.nodes[::-1]
        while pending:
            node = pending.pop()
            for body in node.subgraphs.values():
                self.run(body)
            step = _STEPS.get(node.kind) if node.op.domain == "" else None
            if step is not None and step(self, make := Composer(graph, node), node):
                pending += reversed([made for made in make.made if made.kind in _STEPS])
        self._finish(graph)

    def replace(self, old: Value, new: Value) -> bool:
        """Let all readers of `old` read `new`."""
        old.replace_by(new)
        self.changed = True
        return True

    def _finish(self, graph: Graph) -> None:
        """Make what is still read as a sequence of its parts, and take out what nobody reads."""
        for node in graph.nodes[::-1]:
            for value in node.outputs:
                if (
                    value.uses
                    and value in self.parts
                    and node.kind not in ("SequenceConstruct", "SequenceEmpty")
                ):
                    self._construct(graph, node, value)
            if (
                node.op.domain == ""
                and node.kind in _STEPS
                and not any(v.uses for v in node.outputs)
            ):
                graph.remove(node)

    def _construct(self, graph: Graph, node: Node, value: Value) -> None:
        make, parts = Composer(graph, node), self.parts[value]
        if parts:
            self.replace(value, make("SequenceConstruct", *parts))
        elif isinstance(value.type, SequenceType) and isinstance(value.type.element, TensorType):
            self.replace(value, make("SequenceEmpty", dtype=value.type.element.dtype))


def _is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def _operand(node: Node, index: int = 0) -> Value:
    value = node.inputs[index]
    assert value is not None
    return value


def _place(position: Value | None, count: int, end: int) -> int | None:
    """A position as an index; None where it is not known, or lies outside (which the run
    reports).
    """
    if position is None:
        return end - 1 if end else None
    places = known_ints(position)
    if (
        places is None
        or len(places) != 1
        or not isinstance(places[0], int)
        or not -count <= places[0] < end
    ):
        return None
    return places[0] + count if places[0] < 0 else places[0]


# -- sequences -------------------------------------------------------------------------------------


@_step("SequenceConstruct", "SequenceEmpty")
def _construct(state: _Flattening, make: Composer, node: Node) -> bool:
    state.parts[node.output] = list(node.operands())
    return True


@_step("SequenceInsert", "SequenceErase")
def _edit(state: _Flattening, make: Composer, node: Node) -> bool:
    parts, inserts = state.parts.get(_operand(node)), node.kind == "SequenceInsert"
    if parts is None:
        return False
    place = _place(node.input(2 if inserts else 1), len(parts), len(parts) + inserts)
    if place is None:
        return False
    middle = [_operand(node, 1)] if inserts else []
    state.parts[node.output] = [*parts[:place], *middle, *parts[place + (not inserts) :]]
    return True


@_step("SequenceAt")
def _at(state: _Flattening, make: Composer, node: Node) -> bool:
    parts = state.parts.get(_operand(node))
    if not parts:
        return False
    position = _operand(node, 1)
    place = _place(position, len(parts), len(parts))
    if place is not None:
        return state.replace(node.output, parts[place])
    if (
        known_ints(position) is not None
        or any(p.type != parts[0].type for p in parts)
        or not _has_rank(parts[0])
    ):
        return False
    stacked = make("Concat", *(make("Unsqueeze", part, make.ints(0)) for part in parts), axis=0)
    return state.replace(node.output, make("Gather", stacked, make.reshape(position), axis=0))


@_step("SequenceLength")
def _length(state: _Flattening, make: Composer, node: Node) -> bool:
    parts = state.parts.get(_operand(node))
    return parts is not None and state.replace(node.output, make.size(len(parts)))


@_step("ConcatFromSequence")
def _concat(state: _Flattening, make: Composer, node: Node) -> bool:
    parts, attributes = state.parts.get(_operand(node)), node.op.attributes()
    if not parts or not all(map(_has_rank, parts)):
        return False
    axis = attributes["axis"]
    if attributes["new_axis"]:
        axis %= parts[0].rank + 1
        parts = [make("Unsqueeze", part, make.ints(axis)) for part in parts]
    return state.replace(node.output, make("Concat", *parts, axis=axis))


@_step("SplitToSequence")
def _split(state: _Flattening, make: Composer, node: Node) -> bool:
    x, split, attributes = _operand(node), node.input(1), node.op.attributes()
    if not _has_rank(x):
        return False
    axis = attributes["axis"] % x.rank
    count, sizes = _split_sizes(x.shape[axis], split)
    if not count:
        return False
    parts = make.several(
        count, "Split", x, sizes if isinstance(sizes, Value) else make.ints(*sizes), axis=axis
    )
    if split is None and not attributes["keepdims"]:
        parts = [make("Squeeze", part, make.ints(axis)) for part in parts]
    state.parts[node.output] = parts
    state.changed = True
    return True


def _split_sizes(size: Dim, split: Value | None) -> tuple[int, Sequence[Dim] | Value]:
    """How many parts there are, and how large they are; none where nobody knows."""
    if split is not None and not _has_rank(split):
        return 0, ()
    if split is not None and split.rank == 1:
        count = split.shape[0]
        return (count, split) if isinstance(count, int) else (0, ())
    lengths: Sequence[Dim] | None = (1,) if split is None else known_ints(split)
    if (
        not isinstance(size, int)
        or not lengths
        or not isinstance(lengths[0], int)
        or lengths[0] < 1
    ):
        return 0, ()
    whole, rest = divmod(size, lengths[0])
    sizes = [lengths[0]] * whole + [rest] * bool(rest)
    return len(sizes), sizes


@_step("SequenceMap")
def _map(state: _Flattening, make: Composer, node: Node) -> bool:
    first = state.parts.get(_operand(node))
    sequences = [v for v in node.operands() if isinstance(v.type, SequenceType)]
    if first is None or any(len(state.parts.get(v, ())) != len(first) for v in sequences):
        return False
    body = node.subgraphs["body"]
    rows = []
    for index in range(len(first)):
        values = {
            inner: state.parts[parameter][index] if parameter in state.parts else parameter
            for inner, parameter in zip(body.inputs, node.operands())
        }
        for copy in clone_nodes(body.nodes, values):
            make.made.append(make.graph.add_node(copy))
            copy.op.infer_node(copy)
        rows.append([values.get(v, v) for v in body.outputs])
    state.parts.update((value, [row[i] for row in rows]) for i, value in enumerate(node.outputs))
    state.changed = True
    return True


def _has_rank(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is not None


# -- optionals -------------------------------------------------------------------------------------


@_step("Optional")
def _optional(state: _Flattening, make: Composer, node: Node) -> bool:
    state.held[node.output] = node.input(0)
    return True


@_step("OptionalHasElement")
def _has_element(state: _Flattening, make: Composer, node: Node) -> bool:
    value = node.input(0)
    if value is not None and value not in state.held and isinstance(value.type, OptionalType):
        return False
    there = value is not None and state.held.get(value, value) is not None
    return state.replace(node.output, make.number(there, dtypes.bool_))


@_step("OptionalGetElement")
def _get_element(state: _Flattening, make: Composer, node: Node) -> bool:
    value = _operand(node)
    if value not in state.held and isinstance(value.type, OptionalType):
        return False
    held = state.held.get(value, value)
    if held is None:
        return False
    if held in state.parts:
        state.parts[node.output] = state.parts[held]
    return state.replace(node.output, held)


@_step("Identity")
def _identity(state: _Flattening, make: Composer, node: Node) -> bool:
    value = _operand(node)
    if _is_tensor(value):
        return False
    if value in state.parts:
        state.parts[node.output] = state.parts[value]
    if value in state.held:
        state.held[node.output] = state.held[value]
    return state.replace(node.output, value)
