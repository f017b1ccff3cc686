"""Normalizations, with the statistics that the model has stored or those of the operand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.config import Config
from infuse.ir.graph import Array, Value


def _scaling(config: Config) -> list[str]:
    names = ["gamma"] if config.flag("scale", True) else []
    return [*names, "beta"] if config.flag("center", True) else names


def _batch_weights(config: Config) -> list[str]:
    config.require("renorm", False)
    return [*_scaling(config), "moving_mean", "moving_variance"]


def wide(dtype: DType) -> DType:
    """The element type in which numbers of a type are normalized."""
    return dtype if dtype == dtypes.float64 else dtypes.float32


@layer("BatchNormalization", "SyncBatchNormalization", weights=_batch_weights, masking=True)
def batch_normalization(call: KerasCall, x: Value, mask: Value | None = None) -> Value:
    """(x - mean) / √(variance + ε) · γ + β over one axis, with stored statistics, so that a mask
    changes nothing.
    """
    g, config = call.g, call.config
    (axis,) = config.axes("axis", x.rank, -1)
    dtype = wide(call.dtype)
    count = call.needed("moving_mean", 1).shape
    gamma, beta, mean, variance = (
        call.constant(np.ones(count) * start if array is None else array, name, dtype)
        for name, start in (("gamma", 1), ("beta", 0), ("moving_mean", 0), ("moving_variance", 1))
        for array in [call.array(name)]
    )
    order = (*([0] if axis else []), axis, *(i for i in range(1, x.rank) if i != axis))
    if axis == 0 or x.rank < 2:
        raise call.unsupported("a normalization of the batch's own axis")
    values = g.permute(g.cast(x, dtype), *order)
    y = g("BatchNormalization", values, gamma, beta, mean, variance,
          epsilon=config.number("epsilon", 1e-3))  # fmt: skip
    return g.cast(g.permute(y, *np.argsort(order).tolist()), call.dtype)


def _layer_weights(config: Config) -> list[str]:
    if config.flag("rms_scaling"):
        return ["gamma"]
    return _scaling(config)


@layer("LayerNormalization", weights=_layer_weights, masking=True)
def layer_normalization(call: KerasCall, x: Value) -> Value:
    """(x - mean) / √(variance + ε) · γ + β over axes of each row."""
    g, config = call.g, call.config
    axes = sorted(config.axes("axis", x.rank, -1))
    epsilon = config.number("epsilon", 1e-3)
    dtype = wide(call.dtype)
    values = g.cast(call.floats(x), dtype)
    gamma, beta = (_over(call, name, x, axes, dtype) for name in ("gamma", "beta"))
    if config.flag("rms_scaling"):
        variance = _variance(call, values, axes, call.reduced("ReduceMean", values, axes, True))
        y = _scaled(call, values, variance, epsilon, gamma)
    elif axes == list(range(axes[0], x.rank)) and _known(x, axes):
        sizes = tuple(size for size in x.shape[axes[0] :] if isinstance(size, int))
        ones = np.ones(sizes)
        scale = call.constant(ones, dtype=dtype) if gamma is None else g.reshape(gamma, *sizes)
        shift = None if beta is None else g.reshape(beta, *sizes)
        y = g("LayerNormalization", values, scale, shift, axis=axes[0], epsilon=epsilon)
    else:
        mean = call.reduced("ReduceMean", values, axes, True)
        apart = g("Sub", values, mean)
        y = _scaled(call, apart, _variance(call, values, axes, mean), epsilon, gamma)
        y = y if beta is None else g("Add", y, beta)
    return g.cast(y, call.dtype)


def _known(x: Value, axes: Sequence[int]) -> bool:
    return all(isinstance(x.shape[axis], int) for axis in axes)


def _over(call: KerasCall, name: str, x: Value, axes: Sequence[int], dtype: DType) -> Value | None:
    """A weight over some axes, with as many axes as the operand."""
    array = call.array(name)
    if array is None:
        return None
    if array.ndim != len(axes):
        raise ModelFileError(f"its {name} has the shape {list(array.shape)}")
    sizes = dict(zip(axes, array.shape))
    shape = [sizes.get(axis, 1) for axis in range(x.rank)]
    return call.constant(array.reshape(shape), name, dtype)


def _variance(call: KerasCall, x: Value, axes: Sequence[int], mean: Value) -> Value:
    apart = call.g("Sub", x, mean)
    return call.reduced("ReduceMean", call.g("Mul", apart, apart), axes, True)


def _scaled(call: KerasCall, x: Value, square: Value, epsilon: float, gamma: Value | None) -> Value:
    y = call.g("Div", x, call.g("Sqrt", call.g("Add", square, epsilon)))
    return y if gamma is None else call.g("Mul", y, gamma)


@layer("RMSNormalization", weights=lambda config: ["scale"])
def rms_normalization(call: KerasCall, x: Value) -> Value:
    """X / √(mean of x² + ε) · scale."""
    g, axes = call.g, sorted(call.config.axes("axis", x.rank, -1))
    epsilon = call.config.number("epsilon", 1e-6)
    dtype = wide(call.dtype)
    values = g.cast(call.floats(x), dtype)
    scale = _over(call, "scale", x, axes, dtype)
    if axes == [x.rank - 1] and scale is not None and _known(x, axes):
        gamma = g.reshape(scale, x.shape[-1])
        y = g("RMSNormalization", values, gamma, axis=-1, epsilon=epsilon)
    else:
        square = call.reduced("ReduceMean", g("Mul", values, values), axes, True)
        y = _scaled(call, values, square, epsilon, scale)
    return g.cast(y, call.dtype)


@layer("GroupNormalization", weights=_scaling, masking=True)
def group_normalization(call: KerasCall, x: Value) -> Value:
    """Groups of channels, each normalized together with all places."""
    g, config = call.g, call.config
    (axis,) = config.axes("axis", x.rank, -1)
    channels, groups = x.shape[axis], config.whole("groups", 32)
    groups = int(channels) if groups == -1 and isinstance(channels, int) else groups
    if not isinstance(channels, int) or groups < 1 or channels % groups or axis == 0:
        raise ModelFileError(f"{channels} channels do not make {groups} groups")
    dtype = wide(call.dtype)
    order = (0, axis, *(i for i in range(1, x.rank) if i != axis))
    values = g.permute(g.cast(call.floats(x), dtype), *order)
    gamma, beta = (
        call.constant(np.full(channels, start) if array is None else array, name, dtype)
        for name, start in (("gamma", 1.0), ("beta", 0.0))
        for array in [call.array(name)]
    )
    flat = values if values.rank > 2 else call.unsqueezed(values, 2)
    epsilon = config.number("epsilon", 1e-3)
    y = g("GroupNormalization", flat, gamma, beta, num_groups=groups, epsilon=epsilon)
    y = y if values.rank > 2 else call.squeezed(y, 2)
    return g.cast(g.permute(y, *np.argsort(order).tolist()), call.dtype)


@layer("UnitNormalization", masking=True)
def unit_normalization(call: KerasCall, x: Value) -> Value:
    """Rows of length one."""
    g, values = call.g, call.floats(x)
    axes = call.config.axes("axis", x.rank, -1)
    square = call.reduced("ReduceSum", g("Mul", values, values), axes, True)
    return g("Div", values, g("Sqrt", g("Max", square, _smallest(call))))


def _smallest(call: KerasCall) -> float:
    return 1e-24 if call.runner.generation == 3 else 1e-12


def _spectral_weights(config: Config) -> list[str]:
    return ["kernel", "vector_u"]


@layer(
    "SpectralNormalization",
    weights=_spectral_weights,
    children=lambda config: {"layer": config.get("layer")},
)
def spectral_normalization(call: KerasCall, x: Value) -> Value:
    """The layer inside, whose kernel training has normalized."""
    inner = call.layer.children["layer"]
    inner.arrays.setdefault("kernel", call.needed("kernel"))
    y = call.inner("layer", x)
    return call.g.cast(y, x.dtype) if x.dtype.is_float else y


# -- features --------------------------------------------------------------------------------------


def _feature_weights(config: Config) -> list[str]:
    return [] if config.get("mean") is not None else ["mean", "variance", "count"]


@layer("Normalization", weights=_feature_weights, masking=True)
def normalization(call: KerasCall, x: Value) -> Value:
    """(x - mean) / √variance, of features as they were when the layer was adapted."""
    g, config = call.g, call.config
    values = call.floats(x)
    axes = [] if config.get("axis", -1) is None else config.axes("axis", x.rank, -1)
    mean, variance = (_statistic(call, name, x, sorted(axes)) for name in ("mean", "variance"))
    deviation = np.maximum(np.sqrt(variance.astype(np.float32)), 1e-7)
    m, d = (call.constant(np.asarray(each)) for each in (mean, deviation))
    if config.flag("invert"):
        return g("Add", g("Mul", values, d), m)
    return g("Div", g("Sub", values, m), d)


def _statistic(call: KerasCall, name: str, x: Value, axes: Sequence[int]) -> Array:
    array = call.array(name)
    if array is None:
        array = np.asarray(call.config.get(name), np.float32)
    shape = [x.shape[axis] if axis in axes else 1 for axis in range(x.rank)]
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < x.rank or (array.size not in (1, int(np.prod(sizes)))):
        raise ModelFileError(f"its {name} has the shape {list(array.shape)}")
    result: Array = np.broadcast_to(array.reshape(-1), [int(np.prod(sizes))]).reshape(sizes)
    return result


@layer("LayerScale", weights=lambda config: ["gamma"])
def layer_scale(call: KerasCall, x: Value) -> Value:
    """Products with one number for each channel (of `keras.applications`)."""
    return call.g("Mul", call.floats(x), call.weight("gamma", 1))
