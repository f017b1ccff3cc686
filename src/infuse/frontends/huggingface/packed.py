"""Packed weights of quantized folders (AWQ, GPTQ, compressed-tensors, bitsandbytes), read in the
form that kernels take.

Sources: the documentation of transformers on these methods, and of the projects that write them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.huggingface.bits import unpacked
from infuse.frontends.malformed import wellformed
from infuse.immutable import Immutable
from infuse.ir.graph import Array
from infuse.ops.core.weight_blocks import Floats, Parts

_AWQ_ORDER: Final = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where the eight numbers of a word lie, from the lowest bits."""
_MOST_STATE: Final = 1 << 16
_FP8: Final = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)


class PackedLinear(Immutable, eq=False):
    """The weight of a linear layer, (out, in). `order`: which input each column of the parts takes,
    int64 (in), where that is not their own order.

    Exact for scales of 16 bits; scales of float32 with zero points are rounded in the offset.
    """

    parts: Parts
    order: npt.NDArray[np.int64] | None = None

    def weights(self) -> Floats:
        """The weight in float32, its columns in the order of the inputs."""
        weights = self.parts.weights()
        if self.order is None:
            return weights
        result = np.empty_like(weights)
        result[:, self.order] = weights
        return result


class PackedWeights:
    """The packed layers of a folder. `config`: `quantization_config` of its configuration;
    `arrays`: its tensors by name.

    UnsupportedOperatorError for a method or a layout that is not known.
    """

    def __init__(self, config: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        method = config.get("quant_method")
        if not isinstance(method, str) or method not in _METHODS:
            raise UnsupportedOperatorError(
                f"quantization_config says quant_method = {method!r}",
                hint=f"there are {', '.join(_METHODS)}",
            )
        self._read, self._marks = _METHODS[method]
        self._config, self._arrays = config, arrays

    def linear(self, name: str) -> PackedLinear | None:
        """The weight of the layer of this name; None where it is not packed. ModelFileError where
        its tensors do not fit.
        """
        if not any(f"{name}.{mark}" in self._arrays for mark in self._marks):
            return None
        with wellformed(f"layer {name!r}", "its packed weight", "fetch the model again"):
            return self._read(self._config, _Layer(name, self._arrays))


class _Layer:
    """The tensors of a layer."""

    def __init__(self, name: str, arrays: Mapping[str, Array]) -> None:
        self._name, self._arrays = name, arrays

    def get(self, name: str) -> Array | None:
        return self._arrays.get(f"{self._name}.{name}")

    def matrix(self, name: str, dtype: type = np.int32) -> Array:
        """A tensor of two axes; ModelFileError for another one."""
        array = self.floats(name) if dtype is np.float32 else self.get(name)
        if array is None or array.ndim != 2 or array.dtype != dtype or not array.size:
            raise ModelFileError(f"{name} is {_shown(array)}, no matrix of {np.dtype(dtype)}")
        return array

    def floats(self, name: str) -> Floats | None:
        array = self.get(name)
        return None if array is None else array.astype(np.float32)


def _gptq(config: Mapping[str, Any], layer: _Layer) -> PackedLinear:
    bits = _bits(config, (2, 3, 4, 8))
    form = config.get("checkpoint_format", "gptq")
    if form not in ("gptq", "gptq_v2"):
        raise UnsupportedOperatorError(f"checkpoint_format = {form!r}", hint="gptq or gptq_v2")
    quants = unpacked(layer.matrix("qweight").T, bits)
    scale = layer.matrix("scales", np.float32).T
    zeros = unpacked(layer.matrix("qzeros"), bits).T.astype(np.float32) + (form == "gptq")
    _require_shape("qzeros", zeros, scale.shape)
    group = _group(config, quants, scale)
    order = _order(layer.get("g_idx"), quants.shape[1], group)
    if order is not None:
        quants = quants[:, order]
    return PackedLinear(_centred(quants, scale, zeros, group, bits), order)


def _awq(config: Mapping[str, Any], layer: _Layer) -> PackedLinear:
    version = str(config.get("version", "gemm")).lower()
    if version != "gemm":
        raise UnsupportedOperatorError(f"version = {version!r} of AWQ", hint="gemm is supported")
    bits = _bits(config, (4,))
    quants = _awq_columns(unpacked(layer.matrix("qweight"), bits)).T
    zeros = _awq_columns(unpacked(layer.matrix("qzeros"), bits)).T.astype(np.float32)
    scale = layer.matrix("scales", np.float32).T
    _require_shape("qzeros", zeros, scale.shape)
    group = _group(config, quants, scale)
    return PackedLinear(_centred(np.ascontiguousarray(quants), scale, zeros, group, bits))


def _compressed(config: Mapping[str, Any], layer: _Layer) -> PackedLinear:
    for name in ("weight_global_scale", "bitmask", "compressed"):
        if layer.get(name) is not None:
            raise UnsupportedOperatorError(f"the tensor {name} of compressed-tensors")
    packed, plain = layer.get("weight_packed"), layer.get("weight")
    scale = layer.floats("weight_scale")
    zeros, codes, bits, quants = layer.get("weight_zero_point"), None, 8, plain
    if packed is not None:
        quants, bits = _of_words(layer)
        half = 1 << (bits - 1)
        if zeros is not None:
            zeros = unpacked(layer.matrix("weight_zero_point").T, bits).T[: len(quants)]
        else:
            quants = (quants.astype(np.int16) - half).astype(np.int8)
    if quants is None or quants.ndim != 2 or scale is None:
        raise ModelFileError("it has no matrix `weight_packed` or `weight`, or no `weight_scale`")
    if quants.dtype == ml_dtypes.float8_e4m3fn:
        quants, codes = quants.view(np.uint8), _FP8
    elif quants.dtype not in (np.int8, np.uint8):
        raise UnsupportedOperatorError(f"weights of {quants.dtype} in compressed-tensors")
    scale = np.broadcast_to(scale, (len(quants), 1)) if scale.size == 1 else scale
    if scale.ndim != 2 or len(scale) != len(quants) or not scale.shape[1]:
        raise UnsupportedOperatorError(
            f"weight_scale is {_shown(scale)} for a weight of {list(quants.shape)}",
            hint="a scale for a tensor, a row, or groups of a row is supported",
        )
    if quants.shape[1] % scale.shape[1]:
        raise ModelFileError(f"{scale.shape[1]} groups do not divide {quants.shape[1]} columns")
    group = quants.shape[1] // scale.shape[1]
    order = _order(layer.get("weight_g_idx"), quants.shape[1], group)
    if order is not None:
        quants = quants[:, order]
    if zeros is None:
        return PackedLinear(Parts(quants, np.ascontiguousarray(scale), None, group, codes), order)
    zeros = np.broadcast_to(zeros, scale.shape) if zeros.size == 1 else zeros
    _require_shape("weight_zero_point", zeros, scale.shape)
    return PackedLinear(_centred(quants, scale, zeros.astype(np.float32), group, 0), order)


def _of_words(layer: _Layer) -> tuple[Array, int]:
    """The quants (out, in) of compressed-tensors' words, and their bits."""
    packed, stated = layer.matrix("weight_packed"), layer.get("weight_shape")
    shape = [] if stated is None else stated.reshape(-1).tolist()
    if len(shape) != 2 or shape[0] != len(packed) or shape[1] <= 0:
        raise ModelFileError(f"weight_shape is {shape} for packed words of {list(packed.shape)}")
    for bits in (2, 4, 8):
        if -(-shape[1] * bits // 32) == packed.shape[1]:
            return np.ascontiguousarray(unpacked(packed, bits)[:, : shape[1]]), bits
    raise UnsupportedOperatorError(
        f"{packed.shape[1]} words for {shape[1]} columns", hint="2, 4 and 8 bits are supported"
    )


def _bitsandbytes(config: Mapping[str, Any], layer: _Layer) -> PackedLinear:
    if layer.get("SCB") is not None:
        form = layer.get("weight_format")
        if form is not None and form.any():
            raise UnsupportedOperatorError("a weight of bitsandbytes that is not in rows")
        weight, scale = layer.matrix("weight", np.int8), layer.floats("SCB")
        assert scale is not None
        _require_shape("SCB", scale.reshape(-1), (len(weight),))
        return PackedLinear(
            Parts(weight, scale.reshape(-1, 1) / np.float32(127), None, weight.shape[1])
        )
    state = _quant_state(layer)
    halves, codes = layer.get("weight"), layer.floats("weight.quant_map")
    shape, block = state["shape"], state["blocksize"]
    count = shape[0] * shape[1]
    if halves is None or halves.dtype != np.uint8 or 2 * halves.size != count:
        raise ModelFileError(f"weight is {_shown(halves)} for {shape}")
    if codes is None or codes.shape != (16,):
        raise ModelFileError(f"quant_map is {_shown(codes)}, not 16 values")
    if shape[1] % block:
        raise UnsupportedOperatorError(f"blocks of {block} for rows of {shape[1]}")
    scale = _largest(layer, state, count // block).reshape(shape[0], -1)
    quants = halves.reshape(-1, 1) >> np.array([4, 0], np.uint8) & 15
    return PackedLinear(Parts(quants.reshape(shape), scale, None, block, codes))


def _quant_state(layer: _Layer) -> dict[str, Any]:
    """What bitsandbytes says of a layer in JSON, its sizes checked."""
    stored = [layer.get(f"weight.quant_state.bitsandbytes__{kind}") for kind in ("nf4", "fp4")]
    data = next((each for each in stored if each is not None), None)
    if data is None or data.dtype != np.uint8 or data.size > _MOST_STATE:
        raise ModelFileError(f"its quant_state is {_shown(data)}")
    try:
        state = json.loads(data.tobytes())
        state = {"nested_offset": 0.0, "nested_blocksize": 256, **state}
        sizes = [*state["shape"], state["blocksize"], state["nested_blocksize"]]
        valid = len(sizes) == 4 and all(type(each) is int and each > 0 for each in sizes)
        state["nested_offset"] = float(state["nested_offset"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelFileError(f"its quant_state is not well formed: {error}") from error
    if not valid:
        raise ModelFileError(f"its quant_state has sizes {str(sizes)[:80]}")
    return dict(state)


def _largest(layer: _Layer, state: Mapping[str, Any], count: int) -> Floats:
    """The largest magnitude of each block, which may be quantized itself."""
    largest = layer.get("weight.absmax")
    if largest is None or largest.size != count:
        raise ModelFileError(f"absmax is {_shown(largest)} for {count} blocks")
    if largest.dtype != np.uint8:
        return largest.astype(np.float32).reshape(-1)
    values, nested = layer.floats("weight.nested_quant_map"), layer.floats("weight.nested_absmax")
    block = state["nested_blocksize"]
    if values is None or nested is None or values.shape != (256,) or nested.size * block < count:
        raise ModelFileError(f"nested_absmax is {_shown(nested)} for {count} blocks")
    scale = np.repeat(nested.reshape(-1), block)[:count]
    offset = np.float32(state["nested_offset"])
    return np.asarray(values[largest.reshape(-1)] * scale + offset, np.float32)


_METHODS: Final[
    Mapping[str, tuple[Callable[[Mapping[str, Any], _Layer], PackedLinear], tuple[str, ...]]]
] = {
    "gptq": (_gptq, ("qweight",)),
    "awq": (_awq, ("qweight",)),
    "compressed-tensors": (_compressed, ("weight_packed", "weight_scale")),
    "bitsandbytes": (_bitsandbytes, ("SCB", "weight.absmax")),
}
"""By `quant_method`: how a layer is read, and the tensors that mark one."""


def _centred(quants: Array, scale: Floats, zeros: Floats, group: int, bits: int) -> Parts:
    """Scale · (quant - zero). Where every zero is the middle of `bits`, quants are signed, and
    nothing is added.
    """
    scale = np.ascontiguousarray(scale)
    half = 1 << (bits - 1) if bits else 0
    if bits and (zeros == half).all():
        signed = (quants.astype(np.int16) - half).astype(np.int8)
        return Parts(signed, scale, None, group)
    return Parts(quants, scale, np.ascontiguousarray(-scale * zeros), group)


def _order(groups: Array | None, count: int, group: int) -> npt.NDArray[np.int64] | None:
    """Which input each column takes once columns are sorted by group; None where they are."""
    if groups is None or (groups.dtype.kind == "i" and groups.size and (groups < 0).all()):
        return None
    own = np.arange(count) // group
    if groups.shape != (count,) or groups.dtype.kind != "i":
        raise ModelFileError(f"its groups of columns are {_shown(groups)} for {count} columns")
    if np.array_equal(groups, own):
        return None
    order = np.argsort(groups, kind="stable")
    if not np.array_equal(groups[order], own):
        raise UnsupportedOperatorError(f"groups of columns that do not have {group} each")
    return order.astype(np.int64)


def _group(config: Mapping[str, Any], quants: Array, scale: Floats) -> int:
    """Columns of a group, as the scales have it; ModelFileError where the configuration differs."""
    rows, columns = quants.shape
    if len(scale) != rows or not scale.shape[1] or columns % scale.shape[1]:
        raise ModelFileError(f"scales are {_shown(scale)} for a weight of {[rows, columns]}")
    group: int = columns // scale.shape[1]
    stated = config.get("group_size", -1)
    if stated not in (-1, group):
        raise ModelFileError(f"its groups have {group} columns, and group_size is {stated!r}")
    return group


def _bits(config: Mapping[str, Any], allowed: tuple[int, ...]) -> int:
    bits: Any = config.get("bits", config.get("w_bit", 4))
    if type(bits) is not int or bits not in allowed:
        raise UnsupportedOperatorError(f"bits = {bits!r}", hint=f"there are {allowed}")
    return int(bits)


def _awq_columns(quants: Array) -> Array:
    """Columns in their own order."""
    return np.asarray(quants.reshape(len(quants), -1, 8)[:, :, _AWQ_ORDER].reshape(quants.shape))


def _require_shape(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ModelFileError(f"{name} is {_shown(array)}, not of shape {list(shape)}")


def _shown(array: Array | None) -> str:
    return "missing" if array is None else f"{array.dtype}{list(array.shape)}"
