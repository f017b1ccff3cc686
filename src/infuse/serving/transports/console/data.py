"""What the console shows of an engine, as JSON."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypedDict

import infuse
from infuse.serving.control.compiling import compile_options
from infuse.serving.control.rollout.description import RolloutDescription, TrafficDescription
from infuse.serving.control.telemetry.statistics import Recent
from infuse.serving.messages import JsonObject

if TYPE_CHECKING:
    from infuse.serving.control.models import ServedModel
    from infuse.serving.engine.interface import ServingEngine

_MOST_EVENTS: Final = 60
_ACTIVE: Final = frozenset({"running", "paused"})
_NOTHING: Final[Mapping[str, float]] = {
    "requests_per_second": 0.0,
    "rows_per_second": 0.0,
    "failures_per_second": 0.0,
    "failure_rate": 0.0,
    "mean_batch": 0.0,
    "p50_ms": 0.0,
    "p95_ms": 0.0,
    "p99_ms": 0.0,
}


class _Rollout(RolloutDescription):
    active: bool


class _Version(TypedDict):
    version: int
    state: str
    reason: str
    labels: list[str]
    share: float
    shadow: float
    recent: Mapping[str, float]
    busy: float
    replica_states: Mapping[str, int]
    restarts: int
    pending: int
    waiting: int
    weights_bytes: int
    tier: str
    loaded_at: float


class _Model(TypedDict):
    name: str
    kind: str
    problem: str
    labels: dict[str, int]
    split: dict[str, float]
    rollout: _Rollout | None
    previous: list[int]
    versions: list[_Version]
    objectives: list[JsonObject]


class ConsoleSnapshot(TypedDict):
    """A server as the console shows it."""

    server: JsonObject
    models: list[_Model]
    placement: JsonObject
    events: list[JsonObject]


async def snapshot(engine: ServingEngine) -> ConsoleSnapshot:
    """The server as it is now: itself, its models with their versions, the placement, the last
    events.

    Times are seconds since 1970, durations end in their unit, shares are parts of 1; `recent` is
    about the last ten seconds. Models are described with their reasons and all names: it is for
    those who may see all models. Requests go on between two models, so that many of them do not
    hold up any.
    """
    told = engine.objectives()
    models = []
    for _, model in sorted(engine.models.items()):
        models.append(_model(model, told))
        await asyncio.sleep(0)
    loads = {
        f"{model['name']}/{version['version']}": version["busy"]
        / max(1, sum(version["replica_states"].values()))
        for model in models
        for version in model["versions"]
    }
    return {
        "server": _server(engine),
        "models": models,
        "placement": _placement(engine, loads),
        "events": [
            {**event.as_entry(), "grave": event.level >= logging.WARNING}
            for event in reversed(engine.journal.recent(_MOST_EVENTS))
        ],
    }


def _server(engine: ServingEngine) -> JsonObject:
    config, now = engine.config, time.time()
    return {
        "version": infuse.__version__,
        "time": now,
        "uptime_seconds": now - engine.started_at,
        "live": engine.live(),
        "ready": engine.ready(),
        "problem": engine.problem,
        "repository": config.repository,
        "control": config.control,
        "tokens": bool(config.security.tokens),
    }


def _model(model: ServedModel, objectives: Iterable[JsonObject]) -> _Model:
    traffic = model.traffic.describe()
    rollout: _Rollout | None = None
    if (last := traffic["rollout"]) is not None:
        rollout = {**last, "active": last["state"] in _ACTIVE}
    config = model.config
    return {
        "name": model.name,
        "kind": "pipeline" if config.pipeline is not None else compile_options(config)["precision"],
        "problem": model.problem,
        "labels": traffic["labels"],
        "split": traffic["split"],
        "rollout": rollout,
        "previous": list(model.traffic.rollouts.previous()),
        "versions": [
            _version(
                model, number, state, reason or traffic["refused"].get(str(number), ""), traffic
            )
            for number, state, reason in model.states()
        ],
        "objectives": [dict(one) for one in objectives if one["model"] == model.name],
    }


def _version(
    model: ServedModel, number: int, state: str, reason: str, traffic: TrafficDescription
) -> _Version:
    labels = sorted(label for label, version in traffic["labels"].items() if version == number)
    shadows = {
        traffic["labels"][name]: share
        for name, share in traffic["shadow"].items()
        if name in traffic["labels"]
    }
    described: _Version = {
        "version": number,
        "state": state,
        "reason": reason,
        "labels": labels,
        "share": traffic["shares"].get(str(number), 0.0),
        "shadow": shadows.get(number, traffic["shadow"].get(str(number), 0.0)),
        "recent": _NOTHING,
        "busy": 0.0,
        "replica_states": {},
        "restarts": 0,
        "pending": 0,
        "waiting": 0,
        "weights_bytes": 0,
        "tier": "",
        "loaded_at": 0.0,
    }
    version = model.versions.get(number)
    if version is None:
        return described
    recent = version.statistics.recent()
    return {
        **described,
        "recent": _recent(recent),
        "busy": recent.counts.busy_ns / 1e9 / recent.seconds,
        "replica_states": dict(version.replicas),
        "restarts": version.restarts,
        "pending": version.pending(),
        "waiting": version.rows_waiting,
        "weights_bytes": version.weights_bytes,
        "tier": version.tier,
        "loaded_at": version.loaded_at,
    }


def _recent(recent: Recent) -> dict[str, float]:
    return {**recent.as_dict(), "failures_per_second": recent.counts.failed / recent.seconds}


def _placement(engine: ServingEngine, loads: Mapping[str, float]) -> JsonObject:
    return {
        "mode": engine.config.workers.mode,
        "cores": list(engine.pool.cores),
        "lost": engine.pool.lost,
        "workers": [
            {
                "name": worker["name"],
                "pid": worker["pid"],
                "cores": worker["cores"],
                "memory_bytes": worker["resident_bytes"],
                "instances": [
                    {"name": name, "load": loads.get(name, 0.0)} for name in worker["instances"]
                ],
            }
            for worker in engine.pool.describe()
        ],
    }
