"""Sessions find what was compiled before, and only that."""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Event, enumerate as all_threads
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import catalog
from infuse.catalog import Catalog, CatalogTable
from infuse.onnxruntime import InferenceSession, OrtValue, SessionOptions, reuse
from infuse.ops.core import base
from infuse.passes.registry import register, unregister
from infuse.rewrite import Rule
from infuse.runtime import checked
from infuse.runtime.extensions import is_extended
from tests.caches import new_cache
from tests.native.session_models import ADDER, FEED, W, X, Y, adder, pair_of_tensors, scaled

pytestmark = pytest.mark.row("R9")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was compiled, in a cache of the test's own; other tests' operators do not count."""
    monkeypatch.setenv("INFUSE_CACHE", new_cache(tmp_path / "cache"))
    monkeypatch.setattr(reuse, "is_extended", lambda: False)
    calls: list[Any] = []
    original = infuse.api.compile

    def compile(graph: Any, options: infuse.CompileOptions) -> Any:
        calls.append(graph.name)
        return original(graph, options)

    monkeypatch.setattr(infuse.api, "compile", compile)
    return calls


@pytest.mark.parametrize("is_file", [True, False])
def test_a_model_is_compiled_once(compiled: list[Any], is_file: bool, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(ADDER)
    source = tmp_path / "model.onnx" if is_file else ADDER
    first, second = InferenceSession(source), InferenceSession(source)
    assert compiled == ["small"]
    for session in (first, second):
        np.testing.assert_array_equal(session.run(["sum"], FEED)[0], X + Y)
    assert first.get_inputs() == second.get_inputs()
    assert first.get_modelmeta() == second.get_modelmeta()
    (tmp_path / "other.onnx").write_bytes(ADDER)
    InferenceSession(tmp_path / "other.onnx")
    assert len(compiled) == 1


def end_hashing() -> None:
    """Wait until the models of sessions are hashed."""
    for thread in all_threads():
        if thread.name == "infuse-hashing":
            thread.join()


@pytest.mark.parametrize("is_hashed_before", [True, False])
def test_a_file_that_is_replaced_meanwhile_is_not_recorded(
    compiled: list[Any], is_hashed_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked, "_RACY_SECONDS", -1.0)
    path, other = tmp_path / "model.onnx", tmp_path / "other.onnx"
    path.write_bytes(scaled().SerializeToString())
    other.write_bytes(path.read_bytes().replace(W.tobytes(), (3 * W).tobytes()))
    is_replaced, digest = Event(), reuse._digest

    def digest_in_turn(source: str | bytes) -> str:
        if not is_hashed_before:
            is_replaced.wait()
        return digest(source)

    def replace(graph: Any, options: infuse.CompileOptions) -> Any:
        model = compile(graph, options)
        if is_hashed_before:
            end_hashing()
        other.replace(path)
        is_replaced.set()
        return model

    compile = infuse.api.compile
    with monkeypatch.context() as patch:
        patch.setattr(reuse, "_digest", digest_in_turn)
        patch.setattr(infuse.api, "compile", replace)
        before = InferenceSession(path)
    assert not (tmp_path / "cache" / "sessions").exists()
    after = [InferenceSession(path) for _ in range(2)]
    for session, factor in zip((before, *after), (1, 3, 3)):
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * W * factor)
    assert len(compiled) == 2


def test_a_file_that_gets_new_times_meanwhile_is_recorded(
    compiled: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked, "_RACY_SECONDS", -1.0)
    (tmp_path / "model.onnx").write_bytes(ADDER)
    compile = infuse.api.compile

    def touch(graph: Any, options: infuse.CompileOptions) -> Any:
        model = compile(graph, options)
        end_hashing()
        (tmp_path / "model.onnx").touch()
        return model

    monkeypatch.setattr(infuse.api, "compile", touch)
    for _ in range(2):
        InferenceSession(tmp_path / "model.onnx")
    assert len(compiled) == 1


def test_a_process_that_finds_its_model_imports_no_compiler(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(ADDER)
    program = """
import sys, numpy as np, infuse.onnxruntime as ort
session = ort.InferenceSession("model.onnx")
x = np.ones((2, 3), np.float32)
print(session.run(["sum"], {"x": x, "y": x})[0].tolist(), "infuse.ops" in sys.modules)
"""
    paths = {"PYTHONPATH": str(ROOT / "src"), "INFUSE_CACHE": new_cache(tmp_path / "cache")}
    answers = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | paths,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    result = [[2.0] * 3] * 2
    assert answers == [f"{result} True\n", f"{result} False\n"]


def test_a_program_in_the_place_of_onnxruntime_finds_the_model_too(
    compiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    InferenceSession(ADDER)
    monkeypatch.setenv("INFUSE_AS_ONNXRUNTIME", "1")
    InferenceSession(ADDER)
    assert len(compiled) == 1


def test_other_content_is_compiled_anew(compiled: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for model, factor in ((scaled(location="w.bin"), 1), (scaled(location="w.bin"), 2)):
        path.write_bytes(model.SerializeToString())
        (tmp_path / "w.bin").write_bytes((W * factor).tobytes())
        for _ in range(2):
            (result,) = InferenceSession(path).run(None, {"x": X})
            np.testing.assert_array_equal(result, X * W * factor)
    assert len(compiled) == 2
    path.write_bytes(adder([2, 3]).SerializeToString())
    assert InferenceSession(path).get_inputs()[0].shape == [2, 3]
    assert len(compiled) == 3


OPTIONS = {
    "level": lambda o: setattr(o, "graph_optimization_level", 1),
    "threads": lambda o: setattr(o, "intra_op_num_threads", 1),
    "sizes": lambda o: o.add_free_dimension_override_by_name("batch", 2),
    "other sizes": lambda o: o.add_free_dimension_override_by_name("batch", 4),
    "precision": lambda o: setattr(o, "precision", "fp16"),
}


def test_other_options_are_compiled_anew(
    compiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFUSE_NUM_THREADS", "2")
    InferenceSession(ADDER)
    for change in OPTIONS.values():
        for _ in range(2):
            options = SessionOptions()
            change(options)
            InferenceSession(ADDER, options)
    assert len(compiled) == 1 + len(OPTIONS)


NEVER = {
    "a file": lambda o, folder: setattr(o, "optimized_model_filepath", str(folder / "b.onnx")),
    "a profile": lambda o, folder: (
        setattr(o, "enable_profiling", True),
        setattr(o, "profile_file_prefix", str(folder / "trace")),
    ),
    "an initializer": lambda o, folder: o.add_initializer("w", OrtValue.ortvalue_from_numpy(W * 2)),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_depends_on_more_is_not_recorded(
    compiled: list[Any], name: str, tmp_path: Path
) -> None:
    for _ in range(2):
        options = SessionOptions()
        NEVER[name](options, tmp_path)
        InferenceSession(scaled().SerializeToString(), options)
    assert len(compiled) == 2
    assert not (tmp_path / "cache" / "sessions").exists()


@pytest.mark.filterwarnings("ignore:calls may replace the defaults")
@pytest.mark.parametrize("model", [pair_of_tensors(), scaled(is_input=True).SerializeToString()])
def test_models_of_the_interpreter_and_with_defaults_are_not_recorded(
    compiled: list[Any], model: bytes, tmp_path: Path
) -> None:
    for _ in range(2):
        InferenceSession(model)
    assert len(compiled) == 2
    assert not (tmp_path / "cache" / "sessions").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"folder": "/no/such"}', None])
def test_a_record_that_is_broken_is_none(
    compiled: list[Any], content: str | None, tmp_path: Path
) -> None:
    InferenceSession(ADDER)
    (record,) = (tmp_path / "cache" / "sessions").iterdir()
    if content is None:  # the compiled folder is gone
        library = Path(json.loads(record.read_text("utf-8"))["folder"]) / "metadata.json"
        library.unlink()
    else:
        record.write_text(content, "utf-8")
    np.testing.assert_array_equal(InferenceSession(ADDER).run(["sum"], FEED)[0], X + Y)
    assert len(compiled) == 2


def test_records_that_others_could_write_do_not_count(compiled: list[Any], tmp_path: Path) -> None:
    InferenceSession(ADDER)
    (tmp_path / "cache" / "sessions").chmod(0o777)
    InferenceSession(ADDER)
    assert len(compiled) == 2


def test_a_program_that_extends_infuse_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "CATALOGS", [])
    operators: CatalogTable[Any] = CatalogTable(Catalog("infuse.ops"))
    operators.register(("", "Add"), base.REGISTRY["", "Add"], "infuse.ops.arithmetic")
    monkeypatch.setattr(base, "REGISTRY", operators)
    kernels = sys.modules.get("infuse.lowering.kernel_table")
    if kernels is not None:
        monkeypatch.setattr(kernels, "TABLES", {})
    assert not is_extended()

    class Mine(Rule):
        level = "basic"

    register(Mine)
    try:
        assert is_extended()
    finally:
        unregister("Mine")
    assert not is_extended()
    operators.register(("mine", "Op"), type("Op", (), {"__module__": "mine"}), "mine")
    assert is_extended()
