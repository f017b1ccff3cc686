"""Which opset a written model has, and what an opset cannot say."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import defs, helper

from infuse.errors import OptionError, UnsupportedOperatorError
from infuse.exporters.onnx import to_model
from infuse.exporters.onnx.lowering import LOWEST
from infuse.frontends.onnx import load
from infuse.ir.verify import verify
from tests.models.newer_forms import newer_form
from tests.models.onnx_tools import assert_close, checked, model, run

NEWEST = defs.onnx_opset_version()
RUNTIME_NEWEST = 26
pytestmark = [pytest.mark.row("C1"), pytest.mark.row("C6")]
node = helper.make_node


REFUSED = {
    "axes at run time": (
        model(
            [node("ReduceMax", ["x", "a"], ["y"])], {"x": [2, 3], "a": ("int64", [1])}, ["y"], 18
        ),
        17,
        18,
    ),
    "wrap": (
        model(
            [node("Pad", ["x", "p"], ["y"], mode="wrap")],
            {"x": [4]},
            ["y"],
            19,
            {"p": np.array([1, 1])},
        ),
        18,
        19,
    ),
    "antialias": (
        *(
            model(
                [node("Resize", ["x", "", "s"], ["y"], antialias=1, mode="linear")],
                {"x": [4]},
                ["y"],
                18,
                {"s": np.float32([0.5])},
            ),
        ),
        *(17, 18),
    ),
    "maximum": (
        *(
            model(
                [node("ScatterND", ["x", "i", "x"], ["y"], reduction="max")],
                {"x": [1]},
                ["y"],
                18,
                {"i": np.array([[0]])},
            ),
        ),
        *(17, 18),
    ),
    "uint8 sums": (
        model([node("Add", ["c", "c"], ["y"])], {}, ["y"], 14, {"c": np.array([1], np.uint8)}),
        13,
        14,
    ),
    "eight bits": (
        model([node("Cast", ["x"], ["y"], to=17, saturate=0)], {"x": [2]}, ["y"], 19),
        18,
        19,
    ),
    "zero": (
        model(
            [node("Reshape", ["x", "s"], ["y"], allowzero=1)],
            {"x": [0, 2]},
            ["y"],
            14,
            {"s": np.array([2, 0])},
        ),
        13,
        14,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_opset_lacks_is_refused_or_raises_the_opset(name: str) -> None:
    original, opset, needed = REFUSED[name]
    graph = load(original)
    with pytest.raises(
        UnsupportedOperatorError, match=f"cannot be written in opset {opset}"
    ) as caught:
        to_model(graph, opset)
    kind = original.graph.node[0].op_type
    assert f"{kind} node 'y'" in str(caught.value)
    assert f"opset {needed} may have it" in str(caught.value)
    graph.opsets[""] = opset
    assert checked(to_model(graph)).opset_import[0].version == needed
    verify(graph)


@pytest.mark.parametrize("opset", [12, NEWEST + 1, 0])
def test_opsets_that_are_not_written(opset: int) -> None:
    with pytest.raises(OptionError, match=f"{LOWEST} to {NEWEST}, not {opset}"):
        to_model(load(newer_form("gelu")), opset)


@pytest.mark.parametrize(("own", "expected"), [(7, 13), (13, 13), (17, 17), (21, 21), (None, 17)])
def test_the_models_own_opset_is_the_default(own: int | None, expected: int) -> None:
    graph = load(model([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], own or 9))
    if own is None:
        graph.opsets.clear()
    written = to_model(graph)
    assert written.opset_import[0].version == expected
    assert written.ir_version == {13: 7, 17: 8, 21: 10}[expected]


def test_a_raised_opset_is_said(caplog: pytest.LogCaptureFixture) -> None:
    to_model(load(model([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], 9)))
    assert "opset 13 in place of 9" in caplog.text
    caplog.clear()
    graph = load(REFUSED["wrap"][0])
    graph.opsets[""] = 18
    to_model(graph)
    assert "opset 19 in place of 18: Pad node 'y'" in caplog.text
    caplog.clear()
    to_model(load(newer_form("gelu")), 13)
    assert not caplog.text, "an opset that was asked for"


@pytest.mark.parametrize("opset", range(LOWEST, NEWEST + 1))
def test_the_runtime_reads_the_format(opset: int) -> None:
    proto = to_model(load(model([node("Abs", ["x"], ["y"])], {"x": [1]}, ["y"])), opset)
    if opset <= RUNTIME_NEWEST:
        assert_close(run(proto, {"x": np.float32([-1])}), [np.float32([1])])
    assert proto.ir_version <= 14
