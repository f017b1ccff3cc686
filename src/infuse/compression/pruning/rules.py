"""How indices go through operators: what `shared_axes` says of most, and a rule for each family
that sums up, joins, cuts or reshapes axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from infuse.compression.pruning.links import Choice, Links, Place, has_axes
from infuse.compression.pruning.segments import Segment, segments
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value, captured
from infuse.ops.core.axes import Axes, aligned
from infuse.ops.core.base import Elementwise, Op
from infuse.ops.core.traits import Trait, has_trait
from infuse.ops.movement import Slice, bounds

Rule = Callable[[Node, Links], None]
_RULES: dict[str, Rule] = {}
NO_RULE = "how {} treats channels is not known"


def links_through(*kinds: str) -> Callable[[Rule], Rule]:
    """Declare the rule of operators of ONNX by their names."""

    def declare(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return declare


def link(node: Node, links: Links) -> None:
    """State what indices of a node's operands and results go together, and which stay."""
    op = node.op
    if node.subgraphs:
        links.close_node(node, f"{node.kind} has bodies")
        for value in captured(node):
            links.close_value(value, f"a body of {node.kind} reads it")
        return
    if not isinstance(op, Op) or not op.deterministic:
        links.close_node(node, NO_RULE.format(node.kind))
        return
    for value in node.outputs[1:] if node.kind != "Split" else ():
        if value.uses:
            links.close_node(node, f"further results of {node.kind} are read")
            return
    if not all(has_axes(value) for value in (*node.operands(), *node.outputs)):
        links.close_node(node, f"the number of axes of {node.kind} is not known")
        return
    rule = None if op.domain else _RULES.get(node.kind)
    (rule or _general_rule(node))(node, links)


def _general_rule(node: Node) -> Rule:
    """The rule of an operator that has none of its own."""
    if isinstance(node.op, Elementwise) and node.op.fixed_axes == 0:
        return _elementwise
    return _per_channel if has_trait(node, Trait.PER_CHANNEL) else _by_axes


def _operand(node: Node, index: int) -> Value:
    value = node.inputs[index]
    assert value is not None
    return value


# -- most operators --------------------------------------------------------------------------------


def _by_axes(node: Node, links: Links) -> None:
    axes = _link_shared(node, links)
    if axes is None:
        links.close_node(node, NO_RULE.format(node.kind))
    else:
        _close_mixed(node, links, axes)


def _link_shared(node: Node, links: Links) -> Axes | None:
    """Link the axes that a node's operands share with its result, but for those whose elements are
    computed from one another.
    """
    assert isinstance(node.op, Op)
    axes = node.op.shared_axes(node)
    if axes is None:
        return None
    where = {number: place for place, number in enumerate(axes.result)}
    for value, order in zip(node.inputs, axes.operands):
        if value is None:
            continue
        if order is None:
            links.close_value(value, f"{node.kind} reads it as a whole")
            continue
        for place, number in enumerate(order):
            if number not in axes.mixed and number in where:
                links.same((value, place), (node.output, where[number]))
    return axes


def _close_mixed(node: Node, links: Links, axes: Axes) -> None:
    """All axes stay whose elements are computed from one another."""
    why = f"{node.kind} is computed along it"
    for value, order in [*zip(node.inputs, axes.operands), (node.output, axes.result)]:
        for place, number in enumerate(order or ()):
            if number in axes.mixed and value is not None:
                links.close_axis((value, place), why)


def _elementwise(node: Node, links: Links) -> None:
    result = node.output
    for value in node.operands():
        behind = result.rank - value.rank
        for axis in range(value.rank):
            links.same((value, axis), (result, axis + behind))


def _per_channel(node: Node, links: Links) -> None:
    x, result = _operand(node, 0), node.output
    for axis in range(x.rank):
        if axis < 2 and result.rank > axis:
            links.same((x, axis), (result, axis))
        else:
            links.close_axis((x, axis), f"{node.kind} is computed along it")
    for axis in range(2, result.rank):
        links.close_axis((result, axis), f"{node.kind} is computed along it")
    for value in node.inputs[1:]:
        if value is not None and value.rank == 1:
            links.same((value, 0), (result, 1))


# -- normalizations --------------------------------------------------------------------------------


@links_through("LayerNormalization", "RMSNormalization")
def _normalized(node: Node, links: Links) -> None:
    axes = _link_shared(node, links)
    if axes is None:
        links.close_node(node, NO_RULE.format(node.kind))
    elif len(axes.mixed) > 1 or not links.opens_norms:
        _close_mixed(node, links, axes)
    else:
        last = node.output, node.output.rank - 1
        for value in node.operands():
            links.same((value, value.rank - 1), last)
        links.norm(last)


@links_through("ReduceMean")
def _mean(node: Node, links: Links) -> None:
    """The mean over one axis may be that of a normalization which is written out."""
    axes = _link_shared(node, links)
    if axes is None:
        links.close_node(node, NO_RULE.format(node.kind))
    elif not (links.opens_norms and len(axes.mixed) == 1 and node.op.attributes()["keepdims"]):
        _close_mixed(node, links, axes)
    else:
        (axis,) = axes.mixed
        links.norm((_operand(node, 0), axis))


@links_through("GroupNormalization")
def _normalized_groups(node: Node, links: Links) -> None:
    """Each group of channels has a mean of its own: whole groups can go."""
    _per_channel(node, links)
    channels, count = links.atoms(node.output, 1), int(node.op.attributes()["num_groups"])
    if channels is None or (count == 1 and not links.opens_norms):
        links.close(channels, f"{node.kind} is computed along it")
    elif count == 1:
        links.norm((node.output, 1))
    else:
        firsts = np.repeat(channels.reshape(count, -1)[:, 0], len(channels) // count)
        links.pair(firsts, channels)


# -- sums of products ------------------------------------------------------------------------------


@links_through("MatMul", "Gemm")
def _product(node: Node, links: Links) -> None:
    axes = _link_shared(node, links)
    if axes is None:
        links.close_node(node, f"{node.kind} of vectors, or of shapes that only a run tells")
        return
    (depth,) = axes.mixed
    left, right = axes.operands[0], axes.operands[1]
    assert left is not None
    assert right is not None
    a, b = _operand(node, 0), _operand(node, 1)
    places = (a, left.index(depth)), (b, right.index(depth))
    links.contract(node, *(places if b.is_const else reversed(places)))


@links_through("Conv")
def _convolution(node: Node, links: Links) -> None:
    _filters(node, links, inputs=1, outputs=0)


@links_through("ConvTranspose")
def _transposed_convolution(node: Node, links: Links) -> None:
    _filters(node, links, inputs=0, outputs=1)


def _filters(node: Node, links: Links, inputs: int, outputs: int) -> None:
    """Filters whose channels of the input and of the result lie along these axes; where there are
    groups, one of both is divided by their number.
    """
    x, w, result = _operand(node, 0), _operand(node, 1), node.output
    why = f"{node.kind} is computed along it"
    links.same((x, 0), (result, 0))
    for value in (x, w, result):
        for axis in range(2, value.rank):
            links.close_axis((value, axis), why)
    channels, results = links.atoms(x, 1), links.atoms(result, 1)
    groups = int(node.op.attributes()["group"])
    bias = node.input(2)
    if bias is not None:
        links.same((bias, 0), (result, 1))
    if channels is None or results is None:
        links.close_node(node, f"{node.kind} of channels that only a run counts")
    elif groups == 1:
        links.contract(node, (x, 1), (w, inputs))
        links.same((w, outputs), (result, 1))
    else:
        links.pair(np.repeat(channels.reshape(groups, -1)[:, 0], len(results) // groups), results)
        firsts = np.repeat(channels.reshape(groups, -1)[:, 0], len(channels) // groups)
        links.pair(firsts, channels)
        links.close_axis((w, 1), f"{node.kind} has groups of channels")
        links.same((w, 0), (result, 1) if outputs == 0 else (x, 1))


# -- axes that are joined and cut ------------------------------------------------------------------


@links_through("Concat")
def _joined(node: Node, links: Links) -> None:
    axes = _link_shared(node, links)
    assert axes is not None
    (axis,) = axes.mixed
    whole = links.atoms(node.output, axis)
    parts = [links.atoms(value, axis) for value in node.operands()]
    if whole is None or any(part is None for part in parts):
        _close_mixed(node, links, axes)
    else:
        links.pair(whole, np.concatenate([part for part in parts if part is not None]))


@links_through("Split")
def _split(node: Node, links: Links) -> None:
    x = _operand(node, 0)
    axis = int(node.op.attributes()["axis"]) % x.rank
    parts = [links.atoms(value, axis) for value in node.outputs]
    whole = links.atoms(x, axis)
    for value in node.outputs:
        for other in range(x.rank):
            if other != axis:
                links.same((x, other), (value, other))
    if whole is None or any(part is None for part in parts):
        for value in (x, *node.outputs):
            links.close_axis((value, axis), "Split cuts it at places that only a run tells")
    else:
        links.pair(whole, np.concatenate([part for part in parts if part is not None]))


@links_through("Slice")
def _cut(node: Node, links: Links) -> None:
    axes = _link_shared(node, links)
    ranges = slice_ranges(node)
    if axes is None or ranges is None:
        links.close_node(node, "Slice cuts at places that only a run tells")
        return
    for axis, picked in ranges.items():
        whole, part = links.atoms(_operand(node, 0), axis), links.atoms(node.output, axis)
        assert whole is not None
        links.pair(whole[picked], part)
        if picked.step != 1:
            links.close(whole, "Slice takes every few of it")


def slice_ranges(node: Node) -> Mapping[int, slice] | None:
    """What a Slice takes of each axis of a fixed size that it cuts; None where only a run tells."""
    assert isinstance(node.op, Slice)
    x, axes = _operand(node, 0), node.op.cut_axes(node)
    columns = [known_ints(node.input(index)) for index in (1, 2)]
    steps = known_ints(node.input(4)) if node.input(4) is not None else (1,) * len(axes or ())
    if axes is None or steps is None or None in columns:
        return None
    ranges = {}
    for axis, start, end, step in zip(axes, columns[0] or (), columns[1] or (), steps):
        size = x.shape[axis]
        if not all(isinstance(each, int) for each in (size, start, end, step)):
            return None
        if int(str(step)) < 0:
            return None
        begin, stop = bounds(int(str(size)), int(str(start)), int(str(end)), int(str(step)))
        ranges[axis] = slice(begin, max(begin, stop), int(str(step)))
    return ranges


@links_through("Gather")
def _gathered(node: Node, links: Links) -> None:
    data, indices = _operand(node, 0), _operand(node, 1)
    axis = int(node.op.attributes()["axis"]) % data.rank
    for other in range(data.rank):
        if other != axis:
            behind = other if other < axis else other + indices.rank - 1
            links.same((data, other), (node.output, behind))
    whole = links.atoms(data, axis)
    part = links.atoms(node.output, axis) if indices.rank == 1 else None
    if whole is not None and part is not None and indices.const is not None:
        links.pair(whole[np.asarray(indices.const, np.int64)], part)
        return
    links.close_axis((data, axis), "Gather looks up in it")
    for place in range(indices.rank):
        links.close_axis((indices, place), "Gather reads them as numbers")
        links.close_axis((node.output, axis + place), "Gather looks it up")


# -- axes in other shapes --------------------------------------------------------------------------


@links_through("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _reshaped(node: Node, links: Links) -> None:
    x, result = _operand(node, 0), node.output
    for segment in segments(x.shape, result.shape):
        _link_segment(node, links, segment)
    for value in node.inputs[1:]:
        if value is not None:
            links.close_value(value, f"{node.kind} reads it as sizes")


def _link_segment(node: Node, links: Links, segment: Segment) -> None:
    """Axes of an operand and of the result that have the same elements in the same order."""
    x, result = _operand(node, 0), node.output
    own: list[Place] = [(x, axis) for axis in segment.before]
    other: list[Place] = [(result, axis) for axis in segment.after]
    is_single = len(own) == len(other) == 1
    if is_single and x.shape[own[0][1]] == result.shape[other[0][1]]:
        links.same(own[0], other[0])
        return
    atoms = [links.atoms(*place) for place in (*own, *other)]
    one, many = (own, other) if len(own) == 1 else (other, own)
    if is_single or len(one) != 1 or any(each is None for each in atoms):
        for place in (*own, *other):
            links.close_axis(place, f"{node.kind} joins it with other axes")
        return
    shared = links.atoms(*one[0])
    assert shared is not None
    shape = [value.shape[axis] for value, axis in many]
    sizes = [int(str(size)) for size in shape]
    options = []
    for number, place in enumerate(many):
        across = np.indices(sizes)[number].reshape(-1)
        options.append((place, across))
    links.choices.append(Choice(node, shared, options))


@links_through("Expand")
def _expanded(node: Node, links: Links) -> None:
    x, result = _operand(node, 0), node.output
    order = aligned(x.shape, result.shape)
    if order is None:
        links.close_node(node, "Expand repeats it as often as a run tells")
        return
    for axis, place in enumerate(order):
        links.same((x, axis), (result, place))


@links_through("Resize")
def _resized(node: Node, links: Links) -> None:
    x, result = _operand(node, 0), node.output
    why = "Resize is computed along it"
    scales, sizes = (node.input(index) for index in (2, 3))
    factors = None if scales is None or scales.const is None else scales.const
    for axis in range(x.rank):
        same = x.shape[axis] == result.shape[axis]
        if factors is not None and factors.size == x.rank:
            same = same and factors[axis] == 1
        if same and axis < 2 and (factors is not None or sizes is not None):
            links.same((x, axis), (result, axis))
        else:
            links.close_axis((x, axis), why)
            links.close_axis((result, axis), why)
