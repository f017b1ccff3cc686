"""Decoders: transposed convolutions of all kinds, with what stands behind them."""

from typing import Any, NamedTuple

import numpy as np

from infuse import optimize
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.graph import Array, Graph, Value, constant
from tests.native.builder import Builder


class Case(NamedTuple):
    """`filters`: (C, M / group, taps …). `calls`: kernel calls with 128-bit vectors."""

    filters: tuple[int, ...]
    strides: tuple[int, ...]
    calls: int
    how: dict[str, Any] = {}
    group: int = 1


CASES = {
    "blocks": Case((5, 32, 2, 2), (2, 2), 1),
    "blocks of lines": Case((5, 16, 3), (3,), 1),
    "blocks of volumes": Case((3, 16, 2, 2, 2), (2, 2, 2), 1),
    "blocks of windows": Case((5, 16, 4, 4), (2, 2), 1),
    "channels that fill no vector": Case((5, 17, 2, 2), (2, 2), 4),
    "windows that overlap": Case((6, 16, 4, 4), (2, 2), 1, {"pads": (1, 1, 1, 1)}),
    "phases of different taps": Case(
        (6, 16, 3, 3), (2, 2), 4, {"pads": (1, 1, 1, 1), "output_padding": (1, 1)}
    ),
    "blocks that are cut": Case((6, 16, 6, 4), (3, 2), 1, {"pads": (2, 1, 2, 1)}),
    "blocks that are cut, in no whole vectors": Case((6, 18, 4, 4), (2, 2), 4, {"pads": (1,) * 4}),
    "blocks along one axis": Case((6, 16, 3, 4), (1, 2), 1, {"pads": (1, 1, 1, 1)}),
    "cut to an odd size": Case((6, 16, 3, 3), (2, 2), 4, {"pads": (1, 1, 1, 1)}),
    "a step of one": Case((6, 3, 3, 3), (1, 1), 1, {"pads": (1, 1, 1, 1)}),
    "taps apart": Case((4, 16, 3, 4), (2, 3), 6, {"dilations": (3, 2), "pads": (2, 1, 2, 0)}),
    "groups": Case((8, 16, 2, 2), (2, 2), 4, group=2),
    "a channel each": Case((20, 1, 4, 4), (2, 2), 4, {"pads": (1, 1, 1, 1)}, group=20),
    "lines that overlap": Case((4, 16, 4), (2,), 1, {"pads": (1, 1)}),
}


def add_decoder(b: Builder, case: Case, size: tuple[Dim | str, ...], tail: str) -> None:
    """A transposed convolution between convolutions of single pixels, with what decoders have
    behind it: a normalization, a skip that is added, an activation.

    The inputs have their channels last.
    """
    number = len(b.graph.outputs)
    rank, (depth, per_group, *_) = len(size), case.filters
    channels = per_group * case.group

    def pixels(value: Value, filters: int) -> Value:
        return b("Conv", value, b.weight(filters, int(str(value.shape[1])), *(1,) * rank))

    def image(name: str, *sizes: Dim | str) -> Value:
        first = (0, rank + 1, *range(1, rank + 1))
        return b("Transpose", b.input("n", *sizes, 3, name=name), perm=first)

    weights = b.weight(*case.filters), b.weight(channels)
    x = pixels(image(f"x{number}", *size), depth)
    value = b("ConvTranspose", x, *weights, strides=case.strides, group=case.group, **case.how)
    sizes = value.shape[2:]
    if tail == "normalization":
        statistics = [b.weight(channels) for _ in range(3)]
        variance = constant(b.rng.uniform(0.5, 2, channels).astype(np.float32))
        value = b("BatchNormalization", value, *statistics, variance)
        value = b("Mul", value, b("Sigmoid", value))
    if tail == "skip":
        value = b("Relu", b("Add", value, pixels(image(f"skip{number}", *sizes), channels)))
    b.output(pixels(value, 2))


def network(case: Case, size: tuple[Dim | str, ...], tail: str) -> Graph:
    """One such decoder, optimized."""
    b = Builder("decoder")
    add_decoder(b, case, size, tail)
    return optimize(b.graph)


def sizes_of(case: Case) -> tuple[int, ...]:
    """An image for a case."""
    return (5, 4, 3)[: len(case.strides)]


def drawn(value: Value, **sizes: int) -> Array:
    """A random operand; symbols have these sizes."""
    shape = [int(str(dims.substitute(d, sizes))) for d in value.shape]
    return np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
