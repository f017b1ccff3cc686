"""Decoders of text: GPT-2; Llama and its kin (Mistral, Qwen, Gemma, Phi-3); Phi."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Final

from infuse.frontends.huggingface.cache import Cache, past_names, places
from infuse.frontends.huggingface.files import Config
from infuse.frontends.huggingface.layers import (
    Weights,
    activation,
    embedding,
    layer_norm,
    linear,
    linear_by_columns,
    padding_mask,
    rms_norm,
    split_heads,
)
from infuse.frontends.huggingface.rotary import Rotary
from infuse.tracing.arrays.array import Array, node

Results = dict[str, Array]
_FULL: Final = "full_attention"
_SLIDING: Final = "sliding_attention"


class Decoder(ABC):
    """Tokens in, scores of the next token at every place out; with `is_cached` also keys and values
    of the tokens before in, and those of all tokens out.
    """

    tasks = ("model", "causal_lm")
    is_cached = False
    layers: int
    pairs: int
    """Heads of keys and values."""
    size: int
    """Of a head."""

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config, self.all = config, weights

    def inputs_of(self, task: str) -> dict[str, tuple[str, tuple[str | int, ...]]]:
        """Element types and shapes by name."""
        new = ("int64", ("batch", "sequence"))
        if not self.is_cached:
            return {"input_ids": new, "attention_mask": new}
        before = ("float32", ("batch", self.pairs, "past", self.size))
        names = [name for number in range(self.layers) for name in past_names(number)]
        mask = ("int64", ("batch", "past + sequence"))
        return {"input_ids": new, "attention_mask": mask, **dict.fromkeys(names, before)}

    @abstractmethod
    def states(self, input_ids: Array, mask: Array, cache: Cache) -> Array:
        """The last hidden states, normalized."""

    @abstractmethod
    def table(self) -> Array:
        """The table of tokens that scores are products with."""

    def run(self, task: str, *, input_ids: Array, attention_mask: Array, **past: Array) -> Results:
        """The results of a task."""
        cache = Cache(past)
        x = self.states(input_ids, padding_mask(attention_mask), cache)
        name, result = ("last_hidden_state", x) if task == "model" else ("logits", self.scores(x))
        return {name: result, **cache.present}

    def scores(self, x: Array) -> Array:
        """Scores of the next token by the last hidden states."""
        scores = node("MatMul", x, self.table().T)
        if "lm_head.bias" in self.all:
            scores = scores + self.all("lm_head.bias")
        cap = self.config.get("final_logit_softcapping")
        return node("Tanh", scores / cap) * cap if cap else scores


class GPT2(Decoder):
    """GPT-2."""

    def __init__(self, config: Config, weights: Weights) -> None:
        super().__init__(config, weights)
        inner = "transformer.wte.weight" in weights
        self.w = weights.within("transformer") if inner else weights
        config.require("scale_attn_by_inverse_layer_idx", False)
        config.require("scale_attn_weights", True)
        self.layers, self.pairs = config.n_layer, config.n_head
        self.size = config.n_embd // config.n_head

    def table(self) -> Array:
        own = "lm_head.weight" in self.all
        return self.all("lm_head.weight") if own else self.w("wte.weight")

    def states(self, input_ids: Array, mask: Array, cache: Cache) -> Array:
        config, w = self.config, self.w
        epsilon, heads = config.layer_norm_epsilon, config.n_head
        x = embedding(input_ids, w.within("wte"))
        x = x + embedding(places(input_ids, cache), w.within("wpe"))
        for number in range(config.n_layer):
            block = w.within(f"h.{number}")
            y = linear_by_columns(
                layer_norm(x, block.within("ln_1"), epsilon), block.within("attn.c_attn")
            )
            size = config.n_embd
            qkv = [split_heads(y[..., i * size : (i + 1) * size], heads) for i in range(3)]
            y = cache.attend(number, qkv, mask)
            x = x + linear_by_columns(y, block.within("attn.c_proj"))
            y = linear_by_columns(
                layer_norm(x, block.within("ln_2"), epsilon), block.within("mlp.c_fc")
            )
            y = activation(config.activation_function, y)
            x = x + linear_by_columns(y, block.within("mlp.c_proj"))
        return layer_norm(x, w.within("ln_f"), epsilon)


class Llama(Decoder):
    """Llama, Mistral, Phi-3: RMS normalization, rotary places, gated products."""

    offset = 0.0
    """Added to the weights of normalizations."""

    def __init__(self, config: Config, weights: Weights) -> None:
        super().__init__(config, weights)
        inner = "model.embed_tokens.weight" in weights
        self.w = weights.within("model") if inner else weights
        self.heads = config.num_attention_heads
        self.pairs = config.get("num_key_value_heads", self.heads)
        self.size = config.get("head_dim", config.hidden_size // self.heads)
        self.layers = config.num_hidden_layers
        numbers = range(self.layers)
        derived = [_SLIDING if self.slides(number) else _FULL for number in numbers]
        self.kinds = config.get("layer_types") or derived
        self.rotary = {kind: Rotary(config, self.size, kind) for kind in set(self.kinds)}

    def slides(self, number: int) -> bool:
        """Whether a layer sees a window only, where the configuration has no layer_types."""
        return self.config.get("sliding_window") is not None

    def table(self) -> Array:
        own = "lm_head.weight" in self.all and not self.config.get("tie_word_embeddings", False)
        return self.all("lm_head.weight") if own else self.w("embed_tokens.weight")

    def norm(self, x: Array, w: Weights) -> Array:
        """RMS normalization."""
        return rms_norm(x, w, self.config.rms_norm_eps, self.offset)

    def embedded(self, input_ids: Array) -> Array:
        """Rows of the table of tokens."""
        return embedding(input_ids, self.w.within("embed_tokens"))

    def states(self, input_ids: Array, mask: Array, cache: Cache) -> Array:
        x = self.embedded(input_ids)
        tables = {kind: rotary.tables(input_ids, cache) for kind, rotary in self.rotary.items()}
        for number in range(self.layers):
            x = self.layer(x, mask, number, cache, tables[self.kinds[number]])
        return self.norm(x, self.w.within("norm"))

    def layer(self, x: Array, mask: Array, number: int, cache: Cache, tables: Any) -> Array:
        """Attention and gated products, each of what is normalized, added."""
        w = self.w.within(f"layers.{number}")
        y = self.norm(x, w.within("input_layernorm"))
        x = x + self.attention(y, mask, number, cache, tables)
        y = self.norm(x, w.within("post_attention_layernorm"))
        return x + self.dense(y, w.within("mlp"))

    def window(self, kind: str) -> int:
        """How many places before it a query sees; -1 for all."""
        sliding = self.config.get("sliding_window")
        return sliding - 1 if sliding and kind == _SLIDING else -1

    def attention(self, x: Array, mask: Array, number: int, cache: Cache, tables: Any) -> Array:
        """Attention to the places before, and that itself."""
        w, kind = self.w.within(f"layers.{number}.self_attn"), self.kinds[number]
        q, k, v = self.projections(x, w)
        if "q_norm.weight" in w:
            q, k = self.norm(q, w.within("q_norm")), self.norm(k, w.within("k_norm"))
        rotary = self.rotary[kind]
        q, k = rotary.turn(q, tables), rotary.turn(k, tables)
        cap = self.config.get("attn_logit_softcapping", 0.0)
        y = cache.attend(
            number,
            (q, k, v),
            mask,
            left_window_size=self.window(kind),
            softcap=float(cap),
            scale=self.scale(),
        )
        return linear(y, w.within("o_proj"))

    def scale(self) -> float:
        """What scores are multiplied by."""
        return 1 / math.sqrt(self.size)

    def projections(self, x: Array, w: Weights) -> tuple[Array, Array, Array]:
        """Queries, keys and values by heads."""
        if "qkv_proj.weight" in w:
            y = linear(x, w.within("qkv_proj"))
            first, second = self.heads * self.size, (self.heads + self.pairs) * self.size
            parts = y[..., :first], y[..., first:second], y[..., second:]
        else:
            q, k, v = (linear(x, w.within(f"{name}_proj")) for name in "qkv")
            parts = q, k, v
        heads = self.heads, self.pairs, self.pairs
        q, k, v = (split_heads(part, count) for part, count in zip(parts, heads))
        return q, k, v

    def dense(self, x: Array, w: Weights) -> Array:
        """act(x · gate) · (x · up), through down."""
        if "gate_up_proj.weight" in w:
            both = linear(x, w.within("gate_up_proj"))
            half = self.config.intermediate_size
            gate, up = both[..., :half], both[..., half:]
        else:
            gate, up = linear(x, w.within("gate_proj")), linear(x, w.within("up_proj"))
        return linear(activation(self.act(), gate) * up, w.within("down_proj"))

    def act(self) -> str:
        """The name of the activation."""
        return str(self.config.hidden_act)


class Qwen(Llama):
    """Qwen 2 and 3: windows, where they are used, from one layer on."""

    def slides(self, number: int) -> bool:
        use = self.config.get("use_sliding_window", False)
        return use and super().slides(number) and number >= self.config.get("max_window_layers", 28)


class Gemma(Llama):
    """Gemma: normalization by 1 + weight, embeddings scaled."""

    offset = 1.0

    def embedded(self, input_ids: Array) -> Array:
        return super().embedded(input_ids) * math.sqrt(self.config.hidden_size)

    def table(self) -> Array:
        return self.w("embed_tokens.weight")

    def act(self) -> str:
        name = self.config.get("hidden_activation") or "gelu_pytorch_tanh"
        return str(name)


class Gemma2(Gemma):
    """Gemma 2: normalization behind each part, too; windows in every second layer."""

    def __init__(self, config: Config, weights: Weights) -> None:
        super().__init__(config, weights)
        config.require("use_bidirectional_attention", False)

    def slides(self, number: int) -> bool:
        return number % 2 == 0

    def scale(self) -> float:
        return 1 / math.sqrt(self.config.query_pre_attn_scalar)

    def layer(self, x: Array, mask: Array, number: int, cache: Cache, tables: Any) -> Array:
        w = self.w.within(f"layers.{number}")
        y = self.norm(x, w.within("input_layernorm"))
        y = self.attention(y, mask, number, cache, tables)
        x = x + self.norm(y, w.within("post_attention_layernorm"))
        y = self.norm(x, w.within("pre_feedforward_layernorm"))
        return x + self.norm(self.dense(y, w.within("mlp")), w.within("post_feedforward_layernorm"))


class Gemma3(Gemma2):
    """Gemma 3: windows in all layers but one of so many."""

    def slides(self, number: int) -> bool:
        pattern = self.config.get("_sliding_window_pattern", 6)
        return bool((number + 1) % self.config.get("sliding_window_pattern", pattern))


class Phi(Llama):
    """Phi 1, 1.5 and 2: attention and products side by side, rotary places in a part."""

    def norm(self, x: Array, w: Weights) -> Array:
        return layer_norm(x, w, self.config.layer_norm_eps)

    def states(self, input_ids: Array, mask: Array, cache: Cache) -> Array:
        self.config.require("qk_layernorm", False)
        rotary = self.rotary[_FULL]
        x, tables = self.embedded(input_ids), rotary.tables(input_ids, cache)
        for number in range(self.layers):
            w = self.w.within(f"layers.{number}")
            y = self.norm(x, w.within("input_layernorm"))
            q, k, v = self.projections(y, w.within("self_attn"))
            q, k = rotary.turn(q, tables), rotary.turn(k, tables)
            seen = linear(cache.attend(number, (q, k, v), mask), w.within("self_attn.dense"))
            inner = activation(self.act(), linear(y, w.within("mlp.fc1")))
            x = x + seen + linear(inner, w.within("mlp.fc2"))
        return self.norm(x, self.w.within("final_layernorm"))
