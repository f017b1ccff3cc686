"""The yardstick itself: inputs are the same everywhere, and a wrong answer is seen."""

import json
import math
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks import compare, figures_page
from benchmarks.engines import ENGINES, REFERENCE
from benchmarks.inputs import make_inputs, parse_dims, symbols
from benchmarks.measure import Timing, difference
from benchmarks.worker import ROOT
from benchmarks.zoo import Row, is_apart, is_good, parse, precision_of, summarize


@pytest.fixture
def text_model(tmp_path: Path) -> Path:
    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "seq"])

    inputs = [value(name) for name in ("input_ids", "attention_mask", "token_type_ids")]
    node = helper.make_node("Max", [v.name for v in inputs], ["y"])
    path = tmp_path / "text.onnx"
    onnx.save(helper.make_model(helper.make_graph([node], "text", inputs, [value("y")])), path)
    return path


def product(folder: Path) -> Path:
    """A product of fixed sizes, with weights."""
    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.standard_normal((64, 32), np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 32])
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = folder / "product.onnx"
    graph = helper.make_graph([node], "product", [x], [y], [weights])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
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


def test_symbolic_dimensions_are_told_by_name(text_model: Path) -> None:
    assert symbols(text_model) == {"batch", "seq"}


def test_a_fixed_batch_is_not_measured_as_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "seq"])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "seq"])
    node = helper.make_node("Relu", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "image", [value], [out]))
    onnx.save(model, tmp_path / "image.onnx")
    assert parse(["--zoo", str(tmp_path), "--dims", "seq=3"])[0].dims == {"batch": 1, "seq": 3}
    with pytest.raises(SystemExit):
        parse(["--zoo", str(tmp_path), "--dims", "batch=8"])
    assert "image: the batch is fixed" in capsys.readouterr().err


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


def test_a_peer_apart_is_never_the_best() -> None:
    times = {"infuse": Timing(1.0, 1.0, 1), "x": Timing(2.0, 2.0, 1), "y": Timing(3.0, 3.0, 1)}
    row = Row("a", 1, times, apart=["x"])
    assert (row.speed("x"), row.speed("y"), row.speed("the best")) == (2.0, 3.0, 3.0)
    assert Row("a", 1, times, apart=["x", "y"]).speed("the best") is None


def test_peers_of_fewer_bits_and_wrong_ones_are_apart() -> None:
    assert not is_apart(2e-4, {}, "fp32")
    assert not is_apart(2e-4, {"bits": 32}, "fp32")
    assert is_apart(2e-4, {"bits": 16}, "fp32")
    assert is_apart(2e-4, {"bits": 16}, "fp16")
    assert not is_apart(2e-2, {"bits": 16}, "bf16")
    assert is_apart(math.inf, {}, "fp32")


def test_the_page_names_the_best_of_its_equals_and_leaves_out_what_was_not_measured() -> None:
    def row(threads: int, peers: dict[str, float], apart: list[str]) -> dict[str, object]:
        times = {name: Timing(s, s, 1) for name, s in {"infuse": 0.5, **peers}.items()}
        made = Row("m", threads, times, difference=1e-7, bound=0.25, apart=apart)
        names = ("onnxruntime", "openvino-default", "tract", "the best")
        speeds = {name: made.speed(name) for name in names}
        return asdict(made) | {"speed": speeds, "share": made.share()}

    rows = [
        row(1, {"onnxruntime": 1.0, "openvino-default": 0.25, "tract": 2.0}, ["openvino-default"]),
        row(2, {"onnxruntime": 1.5, "openvino-default": 0.25}, ["openvino-default"]),
    ]
    versions = {"infuse": "1", "onnxruntime": "2", "openvino": "3", "tract": "4"}
    machine = {"processor": "p", "cores": 2, "versions": versions}
    results = {"rows": rows, "machine": machine, "dims": {"batch": 8}, "precision": "fp32"}
    page = figures_page.text(results, "source.json", "plot.svg")
    assert "batch 8" in page
    assert "infuse 1, onnxruntime 2, openvino 3, tract 4)" in page
    assert "| m | 500.00 | 1000.00 ONNX Runtime | 2.00× | 50% |" in page
    one, two = (line for line in page.splitlines() if line.startswith("* "))
    assert "4.00× (lowest 4.00×, 1 models) tract" in one
    assert "OpenVINO by default" in two
    assert "tract" not in two


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs openvino")
def test_openvino_computes_in_fp32_unless_its_own_choice_is_asked_for(tmp_path: Path) -> None:
    path = product(tmp_path)
    inputs = make_inputs(path, {})
    expected = ENGINES[REFERENCE](path, 1).answer(inputs)
    exact, default = (ENGINES[name](path, 1) for name in ("openvino", "openvino-default"))
    assert exact.facts["bits"] == 32
    assert default.facts["bits"] in (16, 32)
    assert difference(exact.answer(inputs), expected) < 1e-6
    tolerance = 1e-6 if default.facts["bits"] == 32 else 3e-2
    assert difference(default.answer(inputs), expected) < tolerance


@pytest.mark.skipif(find_spec("tract") is None, reason="needs tract")
def test_tract_answers_in_one_thread_and_refuses_two(text_model: Path, tmp_path: Path) -> None:
    tokens = make_inputs(text_model, {"batch": 2, "seq": 5})
    answer = ENGINES["tract"](text_model, 1).answer(tokens)
    assert difference(answer, {"y": np.max(list(tokens.values()), axis=0)}) == 0
    path = product(tmp_path)
    inputs = make_inputs(path, {})
    answer = ENGINES["tract"](path, 1).answer(inputs)
    assert difference(answer, ENGINES[REFERENCE](path, 1).answer(inputs)) < 1e-6
    with pytest.raises(ValueError, match="one thread only"):
        ENGINES["tract"](text_model, 2)


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
