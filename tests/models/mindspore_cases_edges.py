"""Edge cases of MindSpore: no axes, negative axes, other types, sizes that are computed.

They are added to `mindspore_cases.CASES`.
"""

from __future__ import annotations

import numpy as np

from tests.models.mindspore_cases import IMAGE, X, case, floats, layer, whole

SCALAR = np.array(0.7, np.float32)
case("scalar-add", "x + y", SCALAR, X)
case("scalar-exp", "ops.exp(x)", SCALAR)
case("scalar-sum", "x.sum()", SCALAR)
case("scalar-reshape", "x.reshape(1, 1)", SCALAR)
case("scalar-expand", "ops.expand_dims(x, 0)", SCALAR)
case("reshape-scalar", "x.reshape(())", floats(1))
case("gather-negative", "ops.gather(x, y, -1)", X, np.array([0, -1, 3], np.int32))
case("gather_elements-negative", "ops.gather_elements(x, -1, y)", X,
     whole(2, 3, 2, low=-4, high=4, dtype="int64"))  # fmt: skip
case("gather_nd-out", "ops.gather_nd(x, y)", floats(3, 4), np.array([[0], [2]], np.int32))
case("transpose-negative", "ops.transpose(x, (-1, 0, 1))", X)
case("concat-int", "ops.concat((x, y), 0)", whole(2, 3), whole(1, 3))
case("stack-negative", "ops.stack((x, y), -1)", X, X * 2)
case("expand_dims-negative", "ops.expand_dims(x, -2)", X)
case("squeeze-negative", "ops.squeeze(x, -2)", floats(2, 1, 3)[..., None, :])
case("cumsum-negative", "ops.cumsum(x, -2)", X)
case("cumsum-int", "ops.cumsum(x, 0)", whole(3, 4))
case("argmax-ties", "ops.argmax(x, 0)", np.array([[1, 2], [1, 0], [0, 2]], np.float32))
case("softmax-0", "ops.softmax(x, 0)", floats(5))
case("max-int", "ops.maximum(x, y)", whole(5, dtype="int64"), whole(5, dtype="int64") + 2)
case("pow-int", "ops.pow(x, y)", whole(5), np.array([2], np.int32))
case("div-int-zero", "ops.floor_div(x, y)", whole(5), np.array([2, -2, 3, -3, 1], np.int32))
case("cast-negative", "ops.cast(x, ms.int8)", floats(9) * 60)
case("bool-sum", "(x > 0).astype(ms.int32).sum()", X)
case("tuple", "(x, (y, x + y), x.shape[0])", X, X)
case("half", "ops.matmul(x.astype(ms.float16), y.astype(ms.float16)).astype(ms.float32)",
     np.round(X), np.round(floats(4, 2)))  # fmt: skip
case("slice-end", "x[..., -1:, 1:-1]", X)
case("index-assign", "ops.select(x > 0, x, ops.zeros_like(x))", X)
case("index-mixed", "x[:, y, 1:]", X, np.array([1, 0, 1], np.int64))
case("index-pairs", "x[y, z]", X, np.array([1, 0, 1]), np.array([2, 0, 1]))
case("index-mask", "x[y]", X, floats(2, 3) > 0)
case("float64", "ops.sin(x) * 2", floats(3).astype(np.float64))
case("uint8", "x + x", whole(3, low=0, high=99, dtype="uint8"))
case("shape-arithmetic", "x.reshape(x.shape[0] * x.shape[1] // 2, 2, -1)", X)
case("zeros-shape", "ops.zeros((x.shape[0], 2), ms.float32) + x[:, :2, 0]", X)
case("arange-shape", "ops.arange(x.shape[1]) + x.sum(0).sum(-1)", X)
case("full-shape", "ops.full((x.shape[0], 3), 2.0, dtype=ms.float32) * x[..., 0]", X)
case("where-numbers", "ops.where(x > 0, 1.0, 0.0)", X)
case("ops.rms_norm", "ops.rms_norm(x, y)[0]", X, floats(4))
case("ops.cosine_similarity", "ops.cosine_similarity(x, y, 1)", X, X + 1)
case("ops.var_mean", "ops.var_mean(x, 1)", X)
case("ops.swapaxes", "ops.swapaxes(x, 0, 2)", X)
case("ops.moveaxis", "ops.moveaxis(x, 0, 2)", X)
case("ops.masked_select", "ops.masked_select(x, y)", X, X > 0)
case("ops.unique", "ops.unique(x)[0]", whole(9))
case("ops.diagonal", "ops.diagonal(x, 0, 1, 2)", X)
case("ops.ResizeLinear", "ops.interpolate(x, size=7, mode='linear', align_corners=True)",
     floats(2, 3, 5))  # fmt: skip
layer("SyncNorm", "BatchNorm2d(4, use_batch_statistics=False)", IMAGE)
layer("Conv2dBnAct", "Conv2dBnAct(4, 6, 3, has_bn=True, activation='relu')", IMAGE)
layer("DenseBnAct", "DenseBnAct(4, 6, has_bn=True, activation='relu')", floats(2, 4))
layer("SequentialCell", "SequentialCell(nn.Dense(4, 5), nn.Tanh(), nn.Dense(5, 2))", X)
layer("Unfold", "Unfold([1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], 'valid')", IMAGE)
layer("PixelShuffle", "PixelShuffle(2)", floats(1, 8, 2, 3))
layer("ChannelShuffle", "ChannelShuffle(2)", IMAGE)
layer("LRN", "LRN(2)", IMAGE)
layer("TransformerDecoderLayer", "TransformerDecoderLayer(8, 2, 16)", floats(3, 2, 8),
      floats(4, 2, 8))  # fmt: skip
layer("RNN-relu", "RNN(4, 5, nonlinearity='relu')", floats(3, 2, 4))
layer("RNNCell", "RNNCell(4, 5)", floats(2, 4), floats(2, 5))
layer("LSTM-two-layers", "LSTM(4, 5, 2)", floats(3, 2, 4))
layer("EmbeddingLookup", "EmbeddingLookup(7, 3)", whole(2, 3, low=0, high=7))
layer("CosineSimilarity", "CosineSimilarity(1)", X, X + 1)
