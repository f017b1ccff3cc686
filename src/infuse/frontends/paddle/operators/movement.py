"""Shapes, orders of axes, parts and repetitions of tensors."""

from __future__ import annotations

from typing import Final

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.paddle.calls import PaddleCall, front, operator
from infuse.ir.graph import Value
from infuse.tracing.semantics import movement
from infuse.tracing.semantics.padding import reversed_along

_PADS: Final = {"constant": "constant", "reflect": "reflect", "replicate": "edge",
                "edge": "edge", "circular": "wrap"}  # fmt: skip


operator("reshape")(lambda call: call.g("Reshape", call("x"), call.listed("shape", [])))
operator("flatten2")(lambda call: call.g("Flatten", call("x"), axis=int(call.attribute("axis", 1))))


@operator("transpose")
def transpose(call: PaddleCall) -> Value:
    """Another order of axes."""
    x = call("x")
    return call.g.permute(x, *(front(axis, x.rank) for axis in call.ints("perm", [])))


@operator("flatten")
def flatten(call: PaddleCall) -> Value:
    """Some axes as one."""
    g, x = call.g, call("x")
    if not x.rank:
        return g("Reshape", x, g.ints(1))
    start, stop = (front(int(call.attribute(f"{n}_axis", 1)), x.rank) for n in ("start", "stop"))
    rest = [g.size_of(x, axis) for axis in range(stop + 1, x.rank)]
    return g("Reshape", x, g.ints(*[0] * start, -1, *rest))


@operator("squeeze")
def squeeze(call: PaddleCall) -> Value:
    """Axes of size 1 away; those of other sizes stay."""
    g, x = call.g, call("x")
    axes = [front(axis, x.rank) for axis in call.ints("axis", [])] or [
        axis for axis, size in enumerate(x.shape) if size == 1
    ]
    axes = [axis for axis in axes if x.shape[axis] == 1 or not isinstance(x.shape[axis], int)]
    return g("Squeeze", x, g.ints(*sorted(set(axes)))) if axes else x


@operator("unsqueeze")
def unsqueeze(call: PaddleCall) -> Value:
    """New axes of size 1, one after another."""
    g, x = call.g, call("x")
    axes = list(range(x.rank))
    for axis in call.ints("axis", []):
        axes.insert(front(axis, len(axes) + 1), -1)
    return g("Unsqueeze", x, g.ints(*(i for i, axis in enumerate(axes) if axis < 0)))


def _without(call: PaddleCall, value: Value) -> Value:
    axes = call.ints("decrease_axis", [])
    return call.g("Squeeze", value, call.g.ints(*axes)) if axes else value


@operator("slice", "strided_slice")
def slice_(call: PaddleCall) -> Value:
    """A part of a tensor."""
    g, x = call.g, call("input" if call.operator.name == "slice" else "x")
    axes = [front(axis, x.rank) for axis in call.ints("axes", [])]
    limits = [call.listed(name, []) for name in ("starts", "ends")]
    steps = call.listed("strides", [1] * len(axes))
    return _without(call, g("Slice", x, *limits, g.ints(*axes), steps) if axes else x)


@operator("concat")
def concat(call: PaddleCall) -> Value:
    """Tensors one behind another."""
    values = call.tensors("x")
    axis = call.axis(values[0].rank, default=0)
    return call.g("Concat", *values, axis=axis) if len(values) > 1 else values[0]


def _parts(call: PaddleCall, x: Value, axis: int, sizes: list[int]) -> list[Value]:
    return call.g.several(len(sizes), "Split", x, call.g.ints(*sizes), axis=axis)


@operator("split")
def split(call: PaddleCall) -> list[Value]:
    """Parts of an axis: sizes, of which one may be left out, or a number of parts."""
    x = call("x")
    axis, count = call.axis(x.rank, default=0), int(call.attribute("num", 0))
    sections = call.ints("sections", [])
    if not sections:
        return _equal(call, x, axis, count)
    whole = x.shape[axis]
    if -1 in sections:
        if not isinstance(whole, int) or sections.count(-1) > 1:
            raise call.unsupported("a part of a size that is not fixed")
        rest = whole - sum(size for size in sections if size >= 0)
        sections = [rest if size == -1 else size for size in sections]
    return _parts(call, x, axis, sections)


@operator("split_with_num")
def split_with_num(call: PaddleCall) -> list[Value]:
    """Equal parts of an axis."""
    x = call("x")
    return _equal(call, x, call.axis(x.rank, default=0), int(call.attribute("num", 0)))


def _equal(call: PaddleCall, x: Value, axis: int, count: int) -> list[Value]:
    whole = x.shape[axis]
    if not 0 < count <= 1 << 16 or (isinstance(whole, int) and whole % count):
        raise ModelFileError(f"it makes {count} equal parts of {whole}")
    if isinstance(whole, int):
        return _parts(call, x, axis, [whole // count] * count)
    return call.g.several(count, "Split", x, axis=axis, num_outputs=count)


@operator("stack")
def stack(call: PaddleCall) -> Value:
    """Tensors along a new axis."""
    g, values = call.g, call.tensors("x")
    axis = front(int(call.attribute("axis", 0)), values[0].rank + 1)
    return g("Concat", *(g("Unsqueeze", v, g.ints(axis)) for v in values), axis=axis)


@operator("unstack", "unbind")
def unstack(call: PaddleCall) -> list[Value]:
    """The parts of an axis, without it."""
    g, x = call.g, call("x" if call.operator.name == "unstack" else "input")
    axis = front(int(call.attribute("axis", 0)), x.rank)
    call.attribute("num")
    size = x.shape[axis]
    if not isinstance(size, int) or not size:
        raise call.unsupported("a number of parts that is not fixed")
    return [g("Squeeze", part, g.ints(axis)) for part in _parts(call, x, axis, [1] * size)]


@operator("expand")
def expand(call: PaddleCall) -> Value:
    """Axes of size 1 repeated, and new ones in front; -1 leaves a size."""
    g, sizes = call.g, call.numbers("shape", [])
    if sizes is not None and all(isinstance(size, int) for size in sizes):
        return g("Expand", call("x"), g.ints(*(1 if s == -1 else int(str(s)) for s in sizes)))
    values = [call.flat(value) for value in call.tensors("shape")]
    one = g.ints(1)
    plain = [
        one if v.const is not None and v.const.size == 1 and v.const.reshape(-1)[0] == -1 else v
        for v in values
    ]
    return g("Expand", call("x"), plain[0] if len(plain) == 1 else g("Concat", *plain, axis=0))


@operator("expand_as")
def expand_as(call: PaddleCall) -> Value:
    """The shape of another tensor."""
    g, target = call.g, call.attribute("target_shape", [])
    if call.has("y"):
        return g("Expand", call("x"), g("Shape", call("y")))
    return g("Expand", call("x"), g.ints(*(1 if size == -1 else int(size) for size in target)))


@operator("tile")
def tile(call: PaddleCall) -> Value:
    """A tensor repeated; the shorter of shape and numbers gets ones in front."""
    g, x, times = call.g, call("x"), call.listed("repeat_times", [])
    count = times.shape[0]
    if not isinstance(count, int):
        raise call.unsupported("a number of axes that is not fixed")
    if count < x.rank:
        times = g("Concat", g.ints(*[1] * (x.rank - count)), times, axis=0)
    elif count > x.rank:
        x = g("Unsqueeze", x, g.ints(*range(count - x.rank)))
    return g("Tile", x, times)


@operator("flip")
def flip(call: PaddleCall) -> Value:
    """Axes from behind."""
    x = call("x")
    return reversed_along(call.g, x, *(front(axis, x.rank) for axis in call.ints("axis", [])))


@operator("roll")
def roll(call: PaddleCall) -> Value:
    """Elements moved along axes, those at the end to the front."""
    g, x = call.g, call("x")
    shifts, axes = call.ints("shifts", []), call.ints("axis", [])
    if not axes:
        flat = movement.rolled(g, g("Reshape", x, g.ints(-1)), 0, sum(shifts))
        return g("Reshape", flat, g("Shape", x))
    if len(axes) != len(shifts):
        raise ModelFileError(f"it has {len(shifts)} shifts of {len(axes)} axes")
    for axis, shift in zip(axes, shifts):
        x = movement.rolled(g, x, front(axis, x.rank), shift)
    return x


@operator("tril", "triu", "tril_triu")
def tril(call: PaddleCall) -> Value:
    """Zeros above or below a diagonal."""
    upper = call.operator.name == "triu" or (
        call.operator.name == "tril_triu" and not call.attribute("lower", True)
    )
    diagonal = call.g.number(int(call.attribute("diagonal", 0)), dtypes.int64)
    return call.g("Trilu", call("x"), diagonal, upper=int(upper))


@operator("pad")
def pad(call: PaddleCall) -> Value:
    """A value around; each axis has its own two numbers."""
    g, x, numbers = call.g, call("x"), call.ints("paddings", [])
    value = g.number(call.number("pad_value", 0.0), x.dtype)
    if len(numbers) != 2 * x.rank:
        raise ModelFileError(f"it has {len(numbers)} paddings of {x.rank} axes")
    return g("Pad", x, g.ints(*numbers[::2], *numbers[1::2]), value)


@operator("pad3d", "pad2d")
def pad3d(call: PaddleCall) -> Value:
    """Something around the sizes of images; the numbers begin with the last axis in `pad3d`."""
    g, x = call.g, call("x")
    mode, layout = call.attribute("mode", "constant"), call.attribute("data_format", "NCDHW")
    if mode not in _PADS:
        raise call.unsupported(f"mode={mode!r}")
    numbers = call.ints("paddings", [])
    first = 1 if layout.endswith("C") else 2
    axes = list(range(first, first + x.rank - 2))
    if len(numbers) != 2 * len(axes):
        raise ModelFileError(f"it has {len(numbers)} paddings of {len(axes)} sizes")
    if call.operator.name == "pad3d":
        axes.reverse()
    value = g.number(float(call.attribute("pad_value", 0.0)), x.dtype)
    pads = g.ints(*numbers[::2], *numbers[1::2])
    return g("Pad", x, pads, value if mode == "constant" else None, g.ints(*axes), mode=_PADS[mode])


@operator("repeat_interleave")
def repeat_interleave(call: PaddleCall) -> Value:
    """Every element some times in a row."""
    g, x = call.g, call("x")
    axis, times = front(int(call.attribute("axis", 0)), x.rank), int(call.attribute("repeats", 1))
    call.attribute("output_size")
    apart = g("Unsqueeze", x, g.ints(axis + 1))
    counts = [times if i == axis + 1 else 1 for i in range(x.rank + 1)]
    rest = [g.size_of(x, i) for i in range(axis + 1, x.rank)]
    return g("Reshape", g("Tile", apart, g.ints(*counts)), g.ints(*[0] * axis, -1, *rest))


@operator("meshgrid")
def meshgrid(call: PaddleCall) -> list[Value]:
    """Every operand along an axis of its own, repeated along the others."""
    g, values = call.g, call.tensors("inputs")
    flat = [g("Reshape", value, g.ints(-1)) for value in values]
    shape = g("Concat", *(g("Shape", value) for value in flat), axis=0)
    count = len(flat)
    return [
        g("Expand", g("Reshape", v, g.ints(*(-1 if j == i else 1 for j in range(count)))), shape)
        for i, v in enumerate(flat)
    ]


@operator("diagonal")
def diagonal(call: PaddleCall) -> Value:
    """A diagonal of two axes, as the last axis."""
    x = call("x")
    first, second = (front(int(call.attribute(f"axis{i}", i - 1)), x.rank) for i in (1, 2))
    return movement.diagonal(call.g, x, int(call.attribute("offset", 0)), first, second)
