"""The yardstick itself: inputs are the same everywhere, and a wrong answer is seen."""

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks import compare
from benchmarks.inputs import make_inputs, parse_dims
from benchmarks.measure import Timing, difference
from benchmarks.worker import ROOT
from benchmarks.zoo import Row, is_good, precision_of, summarize


@pytest.fixture
def text_model(tmp_path: Path) -> Path:
    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "seq"])

    inputs = [value(name) for name in ("input_ids", "attention_mask", "token_type_ids")]
    node = helper.make_node("Max", [v.name for v in inputs], ["y"])
    path = tmp_path / "text.onnx"
    onnx.save(helper.make_model(helper.make_graph([node], "text", inputs, [value("y")])), path)
    return path


def test_inputs_are_seeded_and_sensible(text_model: Path) -> None:
    inputs = make_inputs(text_model, {"batch": 2, "seq": 5})
    again = make_inputs(text_model, {"batch": 2, "seq": 5})
    assert all(np.array_equal(inputs[name], again[name]) for name in inputs)
    assert {array.shape for array in inputs.values()} == {(2, 5)}
    assert 0 <= inputs["input_ids"].min() < inputs["input_ids"].max() < 1000
    assert (inputs["attention_mask"] == 1).all()
    assert (inputs["token_type_ids"] == 0).all()


def test_a_dimension_without_a_size_is_refused(text_model: Path) -> None:
    with pytest.raises(
        ValueError, match=r"input_ids: no size for dimension 'seq'; give it with --dims seq=N"
    ):
        make_inputs(text_model, {"batch": 2})


def test_sizes_are_parsed_over_the_defaults() -> None:
    assert parse_dims("seq=77,w=3") == {"batch": 1, "seq": 77, "w": 3}


@pytest.mark.parametrize(
    ("ours", "reference", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 3.0], [1.0, 4.0], 0.25),
        ([1.0, 2.0], [1.0, 2.0, 3.0], math.inf),
        ([1.0, np.nan], [1.0, 2.0], math.inf),
        ([1.0, -np.inf], [1.0, -np.inf], 0.0),
        ([1.0, np.inf], [1.0, -np.inf], math.inf),
        ([1.0, np.inf], [1.0, np.nan], math.inf),
        ([0.5, 0.0], [0.0, 0.0], 0.5),
    ],
)
def test_difference_is_relative_to_the_largest(
    ours: list[float], reference: list[float], expected: float
) -> None:
    assert difference({"y": np.array(ours)}, {"y": np.array(reference)}) == expected


def test_difference_is_that_of_the_worst_output() -> None:
    one = np.ones(2)
    assert difference({"a": one, "b": one}, {"a": one, "b": 2 * one}) == 0.5
    assert difference({"a": one}, {"b": one}) == math.inf


def test_a_model_that_failed_or_is_wrong_is_not_good() -> None:
    assert is_good(Row("m", 1, difference=1e-6), 1e-4)
    assert not is_good(Row("m", 1, difference=1e-3), 1e-4)
    assert not is_good(Row("m", 1), 1e-4)
    assert not is_good(Row("m", 1, difference=0.0, errors={"infuse": "it failed"}), 1e-4)


def test_peers_run_in_fp32_where_halves_are_how_we_store() -> None:
    assert precision_of("infuse", "fp16") == "fp16"
    assert precision_of("openvino", "fp16") == precision_of("onnxruntime", "fp16") == "fp32"
    assert precision_of("openvino", "bf16") == "bf16"
    assert precision_of("onnxruntime", "bf16") == "fp32"


def test_summary_leaves_out_what_was_not_measured() -> None:
    def row(threads: int, ours: float, peer: float) -> Row:
        return Row(
            "m", threads, {"infuse": Timing.of([ours]), "onnxruntime": Timing.of([peer, 2 * peer])}
        )

    rows = [row(1, 1.0, 4.0), row(1, 1.0, 1.0), row(2, 2.0, 1.0), Row("failed", 1)]
    assert summarize(rows, ["onnxruntime"]) == {
        "onnxruntime, 1 threads": {"geomean": pytest.approx(2.0), "worst": 1.0, "models": 2},
        "onnxruntime, 2 threads": {"geomean": 0.5, "worst": 0.5, "models": 1},
    }


def test_the_best_peer_is_another_one_for_each_model() -> None:
    rows = [
        Row(
            "a",
            1,
            {"infuse": Timing(1.0, 1.0, 1), "x": Timing(2.0, 2.0, 1), "y": Timing(3.0, 3.0, 1)},
        ),
        Row(
            "b",
            1,
            {"infuse": Timing(1.0, 1.0, 1), "x": Timing(9.0, 9.0, 1), "y": Timing(0.5, 0.5, 1)},
        ),
        Row("c", 1, {"infuse": Timing(1.0, 1.0, 1), "y": Timing(8.0, 8.0, 1)}),
    ]
    best = summarize(rows, ["x", "y"])["the best, 1 threads"]
    assert best == {"geomean": pytest.approx(2.0), "worst": 0.5, "models": 3}


def test_a_checkout_is_compared_with_itself(
    text_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["--zoo", str(text_model.parent), "--threads", "1", "--rounds", "1", "--seconds", "0"]
    result = tmp_path / "result.json"
    assert compare.main([str(ROOT), str(ROOT), *chosen, "--json", str(result)]) == 0
    (row,) = json.loads(result.read_text())["rows"]
    assert row["difference"] == 0.0
    assert row["ratios"]["nodes"] == 1.0
    assert set(row["ratios"]) == set(compare.RATIOS)
    assert "geomean" in capsys.readouterr().out


def test_what_is_no_checkout_is_refused() -> None:
    with (
        pytest.raises(SystemExit, match="neither a folder nor a commit"),
        compare.checkout("no such commit"),
    ):
        pass
