"""Normalization, and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten


def _filled(g: TorchImporter, number: int, like: Value, *sizes: Any) -> Value:
    if all(isinstance(size, int) for size in sizes):
        return g.constant(np.full(sizes, number, like.dtype.numpy))
    return g.expand(g.number(number, like.dtype), sizes)


def _channels(g: TorchImporter, x: Value, value: Value | None, number: int) -> Value:
    """A factor or summand of each channel; this number where there is none."""
    return _filled(g, number, x, g.size_of(x, 1)) if value is None else g.cast(value, x.dtype)


def _by_statistics(
    g: TorchImporter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    eps: float,
) -> Value:
    factors = _channels(g, x, weight, 1), _channels(g, x, bias, 0)
    return g("BatchNormalization", x, *factors, mean, variance, epsilon=eps)


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
    empty = g.constant(np.zeros(0, running_mean.dtype.numpy))
    return [_by_statistics(g, x, weight, bias, running_mean, running_var, eps), empty, empty]


@aten("batch_norm", "cudnn_batch_norm")
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
    cudnn_enabled: bool = False,
) -> Value:
    """Normalization by stored statistics of each channel; by those of the batch without them.
    An operand of one axis has no elements.
    """
    if x.rank == 1:
        return x
    if running_mean is None or running_var is None:
        return _by_batch(g, x, weight, bias, eps)[0]
    if training:
        raise g.unsupported("batch normalization that changes its statistics (training mode)")
    return _by_statistics(g, x, weight, bias, running_mean, running_var, eps)


def _by_batch(
    g: TorchImporter, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """X normalized by the statistics of each channel, its means, and 1 / deviations."""
    axes = [axis for axis in range(x.rank) if axis != 1]
    mean = g.reduce("ReduceMean", x, *axes)
    apart = g("Sub", x, mean)
    variance = g.reduce("ReduceMean", g("Mul", apart, apart), *axes)
    inverse = g("Reciprocal", g("Sqrt", g("Add", variance, eps)))
    y = g("Mul", apart, inverse)
    shape = [-1, *[1] * (x.rank - 2)]
    if weight is not None:
        y = g("Mul", y, g.shaped(weight, *shape))
    if bias is not None:
        y = g("Add", y, g.shaped(bias, *shape))
    return y, g.shaped(mean, -1), g.shaped(inverse, -1)


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    g: TorchImporter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Value]:
    """Normalization by the statistics of the batch."""
    return list(_by_batch(g, x, weight, bias, eps))


@aten("_native_batch_norm_legit.default", "native_batch_norm")
def batch_norm_legit(
    g: TorchImporter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Value | None]:
    """Normalization by stored statistics of each channel."""
    if training:
        raise g.unsupported("batch normalization that changes its statistics (training mode)")
    return native_batch_norm(g, x, weight, bias, running_mean, running_var, momentum, eps)


@aten("instance_norm")
def instance_norm(
    g: TorchImporter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Value:
    """Normalization of each channel of each image."""
    if not use_input_stats and running_mean is not None and running_var is not None:
        return _by_statistics(g, x, weight, bias, running_mean, running_var, eps)
    if running_mean is not None:
        raise g.unsupported("instance normalization that changes its statistics (training mode)")
    factors = _channels(g, x, weight, 1), _channels(g, x, bias, 0)
    return g("InstanceNormalization", x, *factors, epsilon=eps)


@aten("group_norm")
def group_norm(
    g: TorchImporter,
    x: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    """Normalization of each group of channels of each image."""
    factors = _channels(g, x, weight, 1), _channels(g, x, bias, 0)
    return g("GroupNormalization", x, *factors, num_groups=num_groups, epsilon=eps)


@aten("native_group_norm")
def native_group_norm(
    g: TorchImporter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    N: Any,
    C: Any,
    HxW: Any,
    group: int,
    eps: float,
) -> list[Value]:
    """Normalization of each group of channels of each image, its means, and 1 / deviations."""
    known = isinstance(C, int) and isinstance(HxW, int)
    rows = g.shaped(x, g.size_of(x, 0), group, C // group * HxW if known else -1)
    mean = g("ReduceMean", rows, g.ints(2), keepdims=1)
    apart = g("Sub", rows, mean)
    variance = g("ReduceMean", g("Mul", apart, apart), g.ints(2), keepdims=1)
    inverse = g("Reciprocal", g("Sqrt", g("Add", variance, eps)))
    y = group_norm(g, x, group, weight, bias, eps)
    return [y, *(g("Squeeze", v, g.ints(2)) for v in (mean, inverse))]


@aten("layer_norm", "native_layer_norm")
def layer_norm(
    g: TorchImporter,
    x: Value,
    normalized_shape: Sequence[Any],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """Normalization over the last axes."""
    scale = _filled(g, 1, x, *normalized_shape) if weight is None else g.cast(weight, x.dtype)
    offset = None if bias is None else g.cast(bias, x.dtype)
    attributes = {"axis": x.rank - len(normalized_shape), "epsilon": eps}
    if len(g.results) == 1:
        return g("LayerNormalization", x, scale, offset, **attributes)
    y, mean, inverse = g.several(3, "LayerNormalization", x, scale, offset, **attributes)
    statistics = (g.cast(v, meta.dtype) for v, meta in zip((mean, inverse), g.results[1:]))
    return [y, *statistics]


@aten("rms_norm")
def rms_norm(
    g: TorchImporter,
    x: Value,
    normalized_shape: Sequence[Any],
    weight: Value | None = None,
    eps: float | None = None,
) -> Value:
    """X over the root of the mean of its squares over the last axes."""
    scale = _filled(g, 1, x, *normalized_shape) if weight is None else g.cast(weight, x.dtype)
    if eps is None:
        computed = np.float64 if x.dtype == dtypes.float64 else np.float32
        eps = float(np.finfo(computed).eps)
    return g("RMSNormalization", x, scale, axis=x.rank - len(normalized_shape), epsilon=eps)


@aten("local_response_norm")
def local_response_norm(
    g: TorchImporter, x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    """X over a power of the squares of neighbouring channels."""
    return g("LRN", x, size=size, alpha=alpha, beta=beta, bias=k)


@aten("embedding")
def embedding(
    g: TorchImporter,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Rows of a table."""
    return g("Gather", weight, indices, axis=0)
