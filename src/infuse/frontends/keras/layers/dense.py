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
    return [f"{name}_scale"] if config.policy.startswith("int8_from_") else []


def _plain(call: Call, name: str) -> Array:
    """A weight, whose integers are divided by their scales."""
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
    if plan["class_name"] != "Int8QuantizationConfig":
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
    if call.config.policy.startswith("int8_from_"):
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
    table = call.constant(_plain(call, "embeddings"), "embeddings")
    indices = x if x.dtype.is_integer else g.cast(x, int32)
    y = g("Gather", table, indices)
    if call.config.flag("mask_zero"):
        call.set_mask(y, g("Not", g("Equal", x, 0)))
    return y
