"""What users of ONNX Runtime have reported, each rebuilt as a small model (`peer_reports`)."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import infuse
from infuse.exporters.onnx import to_model
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import assert_close, run
from tests.models.peer_reports import LEVELS, agree, floats, kinds, parsed

pytestmark = pytest.mark.row("G39")


def test_onnxruntime_29788_folded_views_outlive_what_they_view() -> None:
    """onnxruntime 29788: a folded Reshape pointed to memory of a weight that was gone, results were
    random.
    """
    model = parsed(
        """g (float[n, 6] x) => (y) {
          a = Reshape (w, s1)
          b = Transpose <perm = [1, 0]> (a)
          c = Squeeze (v, ax)
          m = MatMul (x, b)
          y = Add (m, c)
        }""",
        constants={
            "w": floats(4, 3, 2),
            "s1": np.int64([4, 6]),
            "v": floats(1, 4),
            "ax": np.int64([0]),
        },
    )
    feeds = {"x": floats(2, 6)}
    expected = run(model, feeds)
    graph = infuse.optimize(infuse.load(model.SerializeToString()))
    gc.collect()
    filler = [np.full((4, 3, 2), np.nan, np.float32) for _ in range(100)]
    assert_close(list(evaluate(graph, feeds).values()), expected)
    assert_close(run(to_model(graph), feeds), expected)
    assert len(filler) == 100


def test_onnxruntime_8422_weights_in_files_are_read_before_they_are_folded(tmp_path: Path) -> None:
    """onnxruntime 8422: constants in an external file were folded as whatever lay in memory."""
    model = parsed(
        """g (float[3, 3] x) => (y) {
          z = Mul (w, two)
          y = MatMul (x, z)
        }""",
        constants={"w": floats(3, 3), "two": np.float32(2)},
    )
    feeds = {"x": floats(3, 3)}
    expected = run(model, feeds)
    path = tmp_path / "model.onnx"
    onnx.save_model(
        model, path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    for level in LEVELS:
        target = tmp_path / f"{level}.onnx"
        infuse.save(infuse.optimize(path, level), target)
        assert_close(run(target, feeds), expected)


def test_onnxruntime_27620_operators_with_outputs_that_are_left_out() -> None:
    """onnxruntime 27620: folding a Unique of which only some outputs are named crashed."""
    agree(
        """g (int64[3] x) => (y, z) {
          k = Constant <value = int64[5] {3, 1, 3, 2, 1}> ()
          u, , back = Unique (k)
          y = Add (x, u)
          z = Identity (back)
        }""",
        {"x": np.int64([1, 2, 3])},
    )


def test_onnxruntime_31163_nan_stays_nan() -> None:
    """onnxruntime 31163 and 31140: what is not a number was folded differently from how it runs."""
    agree(
        """g (float[2] x) => (y, i) {
          z = Constant <value = float[2] {0.0, 4.0}> ()
          nil = Constant <value = float {0.0}> ()
          s = Sqrt (z)
          r = Reciprocal (s)
          m = Mul (r, nil)
          y = Add (x, m)
          p = Mul (x, nil)
          i = IsNaN (p)
        }""",
        {"x": np.float32([1, np.inf])},
    )


@pytest.mark.parametrize("opset", [13, 15, 18])
def test_onnxruntime_32130_comparisons_of_old_opsets_are_folded(opset: int) -> None:
    """onnxruntime 32130: a comparison of constants in old opsets stopped the folding of everything
    behind it.
    """
    graph = agree(
        """g (float[4] x) => (y) {
          a = Constant <value = float[4] {1.0, 2.0, 3.0, 4.0}> ()
          b = Constant <value = float {2.5}> ()
          c = GreaterOrEqual (a, b)
          y = Where (c, x, a)
        }""",
        {"x": floats(4)},
        opset=opset,
    )
    assert kinds(graph) == ["Where"]
