"""Rounding to integers, differentiated as if it had not been done where the range was not left."""

from __future__ import annotations

import numpy as np
import pytest

from infuse.ir.parser import parse
from infuse.ops.core.evaluate import evaluate
from infuse.training import differentiate

pytestmark = pytest.mark.row("Z5")


def test_the_pair_passes_gradients_on_inside_the_range() -> None:
    graph = parse(
        """graph "pair" (%x: float32[6], %s: float32[], %w: float32[6]) {
          %q = QuantizeLinear(%x, %s, int8[]{3})
          %y = DequantizeLinear(%q, %s, int8[]{3})
          %p = Mul(%y, %w)
          %loss = ReduceSum(%p, keepdims=0)
          return loss = %loss
        }"""
    )
    x = np.array([-100, -1.3, 0, 0.26, 61.9, 80], np.float32)
    scale, w = np.float32(0.5), np.array([1, 2, 3, 4, 5, 6], np.float32)
    found = evaluate(differentiate(graph, "loss", ["x", "s"]), {"x": x, "s": scale, "w": w})
    inside = np.array([0, 1, 1, 1, 1, 0])
    np.testing.assert_array_equal(found["gradient.x"], w * inside)
    rounded = np.clip(np.rint(x / scale) + 3, -128, 127) - 3
    expected = (w * (rounded - inside * x / scale)).sum()
    np.testing.assert_allclose(found["gradient.s"], expected, rtol=1e-6)


@pytest.mark.parametrize(("axis", "block"), [(0, 0), (1, 0), (1, 2)])
def test_scales_of_channels_and_blocks_get_their_own_sums(axis: int, block: int) -> None:
    shape = {(0, 0): (2,), (1, 0): (4,), (1, 2): (2, 2)}[axis, block]
    sizes = ", ".join(map(str, shape))
    graph = parse(
        f"""graph "scales" (%x: float32[2, 4], %s: float32[{sizes}], %w: float32[2, 4]) {{
          %q = QuantizeLinear(%x, %s, axis={axis}, block_size={block})
          %y = DequantizeLinear(%q, %s, axis={axis}, block_size={block})
          %p = Mul(%y, %w)
          %loss = ReduceSum(%p, keepdims=0)
          return loss = %loss
        }}"""
    )
    rng = np.random.default_rng(1)
    x, w = (rng.uniform(-2, 9, (2, 4)).astype(np.float32) for _ in range(2))
    scale = rng.uniform(0.02, 0.5, shape).astype(np.float32)
    found = evaluate(differentiate(graph, "loss", ["x", "s"]), {"x": x, "s": scale, "w": w})
    wide = np.repeat(scale, 2, 1) if block else scale.reshape((-1, 1) if axis == 0 else (1, -1))
    wide = np.broadcast_to(wide, x.shape)
    inside = (x / wide >= 0) & (x / wide <= 255)
    np.testing.assert_allclose(found["gradient.x"], w * inside, rtol=1e-6)
    parts = w * (np.clip(np.rint(x / wide), 0, 255) - inside * x / wide)
    sums = parts.reshape(2, 2, 2).sum(2) if block else parts.sum(1 - axis)
    np.testing.assert_allclose(found["gradient.s"], sums, rtol=1e-4, atol=1e-4)
