"""Which replica runs on which group of cores: packing by load and memory, without any process.

Loads are in busy cores, memory in bytes. Groups are compared by their load per core. The order is
that of longest processing time first: the heaviest replica goes where the load per core is then
lowest; so no group has more than the mean plus one replica, and in practice hardly more than the
best there is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

GAIN: Final = 0.2
"""Busy cores per core: what the highest load must be, and the part by which it must fall, before
anything moves.
"""
_TIE: Final = 1e-9


@dataclass(frozen=True)
class Item:
    """A replica. `of`: the version; its replicas share `shared` bytes of weights, each has `own`
    bytes besides.
    """

    name: Hashable
    of: str
    threads: int = 1
    load: float = 0.0
    shared: int = 0
    own: int = 0


@dataclass(frozen=True)
class Bin:
    """A group of cores, what it may hold in bytes (None: no limit of its own), and load that is
    there anyhow.
    """

    cores: int
    memory: int | None = None
    load: float = 0.0


@dataclass(frozen=True)
class Assignment:
    """The bin of each item by name, the loads of the bins, and the items that found no memory, with
    the reason.

    `moves`: items that were elsewhere before, in the order in which they should move.
    """

    places: Mapping[Hashable, int]
    loads: Sequence[float]
    left: Mapping[Hashable, str] = field(default_factory=dict)
    moves: Sequence[Hashable] = ()
    before: float = 0.0
    after: float = 0.0

    @property
    def gain(self) -> float:
        """The part of the highest load per core that the moves take away."""
        return 1 - self.after / self.before if self.before > 0 else 0.0


class _Packing:
    """Bins being filled."""

    def __init__(self, bins: Sequence[Bin], memory: int | None) -> None:
        self.bins = bins
        self.loads = [each.load for each in bins]
        self.places: dict[Hashable, int] = {}
        self.left: dict[Hashable, str] = {}
        self._counts = [0] * len(bins)
        self._bytes = [0] * len(bins)
        self._versions: list[dict[str, int]] = [{} for _ in bins]
        self._memory = memory
        self._all_bytes = 0
        self._all_versions: set[str] = set()

    def put(self, item: Item, place: int) -> None:
        """Put an item into a bin."""
        self._bytes[place] += self._needed(item, place)
        self._all_bytes += self._needed_in_all(item)
        self._all_versions.add(item.of)
        here = self._versions[place]
        here[item.of] = here.get(item.of, 0) + 1
        self._counts[place] += 1
        self.loads[place] += item.load
        self.places[item.name] = place

    def fits(self, item: Item, place: int) -> bool:
        """Whether there is memory for it, in the bin and in all."""
        limit = self.bins[place].memory
        here = limit is None or self._bytes[place] + self._needed(item, place) <= limit
        return here and (
            self._memory is None or self._all_bytes + self._needed_in_all(item) <= self._memory
        )

    def place(self, item: Item, usual: int | None) -> None:
        """Put an item into the best bin: without a replica of its version, low in load; or name it
        as left.
        """
        needed = self._needed_in_all(item)
        if self._memory is not None and self._all_bytes + needed > self._memory:
            self.left[item.name] = (
                f"it needs {needed} bytes, and {self._memory - self._all_bytes} are left"
            )
            return
        fitting = [place for place in range(len(self.bins)) if self.fits(item, place)]
        if not fitting:
            most = max(
                each.memory - used
                for each, used in zip(self.bins, self._bytes)
                if each.memory is not None
            )
            self.left[item.name] = (
                f"it needs {item.shared + item.own} bytes, and no group has more than {most} left"
            )
            return
        self.put(item, min(fitting, key=lambda place: self._rank(item, place, usual)))

    def highest(self) -> float:
        """The highest load per core."""
        return max(load / each.cores for load, each in zip(self.loads, self.bins))

    def _rank(self, item: Item, place: int, usual: int | None) -> tuple[float, ...]:
        load = (self.loads[place] + item.load) / self.bins[place].cores
        twins = self._versions[place].get(item.of, 0)
        return (
            twins,
            round(load / _TIE),
            place != usual,
            self._counts[place],
            self._bytes[place],
            place,
        )

    def _needed(self, item: Item, place: int) -> int:
        return item.own + (0 if item.of in self._versions[place] else item.shared)

    def _needed_in_all(self, item: Item) -> int:
        return item.own + (0 if item.of in self._all_versions else item.shared)


def pack(
    items: Iterable[Item],
    bins: Sequence[Bin],
    current: Mapping[Hashable, int] | None = None,
    *,
    memory: int | None = None,
    gain: float = GAIN,
) -> Assignment:
    """Distribute replicas over groups of cores, never over the memory of a group or of all
    (`memory`).

    Weights count once per group, and once in all. Replicas of one version go to different groups
    while there are any. What is in `current` stays there unless another distribution lowers the
    highest load per core by more than `gain`, or has room for more replicas.
    """
    ordered = list(items)
    if len({item.name for item in ordered}) != len(ordered):
        raise ValueError("two items have one name")
    current = current or {}
    unmoved = _kept(ordered, bins, current, memory)
    orders = _orders(ordered, bins, memory)
    fresh = min(
        (_fresh(order, bins, usual, memory) for usual in (current, {}) for order in orders),
        key=_worth,
    )
    before = unmoved.highest() if bins else 0.0
    better = len(fresh.left) < len(unmoved.left) or (
        len(fresh.left) == len(unmoved.left) and fresh.highest() < (1 - gain) * before - _TIE
    )
    chosen = _settled(fresh, ordered, current, memory) if better else unmoved
    moved = [
        item
        for item in ordered
        if item.name in current and chosen.places.get(item.name) != current[item.name]
    ]
    moved = [item for item in moved if item.name in chosen.places]
    hot = {
        item.name: unmoved.loads[current[item.name]] / bins[current[item.name]].cores
        for item in moved
    }
    moved.sort(key=lambda item: (-hot[item.name], -item.load))
    return Assignment(
        chosen.places,
        chosen.loads,
        chosen.left,
        [item.name for item in moved],
        before,
        chosen.highest(),
    )


def _heaviest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (-item.load, -(item.shared + item.own), str(item.name)))


def _orders(items: Sequence[Item], bins: Sequence[Bin], memory: int | None) -> list[list[Item]]:
    """By load; and, where memory is limited, by size, which leaves fewer out when memory is
    short.
    """
    orders = [_heaviest_first(items)]
    if memory is not None or any(each.memory is not None for each in bins):
        orders.append(
            sorted(items, key=lambda item: (-(item.shared + item.own), -item.load, str(item.name)))
        )
    return orders


def _kept(
    items: Sequence[Item], bins: Sequence[Bin], current: Mapping[Hashable, int], memory: int | None
) -> _Packing:
    """What is placed stays; the rest goes where it fits best."""
    packing = _Packing(bins, memory)
    rest = []
    for item in _heaviest_first(items):
        place = current.get(item.name)
        if place is not None and place < len(bins) and packing.fits(item, place):
            packing.put(item, place)
        else:
            rest.append(item)
    for item in rest:
        packing.place(item, None)
    return packing


def _fresh(
    order: Sequence[Item], bins: Sequence[Bin], current: Mapping[Hashable, int], memory: int | None
) -> _Packing:
    packing = _Packing(bins, memory)
    for item in order:
        packing.place(item, current.get(item.name))
    return packing


def _settled(
    packing: _Packing, items: Sequence[Item], current: Mapping[Hashable, int], memory: int | None
) -> _Packing:
    """The same, without the moves that lower nothing: the lightest first, and again, as each makes
    room for others.
    """
    while True:
        before = packing
        for item in reversed(_heaviest_first(items)):
            home = current.get(item.name)
            if home is None or packing.places.get(item.name, home) == home:
                continue
            other = _stayed(packing, item, home, items, memory)
            if other is not None and other.highest() <= packing.highest() + _TIE:
                packing = other
        if packing is before:
            return packing


def _stayed(
    packing: _Packing, item: Item, home: int, items: Sequence[Item], memory: int | None
) -> _Packing | None:
    """The same with one item where it was; None where that has no room for it."""
    other = _Packing(packing.bins, memory)
    other.left = packing.left
    places = {**packing.places, item.name: home}
    for each in items:
        if each.name in places:
            if not other.fits(each, places[each.name]):
                return None
            other.put(each, places[each.name])
    return other


def _worth(packing: _Packing) -> tuple[int, float]:
    return (len(packing.left), packing.highest())
