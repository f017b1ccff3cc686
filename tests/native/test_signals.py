"""Fourier transforms and windows beside NumPy and PyTorch in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from infuse import dtypes
from infuse.ops.core.base import Rounding
from tests.native.several import Several, floats

FOURIER = {np.float32: Rounding(abs=2e-6), np.float64: Rounding(abs=2e-14)}
LENGTHS = (
    *range(1, 41),
    49,
    64,
    97,
    100,
    121,
    127,
    128,
    143,
    169,
    210,
    251,
    997,
    1000,
    1024,
    4096,
    4099,
    5000,
)


def pairs(x: Any) -> Any:
    return np.stack([x.real, x.imag], axis=-1)


def complexes(x: Any) -> Any:
    return x[..., 0].astype(np.float64) + (
        1j * x[..., 1].astype(np.float64) if x.shape[-1] == 2 else 0
    )


@pytest.mark.parametrize("dtype", FOURIER)
def test_transforms_of_every_length(dtype: Any) -> None:
    several = Several()
    for n in LENGTHS:
        lines = 3 if n < 200 else 1
        for parts in (1, 2):
            x = floats(lines, n, parts, dtype=dtype)
            several.add("DFT", [x], [pairs(np.fft.fft(complexes(x)))], FOURIER[dtype])
        several.add("DFT", [x], [pairs(np.fft.ifft(complexes(x)))], FOURIER[dtype], inverse=1)
        real = floats(lines, n, 1, dtype=dtype)
        half = np.fft.rfft(real[..., 0].astype(np.float64))
        several.add("DFT", [real], [pairs(half)], FOURIER[dtype], onesided=1)
        back = [pairs(half).astype(dtype), np.array(n)]
        several.add(
            "DFT",
            back,
            [np.fft.irfft(half, n)[..., None]],
            FOURIER[dtype],
            held=[1],
            inverse=1,
            onesided=1,
        )
    several.check()


@pytest.mark.parametrize("symbolic", [False, True], ids=["known sizes", "open sizes"])
def test_axis_and_length_of_a_transform_come_from_the_run(symbolic: bool) -> None:
    several = Several()
    x = floats(20, 3, 17, 2)
    for axis, length in itertools.product((0, 1, -2), (None, 5, 16, 34)):
        given = None if length is None else np.array(length)
        exact = pairs(np.fft.fft(complexes(x), length, axis=axis if axis >= 0 else 2))
        inputs = [x, given, np.array(axis)]
        several.add("DFT", inputs, [exact], FOURIER[np.float32], symbolic=symbolic)
        several.add("DFT", inputs, [exact], FOURIER[np.float32], symbolic=symbolic, held=[2])
    several.check()


def test_short_transforms_agree_with_pytorch() -> None:
    several = Several()
    for size, step, width, onesided in (
        (400, 80, 160, 1),
        (64, 7, 16, 0),
        (50, 50, 50, 1),
        (33, 4, 9, 1),
    ):
        x, window = floats(2, size, 1), floats(width)
        exact = torch.stft(
            torch.tensor(x[..., 0], dtype=torch.float64),
            width,
            step,
            window=torch.tensor(window, dtype=torch.float64),
            center=False,
            onesided=bool(onesided),
            return_complex=True,
        ).numpy()
        wanted = [pairs(exact.swapaxes(1, 2))]
        for held in ([1, 3], []):
            inputs = [x, np.array(step), window, np.array(width)]
            several.add("STFT", inputs, wanted, FOURIER[np.float32], held=held, onesided=onesided)
        several.add(
            "STFT",
            [x, np.array(step), window],
            wanted,
            FOURIER[np.float32],
            symbolic=True,
            onesided=onesided,
        )
    several.check()


WINDOWS = {dtypes.float32: 2e-7, dtypes.float64: 1e-15, dtypes.float16: 1e-7}


def test_windows_agree_with_pytorch_in_every_type() -> None:
    several = Several()
    kinds = {
        "HannWindow": lambda n, p: torch.hann_window(n, p, dtype=torch.float64),
        "HammingWindow": lambda n, p: torch.hamming_window(
            n, p, 25 / 46, 21 / 46, dtype=torch.float64
        ),
        "BlackmanWindow": lambda n, p: torch.blackman_window(n, p, dtype=torch.float64),
    }
    for (kind, make), periodic, dtype in itertools.product(kinds.items(), (0, 1), WINDOWS):
        exact = make(23, bool(periodic)).numpy()
        accuracy = Rounding(ulp=1, abs=WINDOWS[dtype])
        for held in ([0], []):
            options = {"periodic": periodic, "output_datatype": dtype}
            several.add(kind, [np.array(23)], [exact], accuracy, held=held, **options)
    several.check()


def test_an_impulse_keeps_other_lines_as_they_are() -> None:
    """Lines are transformed side by side, but what is no number in one stays there."""
    x = floats(9, 12, 1)
    x[4, 3] = np.nan
    several = Several()
    several.add("DFT", [x], [pairs(np.fft.fft(complexes(x)))], FOURIER[np.float32])
    exact = several.wanted[0][1]
    exact[4] = np.nan
    several.check()
