"""Wrong results and crashes that users of other optimizers have reported, each rebuilt as a small
model.

Where a report comes without its model, the graph is one on which a careless pass of that name goes
wrong. Every model is optimized at every level, written as ONNX, and run by ONNX Runtime (without
its optimizations) beside the original.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import infuse
from infuse.exporters.onnx import to_model
from infuse.ir.graph import Graph
from infuse.ir.printer import print_graph
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import assert_close, run

pytestmark = pytest.mark.row("G39")
LEVELS = ("basic", "extended", "all")
RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-2, 2, shape).astype(np.float32)


def parsed(
    text: str, opset: int = 18, constants: Mapping[str, Any] | None = None, ir_version: int = 8
) -> ModelProto:
    """A model from its text; `constants` are added as initializers."""
    if not text.lstrip().startswith("<"):
        text = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\n{text}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in (constants or {}).items()
    )
    return model


def agree(
    model: ModelProto | str, *runs: Mapping[str, Any], tolerance: float = 1e-5, **options: Any
) -> Graph:
    """Check that optimized models compute what the original does on these inputs; the graph of
    level all.
    """
    proto = parsed(model, **options) if isinstance(model, str) else model
    original = infuse.load(proto)
    for level in LEVELS:
        better = infuse.optimize(original, level)
        written = to_model(better)
        if all(
            v.tensor.shape is not None for v in better.outputs
        ):  # the checker knows no unknown ranks
            onnx.checker.check_model(written)
        assert [v.name for v in written.graph.output] == [v.name for v in proto.graph.output]
        assert {v.name for v in written.graph.input} == {v.name for v in original.inputs}
        for feeds in runs:
            expected = run(proto, feeds)
            assert_close(list(evaluate(better, feeds).values()), expected, tolerance)
            assert_close(run(written, feeds), expected, tolerance)
    return better


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


# -- onnx/optimizer --------------------------------------------------------------------------------


def test_optimizer_254_common_subexpressions_differ_in_attributes() -> None:
    """onnx/optimizer 254, eliminate_common_subexpression: nodes were merged that compute different
    things.
    """
    graph = agree(
        """g (float[2, 3] x) => (a, b, c, d, e, f, g) {
          a = Softmax <axis = 0> (x)
          b = Softmax <axis = 1> (x)
          c = LeakyRelu <alpha = 0.1> (x)
          d = LeakyRelu <alpha = 0.2> (x)
          y = Exp (x)
          z = Exp (x)
          e = Sub (y, z)
          f = Identity (y)
          minus = Constant <value = float {-0.0}> ()
          plus = Constant <value = float {0.0}> ()
          p = Mul (x, minus)
          q = Mul (x, plus)
          g = Sub (p, q)
        }""",
        {"x": floats(2, 3)},
    )
    assert kinds(graph).count("Exp") == 1


def test_optimizer_254_constants_of_different_types_are_different() -> None:
    """onnx/optimizer 254: constants with the same bytes are not the same."""
    agree(
        """g (float[2] x, int32[2] i) => (a, b, c) {
          one = Constant <value = float[2] {1.0, 1.0}> ()
          bits = Constant <value = int32[2] {1065353216, 1065353216}> ()
          row = Constant <value = float[1, 2] {1.0, 1.0}> ()
          a = Add (x, one)
          b = Add (i, bits)
          c = Add (x, row)
        }""",
        {"x": floats(2), "i": np.int32([1, 2])},
    )


@pytest.mark.parametrize("group", [1, 2, 4])
def test_optimizer_255_batch_normalization_into_convolution(group: int) -> None:
    """onnx/optimizer 255 and 178, fuse_bn_into_conv: results moved, the convolution's own value was
    needed too.
    """
    constants = {
        **{
            "w": floats(4, 4 // group, 3, 3),
            "b": floats(4),
            "scale": floats(4),
            "shift": floats(4),
        },
        **{"mean": floats(4), "var": np.float32([1e-3, 0.5, 1, 20])},
    }
    agree(
        f"""g (float[n, 4, 5, 5] x) => (y, z, c2) {{
          c1 = Conv <group = {group}, pads = [1, 1, 1, 1]> (x, w, b)
          y = BatchNormalization <epsilon = 0.1> (c1, scale, shift, mean, var)
          c2 = Conv <group = {group}> (x, w)
          z = BatchNormalization (c2, scale, shift, mean, var)
        }}""",
        {"x": floats(2, 4, 5, 5)},
        constants=constants,
    )


def test_optimizer_259_repeated_operators_read_elsewhere() -> None:
    """onnx/optimizer 259, eliminate_consecutive_idempotent_ops: the inner value was an output, a
    Reshape copied a size of what it got, and operators that are not idempotent were taken for such.
    """
    agree(
        """g (float[2, 3, 4] x) => (a, b, c, d, e, y) {
          a = Relu (x)
          b = Relu (a)
          c = Neg (b)
          cc = Neg (c)
          d = Floor (cc)
          s1 = Constant <value = int64[2] {6, 4}> ()
          s2 = Constant <value = int64[3] {0, 2, 2}> ()
          r1 = Reshape (x, s1)
          e = Reshape (r1, s2)
          h = HardSigmoid (x)
          y = HardSigmoid (h)
        }""",
        {"x": floats(2, 3, 4)},
    )


def test_optimizer_262_shapes_of_open_sizes() -> None:
    """onnx/optimizer 262 and 279, eliminate_shape_op: sizes were taken from stale or partial
    shapes.
    """
    agree(
        """g (float[n, m, 4] x) => (a, b, c, y) {
          t = Transpose <perm = [1, 0, 2]> (x)
          a = Shape (t)
          b = Shape <start = -2> (t)
          c = Shape <start = 1, end = -1> (t)
          y = Reshape (x, a)
        }""",
        *({"x": floats(*shape)} for shape in [(2, 3, 4), (3, 1, 4), (1, 1, 4)]),
    )


def test_optimizer_263_slices_of_shapes() -> None:
    """onnx/optimizer 263, eliminate_slice_after_shape: negative bounds and steps were read as
    positive ones.
    """
    agree(
        """g (float[n, m, 4, 5] x) => (a, b, c, d, y) {
          s = Shape (x)
          m1 = Constant <value = int64[1] {-1}> ()
          m3 = Constant <value = int64[1] {-3}> ()
          z = Constant <value = int64[1] {0}> ()
          big = Constant <value = int64[1] {9223372036854775807}> ()
          low = Constant <value = int64[1] {-9223372036854775807}> ()
          two = Constant <value = int64[1] {2}> ()
          a = Slice (s, m3, m1)
          b = Slice (s, m1, low, z, m1)
          c = Slice (s, z, big, z, two)
          d = Slice (s, m1, big)
          y = Reshape (x, b)
        }""",
        {"x": floats(2, 3, 4, 5)},
        {"x": floats(1, 1, 4, 5)},
    )


def test_optimizer_272_slices_and_products() -> None:
    """onnx/optimizer 272, adjust_slice_and_matmul: it crashed where operands had other ranks than
    expected.
    """
    agree(
        """g (float[2, 6, 4] x, float[4] v, float[6, 6] q) => (a, b, c, d) {
          s1 = Constant <value = int64[1] {1}> ()
          e1 = Constant <value = int64[1] {5}> ()
          ax = Constant <value = int64[1] {-2}> ()
          last = Constant <value = int64[1] {-1}> ()
          p = Slice (x, s1, e1, ax)
          a = MatMul (p, v)
          t = MatMul (q, x)
          b = Slice (t, s1, e1, ax)
          c = Slice (t, s1, e1, last)
          r = Slice (q, s1, e1, last)
          f = Slice (x, s1, e1, ax)
          d = MatMul (r, f)
        }""",
        {"x": floats(2, 6, 4), "v": floats(4), "q": floats(6, 6)},
    )


def test_optimizer_273_conversions_that_lose_something() -> None:
    """onnx/optimizer 273, eliminate_nop_cast: a conversion that rounds or cuts off was removed."""
    agree(
        """g (float[4] x, int32[4] i, double[4] w) => (a, b, c, d, e) {
          xi = Cast <to = 7> (x)
          a = Cast <to = 1> (xi)
          xb = Cast <to = 9> (x)
          b = Cast <to = 1> (xb)
          wf = Cast <to = 1> (w)
          c = Cast <to = 11> (wf)
          i8 = Cast <to = 3> (i)
          d = Cast <to = 6> (i8)
          same = Cast <to = 1> (x)
          e = Neg (same)
        }""",
        {
            "x": np.float32([1.7, -0.2, 0, 3]),
            "i": np.int32([1, 200, -300, 5]),
            "w": np.float64([1 / 3, 1e-9, 2, -1]),
        },
    )


def test_optimizer_274_dropout_with_its_mask() -> None:
    """onnx/optimizer 274, eliminate_nop_dropout."""
    agree(
        """g (float[3] x) => (a, b) {
          ratio = Constant <value = float {0.4}> ()
          a, mask = Dropout (x, ratio)
          m = Cast <to = 1> (mask)
          b = Mul (m, a)
        }""",
        {"x": floats(3)},
    )


def test_optimizer_275_expansions_that_stretch() -> None:
    """onnx/optimizer 275, eliminate_nop_expand: the target was compared by its last sizes only, or
    as it stood in the file although it was computed.
    """
    agree(
        """g (float[1, 5, 1] x, float[n, 5, 2] like, float[5, 1] y) => (a, b, c, d) {
          s1 = Constant <value = int64[2] {1, 1}> ()
          a1 = Expand (x, s1)
          a = Neg (a1)
          s2 = Shape (like)
          b = Expand (x, s2)
          s3 = Constant <value = int64[3] {2, 1, 2}> ()
          c = Expand (y, s3)
          d = Expand (like, s2)
        }""",
        {"x": floats(1, 5, 1), "like": floats(2, 5, 2), "y": floats(5, 1)},
        {"x": floats(1, 5, 1), "like": floats(1, 5, 2), "y": floats(5, 1)},
    )


def test_optimizer_276_flatten_of_matrices_with_other_axes() -> None:
    """onnx/optimizer 276, eliminate_nop_flatten."""
    agree(
        """g (float[2, 3] x, float[1, n] y) => (a, b, c, d) {
          a1 = Flatten (x)
          a = Neg (a1)
          b = Flatten <axis = 0> (x)
          c = Flatten <axis = 2> (x)
          d = Flatten <axis = -2> (y)
        }""",
        {"x": floats(2, 3), "y": floats(1, 4)},
    )


def test_optimizer_278_and_269_padding() -> None:
    """onnx/optimizer 278, eliminate_nop_pad, and 269, fuse_pad_into_pool: negative amounts that sum
    up to nothing, and zeros that a pool has to count or must not take for the largest.
    """
    agree(
        """g (float[1, 2, 4, 4] x) => (a, b, c, d) {
          shift = Constant <value = int64[8] {0, 0, 1, 0, 0, 0, -1, 0}> ()
          frame = Constant <value = int64[8] {0, 0, 1, 1, 0, 0, 1, 1}> ()
          none = Constant <value = int64[8] {0, 0, 0, 0, 0, 0, 0, 0}> ()
          a = Pad (x, shift)
          p = Pad (x, frame)
          b = AveragePool <kernel_shape = [2, 2]> (p)
          c = MaxPool <kernel_shape = [2, 2]> (p)
          q = Pad (x, none)
          d = Neg (q)
        }""",
        {"x": -1 - np.abs(floats(1, 2, 4, 4))},
    )


def test_optimizer_282_reshapes_with_wildcards() -> None:
    """onnx/optimizer 282, eliminate_nop_reshape: a wildcard stood for a size that was not that of
    the input.
    """
    agree(
        """g (float[n, m] x, float[2, 6] y) => (a, b, c, d) {
          s1 = Constant <value = int64[2] {-1, 4}> ()
          s2 = Constant <value = int64[2] {0, -1}> ()
          s3 = Constant <value = int64[2] {-1, 2}> ()
          a = Reshape (x, s1)
          b1 = Reshape (x, s2)
          b = Neg (b1)
          c = Reshape (y, s3)
          d1 = Transpose <perm = [1, 0]> (x)
          ss = Shape (x)
          d = Reshape (d1, ss)
        }""",
        {"x": floats(4, 2), "y": floats(2, 6)},
        {"x": floats(3, 4), "y": floats(2, 6)},
    )


def test_optimizer_283_splits_into_one_and_into_nothing() -> None:
    """onnx/optimizer 283, eliminate_nop_split."""
    agree(
        """g (float[5, 3] x) => (a, b, c, d, e, f) {
          whole = Constant <value = int64[1] {5}> ()
          uneven = Constant <value = int64[2] {0, 5}> ()
          a1 = Split <axis = 0> (x, whole)
          a = Neg (a1)
          b, c1 = Split <axis = 0> (x, uneven)
          c = Relu (c1)
          d, e, f = Split <axis = 0, num_outputs = 3> (x)
        }""",
        {"x": floats(5, 3)},
    )


def test_optimizer_284_and_253_axes_moved_and_removed() -> None:
    """onnx/optimizer 284, eliminate_nop_transpose, and 253, fuse_consecutive_squeezes: axes of the
    second operator count what the first one left, and count from the end.
    """
    agree(
        """g (float[1, 3, 1, 2, 1] x) => (a, b, c, d) {
          first = Constant <value = int64[1] {0}> ()
          second = Constant <value = int64[2] {-1, 1}> ()
          s1 = Squeeze (x, first)
          a = Squeeze (s1, second)
          u1 = Unsqueeze (a, second)
          b = Unsqueeze (u1, first)
          t1 = Transpose <perm = [0, 2, 1, 4, 3]> (x)
          c = Transpose <perm = [1, 0, 2, 3, 4]> (t1)
          both = Constant <value = int64[2] {0, 2}> ()
          s3 = Squeeze (x, both)
          t2 = Transpose <perm = [2, 0, 1]> (s3)
          d = Transpose <perm = [1, 2, 0]> (t2)
        }""",
        {"x": floats(1, 3, 1, 2, 1)},
    )


def test_optimizer_285_units_that_stretch_or_stand_on_the_wrong_side() -> None:
    """onnx/optimizer 285, eliminate_nop_with_unit: ones of a larger shape, 0 − x, 1 / x and 1 to
    the x are not x.
    """
    agree(
        """g (float[2] x, int64[2] i, bool[2] t) => (a, b, c, d, e, f, h) {
          ones = Constant <value = float[3, 1] {1.0, 1.0, 1.0}> ()
          one = Constant <value = float {1.0}> ()
          nil = Constant <value = float {0.0}> ()
          ione = Constant <value = int64[1, 1] {1}> ()
          yes = Constant <value = bool[2, 1] {1, 1}> ()
          a = Mul (x, ones)
          b = Sub (nil, x)
          c = Div (one, x)
          d = Pow (one, x)
          e = Div (i, ione)
          f = And (t, yes)
          u = Add (x, nil)
          h = Pow (u, one)
        }""",
        {"x": floats(2), "i": np.int64([3, -4]), "t": np.array([True, False])},
    )


def test_optimizer_252_and_267_joined_sizes() -> None:
    """onnx/optimizer 252, eliminate_nop_concat, and 267, fuse_concat_into_reshape: a size of
    another tensor and a wildcard became constants.
    """
    agree(
        """g (float[n, 6] x, float[k, 2] y) => (a, b, c) {
          sy = Shape (y)
          zero = Constant <value = int64[1] {0}> ()
          rest = Constant <value = int64[1] {-1}> ()
          sx = Shape (x)
          k = Gather (sy, zero)
          n = Gather (sx, zero)
          s1 = Concat <axis = 0> (n, rest, k)
          a = Reshape (x, s1)
          s2 = Concat <axis = 0> (k)
          b = Expand (k, s2)
          c = Concat <axis = -1> (x)
        }""",
        {"x": floats(2, 6), "y": floats(3, 2)},
        {"x": floats(3, 6), "y": floats(1, 2)},
    )


def test_optimizer_29_reductions_before_unsqueeze() -> None:
    """onnx/optimizer 29, fuse_consecutive_reduce_unsqueeze: it crashed, and other axes than those
    removed came back.
    """
    agree(
        """g (float[2, 3, 4] x) => (a, b, c) {
          ax = Constant <value = int64[2] {-1, 0}> ()
          back = Constant <value = int64[2] {0, 2}> ()
          other = Constant <value = int64[2] {0, 1}> ()
          r = ReduceMean <keepdims = 0> (x, ax)
          a = Unsqueeze (r, back)
          r2 = ReduceMean <keepdims = 0> (x, ax)
          b = Unsqueeze (r2, other)
          r3 = ReduceSum <keepdims = 0, noop_with_empty_axes = 1> (x)
          c = Relu (r3)
        }""",
        {"x": floats(2, 3, 4)},
    )


# -- onnxsim ---------------------------------------------------------------------------------------


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


# -- OnnxSlim --------------------------------------------------------------------------------------


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
                "var": np.abs(floats(3)),
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


# -- onnxscript ------------------------------------------------------------------------------------


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


# -- onnxruntime -----------------------------------------------------------------------------------


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
