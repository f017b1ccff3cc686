"""Every operator of TensorFlow by itself, against what TensorFlow made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infuse
from infuse.frontends import tensorflow
from infuse.frontends.tensorflow.calls import TABLE
from infuse.frontends.tensorflow.messages import MESSAGES
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from tests.models.tensorflow_files import cases

FIXED = (
    *("Squeeze-all", "Dilation2D", "ExtractImagePatches", "FusedBatchNormV3-True"),
    *("Reshape", "Reshape-scalar", "Slice-computed", "BatchToSpaceND", "BatchToSpace"),
    *("MirrorPad-SYMMETRIC", "SparseSoftmaxCrossEntropyWithLogits"),
)
"""Cases whose operands have to be of known sizes, or whose first sizes differ."""
ACCURACY = {"IRFFT": 1e-5, "BlockLSTM": 1e-5, "ResizeBicubic": 5e-6, "tf.image": 5e-6}
"""Differences by the beginnings of names, where they are larger than elsewhere."""


def agree(graph: Graph, case: dict[str, Any], tolerance: float, special: bool = False) -> None:
    """All outputs are TensorFlow's, in type, shape and elements; special ones lie far apart, and
    each has the accuracy of its own size.
    """
    feeds = [case[f"in_{i}"] for i in range(sum(key.startswith("in_") for key in case))]
    names = {value.name for value in graph.inputs}
    given = {f"x{i}": feed for i, feed in enumerate(feeds) if f"x{i}" in names}
    made = evaluate(graph, given)
    expected = {key[4:]: array for key, array in case.items() if key.startswith("out_")}
    assert set(made) >= set(expected)
    for name, array in expected.items():
        ours = made[name]
        assert (ours.dtype, ours.shape) == (array.dtype, array.shape)
        scale = 0.0
        if array.dtype.kind in "fi" and not special:
            scale = np.abs(array[np.isfinite(array)]).max(initial=0)
        np.testing.assert_allclose(ours, array, rtol=tolerance, atol=tolerance * max(scale, 1e-3))


def tolerance(name: str) -> float:
    return max((a for prefix, a in ACCURACY.items() if name.startswith(prefix)), default=2e-6)


@pytest.mark.parametrize("name", list(cases("operators.npz")))
def test_operator(name: str) -> None:
    case = cases("operators.npz")[name]
    agree(infuse.load(case["graph"].tobytes()), case, tolerance(name))


@pytest.mark.parametrize("name", list(cases("special.npz")))
def test_special_values(name: str) -> None:
    """NaN, infinities, zeros of both signs, limits of integers, axes of no or one element."""
    case = cases("special.npz")[name]
    agree(infuse.load(case["graph"].tobytes()), case, 3e-6, special=True)


@pytest.mark.parametrize("name", [n for n in cases("operators.npz") if n not in FIXED])
def test_operator_of_a_batch_that_is_not_fixed(name: str) -> None:
    case = cases("operators.npz")[name]
    message = MESSAGES["Graph"].FromString(case["graph"].tobytes())
    open_ = 0
    for node in message.node:
        dims = node.attr["shape"].shape.dim if node.op == "Placeholder" else ()
        if len(dims) > 1:
            dims[0].size = -1
            open_ += 1
    if not open_:
        return
    firsts = {case[f"in_{i}"].shape[0] for i in range(len(case)) if f"in_{i}" in case
              and case[f"in_{i}"].ndim > 1}  # fmt: skip
    if len(firsts) > 1:
        return
    graph = tensorflow.load_graph(memoryview(message.SerializeToString()), name)
    agree(graph, case, tolerance(name))


@pytest.mark.parametrize("name", list(cases("flows.npz")))
def test_control_flow_of_both_generations(name: str) -> None:
    case = cases("flows.npz")[name]
    agree(infuse.load(case["graph"].tobytes()), case, 2e-6)


def test_operators_are_many_and_most_of_them_are_tested() -> None:
    tested: set[str] = set()
    for case in cases("operators.npz").values():
        message = MESSAGES["Graph"].FromString(case["graph"].tobytes())
        tested |= {node.op for node in message.node}
    assert len(tested & set(TABLE)) >= 200
