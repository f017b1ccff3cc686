"""ONNX Runtime's own gates, mixtures and normalizations of branches, as functions of ONNX's
operators.

Makers are as in `contributed_calls`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infuse.ir.graph import Value
from infuse.ir.types import TensorType

Inputs = Sequence[Value | None]


def _shape(inputs: Inputs, index: int) -> tuple[Any, ...] | None:
    """The shape of an input that is a tensor of known rank."""
    value = inputs[index] if index < len(inputs) else None
    return value.type.shape if value is not None and isinstance(value.type, TensorType) else None


def _is_given(inputs: Inputs, index: int) -> bool:
    return index < len(inputs) and inputs[index] is not None


def _normalized(name: str, result: str, epsilon: float) -> str:
    """A float32 tensor over the root of the mean of its squares along the last axis."""
    return f"""
        {name}_squares = Mul ({name}, {name})
        {name}_mean = ReduceMean <keepdims = 1> ({name}_squares, last)
        {name}_epsilon = Constant <value_float = {epsilon!r}> ()
        {name}_shifted = Add ({name}_mean, {name}_epsilon)
        {name}_root = Sqrt ({name}_shifted)
        {result} = Div ({name}, {name}_root)"""


_LAST = "last = Constant <value_ints = [-1]> ()"


def sample_op(attributes: Mapping[str, Any], inputs: Inputs) -> str:
    """Its input."""
    return "(x) => (y) { y = Identity (x) }"


def matmul_integer_16(attributes: Mapping[str, Any], inputs: Inputs) -> str:
    """A product of integers of 16 bits."""
    return "(a, b) => (y) { u = Cast <to = 6> (a) v = Cast <to = 6> (b) y = MatMul (u, v) }"


def gated_add(attributes: Mapping[str, Any], inputs: Inputs) -> str:
    """The sum of x and y · gate."""
    return "(x, y, gate) => (z) { part = Mul (y, gate) z = Add (x, part) }"


def scaled_silu(attributes: Mapping[str, Any], inputs: Inputs) -> str:
    """The product of z and sigmoid(z) for a scaled z."""
    alpha = float(attributes.get("alpha", 1.0))
    factor = "scale" if _is_given(inputs, 1) else "alpha"
    return f"""(x, scale) => (y) {{
        alpha = Constant <value_float = {alpha!r}> ()
        factor = CastLike ({factor}, x)
        z = Mul (x, factor)
        s = Sigmoid (z)
        y = Mul (z, s)
    }}"""


def gated_rms_norm(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """Groups of elements over their root mean square, times a scale and an activated gate."""
    kind = attributes.get("activation", "silu")
    if kind not in ("silu", "swish", "sigmoid"):
        return None
    activated = "Identity (turned)" if kind == "sigmoid" else "Mul (gates, turned)"
    return f"""(x, scale, gate) => (y) {{
        {_LAST}
        wide = Cast <to = 1> (x)
        front = Shape <start = 0, end = -1> (x)
        size = Shape (scale)
        grouped_shape = Concat <axis = 0> (front, last, size)
        grouped = Reshape (wide, grouped_shape)
        {_normalized("grouped", "normal", float(attributes.get("epsilon", 1e-5)))}
        factor = Cast <to = 1> (scale)
        scaled = Mul (normal, factor)
        shape = Shape (x)
        flat = Reshape (scaled, shape)
        gates = Cast <to = 1> (gate)
        turned = Sigmoid (gates)
        active = {activated}
        product = Mul (flat, active)
        y = CastLike (product, x)
    }}"""


def _branches(attributes: Mapping[str, Any], shape: Sequence[Any] | None) -> int | None:
    """How many branches there are: stated, or the last axis but one; None where that is not
    known.
    """
    count = attributes.get("num_branches", 0) or (
        shape[-2] if shape is not None and len(shape) > 1 else 0
    )
    return count if isinstance(count, int) and count > 0 else None


def _grouped(attributes: Mapping[str, Any], name: str, result: str) -> str:
    """Streams with an axis of branches."""
    count = attributes.get("num_branches", 0)
    if not count:
        return f"{result} = Identity ({name})"
    return f"""
        {name}_front = Shape <start = 0, end = -1> ({name})
        {name}_branches = Constant <value_ints = [{count}, -1]> ()
        {name}_grouped = Concat <axis = 0> ({name}_front, {name}_branches)
        {result} = Reshape ({name}, {name}_grouped)"""


def branchwise_rms_norm(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """Each branch over its root mean square, times a scale of each branch or of all."""
    shape, scale = _shape(inputs, 0), _shape(inputs, 1)
    count = _branches(attributes, shape)
    if count is None or shape is None or (_is_given(inputs, 1) and scale is None):
        return None
    scaled = "scaled = Identity (normal)"
    if scale is not None:
        width = (
            shape[-1] // count
            if attributes.get("num_branches", 0) and isinstance(shape[-1], int)
            else shape[-1]
        )
        whole = len(scale) == 1 and scale[0] != width
        sizes = f"[{count}, -1]" if whole or len(scale) == 2 else "[-1]"
        scaled = f"""
        wide_scale = Cast <to = 1> (scale)
        sizes = Constant <value_ints = {sizes}> ()
        factor = Reshape (wide_scale, sizes)
        scaled = Mul (normal, factor)"""
    return f"""(x, scale) => (y) {{
        {_LAST}
        {_grouped(attributes, "x", "parts")}
        wide = Cast <to = 1> (parts)
        {_normalized("wide", "normal", float(attributes.get("epsilon", 1e-5)))}
        {scaled}
        shape = Shape (x)
        flat = Reshape (scaled, shape)
        y = CastLike (flat, x)
    }}"""


def hyper_connection_pre_mix(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """The weighted sum of the branches."""
    shape, mix = _shape(inputs, 0), _shape(inputs, 1)
    count = _branches(attributes, shape)
    if shape is None or mix is None or count is None:
        return None
    rank = len(shape) + (1 if attributes.get("num_branches", 0) else 0)
    weights = "mix = Identity (wide_mix)"
    if len(mix) == rank - 1:
        whole = bool(attributes.get("num_branches", 0)) and mix[-1] != count
        weights = (
            _grouped(attributes, "wide_mix", "mix") if whole else "mix = Unsqueeze (wide_mix, last)"
        )
    return f"""(x, pre) => (y) {{
        {_LAST}
        before = Constant <value_ints = [-2]> ()
        wide = Cast <to = 1> (x)
        wide_mix = Cast <to = 1> (pre)
        {_grouped(attributes, "wide", "parts")}
        {weights}
        weighed = Mul (parts, mix)
        total = ReduceSum <keepdims = 0> (weighed, before)
        factor = Constant <value_float = {float(attributes.get("reduction_scale", 1.0))!r}> ()
        scaled = Mul (total, factor)
        y = CastLike (scaled, x)
    }}"""


def hyper_connection_post_mix(attributes: Mapping[str, Any], inputs: Inputs) -> str | None:
    """The branches mixed with each other, plus a new output weighed for each."""
    shape, post = _shape(inputs, 0), _shape(inputs, 2)
    if shape is None or post is None or _branches(attributes, shape) is None:
        return None
    rank = len(shape) + (1 if attributes.get("num_branches", 0) else 0)
    order = [*range(rank - 2), rank - 1, rank - 2]
    mixed = "mixed = Identity (parts)"
    if _is_given(inputs, 3):
        mixed = f"""
        wide_mix = Cast <to = 1> (mix)
        turned = Transpose <perm = {order}> (wide_mix)
        mixed = MatMul (turned, parts)"""
    weights = (
        "weights = Unsqueeze (wide_post, last)"
        if len(post) == rank - 1
        else "weights = Identity (wide_post)"
    )
    return f"""(x, block, post, mix) => (y) {{
        {_LAST}
        before = Constant <value_ints = [-2]> ()
        wide = Cast <to = 1> (x)
        {_grouped(attributes, "wide", "parts")}
        {mixed}
        wide_post = Cast <to = 1> (post)
        {weights}
        wide_block = Cast <to = 1> (block)
        row = Unsqueeze (wide_block, before)
        added = Mul (weights, row)
        total = Add (mixed, added)
        shape = Shape (x)
        flat = Reshape (total, shape)
        y = CastLike (flat, x)
    }}"""


def linear_attention_gate(attributes: Mapping[str, Any], inputs: Inputs) -> str:
    """decay_scale · softplus(a + dt_bias), and sigmoid(b) where there is one."""
    beta = "beta = Sigmoid (b)" if _is_given(inputs, 3) else ""
    return f"""(a, bias, scale, b) => (decay{", beta" if beta else ""}) {{
        wide = Cast <to = 1> (a)
        shifted = Add (wide, bias)
        soft = Softplus (shifted)
        scaled = Mul (soft, scale)
        decay = CastLike (scaled, a)
        {beta}
    }}"""


def engram_gate(attributes: Mapping[str, Any], inputs: Inputs) -> str:
    """The value, gated for each branch by how well key and query agree; and that normalized, with a
    scale.
    """
    epsilon = float(attributes.get("epsilon", 1e-5))
    more = ""
    if _is_given(inputs, 5):
        more = f"""
        {_normalized("gated", "gated_normal", epsilon)}
        conv_scale = Cast <to = 1> (cs)
        conv = Mul (gated_normal, conv_scale)
        normed = CastLike (conv, key)"""
    return f"""(key, query, value, ks, qs, cs) => (y{", normed" if more else ""}) {{
        {_LAST}
        before = Constant <value_ints = [-2]> ()
        k = Cast <to = 1> (key)
        q = Cast <to = 1> (query)
        v = Cast <to = 1> (value)
        {_normalized("k", "k_normal", epsilon)}
        {_normalized("q", "q_normal", epsilon)}
        k_scale = Cast <to = 1> (ks)
        q_scale = Cast <to = 1> (qs)
        keys = Mul (k_normal, k_scale)
        queries = Mul (q_normal, q_scale)
        products = Mul (keys, queries)
        sum = ReduceSum <keepdims = 1> (products, last)
        size = Shape <start = -1> (key)
        size_f = Cast <to = 1> (size)
        root = Sqrt (size_f)
        dot = Div (sum, root)
        sign = Sign (dot)
        magnitude = Abs (dot)
        least = Constant <value_float = 1e-6> ()
        bounded = Max (magnitude, least)
        curved = Sqrt (bounded)
        signed = Mul (sign, curved)
        gate = Sigmoid (signed)
        row = Unsqueeze (v, before)
        gated = Mul (gate, row)
        y = CastLike (gated, key)
        {more}
    }}"""
