"""Graphs without the channels that are removed: smaller constants, and attributes and operands that
tell sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from infuse.compression.forms import Writer
from infuse.compression.pruning.groups import Dependencies, Group
from infuse.compression.pruning.links import Bools
from infuse.compression.pruning.rules import slice_ranges
from infuse.errors import GraphError
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Node, Value, as_content, constant
from infuse.ir.types import TensorType
from infuse.ops.core.base import Op, infer_node

Stay = Callable[[Value, int], Bools | None]
"""Which indices of an axis of the original graph stay; None where all do."""
Narrowing = Callable[[Node, Node, Writer, Stay], None]
_NARROWINGS: dict[str, Narrowing] = {}


def removed_from(
    dependencies: Dependencies, removed: Mapping[Group, Bools]
) -> tuple[Graph, dict[Value, Value]]:
    """A copy of the graph without channels (`removed` tells of each whether it goes), and the
    copies of its values.
    """
    graph = dependencies.graph
    alive = dependencies.alive(removed)

    def stay(value: Value, axis: int) -> Bools | None:
        atoms = dependencies.places.get((value, axis))
        return None if atoms is None or alive[atoms].all() else alive[atoms]

    values: dict[Value, Value] = {}
    copy = clone(graph, values)
    for value in {value for value, _ in dependencies.places if value.is_const}:
        _take(value, values[value], stay)
    for node, own in zip(graph.nodes, copy.nodes):
        narrow = None if node.op.domain else _NARROWINGS.get(node.kind)
        if narrow is not None:
            narrow(node, own, Writer(copy, own, own.name or own.kind), stay)
    for own in copy.nodes:
        infer_node(own)
    _check(graph, values, stay)
    return copy, values


def _take(value: Value, copy: Value, stay: Stay) -> None:
    """Give the copy of a constant the elements that stay."""
    array = value.const
    assert array is not None
    for axis in range(array.ndim):
        indices = stay(value, axis)
        if indices is not None:
            array = np.compress(indices, array, axis)
    if array is not value.const:
        _set_constant(copy, np.ascontiguousarray(array))


def _set_constant(value: Value, array: Array) -> None:
    value.const = array
    value.type = TensorType(value.dtype, array.shape)
    if value.content is not None:
        value.content = as_content(array)


def _check(graph: Graph, values: Mapping[Value, Value], stay: Stay) -> None:
    """GraphError unless every value has the sizes that the removal says."""
    for node in graph.nodes:
        for value in node.outputs:
            if not isinstance(value.type, TensorType) or value.type.shape is None:
                continue
            left = [stay(value, axis) for axis in range(value.rank)]
            expected = tuple(
                size if each is None else int(each.sum()) for size, each in zip(value.shape, left)
            )
            if any(
                isinstance(size, int) and isinstance(new, int) and size != new
                for size, new in zip(expected, values[value].shape)
            ):
                raise GraphError(
                    f"without its channels it is {values[value].type}, and should have the shape "
                    f"{expected}",
                    where=f"{node.kind} node {node.name!r}",
                    hint="this is a mistake of Infuse: report it with the model",
                )


# -- operators that tell sizes ---------------------------------------------------------------------


def narrows(*kinds: str) -> Callable[[Narrowing], Narrowing]:
    """Declare what changes in operators of ONNX, by their names, when channels go: it gets the node
    of the original, its copy, and what adds nodes to the copy.
    """

    def declare(narrowing: Narrowing) -> Narrowing:
        _NARROWINGS.update(dict.fromkeys(kinds, narrowing))
        return narrowing

    return declare


def _count(stay: Stay, value: Value | None, axis: int) -> int:
    assert value is not None
    left = stay(value, axis)
    return int(str(value.shape[axis])) if left is None else int(left.sum())


def _replace(node: Node, **changes: int) -> None:
    assert isinstance(node.op, Op)
    node.op = node.op.replace(**changes)


@narrows("Conv")
def _convolution(node: Node, copy: Node, write: Writer, stay: Stay) -> None:
    if node.op.attributes()["group"] > 1:
        depth = _count(stay, node.inputs[1], 1)
        _replace(copy, group=_count(stay, node.inputs[0], 1) // depth)


@narrows("ConvTranspose")
def _transposed_convolution(node: Node, copy: Node, write: Writer, stay: Stay) -> None:
    if node.op.attributes()["group"] > 1:
        depth = _count(stay, node.inputs[1], 1)
        _replace(copy, group=_count(stay, node.output, 1) // depth)


@narrows("GroupNormalization")
def _normalized_groups(node: Node, copy: Node, write: Writer, stay: Stay) -> None:
    x = node.inputs[0]
    assert x is not None
    size = int(str(x.shape[1])) // node.op.attributes()["num_groups"]
    _replace(copy, num_groups=_count(stay, x, 1) // size)


@narrows("Split")
def _split(node: Node, copy: Node, write: Writer, stay: Stay) -> None:
    x = node.inputs[0]
    assert x is not None
    axis = int(node.op.attributes()["axis"]) % x.rank
    if stay(x, axis) is not None:
        sizes = write.ints(*(_count(stay, value, axis) for value in node.outputs))
        _replace_count(copy)
        copy.set_inputs([copy.inputs[0], sizes])


def _replace_count(node: Node) -> None:
    assert isinstance(node.op, Op)
    node.op = node.op.replace(num_outputs=None)


@narrows("Slice")
def _slice(node: Node, copy: Node, write: Writer, stay: Stay) -> None:
    x, ranges = node.inputs[0], slice_ranges(node)
    assert x is not None
    if ranges is None or all(stay(x, axis) is None for axis in ranges):
        return
    rows = []
    for axis, part in ranges.items():
        left = stay(x, axis)
        start, stop = part.start, part.stop
        if left is not None:
            start, stop = int(left[:start].sum()), int(left[:stop].sum())
        rows.append((start, stop, axis, part.step))
    columns = [write.ints(*column) for column in zip(*rows)]
    copy.set_inputs([copy.inputs[0], *columns])


@narrows("Gather")
def _gather(node: Node, copy: Node, write: Writer, stay: Stay) -> None:
    data, indices = node.inputs[0], node.inputs[1]
    assert data is not None
    assert indices is not None
    axis = int(node.op.attributes()["axis"]) % data.rank
    left = stay(data, axis)
    if left is not None and indices.const is not None:
        picked = np.asarray(indices.const, np.int64) % len(left)
        places = np.cumsum(left) - 1
        copy.set_operand(1, constant(places[picked[left[picked]]]))


@narrows("Reshape", "Expand")
def _reshape(node: Node, copy: Node, write: Writer, stay: Stay) -> None:
    _set_sizes(node, copy, write, stay, 1)


@narrows("Resize")
def _resize(node: Node, copy: Node, write: Writer, stay: Stay) -> None:
    if node.input(3) is not None and not node.op.attributes()["axes"]:
        _set_sizes(node, copy, write, stay, 3)


def _set_sizes(node: Node, copy: Node, write: Writer, stay: Stay, index: int) -> None:
    """Let the operand that lists the sizes of the result have those that change."""
    result = node.output
    left = [stay(result, axis) for axis in range(result.rank)]
    if all(each is None for each in left):
        return
    sizes = copy.inputs[index]
    assert sizes is not None
    missing = result.rank - int(str(sizes.shape[0]))
    left = left[missing:]
    changed = np.array([each is not None for each in left])
    numbers = np.array([0 if each is None else each.sum() for each in left], np.int64)
    if sizes.const is not None:
        chosen = constant(np.where(changed, numbers, sizes.const))
    else:
        chosen = write("Where", constant(changed), constant(numbers), sizes)
    copy.set_operand(index, chosen)
