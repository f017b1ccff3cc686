"""Operations of `keras.ops` that move elements or take some of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.frontends.keras.calls import KerasCall
from infuse.frontends.keras.layers.operations import operation, tensor, together
from infuse.ir.graph import Value
from infuse.tracing.axes import axes_of


@operation("Reshape")
def reshape(call: KerasCall, x: Any, newshape: Sequence[int | None]) -> Value:
    """Another shape."""
    sizes = [-1 if size is None else int(size) for size in newshape]
    if sizes.count(-1) > 1:
        raise call.unsupported(f"a shape with several unknown sizes, {sizes},")
    return call.g("Reshape", tensor(call, x), call.g.ints(*sizes), allowzero=int(-1 not in sizes))


operation("Ravel")(lambda call, x: call.shaped(tensor(call, x), -1))
operation("Concatenate")(lambda call, xs, axis=0: call.g("Concat", *together(call, *xs), axis=axis))


@operation("Transpose")
def transpose(call: KerasCall, x: Any, axes: Sequence[int] | None = None) -> Value:
    """Other order of the axes."""
    value = tensor(call, x)
    order = range(value.rank)[::-1] if axes is None else axes_of(list(axes), value.rank)
    return call.g.permute(value, *order)


@operation("Swapaxes")
def swapaxes(call: KerasCall, x: Any, axis1: int, axis2: int) -> Value:
    """Two axes exchanged."""
    value = tensor(call, x)
    order = list(range(value.rank))
    a, b = axes_of([axis1, axis2], value.rank)
    order[a], order[b] = b, a
    return call.g.permute(value, *order)


@operation("Moveaxis")
def moveaxis(call: KerasCall, x: Any, source: Any, destination: Any) -> Value:
    """Axes in other places."""
    value = tensor(call, x)
    sources, targets = axes_of(source, value.rank), axes_of(destination, value.rank)
    order = [axis for axis in range(value.rank) if axis not in sources]
    for target, axis in sorted(zip(targets, sources)):
        order.insert(target, axis)
    return call.g.permute(value, *order)


@operation("ExpandDims")
def expand_dims(call: KerasCall, x: Any, axis: Any) -> Value:
    """New axes of size one."""
    listed = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    return call.unsqueezed(tensor(call, x), *listed)


@operation("Squeeze")
def squeeze(call: KerasCall, x: Any, axis: Any = None) -> Value:
    """Without axes of size one."""
    value = tensor(call, x)
    if axis is None:
        axis = [i for i, size in enumerate(value.shape) if size == 1]
    listed = axes_of(axis, value.rank)
    return call.squeezed(value, *listed) if listed else value


@operation("Stack")
def stack(call: KerasCall, x: Sequence[Any], axis: int = 0) -> Value:
    """Operands behind each other along a new axis."""
    values = together(call, *x)
    axis = axes_of(axis, values[0].rank + 1)[0]
    return call.g("Concat", *(call.unsqueezed(v, axis) for v in values), axis=axis)


@operation("Split")
def split(call: KerasCall, x: Any, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    """Parts of an axis: so many, or at these places."""
    g, value = call.g, tensor(call, x)
    axis = axes_of(axis, value.rank)[0]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        return g.several(count, "Split", value, axis=axis, num_outputs=count)
    places = [0, *(int(place) for place in indices_or_sections), 2**31]
    return [g("Slice", value, *(g.ints(n) for n in (a, b, axis))) for a, b in pairwise(places)]


@operation("Unstack")
def unstack(call: KerasCall, x: Any, num: int | None = None, axis: int = 0) -> list[Value]:
    """The parts of an axis, without it."""
    value = tensor(call, x)
    axis = axes_of(axis, value.rank)[0]
    size = value.shape[axis]
    if not isinstance(size, int):
        raise call.unsupported("an axis of unknown size")
    return [call.g("Gather", value, call.g.constant(np.int64(i)), axis=axis) for i in range(size)]


@operation("Tile")
def tile(call: KerasCall, x: Any, repeats: Any) -> Value:
    """The operand several times along each axis."""
    value = tensor(call, x)
    listed = list(repeats) if isinstance(repeats, (list, tuple)) else [repeats]
    if len(listed) > value.rank:
        value = call.unsqueezed(value, *range(len(listed) - value.rank))
    listed = [1] * (value.rank - len(listed)) + listed
    return call.g("Tile", value, call.g.ints(*listed))


@operation("Repeat")
def repeat(call: KerasCall, x: Any, repeats: Any, axis: int | None = None) -> Value:
    """Every element so many times."""
    value = tensor(call, x)
    if axis is None:
        value, axis = call.shaped(value, -1), 0
    axis = axes_of(axis, value.rank)[0]
    size = value.shape[axis]
    if not isinstance(size, int):
        raise call.unsupported("an axis of unknown size")
    places = np.repeat(np.arange(size), repeats)
    return call.g("Gather", value, call.g.constant(places), axis=axis)


@operation("Flip")
def flip(call: KerasCall, x: Any, axis: Any = None) -> Value:
    """The order of axes turned round."""
    value = tensor(call, x)
    for each in axes_of(axis, value.rank):
        value = call.reversed(value, each)
    return value


@operation("Take")
def take(call: KerasCall, x: Any, indices: Any, axis: int | None = None) -> Value:
    """Elements at these places of an axis."""
    value = tensor(call, x)
    if axis is None:
        value, axis = call.shaped(value, -1), 0
    places = tensor(call, indices)
    if not places.dtype.is_integer:
        places = call.g.cast(places, dtypes.int32)
    return call.g("Gather", value, places, axis=axis)


@operation("TakeAlongAxis")
def take_along_axis(call: KerasCall, x: Any, indices: Any, axis: int | None = None) -> Value:
    """Elements at places that differ from row to row."""
    if axis is None:
        raise call.unsupported("places in all elements")
    return call.g("GatherElements", tensor(call, x), tensor(call, indices), axis=axis)


@operation("BroadcastTo")
def broadcast_to(call: KerasCall, x: Any, shape: Sequence[int]) -> Value:
    """The operand repeated to a shape."""
    return call.g("Expand", tensor(call, x), call.g.ints(*(int(size) for size in shape)))


@operation("Tril", "Triu")
def triangle(call: KerasCall, x: Any, k: int = 0) -> Value:
    """The lower or upper triangle of matrices, zero elsewhere."""
    upper = int(call.layer.kind == "ops.Triu")
    return call.g("Trilu", tensor(call, x), call.g.constant(np.int64(k)), upper=upper)


@operation("Pad")
def pad(call: KerasCall, x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None
        ) -> Value:  # fmt: skip
    """Elements before and behind those of each axis."""
    value = tensor(call, x)
    listed: list[Any] = [pad_width] if isinstance(pad_width, int) else list(pad_width)
    pairs = [list(p) if isinstance(p, (list, tuple)) else [p, p] for p in listed]
    if len(pairs) == 1:
        pairs *= value.rank
    if len(pairs) != value.rank or mode not in ("constant", "reflect"):
        raise call.unsupported(f"pad_width = {pad_width!r} with the mode {mode!r}")
    number = None if not constant_values else tensor(call, constant_values, value.dtype)
    begins, ends = ([int(p[side]) for p in pairs] for side in (0, 1))
    return call.g("Pad", value, call.g.ints(*begins, *ends), number, mode=mode)


@operation("GetItem")
def get_item(call: KerasCall, x: Any, key: Any) -> Value:
    """Parts of a tensor, as Python's indices say."""
    g, value = call.g, tensor(call, x)
    listed = list(key) if isinstance(key, (list, tuple)) else [key]
    if any(not isinstance(part, (int, slice, type(None), type(...))) for part in listed):
        raise call.unsupported("an index that is a tensor")
    used = sum(part is not None and part is not ... for part in listed)
    axis, result = 0, []
    squeezed: list[int] = []
    for part in listed:
        if part is ...:
            skipped = value.rank - used
            axis += skipped
            result += [1] * skipped
        elif part is None:
            result.append(0)
        elif isinstance(part, int) and not isinstance(part, bool):
            value = g("Slice", value, g.ints(part), g.ints(part + 1 if part != -1 else 2**31),
                      g.ints(axis))  # fmt: skip
            squeezed.append(axis)
            axis += 1
        else:
            value = _sliced(call, value, axis, part)
            axis += 1
            result.append(1)
    value = call.squeezed(value, *squeezed) if squeezed else value
    new = [place for place, kept in enumerate(result) if not kept]
    return call.unsqueezed(value, *new) if new else value


def _sliced(call: KerasCall, value: Value, axis: int, part: slice) -> Value:
    g, step = call.g, 1 if part.step is None else part.step
    limits = part.start, part.stop, step
    if not all(each is None or isinstance(each, int) for each in limits) or step == 0:
        raise call.unsupported("a slice whose limits are tensors")
    if part == slice(None):
        return value
    start = (0 if step > 0 else 2**31) if part.start is None else part.start
    stop = (2**31 if step > 0 else -(2**31)) if part.stop is None else part.stop
    return g("Slice", value, *(g.ints(n) for n in (start, stop, axis, step)))
