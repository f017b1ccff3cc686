"""Primitives that do what an operator of torch does."""

from __future__ import annotations

from typing import Final

from infuse.frontends.mindspore.calls import shared

_SAME_NAMES: Final = """Abs Sin Cos Tan Sinh Cosh Tanh Asinh Acosh Atan Atanh Asin Exp Sqrt Rsqrt
    Square Erf Erfc Expm1 Log1p Log2 Log10 Exp2 Reciprocal Sigmoid Floor Ceil Trunc Neg Sign Frac"""
"""Functions of one tensor whose names are torch's but for the case."""
_EXTENDED: Final = {
    "AsinExt": "asin", "ACos": "acos", "AcosExt": "acos", "AtanExt": "atan", "AsinhExt": "asinh",
    "AcoshExt": "acosh", "ReLU": "relu", "ReLU6": "relu6", "SiLU": "silu", "Inv": "reciprocal",
    "HSwish": "hardswish", "HSigmoid": "hardsigmoid", "Mish": "mish", "MishExt": "mish",
    "LogSigmoid": "log_sigmoid", "IsFinite": "isfinite", "IsNan": "isnan", "IsInf": "isinf",
    "IsNegInf": "isneginf", "LogicalNot": "logical_not", "BitwiseNot": "bitwise_not",
    "SeLUExt": "selu", "SeLU": "selu", "Identity": "clone", "Clone": "clone", "Copy": "clone",
    "Contiguous": "clone", "StopGradient": "clone", "Detach": "clone",
}  # fmt: skip
_TWO: Final = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "RealDiv": "div", "Muls": "mul",
    "Divs": "div", "FloorDiv": "floor_divide", "FloorDivScalar": "floor_divide",
    "FloorMod": "remainder", "Mod": "fmod",
    "TruncateMod": "fmod", "FmodTensor": "fmod", "FmodScalar": "fmod",
    "RemainderTensorTensor": "remainder", "RemainderTensorScalar": "remainder",
    "RemainderScalarTensor": "remainder", "Maximum": "maximum", "Minimum": "minimum",
    "Pow": "pow", "PowTensorScalar": "pow", "PowScalarTensor": "pow", "Atan2": "atan2",
    "Atan2Ext": "atan2", "Less": "lt", "LessEqual": "le", "Greater": "gt", "GreaterEqual": "ge",
    "LessScalar": "lt", "GreaterEqualScalar": "ge", "EqScalar": "eq",
    "Equal": "eq", "NotEqual": "ne", "LogicalAnd": "logical_and", "LogicalOr": "logical_or",
    "LogicalXor": "logical_xor", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "BitwiseAndTensor": "bitwise_and", "BitwiseOrTensor": "bitwise_or",
    "BitwiseXorTensor": "bitwise_xor", "BitwiseAndScalar": "bitwise_and",
    "BitwiseOrScalar": "bitwise_or", "BitwiseXorScalar": "bitwise_xor", "Hypot": "hypot",
    "MaskedFillScalar": "masked_fill", "MaskedSelect": "masked_select", "MatMulExt": "matmul",
    "BatchMatMulExt": "bmm",
    "Mm": "mm", "Mv": "mv", "Dot": "dot", "Outer": "outer",
}  # fmt: skip
"""Functions of two tensors or numbers."""
_OTHERS: Final = {
    "AddExt": "add 0 1 alpha:2", "AddScalar": "add 0 1 alpha:2", "SubExt": "sub 0 1 alpha:2",
    "SubScalar": "sub 0 1 alpha:2", "Select": "where.self 0 1 2", "SelectV2": "where.self 0 1 2",
    "Lerp": "lerp 0 1 2", "LerpScalar": "lerp 0 1 2", "ClampScalar": "clamp 0 1 2",
    "ClampTensor": "clamp 0 1 2", "Addcmul": "addcmul 0 1 2 value:3",
    "Addcdiv": "addcdiv 0 1 2 value:3", "AddcmulExt": "addcmul 0 1 2 value:3",
    "AddcdivExt": "addcdiv 0 1 2 value:3", "Addmm": "addmm 0 1 2 beta:3 alpha:4",
    "Baddbmm": "baddbmm 0 1 2 beta:3 alpha:4", "Dense": "linear 0 1 2",
    "GLU": "glu 0 @axis", "LeakyReLUExt": "leaky_relu 0 1",
    "SoftplusExt": "softplus 0 1 2", "Hardtanh": "hardtanh 0 1 2", "Threshold": "threshold 0 1 2",
    "HShrink": "hardshrink 0 1", "SoftShrink": "softshrink 0 1", "EluExt": "elu 0 1",
    "NanToNum": "nan_to_num 0 1 2 3", "LogSoftmaxExt": "log_softmax.int 0 1 dtype:2",
    "SumExt": "sum 0 1 2 dtype:3", "MeanExt": "mean 0 1 2 dtype:3", "ProdExt": "prod 0 1 2 dtype:3",
    "MaxDim": "max.dim 0 1 2", "MinDim": "min.dim 0 1 2", "Max": "max.default 0",
    "Min": "min.default 0", "ArgMaxExt": "argmax 0 1 2", "ArgMinExt": "argmin 0 1 2",
    "Var": "var.correction 0 1 correction:2 keepdim:3",
    "Std": "std.correction 0 1 correction:2 keepdim:3", "LogSumExp": "logsumexp 0 1 2",
    "CumsumExt": "cumsum 0 1 dtype:2",
    "CountNonZero": "count_nonzero 0 1",
    "LinalgVectorNorm": "linalg_vector_norm 0 1 2 3 dtype:4",
    "SortExt": "sort.stable 0 stable:3 dim:1 descending:2",
    "TopkExt": "topk 0 1 2 3 4", "ArgSort": "argsort.default 0 1 2 _:3",
    "TransposeExtView": "transpose.int 0 1 2", "ExpandDims": "unsqueeze 0 1",
    "ExpandDimsView": "unsqueeze 0 1", "FlattenExt": "flatten 0 1 2", "Narrow": "narrow 0 1 2 3",
    "NarrowView": "narrow 0 1 2 3", "SelectExtView": "select.int 0 1 2",
    "SliceExt": "slice.Tensor 0 1 2 3 4", "SliceExtView": "slice.Tensor 0 1 2 3 4",
    "Chunk": "chunk 0 1 2", "ChunkView": "chunk 0 1 2", "SplitTensor": "split.Tensor 0 1 2",
    "SplitTensorView": "split.Tensor 0 1 2", "SplitWithSize": "split_with_sizes 0 1 2",
    "SplitWithSizeView": "split_with_sizes 0 1 2", "UnstackExtView": "unbind 0 1",
    "StackExt": "stack 0 1", "IndexSelect": "index_select 0 1 2",
    "RepeatInterleaveInt": "repeat_interleave.self_int 0 1 2 output_size:3",
    "TrilExt": "tril 0 1", "Tril": "tril 0 @diagonal", "Triu": "triu 0 1",
    "Diagonal": "diagonal 0 1 2 3",
    "PixelShuffle": "pixel_shuffle 0 1", "Roll": "roll 0 1 2",
    "LayerNormExt": "layer_norm 0 1 2 3 4",
    "BatchNormExt": "batch_norm 0 1 2 3 4 5 6 7", "Embedding": "embedding 1 0 2 _:4 _:5",
    "ConstantPadND": "constant_pad_nd 0 1 2", "ReflectionPad1D": "reflection_pad1d 0 1",
    "ReflectionPad2D": "reflection_pad2d 0 1", "ReflectionPad3D": "reflection_pad3d 0 1",
    "ReplicationPad1D": "replication_pad1d 0 1", "ReplicationPad2D": "replication_pad2d 0 1",
    "ReplicationPad3D": "replication_pad3d 0 1", "Convolution": "convolution 0 1 2 3 4 5 6 7 8",
    "AvgPool1D": "avg_pool1d 0 1 2 3 4 5", "AvgPool2D": "avg_pool2d 0 1 2 3 4 5 6",
    "AdaptiveAvgPool1D": "adaptive_avg_pool1d 0 1",
    "AdaptiveAvgPool2DExt": "adaptive_avg_pool2d 0 1",
    "UpsampleNearest1D": "upsample_nearest1d 0 1 2",
    "UpsampleNearest2D": "upsample_nearest2d 0 1 2",
    "UpsampleNearest3D": "upsample_nearest3d 0 1 2",
    "UpsampleLinear1D": "upsample_linear1d 0 1 3 2",
    "UpsampleBilinear2D": "upsample_bilinear2d 0 1 3 2",
    "UpsampleBicubic2D": "upsample_bicubic2d 0 1 3 2", "Im2ColExt": "im2col 0 1 2 3 4",
    "Col2ImExt": "col2im 0 1 2 3 4 5", "ScatterAddExt": "scatter_add 0 1 2 3",
    "NonZero": "nonzero 0", "ZerosLike": "zeros_like 0", "OnesLike": "ones_like 0",
    "ZerosLikeExt": "zeros_like 0 _:1", "OnesLikeExt": "ones_like 0 _:1",
    "TensorToScalar": "item 0",
}  # fmt: skip
"""As `shared` reads them: the operator, and its arguments."""
_SCALARS: Final = {
    "ScalarAdd": "add", "ScalarSub": "sub", "ScalarMul": "mul", "ScalarDiv": "truediv",
    "ScalarFloorDiv": "floordiv", "ScalarMod": "mod", "ScalarPow": "pow", "scalar_lt": "lt",
    "scalar_gt": "gt", "scalar_le": "le", "scalar_ge": "ge", "scalar_eq": "eq", "ScalarLt": "lt",
    "scalar_add": "add", "scalar_mul": "mul", "ScalarGt": "gt", "ScalarLe": "le", "ScalarGe": "ge",
    "ScalarEq": "eq",
}  # fmt: skip
"""Functions of two numbers, some of which a run computes."""

for _name in _SAME_NAMES.split():
    shared(_name, _name.lower(), "0")
for _name, _target in _EXTENDED.items():
    shared(_name, _target, "0")
for _name, _target in _TWO.items():
    shared(_name, _target, "0", "1")
for _name, _text in _OTHERS.items():
    shared(_name, *_text.split())
for _name, _target in _SCALARS.items():
    shared(_name, f"_operator.{_target}", "0", "1")
