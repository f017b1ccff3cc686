"""What is known of the elements of small integer tensors."""

from __future__ import annotations

from infuse.ir.dims import Dim
from infuse.ir.graph import Value


def known_ints(value: Value | None) -> tuple[Dim, ...] | None:
    """The elements of a 0-D or 1-D integer value as far as they are known as dimensions, else
    None.
    """
    if value is None:
        return None
    if value.content is not None:
        return tuple(value.content.reshape(-1).tolist())
    if value.const is not None and value.const.ndim <= 1 and value.const.dtype.kind in "iub":
        return tuple(int(x) for x in value.const.reshape(-1))
    return None
