"""Blocks of pixels moved to channels and back."""

from __future__ import annotations

from infuse.errors import ShapeError, UnsupportedOperatorError
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.ir.types import Shape as Sizes, TensorType
from infuse.ops.core.base import Array, Inferred, Op
from infuse.ops.core.samples import cases
from infuse.ops.core.sizes import (
    fresh_tensor,
    whole_parts,
)
from infuse.ops.core.traits import Trait


class BlockMove(Op, abstract=True):
    """Moves blocks of pixels between the channels and the plane; `mode` tells which part of the
    channel index is the
    block: DCR the leading part, CRD the trailing one.
    """

    blocksize: int
    mode: str = "DCR"

    def _check(self, input: Value) -> Sizes | None:
        if self.blocksize < 1:
            raise ShapeError(f"blocksize {self.blocksize} of {self.name} is not positive")
        if self.mode not in ("DCR", "CRD"):
            raise UnsupportedOperatorError(
                f"mode {self.mode!r} of {self.name} is neither DCR nor CRD"
            )
        shape = input.tensor.shape
        if shape is not None and len(shape) != 4:
            raise ShapeError(f"{self.name} needs an input of rank 4, found {input.type}")
        return shape

    def _divided(self, dim: Dim, by: int) -> Dim:
        return whole_parts(dim, by, f"a size of the input of {self.name}")


class DepthToSpace(BlockMove):
    """Channels rearranged into blocks of the plane."""

    traits = Trait.MOVEMENT
    since = 11
    samples = cases(input=[(2, 12, 2, 3), (1, 8, 1, 1)], blocksize=[2], mode=["DCR", "CRD"])

    def infer(self, input: Value) -> Inferred:
        shape, b = self._check(input), self.blocksize
        if shape is None:
            return fresh_tensor(input.dtype, 4, "space")
        n, c, h, w = shape
        return TensorType(input.dtype, (n, self._divided(c, b * b), h * b, w * b))

    def eval(self, input: Array) -> Array:
        b = self.blocksize
        n, c, h, w = input.shape
        out = c // (b * b)
        if self.mode == "DCR":
            planes = input.reshape(n, b, b, out, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            planes = input.reshape(n, out, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        result: Array = planes.reshape(n, out, h * b, w * b)
        return result


class SpaceToDepth(BlockMove):
    """Blocks of the plane rearranged into channels."""

    traits = Trait.MOVEMENT
    since = 28
    samples = cases(input=[(2, 3, 4, 6), (1, 1, 2, 2)], blocksize=[2], mode=["DCR", "CRD"])

    def infer(self, input: Value) -> Inferred:
        shape, b = self._check(input), self.blocksize
        if shape is None:
            return fresh_tensor(input.dtype, 4, "depth")
        n, c, h, w = shape
        return TensorType(input.dtype, (n, c * (b * b), self._divided(h, b), self._divided(w, b)))

    def eval(self, input: Array) -> Array:
        (n, c, h, w), b = input.shape, self.blocksize
        blocks = input.reshape(n, c, h // b, b, w // b, b)
        order = (0, 3, 5, 1, 2, 4) if self.mode == "DCR" else (0, 1, 3, 5, 2, 4)
        result: Array = blocks.transpose(order).reshape(n, c * b * b, h // b, w // b)
        return result
