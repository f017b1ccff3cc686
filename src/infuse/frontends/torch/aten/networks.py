"""Layers: convolutions, products, normalization, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infuse.frontends.torch.calls import TorchImporter, aten
from infuse.ir.graph import Value


def _each(value: int | Sequence[int], count: int) -> list[int]:
    """One number for each of `count` axes."""
    listed = [value] if isinstance(value, int) else list(value)
    return listed * count if len(listed) == 1 else listed


@aten("conv1d.default", "conv2d.default", "conv3d.default")
def conv(
    g: TorchImporter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    """A convolution over the last axes; without a batch where x has an axis less."""
    count = weight.rank - 2
    single = x.rank == count + 1
    pads = _each(padding, count)
    y = g(
        "Conv",
        g("Unsqueeze", x, g.ints(0)) if single else x,
        weight,
        bias,
        strides=tuple(_each(stride, count)),
        pads=(*pads, *pads),
        dilations=tuple(_each(dilation, count)),
        group=groups,
    )
    return g("Squeeze", y, g.ints(0)) if single else y


@aten("linear")
def linear(g: TorchImporter, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """X · weightᵀ + bias."""
    y = g("MatMul", x, g.permute(weight, 1, 0))
    return y if bias is None else g("Add", y, bias)


def _normalized(
    g: TorchImporter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    eps: float,
) -> Value:
    ones = weight or g("Expand", g.number(1, x.dtype), g("Shape", mean))
    zeros = bias or g("Expand", g.number(0, x.dtype), g("Shape", mean))
    return g("BatchNormalization", x, ones, zeros, mean, variance, epsilon=eps)


@aten("_native_batch_norm_legit_no_training")
def native_batch_norm(
    g: TorchImporter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> list[Value | None]:
    """Normalization by stored statistics of each channel; the two other results are empty."""
    return [_normalized(g, x, weight, bias, running_mean, running_var, eps), None, None]


@aten("batch_norm")
def batch_norm(
    g: TorchImporter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    """Normalization by stored statistics of each channel."""
    if training or running_mean is None or running_var is None:
        raise g.unsupported("batch normalization by the statistics of the batch (training mode)")
    return _normalized(g, x, weight, bias, running_mean, running_var, eps)


@aten("max_pool2d")
def max_pool(
    g: TorchImporter,
    x: Value,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Value:
    """The largest element of each window."""
    kernel, pads = _each(kernel_size, 2), _each(padding, 2)
    return g(
        "MaxPool",
        x,
        kernel_shape=tuple(kernel),
        strides=tuple(_each(stride, 2) if stride else kernel),
        pads=(*pads, *pads),
        dilations=tuple(_each(dilation, 2)),
        ceil_mode=int(ceil_mode),
    )
