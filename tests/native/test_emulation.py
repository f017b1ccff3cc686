"""The instructions of AVX-512, VNNI and BF16 that kernels name, each against NumPy: emulated, or a
processor's own.
"""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray

import infuse
from infuse.errors import OptionError, ToolchainError
from infuse.runtime.cpus import cpu_features
from infuse.targets import Target
from infuse.testing import emulation
from tests.native.builder import Builder
from tests.native.kernel_tools import KERNELS, build, fenced, has_target, pointer

pytestmark = pytest.mark.row("R1", "R3")
Array = NDArray[Any]
Rng = np.random.Generator
MASKS = (0, 1, 0x8000, 0xFFFF, 0x00FF, 0xA5C3)
SPECIAL = np.array(
    [
        *(
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -2.5,
            3.5,
            0.49999997,
            8388607.5,
            -8388607.5,
            1e30,
            -1e30,
            3e38,
            -3e38,
        ),
        *(
            np.inf,
            -np.inf,
            np.nan,
            -np.nan,
            1e-45,
            -1e-45,
            1e-39,
            -1e-39,
            1.1754944e-38,
            -1.1754944e-38,
            65504,
            65520,
        ),
        *(6e-8, 2.9802322e-08, 2.980233e-08, -65519.996),
    ],
    np.float32,
)


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    if not has_target(emulation.NEWEST):
        pytest.skip(f"this processor has no AVX512-BF16; {emulation.obstacle()}")
    return build(Path(__file__).with_name("emulation_driver.cpp"), emulation.NEWEST)


def bits_of(mask: int, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to((mask >> np.arange(16) & 1).astype(bool), shape)


def call(library: ctypes.CDLL, name: str, *operands: Array, other: Array, mask: int) -> Array:
    to = np.empty_like(other)
    library[name](
        ctypes.c_long(len(other)), *map(pointer, operands), pointer(other), mask, pointer(to)
    )
    return to


def agree(found: Array, expected: Array) -> None:
    """Bit by bit; what is no number may have any bits."""
    if found.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_array_equal(
            np.signbit(found) & ~np.isnan(found), np.signbit(expected) & ~np.isnan(expected)
        )
    np.testing.assert_array_equal(found, expected)


def whole(values: Array) -> Array:
    """Rows of 16; the last one is filled up with the first values."""
    return np.resize(values, (-(-values.size // 16), 16))


def couples() -> tuple[Array, Array]:
    """Every special number beside every other."""
    return whole(np.repeat(SPECIAL, SPECIAL.size)), whole(np.tile(SPECIAL, SPECIAL.size))


def floats(rng: Rng) -> Array:
    """Special numbers, and some from every exponent."""
    return whole(
        np.concatenate([SPECIAL, rng.integers(0, 2**32, 4096, np.uint32).view(np.float32)])
    )


FLOATS: dict[str, Callable[[Array], Array]] = {
    "square_root": np.sqrt,
    "nearest": np.rint,
    "down": np.floor,
    "up": np.ceil,
    "to_zero": np.trunc,
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_functions_of_floats(library: ctypes.CDLL, name: str, rng: Rng) -> None:
    x, other = floats(rng), floats(rng)[::-1].copy()
    for mask in MASKS:
        expected = np.where(bits_of(mask, x.shape), FLOATS[name](x), other)
        agree(call(library, name, x, other=other, mask=mask), expected)


@pytest.mark.parametrize("name", ["largest", "smallest"])
def test_the_larger_and_the_smaller(library: ctypes.CDLL, name: str) -> None:
    """The second operand where one is NaN, and of two zeros."""
    x, y = couples()
    chosen = np.where(x > y if name == "largest" else x < y, x, y)
    for mask in MASKS:
        agree(
            call(library, name, x, y, other=-x, mask=mask),
            np.where(bits_of(mask, x.shape), chosen, -x),
        )


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_fused_products_are_rounded_once(library: ctypes.CDLL, rng: Rng) -> None:
    x, y, z = (rng.integers(-(2**24), 2**24, (64, 16)) for _ in range(3))
    z = z * np.array([1, 2**20])[:, None, None].repeat(32, 1).reshape(64, 1)
    a, b, c = (v.astype(np.float32) for v in (x, y, z))
    exact = (a.astype(np.float64) * b + c).astype(np.float32)  # 49 bits and fewer
    assert np.any(exact != a * b + c)
    for mask in MASKS:
        agree(
            call(library, "fused", a, b, other=c, mask=mask),
            np.where(bits_of(mask, a.shape), exact, a),
        )


def scaling(a: float, b: float) -> float:
    """a · 2^floor(b), as Intel's table of VSCALEFPS has it."""
    if np.isnan(a):
        return {np.inf: np.inf, -np.inf: 0.0}.get(b, np.nan)
    if np.isnan(b) or (a == 0 and b == np.inf) or (np.isinf(a) and b == -np.inf):
        return np.nan
    if np.isinf(b):
        return float(np.copysign(np.inf if b > 0 else 0.0, a))
    return float(np.ldexp(np.longdouble(a), int(np.clip(np.floor(b), -9999, 9999))))


@pytest.mark.filterwarnings("ignore:(overflow|underflow):RuntimeWarning")
def test_scaling_by_powers(library: ctypes.CDLL, rng: Rng) -> None:
    first, second = couples()
    x = np.concatenate([first, rng.standard_normal((200, 16)).astype(np.float32)])
    y = np.concatenate([second, rng.uniform(-170, 140, (200, 16)).astype(np.float32)])
    expected = (
        np.array([scaling(a, b) for a, b in zip(x.flat, y.flat)])
        .astype(np.float32)
        .reshape(x.shape)
    )
    for mask in MASKS:
        agree(
            call(library, "scaled", x, y, other=x + 1, mask=mask),
            np.where(bits_of(mask, x.shape), expected, x + 1),
        )


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_halves(library: ctypes.CDLL, rng: Rng) -> None:
    every = whole(np.arange(2**16, dtype=np.uint16).view(np.float16))
    for mask in (0xFFFF, 0x1234):
        other = np.full(every.shape, 7, np.float32)
        expected = np.where(bits_of(mask, every.shape), every.astype(np.float32), other)
        agree(call(library, "from_half", every, other=other, mask=mask), expected)
    x = np.concatenate(
        [floats(rng), whole((rng.standard_normal(4096) * 2.0**-14).astype(np.float32))]
    )
    for mask in (0xFFFF, 0x1234):
        half = np.full(x.shape, 7, np.float16)
        agree(
            call(library, "to_half", x, other=half, mask=mask),
            np.where(bits_of(mask, x.shape), x.astype(np.float16), half),
        )


WIDER = {
    "wide_shorts": np.int16,
    "wide_words": np.uint16,
    "wide_signed": np.int8,
    "wide_bytes": np.uint8,
}


@pytest.mark.parametrize("name", WIDER)
def test_integers_are_widened(library: ctypes.CDLL, name: str, rng: Rng) -> None:
    kind = np.iinfo(WIDER[name])
    x = rng.integers(kind.min, kind.max, (32, 16), WIDER[name], endpoint=True)
    x[0, :2] = kind.min, kind.max
    other = rng.integers(-99, 99, x.shape, np.int32)
    for mask in MASKS:
        expected = np.where(bits_of(mask, x.shape), x.astype(np.int32), other)
        agree(call(library, name, x, other=other, mask=mask), expected)


def test_low_bytes(library: ctypes.CDLL, rng: Rng) -> None:
    x = rng.integers(-(2**31), 2**31, (32, 16), np.int32)
    other = rng.integers(-128, 127, x.shape, np.int8)
    for mask in MASKS:
        expected = np.where(bits_of(mask, x.shape), x.astype(np.int8), other)
        agree(call(library, "low_bytes", x, other=other, mask=mask), expected)


def extremes(rng: Rng, dtype: type[np.integer[Any]], last: int) -> Array:
    kind = np.iinfo(dtype)
    x = rng.integers(kind.min, kind.max, (40, 16, last), dtype, endpoint=True)
    x[:2], x[2] = kind.min, kind.max
    return x


def test_pairs_are_multiplied_and_added(library: ctypes.CDLL, rng: Rng) -> None:
    a, b = extremes(rng, np.int16, 2), extremes(rng, np.int16, 2)
    total = (a.astype(np.int64) * b).sum(-1)
    start = rng.integers(-(2**31), 2**31, total.shape, np.int32)
    for mask in MASKS:
        found = call(library, "pairs", a, b, other=start, mask=mask)
        agree(found, np.where(bits_of(mask, total.shape), total.astype(np.int32), start))
    agree(call(library, "add_pairs", a, b, other=start, mask=0), (start + total).astype(np.int32))


@pytest.mark.parametrize("name", ["add_quads", "add_quads_by_name"])
def test_bytes_are_multiplied_and_added_without_saturation(
    library: ctypes.CDLL, name: str, rng: Rng
) -> None:
    a, b = extremes(rng, np.uint8, 4), extremes(rng, np.int8, 4)
    a[1] = 255
    total = (a.astype(np.int64) * b).sum(-1)
    start = rng.integers(-(2**31), 2**31, total.shape, np.int32)
    agree(call(library, name, a, b, other=start, mask=0), (start + total).astype(np.int32))


def test_comparisons(library: ctypes.CDLL, rng: Rng) -> None:
    x, y = rng.integers(-2, 3, (2, 16), np.int32)
    x[0], y[0], x[1], y[1] = 2**31 - 1, -(2**31), -(2**31), 2**31 - 1
    truth = [x == y, x < y, x <= y, x != x, x != y, x >= y, x > y, x == x]
    for mask in MASKS:
        to = np.zeros(8, np.int32)
        library.compare(pointer(x), pointer(y), mask, pointer(to))
        assert to.tolist() == [
            int(np.sum((t << np.arange(16)).astype(np.int64))) & mask for t in truth
        ]


def test_memory_behind_the_mask_is_not_touched(library: ctypes.CDLL, rng: Rng) -> None:
    for n in range(17):
        mask = (1 << n) - 1
        values, other = rng.standard_normal(16).astype(np.float32), np.arange(16, dtype=np.float32)
        inside, to = fenced(values[:n]), np.empty(16, np.float32)
        library.load_floats(pointer(inside), pointer(other), mask, pointer(to))
        agree(to, np.concatenate([values[:n], other[n:]]))
        place = fenced(np.zeros(n, np.float32))
        library.store_floats(pointer(place), pointer(values), mask)
        agree(place, values[:n])
        small, rest, narrow = (
            fenced(np.arange(n, dtype=np.int8)),
            np.full(16, -1, np.int8),
            np.empty(16, np.int8),
        )
        library.load_bytes(pointer(small), pointer(rest), mask, pointer(narrow))
        agree(narrow, np.concatenate([small, rest[n:]]))
        whole_numbers, bytes_ = (
            rng.integers(-(2**31), 2**31, 16, np.int32),
            fenced(np.zeros(n, np.int8)),
        )
        library.store_bytes(pointer(bytes_), pointer(whole_numbers), mask)
        agree(bytes_, whole_numbers[:n].astype(np.int8))


def test_masks_may_have_gaps(library: ctypes.CDLL) -> None:
    values, place = np.arange(1, 17, dtype=np.float32), np.zeros(16, np.float32)
    library.store_floats(pointer(place), pointer(values), 0xA5C3)
    agree(place, np.where(bits_of(0xA5C3, (16,)), values, 0).astype(np.float32))
    to = np.empty(16, np.float32)
    library.load_floats(pointer(values), pointer(-values), 0xA5C3, pointer(to))
    agree(to, np.where(bits_of(0xA5C3, (16,)), values, -values))


# -- bfloat16 --------------------------------------------------------------------------------------


def flushed(x: Array) -> Array:
    """Zeros in place of denormal numbers."""
    small = np.abs(x) < np.finfo(np.float32).smallest_normal
    return np.where(small, np.copysign(np.float32(0), x), x).astype(np.float32)


def patterns() -> Array:
    """Floats around every bfloat16."""
    high = np.arange(2**16, dtype=np.uint32)[:, None] << 16
    return whole(
        (high | np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).view(np.float32)
    )


def test_rounding_to_bfloat16(library: ctypes.CDLL) -> None:
    x = patterns()
    with np.errstate(all="ignore"):
        expected = flushed(x).astype(bfloat16).view(np.uint16)
    quiet = np.isnan(x)
    expected[quiet] = (x.view(np.uint32)[quiet] >> 16).astype(np.uint16) | 0x40
    one = call(library, "to_bfloat", x, other=np.empty((len(x), 16), np.uint16), mask=0)
    np.testing.assert_array_equal(one, expected)
    high = x[::-1].copy()
    two = call(library, "to_bfloats", high, x, other=np.empty((len(x), 32), np.uint16), mask=0)
    np.testing.assert_array_equal(two, np.concatenate([expected, expected[::-1]], axis=1))


def dot(start: Array, a: Array, b: Array) -> Array:
    """Intel's description of VDPBF16PS: the upper product is added and rounded, then the lower
    one.
    """
    total = flushed(start).astype(np.float64)
    for half in (1, 0):
        x, y = (flushed(v[..., half].astype(np.float32)).astype(np.float64) for v in (a, b))
        total = flushed((x * y + total).astype(np.float32)).astype(np.float64)
    return total.astype(np.float32)


@pytest.mark.parametrize("name", ["add_bfloats", "add_bfloats_of_floats"])
@pytest.mark.filterwarnings("ignore:(invalid value|overflow):RuntimeWarning")
def test_products_of_bfloat16(library: ctypes.CDLL, name: str, rng: Rng) -> None:
    a, b = (
        (rng.standard_normal((300, 16, 2)) * 2.0 ** rng.integers(-3, 4, (300, 16, 2)))
        for _ in range(2)
    )
    a, b, start = (
        a.astype(bfloat16),
        b.astype(bfloat16),
        rng.standard_normal((300, 16)).astype(np.float32),
    )
    agree(call(library, name, a, b, other=start, mask=0), dot(start, a, b))
    x, y = (v.astype(bfloat16).reshape(-1, 16, 2) for v in couples())
    assert len(x) * 2 == len(couples()[0])
    start = np.resize(SPECIAL[:-1], x.shape[:2])
    agree(call(library, name, x, y, other=start, mask=0), dot(start, x, y))


def test_the_upper_product_is_added_first(library: ctypes.CDLL) -> None:
    """Rounding tells: -2²⁵ + 2²⁵ + 1 is 1, and -2²⁵ + 1 + 2²⁵ is 0."""
    start, ones = np.full((1, 16), -(2.0**25), np.float32), np.ones((1, 16, 2), bfloat16)
    for pair, expected in (([1, 2**25], 1), ([2**25, 1], 0)):
        a = np.broadcast_to(np.array(pair, bfloat16), ones.shape).copy()
        agree(
            call(library, "add_bfloats", a, ones, other=start, mask=0),
            np.full((1, 16), expected, np.float32),
        )


@pytest.mark.filterwarnings("ignore:(invalid value|overflow|underflow):RuntimeWarning")
def test_products_of_bfloat16_know_no_denormal_numbers(library: ctypes.CDLL) -> None:
    small, zero = np.float32(1e-39), np.zeros((1, 16), np.float32)

    def run(start: Any, a: list[float], b: list[float]) -> float:
        operands = [
            np.broadcast_to(np.array(v, np.float32).astype(bfloat16), (1, 16, 2)).copy()
            for v in (a, b)
        ]
        found = call(library, "add_bfloats", *operands, other=zero + np.float32(start), mask=0)
        assert len(set(found.view(np.uint32).flat)) == 1
        return float(found[0, 0])

    assert run(small, [0, 0], [0, 0]) == 0
    assert run(0, [0, small], [0, 2.0**100]) == 0
    assert run(0, [2.0**-70, 0], [2.0**-60, 0]) == 0
    assert run(0, [2.0**-60, 0], [2.0**-60, 0]) == 2.0**-120
    assert np.signbit(run(-small, [-0.0, -small], [1, 1]))


# -- targets ---------------------------------------------------------------------------------------


def test_every_wide_instruction_of_the_kernels_is_tried_here() -> None:
    """A builtin of 512 bits that a kernel begins to use gets a function and a test."""
    driver = Path(__file__).with_name("emulation_driver.cpp").read_text()
    texts = [
        path.read_text()
        for path in [*KERNELS.glob("*.hpp"), *(KERNELS.parent / "profiling").glob("*.cpp")]
    ]
    wide = r"__builtin_ia32_\w*(?:512|_mask|_v16s)\w*"
    used = {
        name
        for text in texts
        for name in re.findall(wide, text)
        if name != "__builtin_ia32_pmaddwd512"
    }
    kinds = {
        name for text in texts for name in re.findall(r"INFUSE_WIDEN\(\w+, \w+, (\w+)\)", text)
    } - {"op"}
    pasted = {f"__builtin_ia32_{kind}512_mask" for kind in kinds}
    named = {
        name
        for text in texts
        for name in re.findall(r"INFUSE_(?:UNARY|BINARY|ADDING)\((\w+), \w+", text)
    }
    assert used | pasted == set(re.findall(wide, driver))
    assert named == {"name", "vdpbf16ps", "vcvtneps2bf16", "vcvtne2ps2bf16", "vpdpbusd"}


def test_targets_of_this_machine_are_not_emulated() -> None:
    for name in ("native", "x86-64", "x86-64-v3"):
        if has_target(name):
            assert emulation.resolve(name) == Target.resolve(name)
            assert not emulation.resolve(name).emulated


def test_what_is_emulated_is_not_required(tmp_path: Path) -> None:
    if not has_target("x86-64-v4"):
        pytest.skip(f"this processor has no AVX-512; {emulation.obstacle()}")
    make = Builder()
    make.output(make("Relu", make.input(37)))
    feeds = make.feeds()
    with emulation.emulated():
        target = Target.resolve("x86-64-v4")
        model = infuse.compile(make.graph, target="x86-64-v4", output=tmp_path / "model")
    assert target.emulated == (
        frozenset() if "avx512f" in cpu_features() else target.features - target.required
    )
    assert set(model.metadata["cpu_features"]) == target.required <= cpu_features()
    with infuse.load_compiled(tmp_path / "model") as again:
        np.testing.assert_array_equal(again.run(feeds)["y0"], np.maximum(feeds["x0"], 0))
    assert not Target.resolve("x86-64-v4").emulated


def test_a_processor_may_be_given_instructions() -> None:
    if not has_target(emulation.NEWEST):
        pytest.skip(f"this processor has no AVX512-BF16; {emulation.obstacle()}")
    plain = Target.resolve("native")
    with emulation.emulated("avx512_bf16"):
        assert "avx512_bf16" in Target.resolve("native").features
        assert Target.resolve("native").is_runnable
        assert Target.resolve("x86-64-v3") == emulation.resolve("x86-64-v3")
    assert Target.resolve("native") == plain


def test_what_cannot_be_emulated_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"avx512_fp16.*avx512_bf16"):
        emulation.resolve("x86-64-v4+avx512_fp16")
    monkeypatch.setattr(emulation, "cpu_features", lambda: frozenset[str]())
    monkeypatch.setattr("infuse.targets.base.cpu_features", lambda: frozenset[str]())
    with pytest.raises(ToolchainError, match=r"x86-64-v4.*AVX2"):
        emulation.resolve("x86-64-v4")
