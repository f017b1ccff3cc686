"""Which group of cores each packed replica is in, by load and size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infuse.errors import InfuseError
from infuse.serving.workers.events import EventLog
from infuse.serving.workers.groups import Group
from infuse.serving.workers.placement import GAIN, Assignment, Bin, Item, pack
from infuse.serving.workers.replicas import Replica


class Balancer:
    """Spreads `replicas`, which are those of the time, over groups, and moves them when their loads
    have changed.
    """

    def __init__(
        self, groups: Sequence[Group], replicas: Sequence[Replica], journal: EventLog
    ) -> None:
        self._groups = groups
        self._replicas = replicas
        self._journal = journal

    def best(self, item: Item) -> Group:
        """The group for one more replica."""
        groups = pack([*self._items(), item], self._bins(), self._current(), gain=1.0)
        return self._groups[groups.places[item.name]]

    def plan(self) -> Assignment | None:
        """Where the replicas in groups should be, by the load of the last seconds; None where
        nothing is packed.
        """
        if not self._groups:
            return None
        busy = (
            max(load / len(group.cores) for load, group in zip(self.loads(), self._groups)) >= GAIN
        )
        return pack(self._items(), self._bins(), self._current(), gain=GAIN if busy else 1.0)

    def loads(self) -> list[float]:
        """Busy cores of each group."""
        bins, current = self._bins(), self._current()
        loads = [each.load for each in bins]
        for item in self._items():
            loads[current[item.name]] += item.load
        return loads

    async def rebalance(self) -> int:
        """Move replicas, one after another, if that lowers the highest load enough. How many were
        moved.
        """
        plan = self.plan()
        moved = 0
        for name in plan.moves if plan is not None else ():
            replica = next((each for each in self._replicas if id(each) == name), None)
            assert plan is not None
            target = self._groups[plan.places[name]]
            if replica is None or replica.group is None or replica.group is target:
                continue
            left = replica.group.name
            model, _, version = replica.need.name.rpartition("/")
            about: dict[str, str | int | float] = {
                "model": model,
                "version": int(version) if version.isdecimal() else version,
            }
            try:
                done = await replica.move(target)
            except InfuseError as error:
                self._journal.emit(
                    "move_failed", **about, reason=f"from {left} to {target.name}: {error}"
                )
                break
            if done:
                why = f"the highest load per core falls from {plan.before:.2f} to {plan.after:.2f}"
                self._journal.emit(
                    "replica_moved", **about, reason=f"from {left} to {target.name}: {why}"
                )
                moved += 1
        return moved

    def _packed_replicas(self) -> list[tuple[Replica, int]]:
        places = {group.name: number for number, group in enumerate(self._groups)}
        named = [
            (replica, replica.group.name) for replica in self._replicas if replica.group is not None
        ]
        return [(replica, places[name]) for replica, name in named if name in places]

    def _current(self) -> dict[Any, int]:
        return {id(replica): place for replica, place in self._packed_replicas()}

    def _items(self) -> list[Item]:
        return [
            Item(
                id(replica),
                replica.need.name,
                replica.need.threads,
                replica.executor.load.recent()[1] if replica.executor is not None else 0.0,
                replica.need.weights_bytes,
                replica.own_bytes,
            )
            for replica, _ in self._packed_replicas()
        ]

    def _bins(self) -> list[Bin]:
        """The groups; what replicas on all cores, or in workers of their own, do is there
        anyhow.
        """
        besides = [0.0] * len(self._groups)
        for replica in self._replicas:
            if replica.group is None or replica.group in self._groups or replica.executor is None:
                continue
            share = replica.executor.load.recent()[1] / len(replica.group.cores)
            for number, group in enumerate(self._groups):
                besides[number] += share * len({*group.cores} & {*replica.group.cores})
        return [Bin(len(group.cores), load=load) for group, load in zip(self._groups, besides)]
