"""Scales that even out the channels of activations before they are rounded, taken only where the
layers that read them err less: by ranges (SmoothQuant: Xiao et al., 2022, arXiv:2211.10438) and,
for weights of few bits, by mean magnitudes (AWQ: Lin et al., 2023, arXiv:2306.00978).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from infuse import dtypes
from infuse.compression.gates import find_gates
from infuse.compression.layers import (
    Floats,
    Layer,
    along_depth,
    find_embeddings,
    find_layers,
    largest_of_channels,
    multiply,
)
from infuse.compression.methods import in_blocks_by_moments, why_no_blocks
from infuse.compression.moments import products_error
from infuse.compression.observation import Observations, Range, observe
from infuse.compression.ranges import scale_of
from infuse.compression.rescaling import Site, find_sites, rescaled
from infuse.compression.setting import MethodOptions, Plan, Setting
from infuse.compression.static import (
    StaticOptions,
    best_scale,
    nearest_weights,
    relative_error,
)
from infuse.compression.weights import round_to_nearest
from infuse.data.dataset import spread
from infuse.ir.graph import Array
from infuse.mapped import give_back
from infuse.options.methods import Int8, Int8Dynamic, Int16Activations, Method

RUNS = 32
"""Runs at most that scales are chosen on."""
LEAST_ROWS = 64
"""Rows of a layer from which scales are chosen."""
EVEN = 1.1
"""The largest magnitude of a channel over the median one's below which nothing is tried."""
GAIN = 0.95
"""The part of the error, on other rows, that scales leave at most where they are taken."""
POWERS = (0.25, 0.5, 0.75, 1.0)
"""Powers of the activations' magnitudes that are tried."""
LARGEST = 64.0
"""The largest scale over the middle one: rare channels are not blown up."""
WEIGHTS = 1 << 18
"""Weights of a layer that are rounded at most to tell its error, in whole columns."""
SAMPLE = 1 << 15
"""Elements of an activation that tell its range."""


@dataclass(frozen=True)
class Sampled:
    """What a layer of a site multiplies: rows [rows, groups, depth] that its rounding is fitted to,
    others that tell the error, and some columns of its weights.
    """

    layer: Layer
    fitted: Floats
    others: Floats
    matrices: Floats

    @classmethod
    def of(cls, layer: Layer, rows: Floats, matrices: Floats | None = None) -> Sampled:
        """The rows by turns, and as many columns as `WEIGHTS` allows, of the layer's matrices or of
        others in their place.
        """
        step = max(1, round(layer.weights.size / WEIGHTS))
        chosen = layer.matrices if matrices is None else matrices
        return cls(layer, rows[::2], rows[1::2], chosen[:, :, ::step])

    def divided(self, scales: Floats) -> Sampled:
        """The same with the channels of the rows divided by scales."""
        each = along_depth(self.layer, scales)
        matrices = self.matrices * each[:, :, None]
        return Sampled(self.layer, self.fitted / each, self.others / each, matrices)

    def seen_again(self) -> Sampled:
        """The same with the error told by the rows that the rounding is fitted to."""
        return replace(self, others=self.fitted)


Trial = Callable[[Sequence[Sampled]], float]
"""The error of the products of layers that read one activation; 0 where nothing is rounded."""


def _static(options: StaticOptions) -> Trial:
    def error(parts: Sequence[Sampled]) -> float:
        value = parts[0].layer.activation
        seen = Range()
        seen.add(parts[0].fitted, SAMPLE, np.random.default_rng(0))
        weights = {p.layer: nearest_weights(p.matrices, p.fitted, options) for p in parts}
        exact = {p.layer: multiply(p.fitted, p.matrices) for p in parts}
        rows = Observations({value: seen}, {p.layer: p.fitted for p in parts})
        _, scale = best_scale(value, weights, exact, rows, options)
        return sum(
            relative_error(
                multiply(scale.rounded(p.others), weights[p.layer].numbers),
                multiply(p.others, p.matrices),
            )
            for p in parts
        )

    return error


def _dynamic(parts: Sequence[Sampled]) -> float:
    if parts[0].layer.is_convolution:
        return 0.0
    rows = parts[0].others
    scale = scale_of(float(rows.min()), float(rows.max()), dtypes.uint8, symmetric=False)
    return sum(
        relative_error(
            multiply(scale.rounded(p.others), round_to_nearest(p.matrices).numbers),
            multiply(p.others, p.matrices),
        )
        for p in parts
    )


def _few(bits: int) -> Trial:
    def error(parts: Sequence[Sampled]) -> float:
        total = 0.0
        for part in parts:
            if why_no_blocks(part.layer):
                continue
            fitted, others = (_moments(rows) for rows in (part.fitted, part.others))
            matrix = part.matrices[0]
            weights = in_blocks_by_moments(matrix, fitted, bits)[1]
            total += products_error(weights.numbers, matrix, others)
        return total

    return error


def _moments(rows: Floats) -> Array:
    flat = rows[:, 0].astype(np.float64)
    result: Array = flat.T @ flat
    return result


@dataclass(frozen=True)
class Evening:
    """What a method rounds: how far its products are off, and whether by the largest or by the mean
    magnitudes of activations.
    """

    trial: Trial
    by_mean: bool = False


def evenings_of(methods: Sequence[Method]) -> list[Evening]:
    """Those of the methods that round."""
    return [each for method in methods if (each := _evening(method)) is not None]


def _evening(method: Method) -> Evening | None:
    static = MethodOptions.of(method).static
    if type(method) is Int8:
        return Evening(_static(static))
    if type(method) is Int16Activations:
        return Evening(_static(replace(static, activations=dtypes.uint16)))
    if isinstance(method, Int8Dynamic):
        return Evening(_dynamic)
    return None if method.bits is None else Evening(_few(method.bits), by_mean=True)


def equalize(setting: Setting, methods: Sequence[Method]) -> tuple[Setting, frozenset[int]]:
    """A setting whose graph computes the same, with scales of channels moved where that makes the
    errors of these methods less, by 5 % at least on rows that the scales were not chosen by;
    without data, nowhere. And the serial numbers of the layers that read what scales divide.
    """
    evenings = evenings_of(methods)
    sites = find_sites(setting.layers) if evenings and setting.runs else []
    if not sites or not setting.runs:
        return setting, frozenset()
    seen = observe(
        setting.graph,
        [layer for site in sites for layer in site.layers],
        (),
        spread(setting.runs, RUNS),
        threads=setting.threads,
        seed=setting.seed,
        progress=setting.progress,
    )
    scales: dict[Site, Floats] = {}
    for number, site in enumerate(sites):
        chosen = scales_of(site, {each: seen.rows[each] for each in site.layers}, evenings)
        if chosen is not None:
            scales[site] = chosen
        for layer in site.layers:
            give_back(layer.weights)
        if setting.progress is not None:
            setting.progress("equalize", number + 1, len(sites))
    if not scales:
        return setting, frozenset()
    graph = rescaled(setting.graph, scales, setting.scratch)
    serials = frozenset(layer.node.serial for site in scales for layer in site.layers)
    setting = replace(setting, graph=graph, layers=find_layers(graph), recurrent=find_gates(graph))
    return replace(setting, embeddings=find_embeddings(graph)), serials


def mark_layers(plans: Sequence[Plan], serials: Collection[int], change: str) -> None:
    """Tell of a change of these layers where plans tell how layers are rounded."""
    for plan in plans:
        for layer in plan.forms:
            if layer.node.serial in serials:
                how = plan.calibrators.get(layer)
                plan.calibrators[layer] = f"{how}, {change}" if how else change


def scales_of(
    site: Site, rows: Mapping[Layer, Floats], evenings: Sequence[Evening]
) -> Floats | None:
    """The scales [channels] with the least error on half of the rows, where the other half errs
    less with them, too; None where no scales are taken.
    """
    parts = [Sampled.of(layer, rows[layer]) for layer in site.layers]
    if not all(_is_fit(part, rows[part.layer]) for part in parts):
        return None
    same = [part.seen_again() for part in parts]
    before = [evening.trial(same) for evening in evenings]
    best, least = None, 1.0
    for scales in _offers(site, rows, any(e.by_mean for e in evenings)):
        trial = [part.divided(scales) for part in same]
        error = part_left(before, [evening.trial(trial) for evening in evenings])
        if error < least:
            best, least = scales, error
    if best is None or least > GAIN:
        return None
    exact = [evening.trial(parts) for evening in evenings]
    trial = [part.divided(best) for part in parts]
    return best if part_left(exact, [e.trial(trial) for e in evenings]) <= GAIN else None


def _is_fit(part: Sampled, rows: Floats) -> bool:
    is_finite = part.layer.is_finite and bool(np.isfinite(rows).all())
    return len(rows) >= LEAST_ROWS and is_finite


def part_left(before: Sequence[float], after: Sequence[float]) -> float:
    """The mean part of the errors of methods that is left; 1 where there are none."""
    parts = [new / old for old, new in zip(before, after) if old > 0]
    return float(np.mean(parts)) if parts else 1.0


def _offers(site: Site, rows: Mapping[Layer, Floats], by_mean: bool) -> list[Floats]:
    """Scales that are tried: powers of the magnitudes of activations, alone and over the other
    part of those of the weights.
    """
    reduced = [
        largest_of_channels(layer, np.abs(rows[layer]).mean(0) if by_mean else _peaks(rows[layer]))
        for layer in site.layers
    ]
    activations = np.max(reduced, axis=0)
    weights = np.max(
        [largest_of_channels(each, np.abs(each.matrices).max(2)) for each in site.layers], axis=0
    )
    is_alive = (activations > 0) & (weights > 0)
    if not is_alive.any() or activations.max() < EVEN * np.median(activations[is_alive]):
        return []
    a, w = (np.where(is_alive, each, 1).astype(np.float64) for each in (activations, weights))
    offers = [a**power for power in POWERS]
    offers += [a**power * w ** (power - 1) for power in POWERS[:-1]]
    return [_about_one(offer, is_alive) for offer in offers]


def _peaks(rows: Floats) -> Floats:
    return np.asarray(np.abs(rows).max(0))


def _about_one(scales: Array, is_alive: Array) -> Floats:
    """Scales over their middle one, within limits; 1 for channels that are always zero."""
    relative = np.clip(scales / np.median(scales[is_alive]), 1 / LARGEST, LARGEST)
    return np.asarray(np.where(is_alive, relative, 1), np.float32)
