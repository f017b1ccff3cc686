"""Models of MindSpore of one operator each: layers, an expression of them, and inputs.

`CASES[name]` is (layers, expression, inputs): the layers are text such as `a = nn.ReLU()`, and the
expression is of `self.a`, `x`, `y` and `z`. MindSpore compiles the text of a class, which is why
these are text too.
"""

from __future__ import annotations

import numpy as np

Case = tuple[str, str, list[np.ndarray]]
CASES: dict[str, Case] = {}


def floats(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng(7).uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> np.ndarray:
    return np.random.default_rng(7).integers(low, high, shape).astype(dtype)


def case(name: str, expression: str, *feeds: np.ndarray, layer: str = "") -> None:
    assert name not in CASES, name
    CASES[name] = layer, expression, list(feeds)


def layer(name: str, text: str, *feeds: np.ndarray) -> None:
    arguments = ", ".join("xyz"[: len(feeds)])
    case(f"nn.{name}", f"self.a({arguments})", *feeds, layer=f"a = nn.{text}")


X = floats(2, 3, 4)
IMAGE = floats(2, 4, 7, 9)
POSITIVE = floats(3, 4, low=0.1, high=5)
UNIT = floats(3, 4, low=-0.9, high=0.9)

# -- every element by itself -----------------------------------------------------------------------

FUNCTIONS = """abs ceil cos sin tan exp floor neg relu relu6 sigmoid tanh erf erfc round sign square
    sinh cosh atan asinh trunc silu gelu hardswish hardsigmoid elu selu softsign mish logsigmoid
    reciprocal expm1 leaky_relu celu softshrink hardshrink isnan isfinite"""
for kind in FUNCTIONS.split():
    case(f"ops.{kind}", f"ops.{kind}(x)", X * 2)
for kind in ("log", "sqrt", "rsqrt", "log1p", "log2", "log10"):
    case(f"ops.{kind}", f"ops.{kind}(x)", POSITIVE)
for kind in ("acos", "asin", "atanh"):
    case(f"ops.{kind}", f"ops.{kind}(x)", UNIT)
case("ops.acosh", "ops.acosh(x)", POSITIVE + 1)
case("ops.abs-int", "ops.abs(x)", whole(5))
case("ops.neg-int64", "ops.neg(x)", whole(5, dtype="int64"))
case("ops.round-ties", "ops.round(x)", np.array([0.5, 1.5, -0.5, -2.5, 2.4999], np.float32))
case("ops.gelu-tanh", "ops.gelu(x, approximate='tanh')", X)
case("ops.fast_gelu", "ops.fast_gelu(x)", X)
case("ops.prelu", "ops.prelu(x, y)", X, floats(3))
case("ops.softplus", "ops.softplus(x)", X * 3)
case("ops.glu", "ops.glu(x, 2)", X)
case("ops.threshold", "ops.threshold(x, 0.5, -1.0)", X)
case("ops.hardtanh", "ops.hardtanh(x, -0.5, 0.7)", X)
for text in ("ELU(0.5)", "LeakyReLU(0.3)", "Softmax(1)", "LogSoftmax(-1)", "GELU()", "HSwish()",
             "HSigmoid()", "Tanh()", "Sigmoid()", "Softsign()", "Mish()", "SiLU()",
             "ReLU6()", "LogSigmoid()", "SoftShrink(0.3)", "HShrink(0.4)", "FastGelu()",
             "CELU(0.7)", "SeLU()", "Hardtanh(-1.0, 0.5)", "Threshold(0.1, 2.0)"):  # fmt: skip
    layer(text.partition("(")[0], text, X)
layer("PReLU", "PReLU(3, 0.3)", X)

# -- two operands ----------------------------------------------------------------------------------

for kind in ("add", "sub", "mul", "div", "maximum", "minimum", "floor_div", "floor_mod", "atan2",
             "less", "greater", "equal", "not_equal", "less_equal", "greater_equal",
             "squared_difference", "true_divide", "fmod", "remainder"):  # fmt: skip
    case(f"ops.{kind}", f"ops.{kind}(x, y)", X, floats(4, low=0.5))
    if kind not in ("atan2",):
        feeds = whole(3, 4), np.array([[1], [-2], [3]], np.int32)
        case(f"ops.{kind}-int", f"ops.{kind}(x, y)", *feeds)
case("add-promoted", "x + y", floats(3), whole(2, 3))
case("add-number", "x + 1.5", whole(3))
case("sub-number", "3 - x", X)
case("mul-number", "x * 2", X)
case("div-number", "x / 3", whole(2, 3))
case("floordiv-number", "x // 3", whole(2, 3))
case("mod-number", "x % 3", whole(2, 3))
case("pow-number", "x ** 3", X)
case("pow-base", "2 ** x", X)
case("ops.pow", "ops.pow(x, y)", POSITIVE, floats(4))
case("ops.xlogy", "ops.xlogy(x, y)", X, floats(4, low=0.5))
case("ops.logical_and", "ops.logical_and(x, y)", whole(8) > 0, floats(8) > 0)
case("ops.logical_or", "ops.logical_or(x, y)", whole(8) > 0, floats(8) > 0)
case("ops.logical_xor", "ops.logical_xor(x, y)", whole(8) > 0, floats(8) > 0)
case("ops.logical_not", "ops.logical_not(x)", whole(8) > 0)
case("ops.bitwise_and", "ops.bitwise_and(x, y)", whole(8), whole(8) + 3)
case("ops.bitwise_or", "ops.bitwise_or(x, y)", whole(8), whole(8) + 3)
case("ops.bitwise_xor", "ops.bitwise_xor(x, y)", whole(8), whole(8) + 3)
case("ops.select", "ops.select(x, y, z)", X > 0, X, X * 2)
case("ops.where", "ops.where(x > 0, x, 2.0)", X)
case("ops.masked_fill", "ops.masked_fill(x, y, -1e4)", X, floats(3, 4) > 0)
case("ops.clamp", "ops.clamp(x, -0.5, 0.5)", X)
case("ops.clip_by_value", "ops.clip_by_value(x, -0.5, 0.5)", X)
case("ops.lerp", "ops.lerp(x, y, 0.3)", X, X * 2)
case("ops.addn", "ops.addn([x, y])", X, X * 2)
case("ops.addcmul", "ops.addcmul(x, y, z, 0.5)", X, X * 2, X + 1)
case("ops.hypot", "ops.hypot(x, y)", X, X * 2)
for dtype in ("int32", "float16", "bool_", "int64", "uint8", "float64"):
    case(f"cast-{dtype}", f"ops.cast(x, ms.{dtype})", np.abs(X) * 3)
case("cast-astype", "x.astype(ms.float32) * 0.5", whole(3))

# -- reductions ------------------------------------------------------------------------------------

for kind in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
    case(f"ops.{kind}", "self.a(x, (0, -1))", X, layer=f"a = ops.{kind}(keep_dims=True)")
    case(f"ops.{kind}-all", "self.a(x)", X, layer=f"a = ops.{kind}()")
for kind in ("sum", "mean", "prod", "amax", "amin", "std", "var", "logsumexp"):
    case(f"ops.{kind}", f"ops.{kind}(x, 1)", X)
case("ops.sum-keep", "ops.sum(x, (0, 2), keepdim=True)", X)
case("ops.sum-int", "x.sum(1)", whole(3, 4))
case("ops.mean-all", "x.mean()", X)
case("ops.all", "ops.all(x, 1)", floats(3, 4) > -1)
case("ops.any", "ops.any(x, 1, True)", floats(3, 4) > 1)
case("ops.argmax", "ops.argmax(x, 1)", X)
case("ops.argmax-all", "ops.argmax(x)", X)
case("ops.argmin", "ops.argmin(x, 1, keepdims=True)", X)
case("ops.max", "ops.max(x, 1)", X)
case("ops.min-keep", "ops.min(x, -1, keepdims=True)", X)
case("ops.Argmax", "self.a(x)", X, layer="a = ops.Argmax(1, ms.int32)")
case("ops.ArgMaxWithValue", "self.a(x)", X, layer="a = ops.ArgMaxWithValue(1, True)")
case("ops.ArgMinWithValue", "self.a(x)", X, layer="a = ops.ArgMinWithValue(-1)")
case("ops.cumsum", "ops.cumsum(x, 1)", X)
case("ops.CumSum", "self.a(x, 1)", X, layer="a = ops.CumSum(True, True)")
case("ops.cumprod", "ops.cumprod(x, -1)", X)
case("ops.topk", "ops.topk(x, 2)", X)
case("ops.TopK", "self.a(x, 3)", X, layer="a = ops.TopK(sorted=True)")
case("ops.sort", "ops.sort(x, 1)", X)
case("ops.argsort", "ops.argsort(x, 1, True)", X)
case("ops.norm", "ops.norm(x, dim=1)", X)
case("ops.L2Normalize", "self.a(x)", X, layer="a = ops.L2Normalize(1)")
case("ops.softmax", "ops.softmax(x, 1)", X)
case("ops.log_softmax", "ops.log_softmax(x, 1)", X)
case("ops.count_nonzero", "ops.count_nonzero(x, 1)", np.round(X))

# -- sizes, order and parts ------------------------------------------------------------------------

case("reshape", "x.reshape(2, -1)", X)
case("reshape-shape", "x.reshape(x.shape[0], x.shape[1] * x.shape[2])", X)
case("ops.reshape", "ops.reshape(x, (4, 6))", X)
case("view", "x.view(-1, 2)", X)
case("transpose", "x.transpose(2, 0, 1)", X)
case("ops.transpose", "ops.transpose(x, (0, 2, 1))", X)
case("swapaxes", "x.swapaxes(0, -1)", X)
case("T", "x.T", floats(2, 3))
case("permute", "ops.permute(x, (2, 1, 0))", X)
case("ops.expand_dims", "ops.expand_dims(x, -1)", X)
case("ops.squeeze", "ops.squeeze(x, 1)", floats(2, 1, 3))
case("ops.squeeze-all", "ops.squeeze(x)", floats(2, 1, 3, 1))
case("ops.tile", "ops.tile(x, (2, 1, 3))", X)
case("ops.broadcast_to", "ops.broadcast_to(x, (2, -1, 4))", floats(3, 1))
case("ops.concat", "ops.concat((x, y), 1)", X, X * 2)
case("ops.cat-negative", "ops.cat((x, y), -1)", X, X * 2)
case("ops.stack", "ops.stack((x, y), 1)", X, X * 2)
case("ops.unstack", "ops.unstack(x, 1)", X)
case("ops.unbind", "ops.unbind(x, 0)", X)
case("ops.split", "ops.split(x, 2, 2)", X)
case("ops.split-sizes", "ops.split(x, (1, 3), 2)", X)
case("ops.Split", "self.a(x)", X, layer="a = ops.Split(2, 2)")
case("ops.chunk", "ops.chunk(x, 2, 1)", floats(2, 4))
case("ops.flatten", "ops.flatten(x)", X)
case("ops.flatten-some", "ops.flatten(x, start_dim=1, end_dim=2)", IMAGE)
case("slice", "x[:, 1:3, ::2]", X)
case("slice-negative", "x[:, -2:, :-1]", X)
case("slice-reverse", "x[..., 2]", X)
case("slice-new", "x[:, None, 0]", X)
case("index-tensor", "x[y]", X, np.array([1, 0, 1], np.int64))
case("index-int", "x[1]", X)
case("ops.slice", "ops.slice(x, (0, 1, 1), (2, 2, 3))", X)
case("ops.strided_slice", "ops.strided_slice(x, (1, 2, 3), (0, 0, 0), (-1, -1, -2))", X)
case("ops.StridedSlice-masks", "self.a(x, (0, 1, 0), (1, 2, 3), (1, 1, 2))", X,
     layer="a = ops.StridedSlice(1, 2, 0, 0, 2)")  # fmt: skip
case("ops.flip", "ops.flip(x, (0, 2))", X)
case("ops.ReverseV2", "self.a(x)", X, layer="a = ops.ReverseV2([1])")
case("ops.roll", "ops.roll(x, 2, 1)", floats(3, 5))
case("ops.gather", "ops.gather(x, y, 1)", X, whole(2, 2, low=0, high=3))
case("ops.gather-batch", "ops.gather(x, y, 1, 1)", X, whole(2, 2, low=0, high=3))
case("ops.gather_elements", "ops.gather_elements(x, 1, y)", X, whole(2, 2, 4, low=0, high=3))
case("ops.gather_nd", "ops.gather_nd(x, y)", X, whole(5, 2, low=0, high=2))
case("ops.scatter_nd", "ops.scatter_nd(x, y, (6, 2))", np.array([[1], [4], [1]], np.int32),
     floats(3, 2))  # fmt: skip
case("ops.tensor_scatter_elements", "ops.tensor_scatter_elements(x, y, z, 1)", floats(2, 4),
     whole(2, 1, low=0, high=4), floats(2, 1))  # fmt: skip
case("ops.tensor_scatter_update", "self.a(x, y, z)", floats(4, 2), np.array([[1], [3]], np.int32),
     floats(2, 2), layer="a = ops.TensorScatterUpdate()")  # fmt: skip
case("ops.tensor_scatter_add", "ops.tensor_scatter_add(x, y, z)", floats(4, 2),
     np.array([[1], [1]], np.int32), floats(2, 2))  # fmt: skip
case("ops.index_select", "ops.index_select(x, 1, y)", X, whole(3, low=0, high=3))
case("ops.one_hot", "ops.one_hot(x, 5)", whole(2, 3, low=0, high=5, dtype="int64"))
case("ops.OneHot", "self.a(x, 5, self.b, self.c)", whole(2, 3, low=-1, high=6),
     layer="a = ops.OneHot(1); b = ms.Tensor(2.0, ms.float32); "
     "c = ms.Tensor(-1.0, ms.float32)")  # fmt: skip
case("ops.tril", "ops.tril(x, 1)", floats(4, 4))
case("ops.triu", "ops.triu(x, -1)", floats(4, 4))
case("ops.diag", "ops.diag(x)", floats(3))
case("ops.eye", "x + ops.eye(4, 4, ms.float32)", X[:, :, None] * np.ones((4, 1), np.float32))
case("ops.zeros_like", "ops.zeros_like(x)", X)
case("ops.ones_like", "ops.ones_like(x) + x", X)
case("ops.full", "ops.full((2, 3), 1.5) + x", floats(3))
case("ops.fill", "ops.fill(ms.float32, (2, 3), 2) + x", floats(3))
case("ops.zeros", "ops.zeros((2, 3), ms.float32) + x", floats(3))
case("ops.arange", "ops.arange(3) + x", whole(3, dtype="int64"))
case("ops.linspace", "ops.linspace(0.0, 1.0, 5) + x", floats(5))
case("ops.meshgrid", "ops.meshgrid(x, y)", floats(3), floats(2))
case("ops.repeat_interleave", "ops.repeat_interleave(x, 2, 1)", X)
case("ops.pad", "ops.pad(x, (1, 2, 0, 1))", IMAGE)
case("ops.pad-value", "ops.pad(x, (1, 1), value=3.0)", X)
case("ops.pad-reflect", "ops.pad(x, (1, 2, 2, 1), mode='reflect')", IMAGE)
case("ops.pad-replicate", "ops.pad(x, (1, 2, 2, 1), mode='replicate')", IMAGE)
case("ops.Pad", "self.a(x)", floats(2, 3), layer="a = ops.Pad(((1, 2), (0, 1)))")
case("ops.MirrorPad", "self.a(x, self.b)", floats(3, 4),
     layer="a = nn.Pad(((1, 1), (2, 2)), 'SYMMETRIC').pad; "
     "b = ms.Tensor([[1, 1], [2, 2]])")  # fmt: skip
case("ops.space_to_depth", "self.a(x)", floats(1, 2, 4, 6), layer="a = ops.SpaceToDepth(2)")
case("ops.depth_to_space", "self.a(x)", floats(1, 8, 2, 3), layer="a = ops.DepthToSpace(2)")
case("ops.pixel_shuffle", "ops.pixel_shuffle(x, 2)", floats(1, 8, 2, 3))
case("ops.nonzero", "ops.nonzero(x)", np.round(X))
case("ops.narrow", "ops.narrow(x, 1, 1, 2)", X)

# -- products --------------------------------------------------------------------------------------

case("ops.matmul", "ops.matmul(x, y)", X, floats(4, 5))
case("ops.matmul-vector", "ops.matmul(x, y)", X, floats(4))
case("ops.MatMul", "self.a(x, y)", floats(4, 3), floats(5, 4), layer="a = ops.MatMul(True, True)")
case("ops.BatchMatMul", "self.a(x, y)", X, floats(2, 5, 4),
     layer="a = ops.BatchMatMul(False, True)")  # fmt: skip
case("ops.bmm", "ops.bmm(x, y)", X, floats(2, 4, 5))
case("ops.outer", "ops.outer(x, y)", floats(3), floats(2))
case("ops.dense", "ops.dense(x, y, z)", X, floats(5, 4), floats(5))
case("ops.addmm", "ops.addmm(x, y, z)", floats(2, 3), floats(2, 4), floats(4, 3))
case("ops.einsum-like", "ops.tensor_dot(x, y, 1)", X, floats(4, 2))
layer("Dense", "Dense(4, 5)", X)
layer("Dense-activation", "Dense(4, 5, activation='relu')", X)
layer("Dense-plain", "Dense(4, 5, has_bias=False)", floats(2, 4))
layer("Embedding", "Embedding(7, 3)", whole(2, 3, low=0, high=7))

# -- images ----------------------------------------------------------------------------------------

for text in ("4, 6, 3", "4, 6, 3, pad_mode='valid'", "4, 6, 3, 2", "4, 6, (3, 2), (2, 1)",
             "4, 6, 3, pad_mode='pad', padding=2", "4, 6, 3, pad_mode='pad', padding=(1, 0, 2, 1)",
             "4, 8, 3, group=2, has_bias=True", "4, 4, 3, group=4", "4, 6, 3, dilation=2",
             "4, 6, 1, has_bias=True"):  # fmt: skip
    layer(f"Conv2d({text})", f"Conv2d({text})", IMAGE)
for text in ("4, 6, 3", "4, 6, 3, 2", "4, 6, 3, 2, pad_mode='pad', padding=1",
             "4, 6, 2, 2, pad_mode='valid', has_bias=True", "4, 6, 3, 2, dilation=2"):  # fmt: skip
    layer(f"Conv2dTranspose({text})", f"Conv2dTranspose({text})", IMAGE)
layer("Conv1d", "Conv1d(4, 6, 3, has_bias=True)", floats(2, 4, 9))
layer("Conv1dTranspose", "Conv1dTranspose(4, 6, 3, 2)", floats(2, 4, 9))
layer("Conv3d", "Conv3d(2, 3, 3, has_bias=True)", floats(1, 2, 4, 5, 6))
layer("Conv3dTranspose", "Conv3dTranspose(2, 3, 2, 2, pad_mode='valid')", floats(1, 2, 3, 3, 3))
for text in ("3, 2", "3, 2, 'same'", "(2, 3), (2, 1)", "3, 2, 'pad', 1", "2, 2, 'pad', 1"):
    layer(f"MaxPool2d({text})", f"MaxPool2d({text})", IMAGE)
for text in ("3, 2", "3, 2, 'same'", "(2, 3), (2, 1)"):
    layer(f"AvgPool2d({text})", f"AvgPool2d({text})", IMAGE)
layer("AvgPool2d-pad", "AvgPool2d(3, 2, 'pad', 1)", IMAGE)
layer("AvgPool2d-ceil", "AvgPool2d(3, 2, 'pad', 1, True, False)", IMAGE)
layer("AvgPool1d", "AvgPool1d(3, 2)", floats(2, 4, 9))
layer("MaxPool1d", "MaxPool1d(3, 2)", floats(2, 4, 9))
layer("MaxPool3d", "MaxPool3d(2, 2)", floats(1, 2, 4, 5, 6))
layer("AvgPool3d", "AvgPool3d(2, 2)", floats(1, 2, 4, 5, 6))
layer("AdaptiveAvgPool2d", "AdaptiveAvgPool2d((3, 2))", IMAGE)
layer("AdaptiveAvgPool1d", "AdaptiveAvgPool1d(3)", floats(2, 4, 9))
layer("AdaptiveMaxPool2d", "AdaptiveMaxPool2d((3, 2))", IMAGE)
layer("BatchNorm2d", "BatchNorm2d(4)", IMAGE)
layer("BatchNorm1d", "BatchNorm1d(4)", floats(3, 4))
layer("BatchNorm3d", "BatchNorm3d(2)", floats(1, 2, 3, 4, 5))
layer("LayerNorm", "LayerNorm((4,))", X)
layer("LayerNorm-two", "LayerNorm((3, 4), epsilon=1e-3)", X)
layer("LayerNorm-axes", "LayerNorm((3, 4), 1, 1)", X)
layer("GroupNorm", "GroupNorm(2, 4)", IMAGE)
layer("InstanceNorm2d", "InstanceNorm2d(4)", IMAGE)
layer("Dropout", "Dropout(p=0.5)", X)
layer("Flatten", "Flatten()", IMAGE)
layer("Pad", "Pad(((0, 0), (1, 1), (2, 2)), 'CONSTANT')", X)
layer("ZeroPad2d", "ZeroPad2d((1, 2, 0, 1))", IMAGE)
layer("ReflectionPad2d", "ReflectionPad2d((1, 2, 2, 1))", IMAGE)
layer("Upsample", "Upsample(scale_factor=2.0, mode='nearest', recompute_scale_factor=True)", IMAGE)
for mode, extra in (("nearest", ""), ("bilinear", ""), ("bilinear", ", align_corners=True"),
                    ("bicubic", ""), ("bicubic", ", align_corners=True")):  # fmt: skip
    expression = f"ops.interpolate(x, size=(11, 6), mode='{mode}'{extra})"
    case(f"ops.interpolate-{mode}{extra}", expression, IMAGE)
case("ops.interpolate-linear", "ops.interpolate(x, size=7, mode='linear')", floats(2, 3, 5))
case("ops.ResizeNearestNeighbor", "self.a(x)", IMAGE,
     layer="a = ops.ResizeNearestNeighbor((10, 5))")  # fmt: skip
case("ops.ResizeBilinear-half", "self.a(x, (10, 5))", IMAGE,
     layer="a = ops.ResizeBilinearV2(half_pixel_centers=True)")  # fmt: skip
case("ops.ResizeBilinear", "self.a(x, (10, 5))", IMAGE, layer="a = ops.ResizeBilinearV2()")
case("ops.grid_sample", "ops.grid_sample(x, y)", IMAGE, floats(2, 3, 3, 2, low=-1, high=1))
case("ops.unfold", "ops.unfold(x, 3)", IMAGE)
case("ops.lrn", "ops.lrn(x, 2)", IMAGE)

# -- sequences -------------------------------------------------------------------------------------

layer("LSTM", "LSTM(4, 5)", floats(3, 2, 4))
layer("LSTM-deep", "LSTM(4, 5, 2, bidirectional=True, batch_first=True)", floats(2, 3, 4))
layer("LSTM-plain", "LSTM(4, 5, has_bias=False)", floats(3, 2, 4))
layer("GRU", "GRU(4, 5)", floats(3, 2, 4))
layer("GRU-two", "GRU(4, 5, bidirectional=True)", floats(3, 2, 4))
layer("RNN", "RNN(4, 5)", floats(3, 2, 4))
layer("LSTMCell", "LSTMCell(4, 5)", floats(2, 4))
CASES["nn.LSTMCell"] = ("a = nn.LSTMCell(4, 5)", "self.a(x, (y, z))",
                        [floats(2, 4), floats(2, 5), floats(2, 5)])  # fmt: skip
case("nn.GRUCell", "self.a(x, y)", floats(2, 4), floats(2, 5), layer="a = nn.GRUCell(4, 5)")
case("nn.MultiheadAttention", "self.a(x, x, x)[0]", floats(3, 2, 8),
     layer="a = nn.MultiheadAttention(8, 2)")  # fmt: skip
case("nn.TransformerEncoderLayer", "self.a(x)", floats(2, 3, 8),
     layer="a = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)")  # fmt: skip

# -- mint: torch's names ---------------------------------------------------------------------------

MINT = """abs(x) add(x,y,alpha=2) sub(x,y,alpha=2) argmax(x,1) sum(x,1) mean(x,(0,2),True)
    cumsum(x,1) exp(x) erf(x) gather(x,1,z) matmul(x,y.swapaxes(1,2)) max(x,1) min(x,2,True)
    softmax(x,-1) select(x,1,2) narrow(x,1,0,2) split(x,2,2) chunk(x,2,2) stack((x,y),0)
    cat((x,y),1)
    unsqueeze(x,1) permute(x,(2,0,1)) transpose(x,0,1) flatten(x,1) where(x>0,x,y) clamp(x,-1,1)
    maximum(x,y) masked_fill(x,x>0,2.0) topk(x,2) sort(x,1) tile(x,(2,1,1)) flip(x,(1,)) tril(x[0])
    index_select(x,1,z[0,0]) repeat_interleave(x,2,1) sigmoid(x) tanh(x) rsqrt(x*x+1) pow(x,2)
    zeros_like(x) ones_like(x) bmm(x,y.swapaxes(1,2)) log(x*x+1) logical_not(x>0) isfinite(x) sin(x)
    any(x>0,1) all(x>0,1) prod(x,1) var(x,1) std(x,1) reshape(x,(4,-1)) square(x) neg(x) div(x,y)
    remainder(x,y) floor(x) trunc(x) eq(x,y) gt(x,y) broadcast_to(x,(2,2,3,4)) scatter(x,1,z,y)
    nn.functional.silu(x) nn.functional.relu(x) nn.functional.gelu(x)
    nn.functional.leaky_relu(x,0.2)
    nn.functional.elu(x) nn.functional.hardswish(x) nn.functional.softplus(x) nn.functional.mish(x)
    nn.functional.log_softmax(x,1) nn.functional.hardsigmoid(x) nn.functional.relu6(x)
    nn.functional.logsigmoid(x) nn.functional.pad(x,(1,1)) nn.functional.linear(x,y[0])
    nn.functional.layer_norm(x,(4,)) nn.functional.dropout(x,0.5,False) nn.functional.normalize(x)
    nn.functional.embedding(z[0],y[0]) nn.functional.one_hot(z,5) nn.functional.softshrink(x)"""
for text in MINT.split():
    case(f"mint.{text}", f"mint.{text}", X, floats(2, 3, 4, low=0.5),
         whole(2, 3, 4, low=0, high=3, dtype="int64"))  # fmt: skip
for text in ("Conv2d(4, 6, 3)", "Conv2d(4, 6, 3, 2, 1, bias=False)", "BatchNorm2d(4)", "ReLU()",
             "MaxPool2d(2, 2)", "AvgPool2d(2, 2)", "AdaptiveAvgPool2d((1, 1))", "GroupNorm(2, 4)",
             "Conv2d(4, 8, 3, padding='same', groups=2)", "ConvTranspose2d(4, 6, 3, 2, 1, 1)",
             "Upsample(scale_factor=2.0)", "Upsample(size=(5, 6), mode='bilinear')",
             "ZeroPad2d(1)", "Dropout2d()", "Identity()", "GELU()", "PixelShuffle(2)"):  # fmt: skip
    case(f"mint.nn.{text}", "self.a(x)", IMAGE, layer=f"a = mint.nn.{text}")
