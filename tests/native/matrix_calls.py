"""Calls of the kernels for matrices, images and attention that several tests make, and what exact
ones give.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tests.native.kernel_tools import Doubles, Floats, empty, fenced, longs, pointer
from tests.native.test_kernels_attention import AttentionCall, reference, steps

Rng = np.random.Generator
Pair = tuple[int, int]


def numbers(rng: Rng, *shape: int) -> Floats:
    """Numbers between -1 and 1."""
    result: Floats = fenced(rng.uniform(-1, 1, shape).astype(np.float32))
    return result


@dataclass(frozen=True)
class Windows:
    """A convolution of images, channels last; `pads` before and behind."""

    image: tuple[int, int, int, int]
    out: int
    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: Pair
    groups: int

    @property
    def size(self) -> list[int]:
        """Height and width of the result."""
        sides = zip(self.image[1:3], self.kernel, self.strides, self.dilations, self.pads)
        return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, d, p in sides]

    def sizes(self, gap: int) -> Any:
        """The struct ConvSizes, pixels `gap` numbers further apart."""
        n, h, w, c = self.image
        window = (*self.kernel, *self.strides, *self.dilations, *self.pads)
        return longs(n, h, w, c, *self.size, self.out, *window, self.groups, c + gap, 0)

    def convolved(self, image: Doubles, filters: Doubles) -> Doubles:
        """The result of an image and filters [out, channels of a group, height, width]."""
        (n, _, _, c), (oh, ow), groups = self.image, self.size, self.groups
        (top, left), (kh, kw), (dh, dw), (sh, sw) = (
            *(self.pads, self.kernel),
            *(self.dilations, self.strides),
        )
        padded = np.pad(image, ((0, 0), (top, top), (left, left), (0, 0)))
        windows = sliding_window_view(padded, (dh * (kh - 1) + 1, dw * (kw - 1) + 1), axis=(1, 2))
        windows = windows[:, ::sh, ::sw, :, ::dh, ::dw][:, :oh, :ow]
        parts = windows.reshape(n, oh, ow, groups, c // groups, kh, kw)
        own = filters.reshape(groups, self.out // groups, c // groups, kh, kw)
        sums = np.einsum("nhwgcij,gocij->nhwgo", parts, own)
        result: Doubles = sums.reshape(n, oh, ow, self.out)
        return result


@dataclass(frozen=True)
class Attended:
    """What a kernel of attention made of random queries, keys and values, all by heads."""

    out: Floats
    operands: list[Floats]
    scale: float
    mask: Floats | None
    visible: Any

    def exact(self, q: Doubles, k: Doubles, v: Doubles) -> Doubles:
        """What these operands give in float64."""
        result: Doubles = reference(q, k, v, self.scale, self.mask, self.visible)
        return result


def attend(
    kernel: Callable[..., Any], rng: Rng, sizes: tuple[int, ...], mask_kind: str
) -> Attended:
    """A call on two threads; `mask_kind`: none, add or causal."""
    b, h, kv_heads, m, n, d, values = sizes
    q, k = numbers(rng, b, m, h, d), numbers(rng, b, kv_heads, n, d)
    v = numbers(rng, b, kv_heads, n, values)
    mask, causal, offset = None, mask_kind == "causal", n - m
    if mask_kind == "add":
        mask = fenced(rng.uniform(-3, 3, (b, h, m, n)).astype(np.float32))
        mask[:, :, :, 0] = -np.inf if n > 1 else 0
    by_heads, out = q.transpose(0, 2, 1, 3), empty(b, m, h, values)
    places = (*(steps(x, 3) for x in (by_heads, k, v)),)
    call = AttentionCall(b, h, kv_heads, m, n, d, values, causal, offset, 1, *places)
    if mask is not None:
        call.mask = steps(mask)
    scale = float(1 / np.sqrt(d))
    added = ctypes.c_void_p(0) if mask is None else pointer(mask)
    arrays = [pointer(x) for x in (q, k, v)]
    kernel(2, ctypes.byref(call), ctypes.c_float(scale), *arrays, added, pointer(out))
    all_keys = np.ones((m, n), bool)
    visible = np.arange(n)[None] <= np.arange(m)[:, None] + offset if causal else all_keys
    return Attended(out.transpose(0, 2, 1, 3), [by_heads, k, v], scale, mask, visible)
