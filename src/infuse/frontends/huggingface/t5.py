"""T5: its encoder, and both parts together."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.frontends.huggingface.encoders import masked_bias, relative_bias
from infuse.frontends.huggingface.files import Config
from infuse.frontends.huggingface.layers import (
    Weights,
    activation,
    attend,
    embedding,
    linear,
    padding_mask,
    rms_norm,
    split_heads,
)
from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.creation import arange
from infuse.tracing.arrays.manipulation import reshape

Results = dict[str, Array]


class T5:
    """T5; a task is "encoder", "model" (both parts) or "conditional_generation"."""

    tasks = ("encoder", "model", "conditional_generation")

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config, self.w = config, weights
        self.epsilon = config.layer_norm_epsilon
        config.require("dense_act_fn", "relu", "gelu_new", "silu")

    def inputs_of(self, task: str) -> dict[str, tuple[str, tuple[Any, ...]]]:
        """Element types and shapes by name."""
        specs = dict.fromkeys(("input_ids", "attention_mask"), ("int64", ("batch", "sequence")))
        if task != "encoder":
            specs["decoder_input_ids"] = ("int64", ("batch", "target"))
        return specs

    def run(self, task: str, **inputs: Array) -> Results:
        """The results of a task."""
        encoded = self.encoded(inputs["input_ids"], inputs["attention_mask"])
        if task == "encoder":
            return {"last_hidden_state": encoded}
        x = self.decoded(inputs["decoder_input_ids"], encoded, inputs["attention_mask"])
        if task == "model":
            return {"last_hidden_state": x, "encoder_last_hidden_state": encoded}
        tied = self.config.get("tie_word_embeddings", True)
        if self.config.get("scale_decoder_outputs", tied):
            x = x * np.float32(self.config.d_model**-0.5)
        table = "lm_head.weight" if "lm_head.weight" in self.w else "shared.weight"
        logits = node("MatMul", x, self.w(table).T)
        return {"logits": logits, "encoder_last_hidden_state": encoded}

    def encoded(self, ids: Array, attention_mask: Array) -> Array:
        """The last hidden states of the encoder."""
        mask = masked_bias(self.bias("encoder", ids.shape[1]), attention_mask)
        x = embedding(ids, self.w.within("shared"))
        for number in range(self.config.num_layers):
            block = self.w.within(f"encoder.block.{number}")
            x = self.attention(x, x, block.within("layer.0"), "SelfAttention", mask)
            x = self.dense(x, block.within("layer.1"))
        return rms_norm(x, self.w.within("encoder.final_layer_norm"), self.epsilon)

    def decoded(self, ids: Array, encoded: Array, attention_mask: Array) -> Array:
        """The last hidden states of the decoder, in which places see those before them."""
        places = arange(ids.shape[1])
        before = reshape(places, (1, 1, -1, 1)) >= reshape(places, (1, 1, 1, -1))
        lowest = lifted(np.float32(np.finfo(np.float32).min))
        mask = node("Where", before, self.bias("decoder", ids.shape[1]), lowest)
        seen = padding_mask(attention_mask)
        x = embedding(ids, self.w.within("shared"))
        for number in range(self.config.get("num_decoder_layers") or self.config.num_layers):
            block = self.w.within(f"decoder.block.{number}")
            x = self.attention(x, x, block.within("layer.0"), "SelfAttention", mask)
            x = self.attention(x, encoded, block.within("layer.1"), "EncDecAttention", seen)
            x = self.dense(x, block.within("layer.2"))
        return rms_norm(x, self.w.within("decoder.final_layer_norm"), self.epsilon)

    def bias(self, part: str, length: Any) -> Array:
        """What the first layer of a part adds to scores for distances, and all others too."""
        table = self.w.within(f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias")
        return relative_bias(
            length,
            table,
            self.config.get("relative_attention_num_buckets", 32),
            self.config.get("relative_attention_max_distance", 128),
            both=part == "encoder",
        )

    def attention(self, x: Array, of: Array, w: Weights, name: str, mask: Array) -> Array:
        """X with attention to the places of `of`; of x itself, what is normalized."""
        y = rms_norm(x, w.within("layer_norm"), self.epsilon)
        own, source = w.within(name), y if of is x else of
        heads = self.config.num_heads
        q = split_heads(linear(y, own.within("q")), heads)
        k, v = (split_heads(linear(source, own.within(n)), heads) for n in "kv")
        return x + linear(attend(q, k, v, mask, scale=1.0), own.within("o"))

    def dense(self, x: Array, w: Weights) -> Array:
        """X with two products, the first one gated in newer models."""
        y = rms_norm(x, w.within("layer_norm"), self.epsilon)
        w, act = w.within("DenseReluDense"), self.config.get("dense_act_fn", "relu")
        if "wi_0.weight" in w:
            inner = activation(act, linear(y, w.within("wi_0"))) * linear(y, w.within("wi_1"))
        else:
            inner = activation(act, linear(y, w.within("wi")))
        return x + linear(inner, w.within("wo"))
