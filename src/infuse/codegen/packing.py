"""Weights in the order in which the kernels read them: panels of 2 · lanes columns, padded with
zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray


def pack_gemm_b(b: NDArray[Any], lanes: int, kind: Any = np.float32) -> NDArray[Any]:
    """The matrix b[k, n] as [panel, k, 2 · lanes] for kernels/gemm.hpp, or of halves for
    kernels/gemm_fp16.hpp.
    """
    k, n = b.shape
    width = 2 * lanes
    panels = -(-n // width)
    packed = np.zeros((panels, k, width), kind)
    whole = n // width
    packed[:whole] = b[:, : whole * width].reshape(k, whole, width).transpose(1, 0, 2)
    if whole < panels:
        packed[whole, :, : n - whole * width] = b[:, whole * width :]
    return packed


def pack_gemm_bf16(b: NDArray[Any], lanes: int) -> NDArray[Any]:
    """The matrix b[k, n], rounded, as [panel, pair of k, 2 · lanes, 2] for
    kernels/gemm_bf16.hpp.
    """
    k, n = b.shape
    pairs, width = -(-k // 2), 2 * lanes
    panels = -(-n // width)
    packed = np.zeros((panels, pairs, width, 2), bfloat16)
    rounded = b.astype(bfloat16)
    whole = n // width
    for half in range(2):
        rows = rounded[half::2]
        body = rows[:, : whole * width].reshape(len(rows), whole, width)
        packed[:whole, : len(rows), :, half] = body.transpose(1, 0, 2)
        if whole < panels:
            packed[whole, : len(rows), : n - whole * width, half] = rows[:, whole * width :]
    return packed


def pack_conv(
    weights: NDArray[Any], groups: int, lanes: int, kind: Any = np.float32
) -> NDArray[Any]:
    """Convolution weights [out, in / groups, kh, kw] as [group, panel, k, 2 · lanes] for
    kernels/conv.hpp.

    One row of k is one number of the window, in the order kh, kw, channel of the group.
    """
    out = weights.shape[0]
    if out % groups:
        raise ValueError(f"{out} output channels in {groups} groups")
    columns = weights.transpose(2, 3, 1, 0).reshape(-1, groups, out // groups)
    return np.stack([pack_gemm_b(columns[:, g], lanes, kind) for g in range(groups)])


def merge_groups(weights: NDArray[Any], groups: int, merged: int) -> NDArray[Any]:
    """Convolution weights of `groups` · `merged` groups as those of `groups`: zeros where groups
    did not meet.
    """
    if merged == 1:
        return weights
    out, own, *kernel = weights.shape
    whole = np.zeros((groups, merged, out // groups // merged, merged, own, *kernel), weights.dtype)
    parts = weights.reshape(groups, merged, -1, own, *kernel)
    for number in range(merged):
        whole[:, number, :, number] = parts[:, number]
    return whole.reshape(out, merged * own, *kernel)


def pack_conv_bf16(weights: NDArray[Any], groups: int, whole: bool, lanes: int) -> NDArray[Any]:
    """Convolution weights [out, in / groups, kh, kw] as [group, panel, pair, 2 · lanes, 2] for
    kernels/conv_bf16.hpp.

    A segment is a line of the window where `whole`, else the channels of one tap; an odd one is
    padded with a zero.
    """
    out, _, height, width = weights.shape
    segments = height if whole else height * width
    columns = weights.transpose(2, 3, 1, 0).reshape(segments, -1, groups, out // groups)
    odd = columns.shape[1] % 2
    padded = np.pad(columns, ((0, 0), (0, odd), (0, 0), (0, 0))).reshape(-1, groups, out // groups)
    return np.stack([pack_gemm_bf16(padded[:, g], lanes) for g in range(groups)])
