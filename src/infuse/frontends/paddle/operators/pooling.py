"""Pooling, with windows or to a given size."""

from __future__ import annotations

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, operator
from infuse.frontends.paddle.operators.convolutions import as_image, image, padding, several
from infuse.ir.graph import Value


@operator("pool2d", "pool3d")
def pool(call: PaddleCall) -> Value:
    """The largest elements or the means of windows."""
    x = image(call, "x")
    largest = call.attribute("pooling_type", "max") == "max"
    if not largest and call.attribute("pooling_type") != "avg":
        raise call.unsupported(f"pooling_type={call.attribute('pooling_type')!r}")
    exclusive = bool(call.attribute("exclusive", True))
    made = _whole(call, x, "ReduceMax" if largest else "ReduceMean")
    return as_image(call, made or _windows(call, x, largest, exclusive)[0])


def _whole(call: PaddleCall, x: Value, kind: str) -> Value | None:
    """Pooling of the whole image, or to a size; None where there are windows."""
    g, count = call.g, x.rank - 2
    for name in ("strides", "paddings", "padding_algorithm", "ceil_mode", "exclusive"):
        call.attribute(name)
    if call.attribute("global_pooling", False):
        call.attribute("kernel_size")
        call.attribute("adaptive")
        return g(kind, x, g.ints(*range(2, x.rank)), keepdims=1)
    if not call.attribute("adaptive", False):
        return None
    sizes = several(call, "kernel_size", count, 1)
    if all(size == 1 for size in sizes):
        return g(kind, x, g.ints(*range(2, x.rank)), keepdims=1)
    for axis, size in enumerate(sizes, 2):
        x = _to_size(call, x, kind, axis, size)
    return x


def _to_size(call: PaddleCall, x: Value, kind: str, axis: int, size: int) -> Value:
    """As many parts of one axis, which overlap where the size is no multiple of their number."""
    g, whole = call.g, x.shape[axis]
    if size == whole:
        return x
    if size == 1:
        return g(kind, x, g.ints(axis), keepdims=1)
    if not isinstance(whole, int):
        raise call.unsupported("adaptive pooling of a size that is not fixed")
    if not 0 < size <= 4096:
        raise ModelFileError(f"it pools to the size {size}")
    if whole % size == 0:
        step, count = whole // size, x.rank - 2
        kernel = tuple(step if i == axis - 2 else 1 for i in range(count))
        windows = "MaxPool" if kind == "ReduceMax" else "AveragePool"
        return g(windows, x, kernel_shape=kernel, strides=kernel)
    parts = [g.slice(x, axis, i * whole // size, -(-(i + 1) * whole // size)) for i in range(size)]
    reduced = [g(kind, part, g.ints(axis), keepdims=1) for part in parts]
    return g("Concat", *reduced, axis=axis)


def _windows(call: PaddleCall, x: Value, largest: bool, exclusive: bool) -> list[Value]:
    g, count = call.g, x.rank - 2
    kernel, strides = (several(call, n, count, 1) for n in ("kernel_size", "strides"))
    ceil = int(bool(call.attribute("ceil_mode", False)))
    pads = padding(call, x.shape[2:], kernel, strides)
    options = {"kernel_shape": kernel, "strides": strides}
    if largest:
        return g.several(2, "MaxPool", x, ceil_mode=ceil, **options, **pads)
    return [
        g("AveragePool", x, ceil_mode=ceil, count_include_pad=int(not exclusive), **options, **pads)
    ]


@operator("max_pool2d_with_index")
def max_pool_with_index(call: PaddleCall) -> tuple[Value, Value | None]:
    """The largest elements of windows, and their places in the image."""
    g, x = call.g, call("x")
    if call.attribute("global_pooling", False) or call.attribute("adaptive", False):
        return _whole_with_index(call, x)
    largest, places = _windows(call, x, True, True)
    size = x.shape[2] * x.shape[3]
    if not isinstance(size, int):
        return largest, None
    return largest, g.cast(g("Mod", places, g.number(size, places.dtype)), dtypes.int32)


def _whole_with_index(call: PaddleCall, x: Value) -> tuple[Value, Value | None]:
    """Pooling of the whole image, or to a size, and the places of the largest elements."""
    g, whole = call.g, _whole(call, x, "ReduceMax")
    assert whole is not None, "the image is pooled to a size"
    height, width = x.shape[2:]
    if not (isinstance(height, int) and isinstance(width, int)):
        return whole, None
    rows, columns = (size for size in whole.shape[2:] if isinstance(size, int))
    # Of each part of a row the largest element, then of each part of a column of these.
    best, across = _largest(call, x, 3, columns)
    best, down = _largest(call, best, 2, rows)
    across = g("GatherElements", across, down, axis=2)
    places = g("Add", g("Mul", down, g.number(width, dtypes.int64)), across)
    return best, g.cast(places, dtypes.int32)


def _largest(call: PaddleCall, x: Value, axis: int, parts: int) -> tuple[Value, Value]:
    """The largest element of each part of an axis, and its place in the axis."""
    g, size = call.g, int(x.shape[axis])
    best, places = [], []
    for part in range(parts):
        begin, end = part * size // parts, -(-(part + 1) * size // parts)
        piece = g.slice(x, axis, begin, end)
        best.append(g("ReduceMax", piece, g.ints(axis), keepdims=1))
        place = g("ArgMax", piece, axis=axis, keepdims=1)
        places.append(g("Add", place, g.number(begin, dtypes.int64)))
    return g("Concat", *best, axis=axis), g("Concat", *places, axis=axis)
