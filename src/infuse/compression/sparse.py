"""Sparse weights: which weights of a layer become zero, in a pattern that kernels leave out.

What is lost by leaving a weight out is estimated by its square, times the mean square of what it
multiplies where data tell that (Wanda: Sun et al., 2023, arXiv:2306.11695), or over the diagonal of
the inverse second moments (Optimal Brain Surgeon, as SparseGPT has it: Frantar and Alistarh, 2023,
arXiv:2301.00774). The weights that are left may make up for those that are not: with the pattern
fixed, the least squares of the products are solved exactly, for columns with equal patterns at
once. Of these the one with the least error of the products is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from infuse.compression.layers import Floats, Layer
from infuse.compression.moments import damped, products_error
from infuse.compression.static import relative_error
from infuse.errors import OptionError
from infuse.ir.graph import Array, Graph, Node, constant

MOST_SOLVING = 2e11
"""Operations that solving may take for one layer; beyond, weights do not make up for others."""
MOST_DEPTH = 2048
"""Rows of second moments that are inverted at most, which tells the second order of a loss."""
FITTED = 0.75
"""The part of sampled rows that weights are fitted to; the others tell the error."""


@dataclass(frozen=True)
class Pattern:
    """Where zeros lie together: blocks of `columns` output channels and `rows` along the depth, or,
    with `of`, `rows` of every `of` weights along the depth of one channel stay.
    """

    columns: int
    rows: int = 1
    of: int = 0

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """A pattern like 16x1 (channels × depth), 1x1, or 2:4. OptionError for other texts."""
        block, few = re.fullmatch(r"(\d+)x(\d+)", text), re.fullmatch(r"(\d+):(\d+)", text)
        if block:
            pattern = cls(int(block[1]), int(block[2]))
            if pattern.columns > 0 and pattern.rows > 0:
                return pattern
        if few and 0 < int(few[1]) < int(few[2]):
            return cls(1, int(few[1]), int(few[2]))
        raise OptionError(
            f"{text!r} is not a pattern of zeros",
            hint="give a block (output channels x depth) like 16x1, 16x4, 4x1 or 1x1, or 2:4",
        )

    def mask(self, scores: Array, sparsity: float) -> Array:
        """Which weights [depth, columns] stay: those with the largest sums of scores in each block.
        The last block of an axis may be smaller.
        """
        depth, columns = scores.shape
        if self.of:
            return self._of_each(scores)
        sums = np.add.reduceat(scores, np.arange(0, depth, self.rows), axis=0)
        sums = np.add.reduceat(sums, np.arange(0, columns, self.columns), axis=1)
        count = sums.size - round(sums.size * sparsity)
        stays = np.zeros(sums.size, bool)
        stays[np.argsort(-sums, axis=None, kind="stable")[:count]] = True
        whole = stays.reshape(sums.shape).repeat(self.rows, axis=0).repeat(self.columns, axis=1)
        return np.asarray(whole[:depth, :columns])

    def _of_each(self, scores: Array) -> Array:
        depth, columns = scores.shape
        groups = -(-depth // self.of)
        whole = np.full((groups * self.of, columns), -np.inf)
        whole[:depth] = scores
        apart = whole.reshape(groups, self.of, columns)
        order = np.argsort(np.argsort(-apart, axis=1, kind="stable"), axis=1, kind="stable")
        return np.asarray((order < self.rows).reshape(-1, columns)[:depth])


@dataclass(frozen=True)
class SparseOptions:
    """How many weights of a layer become zero, and where. `block` is a pattern, or `auto`: 16x1,
    and 16x4 where weights become integers.
    """

    sparsity: float = 0.8
    block: str = "auto"

    def __post_init__(self) -> None:
        if not 0 < self.sparsity < 1:
            raise OptionError(
                f"{self.sparsity:g} is not a part of weights that can be zero",
                hint="give a part between 0 and 1, or 0% and 100%",
            )
        if self.block != "auto":
            pattern = Pattern.parse(self.block)
            if pattern.of and abs(1 - pattern.rows / pattern.of - self.sparsity) > 1e-6:
                raise OptionError(
                    f"{self.block} makes {1 - pattern.rows / pattern.of:.0%} of the weights zero, "
                    f"not {self.sparsity:.0%}",
                    hint="give that part, or a block like 16x1",
                )

    def pattern(self, has_integers: bool) -> Pattern:
        """The pattern of zeros."""
        default = "16x4" if has_integers else "16x1"
        return Pattern.parse(default if self.block == "auto" else self.block)

    @classmethod
    def parse(cls, sparsity: str | None, block: str | None) -> SparseOptions:
        """From texts like 80% or 0.8, and 16x1. OptionError where they mean nothing."""
        part = cls.sparsity if sparsity is None else _part(sparsity)
        return cls(part, cls.block if block is None else block)


def _part(text: str) -> float:
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        return float(number) / (100 if percent else 1)
    except ValueError as error:
        raise OptionError(f"{text!r} is not a part of weights", hint="give 80% or 0.8") from error


@dataclass(frozen=True, eq=False)
class SparseForm:
    """A layer in float32 many of whose weights [groups, depth, columns] are zero."""

    matrices: Floats
    name: str
    activation: None = None

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        node.set_operand(1, constant(layer.in_layout(self.matrices)))


@dataclass(frozen=True, eq=False)
class Sparsified:
    """The weights [groups, depth, columns] of a layer, how they were chosen, and the power of the
    error of its products over that of its products (of the weights where no data tell it).
    """

    matrices: Floats
    how: str
    error: float


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments [depth, depth] of what a layer multiplies: those that weights are fitted to,
    and those that tell the error.
    """

    fitted: Array
    telling: Array

    @classmethod
    def of_rows(cls, rows: Floats) -> Moments | None:
        """Those of sampled rows [rows, depth]; None where there are too few of them."""
        if len(rows) < 8 or not np.isfinite(rows).all():
            return None
        wide = np.random.default_rng(0).permutation(rows.astype(np.float64))
        parts = np.split(wide, [int(FITTED * len(wide))])
        return cls(*(part.T @ part / len(part) for part in parts))


def why_not_sparse(layer: Layer, pattern: Pattern) -> str:
    """Why weights of a layer stay as they are; nothing where they need not."""
    groups, depth, columns = layer.sizes
    if not layer.is_finite:
        return "its weights are not finite"
    if layer.kind == "ConvTranspose":
        return "transposed convolutions have no kernels for sparse weights"
    if groups > 1:
        return "convolutions in groups have no kernels for sparse weights"
    if columns < pattern.columns or depth < max(pattern.rows, pattern.of):
        return f"it has fewer weights ({depth} × {columns}) than a block"
    return ""


def sparsified(
    layer: Layer, pattern: Pattern, sparsity: float, moments: Moments | None
) -> Sparsified:
    """The weights of a layer, so many of which are zero, with the least error of its products."""
    order = _by_taps(layer)
    matrices = layer.matrices
    matrix = matrices[0][order].astype(np.float64)
    inner = None
    if moments is not None:
        inner = Moments(*(m[np.ix_(order, order)] for m in (moments.fitted, moments.telling)))
    offers = _offers(matrix, pattern, sparsity, inner)
    errors = {
        name: relative_error(offer, matrix)
        if inner is None
        else products_error(offer, matrix, inner.telling)
        for name, offer in offers.items()
    }
    best = min(errors, key=errors.__getitem__)
    result = np.empty_like(matrices)
    result[0][order] = offers[best]
    return Sparsified(result, best, errors[best])


def _by_taps(layer: Layer) -> Array:
    """The places along the depth, channels of one tap of a window side by side, as kernels have
    them.
    """
    places = np.arange(layer.depth)
    if layer.kind != "Conv":
        return places
    return np.asarray(places.reshape(layer.weights.shape[1], -1).T.reshape(-1))


def _offers(
    matrix: Array, pattern: Pattern, sparsity: float, moments: Moments | None
) -> Mapping[str, Array]:
    """Sparse matrices by how they were made."""
    plain = pattern.mask(matrix**2, sparsity)
    offers = {"magnitude": matrix * plain}
    if moments is None or not np.diag(moments.fitted).any():
        return offers
    masks = {"Wanda": pattern.mask(matrix**2 * np.diag(moments.fitted)[:, None], sparsity)}
    offers["Wanda"] = matrix * masks["Wanda"]
    invertible = damped(moments.fitted)
    if len(matrix) <= MOST_DEPTH:
        saliency = matrix**2 / np.diag(np.linalg.inv(invertible))[:, None]
        masks["second order"] = pattern.mask(saliency, sparsity)
    for name, mask in masks.items():
        if _operations(mask, pattern) <= MOST_SOLVING:
            offers[f"{name}, fitted"] = _fitted(matrix, mask, invertible, pattern)
    return offers


def _operations(mask: Array, pattern: Pattern) -> float:
    counts = mask[:, :: pattern.columns].sum(0, dtype=np.float64)
    return float((counts**3 / 3 + 2 * counts**2 * pattern.columns).sum())


def _fitted(matrix: Array, mask: Array, moments: Array, pattern: Pattern) -> Array:
    """The matrix with zeros where the mask has them, the other weights those with the least squared
    error of the products: the solution of H_SS · w_S = H_S · W for the rows S that stay.
    """
    result: Array = np.zeros_like(matrix)
    goals = moments @ matrix
    for start in range(0, matrix.shape[1], pattern.columns):
        stays = np.flatnonzero(mask[:, start])
        if len(stays):
            columns = slice(start, start + pattern.columns)
            inner = moments[np.ix_(stays, stays)]
            result[stays, columns] = np.linalg.solve(inner, goals[stays, columns])
    return result
