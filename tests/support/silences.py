"""Where the text of ONNX is silent: what Infuse gives, for docs/operators.md."""

from __future__ import annotations

from typing import Final

_ROWS: Final = (
    (
        "shapes that a file states for outputs",
        "the result's own, with a warning where they differ",
        "exporters write those of one example",
    ),
    (
        "Cast of floats that the integer type does not hold",
        (
            "the least integer of 64 bits (uint32: its low ones), of 32 bits for int32 and the low "
            "ones of that for narrower types; for uint64 what lies below 2⁶⁴ stays"
        ),
        "ONNX Runtime's answer depends on the processor",
    ),
    (
        "Max, Min, Clip, Relu of zeros of both signs",
        "the first of equal operands: Relu(-0) is -0",
        "ONNX Runtime's order depends on its vectors",
    ),
    (
        "Max, Min, ReduceMax, pools beside NaN",
        "NaN",
        "ONNX Runtime's answer depends on places and threads",
    ),
    (
        "Pow of integers that leave their type",
        "wraps around; negative powers are cut off to 0, but for those of 1 and -1",
        "ONNX Runtime goes through float64, whose conversion depends on the processor",
    ),
    ("Pow(-∞, 0.5)", "∞, as C and NumPy have it", "ONNX Runtime takes the root, which is NaN"),
    (
        "Resize by scales with a rest (1.5 · 3)",
        "align_corners and tf_crop_and_resize count by the whole size after",
        "as ONNX Runtime, PyTorch and Paddle; onnx.reference counts by the product",
    ),
    (
        "GridSample, cubic with border",
        "taps outside take the nearest pixel; the place is not moved",
        "as ONNX Runtime, PyTorch and OpenVINO",
    ),
    (
        "ReduceMean of int64",
        "the sum wraps around in 64 bits and is divided once: exact below 2⁶³",
        "ONNX Runtime adds in float64, which has 53 bits, and ends at the limits",
    ),
    (
        "GridSample with a grid of 16 bits",
        "places are computed in float32",
        "PyTorch on CPUs rounds each step to 16 bits, which finds other pixels",
    ),
    (
        "mode, kthvalue of PyTorch: which of equal elements is named",
        "the last one; they rank in the order of their places",
        "PyTorch's depends on how it partitions, from some 16 elements on",
    ),
    (
        "histc, scaled sums, attention, bags of 16 bits in PyTorch",
        (
            "a number or tensor without axes beside `mul`, `div`, `addcmul`, `addcdiv`, `lerp` "
            "counts as float32; `histc` rounds each step, the others once"
        ),
        "as PyTorch 2.13",
    ),
    (
        (
            "logsumexp, log_softmax, prod, mse_loss, rsqrt, deg2rad, addbmm, addr, bilinear, "
            "transposed convolutions of 16 bits"
        ),
        "rounded once, or as often as they have steps",
        (
            "PyTorch 2.13 gives the number beside, or, for logarithms near 0, other digits: "
            "-0.00098 for -0.00091"
        ),
    ),
    (
        "layer_norm of one element of 16 bits",
        "0",
        "PyTorch 2.13 gives 0.0001 for -7.5",
    ),
    (
        "unique_consecutive along the only axis",
        "places and counts also where not asked for",
        "an exported program of PyTorch states them; in eager mode they are empty",
    ),
    (
        "matrix_exp of 16 bits",
        "that of float32, rounded",
        "PyTorch 2.13 on CPUs gives other numbers: -21072 where e⁰ stands",
    ),
    (
        "QLinearAdd, QLinearMul (com.microsoft)",
        (
            "scales put together first, rounded when the zero point has been added; QLinearAdd "
            "adds b's product to what the zero points make, then a's, each rounded once"
        ),
        (
            "as ONNX Runtime 1.31 on processors with AVX2, bit for bit; QuantizeLinear and all "
            "others round before. Where a is one number to many of b, ONNX Runtime exchanges "
            "them: one step within a rounding of an exact half (of 122,880 bytes 64)"
        ),
    ),
    (
        "QLinearGlobalAveragePool (com.microsoft), also of windows as large as the image",
        "the sum of the bytes, times one factor, rounded before the zero point is added",
        "as ONNX Runtime",
    ),
    (
        "QLinearAveragePool (com.microsoft)",
        "the mean of the numbers in float32, rounded when the zero point has been added",
        "as ONNX Runtime",
    ),
    (
        "QLinearSoftmax (com.microsoft) with a scale that is not a fraction of one",
        "the softmax over the scale",
        "the formula; ONNX Runtime 1.31 takes the whole part of 1 / scale",
    ),
    (
        "DynamicQuantizeLinear, DynamicQuantizeMatMul of NaN and ∞",
        "NaN takes part in the range, as in the formula",
        "ONNX Runtime 1.31 leaves NaN out of the range",
    ),
    (
        "a query of attention that sees keys, all scores of which are -∞",
        "NaN; zeros where it sees no key",
        (
            "softmax, as ONNX Runtime; its causal MultiHeadAttention weighs later keys where the "
            "bias of all that a query sees is -∞"
        ),
    ),
    (
        "scores of attention that is causal, or over a window, at keys outside",
        "not looked at, also where they are NaN",
        "as ONNX Runtime's GroupQueryAttention; its Attention and MultiHeadAttention give NaN",
    ),
    (
        "GroupQueryAttention (com.microsoft) with scores that are NaN or ∞",
        "NaN, as softmax has it",
        "ONNX Runtime 1.31 gives zeros to queries that do not see the last key, and NaN to others",
    ),
    (
        "MultiHeadAttention, Attention (com.microsoft): keys with an `attention_bias` of -∞",
        "weighed by zero, unless their scores are NaN or ∞",
        "as ONNX Runtime, which adds it",
    ),
    (
        "MultiHeadAttention (com.microsoft) with a past and without named present keys and values",
        "the formula; a file that Infuse writes names them",
        "ONNX Runtime 1.31 and 1.32 then give other numbers, which differ from run to run",
    ),
    (
        "SkipLayerNormalization (com.microsoft) of sums and squares that leave float32",
        "as if they did not",
        "ONNX Runtime gives NaN, and NaN for a mean that is ∞",
    ),
    (
        "RoiAlign, DeformConv beside pixels that are not finite",
        "pixels of weight 0 count: 0 · ∞ is NaN; RoiAlign's points outside weigh the first pixel 0",
        "as ONNX Runtime and torchvision",
    ),
    ("Det of a matrix with NaN", "NaN; zeros are positive", "as ONNX Runtime"),
    (
        "CumSum of zeros",
        "the first sum is the first element: -0 stays",
        "as ONNX Runtime; PyTorch begins at +0",
    ),
)
_NATIVE: Final = (
    (
        "results below the smallest normal number, also between",
        "zero on x86, of the same sign after a product; what is divided by it, ∞ or NaN",
        "each would take over a hundred cycles ([decision 21](decisions/021-subnormal-numbers.md))",
    ),
    (
        "sums, squares and states that leave float32 between",
        "∞ or NaN, also where the result itself has a place (norms, Mean, variances, recurrences)",
        "kernels compute in float32, the interpreter often in float64",
    ),
    (
        "the sign of a zero among zeros: ReduceMax, ReduceMin, pools, RoiAlign, Resize",
        "either",
        (
            "which is found first depends on the vectors, as it does in NumPy and ONNX Runtime; "
            "sums of -0 begin with 0 or not"
        ),
    ),
    (
        "DFT, STFT, Det of lines and matrices with NaN or ∞; signs of zeros of DFT, STFT",
        "NaN or ∞, where the algorithm leads",
        "it follows from the factors of a transform and the order of an elimination",
    ),
    (
        "Conv of images with NaN or ∞, with filters of 3 × 3 and more, or several groups",
        "NaN also up to 5 pixels beside it, and in the groups beside",
        (
            "Winograd computes blocks of pixels from sums of them; groups of few channels are "
            "computed together, each with weights of 0 for the others"
        ),
    ),
    (
        "Conv with filters that are not finite, at the edges",
        "NaN, as 0 · ∞ is, or as if there were no pads",
        (
            "a kernel leaves out pads, or multiplies them; ONNX Runtime multiplies, OpenVINO and "
            "PyTorch leave them out where channels have filters of their own"
        ),
    ),
    (
        "ConvTranspose of images, or with filters, that are not finite",
        "NaN also where they meet the zeros between pixels",
        "it runs as a convolution",
    ),
    (
        "Einsum of three and more operands, or with sums over one, beside ∞",
        "NaN or ∞",
        "which sums are formed first decides whether infinities cancel",
    ),
    (
        "attention with values that are not finite at keys that a query does not see",
        "NaN, or as if they were not there",
        "blocks of keys that no query sees are left out, others are weighed by 0",
    ),
    (
        "x / c for a constant c, at level `all`",
        "x · (1 / c): to the last bit or the one before",
        "`DivideByConstant`; without optimization exact",
    ),
    (
        "QuantizeLinear of scaled sums of integers (QLinearConv, QDQ) within a rounding of a half",
        "either neighbour",
        "scales are put together, or taken as a reciprocal; all else is a true division",
    ),
    (
        "QLinearAveragePool within a rounding of an exact half; where sizes are open, of the image",
        "either neighbour: of windows of 4 to 143 pixels one in 5,000 was seen",
        "kernels sum a window by columns or by lines",
    ),
    (
        "a product of floats that is added to something (x · y + z)",
        "rounded once or twice",
        "a compiler may put the two together",
    ),
    ("x + 0, from `basic` on", "x: -0 stays -0", "`RemoveNeutral`"),
    (
        "log(1 + eˣ), from `extended` on",
        "Softplus(x), which is finite where eˣ is not",
        "`FuseSoftplus`",
    ),
)
_HEAD: Final = "| where | what Infuse gives | why |\n|---|---|---|\n"


def silences() -> str:
    """The two tables, with their heads."""
    first, second = (
        "".join(f"| {' | '.join(row)} |\n" for row in rows) for rows in (_ROWS, _NATIVE)
    )
    return (
        f"\n## Where the text is silent\n{_HEAD}{first}"
        "\nThe interpreter and native code give the same, within the accuracy of the tables above. "
        "An optimized graph, and compiled code, may give something else here:\n\n"
        f"{_HEAD}{second}"
    )
