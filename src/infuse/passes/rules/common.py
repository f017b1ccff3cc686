"""What rules ask of values again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from infuse.dtypes import DType
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, rest
from infuse.ir.graph import Array, Node, Value
from infuse.ir.types import Shape
from infuse.ops.core.base import kinds_with
from infuse.ops.core.traits import Trait
from infuse.rewrite import Refusal, require


def data(value: Value) -> Array:
    """The elements of a constant."""
    assert value.const is not None
    return value.const


def float_info(dtype: DType) -> Any:
    """What NumPy's finfo tells of a type of floats."""
    return ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]


def wide(value: Value) -> Array:
    """The elements of a constant in the type to compute with: floats in float64, integers as they
    are.
    """
    return data(value).astype(np.float64) if value.dtype.is_float else data(value)


def number(value: Value) -> float:
    """The only element of a constant; Refusal when it has several."""
    require(value.const is not None and value.const.size == 1, "the constant varies")
    return float(data(value).flat[0])


def rounded(array: Array, like: Value) -> Array:
    """`array` in the element type of `like`; Refusal where a finite number would not stay one."""
    with np.errstate(over="ignore", invalid="ignore"):
        result: Array = np.asarray(array).astype(like.dtype.numpy)
    if like.dtype.is_float:
        finite = np.isfinite(result if like.dtype.bits >= 32 else result.astype(np.float64))
        require(bool(finite.all()), "the merged constant is not finite")
    return result


def attribute(node: Node, name: str) -> Any:
    """An attribute of a node's operator."""
    return node.op.attributes()[name]


def require_attribute(number: float, x: Value) -> None:
    """Refuse to make an attribute, which ONNX stores as float32, of a number of which float64
    elements hold more.
    """
    with np.errstate(over="ignore"):
        held = float(np.float32(number)) == number
    require(held or x.dtype.bits < 64, "float64 holds more digits than an attribute")


def require_float(*values: Value) -> None:
    """Refuse unless all values are floating."""
    for value in values:
        if value.dtype.kind != "f":
            raise Refusal(f"it needs floats, found {value.dtype}")


def require_kernel(x: Value) -> None:
    """Refuse what is no float, and float64, for which ONNX Runtime has few of the fused
    operators.
    """
    require_float(x)
    require(x.dtype.bits <= 32, "few runtimes have the operator for float64")


def require_narrow_float(*values: Value) -> None:
    """Refuse unless all values are floating, and narrow enough for what other runtimes leave out in
    float64.
    """
    require_float(*values)
    for value in values:
        require(value.dtype.bits < 64, "runtimes do not have it for float64")


def require_shape(*values: Value) -> None:
    """Refuse where a rank is not known."""
    for value in values:
        if value.tensor.shape is None:
            raise Refusal("the shape is not known")


def require_same_type(x: Value, root: Node, reason: str) -> None:
    """Refuse unless the result has the type of `x`, down to the last size."""
    require(x.tensor.shape is not None, "the shape is not known")
    require(x.type == root.output.type, reason)


def require_own(weights: Value) -> None:
    """Refuse to change large weights that others read too: they would be stored twice."""
    alone = len(weights.uses) == 1 or data(weights).nbytes <= SHARED_LIMIT
    require(alone, "the weights are shared")


def require_unread(node: Node, what: str) -> None:
    """Refuse where outputs of `node` after the first are read."""
    require(not any(v.uses for v in node.outputs[1:]), f"{what} read")


def axes_of(axes: Value | None, x: Value) -> list[int]:
    """The elements of an `axes` input counted from the front; Refusal where they are not known."""
    numbers = known_ints(axes)
    require(x.tensor.shape is not None and numbers is not None, "the axes are not known")
    assert numbers is not None
    require(all(isinstance(a, int) for a in numbers), "the axes are not known")
    return [int(a) % x.rank for a in numbers if isinstance(a, int)]


SHARED_LIMIT = 1 << 20
"""Bytes of the largest weights of which a changed copy may stand beside the original."""
RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def reshapes(x: Any, more: Any, name: str = "") -> list[Call]:
    """The patterns of all operators that only arrange the elements of `x` in another shape."""
    return [Call(kind, (x, rest(more)), label=name) for kind in RESHAPES]


def is_one(dim: Dim) -> bool:
    """Whether a size is certainly one."""
    return dim == 1 if isinstance(dim, int) else dims.compare("==", dim, 1) is True


def permutation(node: Node) -> tuple[int, ...]:
    """The order of the axes of a Transpose; Refusal where it is a default of unknown rank."""
    perm = attribute(node, "perm")
    if perm is None:
        require_shape(node.output)
        perm = tuple(range(node.output.rank))[::-1]
    return tuple(perm)


def target_shape(before: Shape, after: Shape | None) -> list[int] | None:
    """A constant Reshape target that gives `after`: 0 keeps a size, one -1; None where that cannot
    say it.
    """
    if after is None:
        return None
    target: list[int] = []
    for axis, size in enumerate(after):
        if isinstance(size, int):
            if size == 0:
                return None
            target.append(size)
        elif axis < len(before) and before[axis] == size:
            target.append(0)
        elif -1 not in target:
            target.append(-1)
        else:
            return None
    others = [size for size, place in zip(after, target) if place != -1]
    return None if -1 in target and any(map(_may_vanish, others)) else target


def _may_vanish(dim: Dim) -> bool:
    """Whether a size may be zero although all symbols are positive; then a -1 beside it says
    nothing.
    """
    return (
        dims.compare(
            ">", dims.substitute(dim, {s: dims.symbol(s) + 1 for s in dims.symbols(dim)}), 0
        )
        is not True
    )


def reshape_target(before: Shape, after: Shape | None) -> Array:
    """`target_shape` as an array; Refusal where there is none."""
    target = target_shape(before, after)
    require(target is not None, "two sizes change symbolically")
    return np.asarray(target, dtype=np.int64)


def regroup(fine: Sequence[Dim], coarse: Sequence[Dim]) -> list[list[int]] | None:
    """Which neighbouring axes of `fine` make up each axis of `coarse`, or None; both without axes
    of size one.
    """
    groups: list[list[int]] = []
    axis = 0
    for size in coarse:
        group: list[int] = []
        product: Dim = 1
        while product != size:
            if axis == len(fine) or dims.compare(">", product, size) is True:
                return None
            product = product * fine[axis]
            group.append(axis)
            axis += 1
        groups.append(group)
    return groups if axis == len(fine) else None


FUNCTIONS = kinds_with(Trait.FUNCTION)
"""Elementwise operators of one operand that give its type."""
UNARY = (*FUNCTIONS, "Cast", "Not")
BINARY = kinds_with(Trait.ARITHMETIC)
