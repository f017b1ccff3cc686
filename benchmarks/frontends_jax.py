"""Models of Flax beside JAX: `python -m benchmarks.frontends_jax [--output FILE.json]`.

For every model: whether Infuse reads it with a batch that is a symbol, its nodes before and after
optimization, and the largest differences of the graph and of native code from JAX on random inputs,
as a part of the largest output. Needs jax and flax.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import infuse
from infuse.errors import InfuseError
from infuse.ops.core.evaluate import evaluate


class Residual(nn.Module):
    """Two convolutions with a way past them."""

    features: int
    stride: int = 1

    @nn.compact
    def __call__(self, x: Any) -> Any:
        strides = (self.stride, self.stride)
        y = nn.Conv(self.features, (3, 3), strides, use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=True)(y))
        y = nn.Conv(self.features, (3, 3), use_bias=False)(y)
        y = nn.BatchNorm(use_running_average=True)(y)
        if x.shape != y.shape:
            x = nn.Conv(self.features, (1, 1), strides, use_bias=False)(x)
        return nn.relu(x + y)


class Block(nn.Module):
    """Attention and two dense layers, each with a way past it."""

    heads: int = 4

    @nn.compact
    def __call__(self, x: Any) -> Any:
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x), mask=mask)
        y = nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x)))
        return x + nn.Dense(x.shape[-1])(y)


def _pooled(x: Any) -> Any:
    return nn.max_pool(x, (3, 3), (2, 2), "SAME")


def _mean(x: Any) -> Any:
    return nn.avg_pool(x, (2, 2), (2, 2))


def _flat(x: Any) -> Any:
    return x.reshape((x.shape[0], -1))


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _tokens(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 99, shape).astype(np.int32)


IMAGES = _floats(2, 32, 32, 3)
MODELS: dict[str, Callable[[], tuple[nn.Module, np.ndarray]]] = {
    "dense": lambda: (
        nn.Sequential([nn.Dense(64), nn.relu, nn.Dense(64), nn.tanh, nn.Dense(10), nn.softmax]),
        _floats(4, 32),
    ),
    "cnn": lambda: (
        nn.Sequential(
            [nn.Conv(16, (3, 3)), nn.relu, _pooled, nn.Conv(32, (3, 3)), nn.relu, _mean, _flat,
             nn.Dense(10)]
        ),
        IMAGES,
    ),
    "resnet": lambda: (
        nn.Sequential(
            [nn.Conv(16, (3, 3)), Residual(16), Residual(32, 2), Residual(64, 2),
             lambda x: x.mean((1, 2)), nn.Dense(10)]
        ),
        IMAGES,
    ),
    "separable": lambda: (
        nn.Sequential(
            [nn.Conv(16, (3, 3), (2, 2)), nn.swish, nn.GroupNorm(4),
             nn.Conv(16, (3, 3), feature_group_count=16), nn.hard_swish, nn.Conv(32, (1, 1))]
        ),
        IMAGES,
    ),
    "decoder": lambda: (
        nn.Sequential([nn.ConvTranspose(8, (3, 3), (2, 2)), nn.sigmoid]), _floats(2, 8, 8, 4)
    ),
    "transformer": lambda: (
        nn.Sequential([nn.Embed(99, 32), Block(), Block(), nn.LayerNorm(), nn.Dense(99)]),
        _tokens(2, 12),
    ),
    "lstm": lambda: (nn.RNN(nn.OptimizedLSTMCell(16)), _floats(2, 9, 8)),
    "gru": lambda: (nn.RNN(nn.GRUCell(16), reverse=True, keep_order=True), _floats(2, 9, 8)),
    "normalized": lambda: (
        nn.Sequential([nn.RMSNorm(), nn.Dense(8), nn.InstanceNorm(), nn.glu]), _floats(2, 6, 8)
    ),
    "local": lambda: (nn.ConvLocal(4, (3,)), _floats(2, 9, 3)),
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a model disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="MODEL", help="of: " + ", ".join(MODELS))
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--output", type=Path, help="a file of JSON for the results")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.names or MODELS:
        module, x = MODELS[name]()
        try:
            row = measured(module, x)
        except InfuseError as error:
            print(f"{name:12} refused: {error}")
            rows.append({"model": name, "refused": str(error)})
            continue
        rows.append({"model": name, **row})
        print(
            f"{name:12} {row['nodes']:5} → {row['optimized']:4} nodes in {row['seconds']:.2f} s, "
            f"difference {row['difference']:.1e}, of native code {row['native']:.1e}"
        )
    read = [row for row in rows if "refused" not in row]
    agreeing = [r for r in read if max(r["difference"], r["native"]) <= options.tolerance]
    print(f"{len(rows)} models, {len(read)} read, {len(agreeing)} agree")
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(len(agreeing) < len(read))


def measured(module: nn.Module, x: np.ndarray) -> dict[str, Any]:
    """Nodes, seconds of reading, and differences of one model."""
    variables = module.init(jax.random.key(0), x)
    (batch,) = jax.export.symbolic_shape("batch")
    spec = jax.ShapeDtypeStruct((batch, *x.shape[1:]), jnp.dtype(x.dtype))
    begin = time.perf_counter()
    graph = infuse.from_jax(module.apply, (variables, spec), constants=["variables"])
    seconds = time.perf_counter() - begin
    expected = np.asarray(jax.jit(module.apply)(variables, x))
    feeds = {graph.inputs[0].name: x}
    optimized = infuse.optimize(graph)
    compiled = infuse.compile(optimized).run(feeds)
    return {
        "nodes": len(graph),
        "optimized": len(optimized),
        "seconds": seconds,
        "difference": _difference(evaluate(graph, feeds), expected),
        "native": _difference(compiled, expected),
    }


def _difference(results: Any, expected: np.ndarray) -> float:
    """The largest difference, as a part of the largest element."""
    (ours,) = results.values()
    if ours.shape != expected.shape or ours.dtype != expected.dtype:
        return float("nan")
    return float(np.abs(ours - expected).max() / np.abs(expected).max())


if __name__ == "__main__":
    sys.exit(main())
