"""Rotations of channels before layers are rounded, kept where the layers err less for it: large
elements of single channels are spread over all of them (QuaRot: Ashkboos et al., 2024,
arXiv:2404.00456; SliceGPT: Ashkboos et al., 2024, arXiv:2401.15024).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from infuse.compression.bases import Basis, find_bases
from infuse.compression.bases_walk import Fold
from infuse.compression.equalization import (
    GAIN,
    LEAST_ROWS,
    RUNS,
    Evening,
    Sampled,
    evenings_of,
    part_left,
)
from infuse.compression.gates import find_gates
from infuse.compression.layers import Floats, Layer, find_embeddings, find_layers
from infuse.compression.observation import observe
from infuse.compression.orthogonal import rotation
from infuse.compression.setting import Setting
from infuse.compression.turning import turned, turned_constant, turned_rows
from infuse.data.dataset import spread
from infuse.ir.graph import Array, Node, Value
from infuse.mapped import give_back
from infuse.options.methods import Method

"""Methods that round activations. Weights alone err more once they are turned: those in blocks of
a small GPT 1.3 to 1.9 times as much.
"""
TRIED = 16
"""Layers of a basis at most that tell whether a rotation is kept, evenly along it."""


@dataclass(frozen=True)
class Rotations:
    """What was rotated: the serial numbers of the layers that write or read it, and what to say."""

    serials: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


def rotate(setting: Setting, methods: Sequence[Method]) -> tuple[Setting, Rotations]:
    """A setting whose graph computes the same, with channels rotated where that makes the errors of
    these methods less, by 5 % at least; nowhere without data, where none of the methods rounds
    activations, or where one makes anything but integers of weights.
    """
    evenings = evenings_of(methods)
    rounds = any(method.rounds_activations for method in methods)
    if not rounds or len(evenings) < len(methods) or not setting.runs:
        return setting, Rotations()
    bases, refused = find_bases(setting.graph, setting.layers)
    if not bases:
        return setting, Rotations(notes=_told((), (), refused))
    tried = [_tried(basis) for basis in bases]
    layers = list(dict.fromkeys(layer for each in tried for layer in each))
    seen = observe(
        setting.graph,
        layers,
        (),
        spread(setting.runs, RUNS),
        threads=setting.threads,
        seed=setting.seed,
        progress=setting.progress,
    )
    rng = np.random.default_rng(setting.seed)
    turns: list[tuple[Basis, Array]] = []
    parts: list[float] = []
    for number, (basis, some) in enumerate(zip(bases, tried)):
        matrix = rotation(basis.block, rng)
        parts.append(_part_left(basis, matrix, {each: seen.rows[each] for each in some}, evenings))
        if parts[-1] <= GAIN:
            turns.append((basis, matrix))
        for layer in some:
            give_back(layer.weights)
        if setting.progress is not None:
            setting.progress("rotate", number + 1, len(bases))
    notes = _told(bases, parts, refused)
    if not turns:
        return setting, Rotations(notes=notes)
    graph = turned(setting.graph, turns, setting.scratch)
    serials = frozenset(layer.node.serial for basis, _ in turns for layer in basis.layers)
    setting = replace(setting, graph=graph, layers=find_layers(graph), recurrent=find_gates(graph))
    return replace(setting, embeddings=find_embeddings(graph)), Rotations(serials, notes)


def _tried(basis: Basis) -> tuple[Layer, ...]:
    count = len(basis.layers)
    if count <= TRIED:
        return basis.layers
    return tuple(basis.layers[number * count // TRIED] for number in range(TRIED))


def _part_left(
    basis: Basis, matrix: Array, rows: Mapping[Layer, Floats], evenings: Sequence[Evening]
) -> float:
    """The part of the errors of layers that is left when a basis is turned; 1 where it is not
    known, or weights would lose their zeros.
    """
    if not all(_is_fit(layer, each) for layer, each in rows.items()):
        return 1.0
    folds: dict[Layer, list[Fold]] = {
        layer: [f for f in basis.folds if f.node is layer.node and f.operand == 1] for layer in rows
    }
    before: dict[Value, list[Sampled]] = defaultdict(list)
    after: dict[Value, list[Sampled]] = defaultdict(list)
    for layer, own in rows.items():
        before[layer.activation].append(Sampled.of(layer, own))
        after[layer.activation].append(_turned(layer, own, folds[layer], matrix))
    return part_left(
        [sum(evening.trial(parts) for parts in before.values()) for evening in evenings],
        [sum(evening.trial(parts) for parts in after.values()) for evening in evenings],
    )


def _is_fit(layer: Layer, rows: Floats) -> bool:
    is_finite = layer.is_finite and bool(np.isfinite(rows).all())
    is_dense = 2 * np.count_nonzero(layer.weights) > layer.weights.size
    return is_finite and is_dense and len(rows) >= LEAST_ROWS


def _turned(layer: Layer, rows: Floats, folds: Sequence[Fold], matrix: Array) -> Sampled:
    """What a layer multiplies in a turned basis."""
    weights = layer.weights
    for fold in folds:
        weights = turned_constant(weights, fold, matrix)
        if fold.axis != layer.channel_axis:
            rows = turned_rows(layer, rows, fold, matrix)
    return Sampled.of(layer, rows, np.ascontiguousarray(layer.as_matrices(weights)))


def _told(
    bases: Sequence[Basis], parts: Sequence[float], refused: Mapping[Node, str]
) -> tuple[str, ...]:
    """What to say of the rotations that were kept, of those that were not, and of normalizations
    whose channels stay.
    """
    notes = [
        f"rotated: {basis.block} channels that {len(basis.readers)} layers read, "
        f"{part:.2f} of their errors left"
        for basis, part in zip(bases, parts)
        if part <= GAIN
    ]
    if len(notes) < len(bases):
        notes.append(f"rotations that do not help: {len(bases) - len(notes)}")
    for node, why in [*refused.items()][:1]:
        others = f" and of {len(refused) - 1} more" if len(refused) > 1 else ""
        notes.append(f"not rotated: the channels of {node.name!r}{others}: {why}")
    return tuple(notes)
