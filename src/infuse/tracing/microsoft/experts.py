"""ONNX Runtime's mixtures of experts as ONNX's operators: every expert runs, and weights choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.graph import Value, constant
from infuse.tracing.microsoft.building import CallBuilder, reads
from infuse.tracing.microsoft.calls import unpacked

_ACTIVATIONS = ("relu", "gelu", "silu", "identity")
_LAST_OF_ALL = 2**63 - 1


def _is_supported(attributes: Mapping[str, Any]) -> bool:
    """Whether the network is one that can be read."""
    kind = attributes.get("activation_type", "relu")
    gated = (kind, attributes.get("swiglu_fusion", 0)) == ("swiglu", 1)
    sparse = attributes.get("use_sparse_mixer", 0) or attributes.get("k", 1) < 1
    return not sparse and (kind in _ACTIVATIONS or gated)


def _activated(make: CallBuilder, x: Value, attributes: Mapping[str, Any]) -> Value:
    kind = attributes.get("activation_type", "relu")
    if kind == "relu":
        return make("Relu", x)
    if kind == "gelu":
        return make("Gelu", x, approximate="tanh")
    if kind == "silu":
        return make(x * ops.sigmoid(x))
    return x if kind == "identity" else _gated(make, x, attributes)


def _gated(make: CallBuilder, x: Value, attributes: Mapping[str, Any]) -> Value:
    """Gates and linear parts that alternate, put together."""
    gates, parts = (
        make("Slice", x, *map(make.ints, (start, _LAST_OF_ALL, -1, 2))) for start in (0, 1)
    )
    if "swiglu_limit" in attributes:
        limit = float(attributes["swiglu_limit"])
        gates, parts = make("Min", gates, limit), make("Clip", parts, -limit, limit)
    gated = gates * ops.sigmoid(gates * float(attributes.get("activation_alpha", 1.0)))
    return make(gated * (parts + float(attributes.get("activation_beta", 0.0))))


def _layer(make: CallBuilder, x: Value, weights: Value, bias: Value | None) -> Value:
    """A product with float32 weights (experts, out, in), plus a bias (experts, out)."""
    product = make("MatMul", x, make("Transpose", weights, perm=(0, 2, 1)))
    if bias is None:
        return product
    wide = make.cast(bias, dtypes.float32)
    return make(product + make("Unsqueeze", wide, make.ints(1)))


def _mixed(
    make: CallBuilder,
    x: Value,
    router: Value,
    layers: tuple[tuple[Value, Value | None], tuple[Value, Value | None]],
    attributes: Mapping[str, Any],
) -> Value:
    """What the experts that the router chooses make of each token, weighed."""
    chances = make("Softmax", make.cast(router, dtypes.float32), axis=-1)
    count = make.ints(attributes.get("k", 1))
    largest, chosen = make.several(2, "TopK", chances, count, axis=-1)
    if attributes.get("normalize_routing_weights", 0):
        largest = make(largest / make.reduce("ReduceSum", largest, -1))
    nothing = make(chances - chances)
    spread = make("ScatterElements", nothing, chosen, largest, axis=1)
    factors = make("Unsqueeze", make("Transpose", spread, perm=(1, 0)), make.ints(2))
    shape = make.sizes(-1, make("Shape", x, start=-1))
    flat = make("Reshape", make.cast(x, dtypes.float32), shape)
    tokens = make("Unsqueeze", flat, make.ints(0))
    hidden = _activated(make, _layer(make, tokens, *layers[0]), attributes)
    weighed = make(_layer(make, hidden, *layers[1]) * factors)
    total = make("ReduceSum", weighed, make.ints(0), keepdims=0)
    return make.like(make("Reshape", total, make("Shape", x)), x)


@reads("MoE")
def experts(
    make: CallBuilder,
    x: Value,
    router: Value,
    w1: Value,
    b1: Value | None,
    w2: Value,
    b2: Value | None = None,
    w3: Value | None = None,
    b3: Value | None = None,
    **attributes: Any,
) -> Value | None:
    """Two layers for each expert."""
    if not _is_supported(attributes) or w3 is not None or b3 is not None:
        return None
    first, second = (make.cast(w, dtypes.float32) for w in (w1, w2))
    return _mixed(make, x, router, ((first, b1), (second, b2)), attributes)


@reads("QMoE")
def quantized_experts(
    make: CallBuilder, x: Value, router: Value, *others: Value | None, **attributes: Any
) -> Value | None:
    """Two layers for each expert with weights of 4 or 8 bits, each row or block of a row with a
    scale.
    """
    w1, s1, b1, w2, s2, b2, *third, z1, z2 = [*others, *[None] * 11][:11]
    more = (*third, *others[11:])
    bits = attributes.get("expert_weight_bits", 4)
    own = [attributes.get(f"fc{i}_expert_weight_bits", bits) for i in (1, 2)]
    is_plain = attributes.get("quant_type", "int") == "int"
    if (
        not (_is_supported(attributes) and is_plain and bits in (4, 8))
        or any(v is not None for v in more)
        or any(count not in (0, bits) for count in own)
        or attributes.get("weights_prepacked", 0) == 1
    ):
        return None
    layers = []
    for stored, scale, bias, zeros in ((w1, s1, b1, z1), (w2, s2, b2, z2)):
        if make.shape(scale) is None or stored is None or stored.dtype != dtypes.uint8:
            return None
        assert scale is not None
        layers.append((stored, scale, bias, zeros))
    block = attributes.get("block_size", 0)
    first, second = (
        (_weights(make, stored, scale, zeros, bits, block), bias)
        for stored, scale, bias, zeros in layers
    )
    return _mixed(make, x, router, (first, second), attributes)


def _weights(
    make: CallBuilder, stored: Value, scale: Value, zeros: Value | None, bits: int, block: int
) -> Value:
    """One layer's weights as numbers."""
    codes, steps = unpacked(make, stored, bits), make.cast(scale, dtypes.float32)
    has_blocks = scale.rank == 3
    if not has_blocks:
        steps = make("Unsqueeze", steps, make.ints(-1))
    if zeros is None:
        shifts = make("Expand", constant(np.uint8(1 << (bits - 1))), make("Shape", steps))
    else:
        ends = make.ints(0), make("Shape", scale, start=-1), make.ints(-1)
        shifts = make("Slice", unpacked(make, zeros, bits), *ends)
        if not has_blocks:
            shifts = make("Unsqueeze", shifts, make.ints(-1))
    if has_blocks:
        return make("DequantizeLinear", codes, steps, shifts, axis=2, block_size=block)
    numbers, middle = (make.cast(v, dtypes.float32) for v in (codes, shifts))
    return make((numbers - middle) * steps)
