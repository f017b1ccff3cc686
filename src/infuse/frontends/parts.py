"""Quantized weights in the form that kernels take, whatever file they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from infuse.immutable import Immutable, replace

Floats = npt.NDArray[np.float32]


class Parts(Immutable, eq=False):
    """weight = scale · quant + offset in float32, with a scale and an offset for each group of
    `group` weights in a row: quants int8 or uint8 (n, k), scales and offsets (n, k / group).

    With `codes`, the quants number these values, float32, and stand for them.
    """

    quants: npt.NDArray[Any]
    scale: Floats
    offset: Floats | None
    group: int
    codes: Floats | None = None

    def weights(self) -> Floats:
        """The weights in float32: (n, k)."""
        n, k = self.quants.shape
        values = self.quants if self.codes is None else self.codes[self.quants]
        grouped = values.reshape(n, k // self.group, self.group).astype(np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            grouped *= self.scale[:, :, None]
            if self.offset is not None:
                grouped += self.offset[:, :, None]
        return grouped.reshape(n, k)

    def grouped(self, group: int) -> Parts:
        """The same weights in smaller groups, whose number of weights divides that of the large."""
        assert self.group % group == 0, (self.group, group)
        times = self.group // group
        offset = None if self.offset is None else np.repeat(self.offset, times, axis=1)
        return replace(self, scale=np.repeat(self.scale, times, axis=1), offset=offset, group=group)
