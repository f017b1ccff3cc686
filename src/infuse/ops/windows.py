"""Windows for transforms of signals, and the weights that sum a spectrum up in mel."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ShapeError
from infuse.ir import dims
from infuse.ir.graph import Value
from infuse.ir.types import TensorType
from infuse.ops.core.base import Array, Inferred, Op, Rounding
from infuse.ops.core.flops import Flops, Shapes
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import (
    fresh_dim,
    known_one,
    scalar,
)
from infuse.ops.signal import int64, require_index


class MelWeightMatrix(Op):
    """The weights of triangular filters over the places of a spectrum, evenly spaced in mel."""

    output_datatype: DType = dtypes.float32

    since = 17
    accuracy = Rounding(ulp=1, why="quotients of whole numbers are rounded once from float64")
    samples = (
        cases(
            num_mel_bins=[int64(8), np.array(5, np.int32)],
            dft_length=[int64(16), np.array(64, np.int32)],
            sample_rate=[int64(8192), np.array(16000, np.int32)],
            lower_edge_hertz=[np.float32(0), np.float32(20)],
            upper_edge_hertz=[np.float32(8192 / 2), np.float32(7600)],
            output_datatype=[dtypes.float32, dtypes.float64, dtypes.float16, dtypes.int32],
        ),
    )

    def infer(
        self,
        num_mel_bins: Value,
        dft_length: Value,
        sample_rate: Value,
        lower_edge_hertz: Value,
        upper_edge_hertz: Value,
    ) -> Inferred:
        for value, name in (
            (num_mel_bins, "num_mel_bins"),
            (dft_length, "dft_length"),
            (sample_rate, "sample_rate"),
        ):
            require_index(self.name, value, name)
        bins, length = (known_one(v, self.name) for v in (num_mel_bins, dft_length))
        rows = fresh_dim("mel") if length is None else dims.floordiv(length, 2) + 1
        return TensorType(self.output_datatype, (rows, fresh_dim("mel") if bins is None else bins))

    def eval(
        self,
        num_mel_bins: Array,
        dft_length: Array,
        sample_rate: Array,
        lower_edge_hertz: Array,
        upper_edge_hertz: Array,
    ) -> Array:
        bins, length, rate = (int(scalar(x)) for x in (num_mel_bins, dft_length, sample_rate))
        edges = np.array([scalar(lower_edge_hertz), scalar(upper_edge_hertz)], np.float64)
        low, high = 2595 * np.log1p(edges / 700) / np.log(10)
        mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
        places = np.floor((length + 1) * (700 * np.expm1(mels / 2595 * np.log(10))) / rate).astype(
            np.int64
        )
        rows = length // 2 + 1
        falls = (np.diff(places) < 0).any()
        if falls or places[0] < 0 or (places[1:-1] >= rows).any() or places[-1] > rows:
            raise ShapeError(f"{self.name} has filters outside of the spectrum")
        result = np.zeros((rows, bins))
        row = np.arange(rows)
        for i, (left, center, right) in enumerate(zip(places, places[1:], places[2:])):
            result[center, i] = 1
            rise = (row >= left) & (row <= center)
            if center > left:
                result[rise, i] = (row[rise] - left) / (center - left)
            fall = (row >= center) & (row < right)
            result[fall, i] = (right - row[fall]) / max(right - center, 1)
        return result.astype(self.output_datatype.numpy)

    def flops(self, shapes: Shapes) -> Flops:
        """About six operations an element."""
        return Flops(0, shapes.made * 6)


class Window(Op, abstract=True):
    """A window of `size` elements; a periodic one is the beginning of a symmetric one that is
    longer by one.
    """

    output_datatype: DType = dtypes.float32
    periodic: int = 1

    since = 17
    cosines: ClassVar[tuple[float, ...]] = ()
    """The weights of cos(2π · n · place), n = 0, 1, …, with alternating signs left out."""
    accuracy = Rounding(
        ulp=1, abs=2e-7, why="it is near zero at its ends, where the sum of cosines cancels"
    )
    samples = (
        cases(size=[int64(10), np.array(7, np.int32)], periodic=[0, 1]),
        cases(size=[int64(9)], output_datatype=[dtypes.float64, dtypes.bfloat16, dtypes.int32]),
    )

    def infer(self, size: Value) -> Inferred:
        require_index(self.name, size, "size")
        count = known_one(size, self.name)
        return TensorType(self.output_datatype, (fresh_dim("window") if count is None else count,))

    def eval(self, size: Array) -> Array:
        count = int(scalar(size))
        if count < 0:
            raise ShapeError(f"{self.name} has a size of {count}")
        whole = count if self.periodic else count - 1
        place = np.arange(count) * (2 * np.pi) / np.float64(whole)
        total = sum(weight * np.cos(n * place) for n, weight in enumerate(self.cosines))
        return np.asarray(total).astype(self.output_datatype.numpy)

    def flops(self, shapes: Shapes) -> Flops:
        """About six operations an element."""
        return Flops(0, shapes.made * 6)


class HannWindow(Window):
    """The raised cosine: 1/2 − 1/2 · cos(2πk / N)."""

    cosines = (0.5, -0.5)


class HammingWindow(Window):
    """The raised cosine that does not reach zero: 25/46 − 21/46 · cos(2πk / N)."""

    cosines = (25 / 46, -21 / 46)


class BlackmanWindow(Window):
    """Blackman's window: 0.42 − 0.5 · cos(2πk / N) + 0.08 · cos(4πk / N)."""

    cosines = (0.42, -0.5, 0.08)
