"""Forms that become ONNX Runtime's own operators, where that runtime is asked for."""

from __future__ import annotations

from tests.spellings.form import Form, forms

WORDS = "ids[N,S] int64 kinds[N,S] int64"
POSITIONS = """n = Slice(Shape(ids), [1], [2])
places = Slice(numbers, [0], n, [1])
"""
NORMALIZED = """c = e - ReduceMean(e, [-1])
y = c / Sqrt(ReduceMean(c * c, [-1]) + 0.00001) * Weights(8) + Weights(8)"""
NUMBERS = {"numbers": [list(range(16))]}

EMBEDDINGS = forms(
    *("EmbedLayerNormalization", WORDS, "Cast Cast EmbedLayerNormalization"),
    (
        "torch BERT",
        POSITIONS
        + """e = (Gather(Weights(9, 8), ids) + Gather(Weights(3, 8), kinds)) + Gather(
        Weights(16, 8), places)
        """
        + NORMALIZED,
    ),
    (
        "tf2onnx BERT",
        POSITIONS
        + """e = Gather(Weights(9, 8), ids) + Gather(Weights(16, 8), places) + Gather(
        Weights(3, 8), kinds)
        """
        + NORMALIZED,
    ),
    (
        "ELECTRA, the table sliced",
        """n = Slice(Shape(ids), [1], [2])
        p = Slice(Weights(1, 16, 8), [0], n, [1])
        e = Gather(Weights(9, 8), ids) + Gather(Weights(3, 8), kinds) + p
        """
        + NORMALIZED,
    ),
    level="extended",
    runtime="onnxruntime",
    enable=("FuseEmbedNormalization",),
    constants=NUMBERS,
)
SKIPS = forms(
    *("SkipLayerNormalization", "x[N,S,8] z[N,S,8]", "SkipLayerNormalization"),
    ("torch", "e = x + z\n" + NORMALIZED),
    ("torch with a bias", "e = (x + Weights(8)) + z\n" + NORMALIZED),
    level="extended",
    runtime="onnxruntime",
    enable=("FuseSkipNormalization",),
)
PRODUCTS = [
    *forms(
        *("FusedMatMul", "x[N,S,8] z[N,8,T]", "FusedMatMul"),
        ("(a · c) · b", "y = MatMul(x * 0.125, z)"),
        ("(a · b) · c", "y = MatMul(x, z) * 0.125"),
        ("(a · b) / c", "y = MatMul(x, z) / 8.0"),
        ("a · (b · c)", "y = MatMul(x, z * 0.125)"),
        level="extended",
        runtime="onnxruntime",
    ),
    *forms(
        *("FusedMatMul of a transposed operand", "x[N,S,8] z[N,T,8]", "FusedMatMul"),
        ("torch", "y = MatMul(x, Transpose(z, perm=[0, 2, 1]))"),
        ("torch scaled", "y = MatMul(x, Transpose(z, perm=[0, 2, 1])) * 0.25"),
        ("torch (A·B)ᵀ", "y = Transpose(MatMul(x, Transpose(z, perm=[0, 2, 1])), perm=[0, 2, 1])"),
        level="extended",
        runtime="onnxruntime",
    ),
]
ACTIVATIONS = [
    *forms(
        *("FusedConv", "x[N,4,H,W]", "FusedConv"),
        ("torch Relu", "y = Relu(Conv(x, Weights(3, 4, 3, 3), Weights(3)))"),
        ("torch clamp", "y = Clip(Conv(x, Weights(3, 4, 3, 3), Weights(3)), 0.0, 6.0)"),
        ("JAX", "y = Max(Conv(x, Weights(3, 4, 3, 3)) + Weights(3, 1, 1), 0.0)"),
        level="extended",
        runtime="onnxruntime",
    ),
    *forms(
        *("FusedGemm", "x[N,8]", "FusedGemm"),
        ("torch", "y = Relu(Gemm(x, Weights(5, 8), Weights(5), transB=1))"),
        ("tf2onnx", "y = Relu(MatMul(x, Weights(8, 5)) + Weights(5))"),
        level="extended",
        runtime="onnxruntime",
    ),
]
FORMS: list[Form] = [*EMBEDDINGS, *SKIPS, *PRODUCTS, *ACTIVATIONS]
