"""Operators that only move elements, say how they are seen, or make them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.frontends.tensorflow.operators.convolutions import MOST_PLACES
from infuse.ir.graph import Value
from infuse.tracing.axes import axis_of
from infuse.tracing.calls import words
from infuse.tracing.items import Complex
from infuse.tracing.layout import FROM_CHANNELS, TO_CHANNELS
from infuse.tracing.semantics import windows
from infuse.tracing.semantics.movement import rolled
from infuse.tracing.tensorflow import blocks, movement


@operator("Squeeze")
def squeeze(call: FlowCall) -> Value:
    """Without axes of size one: those listed, or all."""
    axes = call.option("squeeze_dims", None) or call.option("axis", None) or []
    shape = call.raw(0).tensor.shape
    if not axes and (shape is None or not all(isinstance(size, int) for size in shape)):
        return call.g("Squeeze", call.raw(0))
    made: Value = movement.squeeze(call.with_options(squeeze_dims=np.array(axes, np.int64)))
    return made


operator("ShapeN")(lambda call: [movement.shape(call.on(item)) for item in call.items])
operator("VariableShape")(lambda call: call.g.constant(np.array(call.raw(0).shape, np.int32)))


@operator("ConcatV2")
def concat(call: FlowCall) -> Value:
    """Tensors one after another along an axis, which is the last operand."""
    parts, axis = call.on(*call.items[:-1]), call.one(call.count - 1)
    if not parts.count:
        raise ModelFileError("it has no operands")
    return movement.concatenation(parts.with_options(axis=axis, activation=0))


@operator("ParallelConcat")
def parallel_concat(call: FlowCall) -> Value:
    """Tensors one after another along the first axis."""
    return call.g("Concat", *(call.raw(i) for i in range(call.count)), axis=0)


@operator("Gather", "GatherV2", "ResourceGather")
def gather(call: FlowCall) -> Value:
    """Slices of an axis by number; the first `batch_dims` axes of both operands go together."""
    axis = call.one(2) if call.has(2) else 0
    return movement.gather(call.with_options(axis=axis))


operator("ResourceGatherNd")(movement.gather_nd)


@operator("MirrorPad")
def mirror_pad(call: FlowCall) -> Value:
    """The elements themselves, backwards, around them: without those at the border, or with."""
    mode = call.text("mode", "REFLECT", "SYMMETRIC")
    return movement.mirror_pad(call.with_options(mode=int(mode == "SYMMETRIC")))


@operator("Empty")
def empty(call: FlowCall) -> Value:
    """A tensor of this shape; zeros, whether or not they must be."""
    zero = call.g.constant(np.zeros((), call.type("dtype").numpy))
    return call.g("Expand", zero, call.list_of(0))


@operator("LinSpace")
def linspace(call: FlowCall) -> Value:
    """Numbers from one to another at equal distances."""
    g, count = call.g, call.one(2)
    start, stop = call.raw(0), call.raw(1)
    if not 1 <= count <= 1 << 24:
        raise ModelFileError(f"it has {count} numbers")
    steps = g.constant(np.arange(count).astype(start.dtype.numpy))
    distance = g("Div", g("Sub", stop, start), max(count - 1, 1))
    made = g("Add", start, g("Mul", steps, distance))
    if count == 1:
        return made
    return g("Concat", g.slice(made, 0, 0, count - 1), g("Reshape", stop, g.ints(1)), axis=0)


@operator("InvertPermutation")
def invert_permutation(call: FlowCall) -> Value:
    """Where each number is."""
    order = call.ints(0)
    if sorted(order) != list(range(len(order))):
        raise ModelFileError(f"{order[:8]} is not an order")
    return call.g.constant(np.argsort(order).astype(call.raw(0).dtype.numpy))


@operator("Roll")
def roll(call: FlowCall) -> Value:
    """Elements moved along axes; what leaves at one end comes in at the other."""
    g, x, shifts, axes = call.g, call.raw(0), call.ints(1), call.ints(2)
    if len(shifts) != len(axes):
        raise ModelFileError(f"{len(shifts)} shifts are for {len(axes)} axes")
    for shift, axis in zip(shifts, (axis_of(axis, x.rank) for axis in axes)):
        x = rolled(g, x, axis, shift)
    return g("Identity", x)


# -- shapes ----------------------------------------------------------------------------------------


@operator("Shape")
def shape(call: FlowCall) -> Value:
    """The sizes of a tensor."""
    item = call.item(0)
    if isinstance(item, Complex):
        return call.as_result(call.g("Shape", item.parts, end=-1))
    return movement.shape(call)


@operator("Size")
def size(call: FlowCall) -> Value:
    """How many elements a tensor has."""
    return call.as_result(call.g("Size", call.raw(0)))


# -- blocks ----------------------------------------------------------------------------------------

_ARRANGED: Final = {"SpaceToDepth": {}, "DepthToSpace": {"mode": "DCR"}}


def _arranged(kind: str, options: dict[str, str]) -> Any:
    def build(call: FlowCall) -> Value:
        block = int(call.option("block_size"))
        last = call.text("data_format", "NHWC", "NCHW") == "NHWC"
        x = call.real(0, *TO_CHANNELS[4]) if last else call.raw(0)
        y = call.g(kind, x, blocksize=block, **options)
        return call.g.permute(y, *FROM_CHANNELS[4]) if last else y

    return build


for _name, _options in _ARRANGED.items():
    operator(_name)(_arranged(_name, _options))


def _square(call: FlowCall) -> FlowCall:
    block = int(call.option("block_size"))
    blocks_ = call.g.constant(np.array([block, block], np.int64))
    return call.on(call.raw(0), blocks_, call.raw(1))


operator("SpaceToBatch")(lambda call: blocks.space_to_batch(_square(call)))
operator("BatchToSpace")(lambda call: blocks.batch_to_space(_square(call)))


# -- pieces ----------------------------------------------------------------------------------------


@operator("ExtractImagePatches")
def patches(call: FlowCall) -> Value:
    """The windows of an image, each as one more axis of channels."""
    g, x = call.g, call.raw(0)
    kernel, strides, rates = (call.positive(n, 4) for n in ("ksizes", "strides", "rates"))
    kind = call.text("padding", "VALID", "SAME")
    channels = x.shape[3]
    if not isinstance(channels, int) or not all(isinstance(n, int) for n in x.shape[1:3]):
        raise call.unsupported("pieces of an image of unknown size")
    for axis in (1, 2):
        if kind == "SAME":
            extent = (kernel[axis] - 1) * rates[axis] + 1
            x = windows.padded_to_fit(g, x, axis, extent, strides[axis])
    if kernel[1] * kernel[2] > MOST_PLACES:
        raise call.unsupported(f"a window of {kernel[1]} × {kernel[2]}")
    taps = windows.taps(g, x, (1, 2), kernel[1:3], strides[1:], rates[1:])
    return g("Concat", *(part for _, part in taps), axis=3)


# -- numbers ---------------------------------------------------------------------------------------

_RANDOM: Final = words("""RandomUniform RandomStandardNormal RandomUniformInt TruncatedNormal
    Multinomial RandomShuffle StatelessRandomUniform StatelessRandomNormal
    StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormal
    StatelessMultinomial ParameterizedTruncatedNormal RandomGamma RandomPoissonV2
    StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessRandomGetKeyCounter
    StatefulStandardNormalV2 StatefulUniform""")


def _random(call: FlowCall) -> Value:
    raise call.unsupported(
        "a random number, of which no other program makes the same as TensorFlow,"
    )


for _name in _RANDOM:
    operator(_name)(_random)


@operator("ListDiff")
def list_diff(call: FlowCall) -> list[Value]:
    """The elements of one list that are not in another, and their places."""
    g, x, y = call.g, call.raw(0), call.raw(1)
    equal = g("Equal", g("Unsqueeze", x, g.ints(1)), g("Unsqueeze", y, g.ints(0)))
    inside = g("ReduceMax", g.cast(equal, dtypes.uint8), g.ints(1), keepdims=0)
    outside = g("Not", g.cast(inside, dtypes.bool_))
    places = g("Squeeze", g("NonZero", outside), g.ints(0))
    index = call.type("out_idx", 3)
    return [g("Gather", x, places), g.cast(places, index)]


operator("Concat")(lambda call: concat(call.on(*call.items[1:], call.items[0])))
