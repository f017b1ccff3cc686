"""Movement of elements: shuffles of pixels and channels, transposes of exporters, slices."""

from __future__ import annotations

from tests.spellings.form import Form, forms

DEEP = "x[N,8,H,W]"
FIXED = "x[2,8,6,5]"
NEAREST = "mode='nearest', coordinate_transformation_mode='asymmetric', nearest_mode='floor'"

PIXELS = [
    *forms(
        *("DepthToSpace", FIXED, "DepthToSpace"),
        ("torch", "y = DepthToSpace(x, blocksize=2, mode='CRD')"),
        (
            "torch PixelShuffle",
            """s = Reshape(x, [2, 2, 2, 2, 6, 5])
            y = Reshape(Transpose(s, perm=[0, 1, 4, 2, 5, 3]), [2, 2, 12, 10])""",
        ),
        (
            "JAX, blocks first",
            """s = Reshape(x, [2, 2, 2, 2, 6, 5])
            y = Reshape(Transpose(s, perm=[0, 3, 4, 1, 5, 2]), [2, 2, 12, 10])""",
        ),
        ("PaddlePaddle", "y = DepthToSpace(DepthToSpace(x, blocksize=2), blocksize=1)"),
        (
            "tf2onnx NHWC",
            """t = Transpose(Transpose(x, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])
            y = DepthToSpace(t, blocksize=2)""",
        ),
    ),
    *forms(
        *("DepthToSpace of any batch", DEEP, "DepthToSpace"),
        ("torch dynamo", "y = DepthToSpace(x, blocksize=2, mode='CRD')"),
        ("blocks of one", "y = DepthToSpace(DepthToSpace(x, blocksize=1), blocksize=2)"),
    ),
    *forms(
        *("DepthToSpace undone", FIXED, "Relu"),
        (
            "SpaceToDepth of DepthToSpace",
            "y = Relu(SpaceToDepth(DepthToSpace(x, blocksize=2), blocksize=2))",
        ),
    ),
    *forms(
        *("SpaceToDepth undone", "x[2,3,6,4]", "Relu"),
        (
            "DepthToSpace of SpaceToDepth",
            "y = Relu(DepthToSpace(SpaceToDepth(x, blocksize=2), blocksize=2))",
        ),
    ),
    *forms(
        *("SpaceToDepth", "x[2,3,6,4]", "SpaceToDepth"),
        ("torch", "y = SpaceToDepth(x, blocksize=2)"),
        (
            "torch PixelUnshuffle, blocks first",
            """s = Reshape(x, [2, 3, 3, 2, 2, 2])
            y = Reshape(Transpose(s, perm=[0, 3, 5, 1, 2, 4]), [2, 12, 3, 2])""",
        ),
    ),
    *forms(
        *("SpaceToDepth of slices", "x[2,3,6,4]", "SpaceToDepth"),
        (
            "TFLite, rows first",
            """a = Slice(x, [0], [999], [2], [2])
            b = Slice(x, [1], [999], [2], [2])
            y = Concat(
            Slice(a, [0], [999], [3], [2]), Slice(a, [1], [999], [3], [2]),
            Slice(b, [0], [999], [3], [2]), Slice(b, [1], [999], [3], [2]), axis=1)""",
        ),
    ),
    *forms(
        *("SpaceToDepth before Conv", "x[2,3,8,8]", "SpaceToDepth Conv"),
        (
            "YOLOv5 Focus",
            """a = Slice(x, [0], [999], [2], [2])
            b = Slice(x, [1], [999], [2], [2])
            f = Concat(
            Slice(a, [0], [999], [3], [2]), Slice(b, [0], [999], [3], [2]),
            Slice(a, [1], [999], [3], [2]), Slice(b, [1], [999], [3], [2]), axis=1)
            y = Conv(f, Weights(5, 12, 3, 3))""",
        ),
    ),
    *forms(
        *("SpaceToDepth in another order", "x[2,3,6,4]", "Slice Slice Slice Slice Concat"),
        (
            "YOLOv5 Focus",
            """a = Slice(x, [0], [999], [2], [2])
            b = Slice(x, [1], [999], [2], [2])
            y = Concat(
            Slice(a, [0], [999], [3], [2]), Slice(b, [0], [999], [3], [2]),
            Slice(a, [1], [999], [3], [2]), Slice(b, [1], [999], [3], [2]), axis=1)""",
        ),
        refused_by="SlicesAsSpaceToDepth",
        reason="the pixels of a square come in another order",
    ),
    *forms(
        *("ChannelShuffle", FIXED, "Reshape Transpose Reshape"),
        (
            "torch",
            """s = Reshape(x, [2, 2, 4, 6, 5])
            y = Reshape(Transpose(s, perm=[0, 2, 1, 3, 4]), [2, 8, 6, 5])""",
        ),
    ),
    *forms(
        *(
            "ChannelShuffle, channels last",
            FIXED,
            "Reshape Transpose Reshape",
        ),
        (
            "tf2onnx NHWC",
            """t = Reshape(Transpose(x, perm=[0, 2, 3, 1]), [2, 6, 5, 2, 4])
            s = Reshape(Transpose(t, perm=[0, 1, 2, 4, 3]), [2, 6, 5, 8])
            y = Transpose(s, perm=[0, 3, 1, 2])""",
        ),
    ),
    *forms(
        *("Resize", FIXED, "Resize"),
        ("torch", f"y = Resize(x, None, [1.0, 1.0, 2.0, 2.0], {NEAREST})"),
        (
            "Keras UpSampling",
            """e = Expand(Unsqueeze(x, [3, 5]), [2, 8, 6, 2, 5, 2])
            y = Reshape(e, [2, 8, 12, 10])""",
        ),
        (
            "torch expand",
            """e = Expand(Reshape(x, [2, 8, 6, 1, 5, 1]), [2, 8, 6, 2, 5, 2])
            y = Reshape(e, [2, 8, 12, 10])""",
        ),
        (
            "MXNet",
            """t = Tile(Reshape(x, [2, 8, 6, 1, 5, 1]), [1, 1, 1, 2, 1, 2])
            y = Reshape(t, [2, 8, 12, 10])""",
        ),
        (
            "tf2onnx NHWC",
            f"""t = Transpose(x, perm=[0, 2, 3, 1])
            r = Resize(t, None, [1.0, 2.0, 2.0, 1.0], {NEAREST})
            y = Transpose(r, perm=[0, 3, 1, 2])""",
        ),
        (
            "tf2onnx NHWC, sizes",
            """t = Transpose(x, perm=[0, 2, 3, 1])
            r = Resize(t, None, None, [2, 12, 10, 8], mode='linear')
            y = Transpose(r, perm=[0, 3, 1, 2])""",
        ),
    ),
]
NHWC = [
    *forms(
        *("Transposes of tf2onnx", DEEP, "Relu"),
        ("NHWC Relu", "y = Transpose(Relu(Transpose(x, perm=[0, 2, 3, 1])), perm=[0, 3, 1, 2])"),
    ),
    *forms(
        *("Transposes of tf2onnx around Add", DEEP, "Relu Sigmoid Add"),
        (
            "NHWC two readers",
            """t = Transpose(x, perm=[0, 2, 3, 1])
            y = Transpose(Relu(t) + Sigmoid(t), perm=[0, 3, 1, 2])""",
        ),
    ),
    *forms(
        *("Transposes of tf2onnx around Split", DEEP, "Split Relu Concat"),
        (
            "NHWC Split + Concat",
            """t = Transpose(x, perm=[0, 2, 3, 1])
            a, b = Split(t, [4, 4], axis=3)
            y = Transpose(Concat(Relu(a), b, axis=3), perm=[0, 3, 1, 2])""",
        ),
    ),
    *forms(
        *("Transposes of tf2onnx, two readers", DEEP, "Relu Sigmoid Add"),
        (
            "NHWC back twice",
            """r = Relu(Transpose(x, perm=[0, 2, 3, 1]))
            one = Transpose(r, perm=[0, 3, 1, 2])
            y = one + Transpose(Sigmoid(r), perm=[0, 3, 1, 2])""",
        ),
    ),
    *forms(
        *("Transposes of tf2onnx, two readers at basic", DEEP, "Relu Sigmoid Add"),
        (
            "NHWC back twice",
            """r = Relu(Transpose(x, perm=[0, 2, 3, 1]))
            one = Transpose(r, perm=[0, 3, 1, 2])
            y = one + Transpose(Sigmoid(r), perm=[0, 3, 1, 2])""",
        ),
        level="basic",
    ),
    *forms(
        *("Transposes of tf2onnx, padding of nothing", DEEP, "Relu"),
        (
            "NHWC Pad of nothing",
            """t = Transpose(x, perm=[0, 2, 3, 1])
            p = Pad(Relu(t), [0, 0, 0, 0, 0, 0, 0, 0])
            y = Transpose(p, perm=[0, 3, 1, 2])""",
        ),
    ),
    *forms(
        *("Transposes of tf2onnx around Pad", DEEP, "Pad"),
        (
            "NHWC Pad",
            """t = Transpose(x, perm=[0, 2, 3, 1])
            y = Transpose(Pad(t, [0, 1, 1, 0, 0, 1, 1, 0]), perm=[0, 3, 1, 2])""",
        ),
    ),
    *forms(
        *("Transposes of tf2onnx around means", DEEP, "ReduceMean"),
        (
            "NHWC ReduceMean",
            """t = Transpose(x, perm=[0, 2, 3, 1])
            y = Transpose(ReduceMean(t, [3]), perm=[0, 3, 1, 2])""",
        ),
    ),
]
SLICES = [
    *forms(
        *("Slice", "x[N,16]", "Slice"),
        ("torch", "y = Slice(x, [2], [9], [1])"),
        ("Slice of Slice", "y = Slice(Slice(x, [1], [12], [1]), [1], [8], [1])"),
        (
            "Slice of Slice with steps",
            "y = Slice(Slice(x, [1], [15], [1], [2]), [1], [6], [1], [2])",
        ),
        ("Slice of Slice, backwards", "y = Slice(Slice(x, [15], [-99], [1], [-1]), [2], [9], [1])"),
        ("Gather of neighbours", "y = Gather(x, [2, 3, 4, 5], axis=1)"),
    ),
    *forms(
        *("Slice after x + y", "x[N,16] z[N,16]", "Slice Slice Add"),
        ("torch", "y = Slice(x + z, [0], [4], [1])"),
    ),
    *forms(
        *("ReduceSum of nothing", "x[N,S]", "Relu"),
        ("tf2onnx", "y = Relu(ReduceSum(x, noop_with_empty_axes=1))"),
    ),
    *forms(
        *("Table", "i[N] int64", "Gather"),
        ("a product after Gather", "y = Gather(Weights(9, 4), i) * 2.0"),
        ("Embedding of T5", "y = Gather(Weights(9, 4), i) * Weights(4)"),
        ("MatMul after Gather", "y = MatMul(Gather(Weights(9, 4), i), Weights(4, 3))"),
        ("Relu after Gather", "y = Relu(Gather(Weights(9, 4), i))"),
    ),
    *forms(
        *("Integer · 0", "i[N] int64", "Shape Expand"),
        ("torch zeros_like", "y = i * 0"),
    ),
]
ARITHMETIC = [
    *forms(
        *("Sums of constants", "x[N,8]", "Add"),
        ("4 − (3 − x)", "y = 4.0 - (3.0 - x)"),
        ("(x − 3) + 4", "y = (x - 3.0) + 4.0"),
        ("x − (3 − 4)", "y = x - (3.0 - 4.0)"),
    ),
    *forms(
        *("Powers", "x[N,8] z[N,8]", "Add Exp"),
        ("eˣ · eʸ", "y = Exp(x) * Exp(z)"),
    ),
    *forms(
        *("Square root squared", "x[N,8]", "Abs"),
        ("√|x| · √|x|", "r = Sqrt(Abs(x))\ny = r * r"),
        ("(√|x|)²", "y = Pow(Sqrt(Abs(x)), 2.0)"),
        ("√(x · x)", "y = Sqrt(x * x)"),
        ("√x²", "y = Sqrt(Pow(x, 2.0))"),
    ),
    *forms(
        *("Square root of any number squared", "x[N,8]", "Sqrt Mul"),
        ("√x · √x", "r = Sqrt(x)\ny = r * r"),
        low=0.1,
        refused_by="SquareOfRoot",
        reason="x may be negative, and its root NaN",
    ),
    *forms(
        *("Zero times a float", "x[N,8]", "Mul"),
        ("x · 0", "y = x * 0.0"),
        refused_by="IntegerTimesZero",
        reason="zero times an element of float32 may be NaN",
    ),
    *forms(
        *("Repeated parameter", "x[N,3,8]", "Add"),
        (
            "DETR queries",
            """n = Slice(Shape(x), [0], [1])
            q = Expand(Weights(1, 3, 8), Concat(n, [3, 8], axis=0))
            y = MatMul(Relu(q), Weights(8, 8)) + x""",
        ),
    ),
    *forms(
        *("Repeated input", "x[N,3,8] p[1,3,8]", "LayerNormalization MatMul Add"),
        (
            "DETR queries, normalized",
            """n = Slice(Shape(x), [0], [1])
            q = Expand(p, Concat(n, [3, 8], axis=0))
            c = q - ReduceMean(q, [-1])
            l = c / Sqrt(ReduceMean(c * c, [-1]) + 0.00001) * Weights(8) + Weights(8)
            y = MatMul(l, Weights(8, 8)) + x""",
        ),
    ),
    *forms(
        *("Mean", "x[N,7,7]", "ReduceMean"),
        ("ReduceSum / 49", "y = ReduceSum(x, [1, 2]) / 49.0"),
        ("ReduceSum · 1/49", "y = ReduceSum(x, [1, 2]) * 0.020408163"),
        ("means of means", "y = ReduceMean(ReduceMean(x, [2]), [1])"),
        (
            "means without kept axes",
            "y = ReduceMean(ReduceMean(x, [2], keepdims=0), [1], keepdims=0)",
        ),
        ("mean kept, then dropped", "y = Squeeze(ReduceMean(x, [1, 2]), [1, 2])"),
    ),
]
FORMS: list[Form] = [*PIXELS, *NHWC, *SLICES, *ARITHMETIC]
