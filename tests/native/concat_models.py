"""Networks that join values which other kernels read too, and how many copies that takes."""

from collections.abc import Callable
from typing import Final, NamedTuple

from infuse import dtypes
from infuse.build.staged import generate
from infuse.ir.dims import Dim
from infuse.ir.graph import Graph, Value
from infuse.targets import Target
from tests.native.builder import Builder


class Joined(NamedTuple):
    """A network by its batch and the side of its images, and how many copies it takes; `apart`: so
    many if each result had memory of its own and kernels read no parts.
    """

    make: Callable[[Dim | str, Dim | str], Builder]
    copies: int
    apart: int


def conv(b: Builder, x: Value, out: int, size: int = 3, **how: object) -> Value:
    """A convolution that keeps the sizes of an image, and an activation."""
    channels = x.shape[1]
    assert isinstance(channels, int)
    pads = how.pop("pads", (size // 2,) * 4)
    weights = b.weight(out, channels, size, size)
    return b("Relu", b("Conv", x, weights, b.weight(out), pads=pads, **how))


def image(batch: Dim | str, side: Dim | str, channels: int = 20) -> tuple[Builder, Value]:
    """A builder, and an image that a convolution made."""
    b = Builder()
    return b, conv(b, b.input(batch, 3, side, side, name="x"), channels)


def chain(batch: Dim | str, side: Dim | str, odd: int = 0) -> Builder:
    """DenseNet's layers in short: each reads all before it, and adds channels."""
    b, x = image(batch, side, 16 + odd)
    for _ in range(3):
        x = b("Concat", x, conv(b, x, 8 + odd), axis=1)
    b.output(b("GlobalAveragePool", x))
    return b


def odd_chain(batch: Dim | str, side: Dim | str) -> Builder:
    """The same with counts of channels that fill no vector."""
    return chain(batch, side, odd=3)


def skip(batch: Dim | str, side: Dim | str) -> Builder:
    """A U-Net of one level: what a pool reads is joined with what comes back."""
    b, x = image(batch, side)
    low = conv(b, b("MaxPool", x, kernel_shape=(2, 2), strides=(2, 2)), 24)
    weights = b.weight(24, 16, 2, 2)
    up = b("ConvTranspose", low, weights, strides=(2, 2))
    b.output(conv(b, b("Concat", x, conv(b, up, 12, 1), axis=1), 10))
    return b


def inception(batch: Dim | str, side: Dim | str) -> Builder:
    """Several parts, one of which other kernels read."""
    b, x = image(batch, side)
    parts = [conv(b, x, 9, 1), conv(b, x, 16), conv(b, conv(b, x, 7, 1), 11)]
    joined = conv(b, b("Concat", *parts, axis=1), 8, 1)
    pooled = b("AveragePool", parts[1], kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    b.output(joined, conv(b, parts[1], 5), pooled)
    return b


def halves(batch: Dim | str, side: Dim | str) -> Builder:
    """A split value whose parts are joined again with what one of them became."""
    b, x = image(batch, side)
    first, second = b.several(2, "Split", conv(b, x, 24, 1), [12, 12], axis=1)
    third = b("Add", conv(b, conv(b, second, 12), 12), second)
    b.output(conv(b, b("Concat", first, second, third, axis=1), 16, 1))
    return b


def rows(batch: Dim | str, side: Dim | str) -> Builder:
    """Products of features that grow."""
    b = Builder()
    x = b("Relu", b("MatMul", b.input(batch, side, 6, name="x"), b.weight(6, 10)))
    for width in (10, 17):
        x = b("Concat", x, b("Relu", b("MatMul", x, b.weight(width, 7))), axis=2)
    b.output(b("MatMul", x, b.weight(24, 5)))
    return b


def stacked(batch: Dim | str, side: Dim | str) -> Builder:
    """Along the outermost axis, where parts have no gaps and any kernel reads them."""
    b = Builder()
    x = b("Tanh", b.input(batch, 5, side, name="x"))
    x = b("Concat", x, b("Softmax", x, axis=1), axis=0)
    x = b("Concat", x, b("LogSoftmax", x, axis=2), axis=0)
    b.output(b("ReduceMax", x, [0], keepdims=0))
    return b


def output(batch: Dim | str, side: Dim | str) -> Builder:
    """Parts that are outputs themselves have memory of the caller."""
    b, x = image(batch, side)
    y = b("Concat", x, conv(b, x, 8), axis=1)
    z = b("Concat", y, conv(b, y, 4), axis=1)
    b.output(y, z)
    return b


def twice(batch: Dim | str, side: Dim | str) -> Builder:
    """One value twice in a result, and in two results that share no memory."""
    b, x = image(batch, side)
    both = b("Concat", x, x, axis=1)
    other = b("Concat", conv(b, x, 6), x, axis=1)
    b.output(conv(b, both, 5), conv(b, other, 5))
    return b


def fixed(batch: Dim | str, side: Dim | str) -> Builder:
    """A constant and an input of the graph as parts, beside a computed one."""
    b = Builder()
    x, y = b.input(1, 3, 9, 8, name="x"), b.input(batch, 4, side, name="y")
    z = conv(b, x, 16)
    joined = b("Concat", b.weight(1, 2, 9, 8), z, x, axis=1)
    b.output(conv(b, joined, 5), conv(b, z, 7), b("Relu", y))
    return b


def pooled_bytes(batch: Dim | str, side: Dim | str) -> Builder:
    """Bytes that a pool reads where they are joined."""
    b = Builder()
    x = b.input(batch, 5, side, side, name="x", dtype=dtypes.int8)
    x = b("MaxPool", x, kernel_shape=(2, 2))
    y = b("MaxPool", x, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    z = b("MaxPool", y, kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    b.output(b("MaxPool", b("Concat", x, y, z, axis=1), kernel_shape=(2, 2)))
    return b


def halves_of_floats(batch: Dim | str, side: Dim | str) -> Builder:
    """Elements of 16 bits."""
    b = Builder()
    x = b("Tanh", b.input(batch, 5, side, name="x", dtype=dtypes.float16))
    y = b("Concat", x, b("Sigmoid", x), axis=1)
    b.output(b("Concat", y, b("Relu", y), axis=1), b("Neg", x))
    return b


MODELS: Final = {
    each.make.__name__: each
    for each in (
        Joined(chain, 0, 3),
        Joined(odd_chain, 0, 3),
        Joined(skip, 0, 1),
        Joined(inception, 0, 1),
        Joined(halves, 0, 2),
        Joined(rows, 0, 2),
        Joined(stacked, 0, 0),
        Joined(output, 2, 3),
        Joined(twice, 3, 3),
        Joined(fixed, 2, 3),
        Joined(pooled_bytes, 0, 2),
        Joined(halves_of_floats, 0, 0),
    )
}
"""By name."""


def copies(graph: Graph, target: str) -> int:
    """The steps that copy a part to its place, or what a kernel reads; how an input of the graph is
    turned does not count.
    """
    program, _ = generate(graph, Target.resolve(target))
    return sum(
        step.label == "concat"
        or (step.label == "reorder" and any(buffer.kind != "input" for buffer in step.reads))
        for step in program.steps
    )
