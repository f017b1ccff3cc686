"""No two threads touch one element of memory without order: compiled models and the drivers of
kernels under ThreadSanitizer (`tests.support.sanitizing`), at least three threads, neighbouring
pieces of work by different ones however little there is to do.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from infuse import ops
from infuse.build.staged import lower_graph
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ops.core.base import Op
from infuse.targets import Target
from infuse.targets.cpu.lower import convolution
from infuse.testing.samples import rows
from tests.native.builder import Builder
from tests.native.kernel_tools import targets
from tests.support import sanitizing
from tests.support.hostile import Case, Feeds, cases, resized_feeds
from tests.support.sanitizing import Job, build_sanitized, run_sanitized, under, variables

Runs = tuple[Graph, list[Feeds]]
THREADS = 4
MOST_ELEMENTS = 200_000
"""Of the inputs of a run: what is watched takes ten times as long."""
OFTEN = ("Conv", "ConvTranspose", "Softmax", "LayerNormalization", "Resize", "LSTM", "Attention")
"""Operators of the short form: kernels whose pieces write beside each other in different ways."""
MODULES = (
    *("conv_planes", "conv_tiles", "chains", "winograd", "low_chains", "transposed"),
    *("concat_slots", "joined_chains", "skip_norms", "transposed_integers", "random_graphs"),
    *("kernels_attention", "kernels_bf16", "kernels_copies", "kernels_gemm", "kernels_images"),
    *("kernels_indices", "kernels_integer", "kernels_lines", "kernels_math", "kernels_split"),
    *("kernels_matmul_tiles", "kernels_sparse", "trees", "views", "resizing", "integer_recurrence"),
)
"""Tests whose models and drivers of kernels are run under ThreadSanitizer."""
COMPILER = '#!/bin/sh\nexec g++ "$@" -O1 -g1 -fsanitize=thread -DINFUSE_ALTERNATE=3\n'
PYTEST = "import os, sys, pytest; del os.environ['LD_PRELOAD']; sys.exit(pytest.main(sys.argv[1:]))"
"""Processes that these tests start, compilers among them, are not watched."""

OVERLAPPING = (
    *("workers.hpp", "context->call(context->body, begin, last, index);"),
    "context->call(context->body, begin, last + (last < owner->end), index);",
)
"""A pool that hands out one element twice."""
OTHER_COLUMNS = ("conv_planes.hpp", "t = {end, last, k, k};", "t = {end, all, k, k};")
"""Blocks of lines that store behind their own pixels, too."""


def _is_there() -> bool:
    if not sys.platform.startswith("linux") or shutil.which("g++") is None:
        return False
    try:
        command = under("thread", [sys.executable, "-c", "pass"])
    except sanitizing.ToolchainError:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.skipif(not _is_there(), reason="ThreadSanitizer does not run here"),
    pytest.mark.row("R2"),
]


def race_reports(
    graphs: Sequence[Graph],
    feeds: Sequence[Sequence[Feeds]],
    folder: Path,
    target: str = "native",
) -> list[tuple[int, str]]:
    """What ThreadSanitizer says of the runs, each with the number of its graph; every graph has to
    answer.
    """
    programs = [lower_graph(graph, Target.resolve(target), THREADS) for graph in graphs]
    models = build_sanitized(programs, folder, target, "thread")
    jobs = [Job(model, each) for model, each in zip(models, feeds, strict=True)]
    run_sanitized(jobs, threads=THREADS)
    for job in jobs:
        assert job.outcomes[0].outputs is not None, job.outcomes[0].error
    return [(number, o.report) for number, job in enumerate(jobs) for o in job.outcomes if o.report]


def with_fault(
    monkeypatch: pytest.MonkeyPatch, folder: Path, file: str, old: str, new: str
) -> None:
    """Make sanitized models of kernels in which one line of one file is another."""
    kernels = folder / "kernels"
    shutil.copytree(sanitizing.KERNELS, kernels)
    text = (kernels / file).read_text("utf-8")
    assert text.count(old) == 1
    (kernels / file).write_text(text.replace(old, new), "utf-8")
    monkeypatch.setattr(sanitizing, "KERNELS", kernels)


def softmax() -> tuple[Graph, Feeds]:
    text = 'graph "softmax" (%x: float32[n, m]) {\n  %y = Softmax(%x)\n  return y = %y\n}'
    return parse(text), {"x": np.ones((50, 37), np.float32)}


def planes() -> tuple[Graph, Feeds]:
    """Windows that are packed, in blocks of lines that are no whole panels."""
    b = Builder("planes")
    x = b.input(1, 4, 12, 7, name="x")
    b.output(b("Conv", x, b.weight(40, 4, 3, 3), pads=(1, 1, 1, 1)))
    return b.graph, {"x": np.ones((1, 4, 12, 7), np.float32)}


@pytest.mark.parametrize("is_faulty", [False, True])
@pytest.mark.parametrize(
    ("model", "fault"), [(softmax, OVERLAPPING), (planes, OTHER_COLUMNS)], ids=["pool", "planes"]
)
def test_faults_are_reported(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    model: Callable[[], tuple[Graph, Feeds]],
    fault: tuple[str, str, str],
    is_faulty: bool,
) -> None:
    monkeypatch.setattr(convolution, "planes_are_faster", lambda _low, _node: True)
    if is_faulty:
        with_fault(monkeypatch, tmp_path, *fault)
    graph, feeds = model()
    (folder := tmp_path / "model").mkdir()
    reports = race_reports([graph], [[feeds]], folder)
    assert bool(reports) == is_faulty, reports
    assert all("data race" in text for _, text in reports)


def chosen(op: type[Op], target: str, most_rows: int, most_feeds: int) -> list[Runs]:
    """Graphs of some rows of the operator, each with the inputs of its runs."""
    every = rows(op, np.random.default_rng(1))
    some = every[:: max(1, -(-len(every) // most_rows))]
    return [
        (case.graph, [case.sample, *large_feeds(case)[:most_feeds]])
        for row in some
        for case in cases(row, target)
    ]


def large_feeds(case: Case) -> list[Feeds]:
    """Inputs of the other sizes that the operator takes, the largest ones first."""

    def elements(feeds: Feeds) -> int:
        return sum(x.size for x in feeds.values())

    every = [f for f in resized_feeds(case, np.random.default_rng(7)) if case.keeps(f)]
    usual = [f for f in every if all(x.size for x in f.values()) and elements(f) < MOST_ELEMENTS]
    return sorted(usual, key=elements, reverse=True)


@pytest.fixture(scope="module")
def reports_of_often(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is said of each of OFTEN, which are one library."""
    runs = {name: chosen(ops.REGISTRY["", name], "native", 1, 4) for name in OFTEN}
    owners = [name for name, own in runs.items() for _ in own]
    every = [one for own in runs.values() for one in own]
    said = race_reports(*zip(*every), tmp_path_factory.mktemp("often"))
    found: dict[str, list[str]] = {name: [] for name in OFTEN if runs[name]}
    for number, text in said:
        found[owners[number]].append(text)
    return found


@pytest.mark.parametrize("name", OFTEN)
def test_operators(name: str, reports_of_often: dict[str, list[str]]) -> None:
    require_none(reports_of_often[name])


@pytest.mark.full
@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("key", [key for key in sorted(ops.REGISTRY) if ops.REGISTRY[key].samples])
def test_every_operator(key: tuple[str, str], target: str, tmp_path: Path) -> None:
    if not (runs := chosen(ops.REGISTRY[key], target, 4, 6)):
        pytest.skip("no row is compiled")
    require_none([text for _, text in race_reports(*zip(*runs), tmp_path, target)])


def require_none(reports: Sequence[str]) -> None:
    assert not reports, f"{len(reports)} runs:\n" + "\n".join(text[:2000] for text in reports[:3])


# ---- tests of kernels and models, under ThreadSanitizer


def run_tests(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """How pytest ended, and what ThreadSanitizer said of it."""
    compiler, log = folder / "g++-thread", folder / "log"
    compiler.write_text(COMPILER, "utf-8")
    compiler.chmod(0o755)
    options = ["-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", *arguments]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        under("thread", [sys.executable, "-c", PYTEST, *options]),
        env=inherited
        | variables("thread", log)
        | {"CXX": str(compiler), "INFUSE_CACHE": str(folder / "cache")}
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # importing them takes longer than the tests
        capture_output=True,
        text=True,
        check=False,
    )
    return done, "".join(path.read_text("utf-8", "replace") for path in folder.glob("log.*"))


RACE = '''
import threading, ctypes, subprocess
from pathlib import Path
from tests.native.kernel_tools import build

def test_race(tmp_path):
    source = tmp_path / "race.cpp"
    source.write_text("""
#include "threads.hpp"
extern "C" __attribute__((visibility("default"))) void race(float* x) {
  infuse::Context* context = infuse::context_open(3);
  context->parallel(9, [=](long begin, long end, int) {
    for (long i = begin; i <= end; ++i) x[i] = float(i);
  });
  infuse::context_close(context);
}
""")
    build(source, "native").race((ctypes.c_float * 10)())
'''


def test_tests_of_kernels_are_watched(tmp_path: Path) -> None:
    (tmp_path / "test_race.py").write_text(RACE, "utf-8")
    done, report = run_tests(tmp_path, str(tmp_path / "test_race.py"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "data race" in report


def test_kernels_of_planes(tmp_path: Path) -> None:
    module = str(Path(__file__).with_name("test_conv_planes.py"))
    done, report = run_tests(tmp_path, module, "-k", "test_planes and native-2 and holds")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
    assert not report, report[:4000]


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MODULES)
def test_every_kernel(name: str, tmp_path: Path) -> None:
    module = str(Path(__file__).with_name(f"test_{name}.py"))
    # Compilers for other machines know nothing of this sanitizer.
    options = ["-m", "not full", "-k", "not another_machine", "--timeout", "3000"]
    done, report = run_tests(tmp_path, module, *options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert not report, report[:4000]
