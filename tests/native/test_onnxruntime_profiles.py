"""Profiles of sessions, compiled models behind them, initializers that are wrong: Infuse alone."""

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import infuse
import infuse.onnxruntime as ort
from infuse.errors import InputError, OptionError
from infuse.onnxruntime import InferenceSession, SessionOptions
from infuse.onnxruntime.notices import forget_notices
from tests.native.session_models import (
    ADDER,
    FEED,
    FLOAT,
    W,
    X,
    Y,
    bytes_of,
    info,
    pair_of_tensors,
    scaled,
)

pytestmark = pytest.mark.row("R9")


@pytest.fixture(autouse=True)
def own_notices() -> None:
    forget_notices()


def profiled(tmp_path: Path) -> SessionOptions:
    return SessionOptions(
        enable_profiling=True, profile_file_prefix=str(tmp_path / "trace"), log_severity_level=3
    )


def events_of(session: InferenceSession) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    return events


def test_nodes_of_the_interpreter_are_in_the_trace(tmp_path: Path) -> None:
    session = InferenceSession(pair_of_tensors(), profiled(tmp_path))
    (pair,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(pair, [X, X])
    nodes = [event for event in events_of(session) if event["cat"] == "Node"]
    assert [node["args"]["op_name"] for node in nodes] == ["SequenceConstruct"]
    assert nodes[0]["args"]["kernel"] == "interpreter"


def test_fused_nodes_are_named_by_their_kernel(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        helper.make_node("Relu", ["p"], ["y"], "positive"),
    ]
    weight = helper.make_tensor("w", FLOAT, [3, 2], np.ones(6, np.float32))
    model = bytes_of(nodes, [info("x", ["n", 3])], [info("y", ["n", 2])], initializer=[weight])
    session = InferenceSession(model, profiled(tmp_path))
    session.run(None, {"x": X})
    (event,) = (event for event in events_of(session) if event["cat"] == "Node")
    assert event["name"] == "product_kernel_time"
    assert event["args"]["nodes"] == ["product", "positive"]


def test_runs_lie_inside_of_the_session_and_kernels_inside_of_runs(tmp_path: Path) -> None:
    session = InferenceSession(ADDER, profiled(tmp_path))
    session.run(None, FEED)
    spans: dict[str, list[tuple[int, int]]] = {}
    for event in events_of(session):
        span = (event["ts"], event["ts"] + event["dur"])
        spans.setdefault(event["cat"] if event["cat"] == "Node" else event["name"], []).append(span)
    ((begin, end),) = spans["model_run"]
    assert spans["session_initialization"][0][1] <= begin
    assert len(spans["Node"]) == 2
    assert all(begin <= first <= last <= end + 1 for first, last in spans["Node"])


def test_a_model_that_was_compiled_before_has_its_runs_in_the_trace(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(ADDER)
    infuse.compile(tmp_path / "model.onnx", output=tmp_path / "compiled").close()
    session = InferenceSession(tmp_path / "compiled", profiled(tmp_path))
    session.run(None, FEED)
    assert [event["name"] for event in events_of(session)] == [
        "session_initialization",
        "model_run",
    ]


@pytest.mark.parametrize("feed", [FEED | {"q": X}, FEED | {"x": X[0]}])
def test_inputs_are_checked_while_profiling(feed: Any, tmp_path: Path) -> None:
    session = InferenceSession(ADDER, profiled(tmp_path))
    with pytest.raises(InputError):
        session.run(None, feed)
    with pytest.raises(ValueError, match="missing"):
        session.run(None, {})
    assert "model_run" not in {event["name"] for event in events_of(session)}


def test_an_input_with_a_default_may_be_left_out_while_profiling(tmp_path: Path) -> None:
    session = InferenceSession(scaled(is_input=True).SerializeToString(), profiled(tmp_path))
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * W)


def test_a_profile_that_nobody_ends_is_written_with_the_session(tmp_path: Path) -> None:
    session = InferenceSession(ADDER, profiled(tmp_path))
    session.run(None, FEED)
    del session
    gc.collect()
    (file,) = tmp_path.iterdir()
    assert "model_run" in file.read_text("utf-8")


def test_a_profile_needs_a_folder(tmp_path: Path) -> None:
    options = profiled(tmp_path)
    options.profile_file_prefix = str(tmp_path / "no" / "folder" / "trace")
    with pytest.raises(OptionError, match="there is no folder"):
        InferenceSession(ADDER, options)


# -- compiled models -------------------------------------------------------------------------------


def test_a_compiled_model_says_what_its_file_says(tmp_path: Path) -> None:
    model = bytes_of(
        [helper.make_node("Relu", ["x"], ["y"])],
        [info("x", ["batch size", None, 3])],
        [info("y", [None, "width", 3])],
    )
    (tmp_path / "model.onnx").write_bytes(model)
    infuse.compile(tmp_path / "model.onnx", output=tmp_path / "compiled").close()
    sessions = [InferenceSession(source) for source in (model, tmp_path / "compiled")]
    shapes = [[a.shape for a in (*s.get_inputs(), *s.get_outputs())] for s in sessions]
    assert shapes == [[["batch size", None, 3], [None, "width", 3]]] * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda o: o.add_free_dimension_override_by_name("batch", 2),
        lambda o: o.add_free_dimension_override_by_denotation("DATA_BATCH", 2),
        lambda o: o.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(W)),
        lambda o: setattr(o, "optimized_model_filepath", "better.onnx"),
        lambda o: setattr(o, "precision", "bf16"),
    ],
    ids=["size", "denotation", "initializer", "file", "precision"],
)
def test_a_compiled_model_stays_as_it_is(change: Any, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(ADDER)
    infuse.compile(tmp_path / "model.onnx", output=tmp_path / "compiled").close()
    options = SessionOptions()
    change(options)
    with pytest.raises(OptionError, match="is compiled already"):
        InferenceSession(tmp_path / "compiled", options)


# -- initializers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [W.astype(np.float64), W[None], W[:2]])
def test_an_initializer_keeps_its_type_and_shape(value: Any) -> None:
    options = SessionOptions()
    options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(value))
    with pytest.raises(OptionError, match="the initializer 'w' has the shape"):
        InferenceSession(scaled().SerializeToString(), options)


def test_an_initializer_that_is_not_there() -> None:
    options = SessionOptions()
    options.add_initializer("v", ort.OrtValue.ortvalue_from_numpy(W))
    with pytest.raises(OptionError, match="no initializer 'v'"):
        InferenceSession(scaled().SerializeToString(), options)


def test_a_file_of_initializers_that_is_cut_off() -> None:
    options = SessionOptions()
    with pytest.raises(OptionError, match="has 4 bytes, and 12 are to be read"):
        options.add_external_initializers_from_files_in_memory(["w.bin"], [b"1234"], [12])
    options.add_external_initializers_from_files_in_memory(["w.bin"], [b"1234"], [4])
    with pytest.raises(OptionError, match="has 4 bytes, and the initializer 'w' ends at byte 12"):
        InferenceSession(scaled(location="w.bin").SerializeToString(), options)


def test_initializers_are_replaced_in_files_of_onnx_only(tmp_path: Path) -> None:
    infuse.save(infuse.load(ADDER), tmp_path / "model.infuse")
    options = SessionOptions()
    options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(W))
    with pytest.raises(OptionError, match="in ONNX models only"):
        InferenceSession(tmp_path / "model.infuse", options)


# -- subclasses ------------------------------------------------------------------------------------


def test_sessions_are_subclassed(tmp_path: Path) -> None:
    """As insightface does, whose sessions are made again from their path."""

    class Counted(InferenceSession):
        def __init__(self, path: str, **arguments: Any) -> None:
            super().__init__(path, **arguments)
            self.runs_done = 0

        def run(self, *arguments: Any, **named: Any) -> list[Any]:
            self.runs_done += 1
            return super().run(*arguments, **named)

    (tmp_path / "model.onnx").write_bytes(ADDER)
    session = Counted(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    assert session._model_path == str(tmp_path / "model.onnx")
    np.testing.assert_array_equal(session.run(["sum"], FEED)[0], X + Y)
    assert session.runs_done == 1
