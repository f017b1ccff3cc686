"""Floats of 16 bits and fewer: kernels compute in float32, so their operands are widened and their
results rounded.

A result that one node alone reads, which computes in float32 too, is handed on as it is: rounding
it and widening it again would take time and lose digits. What a Cast of the model rounds is
rounded.
"""

from __future__ import annotations

from infuse import dtypes
from infuse.dtypes import is_narrow
from infuse.ir.graph import Node, Value
from infuse.ir.types import TensorType
from infuse.lowering.expand.composer import EXPANSIONS, Composer, Results, expands
from infuse.ops.core.base import kinds_with
from infuse.ops.core.traits import Trait, has_trait
from infuse.ops.domains.microsoft import DOMAIN as MICROSOFT
from infuse.ops.domains.training import DOMAIN as TRAINING

_MOVING = ("Identity", "Transpose", "Slice", "Expand", *kinds_with(Trait.RESHAPE))


@expands(*kinds_with(Trait.FLOAT32, MICROSOFT), domain=MICROSOFT, first=True)
@expands(*kinds_with(Trait.FLOAT32, TRAINING), domain=TRAINING, first=True)
@expands(*kinds_with(Trait.FLOAT32), first=True)
def widen(make: Composer, node: Node) -> Results:
    if not any(is_narrow(v.dtype) for v in (*node.operands(), *node.outputs)):
        return None
    inputs = [v if v is None or not is_narrow(v.dtype) else _widened(make, v) for v in node.inputs]
    outputs = make.apply(node.op, inputs, len(node.outputs))
    for new, old in zip(outputs, node.outputs):
        new.type = TensorType(new.dtype, old.shape)
    return [_narrowed(make, new, old) for new, old in zip(outputs, node.outputs)]


@expands(*kinds_with(Trait.CONTINUOUS), first=True)
@expands(*_MOVING, first=True)
def stay_wide(make: Composer, node: Node) -> Results:
    """In float32 where an operand comes so, or the result is wanted so."""
    comes = any(v is not None and _is_wide(make, v) for v in node.inputs)
    reader = next(node.output.users(), None)
    expansions = EXPANSIONS.get((reader.op.domain, reader.kind), ()) if reader is not None else ()
    widens = any(function is widen for *_, function in expansions)
    return widen(make, node) if comes or (widens and has_trait(node, Trait.CONTINUOUS)) else None


@expands("Cast", "CastLike")
def convert(make: Composer, node: Node) -> Results:
    """Nothing where the type stays the same; the value that only gives its type to another is not
    read.
    """
    value, dtype = node.input(0), node.output.dtype
    if value is None or value.dtype == dtype:
        return value
    return None if node.kind == "Cast" else make("Cast", value, to=dtype, **node.op.attributes())


def _is_wide(make: Composer, value: Value) -> bool:
    return value in make.wide and len(set(value.users())) == 1 and not value.is_graph_output


def _widened(make: Composer, value: Value) -> Value:
    return make.wide[value] if _is_wide(make, value) else make.cast(value, dtypes.float32)


def _narrowed(make: Composer, new: Value, old: Value) -> Value | None:
    if not old.uses:
        return None
    narrow = make.cast(new, old.dtype)
    if narrow is not new:
        make.wide[narrow] = new
    return narrow
