"""Types before and after a rewrite: which says more, and inference again where one does."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Node
from infuse.ir.types import TensorType, Type


class Change(Enum):
    """How a type compares with the one before."""

    SAME = "same"
    BETTER = "says more"
    WEAKER = "says less, or something else that is not known to be equal"
    CLASH = "contradicts"


def compare_types(old: Type, new: Type) -> Change:
    """How `new` compares with `old`, both types of one value."""
    if old is new or old == new:
        return Change.SAME
    if not isinstance(old, TensorType) or not isinstance(new, TensorType) or old.dtype != new.dtype:
        return Change.CLASH
    if old.shape is None:
        return Change.BETTER
    if new.shape is None:
        return Change.WEAKER
    if len(old.shape) != len(new.shape):
        return Change.CLASH
    changes = [compare_dims(a, b) for a, b in zip(old.shape, new.shape)]
    for worst in (Change.CLASH, Change.WEAKER, Change.BETTER):
        if worst in changes:
            return worst
    return Change.SAME


def compare_dims(old: Dim, new: Dim) -> Change:
    """How one size compares with what was known of it."""
    if old == new:
        return Change.SAME
    if dims.compare("==", old, new) is False:
        return Change.CLASH
    if isinstance(new, int) or _is_part(new, old):
        return Change.BETTER
    return Change.BETTER if _is_fresh(old) and not _is_fresh(new) else Change.WEAKER


def _is_fresh(dim: Dim) -> bool:
    """Whether a size is one that inference could not tell."""
    return any(name.startswith("_") for name in dims.symbols(dim))


def _is_part(part: Dim, whole: Dim) -> bool:
    """Whether `whole` is a maximum or minimum of which `part` is an operand."""
    if not isinstance(whole, dims.Expr) or len(whole.terms) != 1:
        return False
    ((monomial, factor),) = whole.terms.items()
    if factor != 1 or len(monomial) != 1 or monomial[0][1] != 1:
        return False
    atom = monomial[0][0]
    return atom.kind in ("max", "min") and any(a == part or _is_part(part, a) for a in atom.args)


def reinfer(readers: Iterable[Node]) -> list[Node]:
    """Infer again from the readers of a value on whose type says more than before; the nodes that
    know more now.
    """
    changed: list[Node] = []
    pending = deque(readers)
    queued = set(pending)
    while pending:
        node = pending.popleft()
        queued.discard(node)
        before = [(v.type, v.content) for v in node.outputs]
        node.op.infer_node(node)
        better = False
        for output, (type, content) in zip(node.outputs, before):
            change = compare_types(type, output.type)
            if change in (Change.WEAKER, Change.CLASH):
                output.type = type
            if output.content is None:
                output.content = content
            better = (
                better
                or change is Change.BETTER
                or (content is None) is not (output.content is None)
            )
        if better:
            changed.append(node)
            fresh = [
                user for output in node.outputs for user in output.users() if user not in queued
            ]
            pending.extend(dict.fromkeys(fresh))
            queued.update(fresh)
    return changed
