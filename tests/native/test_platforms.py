"""Models for other platforms give the right numbers there."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.build.toolchain import ziglang
from infuse.errors import CompiledModelError, OptionError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.folder import LIBRARIES, STATIC
from infuse.runtime.foreign import ForeignModel
from infuse.targets.text.javascript import ARRAYS
from infuse.testing.samples import results
from tests.native.builder import Builder
from tests.native.foreign import ForeignFailure
from tests.native.mach_o import ARM64, IOS, MACOS, SIMULATOR, MachO, members as objects_of, read
from tests.native.op_cases import GROUPS, Case, check, members, native_cases
from tests.native.platforms import EMULATORS, platforms, run_on
from tests.native.test_c_hosts import FUNCTIONS
from tests.native.test_foreign import network

pytestmark = pytest.mark.row("R6")


def compiled(graph: Graph, target: str, folder: Path) -> ForeignModel:
    model = compile_graph(graph, CompileOptions(target), output=folder / "model")
    assert isinstance(model, ForeignModel)
    return model


@platforms()
def test_a_network_runs_on_another_platform(target: str, tmp_path: Path) -> None:
    graph = network()
    model = compiled(graph, target, tmp_path)
    for count, threads in ((1, 1), (3, 2)):
        x = np.random.default_rng(count).standard_normal((count, 5, 20, 20)).astype(np.float32)
        expected = evaluate(graph, {"x": x})
        results = run_on(target, model, {"x": x}, tmp_path, threads)
        np.testing.assert_allclose(results["y0"], expected["y0"], rtol=2e-4, atol=1e-6)
        np.testing.assert_array_equal(
            results["y1"], np.array(np.nonzero(results["y0"] > np.float32(0.04)))
        )


@platforms()
def test_a_folder_for_another_system_is_not_loaded(target: str, tmp_path: Path) -> None:
    model = compiled(network(), target, tmp_path)
    with pytest.raises(OptionError, match="and does not run here"):
        model.run({})
    with pytest.raises(CompiledModelError, match=r"built for (wasm|windows|Linux with musl)"):
        infuse.load_compiled(model.folder)
    damaged = next(model.folder / name for name in LIBRARIES if (model.folder / name).is_file())
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(CompiledModelError, match="the file has"):
        infuse.load_compiled(model.folder)


@platforms("linux-riscv64-v-musl+zvl256b")
def test_shorter_vectors_are_refused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = "rv64,v=true,vlen=128,elen=64,vext_spec=v1.0"
    emulator = EMULATORS[target]._replace(command=("qemu-riscv64", "-cpu", short))
    monkeypatch.setitem(EMULATORS, target, emulator)
    make = Builder()
    make.output(make("Relu", make.input(3, name="x")))
    model = compiled(make.graph, target, tmp_path)
    with pytest.raises(AssertionError, match="RVV vectors of 256 bits or more"):
        run_on(target, model, {"x": np.ones(3, np.float32)}, tmp_path)


@platforms("windows-x86_64-v3")
def test_the_example_runs_with_the_shared_library(target: str, tmp_path: Path) -> None:
    folder = compiled(network(), target, tmp_path).folder
    flags = ["-target", "x86_64-windows-gnu", "-O1"]
    command = [str(ziglang()), "cc", *flags, "example.c", "model.lib", "-o", "example.exe"]
    subprocess.run(command, cwd=folder, check=True)
    words = [*EMULATORS[target].words, "example.exe"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("outputs[0]: 8 33\n")


@platforms()
def test_numbers_beyond_addresses_are_refused_and_cut(target: str, tmp_path: Path) -> None:
    """Where addresses have 32 bits, integers of tensors and symbols have 64."""
    make = Builder()
    x, end = make.input("n", name="x"), make.input(1, dtype=dtypes.int64, name="end")
    make.output(make("Slice", x, np.array([0]), end, np.array([0])))
    graph = make.graph
    model = compiled(graph, target, tmp_path)
    numbers = np.arange(5, dtype=np.float32)
    for last in (3, 2**31, 2**32 + 1, 2**63 - 1, -1, -(2**32) - 1, -(2**63)):
        feeds = {"x": numbers, "end": np.array([last])}
        results = run_on(target, model, feeds, tmp_path, 1)
        np.testing.assert_array_equal(results["y0"], numbers[:last])


@platforms()
def test_failures_have_their_words(target: str, tmp_path: Path) -> None:
    make = Builder()
    x, index = make.input(4, 3, name="x"), make.input(1, dtype=dtypes.int64, name="index")
    make.output(make("Gather", x, index, axis=0))
    model = compiled(make.graph, target, tmp_path)
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    results = run_on(target, model, {"x": rows, "index": np.array([-1])}, tmp_path)
    np.testing.assert_array_equal(results["y0"], rows[3:])
    for wrong in (4, 2**32, -(2**32) - 1):
        with pytest.raises(ForeignFailure, match="index lies outside"):
            run_on(target, model, {"x": rows, "index": np.array([wrong])}, tmp_path)


@pytest.mark.full
@platforms()
@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_on_another_platform(group: str, target: str, tmp_path: Path) -> None:
    """The short table of operators."""

    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        return run_on(target, compiled(graph, target, tmp_path), feeds, tmp_path, 1)

    cases = native_cases(members(group), full=False)
    cases = [c for c in cases if "threads" not in target or has_arrays(c)]
    check([c for c in cases if "armv7" not in target or not has_subnormals(c)], run=run)


def has_subnormals(case: Case) -> bool:
    """Whether an input of float32 has numbers that NEON takes for zeros on ARMv7."""
    arrays = [np.asarray(x) for x in case.row.inputs if isinstance(x, np.ndarray)]
    least = np.finfo(np.float32).smallest_normal
    return any(((x != 0) & (np.abs(x) < least)).any() for x in arrays if x.dtype == np.float32)


def has_arrays(case: Case) -> bool:
    """Whether JavaScript has arrays for all elements of a case; for 4 bits it has none."""
    arrays = [x for x in (*case.row.inputs, *results(case.row)) if isinstance(x, np.ndarray)]
    return all(dtypes.by_numpy(x.dtype).name in ARRAYS for x in arrays)


@pytest.mark.full
@pytest.mark.parametrize("target", ["macos-arm64", "windows-arm64"])
@pytest.mark.parametrize("group", GROUPS)
def test_operators_compile_where_nothing_runs_them(group: str, target: str, tmp_path: Path) -> None:
    """The short table of operators: types of sizes and of elements are others than on Linux."""

    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        compiled(graph, target, tmp_path)
        return evaluate(graph, feeds)

    check(native_cases(members(group), full=False), run=run)


# What kernels call of the C library, all of which Android 5 (API 21) has.
_BIONIC = """
    __sched_cpucount calloc clock_gettime free getpid madvise malloc memcmp memcpy memmove
    memset mmap munmap posix_memalign pthread_attr_destroy pthread_attr_init
    pthread_attr_setstacksize pthread_create pthread_equal pthread_join pthread_self
    pthread_sigmask sched_getaffinity sigfillset snprintf strlen syscall sysconf
"""


@pytest.mark.full
@pytest.mark.skipif(not ziglang(), reason="not tested on android-arm64: pip install ziglang")
def test_a_library_for_android_needs_what_is_there(tmp_path: Path) -> None:
    model = compiled(network(), "android-arm64", tmp_path)

    def told(*command: str) -> str:
        words = [*command, str(model.folder / "model.so")]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    symbols = [line.split() for line in told("nm", "-D").splitlines()]
    assert {name for kind, name in (s for s in symbols if len(s) == 2) if kind == "U"} <= set(
        _BIONIC.split()
    )
    assert {name for *_, kind, name in symbols if kind == "T"} == FUNCTIONS
    assert re.findall(r"NEEDED.*\[(.*)\]", told("readelf", "-dW")) == ["libc.so"]
    loads = [line.split() for line in told("readelf", "-lW").splitlines() if " LOAD " in line]
    assert loads
    assert {int(line[-1], 16) for line in loads} == {16384}


# What kernels call of Apple's C library, all of which iOS 13 and macOS 11 have.
_DARWIN = """
    bzero calloc free getpid clock_gettime malloc memcmp memcpy memmove memset memset_pattern16 mmap
    munmap posix_memalign pthread_attr_destroy pthread_attr_init pthread_attr_setstacksize
    pthread_cond_broadcast pthread_cond_destroy pthread_cond_init pthread_cond_wait pthread_create
    pthread_equal pthread_join pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock
    pthread_mutex_unlock pthread_self pthread_sigmask snprintf __snprintf_chk strlen sysconf
    __stack_chk_fail __stack_chk_guard dyld_stub_binder
"""


def is_there(file: MachO) -> set[str]:
    """What a file needs of others that the system does not have."""
    return {name.removeprefix("_") for name in file.undefined} - set(_DARWIN.split())


needs_zig = pytest.mark.skipif(not ziglang(), reason="needs ziglang (pip install ziglang)")


@needs_zig
@pytest.mark.parametrize(
    ("target", "platform"), [("ios-arm64", IOS), ("ios-arm64-simulator", SIMULATOR)]
)
def test_a_library_for_ios_is_made_of_its_objects(
    target: str, platform: int, tmp_path: Path
) -> None:
    model = compiled(network(), target, tmp_path)
    assert not list(model.folder.glob("*.dylib"))
    files = objects_of(model.folder / STATIC)
    assert files
    assert {(file.processor, file.platform) for file in files} == {(ARM64, platform)}
    assert all((13, 0) <= file.least <= (14, 0) for file in files)
    defined = set().union(*(file.defined for file in files))
    assert {f"_{name}" for name in FUNCTIONS} <= defined
    missing = set().union(*map(is_there, files)) - {name.removeprefix("_") for name in defined}
    assert not missing
    with pytest.raises(CompiledModelError, match="was built for ios"):
        infuse.load_compiled(model.folder)


@pytest.mark.full
@needs_zig
def test_a_library_for_macos_needs_nothing_but_the_system(tmp_path: Path) -> None:
    model = compiled(network(), "macos-arm64", tmp_path)
    file = read((model.folder / "model.dylib").read_bytes())
    assert (file.processor, file.platform, file.least) == (ARM64, MACOS, (11, 0))
    assert file.name == "@rpath/model.dylib"
    assert file.libraries == ["/usr/lib/libSystem.B.dylib"]
    own = {"__mh_dylib_header", "___dso_handle"}
    assert file.defined - own == {f"_{name}" for name in FUNCTIONS}
    assert not is_there(file)
