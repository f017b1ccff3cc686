"""Transformers in the spellings of exporters, and what they compute by NumPy alone, with hidden
channels and blocks left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from infuse.ir.graph import Graph, Value, constant
from tests.pruning_networks import Network

WIDTH, HEADS, LENGTH, FEATURES, LAYERS, EPSILON = 16, 2, 5, 7, 3, 1e-5
NORMS = ("layer", "layer written out", "rms", "rms written out")
Arrays = dict[str, np.ndarray]
_erf = np.vectorize(math.erf)


@dataclass
class Transformer:
    """Attention and a wider layer in turns, normalized before them or after the sums."""

    norm: str = "layer"
    is_before: bool = True
    layers: int = LAYERS
    arrays: Arrays = field(default_factory=dict)

    # -- as a graph --------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The network."""
        net = Network("transformer", (2, LENGTH, FEATURES))
        x = self._dense(net, "embed", net.x, WIDTH)
        x = net("Add", x, self._keep("places", net.weights(1, LENGTH, WIDTH)))
        for number in range(self.layers):
            for kind in ("attention", "wide"):
                name = f"layers.{number}.{kind}"
                y = self._normal(net, f"{name}.norm", x) if self.is_before else x
                y = getattr(self, f"_{kind}")(net, name, y)
                x = net.named(f"{name}.sum", net("Add", x, y))
                x = x if self.is_before else self._normal(net, f"{name}.norm", x)
        x = self._normal(net, "norm", x)
        net.graph.add_output(self._dense(net, "head", x, 3), "scores")
        return net.graph

    def _keep(self, name: str, value: Value) -> Value:
        value.name = name
        self.arrays[name] = np.asarray(value.const, np.float64)
        return value

    def _dense(self, net: Network, name: str, x: Value, count: int) -> Value:
        w = self._keep(f"{name}.w", net.weights(int(str(x.shape[-1])), count))
        b = self._keep(f"{name}.b", net.weights(count))
        return net("Add", net.named(f"{name}/MatMul", net("MatMul", x, w)), b)

    def _attention(self, net: Network, name: str, x: Value) -> Value:
        split, part = net.ints(2, LENGTH, HEADS, -1), WIDTH // HEADS
        q, k, v = (
            net("Reshape", self._dense(net, f"{name}.{each}", x, WIDTH), split) for each in "qkv"
        )
        q, v = (net("Transpose", each, perm=(0, 2, 1, 3)) for each in (q, v))
        score = net("MatMul", q, net("Transpose", k, perm=(0, 2, 3, 1)))
        score = net("Div", score, constant(np.float32(part**0.5)))
        y = net("MatMul", net("Softmax", score, axis=-1), v)
        y = net("Reshape", net("Transpose", y, perm=(0, 2, 1, 3)), net.ints(2, LENGTH, WIDTH))
        return self._dense(net, f"{name}.o", y, WIDTH)

    def _wide(self, net: Network, name: str, x: Value) -> Value:
        y = self._dense(net, f"{name}.up", x, 2 * WIDTH)
        erf = net("Erf", net("Div", y, constant(np.float32(2**0.5))))
        y = net("Mul", net("Mul", y, net("Add", erf, constant(np.float32(1)))), constant(_HALF))
        return self._dense(net, f"{name}.down", y, WIDTH)

    def _normal(self, net: Network, name: str, x: Value) -> Value:
        scale = self._keep(f"{name}.scale", net.weights(WIDTH))
        scale.const = np.asarray(scale.const + 1, np.float32)
        self.arrays[f"{name}.scale"] = np.asarray(scale.const, np.float64)
        epsilon, two, last = constant(np.float32(EPSILON)), constant(np.float32(2)), net.ints(-1)
        if self.norm == "rms":
            return net("RMSNormalization", x, scale, epsilon=EPSILON)
        if self.norm == "rms written out":
            mean = net("ReduceMean", net("Pow", x, two), last, keepdims=1)
            root = net("Sqrt", net("Add", mean, epsilon))
            return net("Mul", net("Mul", x, net("Reciprocal", root)), scale)
        bias = self._keep(f"{name}.bias", net.weights(WIDTH))
        if self.norm == "layer":
            return net("LayerNormalization", x, scale, bias, epsilon=EPSILON)
        apart = net("Sub", x, net("ReduceMean", x, last, keepdims=1))
        variance = net("ReduceMean", net("Pow", apart, two), last, keepdims=1)
        normal = net("Div", apart, net("Sqrt", net("Add", variance, epsilon)))
        return net("Add", net("Mul", normal, scale), bias)

    # -- by NumPy ----------------------------------------------------------------------------------

    def scores(
        self, x: np.ndarray, hidden: np.ndarray, dropped: Collection[str] = ()
    ) -> np.ndarray:
        """What the network computes with these channels of the hidden size, and without these
        blocks.
        """
        a = self.arrays
        x = x.astype(np.float64) @ a["embed.w"][:, hidden] + a["embed.b"][hidden]
        x = x + a["places"][..., hidden]
        for number in range(self.layers):
            for kind in ("attention", "wide"):
                name = f"layers.{number}.{kind}"
                if name not in dropped:
                    y = self._normal_of(f"{name}.norm", x, hidden) if self.is_before else x
                    x = x + getattr(self, f"_{kind}_of")(name, y, hidden)
                if not self.is_before:
                    x = self._normal_of(f"{name}.norm", x, hidden)
        x = self._normal_of("norm", x, hidden)
        return x @ a["head.w"][hidden] + a["head.b"]

    def _attention_of(self, name: str, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        a, part = self.arrays, WIDTH // HEADS
        q, k, v = (x @ a[f"{name}.{e}.w"][hidden] + a[f"{name}.{e}.b"] for e in "qkv")
        heads = []
        for head in range(HEADS):
            own = slice(head * part, (head + 1) * part)
            score = q[..., own] @ k[..., own].swapaxes(1, 2) / part**0.5
            weights = np.exp(score - score.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[..., own])
        return np.concatenate(heads, -1) @ a[f"{name}.o.w"][:, hidden] + a[f"{name}.o.b"][hidden]

    def _wide_of(self, name: str, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        a = self.arrays
        y = x @ a[f"{name}.up.w"][hidden] + a[f"{name}.up.b"]
        y = y * (1 + _erf(y / 2**0.5)) / 2
        return y @ a[f"{name}.down.w"][:, hidden] + a[f"{name}.down.b"][hidden]

    def _normal_of(self, name: str, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        a = self.arrays
        if self.norm.startswith("layer"):
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + EPSILON)
        bias = a[f"{name}.bias"][hidden] if self.norm.startswith("layer") else 0
        return x * a[f"{name}.scale"][hidden] + bias


_HALF = np.float32(0.5)
