"""The kernels beside the matrix ones against NumPy, for every width of vectors that this machine
has.
"""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from infuse.codegen import memory
from infuse.codegen.tensors import Buffer
from infuse.codegen.toolchain import Toolchain
from tests.native.kernel_tools import KERNELS, build, fenced, targets

Array = NDArray[Any]
Rng = np.random.Generator
EPS = float(np.finfo(np.float32).eps)
INF = math.inf
SOURCE = Path(__file__).with_name("kernels_rest.cpp")


def long_array(*values: Any) -> Any:
    """A C array of long from numbers and sequences of numbers."""
    flat = [
        int(v) for value in values for v in (value if isinstance(value, list | tuple) else [value])
    ]
    return (ctypes.c_long * max(len(flat), 1))(*flat)


def argument(value: Any) -> Any:
    if value is None:
        return ctypes.c_void_p()
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, float):
        return ctypes.c_float(value)
    return ctypes.c_long(value) if isinstance(value, int) else value


class Driver:
    """The compiled functions, called with the context of one pool of threads."""

    def __init__(self, library: ctypes.CDLL, threads: int) -> None:
        self.library = library
        self.threads = threads
        self.context = ctypes.c_void_p(self.raw("start", threads, result=ctypes.c_void_p))

    def raw(self, name: str, *arguments: Any, result: Any = ctypes.c_int) -> Any:
        function = self.library[name]
        function.restype = result
        return function(*(argument(value) for value in arguments))

    def __call__(self, name: str, *arguments: Any, result: Any = ctypes.c_int) -> Any:
        return self.raw(name, self.context, *arguments, result=result)

    def close(self) -> None:
        self("stop", result=None)


@pytest.fixture(scope="session")
def libraries() -> Callable[[str], ctypes.CDLL]:
    return cache(lambda target: build(SOURCE, target))


@pytest.fixture(scope="module", params=targets())
def library(libraries: Callable[[str], ctypes.CDLL], request: pytest.FixtureRequest) -> ctypes.CDLL:
    return libraries(request.param)


@pytest.fixture(
    scope="module",
    params=[("native", 1), ("native", 2), *((name, 3) for name in targets())],
    ids="{0[0]}-{0[1]}".format,
)
def run(
    libraries: Callable[[str], ctypes.CDLL], request: pytest.FixtureRequest
) -> Iterator[Driver]:
    target, threads = request.param
    driver = Driver(libraries(target), threads)
    yield driver
    driver.close()


def floats(rng: Rng, *shape: int, low: float = -1, high: float = 1) -> Array:
    """Random numbers that end at a forbidden page."""
    return fenced(rng.uniform(low, high, shape).astype(np.float32))


def zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return fenced(np.zeros(shape, dtype))


def close(actual: Array, expected: Array, bound: float | Array) -> None:
    """Equal within `bound`, NaN and infinities in the same places."""
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    odd = ~np.isfinite(expected)
    np.testing.assert_array_equal(actual[odd], expected[odd].astype(actual.dtype))
    error = np.abs(actual[~odd].astype(np.float64) - expected[~odd])
    limit = np.broadcast_to(bound, expected.shape)[~odd]
    assert (error <= limit).all(), (
        f"off by {error.max():.3g}, {(error / limit).max():.3g} times the bound"
    )


# ---- threads


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("grain", [1, 2, 10, 5000])
def test_every_index_is_covered_once(run: Driver, n: int, grain: int) -> None:
    hits, shortest = zeros(n, dtype=np.int32), ctypes.c_long()
    run("cover", n, grain, hits, ctypes.byref(shortest), result=None)
    assert (hits == 1).all()
    assert shortest.value >= min(n, grain)


def test_calls_inside_calls_run_on_their_worker(run: Driver) -> None:
    hits = zeros(7, 5, dtype=np.int32)
    for _ in range(100):
        hits[...] = 0
        run("nested", 7, 5, hits, result=None)
        assert (hits == 1).all()


def test_ten_thousand_calls(run: Driver) -> None:
    assert run("cover_often", 5, 10_000, result=ctypes.c_long) == 0


def test_more_threads_than_processors(library: ctypes.CDLL) -> None:
    driver = Driver(library, 9)
    assert driver("thread_count") == 9
    assert driver("cover_often", 60, 500, result=ctypes.c_long) == 0
    driver.close()


def has_threads(count: int) -> bool:
    """Whether this process comes to have so many: the system counts one that was joined for a
    moment longer.
    """
    limit = time.monotonic() + 20
    while len(list(Path("/proc/self/task").iterdir())) != count:
        if time.monotonic() > limit:
            return False
        time.sleep(0.001)
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_closing_ends_the_threads(library: ctypes.CDLL) -> None:
    before = len(list(Path("/proc/self/task").iterdir()))
    for threads in [2, 3, 5] * 100:
        driver = Driver(library, threads)
        assert driver("cover_often", 3, 1, result=ctypes.c_long) == 0
        assert has_threads(before + threads - 1)
        driver.close()
    assert has_threads(before)


def activity(thread: Path) -> list[str]:
    """What the system says of a thread: its state, its ticks of processor time, and how often it
    left a processor.
    """
    numbers = (thread / "stat").read_text().rpartition(")")[2].split()
    status = (thread / "status").read_text().splitlines()
    return [numbers[0], *numbers[11:13], *(line for line in status if "ctxt_switches" in line)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the state of threads in /proc")
def test_idle_pool_uses_no_processor_time(library: ctypes.CDLL) -> None:
    before = set(Path("/proc/self/task").iterdir())
    driver = Driver(library, 3)
    driver("cover_often", 3, 10, result=ctypes.c_long)
    workers = set(Path("/proc/self/task").iterdir()) - before
    assert len(workers) == 2
    limit = time.monotonic() + 20
    while any(activity(worker)[0] != "S" for worker in workers):
        assert time.monotonic() < limit, "the workers do not go to sleep"
        time.sleep(0.001)
    asleep = {worker: activity(worker) for worker in workers}
    time.sleep(0.1)
    assert {worker: activity(worker) for worker in workers} == asleep
    driver.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_child_has_a_pool_of_its_own(library: ctypes.CDLL) -> None:
    script = f"""
import ctypes, os, sys
library = ctypes.CDLL({library._name!r})
library.start.restype = ctypes.c_void_p
library.cover_often.restype = ctypes.c_long
context = ctypes.c_void_p(library.start(3))
assert library.cover_often(context, ctypes.c_long(5), 10) == 0
for use in (True, False):
    child = os.fork()
    if child == 0:
        wrong = library.cover_often(context, ctypes.c_long(5), 10) if use else 0
        library.stop(context)
        os._exit(wrong)
    assert os.waitpid(child, 0)[1] == 0
assert library.cover_often(context, ctypes.c_long(5), 10) == 0
library.stop(context)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


def test_scratch_grows(run: Driver) -> None:
    for scratch in (1, 1000, 10, 1 << 20):
        assert run("reserve", scratch)
        assert run("aligned")
        run("touch", scratch, result=None)
    assert not run("reserve", 1 << 62)


def test_thread_sanitizer_finds_nothing(tmp_path: Path) -> None:
    compiler = Toolchain.find()
    if compiler.kind == "zig":
        pytest.skip("ziglang comes without the thread sanitizer")
    program = tmp_path / "races.cpp"
    program.write_text(
        """
#include "threads.hpp"
int main() {
  for (int threads = 2; threads < 5; ++threads) {
    infuse::Context* c = infuse::context_open(threads);
    long hits[64] = {}, wrong = 0;
    for (int call = 1; call <= 3000; ++call) {
      long n = 1 + call % 64;
      c->parallel(n, [&](long begin, long end, int) {
        for (long i = begin; i < end; ++i) ++hits[i];
        c->parallel(3, [&](long, long, int) {});
      });
      for (long i = 0; i < n; ++i) wrong += hits[i]-- != 1;
    }
    infuse::context_close(c);
    if (wrong) return 1;
  }
  return 0;
}
"""
    )
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=thread", "-pthread", f"-I{KERNELS}"]
    made = subprocess.run(
        [*compiler.command, *flags, str(program), "-o", str(tmp_path / "races")], check=False
    )
    if made.returncode != 0:
        pytest.skip("the compiler has no thread sanitizer")
    ran = subprocess.run(
        [str(tmp_path / "races")], capture_output=True, text=True, check=False, timeout=120
    )
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("the thread sanitizer does not run on this kernel")
    assert ran.returncode == 0, ran.stderr
    assert "WARNING" not in ran.stderr


# ---- arena


def plan(
    library: ctypes.CDLL, sizes: Array, first: Array, last: Array, orders: list[Sequence[int]]
) -> tuple[int, Array]:
    offsets = zeros(len(sizes), dtype=np.int64)
    numbers = np.array(orders, np.int32).reshape(-1)
    arrays = (sizes.astype(np.int64), first.astype(np.int32), last.astype(np.int32), numbers)
    sizes, first, last, numbers = map(fenced, arrays)
    library.plan.restype = ctypes.c_long
    values = (sizes, first, last, len(sizes), numbers, len(orders), offsets)
    return library.plan(*map(argument, values)), offsets


@pytest.mark.parametrize("kind", ["chain", "branches", "random", "powers"])
@pytest.mark.parametrize("count", [0, 1, 2, 10, 300])
def test_arena_is_as_the_compiler_plans_it(
    library: ctypes.CDLL, rng: Rng, kind: str, count: int
) -> None:
    sizes = 2 ** rng.integers(0, 18, count) if kind == "powers" else rng.integers(0, 100_000, count)
    first = rng.integers(0, count, count) if kind == "random" else np.arange(count)
    life = np.where(
        rng.random(count) < (0.3 if kind == "branches" else 0.05), rng.integers(0, 40, count), 1
    )
    last = first + life
    buffers = [Buffer("arena", int(s), first=a, last=b) for s, a, b in zip(sizes, first, last)]
    numbers = [memory.aligned(int(size)) for size in sizes]
    orders = [rng.permutation(count), memory.best_order(buffers, numbers), rng.permutation(count)]
    total, offsets = plan(library, sizes, first, last, orders)
    places = [memory.place(buffers, numbers, order) for order in orders]
    best = min(places, key=lambda place: memory.arena_bytes(place, numbers))
    assert total == memory.arena_bytes(best, numbers)
    assert offsets.tolist() == best
    for i in range(count):
        ends = offsets + sizes
        alive = (first <= last[i]) & (first[i] <= last) & (offsets < ends[i]) & (offsets[i] < ends)
        assert not alive[:i].any(), "two live buffers overlap"
    assert total <= 1.06 * memory.lower_bound(buffers, numbers)


def test_arena_that_overflows_is_refused(library: ctypes.CDLL) -> None:
    huge = np.array([1 << 62, 1 << 62])
    assert plan(library, huge, np.array([0, 0]), np.array([1, 1]), [[0, 1]])[0] == -1
    assert plan(library, np.array([-1]), np.array([0]), np.array([1]), [[0]])[0] == -1


# ---- copies

ELEMENTS = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.int64, 16: np.complex128}


def copy(run: Driver, source: Array, target: Array) -> None:
    """target[...] = source, by strides."""
    size = source.itemsize
    steps = [[stride // size for stride in array.strides] for array in (source, target)]
    run(
        "copy", size, source.ndim, long_array(source.shape), *map(long_array, steps), source,
        target, result=None
    )  # fmt: skip


def numbered(dtype: Any, *shape: int) -> Array:
    return fenced(np.arange(math.prod(shape)).astype(dtype).reshape(shape))


PERMUTATIONS = [
    ((64, 196), (1, 0)), ((5, 7), (1, 0)), ((3, 1000), (1, 0)), ((1000, 3), (1, 0)), ((2, 333), (1,
        0)),
    ((333, 4), (1, 0)), ((17, 16), (1, 0)), ((100, 200), (1, 0)), ((1, 197, 3, 64), (0, 2, 1, 3)),
    ((2, 3, 19, 23), (0, 2, 3, 1)), ((2, 19, 23, 3), (0, 3, 1, 2)), ((3, 4, 5, 6), (3, 2, 1, 0)),
    ((2, 3, 4, 5, 2), (0, 3, 1, 2, 4)), ((9, 2, 29), (0, 2, 1)), ((2, 4, 3, 4, 2, 6), (0, 1, 3, 5,
        2, 4)),
    ((6, 5, 4), (0, 1, 2)), ((1, 1, 9), (2, 0, 1)), ((130, 5, 7), (1, 2, 0)), ((7, 130, 8), (2, 0,
        1)),
]  # fmt: skip


@pytest.mark.parametrize("size", ELEMENTS)
@pytest.mark.parametrize(("shape", "order"), PERMUTATIONS)
def test_permuted_copy(
    run: Driver, size: int, shape: tuple[int, ...], order: tuple[int, ...]
) -> None:
    source = numbered(ELEMENTS[size], *shape).transpose(order)
    target = zeros(*source.shape, dtype=source.dtype)
    copy(run, source, target)
    np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("size", ELEMENTS)
def test_sliced_and_repeated_copy(run: Driver, size: int) -> None:
    whole = numbered(ELEMENTS[size], 6, 5, 40)
    for source in (
        whole[::-1], whole[:, ::-1, ::-1], whole[::2, 1:4, 3:30], whole[:, :, ::3], whole[1:2, :,
            5:6],
        np.broadcast_to(whole[:, :1], whole.shape), np.broadcast_to(whole[:, :, :1], whole.shape),
        np.broadcast_to(whole[0, 0, 0], (3, 4)), whole[:, :, :2], whole.transpose(2, 0, 1)[::-1],
        whole[:0],
    ):  # fmt: skip
        target = zeros(*source.shape, dtype=source.dtype)
        copy(run, source, target)
        np.testing.assert_array_equal(target, source)
        wide = zeros(*(2 * n for n in source.shape), dtype=source.dtype)
        part = wide[tuple(slice(None, None, -2) for _ in source.shape)]
        copy(run, source, part)
        np.testing.assert_array_equal(part, source)
        assert np.count_nonzero(wide) == np.count_nonzero(source), "something else was written"


@pytest.mark.parametrize("size", [1, 2, 4])
def test_short_runs_need_no_alignment(run: Driver, size: int) -> None:
    whole = numbered(ELEMENTS[size], 7, 16 * 9 + 1)
    for width, start in product((2, 4, 8), range(4)):
        source = whole[:, start : start + 128].reshape(7, -1, width)
        source = as_strided(
            whole[:, start:], source.shape, (whole.strides[0] - size, width * size, size)
        ).swapaxes(0, 1)
        for offset in range(3):
            target = zeros(source.size + offset, dtype=source.dtype)[offset:].reshape(source.shape)
            copy(run, source, target)
            np.testing.assert_array_equal(target, source)


def test_large_copy_is_shared_by_the_threads(run: Driver) -> None:
    for shape in ((400, 500), (3, 60_000), (60_000, 3), (60_000, 5), (200_000,)):
        source = numbered(np.float32, *shape).T
        target = zeros(*source.shape)
        copy(run, source, target)
        np.testing.assert_array_equal(target, source)


def test_fill(run: Driver) -> None:
    y = zeros(100_001, dtype=np.int64)
    run("fill_int64", y, y.size, 7, result=None)
    assert (y == 7).all()


MODES = ["constant", "reflect", "edge", "wrap"]
PADS = [
    ((5,), ((2, 3),)), ((4, 6), ((1, 2), (3, 0))), ((2, 5, 6, 3), ((0, 0), (1, 2), (2, 1), (0, 0))),
    ((2, 3, 4), ((1, 1), (0, 0), (2, 2))), ((3, 4, 70), ((1, 0), (0, 1), (0, 0))), ((2, 2), ((0,
        0), (0, 0))),
    ((3, 2), ((5, 4), (6, 3))), ((4, 5), ((-1, 2), (1, -2))), ((4, 5), ((-2, -1), (-1, 0))),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "pads"), PADS)
def test_pad(
    run: Driver, size: int, mode: str, shape: tuple[int, ...], pads: tuple[tuple[int, int], ...]
) -> None:
    x, value = numbered(ELEMENTS[size], *shape), fenced(np.array([9], ELEMENTS[size]))
    grown = [(max(a, 0), max(b, 0)) for a, b in pads]
    options = {"constant_values": 9} if mode == "constant" else {}
    left = x[tuple(slice(-min(a, 0), n + min(b, 0)) for (a, b), n in zip(pads, shape))]
    expected = np.pad(left, grown, mode, **options)  # type: ignore[call-overload]
    y = zeros(*expected.shape, dtype=x.dtype)
    begin = long_array([a for a, _ in pads])
    run(
        "pad",
        size,
        x.ndim,
        long_array(shape),
        begin,
        long_array(y.shape),
        MODES.index(mode),
        value,
        x,
        y,
        result=None,
    )
    np.testing.assert_array_equal(y, expected)


# ---- maps


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 50])
@pytest.mark.parametrize("cols", [1, 3, 8, 17, 64, 1000, 70_001])
def test_maps(run: Driver, rng: Rng, rows: int, cols: int) -> None:
    rows = min(rows, 3) if cols > 10_000 else rows
    x, y = floats(rng, rows, cols), zeros(rows, cols)
    numbers, results = fenced(rng.integers(-9, 9, (rows, cols))), zeros(rows, cols, dtype=np.int64)
    for cost in (1, 100):
        y[...] = results[...] = 0
        run("map_square", rows, cols, cost, x, y, result=None)
        np.testing.assert_array_equal(y, x * x)
        run("map_triple", rows, cols, cost, numbers, results, result=None)
        np.testing.assert_array_equal(results, 3 * numbers)


# ---- images


def out_size(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int, ceil: bool = False
) -> int:
    span = size + before + after - dilation * (kernel - 1) - 1
    return (-(-span // stride) if ceil else span // stride) + 1


def windows(
    x: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    out: tuple[int, int],
) -> Array:
    """The windows [n, oh, ow, kh, kw, c] of a padded image [n, h, w, c]."""
    n, _, _, c = x.shape
    sn, sh, sw, sc = x.strides
    strides = (sn, sh * stride[0], sw * stride[1], sh * dilation[0], sw * dilation[1], sc)
    return as_strided(x, (n, *out, *kernel, c), strides)


def padded(x: Array, shape: Any, value: float) -> Array:
    """x with enough of `value` around it for the windows of `shape`, in float64."""
    high = max(
        0,
        (shape["oh"] - 1) * shape["sh"]
        + (shape["kh"] - 1) * shape["dh"]
        + 1
        - shape["top"]
        - x.shape[1],
    )
    wide = max(
        0,
        (shape["ow"] - 1) * shape["sw"]
        + (shape["kw"] - 1) * shape["dw"]
        + 1
        - shape["left"]
        - x.shape[2],
    )
    pads = ((0, 0), (shape["top"], high), (shape["left"], wide), (0, 0))
    return np.pad(x.astype(np.float64), pads, constant_values=value)


DEPTHWISE = [  # h, w, kh, kw, sh, sw, dh, pads (top, left, bottom, right)
    (7, 7, 3, 3, 1, 1, 1, (1, 1, 1, 1)), (14, 15, 3, 3, 2, 2, 1, (1, 1, 1, 1)), (5, 30, 3, 3, 1, 1,
        1, (0, 0, 0, 0)),
    (9, 20, 5, 5, 1, 1, 1, (2, 2, 2, 2)), (9, 21, 5, 5, 2, 2, 1, (1, 1, 2, 2)), (6, 26, 7, 7, 1, 1,
        1, (3, 3, 3, 3)),
    (15, 17, 7, 7, 2, 2, 1, (3, 3, 3, 3)), (1, 40, 1, 3, 1, 1, 1, (0, 1, 0, 1)), (2, 2, 3, 3, 1, 1,
        1, (1, 1, 1, 1)),
    (12, 9, 3, 3, 2, 1, 2, (2, 1, 2, 1)), (3, 3, 7, 7, 1, 1, 1, (3, 3, 3, 3)), (1, 1, 5, 5, 2, 2,
        1, (2, 2, 2, 2)),
]  # fmt: skip


def depthwise_case(n: int, c: int, case: tuple[Any, ...]) -> dict[str, int]:
    h, w, kh, kw, sh, sw, dh, (top, left, bottom, right) = case
    oh, ow = out_size(h, kh, sh, dh, top, bottom), out_size(w, kw, sw, 1, left, right)
    names = ("n", "h", "w", "c", "oh", "ow", "kh", "kw", "sh", "sw", "dh", "dw", "top", "left")
    return dict(zip(names, (n, h, w, c, oh, ow, kh, kw, sh, sw, dh, 1, top, left)))


def depthwise_expected(
    x: Array, w: Array, s: dict[str, int], multiplier: int = 1
) -> tuple[Array, Array]:
    """The convolution and the sum of its terms' magnitudes."""
    views = windows(
        np.repeat(padded(x, s, 0), multiplier, axis=3), (s["kh"], s["kw"]), (s["sh"], s["sw"]),
        (s["dh"], s["dw"]),
        (s["oh"], s["ow"]),
    )  # fmt: skip
    return np.einsum("nyxklc,klc->nyxc", views, w), np.einsum(
        "nyxklc,klc->nyxc", np.abs(views), np.abs(w)
    )


@pytest.mark.parametrize("channels", [1, 3, 16, 37, 130])
@pytest.mark.parametrize("case", DEPTHWISE)
def test_depthwise(run: Driver, rng: Rng, channels: int, case: tuple[Any, ...]) -> None:
    s = depthwise_case(2, channels, case)
    x, w = floats(rng, 2, s["h"], s["w"], channels), floats(rng, s["kh"], s["kw"], channels)
    expected, magnitude = depthwise_expected(x, w, s)
    bound = (s["kh"] * s["kw"] + 1) * EPS * magnitude + 1e-30
    y = zeros(2, s["oh"], s["ow"], channels)
    assert run("depthwise_conv", long_array(*s.values()), x, w, y) == 0
    close(y, expected, bound)
    y[...] = 0
    run("depthwise_generic", long_array(*s.values()), 1, x, w, y, result=None)
    close(y, expected, bound)


@pytest.mark.parametrize(("channels", "multiplier"), [(1, 5), (3, 2), (4, 16), (7, 3)])
def test_depthwise_with_a_multiplier(run: Driver, rng: Rng, channels: int, multiplier: int) -> None:
    s = depthwise_case(1, channels, (8, 9, 3, 4, 2, 1, 2, (1, 2, 1, 0)))
    s |= {"dw": 2, "ow": out_size(9, 4, 1, 2, 2, 0)}
    x, w = floats(rng, 1, 8, 9, channels), floats(rng, 3, 4, channels * multiplier)
    expected, magnitude = depthwise_expected(x, w, s, multiplier)
    y = zeros(*expected.shape)
    run("depthwise_generic", long_array(*s.values()), multiplier, x, w, y, result=None)
    close(y, expected, 13 * EPS * magnitude + 1e-30)


POOLS = [  # h, w, kh, kw, sh, sw, dh, dw, pads, ceil
    (8, 8, 2, 2, 2, 2, 1, 1, (0, 0, 0, 0), False), (11, 12, 3, 3, 2, 2, 1, 1, (1, 1, 1, 1), False),
    (11, 12, 3, 3, 2, 2, 1, 1, (1, 1, 1, 1), True), (7, 9, 3, 2, 1, 3, 2, 1, (2, 0, 1, 1), False),
    (5, 5, 5, 5, 1, 1, 1, 1, (2, 2, 2, 2), False), (1, 30, 1, 4, 1, 3, 1, 2, (0, 0, 0, 0), True),
]  # fmt: skip


def pool_case(n: int, c: int, case: tuple[Any, ...], counts: bool) -> dict[str, int]:
    h, w, kh, kw, sh, sw, dh, dw, (top, left, bottom, right), ceil = case
    sizes = [out_size(h, kh, sh, dh, top, bottom, ceil), out_size(w, kw, sw, dw, left, right, ceil)]
    for i, (size, stride, before) in enumerate(((h, sh, top), (w, sw, left))):
        sizes[i] -= ceil and (sizes[i] - 1) * stride >= size + before  # a window must start inside
    names = (
        "n",
        "h",
        "w",
        "c",
        "oh",
        "ow",
        "kh",
        "kw",
        "sh",
        "sw",
        "dh",
        "dw",
        "top",
        "left",
        "bottom",
        "right",
        "count",
    )
    return dict(
        zip(names, (n, h, w, c, *sizes, kh, kw, sh, sw, dh, dw, top, left, bottom, right, counts))
    )


def pool_windows(x: Array, s: dict[str, int], value: float) -> Array:
    return windows(
        padded(x, s, value), (s["kh"], s["kw"]), (s["sh"], s["sw"]), (s["dh"], s["dw"]), (s["oh"],
            s["ow"])
    )  # fmt: skip


@pytest.mark.parametrize("channels", [1, 5, 16, 70])
@pytest.mark.parametrize("case", POOLS)
def test_max_pool(run: Driver, rng: Rng, channels: int, case: tuple[Any, ...]) -> None:
    s = pool_case(2, channels, case, False)
    x = floats(rng, 2, s["h"], s["w"], channels)
    x[0, 0, 0, 0] = np.nan
    x[1, :2] = -INF
    expected = pool_windows(x, s, -INF).max(axis=(3, 4))
    y = zeros(*expected.shape)
    run("pool_image", 0, 0.0, long_array(*s.values()), x, y, result=None)
    np.testing.assert_array_equal(y, expected.astype(np.float32))


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("channels", [1, 17, 64])
@pytest.mark.parametrize("case", POOLS)
def test_mean_pool(
    run: Driver, rng: Rng, counts: bool, channels: int, case: tuple[Any, ...]
) -> None:
    s = pool_case(2, channels, case, counts)
    x = floats(rng, 2, s["h"], s["w"], channels)
    ones = np.ones_like(x)
    if counts:  # padding counts, what a rounded-up output reads beyond it does not
        ones = np.pad(
            ones,
            ((0, 0), (s["top"], s["bottom"]), (s["left"], s["right"]), (0, 0)),
            constant_values=1,
        )
        divisor = pool_windows(ones, s | {"top": 0, "left": 0}, 0).sum(axis=(3, 4))
    else:
        divisor = pool_windows(ones, s, 0).sum(axis=(3, 4))
    expected = pool_windows(x, s, 0).sum(axis=(3, 4)) / divisor
    y = zeros(*expected.shape)
    run("pool_image", 1, 0.0, long_array(*s.values()), x, y, result=None)
    close(y, expected, (s["kh"] * s["kw"] + 2) * EPS)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_power_pool(run: Driver, rng: Rng, p: float) -> None:
    s = pool_case(1, 19, POOLS[1], False)
    x = floats(rng, 1, s["h"], s["w"], 19)
    expected = (np.abs(pool_windows(x, s, 0)) ** p).sum(axis=(3, 4)) ** (1 / p)
    y = zeros(*expected.shape)
    run("pool_image", 2, p, long_array(*s.values()), x, y, result=None)
    close(y, expected, 20 * EPS * expected)


@pytest.mark.parametrize("columns_lead", [False, True])
@pytest.mark.parametrize("case", POOLS)
def test_max_pool_tells_where(
    run: Driver, rng: Rng, case: tuple[Any, ...], columns_lead: bool
) -> None:
    s = pool_case(2, 3, case, False)
    x = fenced(
        rng.permutation(2 * s["h"] * s["w"] * 3).astype(np.float32).reshape(2, s["h"], s["w"], 3)
    )
    y = zeros(2, s["oh"], s["ow"], 3)
    index = zeros(*y.shape, dtype=np.int64)
    run("pool_index", long_array(*s.values()), x, y, index, columns_lead, result=None)
    np.testing.assert_array_equal(y, pool_windows(x, s, -INF).max(axis=(3, 4)).astype(np.float32))
    planar = x.transpose(0, 3, 2, 1) if columns_lead else x.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(planar.reshape(-1)[index], y)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (2, 49, 40), (1, 1000, 3), (3, 7, 130), (1, 3136, 24)]
)
def test_global_pools(run: Driver, rng: Rng, shape: tuple[int, int, int]) -> None:
    x = floats(rng, *shape)
    y = zeros(shape[0], shape[2])
    run("pool_global", 1, *shape, x, y, result=None)
    close(y, x.astype(np.float64).mean(axis=1), 30 * EPS)
    y[...] = 0
    run("pool_global", 0, *shape, x, y, result=None)
    np.testing.assert_array_equal(y, x.max(axis=1))


# ---- softmax and normalisation


def softmax(x: Array, axis: int) -> Array:
    with np.errstate(invalid="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)  # type: ignore[no-any-return]


def log_softmax(x: Array, axis: int) -> Array:
    with np.errstate(invalid="ignore"):
        d = x.astype(np.float64) - x.max(axis=axis, keepdims=True)
        return d - np.log(np.exp(d).sum(axis=axis, keepdims=True))  # type: ignore[no-any-return]


def with_odd_rows(x: Array) -> Array:
    """x [rows, cols] with rows that hold infinities and NaN, where there are enough."""
    for row, value in ((1, -INF), (3, np.nan), (4, INF)):
        if row < len(x):
            x[row, -1] = value
    if len(x) > 2:
        x[2] = -INF
    return x


@pytest.mark.parametrize("rows", [1, 2, 7, 300])
@pytest.mark.parametrize("cols", [1, 2, 7, 16, 33, 197, 1000])
def test_softmax(run: Driver, rng: Rng, rows: int, cols: int) -> None:
    x = with_odd_rows(floats(rng, rows, cols, low=-30, high=30))
    y = zeros(rows, cols)
    run("softmax_rows", 0, rows, cols, x, y, result=None)
    close(y, softmax(x, 1), 1e-6)
    y[...] = 0
    run("softmax_rows", 1, rows, cols, x, y, result=None)
    close(y, log_softmax(x, 1), 1e-5)


@pytest.mark.parametrize("shape", [(1, 3, 2), (2, 5, 40), (3, 21, 7), (1, 100, 129)])
def test_softmax_over_an_inner_axis(run: Driver, rng: Rng, shape: tuple[int, int, int]) -> None:
    x = floats(rng, *shape, low=-30, high=30)
    x[0, :, 0] = -INF
    x[-1, 0, -1] = np.nan
    y = zeros(*shape)
    run("softmax_columns", 0, *shape, x, y, result=None)
    close(y, softmax(x, 1), 1e-6)
    y[...] = 0
    run("softmax_columns", 1, *shape, x, y, result=None)
    close(y, log_softmax(x, 1), 1e-5)


def scaled(x: Array, scale: Array | None, bias: Array | None) -> Array:
    return x * (1.0 if scale is None else scale) + (0.0 if bias is None else bias)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 200])
@pytest.mark.parametrize("cols", [1, 5, 16, 31, 100, 768])
def test_norms_of_rows(run: Driver, rng: Rng, rows: int, cols: int, affine: bool) -> None:
    x = floats(rng, rows, cols, low=3, high=5)
    scale, bias = (floats(rng, cols), floats(rng, cols)) if affine else (None, None)
    wide, y = x.astype(np.float64), zeros(rows, cols)
    run("normalise", 0, rows, cols, x, scale, bias, 1e-5, y, result=None)
    centred = wide - wide.mean(1, keepdims=True)
    factor = 1 / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    close(y, scaled(centred * factor, scale, bias), 4 * EPS + 10 * EPS * factor)
    y[...] = 0
    run("normalise", 1, rows, cols, x, scale, bias, 1e-5, y, result=None)
    close(y, scaled(wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5), scale, None), 4e-6)
    if affine:
        return
    x[0] = 0
    wide = x.astype(np.float64)
    y[...] = 0
    run("normalise", 2, rows, cols, x, None, None, 0.0, y, result=None)
    close(y, wide / np.maximum(np.sqrt((wide**2).sum(1, keepdims=True)), 1e-30), 1e-6)
    y[...] = 0
    run("normalise", 3, rows, cols, x, None, None, 0.0, y, result=None)
    close(y, wide / np.maximum(np.abs(wide).sum(1, keepdims=True), 1e-30), 1e-6)


def test_norm_of_a_fused_sum(run: Driver, rng: Rng) -> None:
    a, b, y = floats(rng, 9, 70), floats(rng, 9, 70), zeros(9, 70)
    run("normalise_sum", 9, 70, a, b, y, result=None)
    x = a.astype(np.float64) + b
    close(y, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), 3e-6)


@pytest.mark.parametrize("offset", [0, 100])
@pytest.mark.parametrize(
    "shape", [(1, 1, 4, 2), (2, 9, 32, 8), (1, 400, 6, 6), (3, 50, 40, 1), (2, 130, 37, 37)]
)
def test_group_norm(run: Driver, rng: Rng, shape: tuple[int, int, int, int], offset: float) -> None:
    n, pixels, c, groups = shape
    x, scale, bias = (
        floats(rng, n, pixels, c, low=offset - 1, high=offset + 1),
        floats(rng, c),
        floats(rng, c),
    )
    wide = x.astype(np.float64).reshape(n, pixels, groups, c // groups)
    mean, variance = wide.mean((1, 3), keepdims=True), wide.var((1, 3), keepdims=True)
    expected = ((wide - mean) / np.sqrt(variance + 1e-3)).reshape(x.shape)
    y = zeros(n, pixels, c)
    run("normalise_groups", long_array(shape), x, scale, bias, 1e-3, y, result=None)
    bound = 1e-5 * (1 + offset / 10) * (30 if pixels == 1 else 1)
    close(y, expected * scale + bias, bound)
    y[...] = 0
    run("normalise_groups", long_array(shape), x, None, None, 1e-3, y, result=None)
    close(y, expected, bound)


# ---- reductions

REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "product": lambda x: x.prod(1),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "sum_square": lambda x: (x**2).sum(1),
    "l1": lambda x: np.abs(x).sum(1),
    "l2": lambda x: np.sqrt((x**2).sum(1)),
    "log_sum": lambda x: np.log(x.sum(1)),
    "log_sum_exp": lambda x: np.log(np.exp(x).sum(1)),
}
SHAPES = [
    (1, 1, 1),
    (7, 5, 1),
    (40, 64, 1),
    (3, 1000, 1),
    (1, 5000, 1),
    (2, 3, 5),
    (1, 300, 33),
    (4, 17, 64),
    (2, 9, 200),
]


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_reduce_floats(run: Driver, rng: Rng, kind: str, shape: tuple[int, int, int]) -> None:
    outer, size, inner = shape
    x = floats(rng, *shape, low=0.5 if kind == "log_sum" else -1, high=1.5)
    if kind == "product":
        x = fenced(np.exp(x / size).astype(np.float32))
    expected = REDUCTIONS[kind](x.astype(np.float64))
    total = np.abs(x.astype(np.float64)).sum(1)
    bound = {"max": 0.0, "min": 0.0}.get(kind, 12 * EPS * (1 + np.maximum(total, np.abs(expected))))
    bound = (
        60 * EPS * (1 + np.abs(expected)) + EPS * size
        if kind in ("product", "log_sum_exp")
        else bound
    )
    for cols in {inner, 1} if inner > 1 else {d for d in (1, 2, outer) if outer % d == 0}:
        y = zeros(outer, inner)
        index = list(REDUCTIONS).index(kind)
        run("reduce_floats", index, long_array(shape, cols), x, y, result=None)
        close(y, expected, bound)


@pytest.mark.parametrize("shape", [(3, 40, 1), (3, 5, 20)])
def test_reduce_odd_values(run: Driver, rng: Rng, shape: tuple[int, int, int]) -> None:
    cols = shape[2] if shape[2] > 1 else shape[0]
    for kind, value in product(("max", "min", "sum", "log_sum_exp"), (np.nan, INF, -INF)):
        x = floats(rng, *shape)
        x[1, 2, 0] = value
        x[2, :, -1] = -INF
        y = zeros(shape[0], shape[2])
        run(
            "reduce_floats",
            list(REDUCTIONS).index(kind),
            long_array(shape, cols),
            x,
            y,
            result=None,
        )
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            close(y, REDUCTIONS[kind](x.astype(np.float64)), 1e-5)


TYPES = [np.int32, np.int64, np.float64, np.uint8, np.int8]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_reduce_other_types(run: Driver, rng: Rng, dtype: Any, shape: tuple[int, int, int]) -> None:
    x = rng.integers(1 if dtype == np.uint8 else -9, 10, shape).astype(dtype)
    if dtype == np.float64:
        x = x / 16
    x, y = fenced(x), zeros(shape[0], shape[2], dtype=dtype)
    for kind in ("sum", "mean", "product", "max", "min", "sum_square", "l1", "l2"):
        run(
            "reduce_others",
            TYPES.index(dtype),
            list(REDUCTIONS).index(kind),
            long_array(shape, 1),
            x,
            y,
            result=None,
        )
        if dtype == np.float64:
            np.testing.assert_allclose(y, REDUCTIONS[kind](x), rtol=1e-12, atol=1e-12)
            continue
        wide = x.astype(np.int64)
        exact = {"mean": wide.sum(1) / shape[1], "l2": np.sqrt((wide**2).sum(1))}
        expected = (
            np.trunc(exact[kind]).astype(np.int64) if kind in exact else REDUCTIONS[kind](wide)
        )
        np.testing.assert_array_equal(y, expected.astype(dtype))


def test_reduce_bools(run: Driver, rng: Rng) -> None:
    for shape in SHAPES:
        x, y = fenced(rng.random(shape) < 0.5), zeros(shape[0], shape[2], dtype=bool)
        for kind, expected in ((3, x.any(1)), (4, x.all(1))):
            run("reduce_bools", kind, long_array(shape, 1), x, y, result=None)
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("type_index", [0, 2, 5])
@pytest.mark.parametrize("shape", [(5, 1, 1), (40, 9, 1), (2, 700, 1), (3, 8, 30)])
def test_places_of_extremes(
    run: Driver, rng: Rng, type_index: int, shape: tuple[int, int, int]
) -> None:
    dtype = {0: np.int32, 2: np.float64, 5: np.float32}[type_index]
    x = fenced(rng.integers(-4, 5, shape).astype(dtype))
    if type_index != 0 and shape[1] > 4:
        x[1, 3:5, 0] = np.nan
        x[0, :, -1] = -INF
    y = zeros(shape[0], shape[2], dtype=np.int64)
    for largest, last in product((True, False), (True, False)):
        run("place", type_index, largest, last, *shape, x, y, result=None)
        find = np.argmax if largest else np.argmin
        expected = shape[1] - 1 - find(x[:, ::-1], axis=1) if last else find(x, axis=1)
        np.testing.assert_array_equal(y, expected)


# ---- attention


class AttentionCall(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_long)
            for name in (
                *(
                    "batch",
                    "heads",
                    "kv_heads",
                    "queries",
                    "keys",
                    "dim",
                    "value_dim",
                    "causal",
                    "offset",
                    "merge",
                ),
            )
        ),
        *((name, ctypes.c_long * 3) for name in "qkv"),
        ("mask", ctypes.c_long * 4),
    ]


def steps(x: Array, count: int = 4) -> Any:
    return (ctypes.c_long * count)(*(stride // x.itemsize for stride in x.strides[:count]))


def reference(
    q: Array, k: Array, v: Array, scale: float, mask: Array | None, visible: Array
) -> Array:
    """Attention of q [b, h, m, d] in float64, the heads of k and v repeated."""
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v))
    scores = np.einsum("bhmd,bhnd->bhmn", q.astype(np.float64), k) * scale
    if mask is not None:
        scores = np.where(mask, scores, -INF) if mask.dtype == bool else scores + mask
    scores = np.where(visible, scores, -INF)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        weights[np.isneginf(scores).all(-1)] = 0  # a query that sees no key
        return np.einsum("bhmn,bhnd->bhmd", weights, v)  # type: ignore[no-any-return]


ATTENTIONS = [  # batch, heads, kv heads, queries, keys, dim, value dim
    (1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 5, 7, 8, 8), (2, 3, 3, 49, 49, 32, 32), (1, 2, 1, 13, 300, 20,
        36),
    (1, 4, 2, 1, 70, 64, 64), (2, 2, 2, 33, 17, 64, 40), (1, 1, 1, 300, 260, 16, 16), (1, 2, 2, 12,
        129, 5, 3),
    (1, 6, 3, 3, 600, 33, 17), (1, 1, 1, 197, 40, 9, 10), (1, 3, 1, 150, 30, 4, 4),
    (1, 1, 1, 1100, 40, 9, 10), (1, 1, 1, 530, 260, 128, 128),
]  # fmt: skip


def attend(
    run: Driver,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    causal: bool,
    offset: int,
    merge: bool,
) -> Array:
    b, h, m, d = q.shape
    kv_heads, n, values = v.shape[1:]
    kind = 0 if mask is None else 2 if mask.dtype == bool else 1
    call = AttentionCall(
        b,
        h,
        kv_heads,
        m,
        n,
        d,
        values,
        causal,
        offset,
        merge,
        steps(q, 3),
        steps(k, 3),
        steps(v, 3),
    )
    if mask is not None:
        call.mask = steps(mask)
    y = zeros(b, m, h, values) if merge else zeros(b, h, m, values)
    run("attend", ctypes.byref(call), 1 / math.sqrt(d), kind, q, k, v, mask, y, result=None)
    return y.transpose(0, 2, 1, 3) if merge else y


@pytest.mark.parametrize("mask_kind", ["none", "add", "add_row", "bool", "causal"])
@pytest.mark.parametrize("sizes", ATTENTIONS)
def test_attention(run: Driver, rng: Rng, sizes: tuple[int, ...], mask_kind: str) -> None:
    b, h, kv_heads, m, n, d, values = sizes
    scale = 1 / math.sqrt(d)
    visible, mask, causal = np.ones((m, n), bool), None, mask_kind == "causal"
    if mask_kind == "add":
        mask = fenced(rng.uniform(-3, 3, (1, h, m, n)).astype(np.float32))
        mask[:, :, :, 0] = -INF if n > 1 else 0
        mask = np.broadcast_to(mask, (b, h, m, n))
    elif mask_kind == "add_row":
        mask = np.broadcast_to(
            fenced(rng.uniform(-3, 3, (b, 1, m, 1)).astype(np.float32)), (b, h, m, n)
        )
    elif mask_kind == "bool":
        mask = np.broadcast_to(fenced(rng.random((b, 1, 1, n)) < 0.7), (b, h, m, n))
    offsets = [n - m, 0, 3] if causal else [0]
    for merge, offset in product((True, False), offsets):
        if merge:  # [batch, sequence, head, dim]: one projection of the input, seen by heads
            q, k, v = (
                floats(rng, b, rows, heads, width).transpose(0, 2, 1, 3)
                for rows, heads, width in ((m, h, d), (n, kv_heads, d), (n, kv_heads, values))
            )
        else:
            q, k, v = (
                floats(rng, b, h, m, d),
                floats(rng, b, kv_heads, n, d),
                floats(rng, b, kv_heads, n, values),
            )
        if causal:
            visible = np.arange(n)[None] <= np.arange(m)[:, None] + offset
        y = attend(run, q, k, v, mask, causal, offset, merge)
        close(y, reference(q, k, v, scale, mask, visible), 2e-6)


def test_attention_spreads_nan_and_survives_large_scores(run: Driver, rng: Rng) -> None:
    q, k, v = floats(rng, 1, 1, 20, 8), floats(rng, 1, 1, 300, 8), floats(rng, 1, 1, 300, 8)
    q[0, 0, 3] *= 1000
    q[0, 0, 4] = np.nan
    y = attend(run, q, k, v, None, False, 0, False)
    close(y, reference(q, k, v, 1 / math.sqrt(8), None, np.ones((20, 300), bool)), 2e-5)


# ---- indices


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("outer", "n", "inner"), [(1, 50, 1), (3, 7, 1), (1, 30, 77), (2, 5, 16), (2, 3, 0)]
)
def test_gather(
    run: Driver, rng: Rng, size: int, dtype: Any, outer: int, n: int, inner: int
) -> None:
    x = fenced(rng.integers(0, 100, (outer, n, inner)).astype(ELEMENTS[size]))
    index = fenced(rng.integers(-n, n, 40).astype(dtype))
    y = zeros(outer, 40, inner, dtype=x.dtype)
    wide = dtype == np.int64
    assert run("gather_axis", size, wide, outer, n, inner, 40, x, index, y, result=ctypes.c_bool)
    np.testing.assert_array_equal(y, np.take(x, index, axis=1))
    for wrong in (n, -n - 1, np.iinfo(dtype).min, np.iinfo(dtype).max):
        index[17] = wrong
        good = run(
            "gather_axis", size, wide, outer, n, inner, 40, x, index, y, result=ctypes.c_bool
        )
        assert good == (inner == 0)


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize(
    ("dims", "index_dims", "axis"),
    [
        ((9,), (20,), 0),
        ((4, 6), (4, 3), 1),
        ((4, 6), (7, 5), 0),
        ((3, 4, 5), (2, 9, 5), 1),
        ((3, 4, 5), (3, 4, 8), 2),
    ],
)
def test_gather_elements(
    run: Driver, rng: Rng, size: int, dims: tuple[int, ...], index_dims: tuple[int, ...], axis: int
) -> None:
    x = fenced(rng.integers(0, 100, dims).astype(ELEMENTS[size]))
    index = fenced(rng.integers(-dims[axis], dims[axis], index_dims))
    y = zeros(*index_dims, dtype=x.dtype)
    call = (size, len(dims), long_array(index_dims), long_array(dims), axis, x, index, y)
    assert run("gather_each", *call, result=ctypes.c_bool)
    part = x[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index_dims))]
    np.testing.assert_array_equal(y, np.take_along_axis(part, index, axis))
    index.reshape(-1)[-1] = dims[axis]
    assert not run("gather_each", *call, result=ctypes.c_bool)


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize(
    ("batch", "dims", "slice_size"),
    [(1, (5,), 1), (1, (3, 4), 1), (2, (3, 4), 6), (3, (2, 3, 2), 40)],
)
def test_gather_nd(
    run: Driver, rng: Rng, size: int, batch: int, dims: tuple[int, ...], slice_size: int
) -> None:
    x = fenced(rng.integers(0, 100, (batch, *dims, slice_size)).astype(ELEMENTS[size]))
    index = fenced(np.stack([rng.integers(-d, d, (batch, 11)) for d in dims], axis=-1))
    y = zeros(batch, 11, slice_size, dtype=x.dtype)
    call = (size, batch, 11, len(dims), long_array(dims), slice_size, x, index, y)
    assert run("gather_tuples", *call, result=ctypes.c_bool)
    for b, p in product(range(batch), range(11)):
        np.testing.assert_array_equal(y[b, p], x[b][tuple(index[b, p])])
    index[-1, -1, -1] = dims[-1]
    assert not run("gather_tuples", *call, result=ctypes.c_bool)


JOINS: list[Callable[[Any, Any], Any]] = [
    lambda _, x: x,
    np.add,
    np.multiply,
    np.minimum,
    np.maximum,
]


@pytest.mark.parametrize("join", range(5))
@pytest.mark.parametrize(("dims", "slice_size"), [((6,), 1), ((3, 4), 50), ((2, 2, 3), 7000)])
def test_scatter_nd(
    run: Driver, rng: Rng, join: int, dims: tuple[int, ...], slice_size: int
) -> None:
    x = fenced(rng.integers(0, 9, (*dims, slice_size)).astype(np.float32))
    updates = fenced(rng.integers(0, 9, (10, slice_size)).astype(np.float32))
    index = fenced(np.stack([rng.integers(-d, d, 10) for d in dims], axis=-1))
    expected, y = x.copy(), zeros(*x.shape)
    for p in range(10):
        where = tuple(index[p])
        expected[where] = JOINS[join](expected[where], updates[p])
    call = (join, 10, len(dims), long_array(dims), slice_size, x, index, updates, y)
    assert run("scatter_tuples", *call, result=ctypes.c_bool)
    np.testing.assert_array_equal(y, expected)
    index[3, 0] = -dims[0] - 1
    assert not run("scatter_tuples", *call, result=ctypes.c_bool)


@pytest.mark.parametrize("join", range(5))
@pytest.mark.parametrize(
    ("dims", "index_dims", "axis"),
    [((9,), (20,), 0), ((4, 6), (4, 9), 1), ((4, 6), (7, 5), 0), ((3, 4, 5), (2, 9, 5), 1)],
)
def test_scatter_elements(
    run: Driver, rng: Rng, join: int, dims: tuple[int, ...], index_dims: tuple[int, ...], axis: int
) -> None:
    x = fenced(rng.integers(0, 9, dims).astype(np.int32))
    updates = fenced(rng.integers(0, 4, index_dims).astype(np.int32))
    index = fenced(rng.integers(-dims[axis], dims[axis], index_dims))
    expected, y = x.copy(), zeros(*dims, dtype=np.int32)
    for at in np.ndindex(*index_dims):
        where = (*at[:axis], index[at], *at[axis + 1 :])
        expected[where] = JOINS[join](expected[where], updates[at])
    call = (join, len(dims), long_array(index_dims), long_array(dims), axis, x, index, updates, y)
    assert run("scatter_each", *call, result=ctypes.c_bool)
    np.testing.assert_array_equal(y, expected)
    index.reshape(-1)[0] = dims[axis]
    assert not run("scatter_each", *call, result=ctypes.c_bool)


# ---- sequences


def test_range(run: Driver) -> None:
    for first, step, count in ((0, 1, 10), (5, -3, 40_000), (7, 2, 0)):
        y = zeros(count, dtype=np.int64)
        run("range_int64", first, step, count, y, result=None)
        np.testing.assert_array_equal(y, first + step * np.arange(count))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(1, 4, 4), (2, 5, 3), (3, 2, 70)])
def test_triangle(run: Driver, rng: Rng, upper: bool, shape: tuple[int, int, int]) -> None:
    x = floats(rng, *shape)
    for k in (-9, -2, -1, 0, 1, 2, 80):
        y = zeros(*shape)
        run("trilu", *shape, k, upper, x, y, result=None)
        np.testing.assert_array_equal(y, np.triu(x, k) if upper else np.tril(x, k))


@pytest.mark.parametrize("shape", [(1, 9, 1), (20, 30, 1), (2, 5, 100), (1, 300, 65)])
def test_cumsum(run: Driver, rng: Rng, shape: tuple[int, int, int]) -> None:
    x, y = fenced(rng.integers(-9, 9, shape)), zeros(*shape, dtype=np.int64)
    for exclusive, reverse in product((False, True), (False, True)):
        run("running_sum", *shape, exclusive, reverse, x, y, result=None)
        sums = np.cumsum(x[:, ::-1], 1)[:, ::-1] if reverse else np.cumsum(x, 1)
        np.testing.assert_array_equal(y, sums - x if exclusive else sums)


@pytest.mark.parametrize(("outer", "depth", "inner"), [(10, 5, 1), (2, 7, 33), (1, 1, 1)])
def test_one_hot(run: Driver, rng: Rng, outer: int, depth: int, inner: int) -> None:
    index = fenced(rng.integers(-2 * depth, 2 * depth, (outer, inner)))
    y = zeros(outer, depth, inner)
    run("one_hot_floats", outer, depth, inner, index, -1.0, 3.0, y, result=None)
    wrapped = np.where(index < 0, index + depth, index)
    expected = np.where(wrapped[:, None] == np.arange(depth)[None, :, None], 3, -1)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 40, 1), (2, 7, 11), (1, 3000, 1)])
def test_top_k(run: Driver, rng: Rng, largest: bool, shape: tuple[int, int, int]) -> None:
    x = fenced(rng.integers(-20, 20, shape).astype(np.float32))
    x[0, shape[1] // 2, 0] = np.nan
    order = np.argsort(-x if largest else x, axis=1, kind="stable")  # NaN last
    if largest:
        nan = np.isnan(np.take_along_axis(x, order, 1))
        order = np.take_along_axis(order, np.argsort(~nan, axis=1, kind="stable"), 1)
    for k in {0, 1, min(5, shape[1]), shape[1]}:
        values, index = zeros(shape[0], k, shape[2]), zeros(shape[0], k, shape[2], dtype=np.int64)
        run("top", largest, *shape, k, x, values, index, result=None)
        np.testing.assert_array_equal(index, order[:, :k])
        np.testing.assert_array_equal(values, np.take_along_axis(x, order[:, :k], 1))


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (0, 3)])
def test_nonzero(run: Driver, rng: Rng, shape: tuple[int, ...]) -> None:
    x = fenced(rng.integers(0, 2, shape).astype(np.float32))
    expected = np.array(np.nonzero(x))
    count = run.raw("count_nonzero", x, x.size, result=ctypes.c_long)
    assert count == expected.shape[1]
    y = zeros(*expected.shape, dtype=np.int64)
    run.raw("list_nonzero", len(shape), long_array(shape), x, count, y, result=None)
    np.testing.assert_array_equal(y, expected)


# ---- resize

COORDINATES = [
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
]  # fmt: skip
ROUNDINGS = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
RESIZES = [
    ((4, 5), (8, 10)),
    ((7, 6), (3, 4)),
    ((3, 8), (5, 20)),
    ((5, 5), (5, 1)),
    ((1, 9), (4, 3)),
    ((20, 13), (4, 5)),
]
CROP = np.array([[0.125, 0.75], [0.25, 1.25]], np.float32)


def onnx_resize(x: Array, out: tuple[int, int], **attributes: Any) -> Array:
    """What ONNX's own implementation makes of x [n, c, h, w]."""
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    roi = np.array([0, 0, *CROP[:, 0], 1, 1, *CROP[:, 1]], np.float32)
    sizes = np.array([*x.shape[:2], *out], np.int64)
    crops = attributes["coordinate_transformation_mode"] == "tf_crop_and_resize"
    node = helper.make_node(
        "Resize", ["x", "roi" if crops else "", "", "sizes"], ["y"], **attributes
    )
    info = helper.make_tensor_value_info
    inputs = [info("x", 1, x.shape), info("roi", 1, [8]), info("sizes", TensorProto.INT64, [4])]
    graph = helper.make_graph([node], "resize", inputs, [info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    return np.asarray(ReferenceEvaluator(model).run(None, {"x": x, "roi": roi, "sizes": sizes})[0])


def resize(run: Driver, x: Array, out: tuple[int, int], attributes: dict[str, Any]) -> Array:
    n, c, h, w = x.shape
    mode = attributes["coordinate_transformation_mode"]
    (top, bottom), (left, right) = CROP.tolist()
    numbers = (ctypes.c_double * 8)(out[0] / h, top, bottom, out[1] / w, left, right, -0.75, 9.0)
    y = zeros(n, *out, c)
    kinds = ["nearest", "linear", "cubic"].index(attributes["mode"]), COORDINATES.index(mode)
    choices = (
        ROUNDINGS.index(attributes.get("nearest_mode", "floor")),
        attributes.get("exclude_outside", 0),
        attributes.get("antialias", 0),
    )
    pixels = fenced(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    run(
        "resize_image",
        long_array(n, c, h, out[0], w, out[1], kinds, choices),
        numbers,
        pixels,
        y,
        result=None,
    )
    return y.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("kind", ["nearest", "linear", "cubic"])
def test_resize(run: Driver, rng: Rng, kind: str, coordinates: str) -> None:
    choices: list[dict[str, Any]] = [{"nearest_mode": mode} for mode in ROUNDINGS]
    if kind != "nearest":
        choices = [{}, {"exclude_outside": 1}, {"antialias": 1}]
    if kind != "nearest" and coordinates == "tf_crop_and_resize":
        choices = [{}]  # outside of the image the constant is due, and a crop has no scale
    for (size, out), channels, choice in product(RESIZES, (1, 19), choices):
        if coordinates == "pytorch_half_pixel" and 1 in out:
            continue  # ONNX's text says 0 for the place of a single output, its implementation -0.5
        x = rng.uniform(-1, 1, (2, channels, *size)).astype(np.float32)
        attributes = {
            "mode": kind,
            "coordinate_transformation_mode": coordinates,
            "extrapolation_value": 9.0,
            **choice,
        }
        close(resize(run, x, out, attributes), onnx_resize(x, out, **attributes), 2e-5)
