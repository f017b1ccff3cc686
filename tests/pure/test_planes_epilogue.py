"""Convolutions of planes whose results are summed with what varies along lines alone."""

import numpy as np
import onnx.reference
import pytest

import infuse
from infuse.exporters.onnx import to_model
from infuse.ir.graph import Graph
from infuse.targets import Target
from infuse.testing.blocks import Block
from tests.support.lowered import run_lowered


def graph_of(channels: int, window: int) -> Graph:
    block = Block("planes", (1, channels, 28, 30))
    made = block.conv(block.input, channels, window)
    return block.end(block.add("Add", made, np.arange(30, dtype=np.float32)))


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize(("channels", "window"), [(1, 3), (3, 1), (3, 5), (12, 3)])
def test_a_number_for_each_column_is_added_in_native_code(
    target: str, channels: int, window: int
) -> None:
    graph = graph_of(channels, window)
    x = np.random.default_rng(0).normal(size=(1, channels, 28, 30)).astype(np.float32)
    run = run_lowered(infuse.optimize(graph), Target.resolve(target), {"x": x})
    expected = onnx.reference.ReferenceEvaluator(to_model(graph)).run(None, {"x": x})[0]
    assert np.allclose(run.outputs[graph.outputs[0].name], expected, rtol=1e-5, atol=1e-5)
    assert run.calls
