"""Attention and rotary embedding by the operators of older opsets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.exporters.onnx.decompose import Inputs, instead
from infuse.exporters.onnx.spelling import NotExpressible
from infuse.ir.graph import Value
from infuse.ops.core.expressions import call
from infuse.ops.core.traits import Trait, has_trait

_AND, _ISNAN = call("And"), call("IsNaN")


@instead("Attention")
def attention(inputs: Inputs) -> Any:
    """softmax(q · kᵀ · scale + mask) · v for each head; keys and values of the past come first."""
    options = inputs.attributes
    packed = _packed(inputs)
    q, heads, width = _heads(inputs, 0, options["q_num_heads"], packed)
    k, groups, _ = _heads(inputs, 1, options["kv_num_heads"], packed)
    v, _, depth = _heads(inputs, 2, options["kv_num_heads"], packed)
    keys = k if inputs[4] is None else ops.concat(inputs[4], k, axis=2)
    values = v if inputs[5] is None else ops.concat(inputs[5], v, axis=2)
    scale = options["scale"] if options["scale"] is not None else 1 / math.sqrt(width)
    if packed is None and len(inputs.shape(1)) == 3 and heads == groups and inputs[4] is None:
        columns = ops.transpose(ops.reshape(inputs[1], [0, 0, heads, width]), perm=(0, 2, 3, 1))
    else:
        columns = ops.transpose(_repeat(keys, heads, groups, width), perm=(0, 1, 3, 2))
    raw = ops.matmul(q * scale if scale != 1 else q, columns)
    scores = (
        options["softcap"] * ops.tanh(raw * (1 / options["softcap"])) if options["softcap"] else raw
    )
    seen, mask = _seen(inputs, q, keys), _mask(inputs, keys)
    if mask is not None and inputs.dtype(3).is_bool:
        seen = mask if seen is None else _AND(seen, mask)
    biased = scores if mask is None or inputs.dtype(3).is_bool else scores + mask
    weights = _weights(inputs, biased, seen)
    result = ops.matmul(weights, _repeat(values, heads, groups, depth))
    if len(inputs.shape(0)) == 3:
        result = ops.reshape(ops.transpose(result, perm=(0, 2, 1, 3)), [0, 0, heads * depth])
    hidden = biased if seen is None else ops.where(seen, biased, -math.inf)
    return result, keys, values, (raw, scores, hidden, weights)[options["qk_matmul_output_mode"]]


def _packed(inputs: Inputs) -> Any:
    """Queries, keys and values by heads at once, where they are the parts of one tensor; else
    None.
    """
    options, parts = inputs.attributes, inputs.node.inputs[:3]
    split = parts[0].producer if parts[0] is not None else None
    if (
        split is None
        or split.kind != "Split"
        or len(inputs.shape(0)) != 3
        or parts != split.outputs
    ):
        return None
    heads, width, whole = options["q_num_heads"], inputs.shape(0)[2], split.inputs[0]
    alike = heads == options["kv_num_heads"] and all(inputs.shape(i)[2] == width for i in (1, 2))
    if (
        whole is None
        or not alike
        or not isinstance(width, int)
        or split.op.attributes()["axis"] not in (2, -1)
    ):
        return None
    rows = ops.transpose(ops.reshape(whole, [0, 0, 3 * heads, width // heads]), perm=(0, 2, 1, 3))
    return ops.split(rows, axis=1, num_outputs=3)


def _heads(inputs: Inputs, index: int, heads: int, packed: Any) -> tuple[Any, int, int]:
    """An input as (batch, heads, length, size), its number of heads and their size."""
    if len(inputs.shape(index)) == 4:
        return inputs[index], inputs.size(index, 1), inputs.size(index, 3)
    size = inputs.size(index, 2) // heads
    if packed is not None:
        return packed[index], heads, size
    rows = ops.reshape(inputs[index], [0, 0, heads, size])
    return ops.transpose(rows, perm=(0, 2, 1, 3)), heads, size


def _repeat(x: Any, heads: int, groups: int, size: int) -> Any:
    """Each head of keys or values, as often as there are queries for it."""
    if heads == groups:
        return x
    wide = ops.expand(ops.unsqueeze(x, [2]), [1, 1, heads // groups, 1, 1])
    return ops.reshape(wide, [0, heads, -1, size])


def _seen(inputs: Inputs, q: Any, keys: Any) -> Any:
    """Where a query may see a key, apart from the mask; None where all see all."""
    options, valid = inputs.attributes, inputs[6]
    left, right = options["left_window_size"], options["right_window_size"]
    if not options["is_causal"] and left < 0 and right < 0 and valid is None:
        return None
    column, query = _counted(keys), ops.unsqueeze(_counted(q), [1])
    counts = None
    if valid is not None:
        counts = ops.unsqueeze(valid, [1, 2, 3])
        query = ops.add(query, ops.sub(counts, _length(q)))
    elif inputs[4] is not None:
        query = ops.add(query, _length(inputs[4]))
    limits = [ops.less_or_equal(column, query)] if options["is_causal"] else []
    if left >= 0:
        limits.append(ops.less_or_equal(ops.sub(query, column), np.array(left)))
    if right >= 0:
        limits.append(ops.less_or_equal(ops.sub(column, query), np.array(right)))
    if counts is not None:
        limits.append(ops.less(column, counts))
    seen = limits[0]
    for limit in limits[1:]:
        seen = _AND(seen, limit)
    return seen


def _mask(inputs: Inputs, keys: Any) -> Any:
    """The mask; one that stops before the last key hides what follows."""
    if inputs[3] is None:
        return None
    shape, lengths = inputs.shape(3), [inputs.shape(1)[-2]]
    if inputs[4] is not None:
        lengths.append(inputs.shape(4)[2])
    last = shape[-1] if shape else 1
    total = sum(lengths)
    if total == last or not isinstance(last, int):
        return inputs[3]  # two symbolic sizes are taken to be equal
    before = [0] * (2 * len(shape) - 1)
    pads: Any = np.array([*before, total - last]) if isinstance(total, int) else None
    if pads is None:
        pads = ops.concat(np.array(before), _length(keys) - np.array([last]), axis=0)
    return ops.pad(inputs[3], pads, np.array(False) if inputs.dtype(3).is_bool else -math.inf)


def _weights(inputs: Inputs, scores: Any, seen: Any) -> Any:
    """Softmax over the keys; a query that may see none has zeros."""
    precision, own = inputs.attributes["softmax_precision"], inputs.dtype(0)
    kind = own if precision is None else dtypes.by_onnx(precision)
    lowest = float(np.finfo(own.numpy).min) if own != dtypes.bfloat16 else -3e38
    chosen = scores if seen is None else ops.where(seen, scores, lowest)
    weights = ops.softmax(chosen)
    if kind.bits > own.bits:
        weights = ops.cast(ops.softmax(ops.cast(chosen, to=kind)), to=own)
    mask = inputs.node.input(3)
    if mask is not None and not mask.dtype.is_bool and not is_finite(mask):
        weights = ops.where(_ISNAN(weights), 0.0, weights)
    return weights if seen is None else ops.where(seen, weights, 0.0)


def wide_mask(inputs: Inputs) -> Any:
    """The mask of an Attention with a row for every query, None where it has: runtimes do not
    broadcast its rows.
    """
    if inputs[3] is None or inputs.node.op.domain:
        return None
    shape, queries = inputs.shape(3), inputs.shape(0)[-2]
    if len(shape) < 2 or shape[-2] != 1 or queries == 1:
        return None
    axis = len(inputs.shape(0)) - 2
    rows: Any = (
        [queries] if isinstance(queries, int) else ops.shape(inputs[0], start=axis, end=axis + 1)
    )
    return ops.expand(inputs[3], ops.concat([1] * (len(shape) - 2), rows, [1], axis=0))


def is_finite(value: Value | None, left: int = 8) -> bool:
    """Whether no element of `value` can be infinite."""
    if value is None:
        return True
    if value.const is not None:
        return bool(np.isfinite(value.const.astype(np.float64)).all())
    node = value.producer
    if node is None or node.op.domain or not left:
        return False
    if node.kind == "Where":
        return all(is_finite(choice, left - 1) for choice in node.inputs[1:])
    return has_trait(node, Trait.MOVEMENT) and is_finite(node.inputs[0], left - 1)


def _length(x: Any) -> Any:
    """The length of a (batch, heads, length, size) tensor."""
    return ops.gather(ops.shape(x), np.array(2))


def _counted(x: Any) -> Any:
    """0, 1, … up to that length."""
    return ops.range(np.array(0), _length(x), np.array(1))


@instead("RotaryEmbedding")
def rotary_embedding(inputs: Inputs) -> Any:
    """Pairs of elements turned by the angles of their positions."""
    x, rank = inputs[0], len(inputs.shape(0))
    heads = inputs.attributes["num_heads"]
    if rank == 3 and not heads:
        raise NotExpressible("its number of heads is not given")
    size = inputs.size(0, 3) if rank == 4 else inputs.size(0, 2) // heads
    turned = inputs.attributes["rotary_embedding_dim"] or size
    rows = ops.transpose(x, perm=(0, 2, 1, 3)) if rank == 4 else ops.reshape(x, [0, 0, heads, size])
    cos, sin = (_angles(inputs, index, turned // 2) for index in (1, 2))
    head = rows if turned == size else ops.slice(rows, [0], [turned], [3])
    if inputs.attributes["interleaved"]:
        first, second = (ops.slice(head, [start], [2**31 - 1], [3], [2]) for start in (0, 1))
    else:
        first, second = (
            ops.slice(head, [0], [turned // 2], [3]),
            ops.slice(head, [turned // 2], [turned], [3]),
        )
    real, imaginary = cos * first - sin * second, sin * first + cos * second
    if inputs.attributes["interleaved"]:
        pairs = ops.concat(ops.unsqueeze(real, [4]), ops.unsqueeze(imaginary, [4]), axis=4)
        result = ops.reshape(pairs, [0, 0, 0, turned])
    else:
        result = ops.concat(real, imaginary, axis=3)
    if turned != size:
        result = ops.concat(result, ops.slice(rows, [turned], [size], [3]), axis=3)
    return (
        ops.transpose(result, perm=(0, 2, 1, 3))
        if rank == 4
        else ops.reshape(result, [0, 0, heads * size])
    )


def _angles(inputs: Inputs, index: int, count: int) -> Any:
    """Cosines or sines as (batch, length, 1, count)."""
    angles = inputs[index] if inputs[3] is None else ops.gather(inputs[index], inputs[3])
    whole = inputs.shape(index)[-1] == count
    return ops.unsqueeze(angles if whole else ops.slice(angles, [0], [count], [2]), [2])
