"""The comparison of optimizers: it runs from end to end, counts every node, and sees what is lost
or wrong.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.optimizer import BASIC, EXTENDED, NEWEST, Result, Row, is_good, main, summarize
from benchmarks.optimizer_engines import OPTIMIZERS, count_nodes
from benchmarks.optimizer_worker import OptimizerError, ask


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A folder with one model: x·w + 0 through Identity, three nodes of which one does
    something.
    """
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    weights = numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    zero = numpy_helper.from_array(np.zeros((), np.float32), "zero")
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("MatMul", ["same", "w"], ["product"]),
        helper.make_node("Add", ["product", "zero"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "tiny", [x], [y], [weights, zero])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "tiny.onnx",
    )
    return tmp_path


def test_the_whole_comparison_runs(zoo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = ",".join((BASIC, EXTENDED, NEWEST, "onnxruntime basic"))
    figures = zoo / "figures.json"
    given = [
        "--zoo",
        str(zoo),
        "--tools",
        tools,
        "--rounds",
        "1",
        "--seconds",
        "0",
        "--json",
        str(figures),
    ]
    assert main([*given, "--runtime", "--turns", "1", "--turn", "0", "--threads", "1"]) == 0
    (row,) = json.loads(figures.read_text())["rows"]
    assert (row["nodes"], row["results"][BASIC]["nodes"]) == (3, 1)
    assert row["results"].keys() == {BASIC, EXTENDED, NEWEST, "onnxruntime basic"}
    assert all(result["difference"] == 0.0 for result in row["results"].values())
    assert row["runtime_speed"] > 0
    assert "tiny" in capsys.readouterr().out


def test_a_tool_that_fails_is_told(zoo: Path) -> None:
    with pytest.raises(OptimizerError, match="KeyError: 'no such tool'"):
        ask("optimize", "no such tool", zoo / "tiny.onnx", zoo / "result.onnx", 0)


def test_all_nodes_are_counted_but_constants() -> None:
    one = helper.make_node("Constant", [], ["one"], value_float=1.0)
    branch = helper.make_graph(
        [one, helper.make_node("Identity", ["one"], ["r"])], "branch", [], []
    )
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    call = helper.make_node("Twice", ["y"], ["z"], domain="own")
    twice = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Neg", ["a"], ["m"]), helper.make_node("Neg", ["m"], ["b"])],
        [],
    )
    model = helper.make_model(
        helper.make_graph([choice, call], "counted", [], []), functions=[twice]
    )
    assert count_nodes(model) == 5


def _row(ours: int, peer: int, seconds: float = 1.0, difference: float = 0.0) -> Row:
    made = {
        name: Result(ours, [seconds, 2 * seconds], difference) for name in (BASIC, EXTENDED, NEWEST)
    }
    peers = {name: Result(peer, [3.0], difference) for name in OPTIMIZERS if name not in made}
    return Row("m", 100, made | peers)


def test_a_lost_or_wrong_model_is_named() -> None:
    assert summarize([_row(50, 50)], 1e-4)["(a) not fewest"] == []
    lost = summarize([_row(51, 50, seconds=4.0, difference=1e-3)], 1e-4)
    assert (
        lost["(a) not fewest"] == lost["(b) not fewest"] == lost["slower"] == lost["wrong"] == ["m"]
    )


def test_time_is_compared_with_peers_that_come_near() -> None:
    assert _row(100, 105).speed() == (3.0, "onnxslim")
    assert _row(100, 106).speed() is None


def test_a_result_that_failed_or_does_not_run_is_not_good() -> None:
    row = _row(50, 50)
    assert is_good(row, 1e-4)
    row.results[BASIC].difference = None
    assert not is_good(row, 1e-4)
    assert not is_good(Row("m", 1, errors={NEWEST: "it failed"}), 1e-4)
