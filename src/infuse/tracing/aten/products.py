"""Products of matrices, convolutions, attention."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import TorchImporter, aten, each
from infuse.tracing.aten.pointwise import mul, scaled


def convolution(
    g: TorchImporter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    transposed: bool = False,
    output_padding: Any = 0,
    groups: int = 1,
) -> Value:
    """A convolution over the last axes, or its transpose; x may have no axis of images."""
    if not x.dtype.is_float:
        raise g.unsupported(f"a convolution of {x.dtype} elements")
    count = weight.rank - 2
    single = x.rank == count + 1
    image = g("Unsqueeze", x, g.ints(0)) if single else x
    spread = each(dilation, count)
    if isinstance(padding, str):
        pads = _padding_by_name(g, padding, weight, spread)
    else:
        pads = (*each(padding, count), *each(padding, count))
    attributes: dict[str, Any] = {
        "strides": tuple(each(stride, count)),
        "pads": pads,
        "dilations": tuple(spread),
        "group": groups,
    }
    if transposed:
        attributes["output_padding"] = tuple(each(output_padding, count))
    y = g("ConvTranspose" if transposed else "Conv", image, weight, bias, **attributes)
    return g("Squeeze", y, g.ints(0)) if single else y


def _padding_by_name(
    g: TorchImporter, name: str, weight: Value, spread: Sequence[int]
) -> tuple[int, ...]:
    if name == "valid":
        return (0,) * (2 * len(spread))
    if name != "same" or not all(isinstance(n, int) for n in weight.shape[2:]):
        raise g.unsupported(f"the padding {name!r}")
    totals = [s * (int(n) - 1) for s, n in zip(spread, weight.shape[2:])]
    return (*(t // 2 for t in totals), *(t - t // 2 for t in totals))


aten("convolution", "_convolution")(
    lambda g, *arguments, **named: convolution(g, *arguments[:9], **named)
)
for _count in (1, 2, 3):
    aten(f"conv{_count}d")(
        lambda g, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1: convolution(
            g, x, weight, bias, stride, padding, dilation, groups=groups
        )
    )
    aten(f"conv_transpose{_count}d")(
        lambda g, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
        dilation=1: convolution(
            g, x, weight, bias, stride, padding, dilation, True, output_padding, groups
        )
    )  # fmt: skip


@aten("linear")
def linear(g: TorchImporter, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """X · weightᵀ + bias."""
    y = g("MatMul", x, g.permute(weight, *reversed(range(weight.rank))))
    return y if bias is None else g("Add", y, bias)


@aten("mm", "bmm", "matmul", "mv", "dot", "inner", "vdot")
def matmul(g: TorchImporter, x: Value, other: Value) -> Value:
    """The product of matrices, vectors, or batches of them."""
    if "inner" in g.called and 0 in (x.rank, other.rank):
        return mul(g, x, other)
    if "inner" in g.called and other.rank > 1:
        return tensordot(g, x, other, [x.rank - 1], [other.rank - 1])
    return _matmul(g, x, other)


def _matmul(g: TorchImporter, x: Value, other: Value) -> Value:
    """A product; of truth values and small integers by way of int32."""
    dtype = x.dtype
    if dtype.is_float or dtype in (dtypes.int32, dtypes.int64):
        return g("MatMul", x, other)
    return g.cast(g("MatMul", g.cast(x, dtypes.int32), g.cast(other, dtypes.int32)), dtype)


@aten("tensordot")
def tensordot(
    g: TorchImporter, x: Value, other: Value, dims_self: Sequence[int], dims_other: Sequence[int]
) -> Value:
    """Sums of products over pairs of axes."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    first = list(letters[: x.rank])
    second = list(letters[x.rank : x.rank + other.rank])
    for a, b in zip(dims_self, dims_other, strict=True):
        second[b] = first[a]
    left = [c for c in first if c not in second]
    right = [c for c in second if c not in first]
    equation = f"{''.join(first)},{''.join(second)}->{''.join([*left, *right])}"
    return g("Einsum", x, other, equation=equation)


aten("outer", "ger")(lambda g, x, other: _columns(g, *g.tensors(x, other, dtype=g.dtype)))


def _columns(g: TorchImporter, x: Value, other: Value) -> Value:
    return g("And" if x.dtype.is_bool else "Mul", g("Unsqueeze", x, g.ints(1)), other)


@aten("addmm", "baddbmm", "addmv", "addbmm", "addr")
def addmm(
    g: TorchImporter, x: Value, first: Value, second: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    """Beta · x + alpha · first · second."""
    steps = alpha != 1 or beta != 1 or g.called.startswith(("aten.addbmm", "aten.addr"))
    x, first, second = g.operands(x, first, second, steps=steps)
    y = _columns(g, first, second) if "addr" in g.called else _matmul(g, first, second)
    if g.called.startswith("aten.addbmm"):
        y = g("ReduceSum", y, g.ints(0), keepdims=0)
    if alpha != 1:
        y = scaled(g, y, _like(y, alpha))
    if beta == 0:
        return g.cast(y, g.dtype)
    if g.dtype.is_bool:
        return g("Or", scaled(g, x, beta), y)
    return g.cast(g("Add", x if beta == 1 else scaled(g, x, _like(x, beta)), y), g.dtype)


def _like(x: Value, factor: Any) -> Any:
    """A factor of tensors: of integers a whole one."""
    return factor if x.dtype.is_float or isinstance(factor, Value) else int(factor)


@aten("einsum")
def einsum(g: TorchImporter, equation: str, tensors: Sequence[Value], *, path: Any = None) -> Value:
    """Sums of products, as an equation of axes says."""
    equation = equation.replace(" ", "")
    operands, arrow, result = equation.partition("->")
    if arrow and "..." in operands and "..." not in result:
        equation = f"{_named_axes(operands.split(','), tensors)}->{result}"
    return g("Einsum", *g.tensors(*tensors, dtype=g.dtype), equation=equation)


def _named_axes(operands: Sequence[str], tensors: Sequence[Value]) -> str:
    """Operands of an equation with letters in place of their dots, aligned at the end."""
    letters = [c for c in string.ascii_letters if c not in "".join(operands)]
    shown = []
    for operand, tensor in zip(operands, tensors, strict=True):
        count = tensor.rank - len(operand.replace("...", ""))
        shown.append(operand.replace("...", "".join(letters[:count][::-1])))
    return ",".join(shown)


@aten("scaled_dot_product_attention")
def attention(
    g: TorchImporter,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Value:
    """Softmax(query · keyᵀ · scale + mask) · value."""
    if dropout_p:
        raise g.unsupported("dropout in training mode")
    if isinstance(scale, Value):
        query, scale = g("Mul", query, g.tensor(scale, query.dtype)), 1.0
    ranks = {query.rank, key.rank, value.rank}
    batches = {t.shape[:-3] for t in (query, key, value)}
    heads = {t.shape[-3] for t in (query, key, value) if t.rank > 2}
    if ranks == {4} and len(batches) == 1 and (enable_gqa or len(heads) == 1):
        mask = attn_mask
        if mask is not None and mask.dtype not in (dtypes.bool_, query.dtype):
            mask = g.cast(mask, query.dtype)
        if mask is not None and mask.rank < 2:
            mask = g.expand(mask, [g.size_of(query, 2), g.size_of(key, 2)])
        elif mask is not None and mask.shape[-1] == 1 and key.shape[2] != 1:
            mask = g.expand(mask, [*[1] * (mask.rank - 1), g.size_of(key, 2)])
        return g("Attention", query, key, value, mask, scale=scale, is_causal=int(is_causal))
    if enable_gqa:
        raise g.unsupported("attention with shared heads of keys of such ranks")
    query, key, value = g.operands(query, key, value, steps=True)
    result = _attention_by_products(g, query, key, value, attn_mask, is_causal, scale)
    return g.cast(result, g.dtype)


def _attention_by_products(
    g: TorchImporter,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    is_causal: bool,
    scale: float | None,
) -> Value:
    order = (*range(key.rank - 2), key.rank - 1, key.rank - 2)
    if scale is None:
        size = query.shape[-1]
        if not isinstance(size, int):
            raise g.unsupported("attention over heads of computed size")
        scale = 1 / math.sqrt(size) if size else 1.0
    scores = g("MatMul", g("Mul", query, scale), g.permute(key, *order))
    if is_causal:
        rows = g("Unsqueeze", g.indices(g.size_of(query, -2)), g.ints(1))
        mask = g("LessOrEqual", g.indices(g.size_of(key, -2)), rows)
    lowest = g.number(-math.inf, scores.dtype)
    if mask is not None and mask.dtype.is_bool:
        scores = g("Where", mask, scores, lowest)
    elif mask is not None:
        scores = g("Add", scores, g.cast(mask, scores.dtype))
    weights = g("Softmax", scores, axis=scores.rank - 1)
    if mask is not None:
        highest = g("ReduceMax", scores, g.ints(-1), keepdims=1)
        weights = g("Where", g("Equal", highest, lowest), g.number(0, scores.dtype), weights)
    return g("MatMul", weights, value)


@aten("bilinear")
def bilinear(
    g: TorchImporter, first: Value, second: Value, weight: Value, bias: Value | None = None
) -> Value:
    """Sums of all products of the elements of two vectors, with weights."""
    y = g("Einsum", first, weight, second, equation="...i,oij,...j->...o")
    return y if bias is None else g("Add", y, bias)
