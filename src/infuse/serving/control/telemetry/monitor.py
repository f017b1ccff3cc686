"""All that watches an engine, set up by its configuration: metrics, objectives, traces, the access
log, advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from infuse.errors import ConfigurationError
from infuse.serving.config import Telemetry
from infuse.serving.control.model_config import Objective
from infuse.serving.control.placements import PlacementDescription
from infuse.serving.control.rollout.description import TrafficDescription
from infuse.serving.control.telemetry.bottleneck import explain
from infuse.serving.control.telemetry.journal import Journal
from infuse.serving.control.telemetry.logs import access_log
from infuse.serving.control.telemetry.metrics import Metrics, Source
from infuse.serving.control.telemetry.objectives import Objectives
from infuse.serving.control.telemetry.views import EngineView, Reading
from infuse.serving.messages import JSON, Outcome


class _TrafficView(Protocol):
    def describe(self) -> TrafficDescription: ...


class _ConfigView(Protocol):
    @property
    def objectives(self) -> tuple[Objective, ...]: ...


class _ModelView(Protocol):
    @property
    def config(self) -> _ConfigView: ...
    @property
    def traffic(self) -> _TrafficView: ...


class MonitoredEngine(EngineView, Protocol):
    """An engine with its models, workers and observers."""

    @property
    def observers(self) -> list[Callable[[Outcome], None]]: ...
    @property
    def models(self) -> Mapping[str, _ModelView]: ...

    def placement(self) -> PlacementDescription: ...


class Monitor:
    """Watches one engine from when it is made until it is closed. Call `tick` about every second.

    `sources` give further readings, as `Metrics` has them. ConfigurationError where traces are to
    go to what is no endpoint.
    """

    def __init__(
        self,
        engine: MonitoredEngine,
        config: Telemetry,
        journal: Journal,
        sources: Iterable[Source] = (),
    ) -> None:
        self._engine = engine
        self._objectives: dict[str, tuple[Objective, ...]] = {}
        self.journal = journal
        self.objectives = Objectives(journal)
        own = (journal.readings, self.objectives.readings, self._traffic, self._workers)
        self.metrics = Metrics(engine, [*own, *sources])
        self._observers: list[Callable[[Outcome], None]] = [self.objectives.observe]
        if (access := access_log(config)) is not None:
            self._observers.append(access)
        self._close_traces: Callable[[], None] | None = None
        if config.traces:
            self._trace(config)
        engine.observers.extend(self._observers)
        self.tick()

    def tick(self) -> None:
        """Take up objectives that models brought, changed or took along, and end alerts that are
        over.
        """
        current = {name: model.config.objectives for name, model in self._engine.models.items()}
        for name in self._objectives.keys() - current.keys():
            self.objectives.remove(name)
        for name, objectives in current.items():
            if self._objectives.get(name, ()) != objectives:
                self._set(name, objectives)
        self._objectives = current
        self.objectives.check()

    def explain(self) -> list[dict[str, JSON]]:
        """Which stage takes the time of each version's requests (`GET v2/bottleneck`)."""
        return explain(self._engine)

    def close(self) -> None:
        """Stop watching; traces that wait are exported."""
        for observe in self._observers:
            self._engine.observers.remove(observe)
        self._observers.clear()
        if self._close_traces is not None:
            self._close_traces()
            self._close_traces = None

    def _set(self, model: str, objectives: tuple[Objective, ...]) -> None:
        try:
            self.objectives.set(model, objectives)
        except (
            ConfigurationError
        ) as error:  # the model serves all the same, by the objectives that it had
            self.journal.emit("objectives_refused", model=model, reason=str(error))

    def _trace(self, config: Telemetry) -> None:
        # The SDK takes a while to import: only who traces pays for it.
        from infuse.serving.control.telemetry import tracing

        if (traces := tracing.observer(config)) is not None:
            self._observers.append(traces)
            self._close_traces = traces.close
            self.metrics.add(traces.readings)

    def _traffic(self) -> Iterator[Reading]:
        for name, model in self._engine.models.items():
            yield from _shares(name, model.traffic.describe())

    def _workers(self) -> Iterator[Reading]:
        for worker in self._engine.placement()["workers"]:
            yield Reading("infuse_worker_memory_bytes", worker["resident_bytes"], (worker["name"],))


def _shares(name: str, told: TrafficDescription) -> Iterator[Reading]:
    """What a model's traffic tells of its versions."""
    for version, share in told["shares"].items():
        yield Reading("infuse_traffic_share", share, (name, version))
    shadows: dict[str, float] = {}
    for target, share in told["shadow"].items():
        version = str(told["labels"].get(target, target))
        shadows[version] = max(shadows.get(version, 0.0), share)
    for version, share in shadows.items():
        yield Reading("infuse_shadow_share", share, (name, version))
    for version, window in told["windows"].items():
        yield Reading("infuse_shadow_compared", window["compared"], (name, version))
        yield Reading("infuse_shadow_differences", window["drifted"], (name, version))
