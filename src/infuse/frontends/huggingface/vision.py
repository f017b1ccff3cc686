"""Encoders of images, ViT, DeiT and CLIP's, and CLIP's encoder of text."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.frontends.huggingface.files import Config
from infuse.frontends.huggingface.layers import (
    Weights,
    activation,
    attention,
    embedding,
    layer_norm,
    linear,
    padding_mask,
)
from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.creation import arange
from infuse.tracing.arrays.manipulation import broadcast_to, concat, permute_dims, reshape
from infuse.tracing.arrays.reduction import argmax

Results = dict[str, Array]


def patches(pixels: Array, w: Weights, size: int) -> Array:
    """[batch, channels, height, width] as [batch, patches, hidden]."""
    bias = w("bias") if "bias" in w else None
    x = node("Conv", pixels, w("weight"), bias, strides=(size, size))
    batch, hidden, height, width = x.shape
    return permute_dims(reshape(x, (batch, hidden, height * width)), (0, 2, 1))


def in_front(tokens: list[Array], x: Array) -> Array:
    """Learned tokens [1, 1, hidden] before the places of [batch, length, hidden]."""
    batch, _, hidden = x.shape
    return concat([*(broadcast_to(t, (batch, 1, hidden)) for t in tokens), x], axis=1)


class ViT:
    """The vision transformer."""

    tasks: tuple[str, ...] = ("model", "image_classification")
    root = "vit"

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config, self.all = config, weights
        inner = f"{self.root}.embeddings.cls_token" in weights
        self.w = weights.within(self.root) if inner else weights

    def inputs_of(self, task: str) -> dict[str, tuple[str, tuple[Any, ...]]]:
        """Element types and shapes by name."""
        size, channels = self.config.image_size, self.config.get("num_channels", 3)
        return {"pixel_values": ("float32", ("batch", channels, size, size))}

    def tokens(self, w: Weights) -> list[Array]:
        """What stands before the patches."""
        return [w("cls_token")]

    def run(self, task: str, *, pixel_values: Array) -> Results:
        """The results of a task."""
        config, w = self.config, self.w.within("embeddings")
        epsilon = config.layer_norm_eps
        x = patches(pixel_values, w.within("patch_embeddings.projection"), config.patch_size)
        x = in_front(self.tokens(w), x) + w("position_embeddings")
        for number in range(config.num_hidden_layers):
            x = self.layer(x, self.w.within(f"encoder.layer.{number}"), epsilon)
        x = layer_norm(x, self.w.within("layernorm"), epsilon)
        if task == "image_classification":
            return {"logits": self.scores(x)}
        results = {"last_hidden_state": x}
        if "pooler.dense.weight" in self.w:
            results["pooler_output"] = node("Tanh", linear(x[:, 0], self.w.within("pooler.dense")))
        return results

    def layer(self, x: Array, w: Weights, epsilon: float) -> Array:
        """Attention and two products, each of what is normalized, added."""
        own = w.within("attention.attention")
        parts = own.within("query"), own.within("key"), own.within("value")
        y = layer_norm(x, w.within("layernorm_before"), epsilon)
        y = attention(y, parts, self.config.num_attention_heads)
        x = x + linear(y, w.within("attention.output.dense"))
        y = linear(
            layer_norm(x, w.within("layernorm_after"), epsilon), w.within("intermediate.dense")
        )
        return x + linear(activation(self.config.hidden_act, y), w.within("output.dense"))

    def scores(self, x: Array) -> Array:
        """Scores of classes of the image."""
        return linear(x[:, 0], self.all.within("classifier"))


class DeiT(ViT):
    """DeiT: a second token."""

    root = "deit"

    def tokens(self, w: Weights) -> list[Array]:
        return [w("cls_token"), w("distillation_token")]

    def scores(self, x: Array) -> Array:
        if "cls_classifier.weight" not in self.all:
            return super().scores(x)
        first, second = (self.all.within(f"{n}_classifier") for n in ("cls", "distillation"))
        return (linear(x[:, 0], first) + linear(x[:, 1], second)) / 2


def clip_weights(weights: Weights, root: str) -> Weights:
    """The weights of one of CLIP's encoders, which newer files of it alone have without a root."""
    inner = any(f"{root}.{norm}.weight" in weights for norm in ("final_layer_norm", "pre_layrnorm"))
    return weights.within(root) if inner else weights


def clip_layers(x: Array, w: Weights, config: Config, mask: Array | None) -> Array:
    """CLIP's layers."""
    for number in range(config.num_hidden_layers):
        inner = w.within(f"encoder.layers.{number}")
        own = inner.within("self_attn")
        parts = own.within("q_proj"), own.within("k_proj"), own.within("v_proj")
        y = layer_norm(x, inner.within("layer_norm1"), config.layer_norm_eps)
        y = attention(y, parts, config.num_attention_heads, mask)
        x = x + linear(y, own.within("out_proj"))
        y = linear(
            layer_norm(x, inner.within("layer_norm2"), config.layer_norm_eps),
            inner.within("mlp.fc1"),
        )
        x = x + linear(activation(config.hidden_act, y), inner.within("mlp.fc2"))
    return x


class ClipVision(ViT):
    """CLIP's encoder of images."""

    tasks = ("model", "projection")
    root = "vision_model"

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config, self.all = config, weights
        self.w = clip_weights(weights, self.root)

    def run(self, task: str, *, pixel_values: Array) -> Results:
        config, w = self.config, self.w
        inner = w.within("embeddings")
        x = patches(pixel_values, inner.within("patch_embedding"), config.patch_size)
        x = in_front([reshape(inner("class_embedding"), (1, 1, -1))], x)
        x = x + inner("position_embedding.weight")
        x = layer_norm(x, w.within("pre_layrnorm"), config.layer_norm_eps)
        x = clip_layers(x, w, config, None)
        pooled = layer_norm(x[:, 0], w.within("post_layernorm"), config.layer_norm_eps)
        results = {"last_hidden_state": x, "pooler_output": pooled}
        if task == "projection":
            embeds = linear(pooled, self.all.within("visual_projection"))
            results = {"image_embeds": embeds, "last_hidden_state": x}
        return results


class ClipText:
    """CLIP's encoder of text."""

    tasks = ("model", "projection")

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config, self.all = config, weights
        self.w = clip_weights(weights, "text_model")

    def inputs_of(self, task: str) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Element types and shapes by name."""
        return dict.fromkeys(("input_ids", "attention_mask"), ("int64", ("batch", "sequence")))

    def run(self, task: str, *, input_ids: Array, attention_mask: Array) -> Results:
        """The results of a task."""
        config, w = self.config, self.w
        length = input_ids.shape[1]
        x = embedding(input_ids, w.within("embeddings.token_embedding"))
        x = x + embedding(arange(length), w.within("embeddings.position_embedding"))
        places = arange(length)
        before = reshape(places, (1, 1, -1, 1)) >= reshape(places, (1, 1, 1, -1))
        x = clip_layers(x, w, config, padding_mask(attention_mask) & before)
        x = layer_norm(x, w.within("final_layer_norm"), config.layer_norm_eps)
        pooled = self._at_end(x, input_ids)
        if task == "projection":
            embeds = linear(pooled, self.all.within("text_projection"))
            return {"text_embeds": embeds, "last_hidden_state": x}
        return {"last_hidden_state": x, "pooler_output": pooled}

    def _at_end(self, x: Array, ids: Array) -> Array:
        """The place of the first token that ends the text; that of the largest number in models
        made before that token had a right entry in the configuration.
        """
        end = self.config.get("eos_token_id", 2)
        marked = ids if end == 2 else (ids == end).astype(np.int64)
        place = argmax(marked, axis=1)
        index = reshape(place, (-1, 1, 1)) + lifted(np.zeros((1, 1, x.shape[2]), np.int64))
        return reshape(node("GatherElements", x, index, axis=1), (x.shape[0], x.shape[2]))
