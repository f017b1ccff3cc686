"""Models for rows that find one operator in several: normalizations, activations, attention."""

from tests.pure.row_example import APART, MATRIX, Example

CENTRED = """%m = ReduceMean(%x, int64[1]{-1}, keepdims=1)
%d = Sub(%x, %m)
%q = Mul(%d, %d)
%v = ReduceMean(%q, int64[1]{-1}, keepdims=1)
%e = Add(%v, float32[]{1e-5})
%r = Sqrt(%e)
%n = Div(%d, %r)
"""
COMPOSED = (
    Example(
        "G27",
        "LayerNormalization",
        CENTRED + "$s: float32[4]\n$b: float32[4]\n%o = Mul(%n, $s)\n%y = Add(%o, $b)",
        "LayerNormalization",
        "extended",
        header="%x: float32[2, 3, 4]",
    ),
    Example(
        "G27",
        "LayerNormalization as TensorFlow spells it",
        """%m = ReduceMean(%x, int64[1]{-1}, keepdims=1)
        %d = Sub(%x, %m)
        %q = Mul(%d, %d)
        %v = ReduceMean(%q, int64[1]{-1}, keepdims=1)
        %e = Add(%v, float32[]{1e-5})
        %r = Sqrt(%e)
        %i = Reciprocal(%r)
        $s: float32[4]
        $b: float32[4]
        %k = Mul(%i, $s)
        %o = Mul(%m, %k)
        %p = Sub($b, %o)
        %t = Mul(%x, %k)
        %y = Add(%t, %p)""",
        "LayerNormalization",
        "extended",
        header="%x: float32[2, 3, 4]",
    ),
    Example(
        "G27",
        "InstanceNormalization",
        CENTRED + "$s: float32[3, 1]\n$b: float32[3, 1]\n%o = Mul(%n, $s)\n%y = Add(%o, $b)",
        "InstanceNormalization",
        "extended",
        header="%x: float32[2, 3, 9]",
    ),
    Example(
        "G27",
        "L2Norm",
        """%r = ReduceL2(%x, int64[1]{-1}, keepdims=1)
        %m = Clip(%r, float32[]{1e-12})
        %y = Div(%x, %m)""",
        "LpNormalization",
        "extended",
    ),
    Example(
        "G27",
        "RMSNormalization",
        """%q = Pow(%x, float32[]{2.0})
        %v = ReduceMean(%q, int64[1]{-1}, keepdims=1)
        %e = Add(%v, float32[]{1e-6})
        %r = Sqrt(%e)
        %y = Div(%x, %r)""",
        "RMSNormalization",
        "extended",
        header="%x: float32[2, 3, 4]",
    ),
    Example(
        "G27",
        "GroupNormalization",
        """%g = Reshape(%x, int64[3]{0, 2, -1})
        %i = InstanceNormalization(%g, float32[2]{1.0, 1.0}, float32[2]{0.0, 0.0})
        %y = Reshape(%i, int64[4]{0, 4, 6, 6})""",
        "GroupNormalization",
        "extended",
        header="%x: float32[2, 4, 6, 6]",
    ),
    Example(
        "G27",
        "Softmax",
        """%m = ReduceMax(%x, int64[1]{-1}, keepdims=1)
        %d = Sub(%x, %m)
        %e = Exp(%d)
        %s = ReduceSum(%e, int64[1]{-1}, keepdims=1)
        %y = Div(%e, %s)""",
        "Softmax",
        "extended",
    ),
    Example(
        "G27",
        "GELU by erf",
        """%a = Div(%x, float32[]{1.4142135})
        %e = Erf(%a)
        %b = Add(%e, float32[]{1.0})
        %c = Mul(%x, %b)
        %y = Mul(%c, float32[]{0.5})""",
        "Gelu",
        "extended",
    ),
    Example(
        "G27",
        "GELU by tanh",
        """%a = Pow(%x, float32[]{3.0})
        %b = Mul(%a, float32[]{0.044715})
        %c = Add(%x, %b)
        %d = Mul(%c, float32[]{0.7978846})
        %t = Tanh(%d)
        %e = Add(%t, float32[]{1.0})
        %f = Mul(%x, %e)
        %y = Mul(%f, float32[]{0.5})""",
        "Gelu",
        "extended",
    ),
    Example("G27", "SiLU", "%s = Sigmoid(%x)\n%y = Mul(%x, %s)", "Swish", "extended"),
    Example(
        "G27",
        "HardSwish",
        """%a = Add(%x, float32[]{3.0})
        %b = Clip(%a, float32[]{0.0}, float32[]{6.0})
        %c = Mul(%x, %b)
        %y = Div(%c, float32[]{6.0})""",
        "HardSwish",
        "extended",
    ),
    Example(
        "G27", "Mish", "%a = Softplus(%x)\n%t = Tanh(%a)\n%y = Mul(%x, %t)", "Mish", "extended"
    ),
    Example(
        "G28",
        "PRelu",
        """%a = Relu(%x)
        %n = Neg(%x)
        %b = Relu(%n)
        %c = Mul(%b, float32[4]{0.1, 0.2, 0.3, 0.4})
        %y = Sub(%a, %c)""",
        "PRelu",
        "all",
    ),
    Example(
        "G32",
        "skip + LayerNorm, in ONNX Runtime's operator",
        "$s: float32[4]\n$b: float32[4]\n%t = Add(%x, %z)\n%y = LayerNormalization(%t, $s, $b)",
        "SkipLayerNormalization",
        "extended",
        header="%x: float32[n, 3, 4], %z: float32[n, 3, 4]",
        runtime="onnxruntime",
        enable=("FuseSkipNormalization",),
    ),
    Example(
        "G32",
        "bias + GELU, in ONNX Runtime's operator",
        "$b: float32[4]\n%t = Add(%x, $b)\n%y = Gelu(%t)",
        "BiasGelu",
        "extended",
        header="%x: float32[n, 3, 4]",
        runtime="onnxruntime",
    ),
    Example(
        "G32",
        "an embedding whose types of segments are all one",
        """$t: float32[30, 4]
        $s: float32[2, 4]
        %h = Shape(%i)
        %z = Expand(int64[1, 1]{0}, %h)
        %w = Gather($t, %i)
        %g = Gather($s, %z)
        %y = Add(%w, %g)""",
        "Gather",
        header="%i: int64[b, n]",
    ),
    Example(
        "G32",
        "bias + GELU in the kernel of MatMul",
        MATRIX + "$b: float32[5]\n%a = Add(%p, $b)\n%y = Gelu(%a)",
        "MatMul + Add + Gelu of 3",
        "none",
        native=True,
        off=(APART,),
    ),
    Example(
        "G33",
        "attention",
        """%k = Transpose(%k0, perm=(0, 1, 3, 2))
        %p = MatMul(%x, %k)
        %s = Mul(%p, float32[]{0.5})
        %m = Add(%s, %mask)
        %w = Softmax(%m, axis=-1)
        %y = MatMul(%w, %v)""",
        "Attention",
        "extended",
        header=(
            "%x: float32[b, 3, n, 4], %k0: float32[b, 3, m, 4], %v: float32[b, 3, m, 4], %mask: "
            "float32[n, m]"
        ),
    ),
    Example(
        "G33",
        "attention of heads that share keys and values",
        """%a = Unsqueeze(%k, int64[1]{2})
        %b = Expand(%a, int64[5]{2, 2, 2, 6, 8})
        %c = Reshape(%b, int64[4]{2, 4, 6, 8})
        %d = Unsqueeze(%v, int64[1]{2})
        %e = Expand(%d, int64[5]{2, 2, 2, 6, 8})
        %f = Reshape(%e, int64[4]{2, 4, 6, 8})
        %g = Transpose(%c, perm=(0, 1, 3, 2))
        %p = MatMul(%x, %g)
        %s = Mul(%p, float32[]{0.35})
        %w = Softmax(%s)
        %y = MatMul(%w, %f)""",
        "Attention",
        "extended",
        header="%x: float32[2, 4, 5, 8], %k: float32[2, 2, 6, 8], %v: float32[2, 2, 6, 8]",
    ),
    Example(
        "G33",
        "rotary embedding",
        """%a = Concat(%c, %c, axis=2)
        %b = Concat(%s, %s, axis=2)
        %d = Unsqueeze(%a, int64[1]{1})
        %e = Unsqueeze(%b, int64[1]{1})
        %u = Slice(%x, int64[1]{0}, int64[1]{4}, int64[1]{3})
        %v = Slice(%x, int64[1]{4}, int64[1]{8}, int64[1]{3})
        %w = Neg(%v)
        %r = Concat(%w, %u, axis=3)
        %p = Mul(%x, %d)
        %q = Mul(%r, %e)
        %y = Add(%p, %q)""",
        "RotaryEmbedding",
        "extended",
        header="%x: float32[b, 3, n, 8], %c: float32[b, n, 4], %s: float32[b, n, 4]",
    ),
)
