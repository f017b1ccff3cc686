from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InputError, OptionError
from infuse.ir.graph import Graph
from infuse.onnxruntime import (
    ExecutionMode,
    GraphOptimizationLevel,
    InferenceSession,
    SessionOptions,
    get_available_providers,
    get_device,
)
from infuse.runtime import CompiledModel
from tests.native.adder import build_adder

X = np.ones((2, 3), np.float32)
SUM = np.array([[12, 22, 32]] * 2, np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / "cache"))
    return build_adder()


@pytest.fixture
def calls(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The public surface replaced: what each of its functions was called with."""
    seen: dict[str, Any] = {}

    def load(source: Any) -> Graph:
        seen["load"] = source
        return Graph("graph")

    def optimize(graph: Graph, level: str, set_dims: dict[str, int], **_: Any) -> Graph:
        seen["level"], seen["sizes"] = level, set_dims
        return Graph(f"better {graph.name}")

    def save(graph: Graph, path: str) -> None:
        seen["save"] = (graph.name, path)

    def compile(graph: Graph, options: infuse.CompileOptions) -> CompiledModel:
        seen["compile"] = (graph.name, options.threads)
        return CompiledModel.load(folder, options.threads)

    (tmp_path / "net.onnx").touch()
    monkeypatch.chdir(tmp_path)
    for function in (load, optimize, save, compile):
        monkeypatch.setattr(infuse.api, function.__name__, function, raising=False)
    return seen


def test_compiled_folder_is_run(folder: Path) -> None:
    session = InferenceSession(folder, providers=["CPUExecutionProvider"])
    for names in (None, [], ["sum"]):
        (result,) = session.run(names, {"x": X, "y": X})
        np.testing.assert_array_equal(result, SUM)
    (first, second) = session.run(["sum", "sum"], {"x": X, "y": X}, None)
    np.testing.assert_array_equal(first, second)


def test_inputs_and_outputs_are_described(folder: Path) -> None:
    session = InferenceSession(str(folder))
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("x", "tensor(float)", ["batch", 3]),
        ("y", "tensor(float)", ["batch", 3]),
    ]
    assert [(o.name, o.type, o.shape) for o in session.get_outputs()] == [
        ("sum", "tensor(float)", ["batch", 3])
    ]
    assert session.get_overridable_initializers() == []
    assert session.get_modelmeta().graph_name == "adder"
    assert session.get_modelmeta().custom_metadata_map == {}
    assert session.get_providers() == get_available_providers() == ["CPUExecutionProvider"]
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    assert get_device() == "CPU"


def described_model(*, is_hosted: bool = False) -> bytes:
    """A model that says all that a file can say about itself."""
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    x, y, total = (info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y", "sum"))
    nodes = [helper.make_node("Add", ["x", "y"], ["sum"])]
    outputs = [total]
    if is_hosted:
        nodes.append(helper.make_node("SequenceConstruct", ["x", "sum"], ["both"]))
        outputs.append(
            helper.make_tensor_sequence_value_info("both", TensorProto.FLOAT, ["batch", 3])
        )
    graph = helper.make_graph(nodes, "adder", [x, y], outputs, doc_string="of the graph")
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
        producer_name="pytorch",
        producer_version="2.1",
        domain="ai.example",
        model_version=7,
        doc_string="of the model",
    )
    helper.set_model_props(model, {"names": "{0: 'cat', 1: 'œuf \\n\"'}", "stride": "32"})
    return model.SerializeToString()


@pytest.mark.parametrize("is_hosted", [False, True])
def test_what_a_model_says_about_itself_is_that_of_onnxruntime(
    is_hosted: bool, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime"
    )
    content = described_model(is_hosted=is_hosted)
    (tmp_path / "model.onnx").write_bytes(content)
    infuse.compile(tmp_path / "model.onnx", output=tmp_path / "compiled").close()
    infuse.save(infuse.optimize(tmp_path / "model.onnx"), tmp_path / "model.infuse")
    expected = onnxruntime.InferenceSession(content).get_modelmeta()
    for source in (content, tmp_path / "compiled", tmp_path / "model.infuse"):
        meta = InferenceSession(source).get_modelmeta()
        for name in ("producer_name", "graph_name", "domain", "description", "version"):
            assert getattr(meta, name) == getattr(expected, name), (source, name)
        assert meta.graph_description == "of the graph"
        assert meta.custom_metadata_map == expected.custom_metadata_map


def test_same_description_as_onnxruntime(folder: Path) -> None:
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="onnxruntime is not installed: pip install onnxruntime"
    )
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    x, y, total = (info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y", "sum"))
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "y"], ["sum"])], "adder", [x, y], [total]
    )
    content = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    peer, ours = onnxruntime.InferenceSession(content), InferenceSession(folder)
    for question in ("get_inputs", "get_outputs"):
        theirs, mine = getattr(peer, question)(), getattr(ours, question)()
        assert [(a.name, a.type, a.shape) for a in mine] == [
            (a.name, a.type, a.shape) for a in theirs
        ]
    assert ours.get_modelmeta().graph_name == peer.get_modelmeta().graph_name
    for ours_enum, peer_enum in (
        (GraphOptimizationLevel, onnxruntime.GraphOptimizationLevel),
        (ExecutionMode, onnxruntime.ExecutionMode),
    ):
        for item in ours_enum:
            assert int(getattr(peer_enum, item.name)) == item.value


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (GraphOptimizationLevel.ORT_DISABLE_ALL, "none"),
        (GraphOptimizationLevel.ORT_ENABLE_BASIC, "basic"),
        (GraphOptimizationLevel.ORT_ENABLE_EXTENDED, "extended"),
        (GraphOptimizationLevel.ORT_ENABLE_LAYOUT, "all"),
        (99, "all"),
    ],
)
def test_model_is_loaded_optimized_and_compiled(
    level: Any, name: str, calls: dict[str, Any]
) -> None:
    options = SessionOptions(graph_optimization_level=level, intra_op_num_threads=3)
    session = InferenceSession("net.onnx", options)
    assert calls == {
        **{"load": "net.onnx", "level": name, "sizes": {}},
        "compile": ("better graph", 3),
    }
    assert session.get_session_options() is options
    np.testing.assert_array_equal(session.run(None, {"x": X, "y": X})[0], SUM)


def test_defaults_and_bytes(calls: dict[str, Any]) -> None:
    InferenceSession(b"content")
    assert calls["load"] == b"content"
    assert (calls["level"], calls["compile"]) == ("all", ("better graph", None))


def test_optimized_model_is_written(calls: dict[str, Any]) -> None:
    options = SessionOptions(optimized_model_filepath="better.onnx")
    InferenceSession("net.onnx", sess_options=options)
    assert calls["save"] == ("better graph", "better.onnx")


def test_unknown_level() -> None:
    with pytest.raises(OptionError, match=r"7 is not a valid.*ORT_ENABLE_ALL"):
        SessionOptions(graph_optimization_level=7)


def test_unknown_output(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no output 'total'\. Hint: its outputs are sum"):
        InferenceSession(folder).run(["total"], {"x": X, "y": X})


def test_other_providers_are_answered_with_a_warning(folder: Path) -> None:
    with pytest.warns(UserWarning, match="Specified provider 'CUDAExecutionProvider' is not"):
        InferenceSession(folder, providers=[("CUDAExecutionProvider", {"device_id": 0})])
