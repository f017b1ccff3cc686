"""ONNX Runtime's recurrences of language models over a state as ONNX's."""

from __future__ import annotations

from typing import Any, Final

from infuse.ir.graph import Value
from infuse.tracing.microsoft.building import CallBuilder, reads

_TURNED: Final = (0, 2, 1)


@reads("LinearAttention")
def linear_attention(
    make: CallBuilder,
    query: Value,
    *others: Value | None,
    q_num_heads: int,
    kv_num_heads: int,
    state_window: int = 0,
    **attributes: Any,
) -> list[Value] | None:
    """LinearAttention of ONNX; where keys have more heads, each head of queries reads several."""
    if state_window or min(q_num_heads, kv_num_heads) < 1:
        return None
    if q_num_heads < kv_num_heads:
        times, rest = divmod(kv_num_heads, q_num_heads)
        if rest or make.shape(query) is None:
            return None
        front = make("Shape", query, start=0, end=2)
        heads = make("Reshape", query, make.sizes(front, q_num_heads, 1, -1))
        repeated = make("Tile", heads, make.ints(1, 1, 1, times, 1))
        query, q_num_heads = make("Reshape", repeated, make.sizes(front, -1)), kv_num_heads
    counts = {"q_num_heads": q_num_heads, "kv_num_heads": kv_num_heads}
    return make.several(2, "LinearAttention", query, *others, **counts, **attributes)


@reads("CausalConvWithState")
def causal_conv(
    make: CallBuilder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    past: Value | None = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    ndim: int = 1,
    state_window: int = 0,
) -> list[Value] | None:
    """CausalConvWithState of ONNX, also of sequences whose channels are last."""
    shape = make.shape(x)
    if ndim != 1 or dilation != 1 or state_window or shape is None or len(shape) != 3:
        return None
    if channels_last:
        x, past = make("Transpose", x, perm=_TURNED), past and make("Transpose", past, perm=_TURNED)
    results = make.several(2, "CausalConvWithState", x, weight, bias, past, activation=activation)
    return [make("Transpose", y, perm=_TURNED) for y in results] if channels_last else results
