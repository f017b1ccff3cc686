"""What users of OnnxSlim have reported, each rebuilt as a small model (`peer_reports`)."""

from __future__ import annotations

import numpy as np
import pytest

import infuse
from infuse.exporters.onnx import to_model
from tests.models.peer_reports import agree, floats, kinds, parsed

pytestmark = pytest.mark.row("G39")


def test_onnxslim_277_slices_of_slices() -> None:
    """OnnxSlim 277 and 13, EliminationSlice: bounds beyond the end, from the end and with steps
    were added up.
    """
    agree(
        """g (float[n, 9] x, float[3, 8, 5] y) => (a, b, c, d, e) {
          a1 = Slice (x, i1, i5, ax1)
          a = Slice (a1, i2, far, ax1)
          b1 = Slice (x, m4, far, ax1)
          b = Slice (b1, i0, m1, ax1)
          c1 = Slice (x, i1, far, ax1, i2)
          c = Slice (c1, i1, i3, ax1)
          d1 = Slice (y, i1, far, ax1)
          d = Slice (d1, i0, i2, ax0)
          e1 = Slice (y, i2, i5, ax1)
          e = Slice (e1, m1, low, ax1, m1)
        }""",
        {"x": floats(2, 9), "y": floats(3, 8, 5)},
        constants={
            **{f"i{n}": np.int64([n]) for n in (0, 1, 2, 3, 5)},
            **{
                "m1": np.int64([-1]),
                "m4": np.int64([-4]),
                "far": np.int64([2**40]),
                "low": np.int64([-(2**40)]),
            },
            **{"ax0": np.int64([0]), "ax1": np.int64([1])},
        },
    )


def test_onnxslim_15_filters_made_of_constants() -> None:
    """OnnxSlim 15 and transformers.js 811 (a speech network): filters computed from constants were
    folded wrongly.
    """
    agree(
        """g (float[B, 1, T] x) => (y) {
          start = Constant <value = float {1.0}> ()
          limit = Constant <value = float {5.0}> ()
          step = Constant <value = float {1.0}> ()
          t = Range (start, limit, step)
          f = Constant <value = float[2, 1] {0.3, 0.7}> ()
          p = Mul (f, t)
          s = Sin (p)
          half = Div (s, t)
          last = Constant <value = int64[1] {-1}> ()
          low = Constant <value = int64[1] {-9223372036854775807}> ()
          ax = Constant <value = int64[1] {1}> ()
          flip = Slice (half, last, low, ax, last)
          mid = Constant <value = float[2, 1] {2.0, 2.0}> ()
          band = Concat <axis = 1> (flip, mid, half)
          top = ReduceMax (band, ax)
          scaled = Div (band, top)
          w = Unsqueeze (scaled, ax)
          c = Conv <strides = [2]> (x, w)
          m = Abs (c)
          one = Constant <value = float[2] {1.0, 1.0}> ()
          nil = Constant <value = float[2] {0.0, 0.0}> ()
          y = InstanceNormalization (m, one, nil)
        }""",
        {"x": floats(2, 1, 30)},
        {"x": floats(1, 1, 21)},
        tolerance=1e-4,
    )


def test_onnxslim_30_gates_of_a_text_recogniser() -> None:
    """OnnxSlim 30 (OCR): the optimized model did not work, hard gates over open widths."""
    agree(
        """g (float[n, 3, 4, w] x) => (y) {
          three = Constant <value = float {3.0}> ()
          nil = Constant <value = float {0.0}> ()
          six = Constant <value = float {6.0}> ()
          c = Conv <pads = [1, 1, 1, 1]> (x, k)
          a = Add (c, three)
          b = Clip (a, nil, six)
          d = Mul (c, b)
          e = Div (d, six)
          p = AveragePool <kernel_shape = [4, 1]> (e)
          ax = Constant <value = int64[1] {2}> ()
          q = Squeeze (p, ax)
          t = Transpose <perm = [0, 2, 1]> (q)
          m = MatMul (t, fc)
          o = Add (m, bias)
          y = Softmax <axis = 2> (o)
        }""",
        {"x": floats(1, 3, 4, 7)},
        {"x": floats(2, 3, 4, 1)},
        constants={"k": floats(5, 3, 3, 3), "fc": floats(5, 6), "bias": floats(6)},
    )


def test_onnxslim_118_style_transfer_with_its_own_normalization() -> None:
    """OnnxSlim 118 (AdaAttN): ONNX Runtime refused the result; open sizes, absent inputs, attention
    by hand.
    """
    agree(
        """g (float[1, 4, h, w] x, float[1, 4, k, l] s) => (y) {
          ax = Constant <value = int64[2] {2, 3}> ()
          eps = Constant <value = float {0.00001}> ()
          two = Constant <value = float {2.0}> ()
          mean = ReduceMean (x, ax)
          dev = Sub (x, mean)
          sq = Pow (dev, two)
          var = ReduceMean (sq, ax)
          ve = Add (var, eps)
          sd = Sqrt (ve)
          n = Div (dev, sd)
          rows = Constant <value = int64[3] {0, 0, -1}> ()
          q0 = Reshape (n, rows)
          q = Transpose <perm = [0, 2, 1]> (q0)
          k0 = Reshape (s, rows)
          score = MatMul (q, k0)
          a = Softmax <axis = -1> (score)
          v = Transpose <perm = [0, 2, 1]> (k0)
          o = MatMul (a, v)
          ot = Transpose <perm = [0, 2, 1]> (o)
          shape = Shape (x)
          back = Reshape (ot, shape)
          z = Add (back, n)
          up = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
          y = Resize <mode = "nearest"> (z, , up)
        }""",
        {"x": floats(1, 4, 3, 2), "s": floats(1, 4, 2, 2)},
        {"x": floats(1, 4, 2, 2), "s": floats(1, 4, 1, 3)},
    )


def test_onnxslim_321_anchors_over_open_sizes() -> None:
    """OnnxSlim 321 (RetinaFace from MXNet): the input and all behind it disappeared, only the
    output was left.
    """
    agree(
        """g (float[n, 3, h, w] data) => (prob, box) {
          bn = BatchNormalization (data, gamma, beta, mean, var)
          c = Conv <pads = [1, 1, 1, 1]> (bn, w0)
          r = Relu (c)
          cls = Conv (r, w1)
          s = Shape (cls)
          t = Reshape (cls, shape)
          p = Softmax <axis = 1> (t)
          prob = Reshape (p, s)
          box = Conv (r, w2)
        }""",
        {"data": floats(1, 3, 4, 4)},
        {"data": floats(1, 3, 2, 6)},
        constants={
            **{
                "gamma": np.ones(3, np.float32),
                "beta": floats(3),
                "mean": floats(3),
                "var": np.abs(floats(3)) + 0.5,
            },
            **{"w0": floats(4, 3, 3, 3), "w1": floats(4, 4, 1, 1), "w2": floats(8, 4, 1, 1)},
            "shape": np.int64([0, 2, -1, 0]),
        },
    )


def test_transformers_js_811_merged_decoders_keep_their_branches() -> None:
    """transformers.js 811 (a merged Whisper decoder): the model became empty; inputs are read
    inside branches only.
    """
    graph = agree(
        """g (int64[b, t] ids, float[b, k, 4] past, bool[1] use_cache) => (y, present) {
          y, present = If (use_cache) <
            then_branch = with_past () => (y1, p1) {
              e1 = Gather (table, ids)
              p1 = Concat <axis = 1> (past, e1)
              y1 = Relu (e1)
            },
            else_branch = without () => (y2, p2) {
              e2 = Gather (table, ids)
              y2 = Neg (e2)
              p2 = Identity (e2)
            }
          >
        }""",
        *(
            {"ids": np.int64([[1, 2]]), "past": floats(1, 3, 4), "use_cache": np.array([flag])}
            for flag in (True, False)
        ),
        constants={"table": floats(5, 4)},
    )
    assert len(graph.inputs) == 3
    assert "If" in kinds(graph)


def test_onnxslim_196_tied_weights_stay_one() -> None:
    """OnnxSlim 28, 196, 197: a weight read in two places, and inside branches, was stored several
    times.
    """
    table = floats(64, 64)
    model = parsed(
        """g (int64[t] ids, bool flag) => (y) {
          e = Gather (table, ids)
          z = If (flag) <
            then_branch = a () => (a1) { a1 = Gather (table, ids) },
            else_branch = b () => (b1) { b0 = Gather (table, ids) b1 = Neg (b0) }
          >
          s = Add (e, z)
          more = MatMul (s, table2)
          again = Gather (table2, ids)
          y = Mul (more, again)
        }""",
        constants={"table": table, "table2": table.copy()},
    )
    agree(model, *({"ids": np.int64([1, 63]), "flag": np.array(flag)} for flag in (True, False)))
    for level in ("basic", "extended"):
        written = to_model(infuse.optimize(infuse.load(model), level))
        assert written.ByteSize() < 0.6 * model.ByteSize()
