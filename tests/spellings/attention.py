"""Attention with its masks, caches and positions, as exporters write them in parts."""

from __future__ import annotations

import numpy as np

from tests.spellings.form import Form, forms

QKV = "q[2,4,S,8] k[2,4,S,8] v[2,4,S,8]"
CACHED = QKV + " pk[2,4,P,8] pv[2,4,P,8]"
SHARED = "q[2,4,5,8] k[2,2,5,8] v[2,2,5,8]"
LOWEST = -3.4028234663852886e38
SCORES = "s = MatMul(q, Transpose(k, perm=[0, 1, 3, 2]))\n"
LENGTH = "n = Gather(Shape(q), 2)\nr = Unsqueeze(n, [0])\n"
SQUARE = LENGTH + "square = Concat(r, r, axis=0)\n"
PLACES = (
    LENGTH + "keys = Unsqueeze(Range(0, n, 1), [0])\nqueries = Unsqueeze(Range(0, n, 1), [1])\n"
)
JOINED = "kk = Concat(pk, k, axis=2)\nvv = Concat(pv, v, axis=2)\n"
TOTAL = "t = Gather(Shape(kk), 2)\npast = t - n\n"
WEIGH = "y = MatMul(Softmax(s * 0.35355339 + mask, axis=-1), v)"
CHOOSE = f"y = MatMul(Softmax(Where(seen, s * 0.35355339, {LOWEST}), axis=-1), v)"
LATER = "y = MatMul(Softmax(s + mask, axis=-1), vv)"
CACHED_SCORES = "s = MatMul(q, Transpose(kk, perm=[0, 1, 3, 2])) * 0.35355339\n"
TRIANGLE = {"triangle": np.tril(np.ones((1, 1, 64, 64), bool))}

PLAIN = forms(
    *("Attention", QKV, "Attention"),
    ("torch", SCORES + "y = MatMul(Softmax(s / 2.828427, axis=-1), v)"),
    (
        "torch TorchScript of scaled_dot_product_attention",
        """kt = Transpose(k, perm=[0, 1, 3, 2]) * 0.59460355
        y = MatMul(Softmax(MatMul(q * 0.59460355, kt), axis=-1), v)""",
    ),
    ("torch dynamo", SCORES + "y = MatMul(Softmax(s * 0.35355339, axis=-1), v)"),
    ("T5", SCORES + "y = MatMul(Softmax(s, axis=-1), v)"),
    (
        "scaled queries",
        """s = MatMul(q / 2.828427, Transpose(k, perm=[0, 1, 3, 2]))
        y = MatMul(Softmax(s, axis=-1), v)""",
    ),
    (
        "JAX softmax",
        SCORES
        + """x = s * 0.35355339
        e = Exp(x - ReduceMax(x, [3]))
        y = MatMul(e / ReduceSum(e, [3]), v)""",
    ),
    (
        "JAX Einsum",
        """s = Einsum(q, k, equation='bhqd,bhkd->bhqk') * 0.35355339
        y = Einsum(Softmax(s, axis=-1), v, equation='bhqk,bhkd->bhqd')""",
    ),
    ("softmax without NaN", SCORES + """w = Softmax(s * 0.35355339, axis=-1)
        y = MatMul(Where(IsNaN(w), 0.0, w), v)"""),
)  # fmt: skip
CAUSAL = forms(
    *("Causal attention", QKV, "Attention"),
    (
        "torch TorchScript of scaled_dot_product_attention",
        SCORES
        + SQUARE
        + """one = Trilu(Expand(1.0, square), upper=0)
        mask = Where(Equal(one, 0.0), -1e38 * 10.0, 0.0)
        """
        + WEIGH,
    ),
    (
        "torch dynamo",
        SCORES
        + SQUARE
        + f"mask = Where(Trilu(Expand(True, square), upper=0), 0.0, {LOWEST})\n"
        + WEIGH,
    ),
    (
        "torch triu of -inf",
        SCORES + SQUARE + "mask = Trilu(ConstantOfShape(square, value=[-1e39]), 1)\n" + WEIGH,
    ),
    (
        "torch masked_fill",
        SCORES
        + SQUARE
        + """later = Trilu(ConstantOfShape(square, value=[True]), 1)
        y = MatMul(Softmax(Where(later, -1e39, s * 0.35355339), axis=-1), v)""",
    ),
    (
        "Hugging Face, places compared",
        SCORES + PLACES + f"mask = Where(LessOrEqual(keys, queries), 0.0, {LOWEST})\n" + WEIGH,
    ),
    ("Hugging Face, Greater", SCORES + PLACES + "seen = Not(Greater(keys, queries))\n" + CHOOSE),
    ("Hugging Face, masked by a product", SCORES + PLACES
     + f"mask = Cast(Greater(keys, queries), to='float') * {LOWEST}\n" + WEIGH),
    (
        "tf2onnx, 1 - triangle",
        SCORES
        + SQUARE
        + """one = Trilu(Expand(1.0, square), upper=0)
        mask = (1.0 - one) * -1e9
        """
        + WEIGH,
    ),
    ("Keras", SCORES + PLACES + "seen = GreaterOrEqual(queries, keys)\n" + CHOOSE),
    ("Keras counts by sums", SCORES + SQUARE
     + """one = ConstantOfShape(square, value=[1])
        seen = GreaterOrEqual(CumSum(one, 0), CumSum(one, 1))
        """ + CHOOSE),
    ("JAX", SCORES + PLACES + "seen = Less(keys - queries, 1)\n" + CHOOSE),
    ("PaddlePaddle", SCORES + SQUARE + f"mask = Trilu(Expand({LOWEST}, square), 1)\n" + WEIGH),
    ("MXNet", SCORES + PLACES + "mask = Cast(Less(queries, keys), to='float') * -1e30\n" + WEIGH),
)  # fmt: skip
WINDOWS = forms(
    *("Attention in a window", QKV, "Attention"),
    (
        "Mistral",
        SCORES
        + PLACES
        + """seen = And(LessOrEqual(keys, queries), Greater(keys, queries - 4))
        """
        + CHOOSE,
    ),
    (
        "Gemma",
        SCORES
        + SQUARE
        + """one = Expand(True, square)
        seen = And(Trilu(one, upper=0), Trilu(one, -3, upper=1))
        """
        + CHOOSE,
    ),
    (
        "Longformer, both sides",
        SCORES
        + PLACES
        + """apart = keys - queries
        seen = And(LessOrEqual(apart, 2), GreaterOrEqual(apart, -2))
        """
        + CHOOSE,
    ),
    (
        "both sides by Abs",
        SCORES + PLACES + "seen = LessOrEqual(Abs(keys - queries), 2)\n" + CHOOSE,
    ),
)
CACHES = forms(
    *("Cached causal attention", CACHED, "Concat Concat Shape Expand Attention"),
    (
        "torch tril",
        JOINED
        + LENGTH
        + TOTAL
        + """sizes = Concat(r, Unsqueeze(t, [0]), axis=0)
        seen = Trilu(Expand(True, sizes), past, upper=0)
        """
        + f"mask = Where(seen, 0.0, {LOWEST})\n"
        + CACHED_SCORES
        + LATER,
    ),
    (
        "Hugging Face, places compared",
        JOINED
        + LENGTH
        + TOTAL
        + """keys = Unsqueeze(Range(0, t, 1), [0])
        queries = Unsqueeze(Range(past, t, 1), [1])
        """
        + f"mask = Where(LessOrEqual(keys, queries), 0.0, {LOWEST})\n"
        + CACHED_SCORES
        + LATER,
    ),
    (
        "Hugging Face, places added",
        JOINED
        + LENGTH
        + TOTAL
        + """keys = Unsqueeze(Range(0, t, 1), [0])
        queries = Unsqueeze(Range(0, n, 1) + past, [1])
        """
        + f"mask = Where(Greater(keys, queries), {LOWEST}, 0.0)\n"
        + CACHED_SCORES
        + LATER,
    ),
)
TRIANGLES = [
    *forms(
        *(
            "Cached causal attention of GPT-2",
            CACHED,
            "Concat Concat Shape Expand LessOrEqual Assert Attention",
        ),
        (
            "Hugging Face, a triangle sliced twice",
            JOINED
            + LENGTH
            + TOTAL
            + """first = Unsqueeze(past, [0])
            end = Unsqueeze(t, [0])
            seen = Slice(Slice(triangle, first, end, [2]), [0], end, [3])
            """
            + CACHED_SCORES
            + f"y = MatMul(Softmax(Where(seen, s, {LOWEST}), axis=-1), vv)",
        ),
        constants=TRIANGLE,
    ),
    *forms(
        *(
            "Causal attention of GPT-2",
            QKV,
            "Shape Expand LessOrEqual Assert Attention",
        ),
        (
            "Hugging Face, a triangle sliced twice",
            SCORES + LENGTH + "seen = Slice(Slice(triangle, [0], r, [2]), [0], r, [3])\n" + CHOOSE,
        ),
        constants=TRIANGLE,
    ),
]
PADDED = [
    *forms(
        *(
            "Causal attention with padding",
            QKV + " ones[2,S] bool",
            "Shape Gather Range Reshape Reshape LessOrEqual Reshape And Where Attention",
        ),
        (
            "Hugging Face, both in one condition",
            SCORES
            + PLACES
            + "seen = And(LessOrEqual(keys, queries), Unsqueeze(ones, [1, 2]))\n"
            + CHOOSE,
        ),
        refused_by="CausalMask",
        reason="the mask is not known to show a band of keys",
    ),
]
SHARED_HEADS = forms(
    *("Attention with shared heads", SHARED, "Attention"),
    (
        "Llama repeat_kv",
        """kk = Reshape(Expand(Unsqueeze(k, [2]), [2, 2, 2, 5, 8]), [2, 4, 5, 8])
        vv = Reshape(Expand(Unsqueeze(v, [2]), [2, 2, 2, 5, 8]), [2, 4, 5, 8])
        s = MatMul(q, Transpose(kk, perm=[0, 1, 3, 2])) * 0.35355339
        y = MatMul(Softmax(s, axis=-1), vv)""",
    ),
)
HALVES = """a = Slice(x, [0], [4], [3])
b = Slice(x, [4], [8], [3])
"""
ANGLES = """half = MatMul(Unsqueeze(Cast(p, to='float'), [2]), Weights(1, 4))
c = Cos(half)
s = Sin(half)
"""
WHOLE = """half = MatMul(Unsqueeze(Cast(p, to='float'), [2]), Weights(1, 4))
angles = Concat(half, half, axis=-1)
c = Unsqueeze(Cos(angles), [1])
s = Unsqueeze(Sin(angles), [1])
"""
TURNED = [
    *forms(
        *(
            "RotaryEmbedding",
            "x[2,4,5,8] p[2,5] int64",
            "Cast Reshape MatMul Cos Sin RotaryEmbedding",
        ),
        ("Llama rotate_half", WHOLE + HALVES + "y = x * c + Concat(-b, a, axis=-1) * s"),
        (
            "Llama, Split",
            WHOLE + "a, b = Split(x, [4, 4], axis=-1)\ny = Concat(-b, a, axis=-1) * s + x * c",
        ),
    ),
    *forms(
        *(
            "RotaryEmbedding of single halves",
            "x[2,4,5,8] p[2,5] int64",
            "Cast Reshape MatMul Cos Sin RotaryEmbedding",
        ),
        (
            "JAX, halves",
            ANGLES
            + HALVES
            + """cc = Unsqueeze(c, [1])
            ss = Unsqueeze(s, [1])
            y = Concat(a * cc - b * ss, b * cc + a * ss, axis=-1)""",
        ),
        (
            "JAX, Split",
            ANGLES
            + """a, b = Split(x, [4, 4], axis=3)
            cc = Unsqueeze(c, [1])
            ss = Unsqueeze(s, [1])
            y = Concat(a * cc - b * ss, a * ss + b * cc, axis=3)""",
        ),
        (
            "GPT-J, neighbours",
            ANGLES
            + """cc = Unsqueeze(c, [1])
            ss = Unsqueeze(s, [1])
            a = Slice(x, [0], [8], [3], [2])
            b = Slice(x, [1], [8], [3], [2])
            one = Unsqueeze(a * cc - b * ss, [4])
            two = Unsqueeze(b * cc + a * ss, [4])
            y = Reshape(Concat(one, two, axis=4), [2, 4, 5, 8])""",
        ),
    ),
]
FORMS: list[Form] = [
    *PLAIN,
    *CAUSAL,
    *WINDOWS,
    *CACHES,
    *TRIANGLES,
    *PADDED,
    *SHARED_HEADS,
    *TURNED,
]
