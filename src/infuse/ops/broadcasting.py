"""Broadcasting of which only a run knows whether it takes place: sizes that are equal, or 1."""

from __future__ import annotations

from infuse.ir import dims
from infuse.ir.graph import Node
from infuse.ir.types import Shape, TensorType
from infuse.ops.base import broadcast_shapes


def open_broadcasts(node: Node) -> dict[int, Shape]:
    """The inputs that may be repeated along an axis or not, by number, and the shapes that they
    have when they are: those of the other inputs decide it, which is known when the model runs.
    """
    fixed = getattr(node.op, "fixed_axes", None)
    if fixed is None or all(_is_static(shape) for shape in map(_shape_of, node.inputs)):
        return {}
    shapes = {number: shape for number, v in enumerate(node.inputs) if (shape := _shape_of(v))}
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
