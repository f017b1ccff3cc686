"""The graph of a decoder: one for prompts and for single tokens, of any number of sequences.

Inputs are `tokens` and `positions` (tokens), `starts` (sequences + 1), `lengths` (sequences) and
`pages` (sequences, pages) as PagedAttention takes them, and `rows`: of which tokens the logits are
computed. For each layer there are the states `keys.i` and `values.i`, which have pages in common.
The output is `logits` (rows, words).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.ir.graph import Graph, Value
from infuse.ir.registry import make_operator
from infuse.ir.types import StateType, tensor
from infuse.language.decoder import PAGE, Decoder, Rope, Weights
from infuse.tracing.importer import Importer


def decoder_graph(
    decoder: Decoder,
    weights: Mapping[str, Weights],
    *,
    name: str = "decoder",
    rounded: bool = True,
    cache: DType = dtypes.float16,
) -> Graph:
    """The graph of a decoder of these weights, by the names of GGUF. `rounded`: products with
    weights in blocks round their left operand to 8 bits. `cache`: what keys and values are stored
    as.

    ModelFileError where a tensor is missing or does not fit.
    """
    return _Builder(decoder, weights, name, rounded, cache).build()


class _Builder:
    def __init__(
        self,
        decoder: Decoder,
        weights: Mapping[str, Weights],
        name: str,
        rounded: bool,
        cache: DType,
    ) -> None:
        self.decoder, self.weights, self.rounded, self.cache = decoder, weights, rounded, cache
        self.make = Importer(name)
        self.turns: dict[int, tuple[Value, Value]] = {}
        """Cosines and sines of all tokens, by what turns by them."""

    def build(self) -> Graph:
        d, make = self.decoder, self.make
        tokens, self.positions = (
            make.input(n, dtypes.int64, ["tokens"]) for n in ("tokens", "positions")
        )
        starts = make.graph.add_input("starts", tensor(dtypes.int64, "sequences + 1"))
        lengths = make.input("lengths", dtypes.int64, ["sequences"])
        pages = make.input("pages", dtypes.int64, ["sequences", "listed"])
        rows = make.input("rows", dtypes.int64, ["rows"])
        self.lists = starts, lengths, pages
        states = [(self._state("keys", i), self._state("values", i)) for i in range(d.layers)]
        x = self._embedded(tokens)
        changed = []
        for i, own in enumerate(states):
            with make.scope(f"layer{i}"):
                x, *after = self._layer(i, x, *own)
                changed += after
        x = make("Gather", x, rows, axis=0)
        logits = self._head(self._norm(x, "output_norm"))
        make.output("logits", logits)
        for number, state in enumerate(changed):
            make.output(f"{('keys', 'values')[number % 2]}.{number // 2}.after", state)
        return make.graph

    def _state(self, kind: str, layer: int) -> Value:
        d = self.decoder
        shape = (d.size, PAGE) if kind == "keys" else (PAGE, d.value_size)
        type = tensor(self.cache, "pool", d.kv_heads, *shape)
        return self.make.graph.add_input(f"{kind}.{layer}", StateType(type))

    # -- parts -------------------------------------------------------------------------------------

    def _embedded(self, tokens: Value) -> Value:
        x = self._rows("token_embd.weight", tokens)
        scale = self.decoder.embedding_scale
        return x if scale == 1 else self.make("Mul", x, np.float32(scale).item())

    def _layer(self, i: int, x: Value, keys: Value, values: Value) -> tuple[Value, Value, Value]:
        make = self.make
        attended, keys, values = self._attention(
            i, self._norm(x, f"blk.{i}.attn_norm"), keys, values
        )
        x = make("Add", x, self._after(attended, f"blk.{i}.post_attention_norm"))
        hidden = self._feed_forward(i, self._norm(x, f"blk.{i}.ffn_norm"))
        return make("Add", x, self._after(hidden, f"blk.{i}.post_ffw_norm")), keys, values

    def _attention(self, i: int, x: Value, keys: Value, values: Value) -> list[Value]:
        d, make = self.decoder, self.make
        parts = d.heads * d.size, d.kv_heads * d.size, d.kv_heads * d.value_size
        q, k, v = self._parted(x, [f"blk.{i}.attn_{n}" for n in "qkv"], f"blk.{i}.attn_qkv", parts)
        q, k = (
            self._turned(i, self._by_heads(rows, f"blk.{i}.attn_{n}_norm"), heads)
            for rows, n, heads in ((q, "q", d.heads), (k, "k", d.kv_heads))
        )
        op = make_operator(
            "infuse",
            "PagedAttention",
            {
                "q_num_heads": d.heads,
                "kv_num_heads": d.kv_heads,
                "left_window_size": d.windows[i],
                "scale": d.score_scale,
                "softcap": d.softcap,
            },
        )
        y, keys, values = make.apply(op, [q, k, v, keys, values, *self.lists], 3)
        return [self._product(y, f"blk.{i}.attn_output", d.width), keys, values]

    def _feed_forward(self, i: int, x: Value) -> Value:
        d, make = self.decoder, self.make
        names = [f"blk.{i}.ffn_{n}" for n in ("gate", "up")]
        gate, up = self._parted(x, names, names[1], (d.hidden, d.hidden))
        if d.activation == "silu":
            opened = make("Swish", gate)
        else:
            opened = make("Gelu", gate, approximate="tanh")
        return self._product(make("Mul", opened, up), f"blk.{i}.ffn_down", d.width)

    def _head(self, x: Value) -> Value:
        name = "output" if "output.weight" in self.weights else "token_embd"
        logits = self._product(x, name, self.decoder.words)
        cap = self.decoder.head_softcap
        if not cap:
            return logits
        return self.make("Mul", self.make("Tanh", self.make("Div", logits, cap)), cap)

    def _norm(self, x: Value, name: str) -> Value:
        scale = self._floats(f"{name}.weight", _columns(x))
        return self.make("RMSNormalization", x, scale, axis=-1, epsilon=self.decoder.epsilon)

    def _after(self, x: Value, name: str) -> Value:
        """Normalized where the family does so behind a part of a layer."""
        return self._norm(x, name) if f"{name}.weight" in self.weights else x

    def _by_heads(self, rows: Value, name: str) -> Value:
        """Each head normalized, where the family does so."""
        if f"{name}.weight" not in self.weights:
            return rows
        size = self.decoder.size
        heads = self._shaped(rows, -1, _columns(rows) // size, size)
        return self._shaped(self._norm(heads, name), -1, _columns(rows))

    def _turned(self, i: int, rows: Value, heads: int) -> Value:
        """Rows (tokens, heads · size), each head turned by its place."""
        rope, width = self.decoder.ropes[i], _columns(rows)
        turned = self.make(
            "RotaryEmbedding",
            self._shaped(rows, 1, -1, width),
            *self._angles(rope),
            num_heads=heads,
            rotary_embedding_dim=rope.channels if rope.channels < self.decoder.size else 0,
            interleaved=int(rope.interleaved),
        )
        return self._shaped(turned, -1, width)

    def _shaped(self, x: Value, *shape: int) -> Value:
        return self.make("Reshape", x, self.make.ints(*shape))

    def _angles(self, rope: Rope) -> tuple[Value, Value]:
        if id(rope) not in self.turns:
            make = self.make
            places = make.cast(self.positions, dtypes.float32)
            speeds = make.constant(rope.frequencies.reshape(1, 1, -1))
            angles = make("Mul", self._shaped(places, 1, -1, 1), speeds)
            self.turns[id(rope)] = make("Cos", angles), make("Sin", angles)
        return self.turns[id(rope)]

    # -- weights -----------------------------------------------------------------------------------

    def _weights(self, name: str, *shape: int) -> Weights:
        weights = self.weights.get(name)
        if weights is None:
            raise ModelFileError(f"it has no tensor {name!r}", hint="convert the model again")
        if weights.shape != shape:
            raise ModelFileError(
                f"the tensor {name!r} is {list(weights.shape)}, not {list(shape)}",
                hint="the file's fields and tensors do not fit together",
            )
        return weights

    def _floats(self, name: str, *shape: int) -> Value:
        weights = self._weights(name, *shape)
        if weights.format:
            raise ModelFileError(f"the tensor {name!r} is stored as {weights.format}")
        return self.make.constant(weights.elements, name)

    def _parted(
        self, x: Value, names: Sequence[str], whole: str, parts: Sequence[int]
    ) -> list[Value]:
        """Products of rows with several matrices, which may be stored as one; at once where they
        are stored alike.
        """
        make, width = self.make, _columns(x)
        if f"{names[0]}.weight" not in self.weights:
            result = self._product(x, whole, sum(parts))
        else:
            stored = [self._weights(f"{n}.weight", p, width) for n, p in zip(names, parts)]
            biases = [f"{n}.bias" in self.weights for n in names]
            if len({w.format for w in stored}) > 1 or (any(biases) and not all(biases)):
                return [self._product(x, n, p) for n, p in zip(names, parts)]
            elements = np.concatenate([w.elements for w in stored])
            result = self._multiplied(x, Weights(elements, (sum(parts), width), stored[0].format))
            if any(biases):
                own = [self._weights(f"{n}.bias", p).elements for n, p in zip(names, parts)]
                result = make("Add", result, make.constant(np.concatenate(own)))
        starts = np.cumsum([0, *parts])
        return [make.slice(result, 1, int(a), int(b)) for a, b in pairwise(starts)]

    def _product(self, x: Value, name: str, columns: int) -> Value:
        """Rows times the transpose of a matrix, and what is added."""
        result = self._multiplied(x, self._weights(f"{name}.weight", columns, _columns(x)))
        if f"{name}.bias" in self.weights:
            result = self.make("Add", result, self._floats(f"{name}.bias", columns))
        return result

    def _multiplied(self, x: Value, weights: Weights) -> Value:
        if not weights.format:
            return self.make("MatMul", x, self.make.constant(weights.elements.T))
        how = {"format": weights.format, "rounded": int(self.rounded)}
        op = make_operator("infuse", "MatMulBlocks", how)
        return self.make.apply(op, [x, self.make.constant(weights.elements)])[0]

    def _rows(self, name: str, tokens: Value) -> Value:
        weights = self._weights(name, self.decoder.words, self.decoder.width)
        if not weights.format:
            return self.make("Gather", self.make.constant(weights.elements), tokens, axis=0)
        op = make_operator("infuse", "GatherBlocks", {"format": weights.format})
        return self.make.apply(op, [self.make.constant(weights.elements), tokens])[0]


def _columns(rows: Value) -> int:
    """Elements of a row, which the decoder's sizes say."""
    size = rows.shape[-1]
    assert isinstance(size, int)
    return size
