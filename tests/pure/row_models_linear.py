"""Models for rows about convolutions, matrix products and their scales."""

import numpy as np

from tests.pure.row_example import APART, CONV, IMAGE, MATRIX, STATISTICS, Example

SEPARABLE = ", ".join(
    f"{n:.9}" for n in np.outer(np.linspace(1, 2, 12), np.linspace(-1, 1, 9)).reshape(-1).tolist()
)
"""Filters of three by three that are multiples of one another."""

CONVOLUTIONS = (
    Example(
        "G11",
        "Conv + BatchNorm + activation",
        CONV + STATISTICS + "%b = BatchNormalization(%c, $s, $h, $m, $v)\n%y = Relu(%b)",
        "Conv Relu",
        header=IMAGE,
    ),
    Example(
        "G12",
        "Conv + constant",
        CONV + "$b: float32[4, 1, 1]\n%y = Add(%c, $b)",
        "Conv",
        header=IMAGE,
    ),
    Example(
        "G12",
        "the residual of a Conv",
        CONV + "%a = Add(%c, %z)\n%y = Relu(%a)",
        "Conv + Add + Relu of 3",
        native=True,
        header=f"{IMAGE}, %z: float32[n, 4, 4, 4]",
        off=(APART,),
    ),
    Example(
        "G13",
        "Conv + scale + activation",
        CONV + "%a = Mul(%c, float32[]{2.0})\n%d = Div(%a, float32[]{3.0})\n%y = Relu(%d)",
        "Conv Relu",
        header=IMAGE,
    ),
    Example(
        "G14",
        "Conv after pooling + MatMul",
        """$w: float32[3, 4, 1, 1]
        $v: float32[3, 2]
        %c = Conv(%x, $w)
        %f = Flatten(%c)
        %y = MatMul(%f, $v)""",
        "Conv Reshape",
        header="%x: float32[n, 4, 1, 1]",
    ),
    Example("G15", "MatMul + Add", MATRIX + "$b: float32[5]\n%y = Add(%p, $b)", "Gemm"),
    Example(
        "G16",
        "a scale before and one after a MatMul",
        "$w: float32[4, 5]\n%a = Mul(%x, float32[]{0.5})\n%p = MatMul(%a, $w)\n%y = Mul(%p, "
        "float32[]{3.0})",
        "MatMul",
        "all",
    ),
    Example(
        "G16",
        "the scale of a product of two results, in ONNX Runtime's operator",
        "%p = MatMul(%x, %z)\n%y = Mul(%p, float32[]{0.5})",
        "FusedMatMul",
        "extended",
        header="%x: float32[n, 3, 4], %z: float32[n, 4, 5]",
        runtime="onnxruntime",
    ),
    Example(
        "G17",
        "Gemm + BatchNorm",
        """$w: float32[4, 4]
        $c: float32[4]
        %p = Gemm(%x, $w, $c)
        """
        + STATISTICS
        + "%y = BatchNormalization(%p, $s, $h, $m, $v)",
        "Gemm",
    ),
    Example(
        "G17",
        "BatchNorm before Conv",
        STATISTICS
        + "$w: float32[4, 4, 3, 3]\n%b = BatchNormalization(%x, $s, $h, $m, $v)\n%y = Conv(%b, $w)",
        "Conv",
        header=IMAGE,
    ),
    *(
        Example(
            "G18",
            f"{kind} in the kernel of Conv",
            CONV + f"%y = {call}",
            f"Conv + {kind} of 2",
            "none",
            native=True,
            header=IMAGE,
            off=(APART,),
        )
        for kind, call in (
            ("Relu", "Relu(%c)"),
            ("Clip", "Clip(%c, float32[]{0.0}, float32[]{6.0})"),
            ("LeakyRelu", "LeakyRelu(%c, alpha=0.1)"),
            ("PRelu", "PRelu(%c, float32[1]{0.1})"),
            ("Sigmoid", "Sigmoid(%c)"),
            ("HardSwish", "HardSwish(%c)"),
            ("Swish", "Swish(%c)"),
            ("Gelu", "Gelu(%c)"),
        )
    ),
    Example(
        "G18",
        "GELU in the kernel of MatMul",
        MATRIX + "%y = Gelu(%p)",
        "MatMul + Gelu of 2",
        "none",
        native=True,
        off=(APART,),
    ),
    Example(
        "G20",
        "BatchNorm is a scale",
        STATISTICS + "%y = BatchNormalization(%x, $s, $h, $m, $v)",
        "Mul Add",
        "all",
        header=IMAGE,
    ),
    Example(
        "G19",
        "Conv of one pixel to Gemm, on request",
        "$w: float32[3, 4, 1, 1]\n%y = Conv(%x, $w)",
        "Reshape Gemm Reshape",
        header="%x: float32[n, 4, 1, 1]",
        enable=("ConvAsGemm",),
    ),
    Example(
        "G19",
        "Gemm to Conv of one pixel, on request",
        "$w: float32[4, 5]\n$b: float32[5]\n%y = Gemm(%x, $w, $b)",
        "Reshape Conv Reshape",
        enable=("GemmAsConv",),
    ),
    Example("G20", "PRelu with one slope", "%y = PRelu(%x, float32[1]{0.1})", "LeakyRelu"),
    Example(
        "G21", "two linears in a row", MATRIX + "$v: float32[5, 3]\n%y = MatMul(%p, $v)", "MatMul"
    ),
    Example(
        "G21",
        "two convolutions in a row",
        "$w: float32[4, 4, 1, 1]\n%c = Conv(%x, $w)\n$v: float32[4, 4, 3, 3]\n%y = Conv(%c, $v)",
        "Conv",
        header=IMAGE,
    ),
    Example(
        "G22",
        "a convolution of nearly separable filters, on request",
        f"%y = Conv(%x, float32[6, 2, 3, 3]{{{SEPARABLE}}})",
        "Conv Conv",
        header="%x: float32[n, 2, 6, 6]",
        enable=("SeparateConv",),
    ),
    Example(
        "G23",
        "a channel shuffle costs nothing before Conv",
        """$w: float32[4, 6, 1, 1]
        %a = Reshape(%x, int64[5]{0, 2, 3, 4, 4})
        %b = Transpose(%a, perm=(0, 2, 1, 3, 4))
        %c = Reshape(%b, int64[4]{0, 6, 4, 4})
        %y = Conv(%c, $w)""",
        "Conv",
        header="%x: float32[n, 6, 4, 4]",
    ),
    Example(
        "G23",
        "channels to squares of pixels",
        """%a = Reshape(%x, int64[6]{0, 2, 2, 2, 4, 4})
        %b = Transpose(%a, perm=(0, 3, 4, 1, 5, 2))
        %y = Reshape(%b, int64[4]{0, 2, 8, 8})""",
        "DepthToSpace",
        header="%x: float32[n, 8, 4, 4]",
    ),
    Example(
        "G23",
        "convolutions of parts: one in groups",
        """$a: float32[2, 2, 3, 3]
        $b: float32[2, 2, 3, 3]
        %u, %v = Split(%x, num_outputs=2, axis=1)
        %c = Conv(%u, $a)
        %d = Conv(%v, $b)
        %y = Concat(%c, %d, axis=1)""",
        "Conv",
        header=IMAGE,
    ),
    Example(
        "G23",
        "one in groups: convolutions of parts, on request",
        "$a: float32[4, 2, 3, 3]\n%y = Conv(%x, $a, group=2)",
        "Split Conv Conv Concat",
        header=IMAGE,
        enable=("SplitGroupedConv",),
        disable=("MergeSplitConvs",),
    ),
)
