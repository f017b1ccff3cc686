"""Attention in ONNX Runtime's own operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.sizes import int64s
from infuse.ops.core.traits import Trait, has_trait
from infuse.ops.domains.microsoft import DOMAIN
from infuse.passes.rules.backend.onnxruntime import RuntimeRule, own, require_float32
from infuse.passes.rules.common import attribute, is_one, number, require_shape
from infuse.rewrite import require

PANEL = 16
"""Columns that the runtime's product of matrices takes at a time."""
_Q = (2, 5, 8)
_HEADS = {"q_num_heads": 2, "kv_num_heads": 2}
_SPECIAL = {
    "softcap": 0.0,
    "left_window_size": -1,
    "right_window_size": -1,
    "qk_matmul_output_mode": 0,
    "softmax_precision": None,
}


class UseMultiHeadAttention(RuntimeRule):
    """Attention(q, k, v, mask, past) over three axes → MultiHeadAttention, for as many heads of
    keys as of queries

    A mask over keys alone that a choice between zero and a number far below makes becomes the
    padding mask.
    """

    shares = True
    rounding = "scores are scaled in another place"
    examples = tuple(
        {
            "q": _Q,
            "k": _Q,
            "v": _Q,
            "mask": mask,
            "condition": np.ones((2, 1, 1, 5), bool),
            "low": np.float32(-1e9),
            "past_key": (2, 2, 3, 4),
            "past_value": (2, 2, 3, 4),
            "attention": _HEADS,
            "outputs": outputs,
        }
        for mask, outputs in (((2, 2, 5, 5), 1), ((5, 5), 1), ((2, 1, 1, 5), 1), ((1, 2, 5, 8), 3))
    )

    def match(
        self,
        q: Variable,
        k: Variable,
        v: Variable,
        mask: Variable,
        condition: Variable,
        low: Variable,
        past_key: Variable,
        past_value: Variable,
    ) -> Any:
        padding = ops.one_of(
            ops.where(condition, 0.0, ops.const(low), name="keeps"),
            ops.where(condition, ops.const(low), 0.0, name="hides"),
        )
        return [
            ops.attention(q, k, v, padding, name="attention"),
            ops.attention(q, k, v, name="attention"),
            ops.attention(q, k, v, mask, name="attention"),
            ops.attention(q, k, v, ops.maybe(mask), past_key, past_value, name="attention"),
        ]

    def when(
        self,
        q: Value,
        k: Value,
        v: Value,
        attention: Node,
        mask: Value | None = None,
        condition: Value | None = None,
        low: Value | None = None,
        past_key: Value | None = None,
    ) -> None:
        attributes = attention.op.attributes()
        require_float32(q, v, mask)
        require_shape(*(x for x in (q, k, v, past_key) if x is not None))
        require(q.rank == k.rank == v.rank == 3, "Q, K and V do not have three axes")
        require(q.shape[0] == k.shape[0] == v.shape[0], "Q, K and V are broadcast over the batch")
        require(attributes["q_num_heads"] == attributes["kv_num_heads"], "several heads share keys")
        require(
            all(attributes[name] == usual for name, usual in _SPECIAL.items()),
            "it caps, limits or shows the scores",
        )
        require(not attention.outputs[3:] or not attention.outputs[3].uses, "its scores are read")
        # Without outputs for them the runtime does not join the keys and values of the past.
        joined = len(attention.outputs) >= 3 and all(o.uses for o in attention.outputs[1:3])
        require(past_key is None or joined, "nobody reads the joined keys and values")
        require(
            not attributes["is_causal"] or q.shape[1] == k.shape[1],
            "queries and keys differ in number",
        )
        if condition is not None and low is not None:
            require_shape(condition)
            require(np.isfinite(number(low)), "what is hidden is not a number")
            row = condition.rank == 4 and is_one(condition.shape[1]) and is_one(condition.shape[2])
            require(row, "the mask differs between queries or heads")
            keys = (condition.shape[0], condition.shape[3])
            require(keys == k.shape[:2], "the mask is broadcast over batch or keys")
        elif mask is not None:
            require_shape(mask)
            total = attention.outputs[0].shape[:1]
            require(2 <= mask.rank <= 4, "the mask does not have two to four axes")
            shape = (1,) * (4 - mask.rank) + mask.shape
            require(is_one(shape[0]) or shape[0] == total[0], "the mask is for another batch")
            require(
                is_one(shape[1]) or shape[1] == attributes["q_num_heads"],
                "the mask is for other heads",
            )
            require(is_one(shape[2]) or shape[2] == q.shape[1], "the mask is for other queries")
            past = 0 if past_key is None else past_key.shape[2]
            require(
                shape[3] == past + k.shape[1],
                "the mask is broadcast over keys, or shorter than they are",
            )

    def build(
        self,
        q: Value,
        k: Value,
        v: Value,
        attention: Node,
        mask: Value | None = None,
        condition: Value | None = None,
        low: Value | None = None,
        hides: Node | None = None,
        past_key: Value | None = None,
        past_value: Value | None = None,
    ) -> Any:
        attributes = attention.op.attributes()
        options: dict[str, Any] = {
            "num_heads": attributes["q_num_heads"],
            "scale": attributes["scale"],
        }
        if attributes["is_causal"]:
            options["unidirectional"] = 1
        padding: Any = None
        if condition is not None and low is not None:
            options["mask_filter_value"] = number(low)
            seen = ops.squeeze(condition, int64s(1, 2))
            padding = ops.cast(Call("Not", (seen,)) if hides is not None else seen, to=dtypes.int32)
        added = None if mask is None else _as_bias(mask, q)
        call = own(
            "MultiHeadAttention", q, k, v, None, padding, added, past_key, past_value, **options
        )
        return (call, call[1], call[2]) if any(o.uses for o in attention.outputs[1:]) else call


def _is_finite(value: Value | None, left: int = 12) -> bool:
    """Whether a mask is made of finite numbers: of constants, of integers, and of choices and sums
    among them.
    """
    if value is None or not value.dtype.is_float:
        return value is not None
    if value.const is not None:
        return bool(np.isfinite(value.const).all())
    node = value.producer
    if node is None or node.op.domain or not left:
        return False
    if has_trait(node, Trait.MOVEMENT):
        operands = node.inputs[:1]
    elif node.kind == "Where":
        operands = node.inputs[1:]
    elif node.kind in ("Add", "Sub", "Mul", "Cast"):
        operands = node.inputs
    else:
        return False
    return all(_is_finite(v, left - 1) for v in operands)


def _as_bias(mask: Value, q: Value) -> Any:
    """A mask over four axes with a row for every query."""
    result: Any = mask
    if mask.rank < 4:
        result = ops.unsqueeze(mask, int64s(*range(4 - mask.rank)))
    if is_one(mask.shape[-2]) and not is_one(q.shape[1]):
        rows = (
            int64s(int(q.shape[1])) if isinstance(q.shape[1], int) else ops.shape(q, start=1, end=2)
        )
        result = ops.expand(result, ops.concat(int64s(1, 1), rows, int64s(1), axis=0))
    return result


class FusePackedAttention(RuntimeRule):
    """MultiHeadAttention of the parts of x · w + b → Attention(x, w, b)"""

    rounding = "products are summed in another order"
    examples = (
        {
            "x": (2, 5, 6),
            "w": np.ones((6, 96), np.float32),
            "b": np.ones(96, np.float32),
            "bias": (1, 2, 5, 5),
            "more": [int64s(32, 32, 32)],
            "split": {"axis": 2},
            "attention": {"num_heads": 2},
            "padding": np.ones((2, 5), np.int32),
        },
    )

    def match(
        self,
        x: Variable,
        w: Variable,
        b: Variable,
        more: Variable,
        padding: Variable,
        bias: Variable,
    ) -> Any:
        product = ops.matmul(x, ops.const(w))
        parts = ops.split(ops.one_of(product + ops.const(b), product), ops.rest(more), name="split")
        operands = (parts[0], parts[1], parts[2])
        return [
            Call("MultiHeadAttention", (*operands, *further), domain=DOMAIN, label="attention")
            for further in ((), (None, padding), (None, ops.maybe(padding), bias))
        ]

    def when(
        self,
        x: Value,
        w: Value,
        split: Node,
        attention: Node,
        b: Value | None = None,
    ) -> None:
        require_float32(x)
        require_shape(x)
        require(x.rank == 3 and w.rank == 2, "it does not multiply rows by one matrix")
        require(attribute(split, "axis") in (-1, 2), "other axes are split")
        sizes = [part.shape[2] for part in split.outputs]
        require(
            len(sizes) == 3 and all(isinstance(s, int) for s in sizes), "there are not three parts"
        )
        require(sizes[0] == sizes[1], "queries and keys differ in size")
        heads = attribute(attention, "num_heads")
        slow = any(isinstance(s, int) and s // heads % PANEL for s in sizes)
        require(not slow, "heads have odd sizes, and the runtime multiplies for one at a time")
        require(b is None or b.shape == w.shape[1:], "the bias is not a vector")
        require(not any(o.uses for o in attention.outputs[1:]), "present keys are read")

    def build(
        self,
        x: Value,
        w: Value,
        split: Node,
        attention: Node,
        b: Value | None = None,
        padding: Value | None = None,
        bias: Value | None = None,
    ) -> Any:
        attributes = dict(attention.op.attributes())
        sizes = tuple(part.shape[2] for part in split.outputs)
        if len(set(sizes)) > 1:
            attributes["qkv_hidden_sizes"] = sizes
        # Its kernel for processors reads the bias without asking whether there is one.
        shift = np.zeros(w.shape[-1:], np.float32) if b is None else b
        return own("Attention", x, w, shift, padding, None, bias, **attributes)


RULES = (UseMultiHeadAttention, FusePackedAttention)
