"""Products with weights, and embeddings."""

from __future__ import annotations

import re

import numpy as np

from infuse.dtypes import int32
from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.config import Config
from infuse.frontends.keras.layers.activations import activated
from infuse.frontends.keras.layers.quantized import (
    check,
    kernel_of,
    plain,
    product_weights,
    rounded,
    scales,
    table_of,
)
from infuse.ir.graph import Value


def kernel_and_bias(config: Config) -> list[str]:
    """Names of the weights of a product."""
    return product_weights(config, config.flag("use_bias", True))


@layer("Dense", weights=kernel_and_bias, masking=True)
def dense(call: KerasCall, x: Value) -> Value:
    """X · kernel + bias over the last axis."""
    check(call.config)
    kernel = call.constant(plain(call, "kernel"), "kernel")
    if kernel.rank != 2:
        raise ModelFileError(f"its kernel has the shape {kernel.shape}")
    return activated(call, _product(call, rounded(call, call.floats(x)), kernel))


def _product(call: KerasCall, x: Value, kernel: Value) -> Value:
    bias = call.optional("bias")
    if bias is not None and x.rank == 2:
        return call.g("Gemm", x, kernel, bias)
    y = call.g("MatMul", x, kernel)
    return y if bias is None else call.g("Add", y, bias)


def einsum_weights(config: Config) -> list[str]:
    """Names of the weights of an EinsumDense."""
    return product_weights(config, config.get("bias_axes") is not None)


@layer("EinsumDense", weights=einsum_weights, masking=True)
def einsum_dense(call: KerasCall, x: Value) -> Value:
    """A product by an equation, such as `abc,cd->abd`."""
    check(call.config)
    equation = call.config.text("equation").replace(" ", "")
    kernel = call.constant(kernel_of(call, equation, x), "kernel")
    x = rounded(call, call.floats(x), equation)
    bias = None
    if call.config.get("bias_axes") is not None:
        bias = _spread(equation, call.config.text("bias_axes"), call.weight("bias"))
    return activated(call, einsum(call, equation, x, kernel, bias))


def _spread(equation: str, axes: str, bias: Value) -> tuple[Value, str]:
    result = equation.rpartition("->")[2]
    ordered = "".join(axis for axis in result if axis in axes)
    if sorted(ordered) != sorted(axes):
        raise ModelFileError(f"the axes {axes!r} of its bias are not those of {equation!r}")
    return bias, ordered


def einsum(
    call: KerasCall, equation: str, x: Value, kernel: Value, bias: tuple[Value, str] | None
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


def _flat(call: KerasCall, x: Value, kernel: Value, count: int) -> Value:
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
    return ["embeddings", *scales(config, "embeddings")]


@layer("Embedding", weights=_embeddings)
def embedding(call: KerasCall, x: Value) -> Value:
    """Rows of a table; with `mask_zero`, the first stands for nothing."""
    check(call.config)
    g = call.g
    table = call.constant(table_of(call), "embeddings")
    indices = x if x.dtype.is_integer else g.cast(x, int32)
    y = g("Gather", table, indices)
    if call.config.flag("mask_zero"):
        call.set_mask(y, g("Not", g("Equal", x, 0)))
    return y
