"""Where the elements of a value lie in the value that movement operators made it from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Node, Value
from infuse.ir.types import Shape, TensorType
from infuse.passes.rules.common import RESHAPES, attribute, is_one, permutation
from infuse.passes.rules.movement.movement import cuts, fixed_range
from infuse.rewrite import Refusal

DEEPEST = 8
"""Movement operators that are looked through."""


class View(Immutable):
    """Elements of a dense tensor: the first one's index, and for each axis its size and the step to
    the next index.
    """

    offset: int
    axes: tuple[tuple[Dim, Dim], ...]


def dense(shape: Sequence[Dim]) -> View:
    """All elements of a tensor of this shape."""
    return View(0, tuple((size, dims.product(shape[i + 1 :])) for i, size in enumerate(shape)))


def views(value: Value) -> Iterator[tuple[Value, View]]:
    """`value` seen as a view of itself, then of each value above that only movement operators part
    it from.
    """
    chain: list[tuple[Node, Value]] = []
    source = value
    if not _known(source):
        return
    yield source, dense(source.shape)
    while source.producer is not None and len(chain) < DEEPEST:
        node = source.producer
        if (
            node.op.domain
            or not node.inputs
            or node.inputs[0] is None
            or not _known(node.inputs[0])
        ):
            return
        chain.insert(0, (node, source))
        source = node.inputs[0]
        view: View | None = dense(source.shape)
        for step, result in chain:
            view = through(step, result, view) if view is not None else None
        if view is None:
            return
        yield source, view


def _known(value: Value) -> bool:
    return (
        isinstance(value.type, TensorType) and value.type.shape is not None and not value.is_const
    )


def through(node: Node, result: Value, view: View) -> View | None:
    """What an output of a movement operator is where `view` is its first input; None where that is
    no view.
    """
    try:
        if node.kind == "Transpose":
            return View(view.offset, tuple(view.axes[p] for p in permutation(node)))
        if node.kind in RESHAPES:
            return rearranged(view, result.shape) if result.tensor.shape is not None else None
        if node.kind == "Expand":
            return _stretched(view, result.shape) if result.tensor.shape is not None else None
        if node.kind == "Gather":
            return _picked(node, view)
        if node.kind == "Slice":
            return _cut(node, view)
        if node.kind == "Split":
            return _part(node, result, view)
    except Refusal:
        return None
    return None


def rearranged(view: View, shape: Shape) -> View | None:
    """The same elements in row-major order under another shape, None where steps would not stay
    even.
    """
    pieces: list[tuple[Dim, Dim]] = []
    for size, step in view.axes:
        if is_one(size):
            continue
        if pieces and pieces[-1][1] == size * step:
            pieces[-1] = (pieces[-1][0] * size, step)
        else:
            pieces.append((size, step))
    axes: list[tuple[Dim, Dim]] = []
    for size in shape:
        if is_one(size):
            axes.append((1, 0))
            continue
        if not pieces or size == 0:
            return None
        whole, step = pieces.pop(0)
        rest = dims.exact_divide(whole, size)
        if rest is None:
            return None
        axes.append((size, rest * step))
        if not is_one(rest):
            pieces.insert(0, (rest, step))
    return None if pieces else View(view.offset, tuple(axes))


def _stretched(view: View, shape: Shape) -> View:
    """Axes of size one repeated, and new ones in front."""
    axes = ((1, 0),) * (len(shape) - len(view.axes)) + view.axes
    return View(
        view.offset,
        tuple((size, 0 if is_one(own) else step) for size, (own, step) in zip(shape, axes)),
    )


def _picked(node: Node, view: View) -> View | None:
    """One index of an axis."""
    index = known_ints(node.input(1))
    places = node.input(1)
    if (
        places is None
        or places.tensor.shape != ()
        or index is None
        or not isinstance(index[0], int)
    ):
        return None
    axis = attribute(node, "axis") % len(view.axes)
    size, step = view.axes[axis]
    place = index[0] if index[0] >= 0 else index[0] + size
    rest = View(view.offset, view.axes[:axis] + view.axes[axis + 1 :])
    return _moved(rest, place, step) if isinstance(place, int) else None


def _cut(node: Node, view: View) -> View | None:
    """A range of one axis or more, perhaps not of all its places."""
    source = node.inputs[0]
    assert source is not None
    result: View | None = view
    for axis, cut in cuts(node).items():
        start, length = fixed_range(source, axis, (*cut[:2], 1))
        if result is None or cut[2] < 1:
            return None
        result = _range(result, axis, start, length)
        if result is not None and cut[2] > 1:
            result = _every(result, axis, cut[2])
    return result


def _every(view: View, axis: int, step: int) -> View:
    """The first, and every `step`-th after it, along an axis of known size."""
    size, own = view.axes[axis]
    assert isinstance(size, int)
    return View(
        view.offset, (*view.axes[:axis], (-(-size // step), own * step), *view.axes[axis + 1 :])
    )


def _part(node: Node, result: Value, view: View) -> View | None:
    """One output of a Split."""
    axis = attribute(node, "axis") % len(view.axes)
    sizes = [output.shape[axis] for output in node.outputs[: result.index + 1]]
    numbers = [size for size in sizes if isinstance(size, int)]
    return (
        _range(view, axis, sum(numbers[:-1]), numbers[-1]) if len(numbers) == len(sizes) else None
    )


def _range(view: View, axis: int, start: int, length: int) -> View | None:
    step = view.axes[axis][1]
    return _moved(
        View(view.offset, (*view.axes[:axis], (length, step), *view.axes[axis + 1 :])), start, step
    )


def _moved(view: View, index: int, step: Dim) -> View | None:
    """The view from another index of an axis on."""
    if index == 0:
        return view
    return View(view.offset + index * step, view.axes) if isinstance(step, int) else None
