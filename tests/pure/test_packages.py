"""What `benchmarks.packages` asks of models that packages carry."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks.engines import REFERENCE
from benchmarks.packages import FIRST, RATE, TOLERANCE, Row, inputs_of, table
from benchmarks.zoo import OURS

pytestmark = pytest.mark.row("R1")


def row(**changes: Any) -> Row:
    times: dict[str, Any] = {
        "first": {OURS: 1.0, REFERENCE: 0.1},
        "best": {OURS: 0.5, REFERENCE: 1.0},
    }
    return Row("package", "model", 1, **{**times, "difference": 1e-6, **changes})


def test_a_model_is_good_where_it_keeps_every_bar() -> None:
    assert row().is_good
    assert row().speed == 2
    assert not row(difference=2 * TOLERANCE).is_good
    assert not row(difference=None).is_good
    assert not row(first={OURS: FIRST + 1, REFERENCE: 0.1}).is_good
    assert not row(best={OURS: 2.0, REFERENCE: 1.0}).is_good
    assert not row(best={REFERENCE: 1.0}).is_good
    assert not row(errors={OURS: "it failed"}).is_good
    assert table([row(), row(best={})]).row_count == 2


def test_inputs_have_the_sizes_and_kinds_that_the_model_wants(tmp_path: Path) -> None:
    values = [
        helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", "sequence"]),
        helper.make_tensor_value_info("sr", TensorProto.INT64, []),
        helper.make_tensor_value_info("input_ids", TensorProto.INT32, ["batch", "sequence"]),
    ]
    nodes = [helper.make_node("Identity", [v.name], [f"{v.name}_out"]) for v in values]
    outputs = [helper.make_empty_tensor_value_info(node.output[0]) for node in nodes]
    graph = helper.make_graph(nodes, "g", values, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, tmp_path / "silero_vad_test.onnx")
    feeds = inputs_of(tmp_path / "silero_vad_test.onnx")
    assert {name: (a.shape, a.dtype.name) for name, a in feeds.items()} == {
        "input": ((1, 576), "float32"),
        "sr": ((), "int64"),
        "input_ids": ((1, 128), "int32"),
    }
    assert feeds["sr"] == RATE
    np.testing.assert_array_equal(
        feeds["input"], inputs_of(tmp_path / "silero_vad_test.onnx")["input"]
    )
