"""Inputs that Infuse takes in any shape are written as ONNX asks for them, and Loops keep what
their bodies see.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import infuse
from infuse.exporters.onnx import to_model
from infuse.frontends.onnx import load
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import run, session

pytestmark = [pytest.mark.row("C1"), pytest.mark.row("C6")]
# `S` is the shape of what has one element.
CALLS = (
    "Clip(%x, float32[S]{-0.5}, float32[S]{0.5})",
    "ConstantOfShape(int64[S]{3})",
    "CumSum(%x, int64[S]{1})",
    "Dropout(%x, float32[S]{0.5})",
    "Expand(%v, int64[S]{4})",
    "OneHot(%i, int64[S]{5}, float32[2]{0.0, 1.0})",
    "Pad(%x, int64[2]{1, 1}, _, int64[S]{1})",
    "Range(int64[S]{0}, int64[S]{5}, int64[S]{1})",
    "ReduceMax(%x, int64[S]{0})",
    "ReduceSum(%x, int64[S]{0})",
    "Reshape(%x, int64[S]{12})",
    "Slice(%x, int64[S]{0}, int64[S]{2}, int64[S]{1}, int64[S]{1})",
    "Split(%x, int64[S]{3})",
    "Squeeze(%z, int64[S]{0})",
    "Tile(%v, int64[S]{2})",
    "TopK(%x, int64[S]{1})",
    "Trilu(%x, int64[S]{1})",
    "Unsqueeze(%x, int64[S]{0})",
)
FEEDS = {
    "x": np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32),
    "z": np.ones((1, 4), np.float32),
    "i": np.array([0, 1, 2]),
    "v": np.arange(4, dtype=np.float32),
    "s": np.array(1),
}


def given(graph: Graph, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the graph takes of the inputs."""
    return {v.name: feeds[v.name] for v in graph.inputs}


def assert_written(graph: Graph, feeds: dict[str, np.ndarray], proto: ModelProto) -> None:
    """ONNX Runtime gives of the written model what the interpreter gives."""
    names = [v.name for v in session(proto).get_inputs()]
    expected = evaluate(graph, given(graph, feeds))
    for result, wanted in zip(run(proto, {name: feeds[name] for name in names}), expected.values()):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("shape", ["", "1", "1, 1"])
@pytest.mark.parametrize("call", CALLS)
def test_one_element_is_written_in_the_shape_that_onnx_has(call: str, shape: str) -> None:
    text = call.replace("[S]", f"[{shape}]")
    head = 'graph "g" (%x: float32[3, 4], %z: float32[1, 4], %i: int64[3], %v: float32[4])'
    try:
        graph = parse(f"{head} {{\n  %y = {text}\n  return y = %y\n}}")
        evaluate(graph, given(graph, FEEDS))
    except infuse.errors.InfuseError:
        pytest.skip("Infuse refuses the shape, too")
    assert_written(graph, FEEDS, to_model(graph))


def test_computed_scalars_cut_in_onnxruntime() -> None:
    graph = parse(
        """graph "g" (%x: float32[3, 4], %s: int64[]) {
          %e = Add(%s, int64[]{2})
          %y = Slice(%x, %s, %e, int64[]{1})
          return y = %y
        }"""
    )
    for level in ("none", "all"):
        assert_written(graph, FEEDS, to_model(infuse.optimize(graph, level)))


def loop(
    trips: list[int], start: list[int], number: list[int] | None, going: list[int] | None
) -> ModelProto:
    """A loop that stacks the iteration number and the condition as its body sees them; the body
    declares these.
    """
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Identity", [a], [b]) for a, b in (("c", "co"), ("i", "io"), ("c", "cs"))
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [info("i", TensorProto.INT64, number), info("c", TensorProto.BOOL, going)],
        [onnx.ValueInfoProto(name=name) for name in ("co", "io", "cs")],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["m", "k"], ["y", "z"], body=body)],
        "g",
        [info("m", TensorProto.INT64, trips), info("k", TensorProto.BOOL, start)],
        [onnx.ValueInfoProto(name=name) for name in ("y", "z")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


@pytest.mark.parametrize(
    "declared", [*itertools.product(([], [1]), ([], [1]), ([], [1]), (None, [], [1]))], ids=str
)
def test_a_loop_shows_its_body_what_it_declares(declared: tuple[Any, ...]) -> None:
    proto = loop(*declared)
    feeds = {"m": np.full(declared[0], 3), "k": np.full(declared[1], True)}
    try:
        expected = run(proto, feeds)
    except Exception:
        pytest.skip("ONNX Runtime refuses the declaration")
    graph = load(proto)
    for result, wanted in zip(evaluate(graph, feeds).values(), expected):
        np.testing.assert_array_equal(result, wanted)
    for level in ("none", "all"):
        assert_written(graph, feeds, to_model(infuse.optimize(graph, level)))


@pytest.mark.parametrize("name", ["b", "inner"])
@pytest.mark.parametrize(
    "outputs", [["b", "values"], ["last"], ["values"], ["last", "values"]], ids=str
)
def test_names_of_a_body_may_hide_those_outside(name: str, outputs: list[str]) -> None:
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Add", ["a", name], ["sum"]),
        helper.make_node("Sub", ["a", name], ["less"]),
        helper.make_node("Greater", ["sum", "less"], ["on"]),
        helper.make_node("Add", ["less", "less"], ["twice"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [
            info("i", TensorProto.INT64, [1]),
            info("going", TensorProto.BOOL, [1]),
            info(name, TensorProto.FLOAT, [1]),
        ],
        [
            info("on", TensorProto.BOOL, [1]),
            *(info(n, TensorProto.FLOAT, [1]) for n in ("less", "twice")),
        ],
    )
    inputs = [info("m", TensorProto.INT64, [1]), info("k", TensorProto.BOOL, [1])]
    graph = helper.make_graph(
        [helper.make_node("Loop", ["m", "k", "b"], ["last", "values"], body=body)],
        "g",
        [*inputs, *(info(n, TensorProto.FLOAT, [1]) for n in ("a", "b"))],
        [
            onnx.ValueInfoProto(name=n) if n != "b" else info("b", TensorProto.FLOAT, [1])
            for n in outputs
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    feeds = {"m": np.array([10]), "k": np.array([True]), "a": np.float32([3]), "b": np.float32([6])}
    expected = run(proto, feeds)
    for level in ("none", "all"):
        result = run(to_model(infuse.optimize(load(proto), level)), feeds)
        for found, wanted in zip(result, expected):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_layers_tell_their_number_of_units(kind: str, gates: int) -> None:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((1, gates * 4, n)).astype(np.float32) for n in (5, 4)]
    head = f"%x: float32[3, 2, 5], %w: float32[1, {4 * gates}, 5], %r: float32[1, {4 * gates}, 4]"
    graph = parse(f'graph "g" ({head}) {{\n  %y = {kind}(%x, %w, %r)\n  return y = %y\n}}')
    feeds = {
        "x": rng.standard_normal((3, 2, 5)).astype(np.float32),
        "w": weights[0],
        "r": weights[1],
    }
    np.testing.assert_allclose(
        run(to_model(graph), feeds)[0], evaluate(graph, feeds)["y"], rtol=1e-4, atol=1e-5
    )
