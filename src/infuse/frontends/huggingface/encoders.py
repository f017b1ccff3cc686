"""Encoders of text: BERT and its kin, DistilBERT, MPNet."""

from __future__ import annotations

from collections.abc import Callable
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
    relative_buckets,
)
from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.creation import arange
from infuse.tracing.arrays.manipulation import expand_dims, permute_dims
from infuse.tracing.arrays.reduction import cumulative_sum

Results = dict[str, Array]


def places_of(ids: Array) -> Array:
    """0, 1, … along the length of [batch, length]."""
    return arange(ids.shape[1])


def places_without_padding(ids: Array, padding: int) -> Array:
    """RoBERTa's places: from padding + 1 on, padding itself where there is no token."""
    real = (ids != padding).astype(np.int64)
    return cumulative_sum(real, axis=1) * real + padding


class Bert:
    """BERT, and with other names of weights or places RoBERTa, XLM-RoBERTa, CamemBERT, ELECTRA."""

    tasks: tuple[str, ...] = (
        "model",
        "sequence_classification",
        "token_classification",
        "question_answering",
        "masked_lm",
    )
    root = "bert"
    pads = False
    has_types = True

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config = config
        self.all = weights
        inner = f"{self.root}.embeddings.word_embeddings.weight" in weights
        self.w = weights.within(self.root) if inner else weights
        config.require("position_embedding_type", "absolute")
        config.require("is_decoder", False)

    def inputs_of(self, task: str) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Element types and shapes by name."""
        names = ["input_ids", "attention_mask"]
        if self.has_types and self.config.get("type_vocab_size", 0) > 1:
            names.append("token_type_ids")
        return dict.fromkeys(names, ("int64", ("batch", "sequence")))

    def hidden(self, input_ids: Array, attention_mask: Array, types: Array | None) -> Array:
        """The last hidden states [batch, sequence, hidden]."""
        x = self.embedded(input_ids, types)
        mask = padding_mask(attention_mask)
        for number in range(self.config.num_hidden_layers):
            x = self.layer(x, mask, self.w.within(f"encoder.layer.{number}"))
        return x

    def embedded(self, ids: Array, types: Array | None) -> Array:
        """Embeddings of tokens, places and types."""
        w = self.w.within("embeddings")
        x = embedding(ids, w.within("word_embeddings"))
        if "token_type_embeddings.weight" in w:
            kinds = types if types is not None else lifted(np.zeros((1, 1), np.int64))
            x = x + embedding(kinds, w.within("token_type_embeddings"))
        padding = self.config.get("pad_token_id", 0)
        places = places_without_padding(ids, padding) if self.pads else places_of(ids)
        x = x + embedding(places, w.within("position_embeddings"))
        x = layer_norm(x, w.within("LayerNorm"), self.config.layer_norm_eps)
        if "embeddings_project.weight" in self.w:
            x = linear(x, self.w.within("embeddings_project"))
        return x

    def layer(self, x: Array, mask: Array, w: Weights) -> Array:
        """Attention and two products, each added to what it reads and normalized."""
        epsilon, own = self.config.layer_norm_eps, w.within("attention.self")
        parts = own.within("query"), own.within("key"), own.within("value")
        y = attention(x, parts, self.config.num_attention_heads, mask)
        y = linear(y, w.within("attention.output.dense"))
        x = layer_norm(y + x, w.within("attention.output.LayerNorm"), epsilon)
        return feed_forward(x, w, self.config.hidden_act, epsilon)

    def pooled(self, hidden: Array) -> Array:
        """What stands for the whole text: the first place, through a layer."""
        return node("Tanh", linear(hidden[:, 0], self.w.within("pooler.dense")))

    def model(self, hidden: Array) -> Results:
        """Results without a head."""
        results = {"last_hidden_state": hidden}
        if "pooler.dense.weight" in self.w:
            results["pooler_output"] = self.pooled(hidden)
        return results

    def sequence_classification(self, hidden: Array) -> Results:
        """Scores of classes of the whole text."""
        return {"logits": linear(self.pooled(hidden), self.all.within("classifier"))}

    def token_classification(self, hidden: Array) -> Results:
        """Scores of classes of every token."""
        return {"logits": linear(hidden, self.all.within("classifier"))}

    def question_answering(self, hidden: Array) -> Results:
        """Scores of every token as the start and the end of an answer."""
        scores = linear(hidden, self.all.within("qa_outputs"))
        return {"start_logits": scores[..., 0], "end_logits": scores[..., 1]}

    def masked_lm(self, hidden: Array) -> Results:
        """Scores of all tokens at every place."""
        w = self.all.within("cls.predictions")
        x = activation(self.config.hidden_act, linear(hidden, w.within("transform.dense")))
        x = layer_norm(x, w.within("transform.LayerNorm"), self.config.layer_norm_eps)
        return {"logits": self.token_scores(x, w, "decoder") + w("bias")}

    def token_scores(self, x: Array, w: Weights, name: str) -> Array:
        """Products with a table of tokens of its own, or that of the embeddings."""
        own = f"{name}.weight" in w
        table = w.within(name) if own else self.w.within("embeddings.word_embeddings")
        if f"{name}.bias" in w:
            w.array(f"{name}.bias")  # another name of `bias`
        return node("MatMul", x, table("weight").T)

    def run(self, task: str, **inputs: Array) -> Results:
        """The results of a task for the inputs."""
        types = inputs.get("token_type_ids")
        hidden = self.hidden(inputs["input_ids"], inputs["attention_mask"], types)
        method: Callable[[Array], Results] = getattr(self, task)
        return method(hidden)


def feed_forward(x: Array, w: Weights, act: str, epsilon: float) -> Array:
    """Two products with an activation between them, added to what they read, normalized."""
    y = activation(act, linear(x, w.within("intermediate.dense")))
    y = linear(y, w.within("output.dense"))
    return layer_norm(y + x, w.within("output.LayerNorm"), epsilon)


class Roberta(Bert):
    """RoBERTa: places count tokens only, heads are other ones."""

    root = "roberta"
    pads = True

    def sequence_classification(self, hidden: Array) -> Results:
        w = self.all.within("classifier")
        x = node("Tanh", linear(hidden[:, 0], w.within("dense")))
        return {"logits": linear(x, w.within("out_proj"))}

    def masked_lm(self, hidden: Array) -> Results:
        w = self.all.within("lm_head")
        x = activation("gelu", linear(hidden, w.within("dense")))
        x = layer_norm(x, w.within("layer_norm"), self.config.layer_norm_eps)
        return {"logits": self.token_scores(x, w, "decoder") + w("bias")}


class Electra(Bert):
    """ELECTRA: narrow embeddings, no pooler."""

    tasks = ("model", "sequence_classification", "token_classification", "question_answering")
    root = "electra"

    def sequence_classification(self, hidden: Array) -> Results:
        w = self.all.within("classifier")
        x = activation("gelu", linear(hidden[:, 0], w.within("dense")))
        return {"logits": linear(x, w.within("out_proj"))}


class DistilBert(Bert):
    """DistilBERT: half of BERT's layers, without types."""

    root = "distilbert"
    has_types = False
    epsilon = 1e-12

    def embedded(self, ids: Array, types: Array | None) -> Array:
        w = self.w.within("embeddings")
        x = embedding(ids, w.within("word_embeddings"))
        x = x + embedding(places_of(ids), w.within("position_embeddings"))
        return layer_norm(x, w.within("LayerNorm"), self.epsilon)

    def hidden(self, input_ids: Array, attention_mask: Array, types: Array | None) -> Array:
        x, mask = self.embedded(input_ids, types), padding_mask(attention_mask)
        for number in range(self.config.n_layers):
            w = self.w.within(f"transformer.layer.{number}")
            own = w.within("attention")
            parts = own.within("q_lin"), own.within("k_lin"), own.within("v_lin")
            y = linear(attention(x, parts, self.config.n_heads, mask), own.within("out_lin"))
            x = layer_norm(y + x, w.within("sa_layer_norm"), self.epsilon)
            y = activation(self.config.activation, linear(x, w.within("ffn.lin1")))
            y = linear(y, w.within("ffn.lin2"))
            x = layer_norm(y + x, w.within("output_layer_norm"), self.epsilon)
        return x

    def sequence_classification(self, hidden: Array) -> Results:
        x = node("Relu", linear(hidden[:, 0], self.all.within("pre_classifier")))
        return {"logits": linear(x, self.all.within("classifier"))}

    def masked_lm(self, hidden: Array) -> Results:
        x = linear(hidden, self.all.within("vocab_transform"))
        x = activation(self.config.activation, x)
        x = layer_norm(x, self.all.within("vocab_layer_norm"), self.epsilon)
        w = self.all.within("vocab_projector")
        return {"logits": self.token_scores(x, self.all, "vocab_projector") + w("bias")}


class MPNet(Bert):
    """MPNet: one table of relative places for all layers."""

    tasks = ("model", "token_classification", "question_answering")
    root = "mpnet"
    pads = True
    has_types = False

    def hidden(self, input_ids: Array, attention_mask: Array, types: Array | None) -> Array:
        x = self.embedded(input_ids, types)
        heads = self.config.num_attention_heads
        buckets = self.config.relative_attention_num_buckets
        table = self.w.within("encoder.relative_attention_bias")
        bias = relative_bias(input_ids.shape[1], table, buckets, 128)
        mask = masked_bias(bias, attention_mask)
        for number in range(self.config.num_hidden_layers):
            w = self.w.within(f"encoder.layer.{number}")
            own = w.within("attention.attn")
            y = attention(x, (own.within("q"), own.within("k"), own.within("v")), heads, mask)
            y = linear(y, own.within("o"))
            x = layer_norm(y + x, w.within("attention.LayerNorm"), self.config.layer_norm_eps)
            x = feed_forward(x, w, self.config.hidden_act, self.config.layer_norm_eps)
        return x


def relative_bias(
    length: Any, table: Weights, buckets: int, distance: int, both: bool = True
) -> Array:
    """What is added to scores for the distance of places: [1, heads, length, length]."""
    rows = embedding(relative_buckets(length, buckets, distance, both), table)
    return expand_dims(permute_dims(rows, (2, 0, 1)), axis=0)


def masked_bias(bias: Array, attention_mask: Array) -> Array:
    """A bias of scores, with the lowest number where there is no token."""
    lowest = lifted(np.float32(np.finfo(np.float32).min))
    return bias + node("Where", padding_mask(attention_mask), lifted(np.float32(0)), lowest)
