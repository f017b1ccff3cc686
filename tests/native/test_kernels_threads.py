"""Pools of threads, and plans of memory,
for every width of vectors that this machine has.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from infuse.build.toolchain import Toolchain
from infuse.lowering import memory
from infuse.lowering.tensors import Buffer
from tests.native.kernel_driver import (
    Array,
    Driver,
    Rng,
    argument,
    libraries,
    library,
    run,
    zeros,
)
from tests.native.kernel_tools import KERNELS, fenced

__all__ = ["libraries", "library", "run"]


# ---- threads


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("grain", [1, 2, 10, 5000])
def test_every_index_is_covered_once(run: Driver, n: int, grain: int) -> None:
    hits, shortest = zeros(n, dtype=np.int32), ctypes.c_long()
    run("cover", n, grain, hits, ctypes.byref(shortest), result=None)
    assert (hits == 1).all()
    if n < 2 * grain:
        assert shortest.value == n


def test_others_go_on_with_the_share_of_a_worker_that_is_kept(library: ctypes.CDLL) -> None:
    driver = Driver(library, 3)
    for n in (24, 25, 64):
        hits = zeros(n, dtype=np.int32)
        assert driver("cover_without_one", n, hits, result=ctypes.c_bool)
        assert (hits == 1).all()
    driver.close()


def test_every_thread_is_a_worker_of_its_own(library: ctypes.CDLL) -> None:
    """Also where one share has a piece more than another."""
    driver = Driver(library, 3)
    for _ in range(300):
        assert driver("other_workers", 17, 5, result=ctypes.c_long) == 0
    driver.close()


def test_whole_shares_have_the_numbers_of_their_workers(library: ctypes.CDLL) -> None:
    driver = Driver(library, 3)
    for _ in range(200):
        workers = zeros(10, dtype=np.int64)
        assert driver("whole_shares", 10, workers, result=ctypes.c_long) == 3
        assert workers.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    driver.close()


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
