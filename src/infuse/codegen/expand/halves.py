"""Half-precision floats: kernels compute in float32, so their operands are widened and their results rounded."""

from __future__ import annotations

from infuse import dtypes
from infuse.codegen.expand.composer import Composer, Results, expands
from infuse.codegen.formulas import is_half
from infuse.ir.graph import Node, Value
from infuse.ir.types import TensorType
from infuse.ops.training import DOMAIN as TRAINING

_COMPUTING = (
    *("Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum", "Attention", "RotaryEmbedding", "Resize"),
    *("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization"),
    *("LpNormalization", "Softmax", "LogSoftmax", "Hardmax", "LRN", "MeanVarianceNormalization"),
    *("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"),
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2"),
    *("DFT", "STFT", "Det", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
    *("LinearAttention", "CausalConvWithState"),
    *("ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin", "CumSum", "CumProd", "TopK", "Range"),
    *("RNN", "GRU", "LSTM"),
    "SimplifiedLayerNormalization",
)
_COMPUTING_IN_RUNTIME = (
    *("FusedConv", "FusedGemm", "FusedMatMul", "BiasSoftmax", "SkipLayerNormalization"),
    *("SkipSimplifiedLayerNormalization", "Attention", "MultiHeadAttention", "GroupQueryAttention", "RotaryEmbedding"),
)
"""Those of ONNX Runtime's own (domain com.microsoft)."""


@expands(*_COMPUTING_IN_RUNTIME, domain="com.microsoft")
@expands("Adagrad", "Adam", "Momentum", domain=TRAINING)
@expands(*_COMPUTING)
def widen(make: Composer, node: Node) -> Results:
    if not any(is_half(v.dtype) for v in (*node.operands(), *node.outputs)):
        return None
    inputs = [v if v is None or not is_half(v.dtype) else make.cast(v, dtypes.float32) for v in node.inputs]
    found = make.apply(node.op, inputs, len(node.outputs))
    for new, old in zip(found, node.outputs):
        new.type = TensorType(new.dtype, old.shape)
    return [_narrowed(make, new, old) for new, old in zip(found, node.outputs)]


def _narrowed(make: Composer, new: Value, old: Value) -> Value | None:
    return make.cast(new, old.dtype) if old.uses else None
