"""How much arithmetic quantized operators do: integers count as floats do, rounding and limits as
one each.
"""

from __future__ import annotations

from infuse.analysis.arithmetic import MICROSOFT, SOFTMAX, Arithmetic, Call, counts
from infuse.ir import dims

QUANTIZE, DEQUANTIZE = 4, 2
"""Operations on an element: a quotient, rounding, a summand, limits; a difference and a factor."""


@counts("QuantizeLinear")
@counts("QuantizeLinear", domain=MICROSOFT)
def _quantize(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * QUANTIZE)


@counts("DequantizeLinear")
@counts("DequantizeLinear", domain=MICROSOFT)
def _dequantize(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * DEQUANTIZE)


@counts("DynamicQuantizeLinear")
def _dynamic_quantize(call: Call) -> Arithmetic:
    """The least and the largest element besides."""
    return Arithmetic(0, call.made * (QUANTIZE + 2))


@counts("MatMulInteger")
def _integer_product(call: Call) -> Arithmetic:
    return Arithmetic(call.made * call.shape(0)[-1])


@counts("MatMulIntegerToFloat", domain=MICROSOFT)
def _scaled_product(call: Call) -> Arithmetic:
    return Arithmetic(call.made * call.shape(0)[-1], call.made * (1 + int(call.has(6))))


@counts("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_product(call: Call) -> Arithmetic:
    prepared = call.size(0) * (QUANTIZE + 2)
    return Arithmetic(call.made * call.shape(0)[-1], prepared + call.made * (1 + int(call.has(4))))


@counts("QLinearMatMul")
def _quantized_product(call: Call) -> Arithmetic:
    return Arithmetic(call.made * call.shape(0)[-1], call.made * QUANTIZE)


@counts("QGemm", domain=MICROSOFT)
def _quantized_gemm(call: Call) -> Arithmetic:
    depth = call.shape(0)[0 if call.attributes["transA"] else -1]
    return Arithmetic(call.made * depth, call.made * QUANTIZE)


@counts("MatMulNBits", domain=MICROSOFT)
def _blocked_product(call: Call) -> Arithmetic:
    """Weights are dequantized once."""
    depth, width = call.attributes["K"], call.attributes["N"]
    return Arithmetic(call.made * depth, depth * width * DEQUANTIZE)


@counts("ConvInteger")
def _integer_convolution(call: Call) -> Arithmetic:
    return Arithmetic(call.made * dims.product(call.shape(1)[1:]))


@counts("QLinearConv")
def _quantized_convolution(call: Call) -> Arithmetic:
    return Arithmetic(
        call.made * dims.product(call.shape(3)[1:]), call.made * (QUANTIZE + int(call.has(8)))
    )


@counts("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _quantized_binary(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * (2 * DEQUANTIZE + 1 + QUANTIZE))


@counts("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def _quantized_unary(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * (DEQUANTIZE + 4 + QUANTIZE))


@counts("QLinearSoftmax", domain=MICROSOFT)
def _quantized_softmax(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * (DEQUANTIZE + SOFTMAX + QUANTIZE))


@counts("QLinearConcat", domain=MICROSOFT)
def _quantized_concat(call: Call) -> Arithmetic:
    return Arithmetic(0, call.made * (DEQUANTIZE + QUANTIZE))


@counts("QLinearAveragePool", domain=MICROSOFT)
def _quantized_pool(call: Call) -> Arithmetic:
    return Arithmetic(
        0, call.made * (dims.product(call.attributes["kernel_shape"]) + DEQUANTIZE + QUANTIZE)
    )


@counts("QLinearGlobalAveragePool", domain=MICROSOFT)
def _quantized_global_pool(call: Call) -> Arithmetic:
    return Arithmetic(0, call.size(0) + call.made * (DEQUANTIZE + QUANTIZE))
