"""What users of onnxscript have reported, each rebuilt as a small model (`peer_reports`)."""

from __future__ import annotations

import numpy as np
import pytest

import infuse
from infuse.exporters.onnx import to_model
from infuse.ir.printer import print_graph
from tests.models.onnx_tools import assert_close, run
from tests.models.peer_reports import agree, floats, kinds, parsed

pytestmark = pytest.mark.row("G39")


def test_onnxscript_2673_constants_inside_functions() -> None:
    """onnxscript 2673: folding inside a function left a constant behind that no graph held."""
    agree(
        """<ir_version: 9, opset_import: ["this" : 1, "" : 19]>
        model (float x) => (float return_val) {
           return_val = this.function (x)
        }
        <domain: "this", opset_import: ["" : 19]>
        function (x) => (return_val) {
           tmp = Constant <value_int: int = 1> ()
           tmp_0 = Cast <to: int = 1> (tmp)
           return_val = Sub (tmp_0, x)
        }""",
        {"x": np.array(0.25, np.float32)},
    )


def test_onnxscript_2728_branches_whose_outputs_are_constants() -> None:
    """onnxscript 2728 and onnxruntime 8825: an output of a branch or of a loop's body that could be
    folded was then made by nobody.
    """
    agree(
        """g (float[2, 3] x, bool flag) => (y, z) {
          y = If (flag) <
            then_branch = a () => (ones_like) {
              s = Constant <value = int64[2] {2, 3}> ()
              ones_like = ConstantOfShape <value = float[1] {1.0}> (s)
            },
            else_branch = b () => (same) { same = Identity (x) }
          >
          trips = Constant <value = int64 {3}> ()
          yes = Constant <value = bool {1}> ()
          start = Constant <value = float {0.5}> ()
          z, all = Loop (trips, yes, start) <
            body = c (int64 i, bool go, float v) => (go2, v2, k) {
              t = Constant <value = bool {1}> ()
              go2 = Identity (t)
              v2 = Add (v, v)
              k0 = Constant <value = float {7.0}> ()
              k = Neg (k0)
            }
          >
        }""",
        *({"x": floats(2, 3), "flag": np.array(flag)} for flag in (True, False)),
    )


TORCH_SQUEEZE = """g (float[n, SIZE, 4] x) => (y) {
  s = Shape (x)
  i = Constant <value = int64 {1}> ()
  d = Gather (s, i)
  one = Constant <value = int64 {1}> ()
  c = Equal (d, one)
  r = If (c) <
    then_branch = a () => (sq) {
      axes = Constant <value = int64[1] {1}> ()
      sq = Squeeze (x, axes)
    },
    else_branch = b () => (same) { same = Identity (x) }
  >
  y = Relu (r)
}"""


def test_onnxscript_2810_squeeze_as_torch_exports_it() -> None:
    """onnxscript 2810: the axes of a Squeeze inside an If vanished."""
    agree(TORCH_SQUEEZE.replace("SIZE", "m"), {"x": floats(3, 1, 4)}, {"x": floats(3, 2, 4)})
    assert "If" not in kinds(agree(TORCH_SQUEEZE.replace("SIZE", "1"), {"x": floats(3, 1, 4)}))
    # ONNX Runtime does not load this one: the branch that never runs is not well-typed.
    x = floats(3, 2, 4)
    graph = infuse.optimize(infuse.load(parsed(TORCH_SQUEEZE.replace("SIZE", "2"))))
    assert kinds(graph) == ["Relu"]
    assert_close(run(to_model(graph), {"x": x}), [np.maximum(x, 0)])


def test_onnxscript_2859_folding_comes_to_an_end() -> None:
    """onnxscript 2859: folding a Resize of constants never returned, nor would this test."""
    agree(
        """g (float[1, 1, 6, 6] x) => (y) {
          k = Constant <value = float[1, 1, 2, 2] {1.0, 2.0, 3.0, 4.0}> ()
          size = Constant <value = int64[4] {1, 1, 6, 6}> ()
          r = Resize <mode = "cubic", coordinate_transformation_mode = "pytorch_half_pixel">
              (k, , , size)
          y = Add (x, r)
        }""",
        {"x": floats(1, 1, 6, 6)},
    )


def test_onnxscript_2878_the_same_model_is_always_optimized_alike() -> None:
    """onnxscript 2878: a rule fired in some runs and not in others."""
    model = parsed(
        """g (float[n, 3, 4] x) => (y, z) {
          a = Transpose <perm = [0, 2, 1]> (x)
          b = Relu (a)
          c = Transpose <perm = [0, 2, 1]> (b)
          d = Add (c, c)
          y = Mul (d, x)
          b2 = Abs (x)
          z = Sub (y, b2)
        }"""
    )
    texts = {print_graph(infuse.optimize(infuse.load(model))) for _ in range(5)}
    assert len(texts) == 1
