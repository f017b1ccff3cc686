"""ONNX Runtime's mixtures of experts as functions of ONNX's operators: every expert runs, and
weights choose.

Makers are as in `contributed_calls`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.frontends.onnx.contributed_calls import unpacked
from infuse.ir.graph import Value
from infuse.ir.types import TensorType

Inputs = Sequence[Value | None]

_ACTIVATIONS: Final = {
    "relu": "active = Relu (hidden)",
    "gelu": 'active = Gelu <approximate = "tanh"> (hidden)',
    "silu": "turned = Sigmoid (hidden) active = Mul (hidden, turned)",
    "identity": "active = Identity (hidden)",
}


def _gated(attributes: Mapping[str, Any]) -> str:
    """Gates and linear parts that alternate, put together."""
    alpha, beta = (
        float(attributes.get("activation_alpha", 1.0)),
        float(attributes.get("activation_beta", 0.0)),
    )
    limited = ""
    gates, parts = "gates_all", "parts_all"
    if "swiglu_limit" in attributes:
        limit = float(attributes["swiglu_limit"])
        limited = f"""
        most = Constant <value_float = {limit!r}> ()
        least = Constant <value_float = {-limit!r}> ()
        gates = Min (gates_all, most)
        parts = Clip (parts_all, least, most)"""
        gates, parts = "gates", "parts"
    return f"""
        end = Constant <value_ints = [9223372036854775807]> ()
        second = Constant <value_ints = [1]> ()
        gates_all = Slice (hidden, none, end, last, two)
        parts_all = Slice (hidden, second, end, last, two)
        {limited}
        alpha = Constant <value_float = {alpha!r}> ()
        beta = Constant <value_float = {beta!r}> ()
        curved = Mul ({gates}, alpha)
        turned = Sigmoid (curved)
        gated = Mul ({gates}, turned)
        shifted = Add ({parts}, beta)
        active = Mul (gated, shifted)"""


def _network(attributes: Mapping[str, Any], biases: Sequence[bool]) -> str | None:
    """From tokens `x`, `router` and float32 weights `w1` and `w2` (experts, out, in) to `y`."""
    kind, k = attributes.get("activation_type", "relu"), attributes.get("k", 1)
    fused = attributes.get("swiglu_fusion", 0)
    if (
        attributes.get("use_sparse_mixer", 0)
        or k < 1
        or (kind not in _ACTIVATIONS and (kind, fused) != ("swiglu", 1))
    ):
        return None
    bias = [
        f"b{i}_wide = Cast <to = 1> (b{i}) b{i}_rows = Unsqueeze (b{i}_wide, one) {to} = Add "
        f"({to}_bare, b{i}_rows)"
        if is_given
        else f"{to} = Identity ({to}_bare)"
        for i, to, is_given in zip((1, 2), ("hidden", "told"), biases)
    ]
    weights = "weights = Identity (largest)"
    if attributes.get("normalize_routing_weights", 0):
        weights = "sums = ReduceSum <keepdims = 1> (largest, last) weights = Div (largest, sums)"
    return f"""
        last = Constant <value_ints = [-1]> ()
        none = Constant <value_ints = [0]> ()
        one = Constant <value_ints = [1]> ()
        two = Constant <value_ints = [2]> ()
        count = Constant <value_ints = [{k}]> ()
        scores = Cast <to = 1> (router)
        chances = Softmax <axis = -1> (scores)
        largest, chosen = TopK <axis = -1> (chances, count)
        {weights}
        nothing = Sub (chances, chances)
        spread = ScatterElements <axis = 1> (nothing, chosen, weights)
        by_expert = Transpose <perm = [1, 0]> (spread)
        factors = Unsqueeze (by_expert, two)
        wide = Cast <to = 1> (x)
        size = Shape <start = -1> (x)
        token_shape = Concat <axis = 0> (last, size)
        flat = Reshape (wide, token_shape)
        tokens = Unsqueeze (flat, none)
        w1_turned = Transpose <perm = [0, 2, 1]> (w1)
        hidden_bare = MatMul (tokens, w1_turned)
        {bias[0]}
        {_ACTIVATIONS[kind] if kind in _ACTIVATIONS else _gated(attributes)}
        w2_turned = Transpose <perm = [0, 2, 1]> (w2)
        told_bare = MatMul (active, w2_turned)
        {bias[1]}
        weighed = Mul (told, factors)
        total = ReduceSum <keepdims = 0> (weighed, none)
        shape = Shape (x)
        shaped = Reshape (total, shape)
        y = CastLike (shaped, x)"""


def _given(inputs: Inputs, *places: int) -> list[bool]:
    return [place < len(inputs) and inputs[place] is not None for place in places]


def experts(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """MoE: two layers for each expert."""
    network = _network(attributes, _given(inputs, 3, 5))
    if network is None or any(_given(inputs, 6, 7)):
        return None
    return f"""(x, router, w1_stored, b1, w2_stored, b2) => (y) {{
        w1 = Cast <to = 1> (w1_stored)
        w2 = Cast <to = 1> (w2_stored)
        {network}
    }}"""


def quantized_experts(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """QMoE with weights of 4 or 8 bits, each row or block of a row with a scale."""
    network = _network(attributes, _given(inputs, 4, 7))
    others = _given(inputs, *range(8, 11), *range(13, 21))
    if (
        network is None
        or any(others)
        or attributes.get("quant_type", "int") != "int"
        or attributes.get("weights_prepacked", 0) == 1
    ):
        return None
    bits = attributes.get("expert_weight_bits", 4)
    if bits not in (4, 8) or any(
        attributes.get(f"fc{i}_expert_weight_bits", bits) not in (0, bits) for i in (1, 2)
    ):
        return None
    weights = ["low = Constant <value_ints = [-1]> ()"]
    for i, place in ((1, 3), (2, 6)):
        scale = inputs[place] if place < len(inputs) else None
        data = inputs[place - 1]
        if (
            scale is None
            or not isinstance(scale.type, TensorType)
            or data is None
            or data.dtype != dtypes.uint8
        ):
            return None
        weights.append(
            _weights(
                i,
                bits,
                scale.type.rank == 3,
                attributes.get("block_size", 0),
                _given(inputs, 10 + i)[0],
            )
        )
    head = "(x, router, w1_stored, s1, b1, w2_stored, s2, b2, w3, s3, b3, z1, z2) => (y)"
    return f"{head} {{ {chr(10).join(weights)} {network} }}"


def _weights(i: int, bits: int, blocks: bool, block: int, shifted: bool) -> str:
    """One layer's weights as numbers."""
    name = f"w{i}"
    lines = [
        unpacked(f"{name}_stored", bits, f"{name}_codes", "low"),
        f"{name}_scales = Cast <to = 1> (s{i})",
        (
            f"{name}_steps = "
            f"{f'Identity ({name}_scales)' if blocks else f'Unsqueeze ({name}_scales, low)'}"
        ),
        f"{name}_count = Shape <start = -1> (s{i})",
        f"{name}_first = Constant <value_ints = [0]> ()",
    ]
    if shifted:
        lines += [
            unpacked(f"z{i}", bits, f"{name}_many", "low"),
            f"{name}_cut = Slice ({name}_many, {name}_first, {name}_count, low)",
            (
                f"{name}_zeros = "
                f"{f'Identity ({name}_cut)' if blocks else f'Unsqueeze ({name}_cut, low)'}"
            ),
        ]
    else:
        lines += [
            f"{name}_middle = Constant <value = uint8 {{{1 << (bits - 1)}}}> ()",
            f"{name}_all = Shape ({name}_steps)",
            f"{name}_zeros = Expand ({name}_middle, {name}_all)",
        ]
    if blocks:
        lines.append(
            f"{name} = DequantizeLinear <axis = 2, block_size = {block}> ({name}_codes, "
            f"{name}_steps, {name}_zeros)"
        )
    else:
        lines += [
            f"{name}_f = Cast <to = 1> ({name}_codes)",
            f"{name}_zf = Cast <to = 1> ({name}_zeros)",
            f"{name}_d = Sub ({name}_f, {name}_zf)",
            f"{name} = Mul ({name}_d, {name}_steps)",
        ]
    return "\n".join(lines)
