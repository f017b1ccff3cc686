"""Small networks and data that tests compress."""

from __future__ import annotations

from functools import cache

import numpy as np

import infuse
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.ir.parser import parse

CLASSES = 5


def image_network(rng: np.random.Generator, batch: str = "1") -> Graph:
    """Convolutions with a residual sum, a depthwise one and a dense layer, optimized."""
    return _optimized(f"""graph "images" (%x: float32[{batch}, 3, 10, 10]) {{
      %a = Conv(%x, {weights(rng, 8, 3, 3, 3)}, {weights(rng, 8)}, pads=(1, 1, 1, 1))
      %b = Relu(%a)
      %c = Conv(%b, {weights(rng, 8, 1, 3, 3)}, {weights(rng, 8)}, pads=(1, 1, 1, 1), group=8)
      %d = Relu(%c)
      %e = Conv(%d, {weights(rng, 8, 8, 1, 1)}, {weights(rng, 8)})
      %f = Add(%e, %b)
      %g = Relu(%f)
      %h = GlobalAveragePool(%g)
      %i = Flatten(%h)
      %y = Gemm(%i, {weights(rng, 8, CLASSES)}, {weights(rng, CLASSES)})
      return scores = %y
    }}""")


def text_network(rng: np.random.Generator, size: int = 64) -> Graph:
    """Products with normalization, residual sums and Gelu between them, optimized."""
    return _optimized(f"""graph "rows" (%x: float32[n, {size}]) {{
      %a = MatMul(%x, {weights(rng, size, 2 * size)})
      %b = Add(%a, {weights(rng, 2 * size)})
      %c = Gelu(%b)
      %d = MatMul(%c, {weights(rng, 2 * size, size)})
      %e = Add(%d, %x)
      %f = LayerNormalization(%e, {weights(rng, size)}, axis=-1)
      %y = MatMul(%f, {weights(rng, size, CLASSES)})
      return scores = %y
    }}""")


def _optimized(text: str) -> Graph:
    """The optimized graph of a text, a copy of its own for each call."""
    graph = _read(text)
    copy = clone(graph)
    copy.report = graph.report
    return copy


@cache
def _read(text: str) -> Graph:
    return infuse.optimize(parse(text))


def weights(rng: np.random.Generator, *shape: int) -> str:
    """Random elements of a constant, as the text form of graphs has them."""
    scale = (2 / max(np.prod(shape[1:]), 1)) ** 0.5
    elements = ", ".join(f"{scale * value:.5f}" for value in rng.standard_normal(np.prod(shape)))
    return f"float32[{', '.join(map(str, shape))}]{{{elements}}}"


def images(rng: np.random.Generator, count: int = 24) -> dict[str, np.ndarray]:
    """Examples for `image_network`."""
    return {"x": rng.standard_normal((count, 3, 10, 10)).astype(np.float32)}


def rows(rng: np.random.Generator, count: int = 24, size: int = 64) -> dict[str, np.ndarray]:
    """Examples for `text_network`."""
    return {"x": rng.standard_normal((count, size)).astype(np.float32)}
