"""The instructions of AVX-512 and VNNI that kernels name, each against NumPy: emulated, or a
processor's own; and which targets are emulated.
"""

import ctypes
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import infuse
from infuse.errors import OptionError, ToolchainError
from infuse.runtime.cpus import cpu_features
from infuse.targets import Target
from tests.native.builder import Builder
from tests.native.kernel_tools import KERNELS, fenced, has_target, pointer
from tests.native.wide_vectors import MASKS, agree, bits_of, call, couples, floats, library, whole
from tests.support import emulation

__all__ = ["library"]

pytestmark = pytest.mark.row("R1", "R3")
Array = NDArray[Any]
Rng = np.random.Generator

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


def test_comparisons_of_numbers(library: ctypes.CDLL, rng: Rng) -> None:
    special = [-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan]
    for kind, place in ((np.float32, 0), (np.float64, 1)):
        lanes = 64 // np.dtype(kind).itemsize
        for mask in MASKS:
            x, y = rng.choice(special, (2, lanes)).astype(kind)
            to = np.zeros(2, np.int32)
            library.compare_numbers(pointer(x), pointer(y), mask, pointer(to))
            below = int(np.sum((x < y).astype(np.int64) << np.arange(lanes)))
            assert to[place] == below & mask


def test_fused_doubles(library: ctypes.CDLL, rng: Rng) -> None:
    a, b = rng.standard_normal((2, 8))
    # Rounded once: what is left of a product is exact.
    to = np.empty(8)
    for mask in MASKS:
        library.fused_doubles(pointer(a), pointer(b), pointer(-(a * b)), mask, pointer(to))
        rest = [
            float(Fraction(x) * Fraction(y) - Fraction(x * y)) if mask >> i & 1 else x
            for i, (x, y) in enumerate(zip(a.tolist(), b.tolist()))
        ]
        assert to.tolist() == rest


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


CLANG_ALONE = {"__builtin_ia32_pmaddwd512", "__builtin_ia32_permvarsf512"}
"""What clang calls instructions that GCC has by another name or without one."""


def test_every_wide_instruction_of_the_kernels_is_tried_here() -> None:
    """A builtin of 512 bits that a kernel begins to use gets a function and a test."""
    driver = Path(__file__).with_name("emulation_driver.cpp").read_text()
    texts = [
        path.read_text()
        for path in [*KERNELS.glob("*.hpp"), *(KERNELS.parent / "profiling").glob("*.cpp")]
    ]
    wide = r"__builtin_ia32_\w*(?:512|_mask|_v16s)\w*"
    used = {name for text in texts for name in re.findall(wide, text) if name not in CLANG_ALONE}
    kinds = {
        name for text in texts for name in re.findall(r"INFUSE_WIDEN\(\w+, \w+, (\w+)\)", text)
    } - {"op"}
    pasted = {f"__builtin_ia32_{kind}512_mask" for kind in kinds}
    named = {
        name
        for text in texts
        for name in re.findall(r"INFUSE_(?:UNARY|BINARY|ADDING)\((\w+), \w+", text)
    }
    tiled = {
        name for text in texts for name in re.findall(r"INFUSE_TILE_ADDING\((\w+), [A-Z]", text)
    }
    assert tiled == set(re.findall(r"^TILED\(\w+, (\w+)\)", driver, re.MULTILINE))
    assert used | pasted == set(re.findall(wide, driver))
    assert named == {"name", "vdpbf16ps", "vcvtneps2bf16", "vcvtne2ps2bf16", "vpdpbusd"}


def test_targets_of_this_machine_are_not_emulated() -> None:
    for name in ("native", "x86-64", "x86-64-v3"):
        if has_target(name):
            assert emulation.resolve(name) == Target.resolve(name)
            assert not emulation.resolve(name).emulated


@pytest.mark.usefixtures("this_processor")
def test_what_is_emulated_is_not_required(tmp_path: Path) -> None:
    if not has_target("x86-64-v4"):
        pytest.skip(f"this processor has no AVX-512; {emulation.obstacle()}")
    make = Builder()
    make.output(make("Relu", make.input(37)))
    feeds = make.feeds()
    with emulation.emulated():
        target = Target.resolve("x86-64-v4")
        model = infuse.compile(
            make.graph, infuse.CompileOptions(target="x86-64-v4"), output=tmp_path / "model"
        )
    assert target.emulated == (
        frozenset() if "avx512f" in cpu_features() else target.features - target.required
    )
    assert ("emulated" in "".join(target.remarks)) == bool(target.emulated)
    assert set(model.metadata["cpu_features"]) == target.required <= cpu_features()
    with infuse.load_compiled(tmp_path / "model") as again:
        np.testing.assert_array_equal(again.run(feeds)["y0"], np.maximum(feeds["x0"], 0))
    assert not Target.resolve("x86-64-v4").emulated


@pytest.mark.usefixtures("this_processor")
def test_a_processor_may_be_given_instructions() -> None:
    if not has_target(emulation.NEWEST):
        pytest.skip(f"this processor has no AMX; {emulation.obstacle()}")
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
