"""Convolutions that compute what they read: the kernels against NumPy in float64, and models
against two witnesses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.exporters.onnx import to_model
from infuse.ir.graph import Value
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.targets import Target
from infuse.targets.cpu.families.gemm import pack_gemm_b
from infuse.targets.cpu.lower import separable_block
from tests.native.builder import Builder, assert_plan_is_safe
from tests.native.kernel_tools import (
    Floats,
    assert_close,
    build,
    empty,
    fenced,
    longs,
    pointer,
    seldom,
    targets,
)

Doubles = NDArray[np.float64]
Rng = np.random.Generator
LOW = -0.25
EXPANDS, PROJECTS = 1, 2
BOTH = EXPANDS | PROJECTS


@pytest.fixture(scope="module", params=targets())
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    return build(Path(__file__).with_name("chain_driver.cpp"), request.param)


def numbers(rng: Rng, *shape: int) -> Floats:
    result: Floats = fenced(rng.uniform(-1, 1, shape).astype(np.float32))
    return result


@dataclass
class Case:
    """An image, how its channels change, and the depthwise window; pads are top, left, bottom,
    right.
    """

    image: tuple[int, int, int]
    channels: tuple[int, int, int]
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    parts: int = BOTH


class Call(ctypes.Structure):
    """The struct of chain_driver.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("shape", "x", "expanding", "weights", "projecting")),
        *((name, ctypes.c_void_p) for name in ("first", "second", "third")),
        ("low", ctypes.c_float),
        ("out", ctypes.c_void_p),
    )


def depthwise(x: Doubles, weights: Doubles, case: Case) -> Doubles:
    top, left, bottom, right = case.pads
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    view = sliding_window_view(padded, case.kernel, (1, 2))[
        :, :: case.strides[0], :: case.strides[1]
    ]
    result: Doubles = np.einsum("nhwcyx,yxc->nhwc", view, weights)
    return result


def check_chain(library: ctypes.CDLL, rng: Rng, case: Case, threads: int = 1) -> None:
    inside, middle, outside = case.channels
    entering = inside if case.parts & EXPANDS else middle
    leaving = outside if case.parts & PROJECTS else middle
    x = numbers(rng, *case.image, entering)
    expanding, projecting = (
        rng.uniform(-1, 1, (inside, middle)),
        rng.uniform(-1, 1, (middle, outside)),
    )
    expanding, projecting = expanding.astype(np.float32), projecting.astype(np.float32)
    weights = numbers(rng, *case.kernel, middle)
    biases = [numbers(rng, n) for n in (middle, middle, outside)]

    def computed(size: Callable[[Any], Any], low: float) -> Doubles:
        found = size(x.astype(np.float64))
        if case.parts & EXPANDS:
            found = np.maximum(found @ size(expanding.astype(np.float64)) + size(biases[0]), low)
        found = np.maximum(
            depthwise(found, size(weights.astype(np.float64)), case) + size(biases[1]), low
        )
        if case.parts & PROJECTS:
            found = np.maximum(found @ size(projecting.astype(np.float64)) + size(biases[2]), low)
        result: Doubles = found
        return result

    expected = computed(lambda a: a, LOW)
    n, h, w = case.image
    oh, ow = expected.shape[1:3]
    out = empty(n, oh, ow, leaving)
    mid = (n, h, w, middle, oh, ow, *case.kernel, *case.strides, 1, 1, *case.pads[:2])
    shape = longs(
        *mid,
        inside if case.parts & EXPANDS else 0,
        entering,
        outside if case.parts & PROJECTS else 0,
    )
    packed = [fenced(pack_gemm_b(matrix, library.lanes())) for matrix in (expanding, projecting)]
    addresses = [pointer(a) for a in (x, packed[0], weights, packed[1], *biases)]
    call = Call(ctypes.addressof(shape), *addresses, LOW, pointer(out))
    assert library.run_chain(threads, ctypes.byref(call)) == 0
    terms = inside + case.kernel[0] * case.kernel[1] + middle
    assert_close(out, expected, computed(np.abs, 0), terms)


IMAGES = (((2, 7, 9), (1, 1, 1, 1)), ((1, 5, 20), (0, 0, 0, 0)), ((3, 3, 1), (2, 1, 0, 2)))
CHANNELS = [(3, 16, 5), (5, 33, 17), (16, 40, 24), (1, 1, 1)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("parts", [EXPANDS, PROJECTS, BOTH])
@pytest.mark.parametrize("channels", CHANNELS)
def test_chains(
    library: ctypes.CDLL, rng: Rng, channels: tuple[int, int, int], parts: int, threads: int
) -> None:
    for image, pads in IMAGES:
        for down in (1, 2, 4):
            check_chain(
                library, rng, Case(image, channels, (3, 3), (down, 1), pads, parts), threads
            )
    check_chain(
        library, rng, Case((2, 6, 11), channels, (1, 3), (1, 1), (0, 1, 0, 1), parts), threads
    )
    check_chain(
        library, rng, Case((1, 9, 8), channels, (8, 3), (1, 1), (7, 1, 3, 1), parts), threads
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("channels", CHANNELS)
def test_chains_of_stride_2(
    library: ctypes.CDLL, rng: Rng, channels: tuple[int, int, int], threads: int
) -> None:
    for image, pads in IMAGES:
        for down in (1, 2):
            check_chain(library, rng, Case(image, channels, (3, 3), (down, 2), pads), threads)
    check_chain(library, rng, Case((2, 9, 11), channels, (5, 5), (2, 2), (2, 2, 2, 2)), threads)


@pytest.mark.parametrize(
    ("strides", "parts"), [((1, 1), EXPANDS), ((1, 1), PROJECTS), ((1, 1), BOTH), ((2, 2), BOTH)]
)
def test_chains_in_several_bands(
    library: ctypes.CDLL, rng: Rng, strides: tuple[int, int], parts: int
) -> None:
    """Lines wrap around in the ring, whose size is a part of the second level cache."""
    library.band_lines.restype = ctypes.c_long

    def bands(height: int) -> float:
        oh = -(-height // strides[0])
        mid = (2, height, 60, 144, oh, -(-60 // strides[1]), 3, 3, *strides, 1, 1, 1, 1)
        shape = longs(*mid, 8 * (parts & EXPANDS), 8, 20 if parts & PROJECTS else 0)
        return oh / float(library.band_lines(shape))

    height = next(lines for lines in (41, 81, 161, 321) if bands(lines) > 2)
    case = Case((2, height, 60), (8, 144, 20), (3, 3), strides, parts=parts)
    check_chain(library, rng, case)
    check_chain(library, rng, case, 3)


def test_a_window_outside_of_the_image_gives_the_bias(library: ctypes.CDLL, rng: Rng) -> None:
    check_chain(library, rng, Case((2, 2, 3), (4, 20, 6), (3, 3), (2, 1), (6, 1, 9, 1)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (13, 33, 20), (50, 16, 7), (27, 100, 300), (70, 40, 1040)]
)
def test_products_of_computed_rows(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, threads: int
) -> None:
    pixels = 5
    a, gates, bias = numbers(rng, m, k), numbers(rng, -(-m // pixels), k), numbers(rng, n)
    b = rng.uniform(-1, 1, (k, n)).astype(np.float32)
    packed, out = fenced(pack_gemm_b(b, library.lanes())), empty(m, n)
    shape, low = longs(m, n, k, k), ctypes.c_float(LOW)
    operands = [pointer(array) for array in (a, gates, packed, bias)]
    library.run_made(threads, shape, ctypes.c_long(pixels), *operands, low, pointer(out))
    rows = a.astype(np.float64) * gates.astype(np.float64)[np.arange(m) // pixels]
    exact = b.astype(np.float64)
    assert_close(
        out, np.maximum(rows @ exact + bias, LOW), np.abs(rows) @ np.abs(exact) + np.abs(bias), k
    )


# ---- models


def conv(
    b: Builder, x: Value, out: int, kernel: int = 1, group: int = 1, **attributes: Any
) -> Value:
    channels = x.shape[1]
    assert isinstance(channels, int)
    scale = (channels // group * kernel * kernel) ** -0.5
    weights = b.rng.normal(0, scale, (out, channels // group, kernel, kernel)).astype(np.float32)
    return b("Conv", x, weights, b.weight(out), group=group, **attributes)


def inverted_residual(
    b: Builder, x: Value, wide: int, out: int, kernel: int = 3, stride: int = 1
) -> Value:
    wider = b("Clip", conv(b, x, wide), 0.0, 6.0)
    pads = [kernel // 2] * 4
    deep = conv(b, wider, wide, kernel, wide, pads=pads, strides=[stride, stride])
    made = conv(b, b("HardSwish", deep), out)
    return b("Add", made, x) if stride == 1 and out == x.shape[1] else made


def gated(b: Builder, x: Value, out: int) -> Value:
    """Squeeze and excite, then a 1 x 1 convolution."""
    size = x.shape[1]
    assert isinstance(size, int)
    gate = b("Sigmoid", conv(b, b("Relu", conv(b, b("GlobalAveragePool", x), 4)), size))
    return conv(b, b("Mul", x, gate), out)


def network(batch: int | str = 2) -> Builder:
    b = Builder()
    x = b.input(batch, 12, 13, 15)
    y = inverted_residual(b, x, 40, 12)
    y = inverted_residual(b, y, 33, 20, 5, 2)
    b.output(y)
    y = b("Relu", conv(b, y, 20, 3, 20, pads=[1, 1, 1, 1]))
    y = gated(b, conv(b, conv(b, y, 50), 50, 7, 50, pads=[3, 3, 3, 3]), 24)
    b.output(y)
    y = conv(b, b("Relu", b("Add", b("Mul", y, b.weight(1, 24, 1, 1)), b.weight(24, 1, 1))), 7)
    b.output(y)
    return b


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains are formed however small images are."""
    monkeypatch.setattr(separable_block, "ROOM", 0)
    monkeypatch.setattr(separable_block, "HALO", 10)


def steps_of(b: Builder) -> list[str]:
    program, memory = generate(b.graph, Target.resolve("native"))
    assert_plan_is_safe(program, memory)
    return [step.label for step in program.steps if step.sources]


def agree(found: dict[str, Any], b: Builder, feeds: dict[str, Any]) -> None:
    session = onnxruntime.InferenceSession(
        to_model(b.graph).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for witness in (evaluate(b.graph, feeds), dict(zip(found, session.run(list(found), feeds)))):
        for name, wanted in witness.items():
            np.testing.assert_allclose(found[name], wanted, 1e-5, 2e-5, err_msg=name)


@pytest.mark.usefixtures("always")
def test_chains_are_one_step() -> None:
    assert steps_of(network()) == [
        "Conv + Clip + Conv + HardSwish + Conv + Add",
        "Conv + Clip + Conv + HardSwish + Conv",
        "Conv + Relu",
        "Conv + Conv + GlobalAveragePool",
        "Conv + Relu",
        "Conv + Sigmoid",
        "Mul + Conv",
        "Mul + Add + Relu + Conv",
    ]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("target", [*targets(()), *seldom("x86-64-v4")])
def test_models_with_chains(target: str) -> None:
    b = network()
    with compile_graph(b.graph, CompileOptions(target=target, threads=2)) as model:
        feeds = b.feeds()
        agree(model.run(feeds), b, feeds)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("threads", [1, 3])
def test_chains_of_any_batch(threads: int) -> None:
    b = network("batch")
    with compile_graph(b.graph, CompileOptions(threads=threads)) as model:
        for batch in (1, 3, 0, 2):
            feeds = b.feeds({"batch": batch})
            found = model.run(feeds)
            assert {value.shape[0] for value in found.values()} == {batch}
            if batch:
                agree(found, b, feeds)


def test_small_images_are_not_cut_into_bands() -> None:
    """They stay in the cache anyway; work before a 1 x 1 convolution is still done in it."""
    labels = steps_of(network())
    assert labels.count("Conv + Clip") == 2
    assert {"GlobalAveragePool", "Mul + Conv"} <= set(labels)


@pytest.mark.usefixtures("always")
def test_what_others_read_is_no_part_of_a_chain() -> None:
    b = Builder()
    x = b.input(1, 8, 9, 9)
    wider = b("Relu", conv(b, x, 24))
    deep = conv(b, wider, 24, 3, 24, pads=[1, 1, 1, 1])
    b.output(deep, conv(b, deep, 8), wider)
    assert steps_of(b) == ["Conv + Relu", "Conv", "Conv"]
    with compile_graph(b.graph) as model:
        feeds = b.feeds()
        agree(model.run(feeds), b, feeds)


@pytest.mark.usefixtures("always")
def test_what_depends_on_the_pixel_ends_a_chain() -> None:
    """A residual sum between two convolutions is no stage: its operand has a value for every
    pixel.
    """
    b = Builder()
    x, other = b.input(1, 8, 9, 9), b.input(1, 24, 9, 9)
    wider = b("Add", conv(b, x, 24), other)
    b.output(conv(b, wider, 24, 3, 24, pads=[1, 1, 1, 1]))
    assert steps_of(b) == ["Conv + Add", "Conv"]
    with compile_graph(b.graph) as model:
        feeds = b.feeds()
        agree(model.run(feeds), b, feeds)


def test_costly_work_is_done_once() -> None:
    """An exponential before a product is not computed once for every thread."""
    b = Builder()
    x = b.input(1, 8, 9, 9)
    y = b("Sigmoid", b("Add", x, b("Neg", x)))
    b.output(conv(b, y, 4))
    assert len(steps_of(b)) == 2
