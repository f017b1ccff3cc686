"""Normalizations, softmax and means, as exporters write them in parts."""

from __future__ import annotations

from tests.spellings.form import Form, forms

ROWS = "x[N,S,8]"
IMAGE = "x[N,4,H,W]"
FIXED = "x[2,4,6,5]"

LAYER = [
    *forms(
        *("LayerNormalization", ROWS, "LayerNormalization"),
        (
            "torch TorchScript",
            """c = x - ReduceMean(x, [-1])
            y = c / Sqrt(ReduceMean(Pow(c, 2.0), [-1]) + 0.00001) * Weights(8) + Weights(8)""",
        ),
        ("torch dynamo", "y = LayerNormalization(x, Weights(8), Weights(8), axis=-1)"),
        (
            "torch 1.x, Mul by itself",
            """c = x - ReduceMean(x, [-1])
            y = Weights(8) * (c / Sqrt(ReduceMean(c * c, [-1]) + 0.00001)) + Weights(8)""",
        ),
        (
            "tf2onnx",
            """m = ReduceMean(x, [-1])
            d = x - m
            k = Reciprocal(Sqrt(ReduceMean(d * d, [-1]) + 0.001)) * Weights(8)
            y = x * k + (Weights(8) - m * k)""",
        ),
        (
            "Keras",
            """m = ReduceMean(x, [2])
            d = x - m
            k = Reciprocal(Sqrt(ReduceMean(d * d, [2]) + 0.001))
            y = d * k * Weights(8) + Weights(8)""",
        ),
        (
            "JAX",
            """m = ReduceSum(x, [2]) / 8.0
            c = x - m
            v = ReduceSum(c * c, [2]) / 8.0
            y = c * Pow(v + 0.00001, -0.5) * Weights(8) + Weights(8)""",
        ),
        (
            "Flax, fast variance",
            """m = ReduceMean(x, [-1])
            v = ReduceMean(x * x, [-1]) - m * m
            y = (x - m) * (1.0 / Sqrt(v + 0.00001) * Weights(8)) + Weights(8)""",
        ),
        (
            "PaddlePaddle",
            """c = x - ReduceMean(x, [-1])
            n = c / Sqrt(ReduceMean(Pow(c, 2.0), [-1]) + 0.00001)
            y = n * Weights(1, 1, 8) + Weights(8)""",
        ),
        (
            "MXNet",
            """c = x - ReduceMean(x, [-1])
            n = c * Reciprocal(Sqrt(ReduceMean(c * c, [-1]) + 0.00001))
            y = Weights(8) * n + Weights(8)""",
        ),
        tolerance=1e-4,
    ),
    *forms(
        *("RMSNormalization", ROWS, "RMSNormalization"),
        (
            "torch Llama",
            "y = Weights(8) * (x * Reciprocal(Sqrt(ReduceMean(Pow(x, 2.0), [-1]) + 0.00001)))",
        ),
        (
            "torch rsqrt by Div",
            "y = Weights(8) * (x * (1.0 / Sqrt(ReduceMean(x * x, [-1]) + 0.00001)))",
        ),
        ("T5", "y = Weights(8) * (x / Sqrt(ReduceMean(Pow(x, 2.0), [-1]) + 0.000001))"),
        ("JAX", "y = x * Pow(ReduceSum(x * x, [2]) / 8.0 + 0.00001, -0.5) * Weights(8)"),
        (
            "Gemma",
            """n = x * Pow(ReduceMean(Pow(x, 2.0), [-1]) + 0.00001, -0.5)
            y = n * (1.0 + Weights(8))""",
        ),
        (
            "Flax",
            "y = x * (Reciprocal(Sqrt(ReduceMean(x * x, [-1]) + 0.00001)) * Weights(8))",
        ),
        ("Keras", "y = x * Reciprocal(Sqrt(ReduceMean(x * x, [2]) + 0.001)) * Weights(8)"),
        ("ReduceSumSquare", "y = x / Sqrt(ReduceSumSquare(x, [-1]) / 8.0 + 0.00001) * Weights(8)"),
    ),
]
BY_CHANNEL = [
    *forms(
        *("InstanceNormalization", IMAGE, "InstanceNormalization"),
        ("torch", "y = InstanceNormalization(x, Weights(4), Weights(4))"),
    ),
    *forms(
        *("InstanceNormalization", FIXED, "InstanceNormalization"),
        (
            "Keras",
            """c = x - ReduceMean(x, [2, 3])
            n = c / Sqrt(ReduceMean(c * c, [2, 3]) + 0.001)
            y = n * Weights(4, 1, 1) + Weights(4, 1, 1)""",
        ),
        (
            "tf2onnx",
            """m = ReduceMean(x, [2, 3])
            d = x - m
            k = Reciprocal(Sqrt(ReduceMean(d * d, [2, 3]) + 0.001)) * Weights(1, 4, 1, 1)
            y = x * k + (Weights(1, 4, 1, 1) - m * k)""",
        ),
        (
            "MXNet",
            """c = x - ReduceMean(x, [2, 3])
            s = Sqrt(ReduceMean(Pow(c, 2.0), [2, 3]) + 0.001)
            y = Weights(1, 4, 1, 1) * (c / s) + Weights(1, 4, 1, 1)""",
        ),
        tolerance=1e-4,
    ),
    *forms(
        *("GroupNormalization", "x[2,4,6,6]", "GroupNormalization"),
        (
            "torch TorchScript",
            """g = Reshape(x, [0, 2, -1])
            n = InstanceNormalization(g, [1.0, 1.0], [0.0, 0.0])
            y = Reshape(n, [2, 4, 6, 6]) * Weights(4, 1, 1) + Weights(4, 1, 1)""",
        ),
        (
            "JAX",
            """g = Reshape(x, [2, 2, 2, 6, 6])
            c = g - ReduceMean(g, [2, 3, 4])
            n = c / Sqrt(ReduceMean(c * c, [2, 3, 4]) + 0.00001)
            y = Reshape(n, [2, 4, 6, 6]) * Weights(1, 4, 1, 1) + Weights(1, 4, 1, 1)""",
        ),
        (
            "Keras",
            """g = Reshape(x, [2, 2, 72])
            c = g - ReduceMean(g, [2])
            n = Reshape(c * Reciprocal(Sqrt(ReduceMean(c * c, [2]) + 0.001)), [2, 4, 6, 6])
            y = n * Weights(4, 1, 1) + Weights(4, 1, 1)""",
        ),
        tolerance=1e-4,
    ),
    *forms(
        *("BatchNormalization after Conv", IMAGE, "Conv"),
        (
            "torch",
            """c = Conv(x, Weights(3, 4, 3, 3), pads=[1, 1, 1, 1])
            y = BatchNormalization(c, Positive(3), Weights(3), Weights(3), Positive(3))""",
        ),
        (
            "tf2onnx",
            """c = Conv(x, Weights(3, 4, 3, 3)) + Weights(3, 1, 1)
            y = BatchNormalization(c, Positive(3), Weights(3), Weights(3), Positive(3))""",
        ),
        (
            "JAX",
            """c = Conv(x, Weights(3, 4, 3, 3)) - Weights(1, 3, 1, 1)
            y = c * Positive(1, 3, 1, 1) + Weights(1, 3, 1, 1)""",
        ),
        (
            "Keras",
            """c = Conv(x, Weights(3, 4, 3, 3)) - Weights(3, 1, 1)
            y = c / Positive(3, 1, 1) * Positive(3, 1, 1) + Weights(3, 1, 1)""",
        ),
        (
            "PaddlePaddle",
            """c = Conv(x, Weights(3, 4, 1, 1), Weights(3))
            y = BatchNormalization(c, Positive(3), Weights(3), Weights(3), Positive(3))""",
        ),
        ("c − Conv", "y = Weights(3, 1, 1) - Conv(x, Weights(3, 4, 3, 3))"),
        ("−Conv", "y = -Conv(x, Weights(3, 4, 3, 3))"),
        ("shift of another sign", "y = (Weights(3, 1, 1) - Conv(x, Weights(3, 4, 3, 3))) * 0.5"),
        tolerance=1e-4,
    ),
]
SOFTMAX = [
    *forms(
        *("Softmax", ROWS, "Softmax"),
        ("torch", "y = Softmax(x, axis=-1)"),
        ("exp / sum", "e = Exp(x)\ny = e / ReduceSum(e, [-1])"),
        ("JAX", "e = Exp(x - ReduceMax(x, [2]))\ny = e / ReduceSum(e, [2])"),
        ("JAX reciprocal", "e = Exp(x - ReduceMax(x, [2]))\ny = e * Reciprocal(ReduceSum(e, [2]))"),
        ("tf2onnx", "e = Exp(x - ReduceMax(x, [-1]))\ny = e / ReduceSum(e, [-1])"),
        (
            "JAX without kept axes",
            """e = Exp(x - Unsqueeze(ReduceMax(x, [2], keepdims=0), [2]))
            y = e / Unsqueeze(ReduceSum(e, [2], keepdims=0), [2])""",
        ),
        ("exp of LogSoftmax", "y = Exp(LogSoftmax(x, axis=-1))"),
        ("exp(x − LogSumExp)", "y = Exp(x - ReduceLogSumExp(x, [-1]))"),
        ("MXNet temperature", "y = Softmax(x / 1.0, axis=-1)"),
        ("torch x − max twice", "y = Softmax(x - ReduceMax(x, [-1]), axis=-1)"),
    ),
    *forms(
        *("Softmax over channels", IMAGE, "Softmax"),
        ("JAX", "e = Exp(x - ReduceMax(x, [1]))\ny = e / ReduceSum(e, [1])"),
        ("torch", "y = Softmax(x, axis=1)"),
        (
            "PaddlePaddle",
            """s = Softmax(Transpose(x, perm=[0, 2, 3, 1]), axis=3)
            y = Transpose(s, perm=[0, 3, 1, 2])""",
        ),
    ),
    *forms(
        *("LogSoftmax", ROWS, "LogSoftmax"),
        ("torch", "y = LogSoftmax(x, axis=-1)"),
        ("Log of Softmax", "y = Log(Softmax(x, axis=-1))"),
        ("JAX", "s = x - ReduceMax(x, [2])\ny = s - Log(ReduceSum(Exp(s), [2]))"),
        ("x − LogSumExp", "y = x - ReduceLogSumExp(x, [-1])"),
        ("tf2onnx", "y = x - Log(ReduceSum(Exp(x), [-1]))"),
        (
            "shifted LogSumExp",
            "m = ReduceMax(x, [-1])\ny = x - (m + Log(ReduceSum(Exp(x - m), [-1])))",
        ),
    ),
    *forms(
        *("LogSumExp", ROWS, "ReduceLogSumExp"),
        ("torch", "y = ReduceLogSumExp(x, [-1])"),
        ("log(sum(exp))", "y = Log(ReduceSum(Exp(x), [-1]))"),
        ("JAX", "m = ReduceMax(x, [2])\ny = m + Log(ReduceSum(Exp(x - m), [2]))"),
        (
            "JAX without kept axes",
            """m = ReduceMax(x, [2])
            s = Log(ReduceSum(Exp(x - m), [2], keepdims=0))
            y = s + Squeeze(m, [2])""",
        ),
        ("ReduceLogSum", "y = ReduceLogSum(Exp(x), [-1])"),
    ),
    *forms(
        *("LpNormalization", ROWS, "LpNormalization"),
        ("torch normalize", "y = x / Max(ReduceL2(x, [-1]), 0.000000000001)"),
        (
            "torch normalize, expanded",
            "y = x / Expand(Clip(ReduceL2(x, [-1]), 0.000000000001), Shape(x))",
        ),
        ("torch dynamo", "y = x / Clip(Sqrt(ReduceSumSquare(x, [-1])), 0.000000000001)"),
        ("JAX", "y = x / Max(Sqrt(ReduceSum(x * x, [2])), 0.000000000001)"),
        ("PaddlePaddle", "y = x / Clip(ReduceL2(x, [2]), 0.000000000001)"),
    ),
    *forms(
        *("LpNormalization with ε under the root", ROWS, "ReduceSumSquare Clip Sqrt Div"),
        ("tf2onnx", "y = x * Reciprocal(Sqrt(Max(ReduceSumSquare(x, [-1]), 0.000000000001)))"),
        ("Keras", "y = x * Reciprocal(Sqrt(Max(ReduceSum(x * x, [-1]), 0.000000000001)))"),
        refused_by="FuseLpNormalization",
        reason="short vectors stay short",
    ),
    *forms(
        *("RMSNormalization with ε beside the root", ROWS, "ReduceL2 Mul Add Div Mul"),
        ("T5X", "y = x / (ReduceL2(x, [-1]) * 0.35355339 + 0.00001) * Weights(8)"),
        refused_by="FuseRMSNormalization",
        reason="the constant 1.0 is needed as input of Div",
    ),
]
MEANS = [
    *forms(
        *("GlobalAveragePool", "x[N,4,6,7]", "GlobalAveragePool"),
        ("torch", "y = GlobalAveragePool(x)"),
        ("torch mean", "y = ReduceMean(x, [2, 3])"),
        ("Keras", "y = ReduceMean(x, [-1, -2])"),
        ("two means", "y = ReduceMean(ReduceMean(x, [3]), [2])"),
        ("sum / 42", "y = ReduceSum(x, [2, 3]) / 42.0"),
        ("PaddlePaddle", "y = AveragePool(x, kernel_shape=[6, 7])"),
    ),
    *forms(
        *("GlobalAveragePool → Flatten", "x[N,4,6,7]", "GlobalAveragePool Reshape"),
        ("torch", "y = Flatten(GlobalAveragePool(x))"),
        ("torch Reshape", "y = Reshape(GlobalAveragePool(x), [-1, 4])"),
        ("tf2onnx", "y = Squeeze(GlobalAveragePool(x), [2, 3])"),
        (
            "tf2onnx NHWC, squeezed",
            """p = Transpose(GlobalAveragePool(x), perm=[0, 2, 3, 1])
            y = Squeeze(p, [1, 2])""",
        ),
        (
            "tf2onnx NHWC, flattened",
            """p = Transpose(GlobalAveragePool(x), perm=[0, 2, 3, 1])
            y = Reshape(p, [-1, 4])""",
        ),
    ),
    *forms(
        *("GlobalAveragePool after Relu", "x[N,4,6,7]", "Relu GlobalAveragePool Reshape"),
        (
            "tf2onnx NHWC, before the pool",
            """t = Transpose(Relu(Transpose(x, perm=[0, 2, 3, 1])), perm=[0, 3, 1, 2])
            y = Flatten(GlobalAveragePool(t))""",
        ),
    ),
    *forms(
        *("Mean over pixels", "x[N,4,6,7]", "ReduceMean"),
        ("old MobileNetV2", "y = ReduceMean(ReduceMean(x, [3], keepdims=0), [2], keepdims=0)"),
        ("torch dynamo", "y = ReduceMean(x, [2, 3], keepdims=0)"),
        ("JAX", "y = ReduceSum(x, [2, 3], keepdims=0) / 42.0"),
        ("JAX product", "y = ReduceSum(x, [2, 3], keepdims=0) * 0.023809524"),
        ("JAX two sums", "y = ReduceSum(ReduceSum(x, [3], keepdims=0), [2], keepdims=0) / 42.0"),
        (
            "tf2onnx NHWC",
            """t = Transpose(x, perm=[0, 2, 3, 1])
            y = ReduceMean(t, [1, 2], keepdims=0)""",
        ),
    ),
]
FORMS: list[Form] = [*LAYER, *BY_CHANNEL, *SOFTMAX, *MEANS]
