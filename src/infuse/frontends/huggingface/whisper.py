"""Whisper: an encoder of sound and a decoder of text."""

from __future__ import annotations

from typing import Any

from infuse.frontends.huggingface.files import Config
from infuse.frontends.huggingface.layers import (
    Weights,
    activation,
    attend,
    embedding,
    layer_norm,
    linear,
    split_heads,
)
from infuse.tracing.arrays.array import Array, node
from infuse.tracing.arrays.creation import arange
from infuse.tracing.arrays.manipulation import permute_dims, reshape

Results = dict[str, Array]
_EPSILON = 1e-5


class Whisper:
    """Whisper, for features of as many frames as the encoder has places, times two."""

    tasks = ("model", "conditional_generation")

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config, self.all = config, weights
        inner = "model.encoder.conv1.weight" in weights
        self.w = weights.within("model") if inner else weights
        config.require("scale_embedding", False)

    def inputs_of(self, task: str) -> dict[str, tuple[str, tuple[Any, ...]]]:
        """Element types and shapes by name."""
        config = self.config
        frames = 2 * config.max_source_positions
        return {
            "input_features": ("float32", ("batch", config.num_mel_bins, frames)),
            "decoder_input_ids": ("int64", ("batch", "target")),
        }

    def run(self, task: str, *, input_features: Array, decoder_input_ids: Array) -> Results:
        """The results of a task."""
        encoded = self.encoded(input_features)
        x = self.decoded(decoder_input_ids, encoded)
        if task == "model":
            return {"last_hidden_state": x, "encoder_last_hidden_state": encoded}
        own = "proj_out.weight" in self.all
        table = self.all.within("proj_out" if own else "model.decoder.embed_tokens")
        logits = node("MatMul", x, table("weight").T)
        return {"logits": logits, "encoder_last_hidden_state": encoded}

    def encoded(self, features: Array) -> Array:
        """The last hidden states of the encoder."""
        config, w = self.config, self.w.within("encoder")
        x = features
        for name, step in (("conv1", 1), ("conv2", 2)):
            own = w.within(name)
            x = node("Conv", x, own("weight"), own("bias"), strides=(step,), pads=(1, 1))
            x = activation("gelu", x)
        x = permute_dims(x, (0, 2, 1)) + w("embed_positions.weight")
        for number in range(config.encoder_layers):
            inner, heads = w.within(f"layers.{number}"), config.encoder_attention_heads
            x = self.attention(x, x, inner, "self_attn", heads)
            x = self.dense(x, inner)
        return layer_norm(x, w.within("layer_norm"), _EPSILON)

    def decoded(self, ids: Array, encoded: Array) -> Array:
        """The last hidden states of the decoder, in which places see those before them."""
        config, w = self.config, self.w.within("decoder")
        places = arange(ids.shape[1])
        before = reshape(places, (1, 1, -1, 1)) >= reshape(places, (1, 1, 1, -1))
        x = embedding(ids, w.within("embed_tokens"))
        x = x + embedding(places, w.within("embed_positions"))
        heads = config.decoder_attention_heads
        for number in range(config.decoder_layers):
            inner = w.within(f"layers.{number}")
            x = self.attention(x, x, inner, "self_attn", heads, before)
            x = self.attention(x, encoded, inner, "encoder_attn", heads)
            x = self.dense(x, inner)
        return layer_norm(x, w.within("layer_norm"), _EPSILON)

    def attention(
        self, x: Array, of: Array, w: Weights, name: str, heads: int, mask: Array | None = None
    ) -> Array:
        """X with attention to the places of `of`; of x itself, what is normalized."""
        y = layer_norm(x, w.within(f"{name}_layer_norm"), _EPSILON)
        own, source = w.within(name), y if of is x else of
        q = split_heads(linear(y, own.within("q_proj")), heads)
        k, v = (split_heads(linear(source, own.within(f"{n}_proj")), heads) for n in "kv")
        return x + linear(attend(q, k, v, mask), own.within("out_proj"))

    def dense(self, x: Array, w: Weights) -> Array:
        """X with two products."""
        y = layer_norm(x, w.within("final_layer_norm"), _EPSILON)
        y = activation(self.config.activation_function, linear(y, w.within("fc1")))
        return x + linear(y, w.within("fc2"))
