"""Compiled models that call the functions of a library of prebuilt kernels, and have their own
beside them: nothing is compiled again, and all is at full speed.
"""

import gc
import json
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import infuse
from infuse.build.compile import compile_graph
from infuse.build.prebuilt import make_prebuilt
from infuse.build.toolchain import Toolchain
from infuse.errors import CompiledModelError, ToolchainError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.lowering.emitter import ClosedFunctions
from infuse.onnxruntime import InferenceSession, reuse
from infuse.ops.core.evaluate import evaluate
from infuse.options import CompileOptions
from infuse.runtime.folder import FUNCTIONS, LIBRARY, METADATA, PROGRAM, WEIGHTS, digest
from infuse.runtime.interface import COMPILED, PREBUILT
from infuse.runtime.model import CompiledModel
from infuse.runtime.program import FOLDER_VARIABLE, prebuilt_libraries
from infuse.targets import Machine, Target
from infuse.targets.machine import USUAL
from tests.caches import new_cache
from tests.native import dynamic_models
from tests.native.random_models import together
from tests.native.session_models import ADDER, FEED, X, Y
from tests.native.test_prebuilt import functions_of
from tests.native.test_random_graphs import differences

WAIT = CompileOptions(threads=2)
PRODUCT = """graph "net" (%x: float32[n, 16], %w: float32[16, 16]) {
  %a = MatMul(%x, %w)
  return a = %a
}"""
MORE = """graph "more" (%x: float32[n, 16], %w: float32[16, 16]) {
  %a = MatMul(%x, %w)
  %b = Softmax(%a, axis=-1)
  %c = Sigmoid(%b)
  %d = Add(%c, %x)
  return d = %d
}"""
pytestmark = pytest.mark.row("X1")


def feeds_of(rows: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(rows)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, 16), (16, 16)))
    return {"x": x, "w": w}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the library of prebuilt kernels, of these functions, and an empty cache."""

    def make(functions: ClosedFunctions) -> None:
        folder = tmp_path / uuid4().hex  # the loader takes a library of a known name for its own
        make_prebuilt(functions, Target.resolve(), folder / f"{folder.name}.so")
        monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
        monkeypatch.setenv("INFUSE_CACHE", new_cache(tmp_path / "cache"))

    return make


def no_compiler(*_: Any) -> Any:
    raise ToolchainError("there is no compiler", hint="install one")


def files(model: Any) -> set[str]:
    assert isinstance(model, CompiledModel)
    return {path.name for path in model.folder.iterdir()}


def require(model: Any, graph: Graph) -> None:
    for rows in (3, 1, 0):
        results = model.run(feeds_of(rows))
        for name, expected in evaluate(graph, feeds_of(rows)).items():
            np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-6, strict=True)


def test_what_a_library_has_is_not_compiled(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse(MORE)
    library(functions_of([graph], usual=True))
    monkeypatch.setattr(Toolchain, "find", no_compiler)
    for how in ("wait", "background"):
        with compile_graph(graph, CompileOptions(threads=2, compile=how)) as model:
            assert model.tier == COMPILED
            assert files(model) == {PROGRAM, METADATA, WEIGHTS}
            require(model, graph)
    with compile_graph(graph, CompileOptions(compile="never")) as model:
        assert model.tier == PREBUILT
        require(model, graph)


def test_what_a_library_lacks_is_compiled(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse(MORE)
    library(functions_of([parse(PRODUCT)]))
    with compile_graph(graph, WAIT) as model:
        assert model.tier == COMPILED
        assert files(model) == {PROGRAM, FUNCTIONS, METADATA, WEIGHTS}
        require(model, graph)
        folder = model.folder
        assert str(folder / FUNCTIONS) in Path("/proc/self/maps").read_text()
    del model
    gc.collect()
    assert str(folder / FUNCTIONS) not in Path("/proc/self/maps").read_text()
    monkeypatch.setattr(Toolchain, "find", no_compiler)
    with pytest.raises(ToolchainError):
        compile_graph(parse(MORE.replace("Sigmoid", "Tanh")), WAIT)


def test_models_have_the_same_functions_in_other_objects(library: Any) -> None:
    """An object may have several functions, so that two objects may have the same one."""
    library(functions_of([parse(PRODUCT)]))
    kinds = ("LogSoftmax", "Softmax", "CumSum", "Softmax", "LogSoftmax", "CumSum", "Hardmax")
    for first, last in ((0, 2), (1, 3), (0, 3), (2, 7)):
        lines = ["%y0 = Identity(%x)"]
        for number, kind in enumerate(kinds[first:last]):
            axis = "int64[]{1}" if kind == "CumSum" else ""
            inputs = f"%y{number}" + (f", {axis}" if axis else "")
            lines.append(f"%y{number + 1} = {kind}({inputs})")
        text = "\n".join(lines)
        graph = parse(f'graph "g" (%x: float32[n, 16]) {{ {text} return y = %y{last - first} }}')
        with compile_graph(graph, WAIT) as model:
            feeds = {"x": feeds_of(3)["x"]}
            expected = evaluate(graph, feeds)["y"]
            np.testing.assert_allclose(model.run(feeds)["y"], expected, rtol=1e-5, atol=1e-6)


def test_random_networks_with_functions_of_their_own(library: Any) -> None:
    graph, runs = together(range(40, 60), 5)
    library(functions_of([parse(PRODUCT)]))
    with compile_graph(graph, WAIT) as model:
        assert FUNCTIONS in files(model)
        for feeds in runs:
            assert not differences(model.run(feeds), graph, feeds)


@pytest.mark.parametrize("name", [*dynamic_models.CASES][::4])
def test_sizes_that_a_run_finds_and_loops(name: str, library: Any) -> None:
    make, every = dynamic_models.CASES[name]
    graph = infuse.load(make())
    library(functions_of([parse(PRODUCT)]))
    with compile_graph(graph, WAIT) as model:
        for feeds in every:
            results = model.run(feeds)
            for output, expected in evaluate(graph, feeds).items():
                if expected.size:  # the sizes of what a loop without iterations stacks are open
                    np.testing.assert_allclose(results[output], expected, rtol=2e-6, strict=True)


@pytest.mark.parametrize("options", [{"debug": True}, {"prefix": "net"}, {"precision": "fp16"}])
def test_what_only_code_of_its_own_has_is_compiled_whole(
    options: dict[str, Any], library: Any
) -> None:
    graph = parse(PRODUCT)
    library(functions_of([graph], usual=True))
    with compile_graph(graph, CompileOptions(threads=1, **options)) as model:
        assert LIBRARY in files(model)


def test_models_are_compared_side_by_side(library: Any) -> None:
    library(functions_of([parse(PRODUCT)]))
    graph = parse(MORE)
    result = infuse.compare(graph, parse(MORE), feeds_of(3), layers=False)
    with compile_graph(graph, WAIT) as model:
        code = sum((model.folder / name).stat().st_size for name in (PROGRAM, FUNCTIONS))
        assert result.a.loaded_bytes == code + model.weights_bytes


def test_a_folder_that_is_named_needs_no_library(library: Any, tmp_path: Path) -> None:
    graph = parse(PRODUCT)
    library(functions_of([graph], usual=True))
    with compile_graph(graph, WAIT, output=tmp_path / "model") as model:
        assert LIBRARY in files(model)


def test_kernels_are_alike_where_vectors_and_units_are() -> None:
    features = frozenset(("avx", "avx512f"))
    wide, narrow = (Machine.of("x86_64", has, USUAL) for has in (features, frozenset(("avx",))))
    dots = Machine.of("x86_64", features | {"avx512_vnni"}, USUAL)
    halves = Machine.of("x86_64", features | {"avx512_bf16"}, USUAL)
    assert not wide.computes_as(narrow, integers=False)
    assert wide.computes_as(halves, integers=True)
    assert wide.computes_as(dots, integers=False)
    assert not wide.computes_as(dots, integers=True)


def rewrite(folder: Path, content: bytes) -> None:
    """Other functions in a folder, which its description agrees with."""
    path = folder / FUNCTIONS
    path.unlink(missing_ok=True)  # what is mapped is not written to
    path.write_bytes(content)
    metadata = json.loads((folder / METADATA).read_text())
    metadata["files"][FUNCTIONS] = {"bytes": len(content), "sha256": digest(path)}
    (folder / METADATA).write_text(json.dumps(metadata))


def test_other_functions_are_refused(
    library: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(functions_of([parse(PRODUCT)]))
    folder = tmp_path / "model"
    with compile_graph(parse(MORE), WAIT) as model:
        shutil.copytree(model.folder, folder, copy_function=shutil.copyfile)
    folder.chmod(0o700)
    with infuse.load_compiled(folder) as model:
        require(model, parse(MORE))
    del model  # the loader takes a library of a known name for the one that it has
    gc.collect()
    whole = (folder / FUNCTIONS).read_bytes()
    (folder / FUNCTIONS).unlink()
    (folder / FUNCTIONS).write_bytes(whole[:-1] + b"!")
    with pytest.raises(CompiledModelError, match="not what was compiled"):
        infuse.load_compiled(folder)
    (folder / FUNCTIONS).unlink()
    with pytest.raises(CompiledModelError, match="the file is missing"):
        infuse.load_compiled(folder)
    rewrite(folder, b"no library")
    with pytest.raises(CompiledModelError, match="cannot be loaded"):
        infuse.load_compiled(folder)
    rewrite(folder, prebuilt_libraries()[0].path.read_bytes())
    with pytest.raises(CompiledModelError, match="has no function"):
        infuse.load_compiled(folder)
    monkeypatch.setattr("infuse.build.prebuilt.stamp", lambda: "another")
    make_prebuilt(functions_of([parse(PRODUCT)]), Target.resolve(), tmp_path / "other.so")
    rewrite(folder, (tmp_path / "other.so").read_bytes())
    with pytest.raises(CompiledModelError, match="for other kernels"):
        infuse.load_compiled(folder)


def test_a_session_compiles_again_where_the_library_is_gone(
    library: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library(functions_of([infuse.optimize(infuse.load(ADDER))], usual=True))
    path = tmp_path / "adder.onnx"
    path.write_bytes(ADDER)
    monkeypatch.setattr(reuse, "is_extended", lambda: False)
    for folder in (None, tmp_path / "none"):
        if folder is not None:
            monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
        session = InferenceSession(path)
        assert session.tier == COMPILED
        np.testing.assert_array_equal(session.run(None, FEED)[0], X + Y)
