"""The module as a whole: its names, providers, what has no effect, what is refused, errors."""

import importlib
import inspect
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

import infuse.onnxruntime as ours
from infuse.errors import CompileError, InfuseError, InputError, ModelFileError, OptionError
from infuse.onnxruntime import OptionWarning
from infuse.onnxruntime.errors import (
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    NotImplemented,
    translated,
)
from infuse.onnxruntime.notices import forget_notices
from infuse.onnxruntime.pool import pool_threads
from tests.native.ort_fixtures import onnxruntime, ort, session_of
from tests.native.session_models import ADDER, FEED, X, Y

__all__ = ["ort"]

pytestmark = pytest.mark.row("R9")

ROOT = Path(__file__).resolve().parents[2]
UNAVAILABLE_PROVIDER = "Specified provider 'CUDAExecutionProvider' is not in available"


@pytest.fixture(autouse=True)
def own_notices() -> Iterator[None]:
    """Every test is told of what has no effect, as a new process is."""
    forget_notices()
    yield
    ours.set_default_logger_severity(2)
    ours.set_global_thread_pool_sizes(0)


# -- names -----------------------------------------------------------------------------------------

SUBMODULES = (
    *("", ".capi", ".capi.onnxruntime_pybind11_state", ".capi._pybind_state"),
    *(".capi.onnxruntime_inference_collection", ".quantization"),
    ".transformers.io_binding_helper",
)
ABSENT = {
    *("import_capi_exception", "onnxruntime_validation", "contextlib"),
    *("make_get_initializer_location_func_wrapper", "check_and_normalize_provider_args"),
    *("GetInitializerLocationFunc", "GetInitializerLocationWrapperFunc"),
    *("get_ort_device_type", "get_vendor_id_for_device_type"),
}
"""Names that onnxruntime's modules happen to have."""


def test_the_release_that_is_claimed_is_the_one_that_tests_compare_with() -> None:
    root = Path(__file__).parents[2]
    pinned = re.search(
        r"^onnxruntime==([\d.]+)", (root / "constraints.txt").read_text("utf-8"), re.MULTILINE
    )
    assert pinned is not None
    assert pinned[1] == ours.__version__
    release = ".".join(ours.__version__.split(".")[:2])
    page = (root / "docs" / "migration" / "onnxruntime.md").read_text("utf-8")
    assert f"Python interface of ONNX Runtime {release}." in page


def test_every_public_name_of_onnxruntime_is_there() -> None:
    missing = {n for n in dir(onnxruntime) if not n.startswith("_")} - {*dir(ours)} - ABSENT
    assert missing <= {"backend", "capi", "quantization", "transformers"}  # found by __getattr__
    assert ours.capi.__name__ == "infuse.onnxruntime.capi"
    with pytest.raises(AttributeError, match="no attribute 'InferenceSesion'"):
        _ = ours.InferenceSesion


@pytest.mark.parametrize(
    "name", ["InferenceSession", "IOBinding", "OrtValue", "OrtDevice", "NodeArg", "ModelMetadata"]
)
def test_every_method_of_onnxruntime_is_there(name: str) -> None:
    theirs, mine = getattr(onnxruntime, name), getattr(ours, name)
    missing = {n for n in dir(theirs) if not n.startswith("_")} - {*dir(mine)}
    fields = {*getattr(mine, "__dataclass_fields__", ())}
    assert not missing - fields


@pytest.mark.parametrize("name", ["InferenceSession", "IOBinding", "OrtValue", "OrtDevice"])
def test_methods_have_the_arguments_of_onnxruntime(name: str) -> None:
    theirs, mine = getattr(onnxruntime, name), getattr(ours, name)
    for method in (n for n in dir(theirs) if not n.startswith("_")):
        expected, own = (
            [*inspect.signature(getattr(kind, method)).parameters] for kind in (theirs, mine)
        )
        assert own[: len(expected)] == expected, method


@pytest.mark.filterwarnings("ignore:onnx.version is deprecated")
def test_a_model_is_prepared_as_a_backend_of_onnx(ort: ModuleType) -> None:
    backend = importlib.import_module(f"{ort.__name__}.backend")
    for model in (ADDER, onnx.load_from_string(ADDER), session_of(ort)):
        total, product = backend.prepare(model).run([X, Y])
        np.testing.assert_array_equal(total, X + Y)
        np.testing.assert_array_equal(product, X * Y)
    np.testing.assert_array_equal(backend.run(ADDER, [X, Y])[0], X + Y)
    assert [backend.supports_device(name) for name in ("CPU", "CUDA")] == [True, False]
    with pytest.raises(RuntimeError):
        backend.prepare(ADDER, "CUDA")
    with pytest.raises(RuntimeError):
        backend.prepare(ADDER).run(X)


def test_errors_are_found_where_code_looks_for_them(ort: ModuleType) -> None:
    state = importlib.import_module(f"{ort.__name__}.capi.onnxruntime_pybind11_state")
    other = importlib.import_module(f"{ort.__name__}.capi._pybind_state")
    names = """
        Fail InvalidArgument NoSuchFile NoModel EngineError RuntimeException InvalidProtobuf
        ModelLoaded NotImplemented InvalidGraph EPFail ModelLoadCanceled ModelRequiresCompilation
        NotFound DeviceReset
    """
    for name in names.split():
        assert issubclass(getattr(state, name), Exception)
        assert getattr(other, name) is getattr(state, name)
    assert ort.capi.onnxruntime_pybind11_state is state
    collection = importlib.import_module(f"{ort.__name__}.capi.onnxruntime_inference_collection")
    assert collection.InferenceSession is ort.InferenceSession


def test_functions_of_the_module(ort: ModuleType) -> None:
    assert ort.get_version_string() == ort.__version__ == ort.version
    assert isinstance(ort.get_build_info(), str)
    assert "CPUExecutionProvider" in ort.get_available_providers()
    assert ort.get_all_providers()[-1] == "CPUExecutionProvider"
    assert {*ort.get_available_providers()} <= {*ort.get_all_providers()}
    assert ort.has_collective_ops() is False
    ort.disable_telemetry_events()
    ort.set_default_logger_severity(3)
    with pytest.raises(RuntimeError):
        ort.set_default_logger_severity(9)
    ort.set_default_logger_severity(2)


def test_types_are_translated(ort: ModuleType) -> None:
    module = importlib.import_module(f"{ort.__name__}.transformers.io_binding_helper")
    helper, session = module.TypeHelper, session_of(ort)
    assert helper.get_input_type(session, "x") == "tensor(float)"
    assert helper.get_output_type(session, "sum") == "tensor(float)"
    for text, kind, number in (
        *(("tensor(float)", np.float32, 1), ("tensor(int64)", np.int64, 7)),
        *(("tensor(float16)", np.float16, 10), ("tensor(bool)", bool, 9)),
    ):
        assert np.dtype(helper.ort_type_to_numpy_type(text)) == np.dtype(kind)
        assert helper.ort_type_to_onnx_type(text) == number
    assert {*helper.get_io_numpy_type_map(session).values()} == {np.float32}
    with pytest.raises(Exception, match="no_such_type"):
        helper.ort_type_to_numpy_type("no_such_type")


# -- providers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "providers",
    [
        ["CUDAExecutionProvider"],
        ["CUDAExecutionProvider", "CPUExecutionProvider"],
        [("CUDAExecutionProvider", {"device_id": "0"}), "CPUExecutionProvider"],
    ],
)
def test_a_provider_that_is_not_there_is_answered_with_a_warning(
    ort: ModuleType, providers: Any
) -> None:
    with pytest.warns(UserWarning, match=UNAVAILABLE_PROVIDER) as caught:
        session = ort.InferenceSession(ADDER, providers=providers)
    assert ort is onnxruntime or [warning.filename for warning in caught] == [__file__]
    assert session.get_providers() == ["CPUExecutionProvider"]
    np.testing.assert_array_equal(session.run(["sum"], FEED)[0], X + Y)


def test_a_provider_that_is_named_twice_is_answered_with_a_warning(ort: ModuleType) -> None:
    with pytest.warns(UserWarning, match="Duplicate provider"):
        ort.InferenceSession(ADDER, providers=["CPUExecutionProvider"] * 2)


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_providers_are_set(ort: ModuleType) -> None:
    session = session_of(ort)
    session.set_providers(["CPUExecutionProvider"], [{}])
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(RuntimeError):
        session.set_providers(["NoSuchProvider"])


@pytest.mark.parametrize(
    ("providers", "options", "kind"),
    [
        ("CPUExecutionProvider", None, TypeError),
        ([3], None, TypeError),
        (["CPUExecutionProvider"], [{}, {}], OptionError),
        ([("CPUExecutionProvider", {"a": "b"})], [{}], OptionError),
    ],
)
def test_providers_that_are_no_list_of_names_are_errors(
    providers: Any, options: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        ours.InferenceSession(ADDER, providers=providers, provider_options=options)


# -- without effect --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("enable_mem_pattern", False), ("execution_mode", ours.ExecutionMode.ORT_PARALLEL)),
        *(("inter_op_num_threads", 4), ("use_deterministic_compute", True), ("logid", "mine")),
    ],
)
def test_an_option_without_effect_warns_once(name: str, value: Any) -> None:
    options = ours.SessionOptions(**{name: value})
    with pytest.warns(OptionWarning, match=f"SessionOptions.{name} has no effect") as caught:
        ours.InferenceSession(ADDER, options)
    assert [warning.filename for warning in caught] == [__file__]
    ours.InferenceSession(ADDER, options)  # a second warning would be an error


def test_options_that_ask_for_what_is_so_anyway_do_not_warn() -> None:
    options = ours.SessionOptions(inter_op_num_threads=1, enable_mem_pattern=True)
    ours.InferenceSession(ADDER, options)


@pytest.mark.parametrize("is_global", [True, False])
def test_warnings_are_silenced_by_the_level_of_severity(is_global: bool) -> None:
    options = ours.SessionOptions(enable_mem_pattern=False)
    if is_global:
        ours.set_default_logger_severity(3)
    else:
        options.log_severity_level = 3
    ours.InferenceSession(ADDER, options)


def test_entries_and_arguments_without_effect_warn() -> None:
    options = ours.SessionOptions()
    options.add_session_config_entry("session.disable_prepacking", "1")
    with pytest.warns(OptionWarning, match="entry 'session.disable_prepacking' has no effect"):
        ours.InferenceSession(ADDER, options)
    with pytest.warns(OptionWarning, match="argument disabled_optimizers of Inference"):
        session = ours.InferenceSession(ADDER, disabled_optimizers=["ConstantFolding"])
    run = ours.RunOptions()
    run.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    with pytest.warns(OptionWarning, match="run entry 'memory.enable"):
        session.run(None, FEED, run)
    with pytest.warns(OptionWarning, match="set_seed has no effect"):
        ours.set_seed(3)
    with pytest.warns(OptionWarning, match="the option arena_extend_strategy of CPU"):
        ours.InferenceSession(
            ADDER, providers=[("CPUExecutionProvider", {"arena_extend_strategy": "x"})]
        )


def test_what_is_misspelt_is_an_error() -> None:
    with pytest.raises(TypeError, match="did you mean 'precision'"):
        ours.InferenceSession(ADDER, precison="bf16")
    with pytest.raises(OptionError, match=r"did you mean 'session\.disable_prepacking'"):
        ours.SessionOptions().add_session_config_entry("session.disable_prepaking", "1")
    with pytest.raises(TypeError, match="no option 'intra_op_threads'"):
        ours.SessionOptions(intra_op_threads=1)


def test_threads_of_the_process_are_those_of_sessions_that_share_them() -> None:
    ours.set_global_thread_pool_sizes(1)
    assert pool_threads() == 1
    shared = ours.SessionOptions(use_per_session_threads=False)
    assert ours.InferenceSession(ADDER, shared)._model.threads == 1
    with pytest.raises(OptionError, match="-1 threads"):
        ours.set_global_thread_pool_sizes(-1)


def test_the_options_of_onnxruntime_are_taken(ort: ModuleType) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_prepacking", "1")
    session = ours.InferenceSession(ADDER, options)
    taken = session.get_session_options()
    assert isinstance(taken, ours.SessionOptions)
    assert taken.graph_optimization_level is ours.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert taken.get_session_config_entry("session.disable_prepacking") == "1"
    assert session._model.threads == 1
    run = ort.RunOptions()
    run.terminate = True
    with pytest.raises(Fail):
        session.run(None, FEED, run)


# -- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: ours.SessionOptions().register_custom_ops_library("ops.so"), "extending.md"),
        (lambda: ours.SparseTensor(None), "dense"),
        (lambda: ours.SparseTensor.sparse_coo_from_numpy(), "dense"),
        (lambda: ours.ModelCompiler(ours.SessionOptions(), "m.onnx"), "infuse.compile"),
        (lambda: ours.LoraAdapter(), "merge"),
        (lambda: ours.AdapterFormat.read_adapter("a"), "merge"),
        (lambda: ours.RunOptions().add_active_adapter(None), "merge"),
        (lambda: ours.register_execution_provider_library("P", "p.so"), "CPU"),
        (lambda: ours.quantization.quantize_dynamic("a", "b"), "infuse compress"),
        (lambda: ours.quantization.CalibrationDataReader(), "infuse compress"),
        (lambda: ours.backend.OnnxRuntimeBackend.run_node(None, []), "model"),
        (lambda: session_of(ours).get_provider_graph_assignment_info(), "get_providers"),
    ],
)
def test_what_infuse_does_not_have_is_refused_with_what_to_do(call: Any, hint: str) -> None:
    with pytest.raises(NotImplemented, match=hint) as caught:
        call()
    assert isinstance(caught.value, OptionError)


# -- errors ----------------------------------------------------------------------------------------


def test_an_error_is_one_of_both() -> None:
    with pytest.raises(InvalidArgument) as caught:
        session_of(ours).run(None, FEED | {"x": X[0]})
    assert isinstance(caught.value, InputError)
    assert type(caught.value).__name__ == "InvalidArgument"
    assert str(caught.value).startswith("[INF-502] the input x has 1 axis instead of 2")
    with pytest.raises(ModelFileError, match="there is no such file") as missing:
        ours.InferenceSession("/no/such/model.onnx")
    assert type(missing.value).__name__ == "NoSuchFile"


def test_translated_errors_cross_process_borders() -> None:
    error = translated(CompileError("it broke", where="model", hint="wait"))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error) == "[INF-402] model: it broke. Hint: wait."
    assert isinstance(copy, Fail)
    assert isinstance(copy, CompileError)
    assert translated(copy) is copy
    plain = translated(InfuseError("it broke"))
    assert isinstance(plain, Fail)
    assert isinstance(translated(ModelFileError("it broke")), InvalidProtobuf)
