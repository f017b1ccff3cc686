"""Models for microcontrollers give the right numbers there, and need nothing there."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from benchmarks import bare
from infuse import dtypes
from infuse.build.compile import compile_graph
from infuse.build.toolchain import ziglang
from infuse.errors import CompiledModelError, ToolchainError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.foreign import ForeignModel
from tests.native.boards import BOARDS, boards, run_on_board
from tests.native.builder import Builder
from tests.native.foreign import ForeignFailure
from tests.native.op_cases import GROUPS, cases, check, members
from tests.native.test_plain_c import native
from tests.native.test_single import fixed, is_fixed

pytestmark = pytest.mark.row("R6")


def compiled(graph: Graph, target: str, folder: Path) -> ForeignModel:
    model = compile_graph(graph, CompileOptions(target), output=folder / "model")
    assert isinstance(model, ForeignModel)
    return model


@boards()
def test_a_network_runs_on_a_board(target: str, tmp_path: Path) -> None:
    graph = fixed()
    model = compiled(graph, target, tmp_path)
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 9)).astype(np.float32)
    results = run_on_board(target, model, {"x": x}, tmp_path)
    np.testing.assert_allclose(results["y0"], evaluate(graph, {"x": x})["y0"], rtol=1e-5, atol=1e-5)


@boards("cortex-m4", "cortex-m55", "riscv32")
def test_mobilenet_agrees_in_floats_and_to_the_bit_in_bytes(target: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    plain = bare.network(side=32)
    x = np.random.default_rng(3).uniform(-1, 1, (1, 3, 32, 32)).astype(np.float32)
    graph = infuse.optimize(infuse.load(plain))
    model = compiled(graph, target, tmp_path)
    (expected,) = runtime.InferenceSession(plain.SerializeToString()).run(None, {"x": x})
    (actual,) = run_on_board(target, model, {"x": x}, tmp_path).values()
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)

    graph = infuse.optimize(infuse.load(bare.quantized(plain, tmp_path)))
    images = np.random.default_rng(4).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)
    model = compiled(graph, target, tmp_path)
    (expected,) = evaluate(graph, {"bytes": images}).values()
    (actual,) = run_on_board(target, model, {"bytes": images}, tmp_path).values()
    np.testing.assert_array_equal(actual, expected)


@boards("cortex-m4", "riscv32")
def test_failures_have_their_words(target: str, tmp_path: Path) -> None:
    make = Builder()
    x, index = make.input(4, 3, name="x"), make.input(1, dtype=dtypes.int64, name="index")
    make.output(make("Gather", x, index, axis=0))
    model = compiled(make.graph, target, tmp_path)
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    results = run_on_board(target, model, {"x": rows, "index": np.array([-1])}, tmp_path)
    np.testing.assert_array_equal(results["y0"], rows[3:])
    for wrong in (4, 2**32):
        with pytest.raises(ForeignFailure, match="index lies outside"):
            run_on_board(target, model, {"x": rows, "index": np.array([wrong])}, tmp_path)


@pytest.mark.skipif(not ziglang(), reason="pip install ziglang: it compiles for all boards")
@pytest.mark.parametrize("target", BOARDS)
def test_a_library_needs_what_compilers_have(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler's own functions, for floats and wide integers, and those of three names."""
    monkeypatch.setattr("infuse.build.toolchain.shutil.which", _without_gcc)
    model = compiled(fixed(), target, tmp_path)
    library = str(model.folder / "libmodel.a")
    lines = subprocess.run(["nm", "-u", library], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in lines.splitlines() if " U " in line}
    assert {n for n in names if not re.match(r"__aeabi_|__\w+[sdt]i\d?$|__\w+[sd]f\d?$", n)} <= {
        "memcpy",
        "memset",
        "memmove",
    }
    with pytest.raises(CompiledModelError, match="one file of C"):
        infuse.load_compiled(model.folder)


_which = shutil.which


def _without_gcc(name: str, **how: Any) -> str | None:
    return None if name.endswith("gcc") else _which(name, **how)


def test_without_a_compiler_the_source_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infuse.build.toolchain.ziglang", lambda: None)
    monkeypatch.setattr("infuse.build.toolchain.shutil.which", lambda *a, **k: None)
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolchainError, match=r"apt install gcc-arm-none-eabi.*--profile bare"):
        compiled(fixed(), "cortex-m4", tmp_path)


@pytest.mark.full
@boards()
@pytest.mark.parametrize("group", GROUPS)
def test_operators_agree_on_a_board(group: str, target: str, tmp_path: Path) -> None:
    """A part of the short table of operators."""

    def run(graph: Graph, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
        return run_on_board(target, compiled(graph, target, tmp_path), feeds, tmp_path)

    rows = [case for op in members(group) for case in cases(op, full=False)]
    check([case for case in rows[2::4] if native(case) and is_fixed(case)], run=run)
