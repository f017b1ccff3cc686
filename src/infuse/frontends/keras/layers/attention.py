"""Attention of several heads, of one, and by a sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import KerasCall, layer
from infuse.frontends.keras.config import Config
from infuse.frontends.keras.layers.activations import masked_softmax
from infuse.frontends.keras.layers.dense import einsum
from infuse.frontends.keras.layers.normalization import wide
from infuse.ir.graph import Value

_PARTS = ("query", "key", "value")


def _projections(gate: int) -> Callable[[Config], Mapping[str, Any]]:
    """The layers inside, in the order in which they are made; `gate`: where that of the gate is."""

    def children(config: Config) -> Mapping[str, Any]:
        names = [*_PARTS, "output"]
        if config.flag("use_gate"):
            names.insert(gate, "gate")
        fields = {
            "use_bias": config.flag("use_bias", True),
            "dtype": config.get("dtype"),
            "trainable": config.get("trainable", True),
        }
        return {
            f"_{name}_dense": {"class_name": "Projection", "config": {**fields, "name": name}}
            for name in names
        }

    return children


def _weights(config: Config) -> list[str]:
    return ["kernel", "bias"] if config.flag("use_bias") else ["kernel"]


layer("Projection", weights=_weights)(lambda call, x: _projected(call, x, 1))


def _projected(call: KerasCall, x: Value, inner: int) -> Value:
    """The last `inner` axes of a tensor multiplied with the first of a kernel."""
    kernel = call.weight("kernel")
    letters = "abcdefghijklmnopqrstuvwxyz"
    left = letters[: x.rank]
    new = letters[x.rank : x.rank + kernel.rank - inner]
    free, contracted = left[: x.rank - inner], left[x.rank - inner :]
    bias = call.optional("bias")
    equation = f"{left},{contracted}{new}->{free}{new}"
    return einsum(call, equation, x, kernel, None if bias is None else (bias, new))


@dataclass(frozen=True)
class Heads:
    """What layers of several heads differ in: the axes of attention, the scale, and whether keys
    are repeated for several heads of queries.
    """

    axes: tuple[int, ...]
    scale: float
    repeats: int = 1
    removes: bool = False


@layer("MultiHeadAttention", children=_projections(2))
def multi_head_attention(
    call: KerasCall, query: Value, value: Value, *args: Any, **kwargs: Any
) -> Any:
    """Heads of queries, keys and values."""
    config = call.config
    axes = config.get("attention_axes")
    axes = (
        tuple(config.axes("attention_axes", query.rank))
        if axes
        else tuple(range(1, query.rank - 1))
    )
    heads = Heads(axes, 1 / float(np.sqrt(config.whole("key_dim"))), removes=True)
    return _attended(call, heads, query, value, *args, **kwargs)


@layer("GroupQueryAttention", "GroupedQueryAttention", children=_projections(2), masking=True)
def grouped_query_attention(call: KerasCall, query: Value, value: Value, *args: Any, **kwargs: Any
                            ) -> Any:  # fmt: skip
    """Heads of queries, groups of which share keys and values."""
    config = call.config
    repeats = config.whole("num_query_heads") // config.whole("num_key_value_heads")
    heads = Heads((1,), 1 / float(np.sqrt(config.whole("head_dim"))), repeats)
    return _attended(call, heads, query, value, *args, **kwargs)


def _attended(
    call: KerasCall,
    heads: Heads,
    query: Value,
    value: Value,
    key: Value | None = None,
    query_mask: Value | None = None,
    value_mask: Value | None = None,
    key_mask: Value | None = None,
    attention_mask: Value | None = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:
    g = call.g
    masks = _masks(call, query, value, key, (query_mask, value_mask, key_mask))
    own = masks[0]
    if heads.removes and call.runner.generation == 3:
        for each in (query, value, key):
            if each is not None:
                call.set_mask(each, None)
    mask = _attention_mask(call, query, value, masks, attention_mask, use_causal_mask)
    q, k, v = (
        _projected(call.child(f"_{name}_dense"), call.floats(x), 1)
        for name, x in zip(_PARTS, (query, value if key is None else key, value))
    )
    if heads.repeats > 1:
        k, v = (_repeated(call, x, heads.repeats) for x in (k, v))
    dot, combined = _equations(q.rank, heads.axes)
    scores = _scores(call, dot, q, k, heads)
    fused = _is_fused(call, scores, return_attention_scores)
    dtype = scores.dtype
    scores = g("Mul", g.cast(scores, wide(dtype)) if fused else scores, heads.scale)
    if mask is not None:
        for _ in range(scores.rank - mask.rank):
            mask = call.unsqueezed(mask, mask.rank - 2 * len(heads.axes))
    scores = g.cast(_softmax(call, scores, mask, heads, not fused), dtype)
    y = _combined(call, combined, scores, v, heads)
    if call.config.flag("use_gate"):
        gate = g("Sigmoid", _projected(call.child("_gate_dense"), call.floats(query), 1))
        y = g("Mul", y, gate)
    y = _projected(call.child("_output_dense"), y, 2)
    if heads.removes:
        call.set_mask(y, own)
    return (y, scores) if return_attention_scores else y


def _masks(
    call: KerasCall, query: Value, value: Value, key: Value | None, masks: Sequence[Value | None]
) -> list[Value | None]:
    """The masks of query, value and key: those that are given, or else go with them."""
    operands = (query, value, key)
    return [
        mask if mask is not None or x is None else call.mask(x) for x, mask in zip(operands, masks)
    ]


def _attention_mask(
    call: KerasCall,
    query: Value,
    value: Value,
    masks: Sequence[Value | None],
    attention_mask: Value | None,
    causal: bool,
) -> Value | None:
    """All masks together: which key each query may see."""
    listed = [
        None if mask is None else call.unsqueezed(call.boolean(mask), axis)
        for mask, axis in zip(masks, (-1, -2, -2))
    ]
    if causal:
        listed.append(_causal(call, query, value))
    window = call.config.get("sliding_window")
    if window is not None:
        listed.append(_window(call, query, value, int(window)))
    if attention_mask is not None:
        listed.append(call.boolean(attention_mask))
    result: Value | None = None
    for mask in listed:
        if mask is not None:
            result = mask if result is None else call.g("And", result, mask)
    return result


def _places(call: KerasCall, x: Value, axis: int) -> Value:
    """0, 1, … along the first axis of places, as a row or a column."""
    g, size = call.g, call.g.size_of(x, 1)
    if isinstance(size, int):
        numbers = g.constant(np.arange(size))
    else:
        numbers = g("Range", g.constant(np.int64(0)), size, g.constant(np.int64(1)))
    return call.unsqueezed(numbers, 0, axis)


def _causal(call: KerasCall, query: Value, value: Value) -> Value:
    rows, columns = _places(call, query, 2), _places(call, value, 1)
    return call.g("GreaterOrEqual", rows, columns)


def _window(call: KerasCall, query: Value, value: Value, size: int) -> Value:
    g = call.g
    apart = g("Abs", g("Sub", _places(call, query, 2), _places(call, value, 1)))
    return g("Less", apart, size)


def _repeated(call: KerasCall, x: Value, count: int) -> Value:
    """Every head of BTHD so many times."""
    g, heads, size = call.g, x.shape[2], x.shape[3]
    if not isinstance(heads, int) or not isinstance(size, int):
        raise ModelFileError("its heads are of unknown size")
    tiled = g("Tile", call.unsqueezed(x, 3), g.ints(1, 1, 1, count, 1))
    return call.shaped(tiled, 0, 0, heads * count, size)


def _equations(rank: int, axes: Sequence[int]) -> tuple[str, str]:
    """The equations of scores (keys, queries) and of results (scores, values)."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    target = letters[:rank]
    batch = [i for i in range(rank) if i not in axes and i != rank - 1]
    new = iter(letters[rank:])
    source = "".join(target[i] if i in batch or i == rank - 1 else next(new) for i in range(rank))
    product = "".join(
        [*(target[i] for i in batch), *(target[i] for i in axes), *(source[i] for i in axes)]
    )
    return f"{source},{target}->{product}", f"{product},{source}->{target}"


def _scores(call: KerasCall, equation: str, q: Value, k: Value, heads: Heads) -> Value:
    g = call.g
    if q.rank == 4 and heads.axes == (1,):
        return g("MatMul", g.permute(q, 0, 2, 1, 3), g.permute(k, 0, 2, 3, 1))
    return g("Einsum", k, q, equation=equation)


def _combined(call: KerasCall, equation: str, scores: Value, v: Value, heads: Heads) -> Value:
    g = call.g
    if v.rank == 4 and heads.axes == (1,):
        return g.permute(g("MatMul", scores, g.permute(v, 0, 2, 1, 3)), 0, 2, 1, 3)
    return g("Einsum", scores, v, equation=equation)


def _is_fused(call: KerasCall, scores: Value, with_scores: bool) -> bool:
    """Whether Keras leaves the attention to its backend, where a query that sees no key takes the
    mean of all, and nothing else.
    """
    dropout = call.config.number("dropout", 0.0)
    return call.runner.generation == 3 and not dropout and not with_scores and scores.rank == 4


def _softmax(
    call: KerasCall, scores: Value, mask: Value | None, heads: Heads, zeroed: bool
) -> Value:
    count = len(heads.axes)
    axis = list(range(scores.rank - count, scores.rank)) if count > 1 else -1
    return masked_softmax(call, scores, mask, axis, zeroed)


# -- one head --------------------------------------------------------------------------------------


def _dot_weights(config: Config) -> list[str]:
    names = ["scale"] if config.flag("use_scale") else []
    return [*names, "concat_score_weight"] if config.get("score_mode") == "concat" else names


Masks = Sequence[Value | None]


@layer("Attention", weights=_dot_weights)
def attention(
    call: KerasCall,
    xs: Sequence[Value],
    mask: Masks | None = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:
    """Softmax of products of queries and keys, or of the sum of what is behind tanh."""
    g, (q, v, k) = call.g, _three(call, xs)
    mode = call.config.get("score_mode", "dot")
    if mode == "dot":
        order = (*range(k.rank - 2), k.rank - 1, k.rank - 2)
        scores = g("MatMul", q, g.permute(k, *order))
        if call.array("scale") is not None:
            scores = g("Mul", scores, call.weight("scale"))
    elif mode == "concat":
        total = g("Add", call.unsqueezed(q, -2), call.unsqueezed(k, -3))
        if call.array("scale") is not None:
            total = g("Mul", total, call.weight("scale"))
        scores = call.reduced("ReduceSum", g("Tanh", total), [total.rank - 1])
        scores = g("Mul", scores, call.weight("concat_score_weight"))
    else:
        raise ModelFileError(f"there is no score_mode {mode!r}")
    causal = use_causal_mask or call.config.flag("causal")
    return _seen(call, scores, xs, v, mask, return_attention_scores, causal)


@layer(
    "AdditiveAttention",
    weights=lambda config: ["scale"] if config.flag("use_scale", True) else [],
)
def additive_attention(
    call: KerasCall,
    xs: Sequence[Value],
    mask: Masks | None = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:
    """Softmax of a weighted sum of tanh(query + key)."""
    g, (q, v, k) = call.g, _three(call, xs)
    inner = g("Tanh", g("Add", call.unsqueezed(q, -2), call.unsqueezed(k, -3)))
    if call.array("scale") is not None:
        inner = g("Mul", inner, call.weight("scale"))
    scores = call.reduced("ReduceSum", inner, [inner.rank - 1])
    causal = use_causal_mask or call.config.flag("causal")
    return _seen(call, scores, xs, v, mask, return_attention_scores, causal)


def _three(call: KerasCall, xs: Sequence[Value]) -> tuple[Value, Value, Value]:
    if not isinstance(xs, (list, tuple)) or len(xs) not in (2, 3):
        raise ModelFileError("it attends to a list of two or three tensors")
    q, v, *rest = (call.floats(x) for x in xs)
    return q, v, rest[0] if rest else v


def _seen(
    call: KerasCall,
    scores: Value,
    xs: Sequence[Value],
    v: Value,
    mask: Masks | None,
    with_scores: bool,
    causal: bool,
) -> Any:
    """Values weighted with the softmax of scores."""
    g = call.g
    query_mask, value_mask = (list(mask) if mask is not None else [call.mask(x) for x in xs])[:2]
    seen = None if value_mask is None else call.unsqueezed(call.boolean(value_mask), -2)
    if causal:
        if scores.rank != 3:
            raise call.unsupported("a causal mask over several axes")
        order = _causal(call, xs[0], xs[1])
        seen = order if seen is None else g("And", seen, order)
    if seen is not None:
        low = 65504.0 if scores.dtype.name == "float16" else 1e9
        hidden = g.cast(g("Not", seen), scores.dtype)
        scores = g("Sub", scores, g("Mul", hidden, low))
    weights = g("Softmax", scores, axis=-1)
    y = g("MatMul", weights, v)
    if query_mask is not None:
        y = call.where(call.unsqueezed(call.boolean(query_mask), -1), y, 0)
        call.set_mask(y, query_mask)
    return (y, weights) if with_scores else y
