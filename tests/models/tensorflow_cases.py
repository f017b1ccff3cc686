"""Operators of TensorFlow with operands, for `make_tensorflow.py`: `CASES[name]` is a function of
tensors and what it is called with. Needs tensorflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

Case = tuple[Callable[..., Any], list[np.ndarray]]
CASES: dict[str, Case] = {}
RAW = tf.raw_ops
I32, I64, F32 = np.int32, np.int64, np.float32


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def floats(*shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = F32) -> np.ndarray:
    return rng().uniform(low, high, shape).astype(dtype)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: Any = I32) -> np.ndarray:
    return rng().integers(low, high, shape).astype(dtype)


def case(name: str, function: Callable[..., Any], *feeds: Any) -> None:
    assert name not in CASES, name
    CASES[name] = function, [np.asarray(feed) for feed in feeds]


def raw(op: str, names: str, *feeds: Any, tag: str = "", **options: Any) -> None:
    """A case of one operator, whose operands have these names; `options` are the others."""
    label = f"{op}-{tag}" if tag else op

    def call(*tensors: Any) -> Any:
        return getattr(RAW, op)(**dict(zip(names.split(), tensors)), **options)

    case(label, call, *feeds)


def part(index: Any) -> Callable[..., Any]:
    """A function that takes a part of a tensor."""
    return lambda tensor: tensor[index]


X, N = floats(2, 3, 4), whole(3, 4)
IMAGE, POSITIVE = floats(2, 7, 6, 3), floats(3, 4, low=0.1, high=5)
UNIT = floats(3, 4, low=-0.9, high=0.9)

# -- every element by itself -----------------------------------------------------------------------

for op in ("Abs", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Neg", "Rint", "Round", "Sigmoid",
           "Sign", "Sin", "Sinh", "Square", "Tan", "Tanh", "Asinh", "Atan", "Expm1", "Erfc",
           "IsInf", "IsNan", "IsFinite", "ZerosLike", "OnesLike"):  # fmt: skip
    raw(op, "x", X)
for op in ("Elu", "Relu", "Relu6", "Selu", "Softplus", "Softsign", "LeakyRelu"):
    raw(op, "features", X * 3)
for op in ("Log", "Log1p", "Sqrt", "Rsqrt", "Reciprocal", "Inv"):
    raw(op, "x", POSITIVE)
for op in ("Acos", "Asin", "Atanh"):
    raw(op, "x", UNIT)
raw("Acosh", "x", POSITIVE + 1)
raw("LeakyRelu", "features", X, tag="alpha", alpha=0.3)
raw("Round", "x", np.array([0.5, 1.5, -0.5, -2.5, 2.4999], F32), tag="ties")
special = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 1], F32)
for op in ("IsInf", "IsNan", "IsFinite", "Log1p", "Expm1", "Sign"):
    raw(op, "x", special, tag="special")
for op in ("Log1p", "Expm1"):
    raw(op, "x", np.array([1e-8, -1e-6, 3e-4, 0], F32), tag="small")
for op in ("Abs", "Neg", "Sign", "Square"):
    raw(op, "x", N, tag="int32")
raw("Invert", "x", N)
raw("LogicalNot", "x", N > 0)
PAIRS = ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference")
for op in PAIRS:
    raw(op, "x y", X, floats(3, 1))
    raw(op, "x y", N, whole(4), tag="int32")
    raw(op, "x y", N.astype(I64), whole(1, 4, dtype=I64), tag="int64")
for op in ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"):
    raw(op, "x y", N, whole(3, 4, low=-2, high=2))
    raw(op, "x y", X, X[:1], tag="floats")
DIVISOR = np.array([[2], [-3], [4]], I32)
for op in ("RealDiv", "Div", "FloorDiv", "FloorMod", "DivNoNan", "Xdivy", "Mod"):
    raw(op, "x y", X, np.array([[1.5], [-0.7], [2]], F32))
for op in ("Div", "FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Mod"):
    raw(op, "x y", N, DIVISOR, tag="int32")
    raw(op, "x y", N.astype(I64), DIVISOR.astype(I64), tag="int64")
zeros = np.array([0, 1, 0, -2], F32)
for op in ("DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py"):
    raw(op, "x y", zeros, np.array([0, 0, 2, 3], F32), tag="zeros")
raw("Pow", "x y", POSITIVE, floats(4))
raw("Pow", "x y", N, whole(4, low=0, high=3), tag="int32")
angles = np.array([0, -0.0, 1, -1, 0, np.inf, -2], F32)
raw("Atan2", "y x", angles, np.array([1, -1, 0, -0.0, -2, -np.inf, -3], F32))
for op in ("LogicalAnd", "LogicalOr"):
    raw(op, "x y", N > 0, whole(4) > 1)
for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    raw(op, "x y", N, whole(4))
for op in ("LeftShift", "RightShift"):
    raw(op, "x y", N, whole(4, low=0, high=5))
    raw(op, "x y", np.abs(N).astype(np.uint8), whole(4, low=0, high=5, dtype=np.uint8), tag="uint8")
raw("ApproximateEqual", "x y", X, X + floats(2, 3, 4, low=0, high=0.02), tolerance=0.01)
raw("ClipByValue", "t clip_value_min clip_value_max", X, F32(-0.5), F32(1))
case("AddN", lambda a, b, c: RAW.AddN(inputs=[a, b, c]), X, X * 2, X - 1)
for to in (tf.int32, tf.int64, tf.float16, tf.float64, tf.bool, tf.uint8):
    raw("Cast", "x", np.abs(X) * 3, tag=to.name, DstT=to)
raw("Cast", "x", X, tag="negative", DstT=tf.int32)
raw("Bitcast", "input", N, type=tf.float32)
raw("Bucketize", "input", X, boundaries=[-1.0, 0.0, 1.5])
raw("Select", "condition x y", np.array([True, False]), X, X * 2, tag="rows")
raw("SelectV2", "condition t e", X[0] > 0, X, F32(1))
raw("BiasAdd", "value bias", IMAGE, floats(3))
raw("BiasAdd", "value bias", floats(2, 3, 4, 5), floats(3), tag="first", data_format="NCHW")

# -- complex numbers -------------------------------------------------------------------------------

case("Complex", lambda a, b: tf.abs(tf.complex(a, b) * tf.complex(b, a)), X, X + 1)
case("Complex-div", lambda a, b: tf.math.real(tf.complex(a, b) / tf.complex(b, a + 3)), X, X + 1)
case("Angle", lambda a, b: tf.math.angle(tf.complex(a, b)), X, X + 1)
case("Conj", lambda a, b: tf.math.imag(tf.math.conj(tf.complex(a, b))), X, X + 1)
case("RFFT", lambda a: tf.abs(tf.signal.rfft(a)), floats(3, 8))
case("RFFT-length", lambda a: tf.math.imag(tf.signal.rfft(a, [6])), floats(3, 8))
case("RFFT2D", lambda a: tf.math.real(tf.signal.rfft2d(a)), floats(2, 4, 6))
case("IRFFT", lambda a: tf.signal.irfft(tf.signal.rfft(a), [8]), floats(3, 8))
case("IRFFT-odd", lambda a: tf.signal.irfft(tf.signal.rfft(a), [7]), floats(3, 8))
case("IRFFT2D", lambda a: tf.signal.irfft2d(tf.signal.rfft2d(a), [4, 6]), floats(2, 4, 6))
case("FFT", lambda a, b: tf.math.imag(tf.signal.fft(tf.complex(a, b))), floats(3, 8), floats(8))
case("IFFT", lambda a, b: tf.math.real(tf.signal.ifft(tf.complex(a, b))), floats(3, 8), floats(8))
case("FFT2D", lambda a: tf.abs(tf.signal.fft2d(tf.cast(a, tf.complex64))), floats(2, 4, 6))

# -- images ----------------------------------------------------------------------------------------

FILTERS = floats(3, 2, 3, 5)
for padding in ("SAME", "VALID"):
    for stride in (1, 2):
        strides, tag = [1, stride, stride, 1], f"{padding}-{stride}"
        raw("Conv2D", "input filter", IMAGE, FILTERS, tag=tag, strides=strides, padding=padding)
        raw("DepthwiseConv2dNative", "input filter", IMAGE, floats(3, 2, 3, 2), tag=tag,
            strides=strides, padding=padding)  # fmt: skip
        for op in ("MaxPool", "AvgPool"):
            name = "value" if op == "AvgPool" else "input"
            raw(op, name, IMAGE, tag=tag, ksize=[1, 3, 2, 1], strides=strides, padding=padding)
        height, width = RAW.Conv2D(input=IMAGE, filter=FILTERS, strides=strides, padding=padding
                                   ).shape[1:3]  # fmt: skip
        raw("Conv2DBackpropInput", "filter out_backprop", FILTERS, floats(2, height, width, 5),
            tag=tag, input_sizes=[2, 7, 6, 3], strides=strides, padding=padding)  # fmt: skip
raw("Conv2D", "input filter", IMAGE, FILTERS, tag="dilated", strides=[1] * 4, padding="SAME",
    dilations=[1, 2, 3, 1])  # fmt: skip
raw("Conv2D", "input filter", IMAGE, FILTERS, tag="explicit", strides=[1, 2, 1, 1],
    padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])  # fmt: skip
raw("Conv2D", "input filter", floats(2, 6, 6, 4), floats(2, 2, 2, 6), tag="groups",
    strides=[1] * 4, padding="SAME")  # fmt: skip
raw("Conv2DBackpropInput", "filter out_backprop", floats(2, 2, 3, 5), floats(1, 3, 3, 5),
    tag="wide", input_sizes=[1, 9, 9, 3], strides=[1, 3, 3, 1], padding="SAME")  # fmt: skip
raw("Conv3D", "input filter", floats(1, 4, 5, 4, 2), floats(2, 3, 2, 2, 3), strides=[1, 1, 2, 1, 1],
    padding="SAME")  # fmt: skip
raw("Conv3DBackpropInputV2", "filter out_backprop", floats(2, 3, 2, 2, 3), floats(1, 4, 3, 4, 3),
    input_sizes=[1, 4, 5, 4, 2], strides=[1, 1, 2, 1, 1], padding="SAME")  # fmt: skip
for op in ("MaxPool3D", "AvgPool3D"):
    raw(op, "input", floats(1, 4, 5, 4, 2), ksize=[1, 2, 3, 2, 1], strides=[1, 2, 2, 1, 1],
        padding="SAME")  # fmt: skip
raw("Dilation2D", "input filter", IMAGE, floats(3, 2, 3), strides=[1, 2, 1, 1],
    rates=[1, 1, 2, 1], padding="SAME")  # fmt: skip
case("atrous", lambda x, w: tf.nn.convolution(x, w, dilations=2, padding="SAME"), IMAGE, FILTERS)
case("atrous-depthwise", lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "SAME",
     dilations=[2, 2]), IMAGE, floats(3, 3, 3, 2))  # fmt: skip
raw("SpaceToBatchND", "input", floats(2, 5, 6, 3), block_shape=[2, 3], paddings=[[1, 0], [0, 0]])
raw("BatchToSpaceND", "input", floats(12, 3, 2, 3), block_shape=[2, 3], crops=[[1, 0], [0, 1]])
raw("SpaceToBatch", "input", floats(2, 6, 6, 3), block_size=2, paddings=[[1, 1], [0, 0]])
raw("BatchToSpace", "input", floats(8, 3, 2, 3), block_size=2, crops=[[1, 0], [0, 1]])
raw("SpaceToDepth", "input", floats(2, 4, 6, 3), block_size=2)
raw("DepthToSpace", "input", floats(2, 2, 3, 12), block_size=2)
raw("ExtractImagePatches", "images", IMAGE, ksizes=[1, 3, 2, 1], strides=[1, 2, 1, 1],
    rates=[1, 1, 2, 1], padding="SAME")  # fmt: skip
for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"):
    for tag, options in {"legacy": {}, "aligned": {"align_corners": True},
                         "half": {"half_pixel_centers": True}}.items():  # fmt: skip
        raw(op, "images", IMAGE, tag=f"{tag}-up", size=[13, 9], **options)
        raw(op, "images", IMAGE, tag=f"{tag}-down", size=[4, 5], **options)
raw("ResizeBilinear", "images", whole(1, 4, 4, 2, low=0, high=255, dtype=np.uint8), tag="uint8",
    size=[6, 7])  # fmt: skip
for method in ("area", "lanczos3", "lanczos5", "mitchellcubic", "gaussian"):
    for tag, size in {"up": [13, 9], "down": [4, 5]}.items():
        for smooth in (False, True):
            case(f"tf.image.resize-{method}-{tag}-{smooth}",
                 lambda x, m=method, s=size, a=smooth: tf.image.resize(x, s, m, antialias=a),
                 IMAGE)  # fmt: skip
case("tf.image.resize-bilinear-smooth",
     lambda x: tf.image.resize(x, [3, 4], "bilinear", antialias=True), IMAGE)  # fmt: skip
case("tf.image.resize-bicubic-smooth",
     lambda x: tf.image.resize(x, [3, 4], "bicubic", antialias=True), IMAGE)  # fmt: skip
raw("ScaleAndTranslate", "images", IMAGE, size=[6, 5], scale=[0.7, 1.3], translation=[1.5, -2.0],
    kernel_type="triangle")  # fmt: skip
raw("ResizeArea", "images", whole(1, 4, 4, 2, low=0, high=255, dtype=np.uint8), tag="uint8",
    size=[3, 3], align_corners=True)  # fmt: skip
BOXES = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [-0.2, 0.3, 0.5, 1.2]], F32)
raw("CropAndResize", "image boxes box_ind", IMAGE, BOXES, np.array([0, 1, 0], I32),
    crop_size=[4, 5], extrapolation_value=0.5)  # fmt: skip
raw("CropAndResize", "image boxes box_ind", IMAGE, BOXES, np.array([0, 1, 0], I32), tag="one",
    crop_size=[1, 5])  # fmt: skip
raw("AdjustContrastv2", "images contrast_factor", IMAGE, F32(1.5))
STATISTICS = floats(3, low=0.5, high=2)
for training in (False, True):
    case(f"FusedBatchNormV3-{training}", lambda x, s, o, m, v, t=training: RAW.FusedBatchNormV3(
        x=x, scale=s, offset=o, mean=[] if t else m, variance=[] if t else v, epsilon=0.01,
        is_training=t)[0], IMAGE, STATISTICS, STATISTICS, STATISTICS, STATISTICS)  # fmt: skip
raw("LRN", "input", floats(2, 3, 3, 9), depth_radius=2, bias=1.5, alpha=0.3, beta=0.6)

# -- products, norms -------------------------------------------------------------------------------

for a in (False, True):
    for b in (False, True):
        left, right = floats(*((4, 3) if a else (3, 4))), floats(*((5, 4) if b else (4, 5)))
        raw("MatMul", "a b", left, right, tag=f"{a}-{b}", transpose_a=a, transpose_b=b)
        left, right = (floats(2, 1, *v.shape) for v in (left, right))
        raw("BatchMatMulV2", "x y", left, right[0], tag=f"{a}-{b}", adj_x=a, adj_y=b)
raw("MatMul", "a b", N, whole(4, 2), tag="int32")
case("Einsum", lambda a, b: tf.einsum("bij,bjk->bik", a, b), X, floats(2, 4, 5))
case("Einsum-dots", lambda a, b: tf.einsum("...ij,jk->...ik", a, b), X, floats(4, 5))
raw("Softmax", "logits", X)
raw("LogSoftmax", "logits", X)
raw("L2Loss", "t", X)
raw("SoftmaxCrossEntropyWithLogits", "features labels", floats(3, 5), floats(3, 5, low=0))
raw("SparseSoftmaxCrossEntropyWithLogits", "features labels", floats(3, 5), np.array([0, 4, 2]))
raw("MatrixDiagV3", "diagonal", X, k=0, num_rows=-1, num_cols=-1, padding_value=0.0)
raw("MatrixDiagPartV3", "input", X, k=0, padding_value=0.0)
raw("MatrixSetDiagV3", "input diagonal", X, floats(2, 3), k=0)
for lower, upper in ((-1, 0), (0, -1), (1, 1), (0, 0)):
    raw("MatrixBandPart", "input", X, tag=f"{lower}-{upper}", num_lower=lower, num_upper=upper)
raw("Cross", "a b", floats(4, 3), floats(4, 3) + 1)
raw("Bincount", "arr", np.array([0, 3, 3, 9, 1], I32), size=5, weights=np.zeros(0, F32))

# -- reductions ------------------------------------------------------------------------------------

for op in ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"):
    raw(op, "input", X, tag="last", axis=[-1])
    raw(op, "input", X, tag="kept", axis=[0, 2], keep_dims=True)
    raw(op, "input", X, tag="none", axis=np.zeros(0, I32))
    if op != "EuclideanNorm":
        raw(op, "input", N, tag="int32", axis=0)
for op in ("Any", "All"):
    raw(op, "input", N > 0, axis=[1])
for op in ("ArgMax", "ArgMin"):
    raw(op, "input", X, tag="1", dimension=1)
    raw(op, "input", X, tag="last-int32", dimension=-1, output_type=tf.int32)
for op in ("Cumsum", "Cumprod"):
    raw(op, "x", X, tag="1", axis=1)
    raw(op, "x", X, tag="turned", axis=-1, exclusive=True, reverse=True)
raw("TopKV2", "input", X, k=2)
raw("InTopKV2", "predictions targets", floats(3, 5), np.array([0, 4, 2], I32), k=2)
SEGMENTS = np.array([0, 0, 1, 3], I32)
for op in ("SegmentSum", "SegmentMax", "SegmentMin", "SegmentMean", "SegmentProd"):
    raw(op, "data segment_ids", floats(4, 3), SEGMENTS)
for op in ("Sum", "Max", "Min", "Prod"):
    raw(f"UnsortedSegment{op}", "data segment_ids", floats(4, 3), np.array([2, 0, -1, 2], I32),
        num_segments=4)  # fmt: skip

# -- moving ----------------------------------------------------------------------------------------

raw("Reshape", "tensor", X, shape=[4, -1])
raw("Reshape", "tensor", X[:1, :1, :1], tag="scalar", shape=np.zeros(0, I32))
raw("ExpandDims", "input", X, axis=-2)
raw("Squeeze", "input", floats(1, 3, 1, 2), tag="all")
raw("Squeeze", "input", floats(1, 3, 1, 2), tag="one", axis=[-2])
raw("Transpose", "x", X, perm=[2, 0, 1])
case("ConcatV2", lambda a, b: RAW.ConcatV2(values=[a, b], axis=-1), X, floats(2, 3, 2))
case("Pack", lambda a, b: RAW.Pack(values=[a, b], axis=1), X, X + 1)
raw("Unpack", "value", X, num=3, axis=-2)
raw("Split", "value", X, axis=2, num_split=2)
raw("SplitV", "value", X, size_splits=[1, -1], axis=1, num_split=2)
raw("Slice", "input", X, begin=[0, 1, 1], size=[-1, 1, 2])
case("Slice-computed", lambda x, b: RAW.Slice(input=x, begin=b, size=[1, -1, 2]), X,
     np.array([1, 0, 2], I32))  # fmt: skip
for tag, index in {
    "plain": np.s_[1:, ::2], "negative": np.s_[..., ::-1], "shrunk": np.s_[-1, 1:, 2],
    "new": np.s_[:, None, ..., 1:3], "ellipsis": np.s_[..., None, 0], "back": np.s_[:, 2:0:-1],
    "end": np.s_[:, -2:-1],
}.items():  # fmt: skip
    case(f"StridedSlice-{tag}", part(index), X)
case("StridedSlice-computed", lambda x, i: x[:, i, :2], X, I32(1))
raw("Gather", "params indices", X, np.array([[1, 0], [1, 1]], I32), tag="old")
case("Gather-axis", lambda x, i: tf.gather(x, i, axis=-1), X, np.array([[3, 0]], I32))
case("Gather-batch", lambda x, i: tf.gather(x, i, axis=2, batch_dims=1), X,
     np.array([[3, 0], [1, 1]], I64))  # fmt: skip
raw("GatherNd", "params indices", X, np.array([[1, 0], [0, 2]], I32))
raw("Tile", "input", X, multiples=[1, 2, 3])
raw("BroadcastTo", "input", floats(3, 1), shape=[2, 3, 4])
raw("BroadcastArgs", "s0 s1", np.array([3, 1], I32), np.array([2, 1, 4], I32))
raw("ReverseV2", "tensor", X, axis=[-1, 0])
raw("ReverseSequence", "input seq_lengths", X, np.array([1, 3], I64), seq_dim=1, batch_dim=0)
raw("Roll", "input", X, shift=[1, -2], axis=[0, 2])
raw("Pad", "input", X, paddings=[[0, 1], [2, 0], [1, 1]])
raw("PadV2", "input", X, paddings=[[0, 1], [2, 0], [1, 1]], constant_values=3.0)
for mode in ("REFLECT", "SYMMETRIC"):
    raw("MirrorPad", "input", X, tag=mode, paddings=[[0, 0], [2, 1], [1, 2]], mode=mode)
raw("Fill", "value", F32(3), dims=[2, 3])
case("Fill-computed", lambda x: tf.fill(tf.shape(x)[:2], 5), X)
raw("Range", "start limit", I32(2), I32(11), delta=3)
raw("LinSpace", "start stop", F32(1), F32(4), num=5)
for op in ("Shape", "Size", "Rank"):
    raw(op, "input", X)
raw("Shape", "input", X, tag="int64", out_type=tf.int64)
case("ShapeN", lambda a, b: RAW.ShapeN(input=[a, b]), X, X[0])
raw("Where", "condition", N > 0)
raw("OneHot", "indices", np.array([[0, 2], [-1, 5]], I32), depth=4, on_value=2.0, off_value=-1.0)
raw("OneHot", "indices", np.array([0, 2], I32), tag="first", depth=3, on_value=True,
    off_value=False, axis=0)  # fmt: skip
raw("Unique", "x", np.array([4, 1, 4, 2, 1], I32))
raw("UniqueWithCounts", "x", np.array([4, 1, 4, 2, 1], I32))
raw("ListDiff", "x y", np.array([4, 1, 7, 2], I32), np.array([1, 2], I32))
raw("ScatterNd", "indices updates", np.array([[1], [3], [1]], I32), floats(3, 2), shape=[5, 2])
for op in ("Update", "Add", "Sub", "Max", "Min"):
    raw(f"TensorScatter{op}", "tensor indices updates", floats(5, 2), np.array([[1], [3]], I32),
        floats(2, 2) + 1)  # fmt: skip
raw("SparseToDense", "sparse_indices sparse_values", np.array([[0, 1], [2, 0]], I32),
    floats(2), output_shape=[3, 2], default_value=9.0)  # fmt: skip
case("DynamicStitch", lambda a, b: RAW.DynamicStitch(indices=[[0, 2], [1]], data=[a, b]),
     floats(2, 3), floats(1, 3) + 5)  # fmt: skip
raw("DynamicPartition", "data partitions", floats(4, 2), np.array([1, 0, 1, 0], I32),
    num_partitions=2)  # fmt: skip
BOX = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [1, 3, 0, 2]], F32)
SCORES = np.array([0.5, 0.9, 0.3, 0.2], F32)
raw("NonMaxSuppressionV3", "boxes scores", BOX, SCORES, max_output_size=3, iou_threshold=0.5,
    score_threshold=0.1)  # fmt: skip
raw("NonMaxSuppressionV4", "boxes scores", BOX, SCORES, max_output_size=3, iou_threshold=0.5,
    score_threshold=0.1, pad_to_max_output_size=True)  # fmt: skip
raw("NonMaxSuppressionV5", "boxes scores", BOX, SCORES, max_output_size=3, iou_threshold=0.5,
    score_threshold=0.1, soft_nms_sigma=0.0)  # fmt: skip

# -- rounding, recurrence --------------------------------------------------------------------------

raw("FakeQuantWithMinMaxArgs", "inputs", X * 4, min=-3.0, max=5.0, num_bits=4)
raw("FakeQuantWithMinMaxVars", "inputs", X * 4, min=-3.0, max=5.0, narrow_range=True)
raw("FakeQuantWithMinMaxVarsPerChannel", "inputs", X, min=[-1.0, -2.0, -0.5, 0.0],
    max=[1.0, 0.5, 3.0, 2.0])  # fmt: skip
raw("QuantizeAndDequantizeV2", "input", X, input_min=-1.5, input_max=1.0, range_given=True)
H = floats(2, 5)
CELL = (floats(2, 3), H, H / 2, floats(8, 20), floats(5), floats(5) / 2, floats(5), floats(20))
raw("LSTMBlockCell", "x cs_prev h_prev w wci wcf wco b", *CELL, use_peephole=True)
LONG = (floats(4, 2, 3), *CELL[1:])
for op in ("BlockLSTM", "BlockLSTMV2"):
    raw(op, "x cs_prev h_prev w wci wcf wco b", *LONG, seq_len_max=np.array(4, I64))
case("BlockLSTM-short", lambda x, c, h, w, i, f, o, b: RAW.BlockLSTM(x=x, cs_prev=c, h_prev=h, w=w,
     wci=i, wcf=f, wco=o, b=b, seq_len_max=np.array(3, I64)).h, *LONG)  # fmt: skip
raw("GRUBlockCell", "x h_prev w_ru w_c b_ru b_c", floats(2, 3), H, floats(8, 10), floats(8, 5),
    floats(10), floats(5))  # fmt: skip
