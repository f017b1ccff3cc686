"""Products of operands rounded to bfloat16: kernels on every width of vectors, and models of
precision bf16.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

import infuse
from infuse import dtypes
from infuse.codegen.autotune.selector import Chooser, Key
from infuse.codegen.compile import generate
from infuse.codegen.packing import pack_conv_bf16, pack_gemm_bf16
from infuse.codegen.tensors import Tensor
from infuse.codegen.winograd import winograd_weights
from infuse.errors import OptionError
from infuse.ir.graph import Value
from infuse.targets import Target
from infuse.testing.emulation import NEWEST, resolve
from tests.cli_tools import Cli
from tests.native.builder import Builder
from tests.native.kernel_tools import (
    Floats,
    assert_close,
    build,
    empty,
    fenced,
    longs,
    pointer,
    targets,
)
from tests.native.test_kernels_attention import ATTENTIONS, AttentionCall, reference, steps

pytestmark = pytest.mark.row("R3")
Doubles = NDArray[np.float64]
Rng = np.random.Generator
LOW = -0.25


@pytest.fixture(scope="module", params=targets((NEWEST,)))
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def library(target: str) -> ctypes.CDLL:
    return build(Path(__file__).with_name("bf16_driver.cpp"), target)


def rounded(x: NDArray[Any]) -> Doubles:
    return x.astype(np.float32).astype(bfloat16).astype(np.float64)


def numbers(rng: Rng, *shape: int) -> Floats:
    result: Floats = fenced(rng.uniform(-1, 1, shape).astype(np.float32))
    return result


# ---- kernels


def check_gemm(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, gap: int = 0, threads: int = 1
) -> None:
    a, b, bias = (
        numbers(rng, m * (k + gap) - gap),
        rng.uniform(-1, 1, (k, n)).astype(np.float32),
        numbers(rng, n),
    )
    packed, out = fenced(pack_gemm_bf16(b, library.lanes())), empty(m, n)
    low = ctypes.c_float(LOW)
    shape = longs(m, n, k, k + gap)
    library.run_gemm_bf16(
        threads, shape, pointer(a), pointer(packed), pointer(bias), low, pointer(out)
    )
    left, right = rounded(as_strided(a, (m, k), (4 * (k + gap), 4))), rounded(b)
    expected = np.maximum(left @ right + bias, LOW)
    assert_close(out, expected, np.abs(left) @ np.abs(right) + np.abs(bias), k)


def test_the_processor_s_own_instructions_are_used(library: ctypes.CDLL, target: str) -> None:
    features = resolve(target).features
    assert library.is_native() == ("avx512_bf16" in features)
    assert library.lanes() == (16 if "avx512f" in features else 8 if "avx" in features else 4)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 100])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 11, 12, 13, 23, 24, 25, 49])
def test_gemm_edges(library: ctypes.CDLL, rng: Rng, m: int, n: int) -> None:
    for k in (1, 2, 3, 7, 31, 34):
        check_gemm(library, rng, m, n, k)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("m", "n", "k", "gap"),
    [
        (1, 1000, 256, 0),
        (196, 64, 96, 0),
        (300, 24, 17, 3),
        (5, 96, 33, 1),
        (3136, 64, 64, 0),
        (7, 7, 0, 0),
        (0, 5, 4, 0),
    ],
)
def test_gemm_on_threads(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, gap: int, threads: int
) -> None:
    check_gemm(library, rng, m, n, k, gap, threads)


@pytest.mark.parametrize(
    ("m", "n", "k", "gap", "skipped"),
    [
        (5, 33, 8, 0, 0),
        (25, 64, 34, 2, 2),
        (13, 40, 7, 1, 0),
        (13, 40, 8, 1, 0),
        (9, 70, 6, 0, 1),
        (30, 64, 2048, 0, 0),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_gemm_of_rounded_rows(
    library: ctypes.CDLL, rng: Rng, m: int, n: int, k: int, gap: int, skipped: int, threads: int
) -> None:
    memory = fenced(rng.uniform(-1, 1, skipped + m * (k + gap) - gap).astype(bfloat16))[skipped:]
    b, bias = rng.uniform(-1, 1, (k, n)).astype(np.float32), numbers(rng, n)
    packed, out, low = fenced(pack_gemm_bf16(b, library.lanes())), empty(m, n), ctypes.c_float(LOW)
    arrays = [pointer(x) for x in (memory, packed, bias)]
    library.run_gemm_of_rounded(threads, longs(m, n, k, k + gap), *arrays, low, pointer(out))
    left, right = as_strided(memory, (m, k), (2 * (k + gap), 2)).astype(np.float64), rounded(b)
    expected = np.maximum(left @ right + bias, LOW)
    assert_close(out, expected, np.abs(left) @ np.abs(right) + np.abs(bias), k)


def test_gemm_with_much_to_cache(library: ctypes.CDLL, rng: Rng) -> None:
    check_gemm(library, rng, 300, 500, 2049, gap=5, threads=2)
    check_gemm(library, rng, 130, 1100, 1024, threads=2)


def test_gemm_passes_nan_and_infinity(library: ctypes.CDLL) -> None:
    a = np.array([[np.nan, 1], [np.inf, 1], [-np.inf, 1]], np.float32)
    packed, bias, out = (
        pack_gemm_bf16(np.ones((2, 5)), library.lanes()),
        np.zeros(5, np.float32),
        empty(3, 5),
    )
    low = ctypes.c_float(LOW)
    library.run_gemm_bf16(
        1, longs(3, 5, 2, 2), pointer(a), pointer(packed), pointer(bias), low, pointer(out)
    )
    np.testing.assert_array_equal(out, np.repeat(np.array([[np.nan], [np.inf], [LOW]]), 5, axis=1))


def test_ties_are_rounded_to_even(library: ctypes.CDLL) -> None:
    ties = (np.arange(0x3F80, 0x3FC0, dtype=np.uint32) << 16 | 0x8000).view(np.float32)
    a, expected = fenced(ties[:, None].copy()), ties.astype(bfloat16).astype(np.float32)
    packed, bias, out = (
        pack_gemm_bf16(np.ones((1, 1)), library.lanes()),
        np.zeros(1, np.float32),
        empty(64, 1),
    )
    low = ctypes.c_float(LOW)
    library.run_gemm_bf16(
        1, longs(64, 1, 1, 1), pointer(a), pointer(packed), pointer(bias), low, pointer(out)
    )
    np.testing.assert_array_equal(out[:, 0], expected)


@pytest.mark.parametrize(
    ("n", "h", "w", "c", "oc", "kernel", "strides", "dilations", "pads", "groups"),
    [
        (1, 9, 11, 3, 20, (7, 7), (2, 2), (1, 1), (3, 3), 1),
        (2, 6, 5, 8, 33, (3, 3), (1, 1), (1, 1), (1, 1), 1),
        (1, 7, 8, 5, 4, (3, 3), (2, 2), (1, 1), (0, 1), 1),
        (1, 8, 9, 7, 40, (3, 3), (1, 1), (2, 2), (2, 2), 1),
        (2, 6, 6, 12, 18, (3, 2), (1, 1), (1, 1), (1, 0), 3),
        (1, 5, 6, 9, 70, (1, 1), (2, 2), (1, 1), (0, 0), 1),
        (1, 4, 5, 15, 6, (1, 3), (1, 1), (1, 3), (0, 3), 3),
        (1, 3, 2, 4, 5, (5, 9), (1, 1), (1, 1), (4, 8), 1),
        (1, 40, 41, 33, 65, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_convolutions(
    library: ctypes.CDLL,
    rng: Rng,
    n: int,
    h: int,
    w: int,
    c: int,
    oc: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: tuple[int, int],
    groups: int,
    threads: int,
) -> None:
    x, weights = (
        numbers(rng, n, h, w, c),
        rng.uniform(-1, 1, (oc, c // groups, *kernel)).astype(np.float32),
    )
    (kh, kw), (sh, sw), (dh, dw), (top, left) = kernel, strides, dilations, pads
    oh, ow = (
        (h + 2 * top - dh * (kh - 1) - 1) // sh + 1,
        (w + 2 * left - dw * (kw - 1) - 1) // sw + 1,
    )
    whole = groups == 1 and dw == 1
    packed, bias, out = (
        fenced(pack_conv_bf16(weights, groups, whole, library.lanes())),
        numbers(rng, oc),
        empty(n, oh, ow, oc),
    )
    shape = longs(n, h, w, c, oh, ow, oc, kh, kw, sh, sw, dh, dw, top, left, groups, 0)
    low = ctypes.c_float(LOW)
    library.run_conv_bf16(
        threads, shape, pointer(x), pointer(packed), pointer(bias), low, pointer(out)
    )

    def convolved(image: Doubles, filters: Doubles) -> Doubles:
        padded = np.pad(image, ((0, 0), (top, top), (left, left), (0, 0)))
        windows = sliding_window_view(padded, (dh * (kh - 1) + 1, dw * (kw - 1) + 1), axis=(1, 2))
        windows = windows[:, ::sh, ::sw, :, ::dh, ::dw][:, :oh, :ow].reshape(
            n, oh, ow, groups, c // groups, kh, kw
        )
        own = filters.reshape(groups, oc // groups, c // groups, kh, kw)
        result: Doubles = np.einsum("nhwgcij,gocij->nhwgo", windows, own).reshape(n, oh, ow, oc)
        return result

    image, filters = rounded(x), rounded(weights)
    magnitude = convolved(np.abs(image), np.abs(filters)) + np.abs(bias)
    assert_close(
        out, np.maximum(convolved(image, filters) + bias, LOW), magnitude, kh * kw * c // groups
    )


@pytest.mark.parametrize(
    ("n", "h", "w", "c", "oc", "pad"),
    [(1, 8, 8, 16, 32, 1), (2, 7, 5, 33, 50, 1), (1, 14, 15, 64, 17, 0)],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_winograd(
    library: ctypes.CDLL, rng: Rng, n: int, h: int, w: int, c: int, oc: int, pad: int, threads: int
) -> None:
    x, weights = numbers(rng, n, h, w, c), rng.uniform(-1, 1, (oc, c, 3, 3)).astype(np.float32)
    oh, ow = h + 2 * pad - 2, w + 2 * pad - 2
    packed, bias = (
        fenced(winograd_weights(weights, 2, library.lanes(), pairs=True)),
        numbers(rng, oc),
    )
    shape, out = (
        longs(n, h, w, c, oh, ow, oc, 3, 3, 1, 1, 1, 1, pad, pad, 1, 0),
        empty(n, oh, ow, oc),
    )
    low = ctypes.c_float(-1e9)
    library.run_winograd_bf16(
        threads, shape, pointer(x), pointer(packed), pointer(bias), low, pointer(out)
    )

    def convolved(
        sizes: Callable[[Doubles], Doubles], g: Doubles, to_tile: Doubles, from_tile: Doubles
    ) -> Doubles:
        """F(2 × 2, 3 × 3) by tiles, of the operands' sizes and with the transforms given."""
        padded = np.pad(
            sizes(x.astype(np.float64)), ((0, 0), (pad, pad + oh % 2), (pad, pad + ow % 2), (0, 0))
        )
        tiles = sliding_window_view(padded, (4, 4), axis=(1, 2))[:, ::2, ::2]
        turned = np.einsum("pi,nyxcij,qj->nyxcpq", to_tile, tiles, to_tile)
        points = np.einsum("pi,ocij,qj->ocpq", g, sizes(weights.astype(np.float64)), g)
        products = np.einsum("nyxcpq,ocpq->nyxopq", turned, points)
        result = np.einsum("ip,nyxopq,jq->nyixjo", from_tile, products, from_tile)
        whole: Doubles = result.reshape(n, -1, result.shape[3] * 2, oc)[:, :oh, :ow]
        return whole

    g = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]]) / 2
    to_tile = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]], np.float64)
    from_tile = np.array([[1, 1, 1, 0], [0, 1, -1, 1]], np.float64)
    exact = convolved(lambda v: v, g, to_tile, from_tile) + bias
    magnitude = convolved(np.abs, np.abs(g), np.abs(to_tile), np.abs(from_tile))
    assert np.all(np.abs(out - exact) <= 2.02 * 2.0**-8 * magnitude)
    image, near = (
        np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))).astype(np.float64),
        weights.astype(np.float64),
    )
    windows = sliding_window_view(image, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(
        exact, np.einsum("nhwcij,ocij->nhwo", windows, near) + bias, rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("mask_kind", ["none", "add", "causal"])
@pytest.mark.parametrize(
    "sizes", [*ATTENTIONS, (1, 1, 1, 30, 31, 200, 70), (1, 2, 1, 3, 5, 129, 33)]
)
def test_attention(library: ctypes.CDLL, rng: Rng, sizes: tuple[int, ...], mask_kind: str) -> None:
    b, h, kv_heads, m, n, d, values = sizes
    q, k, v = (
        numbers(rng, b, m, h, d),
        numbers(rng, b, kv_heads, n, d),
        numbers(rng, b, kv_heads, n, values),
    )
    mask, causal, offset = None, mask_kind == "causal", n - m
    if mask_kind == "add":
        mask = fenced(rng.uniform(-3, 3, (b, h, m, n)).astype(np.float32))
        mask[:, :, :, 0] = -np.inf if n > 1 else 0
    by_heads, out = q.transpose(0, 2, 1, 3), empty(b, m, h, values)
    call = AttentionCall(
        b, h, kv_heads, m, n, d, values, causal, offset, 1, *(steps(x, 3) for x in (by_heads, k, v))
    )
    if mask is not None:
        call.mask = steps(mask)
    arrays = [pointer(x) for x in (q, k, v)]
    scale, given = 1 / np.sqrt(d), ctypes.c_void_p(0) if mask is None else pointer(mask)
    library.attend_bf16(2, ctypes.byref(call), ctypes.c_float(scale), *arrays, given, pointer(out))
    visible = (
        np.arange(n)[None] <= np.arange(m)[:, None] + offset if causal else np.ones((m, n), bool)
    )
    few = m <= 2  # not rounded
    near = [x.astype(np.float64) if few else rounded(x) for x in (by_heads, k, v)]
    expected = reference(*near, scale, mask, visible)
    sizes_of_terms = reference(near[0], near[1], np.abs(near[2]), scale, mask, visible)
    found = out.transpose(0, 2, 1, 3)
    assert np.all(
        np.abs(found - expected) <= (2e-6 if few else 1.02 * 2.0**-8) * sizes_of_terms + 1e-6
    )
    exact = reference(by_heads, k, v, scale, mask, visible)
    assert np.all(np.abs(found - exact) <= 2.0**-5)


# ---- models

Operation = Callable[[Doubles, Doubles, Doubles], Doubles]


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product that may be rounded is, also where float32 would be as fast."""

    def forced(key: Key) -> str | None:
        return next((name for name in key.names if name.endswith("bf16")), None)

    monkeypatch.setattr("infuse.codegen.compile.Chooser", partial(Chooser, forced=forced))


def check_model(
    make: Builder, product: Operation, w: Value, c: Value | None, sizes: list[dict[str, int]]
) -> None:
    """y0 is the product of x0 and w, plus c: right for rounded operands, and near to what exact
    operands give.

    Two rounded operands of relative error 2⁻⁸ each make one of twice that in every product.
    """
    assert w.const is not None
    weights = w.const.astype(np.float64)
    addend = np.zeros(1) if c is None or c.const is None else c.const.astype(np.float64)
    with infuse.compile(make.graph, precision="bf16", threads=2) as model:
        assert model.metadata["precision"] == "bf16"
        for size in sizes:
            feeds = make.feeds(size)
            x, found = feeds["x0"].astype(np.float64), model.run(feeds)["y0"]
            magnitude = product(np.abs(x), np.abs(weights), np.abs(addend))
            assert found.dtype == np.float32
            near = product(rounded(x), rounded(weights), addend)
            assert np.all(np.abs(found - near) <= 2.0**-17 * magnitude)
            true = product(x, weights, addend)
            assert np.all(np.abs(found - true) <= 2.01 * 2.0**-8 * magnitude)
            assert np.abs(found - true).max() > 2.0**-20 * magnitude.max(), "nothing was rounded"


@pytest.mark.usefixtures("bf16_processor", "rounds")
@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 5), (64, 33), (31, 96), (768, 40)])
def test_matmul(k: int, n: int) -> None:
    make = Builder()
    x, w = make.input("batch", "rows", k), make.weight(k, n)
    make.output(make("MatMul", x, w))
    sizes = [{"batch": 1, "rows": 1}, {"batch": 2, "rows": 3}, {"batch": 3, "rows": 17}]
    check_model(make, lambda x, w, c: x @ w + c, w, None, sizes)


@pytest.mark.usefixtures("bf16_processor", "rounds")
def test_gemm_of_a_turned_matrix() -> None:
    make = Builder()
    x, w, c = make.input("rows", 37), make.weight(20, 37), make.weight(20)
    make.output(make("Gemm", x, w, c, transB=1, alpha=0.5, beta=2.0))
    check_model(make, lambda x, w, c: 0.5 * (x @ w.T) + 2 * c, w, c, [{"rows": 1}, {"rows": 29}])


@pytest.mark.usefixtures("bf16_processor", "rounds")
def test_matmul_of_columns() -> None:
    make = Builder()
    x, w = make.input("rows", 30, 8), make.weight(30, 11)
    make.output(make("MatMul", make("Transpose", x, perm=(0, 2, 1)), w))
    check_model(
        make, lambda x, w, c: x.transpose(0, 2, 1) @ w + c, w, None, [{"rows": 1}, {"rows": 4}]
    )


@pytest.mark.usefixtures("bf16_processor", "rounds")
@pytest.mark.parametrize(("kernel", "stride"), [((1, 1), 1), ((1, 1), 2), ((5, 3), 1)])
def test_convolution(kernel: tuple[int, int], stride: int) -> None:
    make = Builder()
    x, w, c = make.input("n", 9, 12, 12), make.weight(18, 9, *kernel), make.weight(18)
    make.output(make("Conv", x, w, c, strides=(stride, stride)))

    def product(x: Doubles, w: Doubles, c: Doubles) -> Doubles:
        windows = sliding_window_view(x, kernel, axis=(2, 3))[:, :, ::stride, ::stride]
        result: Doubles = np.einsum("nchwij,ocij->nohw", windows, w) + c[:, None, None]
        return result

    check_model(
        make,
        lambda x, w, c: product(x, w, c if c.size > 1 else np.zeros(18)),
        w,
        c,
        [{"n": 1}, {"n": 2}],
    )


@pytest.mark.usefixtures("bf16_processor")
def test_attention_in_a_model(rng: Rng) -> None:
    make = Builder()
    q, k, v = (make.input("rows", 24, 64) for _ in range(3))
    make.output(make("Attention", q, k, v, q_num_heads=4, kv_num_heads=4))
    feeds = make.feeds({"rows": 2})
    heads = [x.reshape(2, 24, 4, 16).transpose(0, 2, 1, 3) for x in feeds.values()]
    exact = (
        reference(*heads, 0.25, None, np.ones((24, 24), bool))
        .transpose(0, 2, 1, 3)
        .reshape(2, 24, 64)
    )
    with infuse.compile(make.graph, precision="bf16") as model:
        found = model.run(feeds)["y0"]
    assert 2.0**-14 < np.abs(found - exact).max() < 2.0**-4


@pytest.mark.usefixtures("bf16_processor")
@pytest.mark.parametrize("hidden", [31, 64, 2048])
def test_values_that_only_products_read_are_stored_rounded(hidden: int) -> None:
    """What two products in a row give is what each of them gives alone, bit by bit."""
    first, second, both = Builder(), Builder(), Builder()
    weights, bias = first.weight(24, hidden), first.weight(hidden)
    last, shape = first.weight(hidden, 40), ("batch", "rows")

    def start(make: Builder) -> Value:
        return make("Gelu", make("Add", make("MatMul", make.input(*shape, 24), weights), bias))

    first.output(start(first))
    second.output(second("MatMul", second.input(*shape, hidden), last))
    both.output(both("MatMul", start(both), last))
    program, _ = generate(infuse.optimize(both.graph), Target.resolve(), precision="bf16")
    stored = [
        tensor.dtype.name
        for step in program.steps
        for tensor in step.arguments
        if isinstance(tensor, Tensor)
    ]
    assert len(program.steps) == 2
    assert stored.count("bfloat16") == (4 if hidden % 2 == 0 else 2)
    feeds = both.feeds({"batch": 3, "rows": 11})
    options: dict[str, Any] = {"precision": "bf16", "threads": 2}
    with (
        infuse.compile(first.graph, **options) as one,
        infuse.compile(second.graph, **options) as two,
    ):
        expected = two.run({"x0": one.run(feeds)["y0"]})["y0"]
    with infuse.compile(both.graph, **options) as model:
        np.testing.assert_array_equal(model.run(feeds)["y0"], expected)


@pytest.mark.usefixtures("bf16_processor")
def test_fused_work_reads_and_writes_other_types() -> None:
    make = Builder()
    x, mask = make.input("rows", 50), make.input("rows", 64, dtype=dtypes.bool_)
    whole, narrow = (
        make.input("rows", 64, dtype=dtypes.int32),
        make.input("rows", 64, dtype=dtypes.float16),
    )
    w = make.weight(50, 64)
    product = make("MatMul", x, w)
    other = make(
        "Add", make("Cast", whole, to=dtypes.float32), make("Cast", narrow, to=dtypes.float32)
    )
    make.output(make("Greater", make("Where", mask, product, other), np.zeros(1, np.float32)))
    assert w.const is not None
    with infuse.compile(make.graph, precision="bf16", threads=1) as model:
        for rows in (1, 13, 40):
            feeds = make.feeds({"rows": rows})
            expected = np.where(
                feeds["x1"],
                rounded(feeds["x0"]) @ rounded(w.const),
                feeds["x2"] + feeds["x3"].astype(np.float64),
            )
            clear = np.abs(expected) > 1e-3
            found = model.run(feeds)["y0"]
            assert found.dtype == np.bool_
            np.testing.assert_array_equal(found[clear], expected[clear] > 0)


@pytest.mark.usefixtures("bf16_processor")
def test_everything_else_stays_in_float32(rng: Rng) -> None:
    make = Builder()
    x = make.input(4, 33)
    normal = make("LayerNormalization", x, np.ones(33, np.float32), np.zeros(33, np.float32))
    make.output(make("Softmax", make("Add", normal, x)))
    feeds = make.feeds()
    with infuse.compile(make.graph, precision="bf16") as half, infuse.compile(make.graph) as full:
        np.testing.assert_array_equal(half.run(feeds)["y0"], full.run(feeds)["y0"])
        assert full.metadata["precision"] == "fp32"


@pytest.mark.usefixtures("bf16_processor")
def test_a_compiled_folder_keeps_its_precision(tmp_path: Path) -> None:
    make = Builder()
    make.output(make("MatMul", make.input(3, 64), make.weight(64, 64)))
    feeds = make.feeds()
    with infuse.compile(make.graph, precision="bf16", output=tmp_path / "half") as model:
        expected = model.run(feeds)["y0"]
    with infuse.compile(make.graph) as full:
        assert not np.array_equal(full.run(feeds)["y0"], expected)
        assert full.metadata["weights_bytes"] == 64 * 64 * 4
    with infuse.load_compiled(tmp_path / "half") as model:
        assert model.metadata["weights_bytes"] == 64 * 64 * 2
        np.testing.assert_array_equal(model.run(feeds)["y0"], expected)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_targets_without_the_instruction_are_refused(target: str) -> None:
    make = Builder()
    make.output(make("Relu", make.input(3)))
    with pytest.raises(OptionError, match=f"{target} has none"):
        infuse.compile(make.graph, precision="bf16", target=target)


def test_unknown_precisions_are_refused() -> None:
    make = Builder()
    make.output(make("Relu", make.input(3)))
    with pytest.raises(OptionError, match="no precision 'fp8'"):
        infuse.compile(make.graph, precision="fp8")


# ---- the command line


@pytest.fixture
def network(tmp_path: Path) -> Path:
    make = Builder()
    make.output(make("Softmax", make("MatMul", make.input(3, 64), make.weight(64, 64))))
    infuse.save(make.graph, tmp_path / "network.infuse")
    return tmp_path / "network.infuse"


@pytest.mark.usefixtures("bf16_processor")
def test_commands_take_a_precision(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    facts = cli(
        "bench", network, "--precision", "bf16", "--rounds", 1, "--seconds", 0, "--json"
    ).json
    assert facts["precision"] == "bf16"
    assert 1e-5 < facts["difference_from_fp32"] < 0.1
    assert (
        "largest difference of bf16 from fp32"
        in cli("bench", network, "--precision", "bf16", "--seconds", 0).out
    )
    assert (
        cli("compile", network, "-o", tmp_path / "half", "--precision", "bf16", "--json").json[
            "precision"
        ]
        == "bf16"
    )
    assert infuse.load_compiled(tmp_path / "half").metadata["precision"] == "bf16"
    assert cli("run", network, "--random", "--precision", "bf16", "--json").json["outputs"]
    assert "compiled already" in cli.refused(
        "run", tmp_path / "half", "--random", "--precision", "bf16"
    )
    assert (
        cli("bench", tmp_path / "half", "--rounds", 1, "--seconds", 0, "--json").json["precision"]
        == "bf16"
    )


def test_commands_refuse_what_cannot_be_had(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys)
    options = ["-o", tmp_path / "half", "--precision", "bf16", "--target", "x86-64-v3"]
    assert "x86-64-v3 has none" in cli.refused("compile", network, *options)
    assert "no precision 'half'" in cli.refused("run", network, "--random", "--precision", "half")
