"""Which indices along the axes of values stand or fall together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import TensorType

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Place = tuple[Value, int]
"""An axis of a value."""


@dataclass(frozen=True, eq=False)
class Contraction:
    """Products that are summed up along an axis: the node, the axis of the activation, and that of
    its constant weights.
    """

    node: Node
    activation: Place
    weights: Place


@dataclass(frozen=True, eq=False)
class Choice:
    """Axes of which one alone may lose indices, since they share one axis on the other side: for
    each its own place, and the atoms that go with those of the shared axis.
    """

    node: Node
    shared: Ints
    options: Sequence[tuple[Place, Ints]]


class Links:
    """Indices of axes, called atoms here and numbered through, that are linked or closed.

    Axes with a size that is not fixed have no atoms: nothing is ever removed from them. With
    `opens_norms`, axes stay open along which a normalization takes means: over what is left, these
    are near those of before.
    """

    def __init__(self, opens_norms: bool = False) -> None:
        self.opens_norms = opens_norms
        self.normed: list[Ints] = []
        """Atoms over which normalizations take means, and which are open."""
        self._starts: dict[Place, int] = {}
        self._pairs: list[tuple[Ints, Ints]] = []
        self._closed: list[tuple[Ints, str]] = []
        self.choices: list[Choice] = []
        self.contractions: list[Contraction] = []
        self.count = 0

    def atoms(self, value: Value, axis: int) -> Ints | None:
        """The atoms of an axis; None where its size is not fixed."""
        shape = value.tensor.shape
        size = None if shape is None else shape[axis]
        if not isinstance(size, int):
            return None
        place = (value, axis % len(shape or ()))
        if place not in self._starts:
            self._starts[place] = self.count
            self.count += size
        return np.arange(self._starts[place], self._starts[place] + size)

    def places(self) -> dict[Place, Ints]:
        """The atoms of each place that has some."""
        places = {}
        for value, axis in self._starts:
            atoms = self.atoms(value, axis)
            assert atoms is not None
            places[value, axis] = atoms
        return places

    # -- what is stated ----------------------------------------------------------------------------

    def pair(self, one: Ints | None, other: Ints | None) -> None:
        """Atoms of the same number go together."""
        if one is not None and other is not None:
            assert len(one) == len(other)
            self._pairs.append((one, other))

    def same(self, one: Place, other: Place) -> None:
        """The indices of two axes go together; where one has a single index, that is repeated and
        has nothing to do with the other.
        """
        first, second = self.atoms(*one), self.atoms(*other)
        if first is not None and second is not None:
            if len(first) == len(second):
                self.pair(first, second)
        else:
            for atoms in (first, second):
                if atoms is not None and len(atoms) > 1:
                    self.close(atoms, "it meets a size that only a run tells")

    def close(self, atoms: Ints | None, why: str) -> None:
        """These atoms stay."""
        if atoms is not None:
            self._closed.append((atoms, why))

    def close_axis(self, place: Place, why: str) -> None:
        """All indices of an axis stay."""
        self.close(self.atoms(*place), why)

    def close_value(self, value: Value, why: str) -> None:
        """All indices of all axes of a value stay."""
        if has_axes(value):
            for axis in range(value.rank):
                self.close_axis((value, axis), why)

    def close_node(self, node: Node, why: str) -> None:
        """Nothing of what a node reads or gives loses indices."""
        for value in (*node.operands(), *node.outputs):
            self.close_value(value, why)

    def contract(self, node: Node, activation: Place, weights: Place) -> None:
        """Products of both are summed up along these axes."""
        self.same(activation, weights)
        if weights[0].is_const:
            self.contractions.append(Contraction(node, activation, weights))

    def norm(self, place: Place) -> None:
        """A normalization takes means over this axis."""
        atoms = self.atoms(*place)
        if atoms is not None:
            self.normed.append(atoms)

    # -- what follows ------------------------------------------------------------------------------

    def decide(self) -> None:
        """Take of each choice the first axis that is not closed, and close the others."""
        reasons = self.reasons(self.labels())
        labels = self.labels()
        for choice in self.choices:
            is_open = [
                any(label not in reasons for label in labels[self._of(place)])
                for place, _ in choice.options
            ]
            best = is_open.index(True) if True in is_open else 0
            for number, (place, across) in enumerate(choice.options):
                if number == best:
                    self.pair(self._of(place)[across], choice.shared)
                else:
                    self.close_axis(place, f"{choice.node.kind} joins it with another axis")
        self.choices = []

    def _of(self, place: Place) -> Ints:
        atoms = self.atoms(*place)
        assert atoms is not None
        return atoms

    def labels(self) -> Ints:
        """For each atom the least one of those that it is linked with, directly or not."""
        label = np.arange(self.count)
        if not self._pairs:
            return label
        one, other = (np.concatenate(side) for side in zip(*self._pairs))
        while True:
            before = label.copy()
            low = np.minimum(label[one], label[other])
            np.minimum.at(label, before[one], low)
            np.minimum.at(label, before[other], low)
            while True:
                further = label[label]
                if np.array_equal(further, label):
                    break
                label = further
            if np.array_equal(label, before):
                return label

    def reasons(self, labels: Ints) -> dict[int, str]:
        """Why what has a label stays, for all that does: the reason that was told first."""
        reasons: dict[int, str] = {}
        for atoms, why in self._closed:
            for label in np.unique(labels[atoms]).tolist():
                reasons.setdefault(label, why)
        return reasons


def has_axes(value: Value) -> bool:
    """Whether a value is a tensor of so many axes."""
    return isinstance(value.type, TensorType) and value.type.shape is not None


def tensors_of(graph: Graph) -> list[Value]:
    """All tensors of a graph without those of bodies: inputs, constants and results."""
    values = dict.fromkeys(graph.inputs)
    for node in graph.nodes:
        values.update(dict.fromkeys((*node.operands(), *node.outputs)))
    return [value for value in values if has_axes(value)]
