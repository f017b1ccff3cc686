"""What changes the server, or shows how it is run: loading, placement, traffic and rollouts, logs
and traces.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import msgspec
from msgspec.structs import asdict

from infuse.errors import RequestError
from infuse.serving.control.callers import forbidden
from infuse.serving.control.model_config import MOST_WEIGHT, Canary
from infuse.serving.control.rollout.rollouts import Rollouts
from infuse.serving.control.telemetry.bottleneck import explain
from infuse.serving.control.telemetry.settings import LOG, log_settings, trace_settings
from infuse.serving.messages import JSON, JsonObject
from infuse.serving.transports.coders.pool import LARGE
from infuse.serving.transports.console.data import snapshot
from infuse.serving.transports.rest import large, schemas
from infuse.serving.transports.rest.loads import read_load, unknown
from infuse.serving.transports.rest.refusals import Refusal
from infuse.serving.transports.rest.routes import Call, Handler, Plain, Route
from infuse.serving.transports.rest.wire import LogSettings, Unload

Version = Annotated[int, msgspec.Meta(ge=1)]
_MOST_REASON = 2000  # characters
Weight = Annotated[float, msgspec.Meta(ge=0, le=MOST_WEIGHT)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Label(msgspec.Struct, forbid_unknown_fields=True):
    """Let a label stand for a loaded version; without a version, forget it."""

    label: str
    version: Version | None = None


class Split(msgspec.Struct, forbid_unknown_fields=True):
    """Weights by version or label; none: no split."""

    weights: dict[str, Weight]


class Shadow(msgspec.Struct, forbid_unknown_fields=True):
    """The parts of the traffic, from 0 to 1, that versions or labels get copies of; none: no
    shadows.
    """

    shares: dict[str, Share]


class Rollout(msgspec.Struct, forbid_unknown_fields=True):
    """Move the traffic to a version in steps, by `canary` or the model's configuration."""

    version: Version
    canary: Canary | None = None


class Rollback(msgspec.Struct, forbid_unknown_fields=True):
    """Take the traffic back."""

    reason: Annotated[str, msgspec.Meta(max_length=_MOST_REASON)] = "asked for"


class Nothing(msgspec.Struct):
    """No more is needed."""


# --------------------------------------------------------------------------------------- repository


async def _load(call: Call) -> Plain:
    if call.coders is not None and len(call.body) > LARGE:
        config, files = await call.coders.load(large.load, call.body)
    else:
        config, files = read_load(call.body)
    await call.engine.admin.load(call.model, config, files, caller=call.caller)
    return {}


async def _unload(call: Call) -> Plain:
    dependents = False
    for name, value in (call.read(Unload).parameters or {}).items():
        if name != "unload_dependents" or not isinstance(value, bool):
            raise unknown(name, "unload_dependents (true or false)")
        dependents = value
    await call.engine.admin.unload(call.model, dependents, caller=call.caller)
    return {}


async def _placement(call: Call) -> Plain:
    return call.engine.placement()


async def _bottleneck(call: Call) -> Plain:
    return explain(call.engine)


async def _console(call: Call) -> Plain:
    return await snapshot(call.engine)


# ------------------------------------------------------------------------------------------ traffic


async def _traffic(call: Call) -> Plain:
    return call.engine.admin.traffic(call.model).describe()


async def _label(call: Call) -> Plain:
    traffic = call.engine.admin.traffic(call.model)
    asked = call.read(Label)
    if asked.version is None:
        traffic.routing.remove_label(asked.label)
    else:
        traffic.routing.set_label(asked.label, asked.version)
    return traffic.describe()


async def _split(call: Call) -> Plain:
    traffic = call.engine.admin.traffic(call.model)
    asked = call.read(Split)
    traffic.set_split(asked.weights)
    return traffic.describe()


async def _shadow(call: Call) -> Plain:
    traffic = call.engine.admin.traffic(call.model)
    asked = call.read(Shadow)
    traffic.routing.set_shadow(asked.shares)
    return traffic.describe()


async def _rollout(call: Call) -> Plain:
    wish = call.read(Rollout)
    await call.engine.admin.start_rollout(call.model, wish.version, wish.canary)
    return call.engine.admin.traffic(call.model).describe()


async def _rollback(call: Call) -> Plain:
    wish = call.read(Rollback)
    await call.engine.admin.rollback(call.model, wish.reason)
    return call.engine.admin.traffic(call.model).describe()


def _change_rollout(change: Callable[[Rollouts], None]) -> Handler:
    """A handler that makes a change of the rollouts for which the body says nothing."""

    async def handler(call: Call) -> Plain:
        traffic = call.engine.admin.traffic(call.model)
        call.read(Nothing)
        change(traffic.rollouts)
        return traffic.describe()

    return handler


# ----------------------------------------------------------------------------------------- settings


async def _log_settings(call: Call) -> Plain:
    return log_settings(call.config.telemetry)


async def _set_logs(call: Call) -> Plain:
    asked = call.read(LogSettings)
    now = log_settings(call.config.telemetry)
    changes = {name: value for name, value in asdict(asked).items() if value is not None}
    for name in ("log_file", "log_format"):
        if changes.get(name, now[name]) != now[name]:
            raise _fixed(name)
    changes = {**now, **changes}
    steps = [
        bool(changes["log_verbose_level"]),
        changes["log_info"],
        changes["log_warning"],
        changes["log_error"],
    ]
    if steps != sorted(steps):
        raise Refusal(
            409,
            "messages can be logged from one level on only",
            hint="turn off verbose first, then info, warning, error",
        )
    LOG.setLevel(logging.CRITICAL if not any(steps) else (logging.DEBUG + 10 * steps.index(True)))
    return log_settings(call.config.telemetry)


async def _trace_settings(call: Call) -> Plain:
    return _traces(call)


def _traces(call: Call) -> Mapping[str, str | list[str]]:
    if call.model:
        call.engine.model_ready(call.model)
    return trace_settings(call.config.telemetry)


async def _set_traces(call: Call) -> Plain:
    if call.caller.models:
        raise forbidden(
            f"the token '{call.caller.name}' is for some models only, and this concerns all"
        )
    now = _traces(call)
    asked: dict[str, JSON] = call.read(dict)
    for name, value in asked.items():
        if name not in now:
            raise RequestError(f"{name!r} is not a setting of traces")
        if value is not None and value != now[name]:
            raise _fixed(name)
    return now


def _fixed(name: str) -> Refusal:
    hint = "set telemetry in the server's configuration"
    return Refusal(409, f"{name} cannot be changed while the server runs", hint=hint)


# ---------------------------------------------------------------------------------------- the table

_MODEL: Final = "/v2/models/{model_name}"
_REPOSITORY: Final = "/v2/repository/models/{model_name}"


def _change(
    template: str,
    operation: str,
    summary: str,
    handler: Handler,
    body: type[msgspec.Struct] | JsonObject,
    answer: JsonObject,
) -> Route:
    return Route(
        "POST", template, operation, summary, "admin", handler, body, answer, (403, 404, 409, 503)
    )


CHANGES: Final = [
    _change(
        f"{_REPOSITORY}/load",
        "modelLoad",
        "Load or reload a model",
        _load,
        schemas.LOAD,
        schemas.DONE,
    ),
    _change(
        f"{_REPOSITORY}/unload",
        "modelUnload",
        "Unload a model",
        _unload,
        schemas.UNLOAD,
        schemas.DONE,
    ),
    _change(
        f"{_MODEL}/labels", "setLabel", "Move or remove a label", _label, Label, schemas.TRAFFIC
    ),
    _change(
        f"{_MODEL}/split",
        "setSplit",
        "Divide the traffic by weights",
        _split,
        Split,
        schemas.TRAFFIC,
    ),
    _change(
        f"{_MODEL}/shadow",
        "setShadow",
        "Send copies of requests to versions",
        _shadow,
        Shadow,
        schemas.TRAFFIC,
    ),
    _change(
        f"{_MODEL}/rollout", "startRollout", "Begin a rollout", _rollout, Rollout, schemas.TRAFFIC
    ),
    _change(
        f"{_MODEL}/rollback",
        "rollback",
        "Take a rollout back",
        _rollback,
        Rollback,
        schemas.TRAFFIC,
    ),
    _change(
        f"{_MODEL}/promote",
        "promote",
        "End a rollout now",
        _change_rollout(lambda rollouts: rollouts.promote()),
        Nothing,
        schemas.TRAFFIC,
    ),
    _change(
        f"{_MODEL}/pause",
        "pauseRollout",
        "Hold a rollout",
        _change_rollout(lambda rollouts: rollouts.pause()),
        Nothing,
        schemas.TRAFFIC,
    ),
    _change(
        f"{_MODEL}/resume",
        "resumeRollout",
        "Let a rollout go on",
        _change_rollout(lambda rollouts: rollouts.resume()),
        Nothing,
        schemas.TRAFFIC,
    ),
    _change(
        "/v2/logging",
        "setLogging",
        "Change what is logged",
        _set_logs,
        LogSettings,
        schemas.LOGGING,
    ),
    _change(
        "/v2/trace/setting",
        "setTracing",
        "Change what is traced",
        _set_traces,
        schemas.TRACES,
        schemas.TRACING,
    ),
    Route("POST", f"{_MODEL}/trace/setting", "", "", "admin", _set_traces, documented=False),
]

# Shown on the data port too.
SETTINGS: Final = [
    Route(
        "GET",
        "/v2/logging",
        "logging",
        "What is logged",
        "settings",
        _log_settings,
        answer=schemas.LOGGING,
    ),
    Route(
        "GET",
        "/v2/trace/setting",
        "tracing",
        "What is traced",
        "settings",
        _trace_settings,
        answer=schemas.TRACING,
    ),
    Route("GET", f"{_MODEL}/trace/setting", "", "", "settings", _trace_settings, documented=False),
]

INSIGHTS: Final = [
    Route("GET", "/v2/console/data", "", "", "watch", _console, documented=False),
    Route(
        "GET",
        "/v2/bottleneck",
        "bottleneck",
        "Which stage takes the time",
        "watch",
        _bottleneck,
        answer=schemas.STAGES,
    ),
    Route(
        "GET",
        "/v2/placement",
        "placement",
        "Where models run",
        "watch",
        _placement,
        answer=schemas.PLACEMENT,
    ),
    Route(
        "GET",
        f"{_MODEL}/traffic",
        "traffic",
        "Labels, split, shadows and rollout of a model",
        "infer",
        _traffic,
        answer=schemas.TRAFFIC,
        statuses=(404,),
    ),
]
