"""What is exported of PaddlePaddle for the tests: single operators, control flow, small networks.

A case is its inputs and a function of them; `f:N2,3` is a tensor of floats whose first size, 2 when
it runs, is not fixed. Kinds of elements: f (around zero), p (positive), u (from 0 to 1), i (int64),
j (int32), b (truth values), s and t (special floats in two orders, which make all pairs), l (int32
with its limits).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
import paddle.nn.functional as F

Case = tuple[str, Callable[..., Any]]
X, M, IMAGE = "f:N2,3,4", "f:N4,6", "f:N1,3,8,8"

_UNARY = {
    name: (X, getattr(paddle, name))
    for name in (
        *("abs", "ceil", "floor", "round", "sin", "cos", "tanh", "erf", "exp", "sign", "square"),
        *("sinh", "cosh", "atan", "asinh", "isnan", "isinf", "isfinite", "neg", "trunc", "expm1"),
    )
}
_POSITIVE = {
    name: ("p:N2,3,4", getattr(paddle, name))
    for name in ("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "reciprocal", "acosh")
}
_SMALL = {n: ("u:N2,3,4", getattr(paddle, n)) for n in ("asin", "acos", "atanh", "tan")}
_ACTIVATIONS = {
    name: (X, getattr(F, name))
    for name in (
        *("relu", "relu6", "sigmoid", "hardswish", "hardsigmoid", "swish", "silu", "gelu", "mish"),
        *("leaky_relu", "elu", "selu", "celu", "softplus", "softsign", "softmax", "log_softmax"),
        *("hardshrink", "softshrink", "tanhshrink", "thresholded_relu", "hardtanh", "log_sigmoid"),
    )
}
_BINARY = {
    f"{name}-{kind}": (f"{kind}:N2,3,4;{kind}:3,1", getattr(paddle, name))
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "equal", "less_than")
    for kind in {"add": "fij", "maximum": "fi", "equal": "fi"}.get(name, "f")
} | {
    name: ("f:N2,3,4;f:3,4", getattr(paddle, name))
    for name in ("divide", "not_equal", "less_equal", "greater_than", "greater_equal")
}
_REDUCTIONS = {
    f"{name}-{axis}-{keep}": (
        X,
        lambda x, n=name, a=axis, k=keep: getattr(paddle, n)(x, a, keepdim=k),
    )
    for name in ("sum", "mean", "prod", "logsumexp")
    for axis, keep in ((None, False), (-1, True), ([0, 2], False))
    if not (name == "prod" and axis is None)
}


def _shape(x: Any, index: int) -> Any:
    return paddle.shape(x)[index]


def _set(x: Any, y: Any) -> Any:
    return paddle.static.setitem(x * 1, (slice(None), slice(1, 3)), y)


def _set_step(x: Any) -> Any:
    return paddle.static.setitem(x * 1, (slice(None), slice(None, None, 2)), 5.0)


def _grid(x: Any, theta: Any) -> Any:
    return F.grid_sample(x, F.affine_grid(theta, [2, 3, 5, 6], align_corners=True))


def _constant(*shape: int, seed: int = 0, positive: bool = False) -> Any:
    import numpy as np

    elements = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    elements = np.abs(elements) + 0.5 if positive else elements
    init = paddle.nn.initializer.Assign(elements)
    if paddle.in_dynamic_mode():
        return paddle.to_tensor(elements)
    return paddle.create_parameter(list(shape), "float32", default_initializer=init)


def _conv(*shape: int, **options: Any) -> Callable[..., Any]:
    return lambda x: F.conv2d(x, _constant(*shape), _constant(shape[0], seed=1), **options)


def _transposed(*shape: int, **options: Any) -> Callable[..., Any]:
    return lambda x: F.conv2d_transpose(x, _constant(*shape), **options)


def _batch_norm(x: Any, **options: Any) -> Any:
    return F.batch_norm(
        *(x, _constant(3), _constant(3, seed=1, positive=True)),
        *(_constant(3, seed=2), _constant(3, seed=3)),
        **options,
    )


def _pool(kind: str, *places: Any, **options: Any) -> Callable[..., Any]:
    return lambda x: getattr(F, kind)(x, *places, **options)


def _resize(**options: Any) -> Callable[..., Any]:
    return lambda x: F.interpolate(x, **options)


_CONVOLUTIONS: dict[str, Case] = {
    "conv2d": (IMAGE, _conv(4, 3, 3, 3)),
    "conv2d-stride": (IMAGE, _conv(4, 3, 3, 3, stride=2, padding=[1, 2], dilation=2)),
    "conv2d-four": (IMAGE, _conv(4, 3, 3, 3, padding=[0, 1, 2, 0])),
    "conv2d-same": (IMAGE, _conv(4, 3, 3, 3, padding="SAME", stride=2)),
    "conv2d-valid": (IMAGE, _conv(4, 3, 3, 3, padding="VALID")),
    "conv2d-group": ("f:N2,4,6,6", _conv(6, 2, 3, 3, groups=2)),
    "conv2d-depthwise": (IMAGE, _conv(3, 1, 3, 3, groups=3)),
    "conv2d-last": (
        "f:N2,8,8,3",
        lambda x: F.conv2d(x, _constant(4, 3, 3, 3), data_format="NHWC"),
    ),
    "conv1d": ("f:N2,3,9", lambda x: F.conv1d(x, _constant(4, 3, 3), padding=1)),
    "conv3d": ("f:N1,2,4,5,6", lambda x: F.conv3d(x, _constant(3, 2, 2, 2, 2), padding=1)),
    "conv2d_transpose": (IMAGE, _transposed(3, 4, 3, 3, stride=2)),
    "conv2d_transpose-out": (IMAGE, _transposed(3, 4, 3, 3, stride=2, output_padding=1, padding=1)),
    "conv2d_transpose-size": (IMAGE, _transposed(3, 4, 3, 3, stride=2, output_size=[18, 18])),
    "conv2d_transpose-group": ("f:N2,4,5,5", _transposed(4, 2, 3, 3, groups=2, dilation=2)),
    "conv2d_transpose-depth": (IMAGE, _transposed(3, 1, 3, 3, groups=3)),
    "batch_norm": (IMAGE, _batch_norm),
    "batch_norm-rank2": ("f:N4,3", _batch_norm),
    "batch_norm-last": ("f:N2,5,5,3", lambda x: _batch_norm(x, data_format="NHWC")),
    "layer_norm": (X, lambda x: F.layer_norm(x, [4], _constant(4), _constant(4, seed=1))),
    "layer_norm-two": (X, lambda x: F.layer_norm(x, [3, 4], _constant(12))),
    "layer_norm-bare": (X, lambda x: F.layer_norm(x, [4], epsilon=1e-3)),
    "group_norm": (
        "f:N2,6,4,4",
        lambda x: F.group_norm(x, 3, 1e-5, _constant(6), _constant(6, seed=1)),
    ),
    "group_norm-bare": ("f:N2,6,4", lambda x: F.group_norm(x, 2)),
    "instance_norm": (
        IMAGE,
        lambda x: F.instance_norm(x, weight=_constant(3), bias=_constant(3, seed=1)),
    ),
    "instance_norm-bare": (IMAGE, lambda x: F.instance_norm(x)),
    "max_pool": (IMAGE, _pool("max_pool2d", 3, 2, 1)),
    "max_pool-ceil": (IMAGE, _pool("max_pool2d", 3, 2, ceil_mode=True)),
    "max_pool-same": (IMAGE, _pool("max_pool2d", 3, 2, "SAME")),
    "max_pool-mask": (IMAGE, _pool("max_pool2d", 2, 2, return_mask=True)),
    "avg_pool": (IMAGE, _pool("avg_pool2d", 3, 2, 1)),
    "avg_pool-inclusive": (IMAGE, _pool("avg_pool2d", 3, 2, 1, exclusive=False)),
    "avg_pool-ceil": (IMAGE, _pool("avg_pool2d", 3, 2, 1, ceil_mode=True)),
    "avg_pool-ceil-inclusive": (
        IMAGE,
        _pool("avg_pool2d", 3, 2, 1, ceil_mode=True, exclusive=False),
    ),
    "avg_pool-1d": ("f:N2,3,9", _pool("avg_pool1d", 3, 2)),
    "avg_pool-3d": ("f:N1,2,4,5,6", _pool("avg_pool3d", 2, 2)),
    "max_pool-3d": ("f:N1,2,4,5,6", _pool("max_pool3d", 2, 1)),
    "adaptive_avg": (IMAGE, _pool("adaptive_avg_pool2d", 1)),
    "adaptive_avg-odd": (IMAGE, _pool("adaptive_avg_pool2d", [3, 5])),
    "adaptive_avg-even": (IMAGE, _pool("adaptive_avg_pool2d", [4, 2])),
    "adaptive_max": (IMAGE, _pool("adaptive_max_pool2d", [4, 1])),
    "adaptive_max-odd": (IMAGE, _pool("adaptive_max_pool2d", [3, 3])),
    **{
        f"{mode}-{name}": (IMAGE, _resize(mode=mode, **options))
        for mode in ("nearest", "bilinear", "bicubic")
        for name, options in {
            "size": {"size": [12, 5]},
            "scale": {"scale_factor": 2},
            "corners": {"size": [11, 15], "align_corners": True},
            "mode1": {"size": [12, 5], "align_mode": 1},
        }.items()
        if not (mode == "nearest" and name == "corners")
    },
    "linear": ("f:N2,3,7", lambda x: F.interpolate(x, size=[10], mode="linear", data_format="NCW")),
    "bilinear-computed": (
        "f:N2,3,8,8;f:1,1,6,5",
        lambda x, y: F.interpolate(x, paddle.shape(y)[2:], mode="bilinear"),
    ),
    "pixel_shuffle": ("f:N2,8,3,4", lambda x: F.pixel_shuffle(x, 2)),
    "pixel_unshuffle": (IMAGE, lambda x: F.pixel_unshuffle(x, 2)),
    "channel_shuffle": ("f:N2,6,3,4", lambda x: F.channel_shuffle(x, 3)),
    "grid_sample": ("f:2,3,4,4;f:2,2,3", _grid),
    "deform_conv2d": (
        "f:2,4,6,6;f:2,18,4,4;u:2,9,4,4",
        lambda x, o, m: paddle.vision.ops.deform_conv2d(x, o, _constant(3, 4, 3, 3), mask=m),
    ),
    "roi_align": (
        "f:1,3,8,8;u:2,4",
        lambda x, b: paddle.vision.ops.roi_align(
            x, b * 4 + 1, paddle.full([1], 2, "int32"), 2, sampling_ratio=2
        ),
    ),
    "unfold": (IMAGE, lambda x: F.unfold(x, [2, 3], strides=2, paddings=1)),
    "local_response_norm": ("f:N2,5,3,3", lambda x: F.local_response_norm(x, 3)),
    "maxout": ("f:N2,6,3,3", lambda x: F.maxout(x, 2)),
    "prelu": (IMAGE, lambda x: F.prelu(x, _constant(3))),
    "prelu-one": (IMAGE, lambda x: F.prelu(x, _constant(1))),
}
_LINEAR: dict[str, Case] = {
    "matmul": ("f:N2,3,4;f:4,5", paddle.matmul),
    "matmul-turned": ("f:N2,4,3;f:5,4", lambda x, y: paddle.matmul(x, y, True, True)),
    "matmul-vector": ("f:N2,3,4;f:4", paddle.matmul),
    "matmul-turned-vector": ("f:4;f:4,5", lambda x, y: paddle.matmul(x, y, True)),
    "bmm": ("f:2,3,4;f:2,4,5", paddle.bmm),
    "mv": ("f:N3,4;f:4", paddle.mv),
    "dot": ("f:3,4;f:3,4", paddle.dot),
    "addmm": ("f:3,5;f:3,4;f:4,5", lambda i, x, y: paddle.addmm(i, x, y, beta=0.5, alpha=2.0)),
    "linear": (M, lambda x: F.linear(x, _constant(6, 3), _constant(3))),
    "einsum": ("f:N2,3,4;f:2,4,5", lambda x, y: paddle.einsum("bij,bjk->bik", x, y)),
    "outer": ("f:3;f:4", paddle.outer),
    "kron": ("f:2,3;f:3,2", paddle.kron),
    "bilinear": ("f:N2,3;f:2,4", lambda x, y: F.bilinear(x, y, _constant(5, 3, 4))),
    "cos_sim": ("f:N2,3;f:2,3", F.cosine_similarity),
    "p_norm": (M, lambda x: paddle.norm(x, 2, -1)),
    "p_norm-one": (M, lambda x: paddle.norm(x, 1, 0, keepdim=True)),
    "p_norm-inf": (M, lambda x: paddle.norm(x, float("inf"), 1)),
    "p_norm-three": (M, lambda x: paddle.norm(x, 3.0, 1)),
    "norm-fro": (X, lambda x: paddle.norm(x, "fro", [1, 2])),
    "normalize": (M, lambda x: F.normalize(x, axis=1)),
}
_MOVEMENT: dict[str, Case] = {
    "reshape": (X, lambda x: paddle.reshape(x, [0, -1])),
    "reshape-computed": (X, lambda x: paddle.reshape(x, [_shape(x, 0), 12])),
    "reshape-tensor": ("f:N4,6;f:2,12", lambda x, y: paddle.reshape(x, paddle.shape(y))),
    "transpose": (X, lambda x: paddle.transpose(x, [2, 0, 1])),
    "flatten": (X, lambda x: paddle.flatten(x, 1, -1)),
    "flatten-all": (X, paddle.flatten),
    "squeeze": ("f:N2,1,3,1", lambda x: paddle.squeeze(x, [1, -1])),
    "squeeze-all": ("f:2,1,3,1", paddle.squeeze),
    "unsqueeze": (X, lambda x: paddle.unsqueeze(x, [0, -1])),
    "slice": (X, lambda x: x[:, 1:3, -2:]),
    "slice-one": (X, lambda x: x[:, 1]),
    "slice-all": ("f:3", lambda x: x[1]),
    "slice-computed": ("f:N4,6;i:1", lambda x, i: paddle.slice(x, [1], [i * 0 + 1], [5])),
    "slice-tensor": ("f:N4,6;f:3", lambda x, y: paddle.slice(x, [1], [0], [_shape(y, 0)])),
    "strided_slice": (X, lambda x: paddle.strided_slice(x, [1, 2], [2, 0], [0, 4], [-1, 2])),
    "strided-index": (X, lambda x: x[:, ::-1, ::2]),
    "concat": ("f:N2,3;f:2,4", lambda x, y: paddle.concat([x, y], -1)),
    "split": (M, lambda x: paddle.split(x, 3, -1)),
    "split-sections": (M, lambda x: paddle.split(x, [1, -1, 2], 1)),
    "chunk": (M, lambda x: paddle.chunk(x, 2, 1)),
    "stack": ("f:N2,3;f:2,3", lambda x, y: paddle.stack([x, y], -1)),
    "unstack": ("f:3,2", lambda x: paddle.unstack(x, 0)),
    "unbind": ("f:N2,3", lambda x: paddle.unbind(x, 1)),
    "gather": ("f:N5,3;i:4", lambda x, i: paddle.gather(x, i)),
    "gather-axis": ("f:N3,5;i:4", lambda x, i: paddle.gather(x, i, 1)),
    "gather_nd": ("f:4,3,2;i:2,2", paddle.gather_nd),
    "index_select": ("f:N3,5;i:4", lambda x, i: paddle.index_select(x, i, 1)),
    "index_sample": ("f:N3,5;i:3,2", paddle.index_sample),
    "take_along": ("f:N3,5;i:3,2", lambda x, i: paddle.take_along_axis(x, i, 1)),
    "put_along": ("f:3,5;i:3,1;f:3,1", lambda x, i, v: paddle.put_along_axis(x, i, v, 1)),
    "put_along-add": (
        "f:3,5;i:3,2;f:3,2",
        lambda x, i, v: paddle.put_along_axis(x, i, v, 1, "add"),
    ),
    "scatter": ("f:N5,3;i:2;f:2,3", lambda x, i, u: paddle.scatter(x, i + paddle.arange(2), u)),
    "scatter-add": ("f:N5,3;i:4;f:4,3", lambda x, i, u: paddle.scatter(x, i, u, overwrite=False)),
    "scatter_nd_add": ("f:N5,3;i:4,1;f:4,3", paddle.scatter_nd_add),
    "expand": ("f:N2,1,3", lambda x: paddle.expand(x, [4, -1, 5, -1])),
    "expand-computed": ("f:N2,1;f:3,2", lambda x, y: paddle.expand(x, [-1, _shape(y, 0)])),
    "expand_as": ("f:3,1;f:N2,3,4", paddle.expand_as),
    "broadcast_to": ("f:3,1", lambda x: paddle.broadcast_to(x, [2, 3, 4])),
    "tile": (M, lambda x: paddle.tile(x, [2, 1, 3])),
    "tile-less": (X, lambda x: paddle.tile(x, [2])),
    "flip": (X, lambda x: paddle.flip(x, [-1, 0])),
    "roll": (X, lambda x: paddle.roll(x, [1, -1], [1, 2])),
    "roll-flat": ("f:3,4", lambda x: paddle.roll(x, 2)),
    "tril": ("f:N4,4", lambda x: paddle.tril(x, -1)),
    "triu": (X, lambda x: paddle.triu(x, 1)),
    "pad-constant": (IMAGE, lambda x: F.pad(x, [1, 2, 0, 3], value=0.5)),
    "pad-reflect": (IMAGE, lambda x: F.pad(x, [1, 2, 0, 3], mode="reflect")),
    "pad-replicate": (IMAGE, lambda x: F.pad(x, [1, 2, 0, 3], mode="replicate")),
    "pad-circular": (IMAGE, lambda x: F.pad(x, [1, 2, 0, 3], mode="circular")),
    "pad-last": ("f:N2,4,4,3", lambda x: F.pad(x, [1, 2, 0, 3], data_format="NHWC")),
    "pad-all": ("f:N2,3", lambda x: F.pad(x, [1, 0, 0, 2], value=1.0)),
    "pad3d": ("f:N1,2,3,3,3", lambda x: F.pad(x, [1, 0, 0, 2, 1, 1], data_format="NCDHW")),
    "set_value": ("f:N3,5;f:3,2", _set),
    "set_value-step": (M, _set_step),
    "repeat": (M, lambda x: paddle.repeat_interleave(x, 2, 1)),
    "meshgrid": ("f:3;f:4", lambda x, y: paddle.meshgrid(x, y)),
    "diagonal": ("f:N2,3,4", lambda x: paddle.diagonal(x, 1, 1, 2)),
    "moveaxis": (X, lambda x: paddle.moveaxis(x, 0, 2)),
    "rot90": (X, lambda x: paddle.rot90(x, 1, [1, 2])),
}
_NUMBERS: dict[str, Case] = {
    "scale": (X, lambda x: paddle.scale(x, 2.0, 1.0)),
    "scale-after": (X, lambda x: paddle.scale(x, 2.0, 1.0, bias_after_scale=False)),
    "scale-int": ("i:N2,3", lambda x: x * 2 + 3),
    "cast": (X, lambda x: paddle.cast(x * 10, "int32")),
    "cast-bool": (X, lambda x: paddle.cast(paddle.cast(x, "bool"), "float32")),
    "clip": (X, lambda x: paddle.clip(x, -0.5, 0.5)),
    "clip-int": ("i:N2,3", lambda x: paddle.clip(x, 1, 2)),
    "pow": ("p:N2,3", lambda x: paddle.pow(x, 2.5)),
    "pow-tensor": ("p:N2,3;f:3", paddle.pow),
    "floor_divide": ("i:N2,3;i:3", lambda x, y: paddle.floor_divide(x - 3, y + 1)),
    "floor_divide-float": ("f:N2,3;f:3", lambda x, y: paddle.floor_divide(x * 5, y)),
    "mod": ("i:N2,3;i:3", lambda x, y: paddle.mod(x - 3, y + 1)),
    "mod-float": ("f:N2,3;f:3", lambda x, y: paddle.mod(x * 5, y)),
    "fmax": ("f:N2,3;f:3", paddle.fmax),
    "logical": (
        "b:N2,3;b:3",
        lambda x, y: [
            paddle.logical_and(x, y),
            paddle.logical_or(x, y),
            paddle.logical_xor(x, y),
            paddle.logical_not(x),
        ],
    ),
    "bitwise": ("i:N2,3;i:3", lambda x, y: [x & y, x | y, x ^ y, ~x]),
    "where": ("b:N2,3;f:2,3;f:1,3", paddle.where),
    "nonzero": ("b:N4,3", paddle.nonzero),
    "masked_select": ("f:N4,3;b:4,3", paddle.masked_select),
    "cumsum": (X, lambda x: paddle.cumsum(x, -1)),
    "cumsum-flat": ("f:3,4", paddle.cumsum),
    "cumprod": (X, lambda x: paddle.cumprod(x, 1)),
    "argmax": (X, lambda x: paddle.argmax(x, -1)),
    "argmax-keep": (X, lambda x: paddle.argmax(x, 1, keepdim=True, dtype="int32")),
    "argmax-flat": ("f:3,4", paddle.argmax),
    "argmin": (X, lambda x: paddle.argmin(x, 0)),
    "topk": (M, lambda x: paddle.topk(x, 3)),
    "topk-smallest": (M, lambda x: paddle.topk(x, 2, 0, largest=False)),
    "topk-tensor": ("f:N4,6;f:3", lambda x, y: paddle.topk(x, _shape(y, 0))),
    "sort": (M, lambda x: paddle.sort(x, 1, descending=True)),
    "argsort": (M, lambda x: paddle.argsort(x, 0)),
    "unique": ("i:9", lambda x: paddle.unique(x)),
    "any": ("b:N3,4", lambda x: [paddle.any(x, 1), paddle.all(x)]),
    "one_hot": ("i:N5", lambda x: F.one_hot(x, 6)),
    "embedding": ("i:N2,3", lambda x: F.embedding(x, _constant(7, 4))),
    "embedding-padded": ("i:N2,3", lambda x: F.embedding(x, _constant(7, 4), padding_idx=1)),
    "shape": (X, paddle.shape),
    "numel": (X, paddle.numel),
    "arange": ("f:N3,2", lambda x: paddle.arange(0, _shape(x, 0).astype("int64"), 1, "int64")),
    "arange-fixed": ("f:2", lambda x: x[:1] + paddle.arange(1, 7, 2, "float32")),
    "linspace": ("f:2", lambda x: x[:1] + paddle.linspace(0, 3, 7)),
    "full": (X, lambda x: x[:, 0] + paddle.full([1, 4], 2.5)),
    "full-computed": (X, lambda x: paddle.full([_shape(x, 0), 2], 3, "int64")),
    "full_like": (X, lambda x: paddle.full_like(x, 1.5)),
    "zeros_like": ("i:N2,3", lambda x: [paddle.zeros_like(x), paddle.ones_like(x)]),
    "eye": ("f:3,3", lambda x: x + paddle.eye(3)),
    "assign": (X, paddle.assign),
    "constant": ("f:3", lambda x: x + paddle.assign([1.0, 2.0, 3.0])),
    "increment": ("f:1", lambda x: paddle.increment(x * 1, 2.0)),
    "round-half": (X, lambda x: paddle.round(paddle.floor(x * 4) / 2)),
    "floor_divide-mixed": ("i:N2,3;i:3", lambda x, y: paddle.floor_divide(x * 3 - 4, (y + 1) * -1)),
    "divide-int": ("i:N2,3;i:3", lambda x, y: paddle.divide(x * 3 - 4, y + 1)),
    "add-scalar": ("f:;f:2,3", paddle.add),
    "sum-scalar": (
        "f:",
        lambda x: [paddle.sum(x), paddle.max(x, 0), x.reshape([1]), x.unsqueeze(-1)],
    ),
    "cast-down": ("f:N2,3", lambda x: paddle.cast(x, "float16") + 1),
    "cast-double": ("f:N2,3", lambda x: paddle.cast(x, "float64") * 0.1),
    "max-int": ("i:N2,3", lambda x: [paddle.max(x, 1), paddle.min(x), paddle.prod(x, 1)]),
    "slice-behind": (X, lambda x: x[:, :, 2:100]),
    "slice-empty": ("f:2,3", lambda x: x[:, 3:]),
    "topk-ties": ("i:N4,6", lambda x: paddle.topk(x, 3)[0]),
    "argsort-stable": ("i:N3,8", lambda x: paddle.argsort(x, 1, stable=True)),
    "unsqueeze-two": (X, lambda x: paddle.unsqueeze(x, [1, 1, -1])),
    "squeeze-other": ("f:2,1,3", lambda x: paddle.squeeze(x, [0, 1])),
    "flatten-middle": ("f:N2,3,4,5", lambda x: paddle.flatten(x, 1, 2)),
    "gather-column": ("f:N5,3;i:4,1", lambda x, i: paddle.gather(x, i.reshape([-1, 1]))),
    "scatter-same": ("f:N5,3;i:4;f:4,3", lambda x, i, u: paddle.scatter(x, i * 0 + 1, u)),
    "cumsum-backwards": ("f:N3,4", lambda x: paddle.cumsum(x, 0)),
    "expand-open": ("f:N2,1;f:N2,3", lambda x, y: paddle.expand(x, [paddle.shape(y)[0], 3])),
    "softplus-beta": (X, lambda x: F.softplus(x * 20, beta=2.0, threshold=5.0)),
    "thresholded-other": (X, lambda x: F.thresholded_relu(x, 0.5, 0.25)),
    "gather-negative": ("f:N3,5;i:4", lambda x, i: paddle.gather(x, i, -1)),
    "grid_sample-nearest": (
        "f:2,3,4,4;f:2,5,5,2",
        lambda x, g: F.grid_sample(x, g, "nearest", "border", False),
    ),
    "grid_sample-reflect": (
        "f:2,3,4,4;f:2,5,5,2",
        lambda x, g: F.grid_sample(x, g, "bilinear", "reflection", False),
    ),
    "nearest-up": ("f:N1,2,5,7", lambda x: F.interpolate(x, size=[7, 17], mode="nearest")),
    "nearest-down": ("f:N1,2,17,13", lambda x: F.interpolate(x, scale_factor=0.4, mode="nearest")),
    "bilinear-odd": (
        "f:N1,2,7,5",
        lambda x: F.interpolate(x, scale_factor=[1.7, 0.6], mode="bilinear"),
    ),
    "trilinear": (
        "f:N1,2,3,4,5",
        lambda x: F.interpolate(x, size=[4, 3, 6], mode="trilinear", data_format="NCDHW"),
    ),
    "bilinear-last": (
        "f:N1,5,6,3",
        lambda x: F.interpolate(x, size=[7, 9], mode="bilinear", data_format="NHWC"),
    ),
    "pool-last": ("f:N1,6,6,3", lambda x: F.avg_pool2d(x, 2, 2, data_format="NHWC")),
    "max_pool-tall": ("f:N1,2,9,7", lambda x: F.max_pool2d(x, [3, 2], [2, 1], [1, 0])),
    "avg_pool-divisor": ("f:N1,2,7,7", lambda x: F.avg_pool2d(x, 3, 3, 1, ceil_mode=True)),
    "dropout": (X, lambda x: F.dropout(x, 0.3, training=False)),
    "dropout-down": (X, lambda x: F.dropout(x, 0.3, training=False, mode="downscale_in_infer")),
    "gelu-tanh": (X, lambda x: F.gelu(x, approximate=True)),
    "leaky-slope": (X, lambda x: F.leaky_relu(x, 0.3)),
    "softmax-axis": (X, lambda x: F.softmax(x, 1)),
    "glu": ("f:N3,4", lambda x: F.glu(x)),
    "stanh": (X, paddle.stanh),
    "label_smooth": ("u:N3,4", lambda x: F.label_smooth(x)),
    "add_n": ("f:N2,3;f:2,3;f:2,3", lambda *x: paddle.add_n(list(x))),
    "lerp": ("f:N2,3;f:2,3", lambda x, y: paddle.lerp(x, y, 0.3)),
    "attention": (
        "f:N2,4,2,8;f:2,4,2,8;f:2,4,2,8",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=False),
    ),
    "var": (X, lambda x: paddle.var(x, 1)),
    "std": (X, lambda x: paddle.std(x, [1, 2], unbiased=False)),
    "mean-int": ("f:N2,3", lambda x: paddle.mean(x, [])),
    "sum-int": ("i:N2,3", lambda x: paddle.sum(x, 1)),
    "sum-bool": ("b:N2,3", lambda x: paddle.sum(x, 1)),
    "sum-typed": ("j:N2,3", lambda x: paddle.sum(x, 1, dtype="float32")),
    "equal_all": ("f:3;f:3", paddle.equal_all),
    "cross_entropy": ("f:N4,5;i:4", lambda x, i: F.cross_entropy(x, i, reduction="none")),
    "bce": ("u:N4;u:4", lambda x, y: F.binary_cross_entropy(x, y, reduction="none")),
    "sequence_mask": ("i:4", lambda x: F.sequence_mask(x, 5)),
    "temporal_shift": ("f:4,4,2,2", lambda x: F.temporal_shift(x, 2, 0.25)),
    "yolo_box": (
        "f:N1,14,4,4;j:1,2",
        lambda x, s: paddle.vision.ops.yolo_box(x, s * 0 + 64, [10, 13, 16, 30], 2, 0.3, 16),
    ),
    "prior_box": (
        "f:1,3,4,4;f:1,3,32,32",
        lambda x, y: paddle.vision.ops.prior_box(
            x, y, [4.0], [8.0], [1.0, 2.0], flip=True, clip=True
        ),
    ),
    "box_coder": (
        "p:5,4;f:3,5,4",
        lambda p, t: paddle.vision.ops.box_coder(
            p, [0.1, 0.1, 0.2, 0.2], t, "decode_center_size", axis=0
        ),
    ),
}


def _linear_quantizer(name: str, x: Any, scale: Any, zero: Any, axis: int, rounding: int) -> Any:
    if paddle.framework.in_pir_mode():
        call = getattr(paddle._C_ops, name)
        return call(x, scale, zero, None, None, axis, 8, -128, 127, rounding, True, False)[0]
    helper = paddle.base.layer_helper.LayerHelper(name)
    out = helper.create_variable_for_type_inference("float32")
    helper.append_op(
        type=name,
        inputs={"X": x, "Scale": scale, "ZeroPoint": zero},
        outputs={"Y": out},
        attrs={"quant_axis": axis, "bit_length": 8, "round_type": rounding, "is_test": True},
    )
    return out


def _quantized(axis: int, rounding: int, *shape: int) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        scale, zero = _constant(*shape, positive=True), paddle.zeros(list(shape), "float32")
        quantized = _linear_quantizer("quantize_linear", x * 2, scale, zero, axis, rounding)
        real = _linear_quantizer("dequantize_linear", quantized, scale, zero, axis, rounding)
        return [quantized, real]

    return run


_NUMBERS |= {
    "quantize": (M, _quantized(-1, 0, 1)),
    "quantize-away": (M, _quantized(-1, 1, 1)),
    "quantize-channels": ("f:N2,3,4", _quantized(1, 0, 3)),
    "static-fc": (X, lambda x: paddle.static.nn.fc(x, 5, num_flatten_dims=2)),
    "static-fc-one": (X, lambda x: paddle.static.nn.fc(x, 5, activation="relu")),
    "unique-all": ("i:9", lambda x: paddle.unique(x, True, True, True)),
    "unique-rows": ("i:5,2", lambda x: paddle.unique(x, axis=0)),
    "set_value-one": (X, lambda x: paddle.static.setitem(x * 1, (0, slice(1, None)), 2.5)),
    "lstm-lengths": (
        "f:3,5,3",
        lambda x: paddle.nn.GRU(3, 4)(x, sequence_length=paddle.assign([5, 2, 3]).astype("int32")),
    ),
}


def _while_sum(x: Any) -> Any:
    def going(i: Any, s: Any) -> Any:
        return i < 4

    def body(i: Any, s: Any) -> Any:
        return [i + 1, s * 2 + x]

    return paddle.static.nn.while_loop(going, body, [paddle.zeros([], "int64"), x * 0])


def _while_grows(x: Any) -> Any:
    def body(i: Any, s: Any) -> Any:
        return [i + 1, paddle.concat([s, x], 0)]

    start = [paddle.zeros([], "int64"), paddle.assign(x)]
    return paddle.static.nn.while_loop(lambda i, s: i < 3, body, start)[1]


def _cond(x: Any) -> Any:
    return paddle.static.nn.cond(x.sum() > 0, lambda: [x * 2, x[:1]], lambda: [x - 1, x[1:2] * 3])


def _nested(x: Any) -> Any:
    def inner() -> Any:
        return paddle.static.nn.cond(x.max() > 1.5, lambda: x + 10.0, lambda: x + 20.0)

    return paddle.static.nn.cond(x.sum() > 0, inner, lambda: x * 1.0)


def _cond_in_while(x: Any) -> Any:
    def body(i: Any, s: Any) -> Any:
        s = paddle.static.nn.cond(s.sum() > 3, lambda: s * 0.5, lambda: s + x + 1)
        return [i + 1, s]

    start = [paddle.zeros([], "int64"), paddle.assign(x)]
    return paddle.static.nn.while_loop(lambda i, s: i < 5, body, start)[1]


_FLOWS: dict[str, Case] = {
    "while": ("f:N2,3", _while_sum),
    "while-grows": ("f:2,3", _while_grows),
    "cond": ("f:N2,3", _cond),
    "cond-nested": ("f:N2,3", _nested),
    "cond-while": ("f:N2,3", _cond_in_while),
    "case": (
        "f:N2,3;i:1",
        lambda x, i: paddle.static.nn.switch_case(
            i, {0: lambda: x, 1: lambda: x * 2, 3: lambda: -x}
        ),
    ),
}


def _layer(make: Callable[[], Any], *more: Any) -> Callable[..., Any]:
    def run(*x: Any) -> Any:
        layer = make()
        layer.eval()
        return layer(*x)

    return run


nn = paddle.nn
_NETWORKS: dict[str, Case] = {
    "lstm": ("f:N2,5,3", _layer(lambda: nn.LSTM(3, 4))),
    "lstm-two": ("f:N2,5,3", _layer(lambda: nn.LSTM(3, 4, num_layers=2, direction="bidirect"))),
    "lstm-time": ("f:5,2,3", _layer(lambda: nn.LSTM(3, 4, time_major=True))),
    "gru": ("f:N2,5,3", _layer(lambda: nn.GRU(3, 4, direction="bidirect"))),
    "rnn": ("f:N2,5,3", _layer(lambda: nn.SimpleRNN(3, 4))),
    "rnn-relu": ("f:N2,5,3", _layer(lambda: nn.SimpleRNN(3, 4, activation="relu"))),
    "encoder": (
        "f:N2,5,8",
        _layer(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)),
    ),
    "spectral": (
        "f:N2,3",
        _layer(lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))),
    ),
}

_S, _T = "s:N13,13", "t:N13,13"
_LIMITS = "l:N8,8;m:N8,8"


def _wide(x: Any) -> Any:
    """Int64 limits of limits of int32."""
    return paddle.cast(x, "int64") * 4294967297


SPECIAL: dict[str, Case] = {
    **{
        name: (_S, getattr(paddle, name))
        for name in (
            *("abs", "ceil", "floor", "round", "sin", "tanh", "erf", "exp", "sign", "square"),
            *("isnan", "isinf", "isfinite", "trunc", "expm1", "log1p", "rsqrt", "log"),
            *("reciprocal", "atan", "asinh", "neg", "logsumexp"),
        )
    },
    **{
        name: (_S, getattr(F, name))
        for name in (
            *("relu6", "sigmoid", "hardswish", "hardsigmoid", "silu", "gelu", "elu", "softmax"),
            *("leaky_relu", "selu", "softplus", "softsign", "hardtanh"),
        )
    },
    **{
        name: (f"{_S};{_T}", getattr(paddle, name))
        for name in (
            *("add", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "atan2"),
            *("floor_divide", "mod", "pow", "equal", "not_equal", "less_than", "greater_equal"),
        )
    },
    **{
        f"{name}-{axis}": (_S, lambda x, n=name, a=axis: getattr(paddle, n)(x, a))
        for name in ("sum", "max", "min", "cumsum")
        for axis in (0, 1)
    },
    "cast-int64": (_S, lambda x: paddle.cast(x, "int64")),
    "cast-int32": (_S, lambda x: paddle.cast(x, "int32")),
    "unique": ("s:29", lambda x: paddle.unique(x)),
    "unique-all": ("s:4,13", lambda x: paddle.unique(paddle.flatten(x)[5:18])),
    "prod-int": ("j:N2,3", lambda x: paddle.prod(x, 1)),
    "sum-int": ("j:N2,3", lambda x: paddle.sum(x, 1)),
    "floor_divide-tenth": ("u:N2,3", lambda x: paddle.floor_divide(x * 0 + 1, x * 0 + 0.1)),
    "any": ("s:N13,13", lambda x: [paddle.any(x, axis) for axis in (0, 1)]),
    "all": ("t:N13,13", lambda x: [paddle.all(x, axis) for axis in (0, 1)]),
    "any-limits": ("l:N4,8", lambda x: [paddle.any(x, 1), paddle.all(x, 1), paddle.all(x, 0)]),
    "argmax": (
        _S,
        lambda x: [paddle.argmax(x, 1), paddle.argmax(paddle.flip(x, 1), 1), paddle.argmin(x, 1)],
    ),
    "argmax-nan": (_S, lambda x: paddle.argmax(paddle.log(-1 - paddle.abs(x)), 1)),
    "argmax-down": (_T, lambda x: [paddle.argmax(x, 0), paddle.argmin(paddle.flip(x, 0), 0)]),
    "argmax-all": (_T, lambda x: [paddle.argmax(x), paddle.argmin(x)]),
    "expm1-int": ("l:N2,8", lambda x: [paddle.expm1(x), paddle.log1p(paddle.abs(x))]),
    "any-nothing": ("s:N3,0", lambda x: [paddle.any(x, 1), paddle.all(x, 1)]),
    "floor_divide-limits": ("l:N16,8", lambda x: paddle.floor_divide(x, x * 0 + 3)),
    "floor_divide-down": ("l:N16,8", lambda x: paddle.floor_divide(x, x * 0 - 7)),
    "mod-limits": ("l:N16,8", lambda x: paddle.mod(x, x * 0 - 7)),
    "adaptive_max-mask": (IMAGE, _pool("adaptive_max_pool2d", [3, 5], return_mask=True)),
    "adaptive_max-mask-even": (IMAGE, _pool("adaptive_max_pool2d", [4, 2], return_mask=True)),
    "adaptive_max-mask-one": (IMAGE, _pool("adaptive_max_pool2d", 1, return_mask=True)),
    "adaptive_max-mask-ties": (
        IMAGE,
        lambda x: F.adaptive_max_pool2d(paddle.floor(x), [3, 3], return_mask=True),
    ),
    "fmax-limits": (_LIMITS, lambda x, y: [paddle.fmax(x, y), paddle.fmin(x, y)]),
    "fmax-int64": (_LIMITS, lambda x, y: [paddle.fmax(_wide(x), _wide(y)), paddle.trunc(_wide(x))]),
    "pow-limits": (_LIMITS, lambda x, y: [paddle.pow(x, y), paddle.pow(_wide(x), _wide(y % 9))]),
    "matmul-limits": (
        _LIMITS,
        lambda x, y: [paddle.matmul(x, y), paddle.matmul(_wide(x), _wide(y)),
                      F.linear(x % 99999, y % 99999)],
    ),
    "mean-limits": (
        _LIMITS,
        lambda x, y: [paddle.mean(y // 3, 1), paddle.mean(_wide(y), 1), paddle.mean(x % 9),
                      paddle.mean(y[0, 1])],
    ),
    "logsumexp-rows": ("t:N13,13", lambda x: [paddle.logsumexp(x, axis) for axis in (0, 1)]),
    "softshrink": ("s:13", lambda x: [F.softshrink(x), F.thresholded_relu(x), F.hardshrink(x)]),
}  # fmt: skip
"""NaN, zeros of both signs, infinities, limits of integers. Not here are what Paddle's vectors make
of NaN and infinity otherwise than its scalars: sqrt, relu, log_sigmoid, argmax (docs/frontends.md).
"""

OPERATORS: dict[str, Case] = {
    **_UNARY, **_POSITIVE, **_SMALL, **_ACTIVATIONS, **_BINARY, **_REDUCTIONS, **_CONVOLUTIONS,
    **_LINEAR, **_MOVEMENT, **_NUMBERS,
}  # fmt: skip
CASES: dict[str, dict[str, Case]] = {
    "operators": OPERATORS,
    "flows": _FLOWS,
    "networks": _NETWORKS,
    "special": SPECIAL,
}
