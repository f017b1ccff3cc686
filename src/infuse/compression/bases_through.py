"""How channels go through operators, where these treat them all alike: for each operator, which of
its operands and results have them, and along which axis.
"""

from __future__ import annotations

from collections.abc import Callable

from infuse import dtypes
from infuse.compression.bases_walk import Fixed, Walk, moved
from infuse.compression.forms import bias_of
from infuse.compression.layers import Layer
from infuse.ir.contents import known_ints
from infuse.ir.graph import Node, Value

NORMALIZATIONS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
Rule = Callable[[Walk, Node, int, int, "Node | None"], None]
"""Takes a walk, a node, one of its operands (0, 1, …) or results (-1, -2, …), the axis of the
channels there, and the normalization whose scale was not applied yet.
"""
_RULES: dict[str, Rule] = {}
_MOVES: set[str] = set()
"""What may be between a normalization and the layers that read it: what moves rows, and means, as
those of a constant are the constant.
"""


def through(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    """Follow channels through a node. `Fixed` where they cannot be turned there."""
    layer = walk.makers.get(node)
    if layer is not None and end in (0, -1):
        _layer(walk, node, end, axis, norm)
        return
    if is_norm(node):
        _norm(walk, node, end, axis, norm)
        return
    rule = None if node.op.domain or node.subgraphs else _RULES.get(node.kind)
    if rule is None:
        raise Fixed(f"{node.kind} {node.name!r} treats each channel in its own way")
    if norm is not None and node.kind not in _MOVES:
        raise Fixed(f"{node.kind} {node.name!r} reads a normalization that layers read, too")
    rule(walk, node, end, axis, norm)


def _rule(*kinds: str, moves: bool = False) -> Callable[[Rule], Rule]:
    def declare(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        _MOVES.update(kinds if moves else ())
        return rule

    return declare


def _value(node: Node, end: int) -> Value:
    value = node.inputs[end] if end >= 0 else node.outputs[~end]
    assert value is not None
    return value


def _take(walk: Walk, node: Node, operand: int, axis: int, norm: Node | None = None) -> None:
    """An operand has the channels: it is turned where it is made, or as a constant."""
    value = node.inputs[operand]
    if value is not None and value.is_const:
        walk.fold(node, operand, axis)
    else:
        walk.take(value, axis, norm)


# -- layers and normalizations ---------------------------------------------------------------------


def _layer(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    layer = walk.makers[node]
    x, result = layer.activation, node.output
    if layer.is_convolution and (node.kind != "Conv" or layer.sizes[0] > 1):
        raise Fixed(f"{node.kind} {node.name!r} in groups, or transposed")
    depth_at = 1 if layer.is_convolution else x.rank - 1
    columns_at = layer.output_axis
    if end == 0 and axis == depth_at:
        if norm is not None and (layer.is_convolution or not _bias_fits(layer)):
            raise Fixed(f"{node.kind} {node.name!r} cannot add what {norm.name!r} adds")
        walk.fold(node, 1, 1 - layer.channel_axis, norm)
    elif end == -1 and axis == columns_at:
        if not _bias_fits(layer):
            raise Fixed(f"{node.kind} {node.name!r} adds another value")
        walk.fold(node, 1, layer.channel_axis)
        if layer.kind != "MatMul" and node.input(2) is not None:
            walk.fold(node, 2, -1)
    elif node.kind == "MatMul" and norm is None and axis == x.rank - 2 == result.rank - 2:
        walk.take(result if end == 0 else x, axis)
    else:
        raise Fixed(f"{node.kind} {node.name!r} treats each channel in its own way")


def _norm(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    if end == 0 and norm is None and axis == node.output.rank - 1:
        walk.norms[node] = None
        walk.take(node.output, axis, node)
    elif end != -1 or norm is not node:
        raise Fixed(f"{node.kind} {node.name!r} scales each channel, and not only layers read it")


def is_norm(node: Node) -> bool:
    """Whether a node normalizes rows along the last axis by constants of float32, one for each
    channel.
    """
    if node.kind not in NORMALIZATIONS or any(value.uses for value in node.outputs[1:]):
        return False
    x, scale, bias = node.inputs[0], node.input(1), node.input(2)
    if x is None or x.tensor.shape is None or scale is None:
        return False
    if node.op.attributes()["axis"] not in (-1, x.rank - 1):
        return False
    parts = [part for part in (scale, bias) if part is not None]
    return all(p.is_const and p.dtype == dtypes.float32 and p.shape == x.shape[-1:] for p in parts)


def _bias_fits(layer: Layer) -> bool:
    """Whether a layer adds nothing, or a constant for each output channel."""
    return layer.kind == "MatMul" or layer.node.input(2) is None or bias_of(layer) is not None


# -- sums and products -----------------------------------------------------------------------------


@_rule("Add", "Sub", "Sum", "Neg")
def _sum(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    behind = _value(node, end).rank - axis
    walk.take(node.output, node.output.rank - behind)
    for index, value in enumerate(node.inputs):
        assert value is not None
        place = value.rank - behind
        if place >= 0 and value.shape[place] != 1:
            _take(walk, node, index, place)


@_rule("Mul", "Div")
def _scaled(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    """A product with what is one number for all channels."""
    behind = _value(node, end).rank - axis
    walk.take(node.output, node.output.rank - behind)
    wide = []
    for index, value in enumerate(node.inputs):
        assert value is not None
        place = value.rank - behind
        if place >= 0 and value.shape[place] != 1:
            wide.append((index, place))
    if len(wide) != 1 or (node.kind == "Div" and wide[0][0] != 0):
        raise Fixed(f"{node.kind} {node.name!r} treats each channel in its own way")
    _take(walk, node, *wide[0])


@_rule("MatMul")
def _product(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    """A product of two values, along whose depth the turns of both cancel."""
    x, y = _value(node, 0), _value(node, 1)
    if min(x.rank, y.rank) < 2:
        raise Fixed(f"{node.kind} {node.name!r} multiplies vectors")
    from_end = axis - _value(node, end).rank
    if (end == 0 and from_end == -1) or (end == 1 and from_end == -2):
        _take(walk, node, 0, x.rank - 1)
        _take(walk, node, 1, y.rank - 2)
    elif end in (1, -1) and from_end == -1:
        walk.take(node.output, node.output.rank - 1)
        _take(walk, node, 1, y.rank - 1)
    elif end in (0, -1) and from_end == -2:
        walk.take(node.output, node.output.rank - 2)
        _take(walk, node, 0, x.rank - 2)
    else:
        raise Fixed(f"{node.kind} {node.name!r} multiplies each channel by another matrix")


@_rule("Attention")
def _attention(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    """Queries and keys are turned together, values with the result."""
    attributes, value = node.op.attributes(), _value(node, end)
    is_extended = any(node.input(i) is not None for i in (4, 5))
    if is_extended or any(each.uses for each in node.outputs[1:]) or axis != value.rank - 1:
        raise Fixed(f"{node.kind} {node.name!r} has past keys or further results")
    for operand in (0, 1) if end in (0, 1) else (2,):
        part = _value(node, operand)
        size = part.shape[-1]
        heads = attributes["kv_num_heads" if operand else "q_num_heads"]
        if part.rank == 3:
            assert isinstance(size, int)
            size //= heads
        assert isinstance(size, int)
        walk.whole(size)
        _take(walk, node, operand, part.rank - 1)
    if end not in (0, 1):
        walk.take(node.output, node.output.rank - 1)


@_rule("ReduceSum")
@_rule("ReduceMean", moves=True)
def _reduced(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    x, axes, keeps = _value(node, 0), known_ints(node.input(1)), node.op.attributes()["keepdims"]
    if axes is None:
        raise Fixed(f"{node.kind} {node.name!r} takes axes that only a run tells")
    gone = {each % x.rank for each in axes} if axes else set(range(x.rank))
    places = [a for a in range(x.rank) if keeps or a not in gone]
    own = axis if end == 0 else places[axis]
    if own in gone:
        raise Fixed(f"{node.kind} {node.name!r} is computed along the channels")
    _pair(walk, node, own, places.index(own), norm)


@_rule("GlobalAveragePool", moves=True)
def _pooled(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    if axis != 1:
        raise Fixed(f"{node.kind} {node.name!r} is computed along the channels")
    _pair(walk, node, 1, 1, norm)


# -- movement --------------------------------------------------------------------------------------


def _pair(walk: Walk, node: Node, axis: int, result_axis: int, norm: Node | None) -> None:
    _take(walk, node, 0, axis, norm)
    walk.take(node.output, result_axis, norm)


@_rule("Identity", moves=True)
def _identity(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    _pair(walk, node, axis, axis, norm)


@_rule("Reshape", moves=True)
def _reshape(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    x, result = _value(node, 0).shape, node.output.shape
    here, there = (x, result) if end == 0 else (result, x)
    other = moved(here, axis, there, walk.block)
    if norm is not None and here[axis] != there[other]:
        raise Fixed(f"{node.kind} {node.name!r} cuts what a normalization makes")
    _pair(walk, node, *((axis, other) if end == 0 else (other, axis)), norm)


@_rule("Transpose", moves=True)
def _transpose(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    order = node.op.attributes()["perm"] or tuple(reversed(range(node.output.rank)))
    own = axis if end == 0 else order[axis]
    _pair(walk, node, own, order.index(own), norm)


@_rule("Split", moves=True)
def _split(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    rank = node.output.rank
    if node.op.attributes()["axis"] % rank == axis and norm is not None:
        raise Fixed(f"{node.kind} {node.name!r} cuts what a normalization makes")
    for part in node.outputs:
        size = part.shape[axis]
        if isinstance(size, int) and size < walk.block:
            walk.split(size)
        walk.take(part, axis, norm)
    _take(walk, node, 0, axis, norm)


@_rule("Concat", moves=True)
def _concat(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    is_along = node.op.attributes()["axis"] % node.output.rank == axis
    for index, part in enumerate(node.inputs):
        assert part is not None
        size = part.shape[axis]
        if is_along and isinstance(size, int) and size < walk.block:
            walk.split(size)
        if norm is not None and (part.is_const or is_along):
            raise Fixed(f"{node.kind} {node.name!r} adds to what a normalization makes")
        _take(walk, node, index, axis, norm)
    walk.take(node.output, axis, norm)


@_rule("Slice", moves=True)
def _slice(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    if _value(node, 0).shape[axis] != node.output.shape[axis]:
        raise Fixed(f"{node.kind} {node.name!r} takes some of the channels")
    steps, axes = known_ints(node.input(4)), known_ints(node.input(3))
    if steps is None and node.input(4) is not None:
        raise Fixed(f"{node.kind} {node.name!r} takes steps that only a run tells")
    rank = node.output.rank
    for place, step in zip(axes or range(rank), steps or ()):
        if place % rank == axis and step != 1:
            raise Fixed(f"{node.kind} {node.name!r} turns the channels around")
    _pair(walk, node, axis, axis, norm)


@_rule("Gather", moves=True)
def _gather(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    data, rows = _value(node, 0), _value(node, 1)
    along = node.op.attributes()["axis"] % data.rank
    more = rows.rank - 1
    if end == 0:
        own = axis
    elif end == -1 and not along <= axis <= along + more:
        own = axis if axis < along else axis - more
    else:
        own = along
    if own == along:
        raise Fixed(f"{node.kind} {node.name!r} picks channels")
    _pair(walk, node, own, own if own < along else own + more, norm)


@_rule("Expand")
def _expand(walk: Walk, node: Node, end: int, axis: int, norm: Node | None) -> None:
    x, behind = _value(node, 0), _value(node, end).rank - axis
    place = x.rank - behind
    if place < 0 or x.shape[place] != node.output.shape[node.output.rank - behind]:
        raise Fixed(f"{node.kind} {node.name!r} makes channels of one")
    _pair(walk, node, place, node.output.rank - behind, norm)
