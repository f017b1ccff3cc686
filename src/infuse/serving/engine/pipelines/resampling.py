"""Sounds at another rate: a windowed sinc, applied in phases."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from infuse.runtime.session import Array
from infuse.serving.tuning import PIECE_BYTES

_ZEROS: Final = 32  # zero crossings of the sinc on either side
_BETA: Final = 9.0  # of the Kaiser window: what is folded back lies 90 dB below
MOST_TERMS: Final = (
    20_000  # of the reduced ratio of two rates; the filter has 2 · 32 times as many taps
)


def terms(old: int, new: int) -> tuple[int, int]:
    """Old and new rate without their common divisor: (how often samples are repeated, which of them
    are kept).
    """
    common = math.gcd(old, new)
    return new // common, old // common


@lru_cache(maxsize=16)
def taps(up: int, down: int) -> Array:
    """The low-pass filter: a sinc up to the lower of the two Nyquist rates under a Kaiser window,
    of gain `up`.
    """
    most = max(up, down)
    steps = np.arange(-_ZEROS * most, _ZEROS * most + 1) / most
    filter = np.sinc(steps) * np.kaiser(len(steps), _BETA)
    return np.asarray(filter * (up / filter.sum()))


def resample(data: Array, old: int, new: int) -> Array:
    """Sound [frames, channels] at `new` samples a second instead of `old`: ceil(frames · new / old)
    frames.

    Before and after the sound there is silence. Time is linear in frames · new / old · (64 · max(1,
    old / new)).
    """
    if old == new or not len(data):
        return data
    up, down = terms(old, new)
    filter = taps(up, down)
    half = len(filter) // 2
    frames = -(-len(data) * up // down)
    # Result m lies at m · down of the repeated samples, where sample k lies at k · up: it sums
    # filter[half + m · down - k · up] · data[k], and all m with the same (m · down + half) % up
    # have the same taps.
    width = -(-len(filter) // up)
    padded = np.zeros((len(data) + 2 * width + 2, data.shape[1]))
    padded[width : width + len(data)] = data
    result = np.empty((frames, data.shape[1]))
    for first in range(min(up, frames)):
        last, phase = divmod(first * down + half, up)
        part = filter[phase::up][::-1]
        # The window of result `first` ends with sample `last`; the next of its phase, `up` results
        # on, `down` later.
        count = len(range(first, frames, up))
        result[first::up] = _dots(padded, last - len(part) + 1 + width, down, count, part)
    return result


def _dots(padded: Array, start: int, step: int, count: int, part: Array) -> Array:
    """`count` products of `part` with windows of the padded sound, the first at `start`, each
    `step` later.
    """
    after = start + (count - 1) * step + len(part)
    windows = np.lib.stride_tricks.sliding_window_view(padded[start:after], len(part), axis=0)[
        ::step
    ]
    rows = max(1, PIECE_BYTES // (len(part) * padded.shape[1]))
    return np.concatenate([windows[row : row + rows] @ part for row in range(0, count, rows)])
