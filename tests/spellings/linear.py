"""Products and convolutions, and what exporters put around them."""

from __future__ import annotations

from tests.spellings.form import Form, forms

ROWS = "x[N,8]"
DEEP = "x[N,S,8]"
IMAGE = "x[N,4,H,W]"

GEMM = [
    *forms(
        *("Gemm", ROWS, "Gemm"),
        ("torch", "y = Gemm(x, Weights(5, 8), Weights(5), transB=1)"),
        ("tf2onnx", "y = MatMul(x, Weights(8, 5)) + Weights(5)"),
        ("Keras", "y = Weights(1, 5) + MatMul(x, Weights(8, 5))"),
        ("torch dynamo", "y = MatMul(x, Transpose(Weights(5, 8), perm=[1, 0])) + Weights(5)"),
        ("PaddlePaddle", "y = MatMul(Reshape(x, [-1, 8]), Weights(8, 5)) + Weights(5)"),
        ("MXNet Flatten", "y = Gemm(Flatten(x), Weights(5, 8), Weights(5), transB=1)"),
        ("JAX", "y = MatMul(x, Weights(8, 5)) + Expand(Weights(1, 5), [1, 5])"),
        ("Einsum of JAX", "y = Einsum(x, Weights(8, 5), equation='nd,dk->nk') + Weights(5)"),
        ("two biases", "y = MatMul(x, Weights(8, 5)) + Weights(5) + Weights(5)"),
        ("scaled", "y = (MatMul(x, Weights(8, 5)) + Weights(5)) * 0.5"),
        ("c − MatMul", "y = Weights(5) - MatMul(x, Weights(8, 5))"),
        ("−Gemm", "y = -Gemm(x, Weights(8, 5), Weights(5))"),
        (
            "BatchNormalization → Flatten",
            """n = BatchNormalization(x, Positive(8), Weights(8), Weights(8), Positive(8))
            y = Gemm(Flatten(n), Weights(8, 5), Weights(5))""",
        ),
        tolerance=1e-4,
    ),
    *forms(
        *("Gemm after BatchNormalization → Flatten", "x[N,4,3,2]", "Reshape Gemm"),
        (
            "torch VGG",
            """n = BatchNormalization(x, Positive(4), Weights(4), Weights(4), Positive(4))
            y = Gemm(Flatten(n), Weights(24, 5), Weights(5))""",
        ),
        (
            "tf2onnx",
            """n = BatchNormalization(x, Positive(4), Weights(4), Weights(4), Positive(4))
            y = MatMul(Reshape(n, [-1, 24]), Weights(24, 5)) + Weights(5)""",
        ),
        tolerance=1e-4,
    ),
    *forms(
        *("Gemm of a transposed operand", "x[8,N]", "Gemm"),
        ("torch x.T @ w", "y = MatMul(Transpose(x, perm=[1, 0]), Weights(8, 5))"),
        ("tf2onnx transpose_a", "y = MatMul(Transpose(x), Weights(8, 5)) + Weights(5)"),
        ("torch (A·B)ᵀ", "y = Transpose(MatMul(Weights(5, 8), x), perm=[1, 0])"),
        ("Gemm", "y = Gemm(Transpose(x), Weights(8, 5), Weights(5))"),
    ),
    *forms(
        *("Product with weights, transposed", ROWS, "MatMul Transpose"),
        ("torch (x·w)ᵀ", "y = Transpose(MatMul(x, Weights(8, 5)))"),
        refused_by="TransposeOfProduct",
        reason="rows meet constant weights, which are packed on the right only",
    ),
    *forms(
        *("Gemm of two operands", "x[N,8] z[P,8]", "Gemm"),
        ("torch x @ z.T", "y = MatMul(x, Transpose(z, perm=[1, 0]))"),
        ("CLIP", "y = MatMul(x, Transpose(z, perm=[1, 0])) * 2.5"),
        ("JAX", "y = Einsum(x, z, equation='nd,pd->np')"),
    ),
]
MATMUL = [
    *forms(
        *("MatMul + bias", DEEP, "MatMul Add"),
        ("torch", "y = MatMul(x, Weights(8, 5)) + Weights(5)"),
        ("JAX", "y = Einsum(x, Weights(8, 5), equation='nsd,dk->nsk') + Weights(5)"),
        ("products of constants", "y = MatMul(x * 2.0, Weights(8, 5)) * 0.25 + Weights(5)"),
        tolerance=1e-4,
    ),
    *forms(
        *("MatMul + bias of flattened rows", "x[2,6,8]", "MatMul Add"),
        (
            "Keras Dense",
            """m = MatMul(Reshape(x, [-1, 8]), Weights(8, 5))
            y = Reshape(m, [2, 6, 5]) + Weights(5)""",
        ),
        (
            "PaddlePaddle Gemm",
            """m = Gemm(Reshape(x, [12, 8]), Weights(8, 5), Weights(5))
            y = Reshape(m, [2, 6, 5])""",
        ),
    ),
    *forms(
        *("MatMul of a product put together", DEEP, "MatMul"),
        ("LoRA merged", "y = MatMul(MatMul(x, Weights(8, 4)), Weights(4, 3))"),
    ),
]
CONV = [
    *forms(
        *("Conv + bias", IMAGE, "Conv"),
        ("torch", "y = Conv(x, Weights(3, 4, 3, 3), Weights(3))"),
        ("tf2onnx", "y = Conv(x, Weights(3, 4, 3, 3)) + Weights(1, 3, 1, 1)"),
        ("PaddlePaddle", "y = Conv(x, Weights(3, 4, 3, 3)) + Reshape(Weights(3), [1, -1, 1, 1])"),
        (
            "Keras Pad",
            """p = Pad(x, [0, 0, 1, 1, 0, 0, 1, 1])
            y = Conv(p, Weights(3, 4, 3, 3), Weights(3))""",
        ),
        ("MXNet", "y = Conv(x * 1.0, Weights(3, 4, 3, 3)) + Weights(3, 1, 1)"),
        (
            "tf2onnx NHWC",
            """t = Transpose(x, perm=[0, 2, 3, 1])
            c = Conv(Transpose(t, perm=[0, 3, 1, 2]), Weights(3, 4, 3, 3))
            b = Transpose(c, perm=[0, 2, 3, 1]) + Weights(3)
            y = Transpose(b, perm=[0, 3, 1, 2])""",
        ),
        (
            "slice of channels",
            """c = Conv(x, Weights(6, 4, 3, 3), Weights(6))
            y = Slice(c, [0], [3], [1])""",
        ),
        (
            "slice of channels, steps",
            """c = Conv(x, Weights(6, 4, 3, 3), Weights(6))
            y = Slice(c, [1], [6], [1], [2])""",
        ),
        (
            "gather of channels",
            """c = Conv(x, Weights(6, 4, 3, 3), Weights(6))
            y = Gather(c, [4, 0, 1], axis=1)""",
        ),
        tolerance=1e-4,
    ),
    *forms(
        *("Conv + Relu", IMAGE, "Conv Relu"),
        ("torch", "y = Relu(Conv(x, Weights(3, 4, 3, 3), Weights(3)))"),
        ("torch clamp", "y = Clip(Conv(x, Weights(3, 4, 3, 3), Weights(3)), 0.0)"),
        ("JAX", "y = Max(Conv(x, Weights(3, 4, 3, 3)) + Weights(3, 1, 1), 0.0)"),
        (
            "slice of channels",
            "y = Slice(Relu(Conv(x, Weights(6, 4, 3, 3), Weights(6))), [0], [3], [1])",
        ),
        tolerance=1e-4,
    ),
    *forms(
        *("Depthwise Conv", IMAGE, "Conv"),
        ("torch", "y = Conv(x, Weights(4, 1, 3, 3), Weights(4), group=4)"),
        ("slice of channels", "y = Slice(Conv(x, Weights(8, 1, 3, 3), group=4), [0], [8], [1])"),
    ),
    *forms(
        *("1×1 Conv", "x[N,8,S]", "Conv"),
        ("torch", "y = Conv(x, Weights(5, 8, 1), Weights(5))"),
        ("ConvTranspose", "y = ConvTranspose(x, Weights(8, 5, 1), Weights(5))"),
    ),
    *forms(
        *("1×1 Conv on request", "x[N,8,S]", "Conv"),
        (
            "MatMul of the transposed",
            """m = MatMul(Transpose(x, perm=[0, 2, 1]), Weights(8, 5))
            y = Transpose(m, perm=[0, 2, 1])""",
        ),
        enable=("RowsAsConv",),
    ),
    *forms(
        *("MaxPool with padding", "x[N,4,8,8]", "MaxPool"),
        ("torch", "y = MaxPool(x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])"),
        (
            "Keras, -∞",
            """p = Pad(x, [0, 0, 1, 1, 0, 0, 1, 1], -1e39)
            y = MaxPool(p, kernel_shape=[3, 3])""",
        ),
        (
            "tf2onnx, the lowest number",
            """p = Pad(x, [0, 0, 0, 0, 0, 0, 1, 1], -3.4028234663852886e38)
            y = MaxPool(p, kernel_shape=[2, 2], strides=[2, 2])""",
        ),
    ),
]
FORMS: list[Form] = [*GEMM, *MATMUL, *CONV]
