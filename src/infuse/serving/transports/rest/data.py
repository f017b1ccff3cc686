"""What the data port answers besides inference: health, metadata, configuration, statistics, the
repository's index.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from infuse.errors import NotFoundError, UnavailableError, UnsupportedRequestError
from infuse.serving.messages import JsonObject
from infuse.serving.transports.rest import schemas
from infuse.serving.transports.rest.routes import Call, Handler, Plain, Route
from infuse.serving.transports.rest.wire import IndexQuery, Inference


async def _live(call: Call) -> Plain:
    if not call.engine.live():
        raise UnavailableError("the server is not alive")
    return {"live": True}


async def _ready(call: Call) -> Plain:
    if not call.engine.ready():
        raise UnavailableError(
            "the server is not ready", hint="GET /v2/repository/index tells which models are not"
        )
    return {"ready": True}


async def _model_ready(call: Call) -> Plain:
    if not call.engine.model_ready(call.model, call.version):
        raise UnavailableError(f"the model {call.model!r} is not ready")
    return {"name": call.model, "ready": True}


async def _server(call: Call) -> Plain:
    return call.engine.server_metadata()


async def _metadata(call: Call) -> Plain:
    return call.engine.model_metadata(call.model, call.version)


async def _configuration(call: Call) -> Plain:
    return call.engine.model_config(call.model, call.version)


async def _statistics(call: Call) -> Plain:
    return call.engine.admin.statistics(call.model, call.version)


async def _index(call: Call) -> Plain:
    return await call.engine.admin.index(call.read(IndexQuery).ready)


async def _no_regions(call: Call) -> Plain:
    name = call.names.get("region", "")
    if name:
        raise NotFoundError(
            f"there is no region {name!r} of shared memory",
            hint="this server takes none from callers",
        )
    return []


async def _no_shared_memory(call: Call) -> None:
    raise UnsupportedRequestError(
        "this server takes no shared memory from callers",
        hint="send and ask for tensors as binary data",
    )


async def _nothing_registered(call: Call) -> None:
    await _no_regions(call)


_MODEL: Final = "/v2/models/{model_name}"
_VERSION: Final = "/v2/models/{model_name}/versions/{model_version}"


def _of_model(
    end: str,
    operation: str,
    summary: str,
    handler: Handler | None,
    answer: JsonObject,
    *,
    method: str = "GET",
    body: type[msgspec.Struct] | None = None,
    binary: bool = False,
) -> list[Route]:
    """The route of a model, and of a version of it."""
    of_model = Route(
        method,
        _MODEL + end,
        operation,
        summary,
        "infer",
        handler,
        body,
        answer,
        (404, 503),
        binary=binary,
    )
    of_version = replace(of_model, template=_VERSION + end, operation=f"{operation}Version")
    return [of_model, of_version]


def _shared_memory(kind: str) -> list[Route]:
    routes = []
    for end, handler, method in (
        ("/status", _no_regions, "GET"),
        ("/region/{region}/status", _no_regions, "GET"),
        ("/region/{region}/register", _no_shared_memory, "POST"),
        ("/unregister", _nothing_registered, "POST"),
        ("/region/{region}/unregister", _nothing_registered, "POST"),
    ):
        template = f"/v2/{kind}sharedmemory{end}"
        routes.append(Route(method, template, "", "", "infer", handler, documented=False))
    return routes


HEALTH: Final = [
    Route(
        "GET",
        "/v2/health/live",
        "serverLive",
        "Whether the server runs",
        "health",
        _live,
        answer=schemas.LIVE,
    ),
    Route(
        "GET",
        "/v2/health/ready",
        "serverReady",
        "Whether the server takes requests",
        "health",
        _ready,
        answer=schemas.READY,
        statuses=(503,),
    ),
    *_of_model(
        "/ready",
        "modelReady",
        "Whether a model takes requests",
        _model_ready,
        answer=schemas.MODEL_READY,
    ),
]

# What can be looked at on both ports.
VIEWS: Final = [
    *HEALTH,
    Route(
        "GET",
        "/v2",
        "serverMetadata",
        "What this server is",
        "infer",
        _server,
        answer=schemas.SERVER,
    ),
    *_of_model(
        "", "modelMetadata", "A model's inputs and outputs", _metadata, answer=schemas.METADATA
    ),
    *_of_model(
        "/config", "modelConfig", "A model's configuration", _configuration, answer=schemas.OBJECT
    ),
    *_of_model(
        "/stats", "modelStatistics", "What a model has done", _statistics, answer=schemas.STATISTICS
    ),
    Route(
        "GET",
        "/v2/models/stats",
        "statistics",
        "What all models have done",
        "watch",
        _statistics,
        answer=schemas.STATISTICS,
    ),
    Route(
        "POST",
        "/v2/repository/index",
        "repositoryIndex",
        "The models and versions that are there, and their states",
        "watch",
        _index,
        body=IndexQuery,
        answer=schemas.INDEX,
    ),
]

INFERENCE: Final = _of_model(
    "/infer",
    "modelInfer",
    "Inference",
    None,
    method="POST",
    body=Inference,
    answer=schemas.ANSWER,
    binary=True,
)

SHARED_MEMORY: Final = [*_shared_memory("system"), *_shared_memory("cuda")]
