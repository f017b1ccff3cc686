"""Shared by all tests: row marks, golden files, a seeded generator, the model zoo."""

import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from difflib import unified_diff
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from filelock import FileLock

from benchmarks.inputs import default_zoo
from infuse.build import library
from infuse.build.autotune.precision.request import LEAST, MOST, least_seconds
from infuse.compression import candidates
from infuse.errors import ToolchainError
from infuse.runtime.cpus import all_features, architecture, cpu_features, cpu_limit
from infuse.runtime.levels import CPU_VARIABLE, limit_name, named_features
from infuse.targets import Caches, Target
from tests.compilers import product_compilers, put_light_compilers_first
from tests.support.emulation import emulated, obstacle

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"[ACEGLRSXZ]\d{1,2}")

if (
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN
):  # a shell's background job: some tests interrupt themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)
RESOLVE = vars(Target)["resolve"]
EMULATED_NATIVE = ""
if (limit := limit_name()) and not named_features(limit) <= all_features():
    EMULATED_NATIVE = limit
    del os.environ[CPU_VARIABLE]  # processes that tests start run on what there is
for module in filter(None, os.environ.get("INFUSE_WITHOUT", "").split(",")):
    sys.modules[module] = None  # type: ignore[assignment]
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    # For workers of pytest and other processes: threads of several that wait for each other at
    # every small product took most of the time of tests that compute much in NumPy.
    os.environ.setdefault(variable, "1")
os.environ.setdefault("INFUSE_CHECK", "1")  # the verifier runs after every pass
os.environ.setdefault(
    "INFUSE_CACHE", str(ROOT / "build" / "cache")
)  # not among the user's own compiled models


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write golden files instead of comparing with them",
    )
    parser.addoption(
        "--rows", metavar="ID[,ID…]", help="run only the tests that are evidence for these rows"
    )


def pytest_configure(config: pytest.Config) -> None:
    if "not full" in config.option.markexpr and not hasattr(config, "workerinput"):
        put_light_compilers_first()


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One worker more than processors: tests of servers and of compilers wait in between."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return cpu_limit() + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check every row mark, and keep only the rows asked for with --rows."""
    wanted = set(filter(None, (config.getoption("--rows") or "").split(",")))
    kept, dropped = [], []
    for item in items:
        rows = {row for mark in item.iter_markers("row") for row in mark.args}
        if bad := [row for row in rows if not ROW.fullmatch(row)]:
            raise pytest.UsageError(f"{item.nodeid}: no such row: {', '.join(map(str, bad))}")
        (kept if not wanted or rows & wanted else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what an operator of the table needs and this machine has not."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if getattr(parameters.get("op"), "name", None) == "RegexFullMatch":
        pytest.importorskip("re2", reason="matches regular expressions")


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with the same seed in every test."""
    return np.random.default_rng(0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`golden(name, text)`: text equals the file golden/NAME beside the test; --update-golden
    writes it. `golden(name, text, base)`: golden/NAME.diff is how text differs from the file BASE.
    """
    folder = request.path.parent / "golden"

    def check(name: str, text: str, base: str = "") -> None:
        path = folder / (f"{name}.diff" if base else name)
        if base:
            before = (folder / base).read_text(encoding="utf-8").splitlines(keepends=True)
            text = "".join(unified_diff(before, text.splitlines(keepends=True), base, name, n=0))
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden file {path}; write it with --update-golden"
        assert text == path.read_text(encoding="utf-8"), f"differs from {path}; see --update-golden"

    return check


@pytest.fixture(scope="session", autouse=True)
def every_processor() -> Iterator[None]:
    """Every test may name every target: what this machine lacks is emulated, and where that cannot
    be, the test is skipped. So no test passes on one kind of processor only.

    `$INFUSE_CPU` hides what this processor has, or names more, and "native" is emulated as well.
    """
    with emulated(native=EMULATED_NATIVE):
        resolve = Target.resolve

        def resolve_or_skip(cls: type[Target], name: str = "native") -> Target:
            try:
                return resolve(name)
            except ToolchainError as error:
                pytest.skip(str(error))

        with mock.patch.object(Target, "resolve", classmethod(resolve_or_skip)):
            yield


@pytest.fixture(scope="session", autouse=True)
def short_timings() -> Iterator[None]:
    """What searches measure, they measure for a part of the usual seconds."""
    part = 1 / 64
    usual = mock.patch.object(least_seconds, "__defaults__", (LEAST * part, MOST * part))
    tried = mock.patch.multiple(
        candidates,
        SHORTEST=candidates.SHORTEST * part,
        LONGEST=candidates.LONGEST * part,
    )
    with usual, tried:
        yield


@pytest.fixture(scope="session", autouse=True)
def own_processors() -> Iterator[None]:
    """Workers of pytest share the processors: each compiles on its part of them, many functions at
    once, since headers take most of the time of compilers that do not optimize.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    part = max(1, cpu_limit() // workers)
    with mock.patch.multiple(library, cpu_limit=lambda: part, _MOST_TOGETHER=32):
        yield


@pytest.fixture(scope="module", autouse=True)
def few_collected_objects() -> None:
    """Collections of garbage are rare, and leave out what lies in memory before the tests of a
    file: all tests, and frameworks that earlier ones imported, which take a third of a second for
    each collection. Compression asks for one after each model that it compiles.
    """
    gc.set_threshold(10_000)
    gc.collect()
    gc.freeze()


@pytest.fixture
def this_processor() -> Iterator[None]:
    """Targets that this machine lacks are errors, as in the product."""
    with mock.patch.object(Target, "resolve", RESOLVE):
        yield


@pytest.fixture(scope="module")
def product_compiler() -> Iterator[None]:
    """Models are compiled as the product does, with -O3, also where a run leaves the long forms of
    tables (`full`) out and all others are compiled with -O0, which takes a quarter of the time.

    For random networks, networks that compute much, and what different compilers make of a model.
    Drivers of kernels are compiled so for this machine's own processor (`kernel_tools.build`).
    """
    with product_compilers():
        yield


@pytest.fixture(params=["", "amx_tile amx_bf16 amx_int8"], ids=["vectors", "tiles"])
def bf16_processor(request: pytest.FixtureRequest) -> Iterator[None]:
    """The target "native" multiplies bfloat16 and bytes, by vectors and by tile registers: itself,
    or emulated. Its caches are the usual ones, whose costs say that small products gain by it.
    """
    features = ("avx512_vnni", "avx512_bf16", *request.param.split())
    if not frozenset(features) <= cpu_features() and (why := obstacle()):
        pytest.skip(f"this processor does not multiply bfloat16; {why}")
    usual = mock.patch.object(Caches, "of_host", classmethod(lambda cls: Caches()))
    with usual, emulated(*features):
        yield


@pytest.fixture
def plain_processor(request: pytest.FixtureRequest) -> Iterator[None]:
    """The target "native" multiplies no bfloat16, whatever this processor does; nothing where the
    test also asks for one that does.
    """
    resolve = Target.resolve
    names = ("x86-64-v4", "x86-64-v3") if architecture() == "x86_64" else (architecture(),)
    able = (t for t in map(resolve, names) if t.is_runnable and not t.emulated)
    plain = next(able, None)
    if plain is None or "bf16_processor" in request.fixturenames:
        yield
        return

    def stand_in(cls: type[Target], name: str = "native") -> Target:
        return replace(plain, name="native") if name == "native" else resolve(name)

    with mock.patch.object(Target, "resolve", classmethod(stand_in)):
        yield


@pytest.fixture(scope="session")
def zoo_folder() -> Path:
    """Where exported networks are kept, shared by all runs: $INFUSE_ZOO."""
    folder = default_zoo()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def zoo_model(zoo_folder: Path) -> Callable[[str], Path]:
    """`zoo_model("resnet18.dynamo")`: path of that network's ONNX file, exported first if it is not
    there.
    """

    def path_of(name: str) -> Path:
        path = zoo_folder / f"{name}.onnx"
        with FileLock(zoo_folder / ".lock"):
            if not path.exists():
                if find_spec("torch") is None:
                    pytest.skip("exporting a network of the zoo needs torch: make test installs it")
                network = name.removesuffix(".dynamo")
                command = [sys.executable, "-m", "benchmarks.zoo_models", str(zoo_folder), network]
                subprocess.run(command, cwd=ROOT, check=True, timeout=280)
        if not path.exists():
            pytest.skip(f"the exporter cannot write {name}")
        return path

    return path_of
