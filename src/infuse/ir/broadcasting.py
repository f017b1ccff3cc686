"""Broadcasting of sizes that only a run may know: they are equal, or one of them is 1."""

from __future__ import annotations

from collections.abc import Iterable

from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.graph import Node
from infuse.ir.relations import must_equal, must_hold
from infuse.ir.types import Shape, TensorType


def broadcast_shapes(*shapes: Shape | None, exact: bool = False) -> Shape | None:
    """NumPy's broadcasting over symbolic shapes: sizes are equal or 1, and one that is at most 1 is
    repeated. `exact`: two sizes of which one is a symbol have to be equal. A run checks what that
    assumes.
    """
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    longest = max(known, key=len, default=())
    if _all_end(known, longest):
        return longest
    known = _resolved_all(known)
    rank = max(map(len, known), default=0)
    result: list[dims.Dim] = []
    for axis in range(rank):
        size: dims.Dim = 1
        for shape in known:
            position = axis - rank + len(shape)
            if position >= 0:
                size = _broadcast_dims(size, shape[position], exact)
        result.append(size)
    return tuple(result)


def _all_end(shapes: Iterable[Shape], longest: Shape) -> bool:
    """Whether all shapes are the end of the longest: nothing is repeated but along new axes."""
    return all(shape == longest[len(longest) - len(shape) :] for shape in shapes)


def _resolved_all(shapes: list[Shape]) -> list[Shape]:
    """Shapes that are broadcast with each other, as they are in a run that does not fail."""
    for limited in tuple(shapes):
        for whole in tuple(shapes):
            if limited is not whole:
                shapes = [resolved(shape, limited, whole) for shape in shapes]
    return shapes


def resolved(shape: Shape, limited: Shape, whole: Shape) -> Shape:
    """`shape` as it is wherever `limited` is broadcast with `whole`: a size that is one of `whole`
    with a limit above 1 is that size.
    """
    for part, size in zip(limited[::-1], whole[::-1]):
        if part != size and dims.is_limited(part, size):
            must_equal(part, size)
            shape = tuple(dims.replace(own, part, size) for own in shape)
    return shape


def _broadcast_dims(a: dims.Dim, b: dims.Dim, exact: bool) -> dims.Dim:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        raise ShapeError(
            f"sizes {a} and {b} do not broadcast", hint="sizes must be equal or one of them 1"
        )
    if dims.always_equal(a, b):
        return min(a, b, key=lambda size: len(str(size)))
    for size, other in ((a, b), (b, a)):
        if not isinstance(size, int) and dims.is_at_most_one(size):
            must_equal(size, 1)
            return other
    if not exact and not (dims.is_limited(a, b) or dims.is_limited(b, a)):
        must_hold(a, "~", b)
        return dims.broadcast(a, b)
    must_equal(a, b)
    number = next((size for size in (a, b) if isinstance(size, int)), None)
    return dims.maximum(a, b) if number is None else number


def open_broadcasts(node: Node) -> dict[int, Shape]:
    """The inputs that may be repeated along an axis or not, by number, and the shapes that they
    have when they are: those of the other inputs decide it, which is known when the model runs.
    """
    fixed = getattr(node.op, "fixed_axes", None)
    if fixed is None or all(_is_static(shape) for shape in map(_shape_of, node.inputs)):
        return {}
    shapes = {number: shape for number, v in enumerate(node.inputs) if (shape := _shape_of(v))}
    outer = [shape[: len(shape) - fixed] for shape in shapes.values()]
    if _all_end(outer, max(outer, key=len)):
        return {}
    if fixed == 0:
        shapes = dict(zip(shapes, _resolved_all(list(shapes.values()))))
    common = broadcast_shapes(*(shape[: len(shape) - fixed] for shape in shapes.values()))
    assert common is not None
    result = {}
    for number, shape in shapes.items():
        axes = len(shape) - fixed
        pairs = zip(shape[:axes], common[len(common) - axes :]) if axes > 0 else ()
        wide = tuple(to if _is_open(size, to) else size for size, to in pairs)
        if wide != shape[: len(wide)]:
            result[number] = (*wide, *shape[len(wide) :])
    return result


def _shape_of(value: object) -> Shape | None:
    type = getattr(value, "type", None)
    return type.shape if isinstance(type, TensorType) else None


def _is_static(shape: Shape | None) -> bool:
    return all(map(dims.is_static, shape or ()))


def _is_open(size: dims.Dim, common: dims.Dim) -> bool:
    """Whether an axis may be repeated, or have its common size already."""
    return not (size == common or dims.is_at_most_one(size) or dims.is_limited(size, common))
