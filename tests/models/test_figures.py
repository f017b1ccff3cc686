"""The benchmarks of memory, accuracy, latency, long sequences and compile time, each on something
tiny.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks import accuracy, attention, compile_time, latency, memory
from benchmarks.engines import ENGINES, EXACT
from benchmarks.exact import Exact
from benchmarks.inputs import make_inputs, save_inputs
from benchmarks.latency import Spread
from benchmarks.process import Mapping, Memory


def small_net(path: Path) -> Path:
    """A convolution, both pools, erf, and a matrix product."""
    rng = np.random.default_rng(0)
    shapes = {"w": (16, 3, 3, 3), "b": (16,), "m": (16, 10)}
    held = [
        numpy_helper.from_array(rng.standard_normal(s, np.float32), name)
        for name, s in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node(
            "MaxPool", ["c"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
        ),
        helper.make_node("AveragePool", ["p"], ["q"], kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
        helper.make_node("Erf", ["q"], ["e"]),
        helper.make_node("ReduceMean", ["e"], ["r"], axes=[2, 3], keepdims=0),
        helper.make_node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 17, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 10])
    model = helper.make_model(
        helper.make_graph(nodes, "small", [x], [y], held),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, path)
    return path


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    folder = tmp_path / "zoo"
    folder.mkdir()
    small_net(folder / "small.onnx")
    return folder


def figures(main: Any, folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit status of a benchmark and what it writes as JSON."""
    file = folder / "figures.json"
    status = main([*arguments, "--json", str(file)])
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    assert found["machine"]["cores"] >= 1
    return status, found


def test_accuracy_is_that_of_single_precision(zoo: Path, tmp_path: Path) -> None:
    _, found = figures(accuracy.main, tmp_path, "--zoo", str(zoo))
    (row,) = found["rows"]
    assert not row["errors"]
    assert row["found"].keys() == {"infuse", "onnxruntime"}
    assert all(0 < error < 1e-5 for error in row["found"].values())
    assert row["ratio"] == row["found"]["infuse"] / row["found"]["onnxruntime"]


def test_the_witness_computes_in_double_precision(tmp_path: Path) -> None:
    path = small_net(tmp_path / "small.onnx")
    inputs = make_inputs(path, {"batch": 2})
    answer = Exact(path, 1).answer(inputs)["y"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert answer.dtype == np.float64
    np.testing.assert_allclose(answer, session.run(None, inputs)[0], rtol=1e-4, atol=1e-4)
    assert not np.array_equal(answer, answer.astype(np.float32))
    assert EXACT in ENGINES


def test_the_witness_gathers_from_a_part_of_the_other_axes(tmp_path: Path) -> None:
    at = np.array([[2, -1, 0]])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 5]) for name in "xy")
    node = helper.make_node("GatherElements", ["x", "at"], ["y"], axis=1)
    graph = helper.make_graph([node], "gather", [x], [y], [numpy_helper.from_array(at, "at")])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
        tmp_path / "gather.onnx",
    )
    given = np.arange(10, dtype=np.float32).reshape(2, 5)
    assert Exact(tmp_path / "gather.onnx", 1).answer({"x": given})["y"].tolist() == [
        [2.0, 4.0, 0.0]
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process holds (/proc)")
def test_memory_is_told_of_both_engines(zoo: Path, tmp_path: Path) -> None:
    _, found = figures(memory.main, tmp_path, "--zoo", str(zoo), "--threads", "1")
    (row,) = found["rows"]
    assert not row["errors"]
    assert row["memory"].keys() == {"infuse", "onnxruntime"}
    assert row["second_weights"]["private"] == 0
    assert 0 < row["weights"] < 1 << 20
    assert row["ratio"] > 0


def test_bars_of_memory() -> None:
    base = Memory(10, 10, 10, 10, 10)
    row = memory.Row(
        "m", 100, {"infuse": Memory(45, 0, 0, 0, 0), "onnxruntime": Memory(60, 0, 0, 0, 0)}
    )
    row.second_weights = Mapping(100, 10)
    assert row.ratio(base) == pytest.approx(0.7)
    assert row.is_good(base)
    row.second_weights = Mapping(100, 11)
    assert not row.is_good(base)


def test_latency_of_every_run_counts(zoo: Path, tmp_path: Path) -> None:
    _, found = figures(
        latency.main,
        tmp_path,
        "--zoo",
        str(zoo),
        "--models",
        "small",
        "--threads",
        "1",
        "--runs",
        "150",
    )
    (row,) = found["rows"]
    assert not row["errors"]
    for spread in row["spreads"].values():
        assert spread["runs"] == 200  # two turns
        assert 0 < spread["p50"] <= spread["p99"] <= spread["longest"]


def test_percentiles_and_bars_of_latency() -> None:
    spread = Spread.of([1.0] * 98 + [3.0] * 2)
    assert (spread.p50, spread.longest, spread.runs) == (1.0, 3.0, 100)
    assert spread.ratio == pytest.approx(3.0)
    steady, shaky = Spread(1.0, 1.2, 2.0, 1), Spread(1.0, 1.4, 2.0, 1)
    assert latency.Row("m", 1, {"infuse": steady, "onnxruntime": shaky}).is_good
    assert not latency.Row("m", 1, {"infuse": shaky, "onnxruntime": steady}).is_good
    assert not latency.Row("m", 1, {"infuse": spread}).is_good


def test_a_layer_on_long_sequences(tmp_path: Path) -> None:
    lengths = ["--lengths", "24,48,72", "--hidden", "48"]
    turns = ["--threads", "1", "--rounds", "1", "--seconds", "0", "--against", "onnxruntime"]
    _, found = figures(attention.main, tmp_path, *lengths, *turns)
    assert [row["length"] for row in found["rows"]] == [24, 48, 72]
    for row in found["rows"]:
        assert not row["errors"]
        assert row["differences"]["infuse"] < attention.TOLERANCE
        assert row["speed"] > 0
    assert found["growth"].keys() <= {"infuse", "onnxruntime"}


def test_growth_tells_linear_from_quadratic() -> None:
    assert attention.growth([(1, 1.0), (2, 2.0)]) is None
    assert attention.growth([(1, 8.0), (2, 13.0), (4, 23.0)]) == pytest.approx(1.0)
    assert attention.growth([(n, float(n * n)) for n in (1, 2, 4)]) == pytest.approx(2.0)


def test_compile_time_in_each_state_of_the_cache(zoo: Path, tmp_path: Path) -> None:
    status, found = figures(
        compile_time.main, tmp_path, "--zoo", str(zoo), "--models", "small", "--threads", "1"
    )
    states = found["seconds"]["small"]
    assert status == 0
    for state in compile_time.STATES:
        assert all(0 < states[state][kind] < math.inf for kind in ("total", compile_time.SESSION))


def test_a_model_that_is_not_there_is_refused(
    zoo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        accuracy.main(["--zoo", str(zoo), "--models", "large"])
    assert "no model large" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        accuracy.main(["--zoo", str(zoo), "--against", "nobody"])
    assert "no such engine: nobody" in capsys.readouterr().err


def test_inputs_are_kept_as_they_are_made(tmp_path: Path) -> None:
    path = small_net(tmp_path / "small.onnx")
    made = make_inputs(path, {"batch": 3})
    with np.load(save_inputs(path, {"batch": 3}, tmp_path / "inputs.npz")) as kept:
        assert made.keys() == set(kept)
        assert all(np.array_equal(made[name], kept[name]) for name in made)
