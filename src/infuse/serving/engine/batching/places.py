"""Where the batches of a version run: whoever is added is attended to, so that nothing waits beside
a free place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infuse.serving.engine.batching.timing import SizedTimes
from infuse.serving.workers.executor import Executor


class Places:
    """The executors and instances per core of a batcher, and what batches cost in them (`times`,
    `core_times`).

    `pump` is called when one is added and whenever one says that it has become free: this is the
    only way in, so no capacity can appear without what waits being looked at. Those that no longer
    live are not seen.
    """

    def __init__(self, pump: Callable[[], None]) -> None:
        self.times = SizedTimes()
        self.core_times = SizedTimes()
        self._pump = pump
        self._executors: list[Executor] = []
        self._core_instances: list[Executor] = []

    @property
    def executors(self) -> Sequence[Executor]:
        """Those that use all cores of a replica."""
        return [executor for executor in self._executors if executor.alive]

    @property
    def core_instances(self) -> Sequence[Executor]:
        """Those that use one core each."""
        return [instance for instance in self._core_instances if instance.alive]

    def add(self, *executors: Executor) -> None:
        """Give these executors what waits, now and whenever they are free."""
        self._executors = [*self.executors, *executors]
        self._attend(executors)

    def add_core_instances(self, *core_instances: Executor) -> None:
        """Give these instances per core what waits, now and whenever they are free."""
        self._core_instances = [*self.core_instances, *core_instances]
        self._attend(core_instances)

    def remove(self, *executors: Executor) -> None:
        """Give these executors or instances per core nothing more."""
        self._executors = [each for each in self._executors if each not in executors]
        self._core_instances = [each for each in self._core_instances if each not in executors]
        for each in executors:
            each.freed = None
        self._pump()

    def usual(self) -> tuple[Sequence[Executor], SizedTimes]:
        """Who runs batches where requests meet each other, and how long they take there."""
        core_instances = self.core_instances
        return (core_instances, self.core_times) if core_instances else (self.executors, self.times)

    def free(self, alone: bool) -> tuple[list[Executor], SizedTimes]:
        """Who may take the next batch, and how long it takes there. `alone`: it is of one request
        that met no other.
        """
        core_instances = self.core_instances
        if not core_instances or alone:
            return [executor for executor in self._executors if executor.free > 0], self.times
        if any(executor.alive and executor.free <= 0 for executor in self._executors):
            return [], self.core_times  # it has all cores
        return [instance for instance in core_instances if instance.free > 0], self.core_times

    def _attend(self, executors: Sequence[Executor]) -> None:
        for executor in executors:
            executor.freed = self._pump
        self._pump()
