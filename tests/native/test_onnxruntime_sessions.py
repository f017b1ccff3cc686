"""Sessions: the same test holds on ONNX Runtime, which is the witness, and on Infuse."""

import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.native.ort_fixtures import ort, session_of, state
from tests.native.session_models import (
    ADDER,
    FEED,
    FLOAT,
    INT64,
    STRING,
    W,
    X,
    Y,
    adder,
    bytes_of,
    info,
    pair_of_tensors,
    scaled,
    unary,
)

__all__ = ["ort"]

pytestmark = pytest.mark.row("R9")


# -- loading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, Path, bytes])
def test_a_model_is_loaded_by_path_and_from_bytes(
    ort: ModuleType, kind: Any, tmp_path: Path
) -> None:
    (tmp_path / "model.onnx").write_bytes(ADDER)
    source = ADDER if kind is bytes else kind(tmp_path / "model.onnx")
    (total, product) = session_of(ort, source).run(None, FEED)
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(product, X * Y)


def test_external_data_lies_beside_the_model(ort: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(scaled(location="w.bin").SerializeToString())
    (tmp_path / "w.bin").write_bytes((W * 2).tobytes())
    (result,) = session_of(ort, str(tmp_path / "model.onnx")).run(None, {"x": X})
    np.testing.assert_array_equal(result, X * W * 2)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/no/such/model.onnx", "NoSuchFile"),
        (b"this is not a model", "InvalidProtobuf"),
        (b"", "InvalidArgument"),
        (ADDER[:-20], "InvalidProtobuf"),
    ],
)
def test_what_is_no_model_is_an_error_by_its_name(ort: ModuleType, source: Any, name: str) -> None:
    with pytest.raises(getattr(state(ort), name)):
        session_of(ort, source)


@pytest.mark.parametrize("source", [3, None, ["model.onnx"]])
def test_what_no_model_can_be_loaded_from_is_a_type_error(ort: ModuleType, source: Any) -> None:
    with pytest.raises(TypeError):
        session_of(ort, source)


BAD_GRAPHS = {
    "InvalidGraph": unary("NoSuchOperator"),
    "InvalidArgument": bytes_of(
        [helper.make_node("Relu", ["z"], ["y"])], [info("x", [2])], [info("y", [2])]
    ),
    "Fail": bytes_of(
        [helper.make_node("MatMul", ["x", "x"], ["y"])], [info("x", [2, 3])], [info("y", [2, 3])]
    ),
}


@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_a_graph_that_is_wrong_is_an_error_by_its_name(ort: ModuleType, name: str) -> None:
    with pytest.raises(getattr(state(ort), name)):
        session_of(ort, BAD_GRAPHS[name])


def test_two_producers_of_a_name_and_types_that_differ_are_errors(ort: ModuleType) -> None:
    relu = helper.make_node("Relu", ["x"], ["y"])
    twice = bytes_of([relu, relu], [info("x", [2])], [info("y", [2])])
    with pytest.raises(state(ort).Fail):
        session_of(ort, twice)
    both = bytes_of(
        [helper.make_node("And", ["x", "x"], ["y"])], [info("x", [2])], [info("y", [2])]
    )
    with pytest.raises(state(ort).InvalidGraph):
        session_of(ort, both)


def test_options_of_another_type_are_a_type_error(ort: ModuleType) -> None:
    with pytest.raises(TypeError):
        ort.InferenceSession(ADDER, {"intra_op_num_threads": 1})


# -- what a session says ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        (["batch", 3], ["batch", 3]),
        ([2, 3], [2, 3]),
        ([None, 3], [None, 3]),
        (["batch size", None], ["batch size", None]),
        (["", 3], [None, 3]),
        ([], []),
    ],
)
def test_inputs_and_outputs_have_the_names_and_sizes_of_the_file(
    ort: ModuleType, sizes: Any, shown: Any
) -> None:
    session = session_of(ort, unary("Relu", sizes=sizes))
    (source,), (result,) = session.get_inputs(), session.get_outputs()
    assert (source.name, source.type, source.shape) == ("x", "tensor(float)", shown)
    assert (result.name, result.type, result.shape) == ("y", "tensor(float)", shown)
    assert str(source) == f"NodeArg(name='x', type='tensor(float)', shape={shown})"
    with pytest.raises(AttributeError):
        source.name = "other"


@pytest.mark.parametrize(
    ("element", "text"),
    [
        (onnx.TensorProto.FLOAT16, "tensor(float16)"),
        (onnx.TensorProto.DOUBLE, "tensor(double)"),
        (onnx.TensorProto.INT64, "tensor(int64)"),
        (onnx.TensorProto.UINT8, "tensor(uint8)"),
        (onnx.TensorProto.BOOL, "tensor(bool)"),
        (onnx.TensorProto.STRING, "tensor(string)"),
    ],
)
def test_types_are_written_as_onnxruntime_writes_them(
    ort: ModuleType, element: int, text: str
) -> None:
    session = session_of(ort, unary("Identity", element))
    assert [session.get_inputs()[0].type, session.get_outputs()[0].type] == [text] * 2


def test_types_that_are_no_tensors(ort: ModuleType) -> None:
    maps = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
    node = helper.make_node("ZipMap", ["x"], ["m"], domain="ai.onnx.ml", classlabels_int64s=[5, 6])
    output = helper.make_value_info("m", helper.make_sequence_type_proto(maps))
    session = session_of(ort, bytes_of([node], [info("x", ["n", 2])], [output]))
    assert session.get_outputs()[0].type == "seq(map(int64,tensor(float)))"
    (rows,) = session.run(None, {"x": np.array([[1, 2]], np.float32)})
    assert rows == [{5: 1.0, 6: 2.0}]
    (output,) = session_of(ort, pair_of_tensors()).get_outputs()
    assert (output.type, output.shape) == ("seq(tensor(float))", [])


def test_what_a_model_says_about_itself(ort: ModuleType) -> None:
    model = adder()
    model.producer_name, model.domain, model.model_version = "tests", "ai.example", 7
    model.doc_string = "adds"
    helper.set_model_props(model, {"names": "{0: 'cat'}", "stride": "32"})
    meta = session_of(ort, model.SerializeToString()).get_modelmeta()
    assert (meta.producer_name, meta.domain, meta.version) == ("tests", "ai.example", 7)
    assert (meta.graph_name, meta.description) == ("small", "adds")
    assert meta.custom_metadata_map == {"names": "{0: 'cat'}", "stride": "32"}


def test_a_session_runs_on_the_processor(ort: ModuleType) -> None:
    session = session_of(ort)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    assert session.disable_fallback() is None
    assert session.enable_fallback() is None
    assert session.get_session_options().log_severity_level == 4


# -- runs ------------------------------------------------------------------------------------------


def test_outputs_come_in_the_order_that_is_asked_for(ort: ModuleType) -> None:
    session = session_of(ort)
    for names in (None, [], ["sum", "product"]):
        total, product = session.run(names, FEED)
        np.testing.assert_array_equal(total, X + Y)
        np.testing.assert_array_equal(product, X * Y)
    product, total, again = session.run(["product", "sum", "product"], FEED, ort.RunOptions())
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(product, again)
    (only,) = session.run(("sum",), FEED)
    np.testing.assert_array_equal(only, X + Y)


@pytest.mark.parametrize(
    "value",
    [np.asfortranarray(X), X.tolist(), np.repeat(X, 2, axis=1)[:, ::2], X[:0]],
    ids=["by columns", "list", "every second", "empty"],
)
def test_an_input_may_lie_anyhow(ort: ModuleType, value: Any) -> None:
    session = session_of(ort)
    other = Y[: len(value)]
    (total,) = session.run(["sum"], {"x": value, "y": other})
    assert total.dtype == np.float32
    np.testing.assert_array_equal(total, np.array(value, np.float32).reshape(-1, 3) + other)


def test_a_value_is_an_input_too(ort: ModuleType) -> None:
    feed = {"x": ort.OrtValue.ortvalue_from_numpy(X), "y": Y}
    np.testing.assert_array_equal(session_of(ort).run(["sum"], feed)[0], X + Y)


def test_texts_go_in_and_out(ort: ModuleType) -> None:
    session = session_of(ort, unary("Identity", STRING))
    for texts in (np.array(["ab", "ü"]), np.array(["ab", "ü"], object)):
        (result,) = session.run(None, {"x": texts})
        assert result.dtype == object
        assert result.tolist() == ["ab", "ü"]


@pytest.mark.parametrize("feed", [{}, {"x": X}, {"q": X, "y": Y}])
def test_inputs_that_are_missing_are_a_value_error(ort: ModuleType, feed: Any) -> None:
    session = session_of(ort)
    with pytest.raises(ValueError, match="missing"):
        session.run(None, feed)
    with pytest.raises(ValueError, match="missing"):
        session.run_async(None, feed, lambda *_: None, None)


BAD_FEEDS = {
    "unknown name": FEED | {"q": X},
    "float64": FEED | {"x": X.astype(np.float64)},
    "int64": FEED | {"x": X.astype(np.int64)},
    "rank": FEED | {"x": X[0]},
    "size": FEED | {"x": X[:, :2]},
    "objects": FEED | {"x": np.array([[None] * 3] * 2)},
}


@pytest.mark.parametrize("name", BAD_FEEDS)
def test_an_input_that_does_not_fit_is_an_invalid_argument(ort: ModuleType, name: str) -> None:
    with pytest.raises(state(ort).InvalidArgument):
        session_of(ort).run(None, BAD_FEEDS[name])


def test_an_output_that_is_not_there_is_an_invalid_argument(ort: ModuleType) -> None:
    with pytest.raises(state(ort).InvalidArgument, match="total"):
        session_of(ort).run(["total"], FEED)


@pytest.mark.parametrize("arguments", [("sum", FEED), (None, FEED, 3), (None, FEED, "options")])
def test_arguments_of_another_type_are_type_errors(ort: ModuleType, arguments: Any) -> None:
    with pytest.raises(TypeError):
        session_of(ort).run(*arguments)


def test_an_index_outside_is_an_invalid_argument(ort: ModuleType) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    inputs = [info("x", ["n"]), info("i", ["k"], INT64)]
    session = session_of(ort, bytes_of([node], inputs, [info("y", ["k"])]))
    with pytest.raises(state(ort).InvalidArgument):
        session.run(None, {"x": W, "i": np.array([7])})


def test_a_shape_that_cannot_be_fails(ort: ModuleType) -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    inputs = [info("x", ["n"]), info("s", [2], INT64)]
    session = session_of(ort, bytes_of([node], inputs, [info("y", ["a", "b"])]))
    with pytest.raises(state(ort).Fail):
        session.run(None, {"x": W, "s": np.array([7, 7])})


def test_a_run_that_is_to_end_fails(ort: ModuleType) -> None:
    options = ort.RunOptions()
    options.terminate = True
    session = session_of(ort)
    with pytest.raises(state(ort).Fail, match="terminate"):
        session.run(None, FEED, options)
    options.terminate = False
    assert len(session.run(None, FEED, options)) == 2


def test_an_initializer_that_is_an_input_may_be_left_out(ort: ModuleType) -> None:
    session = session_of(ort, scaled(is_input=True).SerializeToString())
    assert [i.name for i in session.get_inputs()] == ["x"]
    (optional,) = session.get_overridable_initializers()
    assert (optional.name, optional.type, optional.shape) == ("w", "tensor(float)", [3])
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * W)
    np.testing.assert_array_equal(session.run(None, {"x": X, "w": W + 1})[0], X * (W + 1))


def test_sessions_are_run_by_several_threads(ort: ModuleType) -> None:
    session, wrong = session_of(ort), []

    def work(number: int) -> None:
        for _ in range(20):
            (total,) = session.run(["sum"], {"x": X + number, "y": Y})
            if not np.array_equal(total, X + number + Y):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
