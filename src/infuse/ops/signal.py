"""Signals: Fourier transforms, of all elements and of short frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import ShapeError, TypeMismatchError
from infuse.ir import dims
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding, normalize_axis
from infuse.ops.core.elementwise import require_kind
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import (
    at_most,
    fresh_dim,
    known_one,
    nonempty,
    require_rank,
    scalar,
    with_dim,
)
from infuse.ops.core.traits import Trait

_SUMS = Rounding(
    ulp=4, abs=4e-6, why="sums over all elements round in another order, and may cancel"
)


def int64(value: int) -> Array:
    """A scalar input, for samples."""
    return np.array(value, np.int64)


def require_index(op: str, value: Value | None, name: str) -> None:
    """TypeMismatchError unless an input, where it is given, has int32 or int64 elements."""
    if value is not None and value.dtype not in (dtypes.int32, dtypes.int64):
        raise TypeMismatchError(f"{name} of {op} must be int32 or int64, found {value.dtype}")


def _parts(op: str, x: Value) -> Dim:
    """The last size: one for real elements, two for complex ones."""
    at_most(1, x.shape[-1], f"the parts of a number of {op}")
    at_most(x.shape[-1], 2, f"the parts of a number of {op}")
    return x.shape[-1]


def _complex(x: Array) -> Array:
    """The numbers whose parts lie along the last axis."""
    wide = x.astype(np.float64)
    return wide[..., 0] if x.shape[-1] == 1 else wide[..., 0] + 1j * wide[..., 1]


def _pairs(x: Array, dtype: Any) -> Array:
    return np.stack([x.real, x.imag], axis=-1).astype(dtype)


_BUTTERFLY = 5
"""Operations on an element in each of the log₂ n passes of a fast transform."""
_PASSES = 10
"""Passes where the length is not known: those of 1024 elements."""


def _passes(length: Dim) -> int:
    return max(1, (length - 1).bit_length()) if isinstance(length, int) else _PASSES


class DFT(Op):
    """The discrete Fourier transform along one axis, its inverse, or with `onesided` only half of
    the spectrum.

    The last axis holds real and imaginary parts; of size one, the elements are real. The line is
    cut or continued with zeros to `dft_length`. The inverse of a onesided spectrum is real.
    """

    traits = Trait.FLOAT32
    inverse: int = 0
    onesided: int = 0

    since = 20
    accuracy = _SUMS
    samples = (
        cases(
            input=[(2, 5, 1), (2, 6, 2), (3, 14, 2, 1)],
            dft_length=[None] * 3,
            axis=[None] * 3,
            inverse=[0, 1],
        ),
        cases(input=[(2, 8, 1), (3, 7, 1), (2, 17, 3, 1)], axis=[int64(1)] * 3, onesided=[0, 1]),
        cases(input=[(2, 5, 2), (4, 3, 2)], axis=[int64(-2)] * 2, inverse=[1], onesided=[1]),
        cases(
            input=[(2, 9, 1), (2, 9, 2), (9, 2, 2), (2, 40, 1)],
            dft_length=[int64(12), int64(6), int64(34), int64(38)],
            axis=[int64(1), int64(1), int64(0), None],
            inverse=[0, 1],
        ),
    )

    def infer(
        self, input: Value, dft_length: Value | None = None, axis: Value | None = None
    ) -> Inferred:
        dtype = require_kind(self.name, input.dtype, "f")
        require_index(self.name, dft_length, "dft_length")
        require_index(self.name, axis, "axis")
        if input.tensor.shape is None:
            return TensorType(dtype, None)
        if input.rank < 2:
            raise ShapeError(
                f"{self.name} takes lines of real or complex numbers, found {input.type}"
            )
        _parts(self.name, input)
        last = 1 if self.inverse and self.onesided else 2
        place = int64(-2) if axis is None else axis.const
        if place is None:
            return TensorType(dtype, (*(fresh_dim("dft") for _ in input.shape[:-1]), last))
        along = self._axis(int(place.reshape(-1)[0]), input.rank)
        length = self.length(
            input.shape[along], None if dft_length is None else known_one(dft_length, self.name)
        )
        if length is None or (dft_length is not None and known_ints(dft_length) is None):
            return TensorType(dtype, (*with_dim(input.shape, along, fresh_dim("dft"))[:-1], last))
        at_most(1, length, f"the length of {self.name}")
        return TensorType(dtype, (*with_dim(input.shape, along, self.results(length))[:-1], last))

    def _axis(self, axis: int, rank: int) -> int:
        along = normalize_axis(axis, rank, self.name)
        if along == rank - 1:
            raise ShapeError(f"{self.name} cannot run along the axis of real and imaginary parts")
        return along

    def length(self, size: Dim, stated: Dim | None) -> Dim:
        """The length of the transform of lines of `size` elements."""
        if stated is not None:
            return stated
        return 2 * (size - 1) if self.inverse and self.onesided else size

    def results(self, length: Dim) -> Dim:
        """How many elements a transform of this length gives."""
        return dims.floordiv(length, 2) + 1 if self.onesided and not self.inverse else length

    def eval(
        self, input: Array, dft_length: Array | None = None, axis: Array | None = None
    ) -> Array:
        along = self._axis(-2 if axis is None else int(scalar(axis)), input.ndim)
        length = self.length(
            input.shape[along], None if dft_length is None else int(scalar(dft_length))
        )
        if not isinstance(length, int) or length < 1:
            raise ShapeError(f"{self.name} of length {length} has no result")
        numbers = _complex(input)
        if not self.inverse:
            spectrum = np.fft.fft(numbers, length, axis=along)
            return _pairs(spectrum.take(range(int(self.results(length))), axis=along), input.dtype)
        if self.onesided:
            return np.fft.irfft(numbers, length, axis=along)[..., None].astype(input.dtype)
        return _pairs(np.fft.ifft(numbers, length, axis=along), input.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        """As a fast transform of the longest axis does."""
        whole = max((d for d in shapes.input(0)[:-1] if isinstance(d, int)), default=1 << _PASSES)
        return Flops(0, shapes.size(0) * _BUTTERFLY * _passes(whole))


class STFT(Op):
    """Fourier transforms of frames of a signal, `frame_step` apart and weighed by a window.

    The frames are as long as `frame_length` says, else as the window, else as the signal.
    """

    traits = Trait.FLOAT32
    onesided: int = 1

    since = 17
    accuracy = _SUMS
    samples = (
        cases(
            signal=[(1, 32, 1), (2, 40, 1), (2, 21, 2)],
            frame_step=[int64(4), int64(7), int64(3)],
            window=[(16,), None, (6,)],
            frame_length=[None, int64(11), int64(6)],
            onesided=[0, 1],
        ),
        cases(signal=[(2, 12, 1)], frame_step=[int64(5)], onesided=[1]),
    )

    def infer(
        self,
        signal: Value,
        frame_step: Value,
        window: Value | None = None,
        frame_length: Value | None = None,
    ) -> Inferred:
        dtype = require_kind(self.name, signal.dtype, "f")
        require_index(self.name, frame_step, "frame_step")
        require_index(self.name, frame_length, "frame_length")
        require_rank(signal, 3, self.name, "the signal")
        if window is not None:
            require_rank(window, 1, self.name, "the window")
            if window.dtype != dtype:
                raise TypeMismatchError(
                    f"the window of {self.name} must be {dtype}, found {window.dtype}"
                )
        if signal.tensor.shape is None:
            return TensorType(dtype, (fresh_dim("stft"), fresh_dim("stft"), fresh_dim("stft"), 2))
        _parts(self.name, signal)
        step = known_one(frame_step, self.name)
        length = self.length(signal, window, frame_length)
        if length is not None:
            nonempty(length, self.name)
        frames = (
            None if step is None or length is None else self.frames(signal.shape[1], step, length)
        )
        results = fresh_dim("stft") if length is None else self.results(length)
        return TensorType(
            dtype, (signal.shape[0], fresh_dim("stft") if frames is None else frames, results, 2)
        )

    def length(self, signal: Value, window: Value | None, frame_length: Value | None) -> Dim | None:
        """The length of a frame, where it is known."""
        if frame_length is not None:
            return known_one(frame_length, self.name)
        if window is not None:
            return window.shape[0] if window.tensor.shape is not None else None
        return signal.shape[1]

    def frames(self, size: Dim, step: Dim, length: Dim) -> Dim:
        """How many frames fit into a signal."""
        at_most(1, step, f"the step of {self.name}")
        at_most(1, length, f"the length of a frame of {self.name}")
        at_most(length, size, f"a frame and the signal of {self.name}")
        return dims.floordiv(size - length, step) + 1

    def results(self, length: Dim) -> Dim:
        """How many elements a transform of this length gives."""
        return dims.floordiv(length, 2) + 1 if self.onesided else length

    def eval(
        self,
        signal: Array,
        frame_step: Array,
        window: Array | None = None,
        frame_length: Array | None = None,
    ) -> Array:
        step, size = int(scalar(frame_step)), signal.shape[1]
        length = size if window is None else window.shape[0]
        length = length if frame_length is None else int(scalar(frame_length))
        frames, results = self.frames(size, step, length), self.results(length)
        assert isinstance(frames, int)
        numbers, weights = (
            _complex(signal),
            np.ones(length) if window is None else window.astype(np.float64),
        )
        cut = min(length, len(weights))
        parts = [numbers[:, i * step : i * step + cut] * weights[:cut] for i in range(frames)]
        spectra = np.fft.fft(np.stack(parts, axis=1), length, axis=2)
        return _pairs(spectra[:, :, :results], signal.dtype)

    def flops(self, shapes: Shapes) -> Flops:
        """A window and a transform for every frame; a result has half of the frame's places where
        one side is asked for.
        """
        places = shapes.outputs[0][2]
        return Flops(0, shapes.made * (1 + _BUTTERFLY * _passes(places)))
