"""Products with constant matrices most of whose blocks are zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from infuse import dtypes
from infuse.ir.dims import Dim
from infuse.ir.graph import Array
from infuse.lowering.choice import Choice
from infuse.lowering.lowering import Lowering
from infuse.lowering.tensors import Tensor
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.families.gemm import GemmSizes
from infuse.targets.cpu.families.integers import Layout
from infuse.targets.cpu.families.sparse import (
    MOST_FILLED,
    MOST_ROWS,
    SparseSizes,
    blocks_of,
    filled_mask,
    places_of,
    starts_of,
)

FORMS = "dense", "blocks"
_PART = 1 << 16
MatrixOf = Callable[[Array], Array]
"""Makes the matrix [k, n] that rows are multiplied by of a constant."""


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A constant, seen as a matrix [k, n] with `filled` blocks of `group` rows that are not zero.
    `how` names what `matrix_of` does.
    """

    constant: Array
    how: tuple[object, ...]
    matrix_of: MatrixOf
    group: int
    filled: int

    @property
    def family(self) -> str:
        """The family of kernels that has the choice."""
        return "sparse" if self.group == 1 else "sparse_integer"

    def parts(self, low: Lowering) -> tuple[Tensor, Tensor, Tensor]:
        """The starts, places and blocks in the weight file (`pack_filled`)."""
        lanes, group, matrix_of = low.lanes, self.group, self.matrix_of
        _, n = matrix_of(self.constant).shape
        how = ("sparse", *self.how, lanes, group)

        def mask(array: Array) -> Array:
            return filled_mask(matrix_of(array), lanes, group)

        packed = low.program.packed
        return (
            packed(
                self.constant,
                (*how, "starts"),
                -(-n // lanes) + 1,
                lambda a: starts_of(mask(a)),
                dtypes.int32,
            ),
            packed(
                self.constant,
                (*how, "places"),
                self.filled,
                lambda a: places_of(mask(a)),
                dtypes.uint16,
            ),
            packed(
                self.constant,
                (*how, "blocks"),
                self.filled * lanes * group,
                lambda a: blocks_of(matrix_of(a), mask(a), lanes, group),
                dtypes.by_numpy(self.constant.dtype),
            ),
        )


def _sparse(
    low: Lowering, constant: Array, how: tuple[object, ...], matrix_of: MatrixOf, group: int = 1
) -> SparseMatrix | None:
    """A constant as a matrix in blocks, where so many of them are zero that a product may gain."""
    if _has_more(constant, MOST_FILLED * constant.size):
        return None
    mask = filled_mask(matrix_of(constant), low.lanes, group)
    filled = int(np.count_nonzero(mask))
    if filled > MOST_FILLED * mask.size or mask.shape[1] > MOST_ROWS:
        return None
    return SparseMatrix(constant, how, matrix_of, group, filled)


def _has_more(constant: Array, count: float) -> bool:
    """Whether more than `count` elements are not zero; a dense constant is not read to its end."""
    nonzero, elements = 0, constant.reshape(-1)
    for start in range(0, elements.size, _PART):
        nonzero += int(np.count_nonzero(elements[start : start + _PART] != 0))
        if nonzero > count:
            return True
    return False


def sparse_floats(
    low: Lowering, constant: Array | None, how: tuple[object, ...], matrix_of: MatrixOf
) -> SparseMatrix | None:
    """A constant of floats as a matrix in blocks, where so many of them are zero that a product may
    gain, and the precision keeps floats as they are.
    """
    if constant is None or constant.dtype != np.float32 or low.precision != "fp32":
        return None
    return _sparse(low, constant, how, matrix_of)


def sparse_integers(low: Lowering, matrix: Array, layout: Layout) -> SparseMatrix | None:
    """The same of integers without their zero points, a matrix [k, n]."""
    narrow = matrix.astype(layout.dtype.numpy)
    return _sparse(low, narrow, ("integers",), np.asarray, layout.group)


def faster_blocks(
    low: Lowering, sizes: Sequence[Dim], sparse: SparseMatrix | None
) -> SparseMatrix | None:
    """The matrix, where a product of these sizes (rows, columns, and depth in rows of a block) is
    faster without its zero blocks.
    """
    if sparse is None:
        return None
    chosen = low.choose(sparse.family, (*sizes, sparse.filled), *FORMS)
    return sparse if chosen == "blocks" else None


def picks_blocks(low: Lowering, sizes: Sequence[Dim], sparse: SparseMatrix) -> Choice:
    """The same choice before anything is lowered, which no step remembers."""
    chooser = low.chooser.of(low.precision)
    return chooser.choose(sparse.family, (*sizes, sparse.filled), FORMS)


def call_sparse_gemm(
    low: Lowering,
    f: FunctionWriter,
    sizes: GemmSizes,
    left: Tensor,
    sparse: SparseMatrix,
    sink: str,
) -> None:
    """Write the call of the kernel that multiplies rows by blocks."""
    own = SparseSizes(*sizes, sparse.filled)
    f.include("sparse.hpp")
    f.scratch("sparse_gemm_scratch", "sparse.hpp", own)
    parts = (f.read(part) for part in sparse.parts(low))
    f.call("sparse_gemm", f.sizes(own), f.read(left), *parts, sink)
