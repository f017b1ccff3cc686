"""What users of onnxsim have reported, each rebuilt as a small model (`peer_reports`)."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import infuse
from infuse.exporters.onnx import to_model
from tests.models.onnx_tools import assert_close, run
from tests.models.peer_reports import LEVELS, agree, floats, kinds, parsed

pytestmark = pytest.mark.row("G39")


def test_onnxsim_265_constants_stay_different() -> None:
    """onnxsim 265: of x / 2 + y · 4 the divisor became 4, duplicate constants were told apart by
    their size only.
    """
    agree(
        """g (float[2] x, float[2] y) => (z) {
          two = Constant <value = float {2.0}> ()
          four = Constant <value = float {4.0}> ()
          a = Div (x, two)
          b = Mul (y, four)
          z = Add (a, b)
        }""",
        {"x": floats(2), "y": floats(2)},
    )


def test_onnxsim_50_depthwise_convolutions_with_batch_normalization() -> None:
    """onnxsim 50 (an SSD over MobileNet): scores were wrong once normalization was fused into
    grouped convolutions.
    """
    agree(
        """g (float[1, 4, 6, 6] x) => (y) {
          a = Conv <group = 4, pads = [1, 1, 1, 1]> (x, deep)
          b = BatchNormalization <epsilon = 0.001> (a, s, t, m, v)
          c = Clip (b, lo, hi)
          d = Conv (c, point)
          y = BatchNormalization <epsilon = 0.001> (d, s, t, m, v)
        }""",
        {"x": floats(1, 4, 6, 6)},
        constants={
            **{
                "deep": floats(4, 1, 3, 3),
                "point": floats(4, 4, 1, 1),
                "s": floats(4),
                "t": floats(4),
                "m": floats(4),
            },
            **{"v": np.abs(floats(4)), "lo": np.float32(0), "hi": np.float32(6)},
        },
    )


def test_onnxsim_79_sizes_of_resizing_follow_the_input() -> None:
    """onnxsim 79 (face parsing): the output changed its shape, sizes of Resize were frozen."""
    agree(
        """g (float[n, 2, h, w] x) => (y) {
          p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
          q = GlobalAveragePool (p)
          s = Shape (x)
          two = Constant <value = int64[1] {2}> ()
          four = Constant <value = int64[1] {4}> ()
          nil = Constant <value = int64[1] {0}> ()
          hw = Slice (s, two, four)
          sp = Shape (p)
          nc = Slice (sp, nil, two)
          size = Concat <axis = 0> (nc, hw)
          g1 = Sigmoid (q)
          g2 = Mul (p, g1)
          y = Resize <mode = "nearest"> (g2, , , size)
        }""",
        {"x": floats(1, 2, 4, 6)},
        {"x": floats(2, 2, 6, 4)},
    )


def test_onnxsim_227_no_output_is_lost() -> None:
    """onnxsim 227 (Yolact) and onnxruntime 4110: outputs vanished or became others when what made
    them was fused, folded, or made twice.
    """
    graph = agree(
        """g (float[2, 3] x) => (a, b, c, d, e, f) {
          k = Constant <value = float[2] {1.0, 2.0}> ()
          a = Neg (k)
          b = Identity (x)
          c = Relu (x)
          d = Relu (x)
          m = MatMul (x, w)
          e = Identity (m)
          f = Add (m, bias)
        }""",
        {"x": floats(2, 3)},
        constants={"w": floats(3, 2), "bias": floats(2)},
    )
    assert graph.output_names == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.filterwarnings("ignore:calls may replace the defaults:RuntimeWarning")
@pytest.mark.parametrize("ir_version", [3, 8])
def test_onnxsim_260_weights_that_are_listed_as_inputs(ir_version: int) -> None:
    """onnxsim 260 and OnnxSlim 321: nothing but an input or an output was left of the model."""
    model = parsed(
        """g (float[1, 3, 4, 4] x, float[2, 3, 1, 1] w) => (float[1, 2, 4, 4] y) {
          c = Conv (x, w)
          y = Relu (c)
        }""",
        opset=8,
        constants={"w": floats(2, 3, 1, 1)},
        ir_version=ir_version,
    )
    graph = infuse.optimize(infuse.load(model))
    assert "Conv" in kinds(graph)
    x = floats(1, 3, 4, 4)
    feeds = (
        {"x": x}
        if len(graph.inputs) == 1
        else {"x": x, "w": numpy_helper.to_array(model.graph.initializer[0])}
    )
    assert_close(run(to_model(graph), feeds), run(model, {"x": x}))


@pytest.mark.parametrize("kind", ["Tile", "ConstantOfShape", "Expand"])
def test_onnxsim_158_folding_does_not_blow_up_the_file(kind: str) -> None:
    """onnxsim 158, 262, 291 and OnnxSlim 122: a few numbers became gigabytes of constants."""
    make = {
        "Tile": "big = Tile (small, counts)",
        "ConstantOfShape": "big = ConstantOfShape (counts)",
        "Expand": "big = Expand (small, counts)",
    }[kind]
    model = parsed(
        f"""g (float[n] x) => (y) {{
          counts = Constant <value = int64[2] {{4096, 4096}}> ()
          small = Constant <value = float[1, 1] {{2.0}}> ()
          {make}
          total = ReduceSum <keepdims = 0> (big)
          y = Add (x, total)
        }}"""
    )
    for level in LEVELS:
        written = to_model(infuse.optimize(infuse.load(model), level))
        assert written.ByteSize() < 1 << 20


def test_onnxsim_1284_constants_joined_with_filled_ones() -> None:
    """onnxsim 1284 (NNSmith): a network of joined, filled, cut and reshaped constants gave other
    numbers.
    """
    agree(
        """g (float[3, 4] x) => (y, z) {
          c = Constant <value = int64[2] {1, 2}> ()
          one = Constant <value = int64[1] {2}> ()
          pads = ConstantOfShape <value = int64[1] {3}> (one)
          joined = Concat <axis = 0> (c, pads)
          rows = Constant <value = int64[2] {-1, 2}> ()
          square = Reshape (joined, rows)
          first = Constant <value = int64[1] {0}> ()
          last = Constant <value = int64[1] {-1}> ()
          low = Constant <value = int64[1] {-9223372036854775807}> ()
          back = Slice (square, last, low, first, last)
          turned = Transpose <perm = [1, 0]> (back)
          flat = Reshape (turned, last)
          numbers = Cast <to = 1> (flat)
          y = Add (x, numbers)
          z = Cos (y)
        }""",
        {"x": floats(3, 4)},
    )


def test_onnxsim_21_open_sizes_stay_open() -> None:
    """onnxsim 21, 67, 86, 101, 182 and OnnxSlim 192: open sizes were frozen to those of one run."""
    graph = agree(
        """g (float[batch, seq, 8] x) => (float[batch, seq, 8] y) {
          s = Shape (x)
          i0 = Constant <value = int64 {0}> ()
          i1 = Constant <value = int64 {1}> ()
          ax = Constant <value = int64[1] {0}> ()
          b = Gather (s, i0)
          t = Gather (s, i1)
          ub = Unsqueeze (b, ax)
          ut = Unsqueeze (t, ax)
          h = Constant <value = int64[2] {2, 4}> ()
          inner = Concat <axis = 0> (ub, ut, h)
          r = Reshape (x, inner)
          p = Transpose <perm = [0, 2, 1, 3]> (r)
          q = Transpose <perm = [0, 2, 1, 3]> (p)
          w = Constant <value = int64[1] {8}> ()
          outer = Concat <axis = 0> (ub, ut, w)
          v = Reshape (q, outer)
          y = Relu (v)
        }""",
        {"x": floats(2, 3, 8)},
        {"x": floats(1, 5, 8)},
    )
    assert [str(d) for d in graph.outputs[0].shape] == ["batch", "seq", "8"]
    assert kinds(graph) == ["Relu"]


def test_onnxsim_231_sizes_that_only_a_run_knows() -> None:
    """onnxsim 231, 39, 77 (detectors): it crashed on the open sizes behind NonMaxSuppression and
    NonZero.
    """
    agree(
        """g (float[1, 5, 4] boxes, float[1, 2, 5] scores) => (picked, kept) {
          most = Constant <value = int64[1] {3}> ()
          iou = Constant <value = float[1] {0.5}> ()
          low = Constant <value = float[1] {0.1}> ()
          found = NonMaxSuppression (boxes, scores, most, iou, low)
          col = Constant <value = int64 {2}> ()
          index = Gather <axis = 1> (found, col)
          picked = Gather <axis = 1> (boxes, index)
          nz = NonZero (scores)
          s = Shape (nz)
          one = Constant <value = int64[1] {1}> ()
          two = Constant <value = int64[1] {2}> ()
          end = Slice (s, one, two)
          kept = Cast <to = 1> (end)
        }""",
        {"boxes": np.abs(floats(1, 5, 4)).cumsum(axis=2), "scores": np.abs(floats(1, 2, 5))},
    )


@pytest.mark.filterwarnings("ignore:the model does not state the types:RuntimeWarning")
def test_onnxsim_107_unknown_operators_of_the_default_domain() -> None:
    """onnxsim 107, 128, 138, 192, 220: plug-ins in ONNX's own domain stopped the optimizer."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("EfficientNMS_TRT", ["b"], ["c"], threshold=0.5),
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Neg", ["d"], ["y"]),
    ]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph(nodes, "g", [value], [out]), opset_imports=[helper.make_opsetid("", 17)]
    )
    for level in LEVELS:
        written = to_model(infuse.optimize(infuse.load(model), level))
        assert [n.op_type for n in written.graph.node] == ["Relu", "EfficientNMS_TRT", "Neg"]
        assert written.graph.node[1].attribute[0].f == 0.5
