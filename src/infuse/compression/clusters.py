"""Weight clustering: float32 weights of few values, which entropy coding stores in few bits.

The values of a tensor begin as an even grid whose step gives the entropy that is asked for, which
at a bounded entropy errs less than as many values by k-means; then each is the mean of its cluster,
weighed by how large the operands are, and a weight goes to the value with the least squared error
plus the price of its code (entropy-constrained quantization: Chou, Lookabaugh and Gray, 1989).
Where data tell the second moments of the operands, rows are rounded one after another, and each
one's error is made up for by those still to come, as in GPTQ; the mean of what is lost goes into
the bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infuse.compression.forms import bias_of, takes_bias
from infuse.compression.gptq import CHUNK, inverse_factors
from infuse.compression.layers import Floats, Layer
from infuse.compression.moments import products_error
from infuse.compression.observation import Observations
from infuse.compression.static import relative_error
from infuse.ir.graph import Array, Graph, Node, constant

MOST_VALUES = 256
"""Values of a tensor at most, as coded weights have them."""
SAMPLE = 1 << 16
"""Weights at most by which the step of a grid is chosen."""
PRICE = np.log(2) / 6
"""The price of a bit in squares of the step: what it saves of the error on a fine even grid."""
ROUNDS = 3
HALVINGS = 24
FITTED = 0.75
"""The part of sampled rows that weights are fitted to; the others tell the error."""
FEWEST_ROWS = 8
LEAST_SPREAD = 1e-3
"""The least variance of operands, as a part of their power, that float32 sums tell."""


@dataclass(frozen=True, eq=False)
class Codebook:
    """The values of a tensor in order, and the bounds between them: each weight goes to the value
    of its interval.
    """

    values: Array
    bounds: Array

    def nearest(self, weights: Array) -> Array:
        """The values that weights go to."""
        result: Array = self.values[np.searchsorted(self.bounds, weights)]
        return result


def codebook(weights: Array, bits: float, importance: Array | None = None) -> Codebook:
    """The values for finite weights whose entropy is about `bits` or less, at most `MOST_VALUES`;
    `importance`, of the same shape, weighs their squared errors.
    """
    flat = weights.reshape(-1).astype(np.float64)
    weigh = np.ones(flat.size) if importance is None else importance.reshape(-1).astype(np.float64)
    step = _step(flat, bits)
    levels, places = np.unique(np.rint(flat / step), return_inverse=True)
    values = _means(flat, weigh, places, levels * step)
    bounds = (values[1:] + values[:-1]) / 2
    for _ in range(ROUNDS):
        counts = np.bincount(places, minlength=len(values))
        used = counts > 0
        values, lengths = values[used], -np.log2(counts[used] / flat.size)
        bounds = _bounds(values, lengths, PRICE * step**2)
        places = np.searchsorted(bounds, flat)
        values = _means(flat, weigh, places, values)
    return Codebook(values, bounds)


def _step(flat: Array, bits: float) -> float:
    """The step of an even grid on which the entropy of weights is about `bits`."""
    sample = flat[:: -(-flat.size // SAMPLE)]
    largest = float(np.abs(flat).max())
    if largest == 0:
        return 1.0
    fine, coarse = largest * 2.0**-20, 4 * largest
    for _ in range(HALVINGS):
        middle = float(np.sqrt(fine * coarse))
        counts = np.unique(np.rint(sample / middle), return_counts=True)[1]
        share = counts / sample.size
        if len(counts) > MOST_VALUES or -float(share @ np.log2(share)) > bits:
            fine = middle
        else:
            coarse = middle
    while len(np.unique(np.rint(flat / coarse))) > MOST_VALUES:
        coarse *= 1.1
    return coarse


def _means(flat: Array, weigh: Array, places: Array, values: Array) -> Array:
    """The weighed means of clusters; the values where a cluster weighs nothing."""
    total = np.bincount(places, weigh, len(values))
    sums = np.bincount(places, weigh * flat, len(values))
    means: Array = np.where(total > 0, sums / np.where(total > 0, total, 1), values)
    return np.maximum.accumulate(means)


def _bounds(values: Array, lengths: Array, price: float) -> Array:
    """Where the squared error plus the price of the code is the same for neighbours."""
    gaps = np.maximum(np.diff(values), 1e-300)
    bounds = (values[1:] + values[:-1]) / 2 + price * np.diff(lengths) / (2 * gaps)
    return np.maximum.accumulate(np.clip(bounds, values[:-1], values[1:]))


@dataclass(frozen=True, eq=False)
class Operands:
    """What a layer multiplies: by group the second moments [groups, depth, depth] that weights are
    fitted to, those that tell the error, and means [groups, depth] where these go into the bias,
    about which the moments are then.
    """

    fitted: Array
    telling: Array
    means: Array | None

    @classmethod
    def of(cls, layer: Layer, seen: Observations) -> Operands | None:
        """As far as data tell; None where they do not."""
        in_bias = takes_bias(layer)
        moments = seen.second_moments(layer)
        if moments is not None:
            mean = (seen.sums[layer] / seen.counts[layer])[None]
            about = _about(moments[None], mean) if in_bias else moments[None]
            parts = [about, about]
        else:
            rows = seen.rows[layer].astype(np.float64)
            if len(rows) < FEWEST_ROWS or not np.isfinite(rows).all():
                return None
            mean = rows.mean(0)
            if in_bias:
                rows -= mean
            rows = rows[np.random.default_rng(0).permutation(len(rows))].transpose(1, 0, 2)
            split = np.split(rows, [int(FITTED * rows.shape[1])], axis=1)
            parts = [each.transpose(0, 2, 1) @ each / each.shape[1] for each in split]
        if not np.einsum("gii->gi", parts[0]).any():
            return None
        return cls(parts[0], parts[1], mean if in_bias else None)


def _about(moments: Array, means: Array) -> Array:
    """Second moments about the means; about zero where their float32 sums do not tell these."""
    result: Array = moments - means[:, :, None] * means[:, None, :]
    spread, power = np.trace(result[0]), np.trace(moments[0])
    return result if spread > LEAST_SPREAD * power else moments


@dataclass(frozen=True, eq=False)
class Clustered:
    """The weights [groups, depth, columns] of a layer, what is added to its output channels (None:
    nothing), how they were chosen, and the power of the error of its products over that of its
    products (of the weights where no data tell it).
    """

    matrices: Floats
    correction: Array | None
    how: str
    error: float


class Clustering:
    """The clusters of a layer for any number of bits."""

    def __init__(self, layer: Layer, operands: Operands | None) -> None:
        self._matrices, self._operands = layer.matrices, operands
        if operands is None:
            return
        diagonal = np.maximum(np.einsum("gii->gi", operands.fitted), 0.0)
        self._importance = np.broadcast_to(diagonal[:, :, None], self._matrices.shape)
        self._order = np.argsort(-diagonal, axis=1, kind="stable")
        turned = np.take_along_axis(operands.fitted, self._order[:, :, None], axis=1)
        self._factors = inverse_factors(np.take_along_axis(turned, self._order[:, None, :], axis=2))

    def of_bits(self, bits: float) -> Clustered:
        """Weights whose values have an entropy of about `bits`."""
        exact = self._matrices
        if self._operands is None:
            book = codebook(exact, bits)
            matrices = np.asarray(book.nearest(exact), np.float32)
            return Clustered(matrices, None, "nearest", relative_error(matrices, exact))
        book = codebook(exact, bits, self._importance)
        offers = {"nearest": book.nearest(exact), "error feedback": self._with_feedback(book)}
        errors = {name: self._error(each) for name, each in offers.items()}
        best = min(errors, key=errors.__getitem__)
        matrices = np.asarray(offers[best], np.float32)
        return Clustered(matrices, self._correction(matrices), best, errors[best])

    def _error(self, matrices: Array) -> float:
        assert self._operands is not None
        noise = [
            products_error(one, exact, moments)
            for one, exact, moments in zip(matrices, self._matrices, self._operands.telling)
        ]
        return float(np.mean(noise))

    def _correction(self, matrices: Floats) -> Array | None:
        assert self._operands is not None
        means = self._operands.means
        if means is None:
            return None
        lost = self._matrices.astype(np.float64) - matrices
        return np.asarray(np.einsum("gd,gdc->gc", means, lost).reshape(-1), np.float32)

    def _with_feedback(self, book: Codebook) -> Array:
        """Rows in the order of their importance, each one's error made up for by those behind."""
        factors, order = self._factors, self._order[:, :, None]
        left = np.take_along_axis(self._matrices, order, axis=1).astype(np.float64)
        chosen = np.empty_like(left)
        depth = left.shape[1]
        for start in range(0, depth, CHUNK):
            end = min(start + CHUNK, depth)
            errors = np.zeros((len(left), end - start, left.shape[2]))
            for row in range(start, end):
                chosen[:, row] = book.nearest(left[:, row])
                error = (left[:, row] - chosen[:, row]) / factors[:, row, row, None]
                left[:, row + 1 : end] -= factors[:, row, row + 1 : end, None] * error[:, None]
                errors[:, row - start] = error
            left[:, end:] -= factors[:, start:end, end:].transpose(0, 2, 1) @ errors
        result = np.empty_like(chosen)
        np.put_along_axis(result, order, chosen, axis=1)
        return result


@dataclass(frozen=True, eq=False)
class ClusteredForm:
    """A layer in float32 whose weights, in the layout of the operator, have few values."""

    weights: Array
    bits: float
    correction: Array | None = None
    activation: None = None

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"clusters of {self.bits:g} bits"

    def write(self, graph: Graph, node: Node, layer: Layer) -> None:
        node.set_operand(0 if layer.is_embedding else 1, constant(self.weights))
        if self.correction is not None:
            bias = bias_of(layer)
            total = self.correction if bias is None else bias + self.correction
            node.set_inputs([*node.inputs[:2], constant(np.asarray(total, np.float32))])
