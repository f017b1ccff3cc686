"""What users of onnx/optimizer have reported, each rebuilt as a small model (`peer_reports`)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.peer_reports import agree, floats, kinds

pytestmark = pytest.mark.row("G39")


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
