"""The formats in which GGUF files have numbers: plain types, and blocks of weights that share
scales.

Sources: docs/gguf.md of ggml-org/ggml, the comments on the structures of its ggml-common.h, and
OCP's Microscaling Formats 1.0. A block's weight is scale · quant + offset in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from infuse.errors import TypeMismatchError, UnsupportedOperatorError
from infuse.immutable import Immutable
from infuse.ops.core import weight_blocks as blocks
from infuse.ops.core.weight_blocks import Bytes, Parts

_AT_ONCE: Final = 1 << 20
"""Weights that are dequantized together, so that what is between stays in the cache."""


class BlockFormat(Immutable, eq=False):
    """A format: its number in files, the weights and bytes of a block, and how it is read.

    `plain` is the element type of a format without blocks, `unpacked` reads blocks; a format with
    neither is named, and cannot be read.
    """

    name: str
    id: int
    weights: int
    bytes: int
    plain: np.dtype[Any] | None = None
    unpacked: Callable[[Bytes], Parts] | None = None

    def elements(self, rows: Bytes) -> npt.NDArray[Any]:
        """Plain elements in place, or weights in float32: (n, bytes) → (n, k)."""
        self.require()
        return rows.view(self.plain) if self.plain is not None else self.dequantize(rows)

    def dequantize(self, rows: Bytes) -> npt.NDArray[np.float32]:
        """Weights in float32, as the format defines them: (n, bytes) → (n, k)."""
        self.require()
        if self.plain is not None:
            with np.errstate(over="ignore"):
                return rows.view(self.plain).astype(np.float32)
        count = rows.shape[1] // self.bytes
        result = np.empty((len(rows), count * self.weights), np.float32)
        step = max(_AT_ONCE // max(result.shape[1], 1), 1)
        for start in range(0, len(rows) if count else 0, step):
            part = self._parts(rows[start : start + step])
            result[start : start + step] = part.weights().reshape(-1, result.shape[1])
        return result

    def parts(self, rows: Bytes) -> Parts:
        """The common form of blocks, for kernels: (n, bytes) → quants (n, k), scales and offsets
        (n, k / group). TypeMismatchError for a format without blocks.
        """
        self.require()
        if self.plain is not None:
            raise TypeMismatchError(f"{self.name} has no blocks", hint="read its elements")
        part, n = self._parts(rows), len(rows)
        k = rows.shape[1] // self.bytes * self.weights
        scale, offset = part.scale.reshape(n, k // part.group), part.offset
        offset = None if offset is None else offset.reshape(scale.shape)
        return Parts(part.quants.reshape(n, k), scale, offset, part.group)

    def require(self) -> None:
        """UnsupportedOperatorError where the format cannot be read."""
        if self.plain is None and self.unpacked is None:
            raise UnsupportedOperatorError(
                f"weights in the format {self.name} are not supported",
                hint=f"quantize the model to one of {', '.join(SUPPORTED)}",
            )

    def _parts(self, rows: Bytes) -> Parts:
        assert self.unpacked is not None
        with np.errstate(invalid="ignore", over="ignore"):
            return self.unpacked(np.ascontiguousarray(rows).reshape(-1, self.bytes))


def _plain(name: str, number: int, dtype: Any) -> BlockFormat:
    return BlockFormat(name, number, 1, np.dtype(dtype).itemsize, np.dtype(dtype))


_ALL: Final = (
    _plain("F32", 0, "<f4"),
    _plain("F16", 1, "<f2"),
    BlockFormat("Q4_0", 2, 32, 18, unpacked=blocks.q4_0),
    BlockFormat("Q4_1", 3, 32, 20, unpacked=blocks.q4_1),
    BlockFormat("Q5_0", 6, 32, 22, unpacked=blocks.q5_0),
    BlockFormat("Q5_1", 7, 32, 24, unpacked=blocks.q5_1),
    BlockFormat("Q8_0", 8, 32, 34, unpacked=blocks.q8_0),
    BlockFormat("Q8_1", 9, 32, 40),
    BlockFormat("Q2_K", 10, 256, 84, unpacked=blocks.q2_k),
    BlockFormat("Q3_K", 11, 256, 110, unpacked=blocks.q3_k),
    BlockFormat("Q4_K", 12, 256, 144, unpacked=blocks.q4_k),
    BlockFormat("Q5_K", 13, 256, 176, unpacked=blocks.q5_k),
    BlockFormat("Q6_K", 14, 256, 210, unpacked=blocks.q6_k),
    BlockFormat("Q8_K", 15, 256, 292),
    BlockFormat("IQ2_XXS", 16, 256, 66),
    BlockFormat("IQ2_XS", 17, 256, 74),
    BlockFormat("IQ3_XXS", 18, 256, 98),
    BlockFormat("IQ1_S", 19, 256, 50),
    BlockFormat("IQ4_NL", 20, 32, 18, unpacked=blocks.iq4_nl),
    BlockFormat("IQ3_S", 21, 256, 110),
    BlockFormat("IQ2_S", 22, 256, 82),
    BlockFormat("IQ4_XS", 23, 256, 136, unpacked=blocks.iq4_xs),
    _plain("I8", 24, "<i1"),
    _plain("I16", 25, "<i2"),
    _plain("I32", 26, "<i4"),
    _plain("I64", 27, "<i8"),
    _plain("F64", 28, "<f8"),
    BlockFormat("IQ1_M", 29, 256, 56),
    _plain("BF16", 30, ml_dtypes.bfloat16),
    BlockFormat("TQ1_0", 34, 256, 54),
    BlockFormat("TQ2_0", 35, 256, 66),
    BlockFormat("MXFP4", 39, 32, 17, unpacked=blocks.mxfp4),
    BlockFormat("NVFP4", 40, 64, 36),
    BlockFormat("Q1_0", 41, 128, 18),
)
FORMATS: Final[Mapping[str, BlockFormat]] = {each.name: each for each in _ALL}
"""By name."""
SUPPORTED: Final = tuple(f.name for f in _ALL if f.unpacked is not None or f.plain is not None)
_BY_NUMBER: Final = {each.id: each for each in _ALL}
_REMOVED: Final = {
    4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}  # fmt: skip
"""Formats that were in files once."""


def format_of(number: int) -> BlockFormat:
    """The format of a number in a file; UnsupportedOperatorError for an unknown one."""
    block = _BY_NUMBER.get(number)
    if block is None:
        name = f" ({_REMOVED[number]}, which was given up)" if number in _REMOVED else ""
        raise UnsupportedOperatorError(
            f"its format is number {number}{name}, which is not known",
            hint=f"quantize the model to one of {', '.join(SUPPORTED)}",
        )
    return block
