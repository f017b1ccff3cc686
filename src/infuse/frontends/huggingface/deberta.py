"""DeBERTa, versions 2 and 3: attention by contents and by distances, apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infuse.frontends.huggingface.encoders import Bert, Results, places_of
from infuse.frontends.huggingface.files import Config
from infuse.frontends.huggingface.layers import (
    Weights,
    activation,
    attend,
    embedding,
    layer_norm,
    linear,
    relative_places,
    split_heads,
)
from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.elementwise import FUNCTIONS, multiply
from infuse.tracing.arrays.manipulation import expand_dims, permute_dims, reshape


class DebertaV2(Bert):
    """DeBERTa-v2 and v3."""

    root = "deberta"

    def __init__(self, config: Config, weights: Weights) -> None:
        super().__init__(config, weights)
        self.kinds = [k.lower() for k in config.get("pos_att_type") or []]
        if isinstance(config.get("pos_att_type"), str):
            self.kinds = config.pos_att_type.lower().split("|")

    def hidden(self, input_ids: Array, attention_mask: Array, types: Array | None) -> Array:
        config, w = self.config, self.w.within("encoder")
        real = expand_dims(attention_mask.astype(np.float32), axis=2)
        first = x = self.embedded(input_ids, types) * real
        seen = expand_dims(attention_mask.astype(np.bool_), axis=1)
        both = expand_dims(seen & permute_dims(seen, (0, 2, 1)), axis=1)
        distances = self.distances(input_ids.shape[1]) if config.relative_attention else None
        for number in range(config.num_hidden_layers):
            x = self.disentangled(x, both, distances, w.within(f"layer.{number}"))
            if number == 0 and config.get("conv_kernel_size", 0):
                x = self.convolved(first, x, real, w.within("conv"))
        return x

    def embedded(self, ids: Array, types: Array | None) -> Array:
        w = self.w.within("embeddings")
        x = embedding(ids, w.within("word_embeddings"))
        if self.config.get("position_biased_input", True):
            x = x + embedding(places_of(ids), w.within("position_embeddings"))
        if self.config.get("type_vocab_size", 0) > 0:
            kinds = types if types is not None else lifted(np.zeros((1, 1), np.int64))
            x = x + embedding(kinds, w.within("token_type_embeddings"))
        if "embed_proj.weight" in w:
            x = linear(x, w.within("embed_proj"))
        return layer_norm(x, w.within("LayerNorm"), self.config.layer_norm_eps)

    @property
    def span(self) -> int:
        """How far distances are told apart, in buckets."""
        buckets = self.config.get("position_buckets", -1)
        return int(buckets if buckets > 0 else self.reach)

    @property
    def reach(self) -> int:
        """The largest distance."""
        config = self.config
        reach = config.get("max_relative_positions", -1)
        return int(reach if reach >= 1 else config.max_position_embeddings)

    def distances(self, length: Any) -> Array:
        """Query place - key place, far ones by their logarithm: [length, length] int64."""
        relative = -relative_places(length)
        buckets = self.config.get("position_buckets", -1)
        if buckets <= 0:
            return relative
        half = buckets // 2
        size = node("Abs", relative)
        size = FUNCTIONS["where"](size < half, half - 1, size)
        growth = node("Log", size.astype(np.float32) / np.float32(half))
        growth = growth / np.log(np.float32((self.reach - 1) / half)) * np.float32(half - 1)
        far = (node("Ceil", growth) + np.float32(half)).astype(np.int64)
        return FUNCTIONS["where"](size <= half, relative, far * node("Sign", relative))

    def disentangled(self, x: Array, mask: Array, distances: Array | None, w: Weights) -> Array:
        """One layer."""
        config, own = self.config, w.within("attention.self")
        heads = config.num_attention_heads
        q, k, v = (
            split_heads(linear(x, own.within(f"{n}_proj")), heads)
            for n in ("query", "key", "value")
        )
        factor = 1 + len({"c2p", "p2c"} & set(self.kinds))
        scale = 1 / math.sqrt(config.hidden_size // heads * factor)
        lowest = lifted(np.float32(np.finfo(np.float32).min))
        bias = node("Where", mask, lifted(np.float32(0)), lowest)
        if distances is not None and self.kinds:
            bias = node("Where", mask, self.by_distance(q, k, distances, own, scale), lowest)
        y = linear(attend(q, k, v, bias, scale=scale), w.within("attention.output.dense"))
        x = layer_norm(y + x, w.within("attention.output.LayerNorm"), config.layer_norm_eps)
        y = activation(config.hidden_act, linear(x, w.within("intermediate.dense")))
        y = linear(y, w.within("output.dense"))
        return layer_norm(y + x, w.within("output.LayerNorm"), config.layer_norm_eps)

    def by_distance(self, q: Array, k: Array, distances: Array, w: Weights, scale: float) -> Array:
        """The scores of contents and distances: [batch, heads, length, length]."""
        heads, span = self.config.num_attention_heads, self.span
        table = self.w.within("encoder")("rel_embeddings.weight")
        if "layer_norm" in str(self.config.get("norm_rel_ebd", "none")).lower():
            norm = self.w.within("encoder.LayerNorm")
            table = layer_norm(table, norm, self.config.layer_norm_eps)
        table = expand_dims(table[: 2 * span], axis=0)
        shared = "" if self.config.get("share_att_key", False) else "pos_"
        scores: list[Array] = []
        for kind, of, name, sign in (("c2p", q, "key", 1), ("p2c", k, "query", -1)):
            if kind not in self.kinds:
                continue
            rows = split_heads(linear(table, w.within(f"{shared}{name}_proj")), heads)
            products = node("MatMul", of, permute_dims(rows, (0, 1, 3, 2)))
            bounds = lifted(np.int64(0)), lifted(np.int64(2 * span - 1))
            column = node("Clip", distances * sign + span, *bounds)
            score = _columns(products, column)
            scores.append(score if kind == "c2p" else permute_dims(score, (0, 1, 3, 2)))
        total = scores[0] + scores[1] if len(scores) == 2 else scores[0]
        return multiply(total, np.float32(scale))

    def convolved(self, first: Array, x: Array, real: Array, w: Weights) -> Array:
        """X with a convolution of what the first layer read."""
        config = self.config
        side = (config.conv_kernel_size - 1) // 2
        conv = w.within("conv")
        attributes = {"pads": (side, side), "group": config.get("conv_groups", 1)}
        y = permute_dims(first, (0, 2, 1))
        y = permute_dims(node("Conv", y, conv("weight"), conv("bias"), **attributes), (0, 2, 1))
        y = activation(config.get("conv_act", "tanh"), y * real)
        return layer_norm(x + y, w.within("LayerNorm"), config.layer_norm_eps) * real

    def pooled(self, hidden: Array) -> Array:
        x = linear(hidden[:, 0], self.all.within("pooler.dense"))
        return activation(self.config.get("pooler_hidden_act", "gelu"), x)

    def model(self, hidden: Array) -> Results:
        return {"last_hidden_state": hidden}

    def masked_lm(self, hidden: Array) -> Results:
        self.config.require("legacy", True)
        return super().masked_lm(hidden)


def _columns(scores: Array, columns: Array) -> Array:
    """scores[:, :, i, columns[i, j]] of scores [batch, heads, length, size]."""
    batch, heads, length, _ = scores.shape
    index = reshape(columns, (1, 1, length, length))
    index = node("Expand", index, _sizes(batch, heads, length, length))
    return node("GatherElements", scores, index, axis=3)


def _sizes(*sizes: Any) -> Array:
    return node("Concat", *(reshape(lifted(s).astype(np.int64), (1,)) for s in sizes), axis=0)
