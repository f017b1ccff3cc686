"""Views: operators whose results share their elements with a tensor, and how changes of a view come
back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, axes_of, axis_of, handler_of
from infuse.tracing.calls import words

Write = Callable[..., Value]
"""A function of the importer, the whole tensor, the new part, and the operator's arguments."""


def _call(name: str, g: TorchImporter, *arguments: Any) -> Value:
    handler = handler_of(f"aten.{name}")
    assert handler is not None, "views are made by operators that are read"
    g.called = f"aten.{name}"
    made = handler(g, *arguments)
    assert isinstance(made, Value)
    return made


def _select(g: TorchImporter, whole: Value, part: Value, dim: int, index: Any) -> Value:
    return _call("select_scatter", g, whole, part, dim, index)


def _slice(
    g: TorchImporter, whole: Value, part: Value, dim: int = 0, start: Any = None, end: Any = None,
    step: Any = 1,
) -> Value:  # fmt: skip
    return _call("slice_scatter", g, whole, part, dim, start, end, step)


def _narrow(
    g: TorchImporter, whole: Value, part: Value, dim: int, start: Any, length: Any
) -> Value:
    end = g.calculated("Add", start, length)
    return _call("slice_scatter", g, whole, part, dim, start, end, 1)


def _reshaped(g: TorchImporter, whole: Value, part: Value, *arguments: Any) -> Value:
    return g("Reshape", part, g("Shape", whole), allowzero=1)


def _permuted(g: TorchImporter, whole: Value, part: Value, dims: Sequence[int]) -> Value:
    order = np.argsort(axes_of(list(dims), whole.rank))
    return g.permute(part, *(int(i) for i in order)) if whole.rank else part


def _exchanged(name: str) -> Write:
    return lambda g, whole, part, *dims: _call(name, g, part, *dims)


def _moved(g: TorchImporter, whole: Value, part: Value, source: Any, target: Any) -> Value:
    return _call("movedim", g, part, target, source)


def _diagonal(g: TorchImporter, whole: Value, part: Value, *arguments: Any) -> Value:
    return _call("diagonal_scatter", g, whole, part, *arguments)


VIEWS: Final[dict[str, Write | None]] = {
    "diagonal": _diagonal, "select": _select, "slice": _slice, "narrow": _narrow,
    "permute": _permuted, "movedim": _moved, "moveaxis": _moved,
    **{name: _exchanged(name) for name in ("t", "numpy_T", "mT", "mH", "adjoint")},
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _exchanged("transpose.int")),
    **dict.fromkeys(("view", "view_as", "squeeze", "unsqueeze", "unflatten"), _reshaped),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), None),
}  # fmt: skip
"""By operator: how the whole tensor is when a part of it changes; None where it cannot."""
SPLITS: Final = ("chunk", "split", "split_with_sizes", "tensor_split", "unsafe_chunk", "unbind")
"""Operators whose results are a list of views."""
PERHAPS: Final = frozenset(
    words("""contiguous reshape reshape_as flatten ravel atleast_1d atleast_2d atleast_3d
        meshgrid broadcast_tensors conj real resolve_conj _conj resolve_neg positive
        pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle as_strided
        _reshape_alias _autocast_to_full_precision hsplit vsplit dsplit conj_physical
        _unsafe_view view_as_real feature_dropout alpha_dropout feature_alpha_dropout
        lift_fresh einsum""")
)
"""Operators whose result may lie where their operand does."""
SAME: Final = frozenset(["detach", "alias", "dropout", "requires_grad_", "detach_", "lift"])
"""Operators that give their operand itself."""
RESHAPING: Final = frozenset(
    words("""as_strided_ resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_
        unsqueeze_ renorm_ embedding_renorm_""")
)
"""Operators that change a tensor otherwise than by its elements."""


def split_writer(name: str, whole: Value, parts: Sequence[Value], place: int, dim: int) -> Any:
    """How a whole tensor is when a part that a split gave changes; None where it cannot be told."""
    axis = axis_of(dim, whole.rank)
    if name == "unbind":
        return lambda g, x, part: _select(g, x, part, axis, place)
    start: Any = 0
    for part in parts[:place]:
        size = part.shape[axis]
        if not isinstance(size, int):
            return None
        start += size
    size = parts[place].shape[axis]
    if not isinstance(size, int):
        return None
    return lambda g, x, part: _slice(g, x, part, axis, start, start + size)
