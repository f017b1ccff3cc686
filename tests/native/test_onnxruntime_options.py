"""Options, profiles and runs that do not wait: on ONNX Runtime, the witness, and on Infuse."""

import json
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import OptionError
from infuse.onnxruntime import SessionOptions
from tests.native.ort_fixtures import onnxruntime, ort, quiet, session_of, state
from tests.native.session_models import ADDER, FEED, W, X, Y, adder, scaled

__all__ = ["ort"]

pytestmark = pytest.mark.row("R9")

DEFAULTS = {
    **{"intra_op_num_threads": 0, "inter_op_num_threads": 0, "log_severity_level": -1},
    **{"log_verbosity_level": 0, "logid": "", "optimized_model_filepath": ""},
    **{"enable_profiling": False, "profile_file_prefix": "onnxruntime_profile_"},
    **{"enable_mem_pattern": True, "enable_mem_reuse": True, "enable_cpu_mem_arena": True},
    **{"use_deterministic_compute": False, "use_per_session_threads": True},
}


def test_options_have_the_defaults_of_onnxruntime(ort: ModuleType) -> None:
    options = ort.SessionOptions()
    assert {name: getattr(options, name) for name in DEFAULTS} == DEFAULTS
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL
    assert options.execution_order == ort.ExecutionOrder.DEFAULT
    assert options.has_providers() is False
    run = ort.RunOptions()
    assert (run.terminate, run.only_execute_path_to_fetches) == (False, False)
    assert (run.log_severity_level, run.log_verbosity_level, run.logid) == (-1, 0, "")


def test_every_option_of_onnxruntime_is_there() -> None:
    for name in ("SessionOptions", "RunOptions"):
        theirs, ours = (getattr(module, name)() for module in (onnxruntime, infuse.onnxruntime))
        missing = {n for n in dir(theirs) if not n.startswith("_")} - {*dir(ours)}
        assert not missing


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("intra_op_num_threads", value) for value in ("4", 2.5, None)),
        *(("enable_profiling", value) for value in ("x", [])),
        *(("logid", 3), ("optimized_model_filepath", 3), ("log_severity_level", "2")),
        ("graph_optimization_level", "ORT_ENABLE_ALL"),
    ],
)
def test_a_value_of_another_type_is_a_type_error(ort: ModuleType, name: str, value: Any) -> None:
    options = ort.SessionOptions()
    before = getattr(options, name)
    with pytest.raises(TypeError):
        setattr(options, name, value)
    assert getattr(options, name) == before


def test_an_enumeration_is_not_another_one(ort: ModuleType) -> None:
    with pytest.raises(TypeError):
        ort.SessionOptions().graph_optimization_level = ort.ExecutionMode.ORT_PARALLEL


def test_a_misspelt_option_is_an_attribute_error(ort: ModuleType) -> None:
    with pytest.raises(AttributeError):
        ort.SessionOptions().intra_op_num_thread = 1
    with pytest.raises(AttributeError):
        ort.RunOptions().terminated = True


def test_entries_are_texts_by_name(ort: ModuleType) -> None:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "1"
    run = ort.RunOptions()
    run.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    assert run.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"
    with pytest.raises(RuntimeError):
        options.get_session_config_entry("session.other")
    with pytest.raises(RuntimeError):
        run.get_run_config_entry("other")
    with pytest.raises(RuntimeError):
        options.add_session_config_entry("", "1")
    with pytest.raises(TypeError):
        options.add_session_config_entry("session.disable_prepacking", 1)


@pytest.mark.parametrize("name", ["DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL"])
def test_results_are_the_same_at_every_level(ort: ModuleType, name: str) -> None:
    options = quiet(ort)
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{name}")
    options.intra_op_num_threads = 1
    np.testing.assert_array_equal(session_of(ort, ADDER, options).run(["sum"], FEED)[0], X + Y)


ENUMERATIONS = (
    *("GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder", "OrtAllocatorType"),
    *("OrtMemType", "OrtDeviceMemoryType", "OrtMemoryInfoDeviceType", "OrtHardwareDeviceType"),
    *("OrtSparseFormat", "OrtExecutionProviderDevicePolicy", "OrtCompileApiFlags"),
)


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_enumerations_are_those_of_onnxruntime(name: str) -> None:
    theirs, ours = (getattr(module, name) for module in (onnxruntime, infuse.onnxruntime))
    assert {n: int(m.value) for n, m in theirs.__members__.items()} == {
        n: int(m) for n, m in ours.__members__.items()
    }
    if name != "OrtCompileApiFlags":
        texts = {n: str(m) for n, m in theirs.__members__.items()}
        assert texts == {n: str(m) for n, m in ours.__members__.items()}


# -- sizes and initializers ------------------------------------------------------------------------


def test_a_size_is_fixed_by_name(ort: ModuleType) -> None:
    options = quiet(ort)
    options.add_free_dimension_override_by_name("batch", 2)
    options.add_free_dimension_override_by_name("no such size", 5)
    session = session_of(ort, ADDER, options)
    arguments = [*session.get_inputs(), *session.get_outputs()]
    assert [argument.shape for argument in arguments] == [[2, 3]] * 4
    np.testing.assert_array_equal(session.run(["sum"], FEED)[0], X + Y)
    with pytest.raises(state(ort).InvalidArgument):
        session.run(None, {"x": X[:1], "y": Y[:1]})


@pytest.mark.parametrize("name", ["batch", "batch size", ""])
def test_a_size_is_fixed_by_denotation(ort: ModuleType, name: str) -> None:
    model = adder([name or None, 3])
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = quiet(ort)
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    session = session_of(ort, model.SerializeToString(), options)
    assert [argument.shape for argument in session.get_inputs()] == [[2, 3]] * 2


def value_of(ort: ModuleType, array: Any) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(array)


def test_an_initializer_is_replaced(ort: ModuleType) -> None:
    options, value = quiet(ort), value_of(ort, W * 10)
    options.add_initializer("w", value)
    with pytest.raises(RuntimeError):
        options.add_initializer("w", value)
    with pytest.raises(RuntimeError):
        options.add_initializer("v", W)
    session = session_of(ort, scaled().SerializeToString(), options)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * W * 10)


def test_external_initializers_are_given(ort: ModuleType) -> None:
    options, values = quiet(ort), [value_of(ort, W * 10)]
    options.add_external_initializers(["w"], values)
    session = session_of(ort, scaled(location="w.bin").SerializeToString(), options)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * W * 10)
    with pytest.raises(RuntimeError):
        options.add_external_initializers(["w", "v"], values)


@pytest.mark.parametrize(("name", "location"), [("v", "w.bin"), ("w", "")])
def test_external_initializers_that_are_none_fail(
    ort: ModuleType, name: str, location: str
) -> None:
    options, values = quiet(ort), [value_of(ort, W)]
    options.add_external_initializers([name], values)
    with pytest.raises(state(ort).Fail):
        session_of(ort, scaled(location=location).SerializeToString(), options)


def test_files_of_initializers_are_given(ort: ModuleType) -> None:
    options, content = quiet(ort), (W * 10).tobytes()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [content], [len(content)])
    session = session_of(ort, scaled(location="w.bin").SerializeToString(), options)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * W * 10)


def test_the_folder_of_external_data_is_an_entry(ort: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes((W * 10).tobytes())
    options = quiet(ort)
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(tmp_path)
    )
    session = session_of(ort, scaled(location="w.bin").SerializeToString(), options)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * W * 10)


def test_the_optimized_model_is_written(ort: ModuleType, tmp_path: Path) -> None:
    options = quiet(ort)
    options.optimized_model_filepath = str(tmp_path / "better.onnx")
    session_of(ort, ADDER, options)
    written = session_of(ort, str(tmp_path / "better.onnx"))
    np.testing.assert_array_equal(written.run(["sum"], FEED)[0], X + Y)
    options.optimized_model_filepath = str(tmp_path / "no" / "folder" / "better.onnx")
    with pytest.raises(state(ort).InvalidArgument):
        session_of(ort, ADDER, options)


def test_loading_is_cancelled(ort: ModuleType) -> None:
    options = quiet(ort)
    options.set_load_cancellation_flag(True)
    with pytest.raises(state(ort).ModelLoadCanceled):
        session_of(ort, ADDER, options)


# -- runs that do not wait -------------------------------------------------------------------------


def awaited(session: Any, names: Any, feed: Any) -> tuple[Any, Any, str]:
    """What `run_async` calls back with."""
    told: list[Any] = []
    done = threading.Event()

    def callback(*arguments: Any) -> None:
        told.extend(arguments)
        done.set()

    session.run_async(names, feed, callback, {"request": 1})
    assert done.wait(30)
    outputs, data, error = told
    return outputs, data, error


def test_a_run_calls_back(ort: ModuleType) -> None:
    outputs, data, error = awaited(session_of(ort), ["sum"], FEED)
    np.testing.assert_array_equal(outputs[0], X + Y)
    assert (data, error) == ({"request": 1}, "")


@pytest.mark.parametrize(
    ("names", "feed"),
    [(["total"], FEED), (None, FEED | {"x": X.astype(np.float64)})],
    ids=["output", "type"],
)
def test_a_run_calls_back_with_the_error(ort: ModuleType, names: Any, feed: Any) -> None:
    outputs, data, error = awaited(session_of(ort), names, feed)
    assert (outputs, data) == ([], {"request": 1})
    assert isinstance(error, str)
    assert error


# -- profiling -------------------------------------------------------------------------------------


def test_a_profile_is_a_trace_of_runs_and_their_nodes(ort: ModuleType, tmp_path: Path) -> None:
    options = quiet(ort)
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    session = session_of(ort, ADDER, options)
    for _ in range(2):
        session.run(None, FEED)
    assert session.get_profiling_start_time_ns() > 1e18
    file = session.end_profiling()
    assert file.startswith(str(tmp_path / "trace_"))
    assert file.endswith(".json")
    assert session.end_profiling() == ""
    assert list(tmp_path.iterdir()) == [Path(file)]
    events = json.loads(Path(file).read_text("utf-8"))
    assert all({"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"} <= {*e} for e in events)
    assert [e["name"] for e in events].count("model_run") == 2
    nodes = [e for e in events if e["cat"] == "Node"]
    assert sorted(e["args"]["op_name"] for e in nodes) == ["Add", "Add", "Mul", "Mul"]
    assert {e["args"]["provider"] for e in nodes} == {"CPUExecutionProvider"}
    assert all(e["name"].endswith("_kernel_time") for e in nodes)
    np.testing.assert_array_equal(session.run(["sum"], FEED)[0], X + Y)


def test_without_profiling_there_is_no_trace(ort: ModuleType) -> None:
    session = session_of(ort)
    assert session.end_profiling() == ""
    assert session.get_profiling_start_time_ns() == 0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("log_severity_level", 9, "log_severity_level cannot be 9"),
        ("intra_op_num_threads", True, "intra_op_num_threads cannot be True"),
    ],
)
def test_values_that_an_option_cannot_have_are_refused(name: str, value: int, said: str) -> None:
    """Those of Infuse: ONNX Runtime takes any number, and True as one."""
    with pytest.raises(OptionError, match=said):
        setattr(SessionOptions(), name, value)
