"""Products with weights, and embeddings."""

from __future__ import annotations

import re

import numpy as np

from infuse.dtypes import int32
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.keras.calls import Call, layer
from infuse.frontends.keras.config import Config
from infuse.frontends.keras.layers.activations import activated
from infuse.ir.graph import Array, Value


def kernel_and_bias(config: Config) -> list[str]:
    """Names of the weights of a product."""
    names = ["kernel", "bias"] if config.flag("use_bias", True) else ["kernel"]
    return [*names, *_scales(config, "kernel")]


def _scales(config: Config, name: str) -> list[str]:
    if _block(config):
        return [f"{name}_scale", f"{name}_zero", "g_idx"]
    return [f"{name}_scale"] if config.policy.startswith(("int8", "int4")) else []


def _block(config: Config) -> int:
    """How many rows of a weight of 4 bits share a scale and a zero point; 0 where all do."""
    mode = config.policy.rpartition("_from_")[0]
    if not mode.startswith("int4"):
        return 0
    plan = config.get("quantization_config")
    size = plan["config"].get("block_size") if plan else mode.partition("/")[2] or None
    return max(int(size or 0), 0)


def _halves(call: Call, name: str) -> Array:
    """The numbers of 4 bits of a weight that has two of them in each byte of its last axis, less
    the zero point of their rows and times their scale, or over it where there is one for all.
    """
    scale = call.needed(f"{name}_scale").astype(np.float32)
    signed = _unpacked(call, name, scale.shape[-1])
    if not _block(call.config):
        return np.asarray(signed / scale)
    groups = _groups(call, signed.shape[0], scale.shape[0])
    zero = call.needed(f"{name}_zero", 2).astype(np.float32)
    return np.asarray((signed - zero[groups]) * scale[groups])


def _unpacked(call: Call, name: str, columns: int) -> Array:
    """The numbers from -8 to 7 of rows of bytes with two of them each."""
    packed = call.needed(name, 2)
    if packed.dtype.itemsize != 1 or packed.shape[1] != (columns + 1) // 2:
        raise ModelFileError(
            f"its {name} has the shape {list(packed.shape)}, for {columns} columns"
        )
    low, high = (packed.view(np.uint8) >> shift & 15 for shift in (0, 4))
    whole = np.stack([low, high], 2).reshape(packed.shape[0], -1)[:, :columns]
    return np.asarray((whole.astype(np.float32) + 8) % 16 - 8)


def _groups(call: Call, size: int, count: int) -> Array:
    """Which scale each place has, of so many."""
    groups = call.needed("g_idx", 1).astype(np.int64)
    if groups.size != size or groups.min() < 0 or groups.max() >= count:
        raise ModelFileError(f"its {groups.size} places name groups that are not there")
    return groups


def _table(call: Call) -> Array:
    """The rows of an embedding; where they have 4 bits, each with a scale of its own, or with one
    for each group of columns.
    """
    if not call.config.policy.startswith("int4"):
        return _plain(call, "embeddings")
    signed = _unpacked(call, "embeddings", call.config.whole("output_dim"))
    scale = call.needed("embeddings_scale").astype(np.float32)
    if len(scale) != len(signed):
        raise ModelFileError(f"its embeddings have {len(signed)} rows and {len(scale)} scales")
    if not _block(call.config):
        return np.asarray(signed / scale[:, None])
    groups = _groups(call, signed.shape[1], scale.shape[-1])
    zero = call.needed("embeddings_zero", 2).astype(np.float32)
    return np.asarray((signed - zero[:, groups]) * scale[:, groups])


def _plain(call: Call, name: str) -> Array:
    """A weight, whose integers are divided by their scales."""
    if call.config.policy.startswith("int4"):
        return _halves(call, name)
    array, scale = call.needed(name), call.array(f"{name}_scale")
    if scale is None:
        return array
    wide = array.astype(np.float32)
    if name == "embeddings" and scale.ndim == 1:
        scale = scale[:, None]
    result: Array = wide / scale.astype(np.float32)
    return result


def _lora(config: Config) -> None:
    config.require("lora_rank", None)
    _steps(config)


def _steps(config: Config) -> bool:
    """Whether operands are rounded to 8 bits, where the weights have 8."""
    plan = config.get("quantization_config")
    if plan is None:
        return config.policy.startswith("int8_from_")
    if _block(config):  # of these Keras rounds no operand
        return False
    if plan["class_name"] not in ("Int8QuantizationConfig", "Int4QuantizationConfig"):
        raise UnsupportedOperatorError(f"quantization by {plan['class_name']} is not supported")
    rounding = plan["config"].get("activation_quantizer")
    if rounding is not None and (
        rounding["class_name"] != "AbsMaxQuantizer"
        or tuple(rounding["config"]["value_range"]) != (-127, 127)
    ):
        raise UnsupportedOperatorError("the quantizer of operands is not supported")
    return rounding is not None


@layer("Dense", weights=kernel_and_bias, masking=True)
def dense(call: Call, x: Value) -> Value:
    """X · kernel + bias over the last axis."""
    _lora(call.config)
    kernel = call.constant(_plain(call, "kernel"), "kernel")
    if kernel.rank != 2:
        raise ModelFileError(f"its kernel has the shape {kernel.shape}")
    return activated(call, _product(call, _rounded(call, call.floats(x)), kernel))


def _product(call: Call, x: Value, kernel: Value) -> Value:
    bias = call.optional("bias")
    if bias is not None and x.rank == 2:
        return call.g("Gemm", x, kernel, bias)
    y = call.g("MatMul", x, kernel)
    return y if bias is None else call.g("Add", y, bias)


def _rounded(call: Call, x: Value) -> Value:
    """An operand of a quantized product: in steps of 1/127 of the largest element of its row."""
    if not _steps(call.config):
        return x
    g = call.g
    largest = call.reduced("ReduceMax", g("Abs", x), [x.rank - 1], keep=True)
    scale = g("Div", call.number(127.0, x), g("Add", largest, 1e-7))
    steps = g("Clip", g("Round", g("Mul", x, scale)), -127.0, 127.0)
    return g("Div", steps, scale)


def einsum_weights(config: Config) -> list[str]:
    """Names of the weights of an EinsumDense."""
    names = ["kernel"] if config.get("bias_axes") is None else ["kernel", "bias"]
    return [*names, *_scales(config, "kernel")]


@layer("EinsumDense", weights=einsum_weights, masking=True)
def einsum_dense(call: Call, x: Value) -> Value:
    """A product by an equation, such as `abc,cd->abd`."""
    _lora(call.config)
    equation = call.config.text("equation").replace(" ", "")
    if call.config.policy.startswith(("int8", "int4")):
        raise call.unsupported("a quantized EinsumDense")
    bias = None
    if call.config.get("bias_axes") is not None:
        bias = _spread(equation, call.config.text("bias_axes"), call.weight("bias"))
    return activated(call, einsum(call, equation, call.floats(x), call.weight("kernel"), bias))


def _spread(equation: str, axes: str, bias: Value) -> tuple[Value, str]:
    result = equation.rpartition("->")[2]
    ordered = "".join(axis for axis in result if axis in axes)
    if sorted(ordered) != sorted(axes):
        raise ModelFileError(f"the axes {axes!r} of its bias are not those of {equation!r}")
    return bias, ordered


def einsum(
    call: Call, equation: str, x: Value, kernel: Value, bias: tuple[Value, str] | None
) -> Value:
    """X and a kernel multiplied by an equation, plus a bias over some of the result's axes."""
    g, match = call.g, re.fullmatch(r"(\.*\w*),(\w+)->(\.*\w*)", equation)
    if match is None:
        raise ModelFileError(f"{equation!r} is not an equation of two operands")
    left, right, result = match.groups()
    free = left.rstrip("".join(set(right) - set(result)))
    inner = left[len(free) :]
    simple = "." not in left and inner and right.startswith(inner)
    if simple and result == free + right[len(inner) :] and kernel.rank == len(right):
        y = _flat(call, x, kernel, len(inner))
    else:
        y = g("Einsum", x, kernel, equation=equation)
    if bias is None:
        return y
    value, axes = bias
    sizes = dict(zip(axes, value.shape))
    letters = result.lstrip(".")
    shape = [sizes.get(letter, 1) for letter in letters]
    while shape and shape[0] == 1:
        shape.pop(0)
    return g("Add", y, g.reshape(value, *shape))


def _flat(call: Call, x: Value, kernel: Value, count: int) -> Value:
    """The product over the last axes of x and the first of a kernel, as one of matrices."""
    g = call.g
    inside = [size for size in kernel.shape[:count] if isinstance(size, int)]
    behind = [size for size in kernel.shape[count:] if isinstance(size, int)]
    rows = x.rank - count
    total = int(np.prod(inside))
    if count > 1:
        x = call.shaped(x, *(0,) * rows, total)
    y = g("MatMul", x, g.reshape(kernel, total, int(np.prod(behind))))
    if len(behind) == 1:
        return y
    return call.shaped(y, *(0,) * rows, *behind)


def _embeddings(config: Config) -> list[str]:
    return ["embeddings", *_scales(config, "embeddings")]


@layer("Embedding", weights=_embeddings)
def embedding(call: Call, x: Value) -> Value:
    """Rows of a table; with `mask_zero`, the first stands for nothing."""
    _lora(call.config)
    g = call.g
    table = call.constant(_table(call), "embeddings")
    indices = x if x.dtype.is_integer else g.cast(x, int32)
    y = g("Gather", table, indices)
    if call.config.flag("mask_zero"):
        call.set_mask(y, g("Not", g("Equal", x, 0)))
    return y
