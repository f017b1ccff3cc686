"""Products and convolutions of 8-bit integers on every kind of vectors: exact sums, and what is
quantized of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from infuse import dtypes, optimize
from infuse.build.compile import compile_graph
from infuse.build.staged import generate
from infuse.dtypes import DType
from infuse.ir.graph import Value
from infuse.lowering.expand import expand
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.targets import Target
from tests.native.builder import Builder
from tests.native.kernel_tools import seldom, targets
from tests.support.emulation import NARROW_BYTES, NARROW_DOTS, NEWEST

Array = np.ndarray[Any, Any]
U8, S8 = dtypes.uint8, dtypes.int8


class Cases(Builder):
    """A graph of many products, so that they compile once, and what they have to give in exact
    arithmetic.
    """

    def __init__(self, seed: int = 3) -> None:
        super().__init__("integers", seed)
        self.fed: dict[str, Array] = {}
        self.expected: list[Array] = []

    def some(self, dtype: DType, *shape: int) -> Array:
        info = np.iinfo(dtype.numpy)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype.numpy)

    def feed(self, array: Array, dtype: DType) -> Value:
        value = self.input(*array.shape, dtype=dtype)
        self.fed[value.name] = array
        return value

    def product(self, a: Array, w: Array, a_zero: Any = None, w_zero: Any = None) -> None:
        left = self.feed(a, dtypes.by_numpy(a.dtype))
        self.output(self("MatMulInteger", left, w, a_zero, w_zero))
        rows, columns = (
            np.asarray(0 if zero is None else zero, np.int64) for zero in (a_zero, w_zero)
        )
        rows = rows[:, None] if rows.ndim == 1 else rows
        self.expected.append((a.astype(np.int64) - rows) @ (w.astype(np.int64) - columns))

    def conv(
        self, x: Array, w: Array, x_zero: Any = None, w_zero: Any = None, **attributes: Any
    ) -> None:
        image = self.feed(x, dtypes.by_numpy(x.dtype))
        self.output(self("ConvInteger", image, w, x_zero, w_zero, **attributes))
        self.expected.append(convolved(x, w, x_zero, w_zero, **attributes))

    def check(self, target: str) -> None:
        found = compile_graph(self.graph, CompileOptions(target=target)).run(self.fed)
        for (name, y), wanted in zip(found.items(), self.expected, strict=True):
            assert y.dtype == np.int32, name
            np.testing.assert_array_equal(y, wanted, err_msg=f"{name} {wanted.shape}")


def convolved(
    x: Array,
    w: Array,
    x_zero: Any,
    w_zero: Any,
    pads: tuple[int, ...] = (0, 0, 0, 0),
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    group: int = 1,
) -> Array:
    """A 2-D convolution in 64-bit integers."""
    top, left, bottom, right = pads
    wide = x.astype(np.int64) - (0 if x_zero is None else int(x_zero))
    wide = np.pad(wide, [(0, 0), (0, 0), (top, bottom), (left, right)])
    zeros = np.zeros(1, np.int64) if w_zero is None else np.atleast_1d(w_zero).astype(np.int64)
    filters = w.astype(np.int64) - zeros.reshape(-1, 1, 1, 1)
    spread = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
    views = sliding_window_view(wide, spread, axis=(2, 3))[:, :, :: strides[0], :: strides[1]]
    views = views[..., :: dilations[0], :: dilations[1]]
    parts = zip(np.split(views, group, 1), np.split(filters, group, 0))
    return np.concatenate([np.einsum("nchwij,mcij->nmhw", v, f) for v, f in parts], 1)


def test_matrices(target: str) -> None:
    cases = Cases()
    for dtype in (U8, S8):
        for m, k, n in (
            (1, 1, 1),
            (2, 3, 17),
            (5, 4, 33),
            (13, 70, 45),
            (49, 147, 16),
            (63, 8, 96),
            (7, 64, 31),
            (70, 200, 77),
        ):
            cases.product(cases.some(dtype, m, k), cases.some(S8, k, n), cases.some(dtype, 1)[0])
    cases.product(cases.some(U8, 9, 33), cases.some(S8, 33, 20))
    cases.product(cases.some(U8, 5, 33), cases.some(S8, 33, 20), cases.some(U8, 5))
    cases.product(cases.some(U8, 2, 3, 5, 12), cases.some(S8, 12, 20), cases.some(U8, 1)[0])
    cases.product(cases.some(S8, 2, 3, 5, 12), cases.some(S8, 3, 12, 20), cases.some(S8, 1)[0])
    cases.check(target)


def test_zero_points_of_weights(target: str) -> None:
    """Those that leave weights in 8 bits, and those that do not."""
    cases = Cases()
    near = cases.rng.integers(100, 150, (37, 40)).astype(np.uint8)
    cases.product(cases.some(U8, 6, 37), near, np.uint8(9), np.uint8(128))
    cases.product(cases.some(U8, 6, 37), cases.some(U8, 37, 40), np.uint8(9), cases.some(U8, 40))
    cases.product(cases.some(S8, 6, 37), cases.some(S8, 37, 40), np.int8(9), np.int8(-128))
    filters = cases.rng.integers(100, 150, (6, 5, 3, 3)).astype(np.uint8)
    for zero in (np.uint8(128), cases.some(U8, 6)):
        cases.conv(cases.some(U8, 1, 5, 6, 7), filters, np.uint8(200), zero, pads=(1, 1, 1, 1))
    cases.check(target)


def test_extremes_do_not_saturate(target: str) -> None:
    cases = Cases()
    most, low = np.full((13, 301), 255, np.uint8), np.full((13, 301), -128, np.int8)
    for w in (127, -128):
        weights = np.full((301, 33), w, np.int8)
        cases.product(most, weights, np.uint8(0))
        cases.product(low, weights, np.int8(127))
        cases.product(most - most, weights, np.uint8(255))
        image, filters = np.full((1, 36, 5, 5), 255, np.uint8), np.full((36, 1, 3, 3), w, np.int8)
        cases.conv(image, filters, np.uint8(0), group=36, pads=(1, 1, 1, 1))
        cases.conv(image, np.full((3, 36, 3, 3), w, np.int8), np.uint8(0), pads=(1, 1, 1, 1))
    cases.check(target)


@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
def test_images(target: str, dtype: DType) -> None:
    cases, zero = Cases(), np.array(-9 if dtype is S8 else 200, dtype.numpy)
    for channels, filters, size, group in (
        (3, 20, 7, 1),
        (3, 8, 3, 1),
        (70, 33, 3, 1),
        (8, 12, 3, 2),
        (16, 40, 1, 1),
    ):
        w = cases.some(S8, filters, channels // group, size, size)
        around = (size // 2,) * 4
        uneven = ((2, 3), (2, 1), (0, 2, 1, 0)), ((1, 2), (1, 2), around)
        for strides, dilations, pads in (((1, 1), (1, 1), around), *uneven):
            cases.conv(
                cases.some(dtype, 2, channels, 15, 14),
                w,
                zero,
                pads=pads,
                strides=strides,
                dilations=dilations,
                group=group,
            )
    cases.check(target)


@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
def test_filters_of_one_channel(target: str, dtype: DType) -> None:
    cases, zero = Cases(), np.array(-9 if dtype is S8 else 200, dtype.numpy)
    for channels, height, width in (
        (40, 3, 3),
        (16, 5, 5),
        (33, 7, 7),
        (5, 1, 3),
        (20, 2, 5),
        (20, 3, 4),
    ):
        w = cases.some(S8, channels, 1, height, width)
        for stride, dilations, pads in (
            (1, (1, 1), (1, 1, 1, 1)),
            (2, (2, 1), (0, 2, 1, 3)),
            (1, (1, 2), (0, 0, 0, 0)),
        ):
            x = cases.some(dtype, 2, channels, 14, 21)
            cases.conv(
                x, w, zero, pads=pads, strides=(stride, stride), dilations=dilations, group=channels
            )
    cases.check(target)


def test_any_batch(target: str) -> None:
    g = Builder()
    x, image = g.input("n", 10, dtype=U8), g.input("n", 4, 5, 5, dtype=U8)
    w, filters = (
        g.rng.integers(-128, 128, (10, 20)).astype(np.int8),
        g.rng.integers(-9, 9, (6, 4, 3, 3)).astype(np.int8),
    )
    g.output(
        g("MatMulInteger", x, w, np.uint8(3)),
        g("ConvInteger", image, filters, np.uint8(3), pads=(1, 1, 1, 1)),
    )
    model = compile_graph(g.graph, CompileOptions(target=target))
    for batch in (7, 0, 50):
        feeds = g.feeds({"n": batch}, 0, 255)
        for name, wanted in evaluate(g.graph, feeds).items():
            np.testing.assert_array_equal(model.run(feeds)[name], wanted)


def dequantized(g: Builder, array: Any, scale: Any, zero: Any, **attributes: Any) -> Value:
    return g("DequantizeLinear", array, np.asarray(scale, np.float32), zero, **attributes)


def quantized_network(dtype: DType, batch: int | str = 1) -> Builder:
    """Two convolutions, one of them depthwise, a sum, a pooling and a product, all between
    integers.
    """
    g = Builder(seed=8)
    zero = np.array(-5 if dtype is S8 else 121, dtype.numpy)

    def weights(*shape: int) -> Value:
        scales = g.rng.uniform(0.001, 0.004, shape[0]).astype(np.float32)
        array = g.rng.integers(-128, 128, shape).astype(np.int8)
        return dequantized(g, array, scales, np.zeros(shape[0], np.int8), axis=0)

    def stored(x: Value, scale: float) -> Value:
        return dequantized(g, g("QuantizeLinear", x, np.float32(scale), zero), scale, zero)

    x = stored(g.input(batch, 6, 9, 10), 0.0203)
    bias = dequantized(
        g, g.rng.integers(-9000, 9000, 20).astype(np.int32), np.full(20, 1e-4), None, axis=0
    )
    first = stored(g("Relu", g("Conv", x, weights(20, 6, 3, 3), bias, pads=(1, 1, 1, 1))), 0.0511)
    second = stored(g("Conv", first, weights(20, 1, 3, 3), group=20, pads=(1, 1, 1, 1)), 0.0317)
    total = stored(
        g("Add", stored(g("Conv", second, weights(20, 20, 1, 1)), 0.0317), first), 0.0613
    )
    pooled = stored(g("MaxPool", total, kernel_shape=(3, 3), strides=(3, 3)), 0.0613)
    flat = g("Flatten", pooled, axis=1)
    last = weights(12, 180)
    g.output(
        stored(g("Gemm", flat, last, np.linspace(-1, 1, 12).astype(np.float32), transB=1), 0.1),
        g("Neg", total),
    )
    return g


@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
def test_dequantized_operands_are_multiplied_as_integers(target: str, dtype: DType) -> None:
    g = quantized_network(dtype)
    better = optimize(g.graph)
    kinds = [node.kind for node in expand(better)[0].nodes]
    assert "Conv" not in kinds
    assert "Gemm" not in kinds
    feeds = g.feeds()
    found, expected = (
        compile_graph(better, CompileOptions(target=target)).run(feeds),
        evaluate(g.graph, feeds),
    )
    for (name, y), scale, share in zip(found.items(), (0.1, 0.0613), (0.2, 0.002)):
        steps = np.rint(np.abs(y - expected[name]) / scale)
        assert steps.max() <= 1, (
            "a quotient near the middle of two steps may round to either, in a row of them"
        )
        assert np.mean(steps > 0) < share


def test_requantization_is_part_of_the_kernels() -> None:
    """No sums of 32 bits in memory, and no floats between the operators: MaxPool and the last step
    apart.
    """
    g = quantized_network(U8)
    program, _ = generate(optimize(g.graph), Target.resolve("native"))
    integers = [s for s in program.steps if "Integer" in s.label]
    assert len(integers) == 4
    written = [b.bytes for s in integers[:2] for b in s.writes]
    assert all(isinstance(size, int) and size <= 20 * 90 for size in written), written


def test_products_of_ranges_found_at_run_time(target: str) -> None:
    """What quantize_dynamic writes: the scale and the zero point come from the data."""
    g = Builder(seed=5)
    x = g.input("n", 30)
    q, scale, zero = g.several(3, "DynamicQuantizeLinear", x)
    w = g.rng.integers(-127, 128, (30, 50)).astype(np.int8)
    total = g("Cast", g("MatMulInteger", q, w, zero, np.int8(0)), to=dtypes.float32)
    factors = g("Mul", scale, g.rng.uniform(0.01, 0.02, 50).astype(np.float32))
    g.output(g("Add", g("Mul", total, factors), g.weight(50)))
    feeds = g.feeds({"n": 21})
    found = compile_graph(g.graph, CompileOptions(target=target)).run(feeds)["y0"]
    expected = evaluate(g.graph, feeds)["y0"]
    np.testing.assert_allclose(found, expected, 1e-5, 1e-5 * float(np.abs(expected).max()))


@pytest.fixture(params=[*targets((NARROW_BYTES, NARROW_DOTS, NEWEST)), *seldom("x86-64-v4")])
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
