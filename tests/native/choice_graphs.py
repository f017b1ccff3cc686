"""Graphs in which every family of kernels has a choice to make.

Every layer is there `REPEATS` times, so that one compiled graph can have all candidates of a choice
in it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from infuse import dtypes
from infuse.ir.graph import Graph, Value
from tests.native.builder import Builder

REPEATS = 8
"""At least as many as any choice has candidates."""


def repeat(b: Builder, layer: Callable[[], Value]) -> None:
    """Copies of a layer, each with a result and with weights of its own."""
    b.output(*(layer() for _ in range(REPEATS)))


def conv(
    b: Builder,
    x: Value,
    out: int,
    kernel: tuple[int, int],
    step: int = 1,
    group: int = 1,
    pad: int = 1,
) -> Value:
    weights = b.weight(out, int(str(x.shape[1])) // group, *kernel)
    return b("Conv", x, weights, b.weight(out), strides=(step, step), pads=(pad,) * 4, group=group)


def image(b: Builder, channels: int, height: int, width: int, batch: Any = 2) -> Value:
    """An image that lies channels last."""
    return conv(b, b.input(batch, 3, height, width), channels, (1, 1), pad=0)


def windows() -> Graph:
    """Convolutions of images that are planar and channels last; the last of them has a residual."""
    b = Builder("windows")
    for out, kernel, step in ((18, (3, 3), 1), (33, (7, 7), 2), (5, (5, 3), 1)):
        repeat(b, partial(conv, b, b.input(2, 3, 17, 19), out, kernel, step))
    for channels, out, kernel, step in (
        (7, 20, (3, 3), 1),
        (24, 17, (5, 5), 1),
        (3, 40, (1, 3), 1),
        (36, 20, (3, 3), 2),
        (36, 20, (2, 2), 1),
    ):
        repeat(b, partial(conv, b, image(b, channels, 11, 26), out, kernel, step))
    for channels, out, sides in (
        (16, 16, (8, 8)),
        (20, 33, (9, 11)),
        (70, 48, (13, 5)),
        (40, 40, (4, 4)),
    ):
        repeat(b, partial(conv, b, image(b, channels, *sides), out, (3, 3)))
    x = image(b, 24, 7, 7)
    repeat(b, lambda: b("Relu", b("Add", conv(b, x, 24, (3, 3)), x)))
    return b.graph


def grouped() -> Graph:
    """Groups of one and of several channels, more and fewer than fill a vector together."""
    b = Builder("grouped")
    for channels, out, groups, step in (
        (32, 32, 8, 1),
        (24, 12, 12, 2),
        (36, 36, 6, 1),
        (16, 24, 4, 1),
    ):
        repeat(b, partial(conv, b, image(b, channels, 9, 14), out, (3, 3), step, groups))
    return b.graph


def sized_at_run_time() -> Graph:
    """Convolutions of images whose number and sides only the run knows."""
    b = Builder("symbolic")
    x = b.input("batch", 16, "height", "width")
    y = conv(b, x, 32, (1, 1), pad=0)
    repeat(b, partial(conv, b, y, 32, (3, 3)))
    repeat(b, partial(conv, b, y, 32, (3, 3), group=32))
    return b.graph


def depthwise() -> Graph:
    """Filters of one channel each."""
    b = Builder("depthwise")
    for channels, size, step in (
        (18, 3, 1),
        (40, 3, 2),
        (33, 5, 1),
        (16, 5, 2),
        (20, 7, 1),
        (70, 7, 2),
    ):
        kernel, pad = (size, size), size // 2
        repeat(
            b,
            partial(
                conv, b, image(b, channels, 13, 18), channels, kernel, step, group=channels, pad=pad
            ),
        )
    return b.graph


def attention() -> Graph:
    """Few and many queries, of one block of keys and of several."""
    b = Builder("attention")
    few, many = (
        ((2, 1, 70, 32), (2, 3, 40, 16)),
        ((3, 50, 300, 24), (2, 37, 100, 64), (1, 7, 60, 40)),
    )
    for heads, queries, keys, size in (*few, *many):
        q, k, v = (b.input(2, heads, length, size) for length in (queries, keys, keys))
        repeat(b, partial(b, "Attention", q, k, v))
    q, k, v = (b.input(1, 2, 290, 32) for _ in range(3))
    repeat(b, partial(b, "Attention", q, k, v, is_causal=1))
    return b.graph


def products() -> Graph:
    """Products with constant matrices, which precision bf16 may round."""
    b = Builder("products")
    for m, k, n in ((1, 70, 33), (9, 64, 100), (40, 31, 16)):
        x = b.input(m, k)
        repeat(b, lambda x=x, k=k, n=n: b("MatMul", x, b.weight(k, n)))
    repeat(b, partial(conv, b, b.input(1, 20, 6, 7), 34, (1, 1), pad=0))
    return b.graph


def in_blocks() -> Graph:
    """Products with constant matrices many of whose blocks are zero."""
    b = Builder("blocks")
    for m, k, n, filled in ((1, 72, 32, 5), (9, 64, 96, 20), (40, 32, 16, 3)):
        x = b.input(m, k)
        integers = b("Cast", b("Mul", b("Abs", x), 60.0), to=dtypes.uint8)
        repeat(b, lambda x=x, s=(k, n, filled): b("MatMul", x, b.blocks(*s)))
        repeat(
            b,
            lambda x=integers, s=(k, n, filled): b(
                "Cast",
                b("MatMulInteger", x, b.blocks(*s, dtype=dtypes.int8)),
                to=dtypes.float32,
            ),
        )
    return b.graph


def computed_products() -> Graph:
    """Products of two computed operands, in rows and in columns, of few and of many rows."""
    b = Builder("computed")
    for batch, m, k, n in ((2, 40, 70, 33), (3, 2, 64, 50), (1, 17, 100, 96)):
        x, y, z = b.input(batch, m, k), b.input(batch, k, n), b.input(batch, n, k)
        repeat(b, partial(b, "MatMul", x, y))
        repeat(b, lambda x=x, z=z: b("MatMul", x, b("Transpose", z, perm=(0, 2, 1))))
    x, y = b.input(3, 1, 40, 48), b.input(1, 2, 48, 20)
    repeat(b, partial(b, "MatMul", x, y))
    return b.graph


GRAPHS = (
    *(windows, grouped, sized_at_run_time, depthwise, attention, products, computed_products),
    in_blocks,
)


def sizes_of(names: Iterable[str]) -> dict[str, int]:
    """Values for symbols, other than those that choosing takes for usual."""
    return {name: {"batch": 3, "height": 10, "width": 13}[name] for name in names}
