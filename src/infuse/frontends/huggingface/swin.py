"""Swin: attention within windows of an image, which every other layer shifts."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse.errors import UnsupportedOperatorError
from infuse.frontends.huggingface.files import Config
from infuse.frontends.huggingface.layers import (
    Weights,
    activation,
    attend,
    layer_norm,
    linear,
    split_heads,
)
from infuse.frontends.huggingface.vision import Results, patches
from infuse.ir.graph import Array as Elements
from infuse.tracing.arrays.array import Array, lifted, node
from infuse.tracing.arrays.manipulation import permute_dims, reshape, roll


class Swin:
    """Swin, for images of the size in the configuration."""

    tasks = ("model", "image_classification")

    def __init__(self, config: Config, weights: Weights) -> None:
        self.config, self.all = config, weights
        inner = "swin.embeddings.patch_embeddings.projection.weight" in weights
        self.w = weights.within("swin") if inner else weights
        config.require("use_absolute_embeddings", False)

    def inputs_of(self, task: str) -> dict[str, tuple[str, tuple[Any, ...]]]:
        """Element types and shapes by name."""
        size, channels = self.config.image_size, self.config.get("num_channels", 3)
        return {"pixel_values": ("float32", ("batch", channels, size, size))}

    def run(self, task: str, *, pixel_values: Array) -> Results:
        """The results of a task."""
        config, w = self.config, self.w.within("embeddings")
        width = config.image_size // config.patch_size
        x = patches(pixel_values, w.within("patch_embeddings.projection"), config.patch_size)
        x = layer_norm(x, w.within("norm"), 1e-5)
        for number, (depth, heads) in enumerate(zip(config.depths, config.num_heads)):
            stage = self.w.within(f"encoder.layers.{number}")
            for block in range(depth):
                x = self.block(x, stage.within(f"blocks.{block}"), heads, width, block % 2 == 1)
            if "downsample.reduction.weight" in stage:
                x = _merged(x, stage.within("downsample"), width)
                width = (width + 1) // 2
        x = layer_norm(x, self.w.within("layernorm"), config.layer_norm_eps)
        pooled = node("ReduceMean", x, lifted(np.array([1])), keepdims=0)
        if task == "image_classification":
            return {"logits": linear(pooled, self.all.within("classifier"))}
        return {"last_hidden_state": x, "pooler_output": pooled}

    def block(self, x: Array, w: Weights, heads: int, width: int, shifted: bool) -> Array:
        """Attention within windows and two products, each of what is normalized, added."""
        epsilon = self.config.layer_norm_eps
        window = self.config.window_size
        if window > width:
            raise UnsupportedOperatorError(
                f"a stage has {width} × {width} places, and windows have {window} × {window}"
            )
        shift = window // 2 if shifted and width > window else 0
        y = self.within_windows(
            layer_norm(x, w.within("layernorm_before"), epsilon), w, heads, width, window, shift
        )
        x = x + y
        y = linear(
            layer_norm(x, w.within("layernorm_after"), epsilon), w.within("intermediate.dense")
        )
        return x + linear(activation(self.config.hidden_act, y), w.within("output.dense"))

    def within_windows(
        self, x: Array, w: Weights, heads: int, width: int, window: int, shift: int
    ) -> Array:
        """Attention within windows of an image [batch, width · width, channels]."""
        batch, _, channels = x.shape
        padded = -(-width // window) * window
        count, area = padded // window, window * window
        y = reshape(x, (batch, width, width, channels))
        if padded > width:
            ends = lifted(np.array([0, 0, 0, 0, 0, padded - width, padded - width, 0]))
            y = node("Pad", y, ends)
        if shift:
            y = roll(y, (-shift, -shift), axis=(1, 2))
        y = reshape(y, (batch, count, window, count, window, channels))
        y = reshape(permute_dims(y, (0, 1, 3, 2, 4, 5)), (-1, area, channels))
        own = w.within("attention.self")
        q, k, v = (split_heads(linear(y, own.within(n)), heads) for n in ("query", "key", "value"))
        bias = node("Gather", own("relative_position_bias_table"), lifted(_places(window)), axis=0)
        bias = reshape(permute_dims(bias, (2, 0, 1)), (1, heads, area, area))
        if not shift:
            y = attend(q, k, v, bias)
        else:
            mask = lifted(_parts(padded, window, shift))[None, :, None]
            scores = node("MatMul", q, permute_dims(k, (0, 1, 3, 2)))
            scores = scores * np.float32((channels // heads) ** -0.5) + bias
            scores = reshape(scores, (batch, count * count, heads, area, area)) + mask
            scores = reshape(node("Softmax", scores, axis=-1), (-1, heads, area, area))
            y = permute_dims(node("MatMul", scores, v), (0, 2, 1, 3))
        y = linear(reshape(y, (-1, area, channels)), w.within("attention.output.dense"))
        y = reshape(y, (batch, count, count, window, window, channels))
        y = reshape(permute_dims(y, (0, 1, 3, 2, 4, 5)), (batch, padded, padded, channels))
        if shift:
            y = roll(y, (shift, shift), axis=(1, 2))
        return reshape(y[:, :width, :width], (batch, width * width, channels))


def _merged(x: Array, w: Weights, width: int) -> Array:
    """Four neighbours as one place of twice the channels."""
    batch, _, channels = x.shape
    x = reshape(x, (batch, width, width, channels))
    if width % 2:
        x = node("Pad", x, lifted(np.array([0, 0, 0, 0, 0, 1, 1, 0])))
    half = (width + 1) // 2
    x = reshape(x, (batch, half, 2, half, 2, channels))
    x = reshape(permute_dims(x, (0, 1, 3, 4, 2, 5)), (batch, half * half, 4 * channels))
    return linear(layer_norm(x, w.within("norm"), 1e-5), w.within("reduction"))


def _places(window: int) -> Elements:
    """The row of the table for each pair of places in a window."""
    rows, columns = np.divmod(np.arange(window * window), window)
    down = rows[:, None] - rows[None] + window - 1
    right = columns[:, None] - columns[None] + window - 1
    return np.asarray(down * (2 * window - 1) + right)


def _parts(width: int, window: int, shift: int) -> Elements:
    """-100 for pairs of places in a window that the shift brought together from two sides:
    [windows, places, places].
    """
    edges = np.searchsorted([width - window, width - shift], np.arange(width), side="right")
    parts = edges[:, None] * 3 + edges[None]
    count = width // window
    parts = parts.reshape(count, window, count, window).transpose(0, 2, 1, 3)
    parts = parts.reshape(count * count, window * window)
    apart = parts[:, :, None] != parts[:, None]
    return np.where(apart, -100, 0).astype(np.float32)
