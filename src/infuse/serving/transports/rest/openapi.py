"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from infuse.serving.messages import JSON, JsonObject
from infuse.serving.transports.rest import schemas
from infuse.serving.transports.rest.routes import Route

_ERRORS: Final[Mapping[int, str]] = {
    400: "The request is not one that is taken",
    401: "A token is needed",
    403: "The token does not allow this",
    404: "What is named is not there",
    408: "The request did not arrive in time",
    409: "This does not go with what is under way",
    413: "The body is too large",
    415: "The Content-Encoding is not known",
    431: "The head of the request is too large",
    500: "The model failed, or the server did",
    501: "This is not supported",
    503: "Not ready, or too much to do; Retry-After says when to try again",
    504: "Not answered in the time that the request allows",
}
_ALL: Final = (400, 401, 403, 408, 413, 415, 431, 500, 503)
_INFERENCE: Final = (404, 501, 504)
_NAMES: Final[Mapping[str, str]] = {
    "model_name": "The name of a model",
    "model_version": "The number of a version, or a label",
}
_REFERENCE: Final = "#/components/schemas/{name}"
_BINARY: Final[JsonObject] = {
    "application/octet-stream": {
        "schema": {"type": "string", "contentMediaType": "application/octet-stream"}
    }
}
_LENGTH: Final = "Inference-Header-Content-Length"
_PARTS: Final = (
    "Bytes of JSON in front of the tensors of a body; 0 in a request: the body is the model's only "
    "input"
)


def document(routes: Iterable[Route], version: str) -> JsonObject:
    """The document of a server that answers these routes."""
    documented = [route for route in routes if route.documented]
    kinds = list(dict.fromkeys(route.body for route in documented if isinstance(route.body, type)))
    bodies, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    described = dict(zip(kinds, bodies))
    paths: dict[str, dict[str, JSON]] = {}
    for route in documented:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route, described)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Infuse model server",
            "version": version,
            "description": (
                "The Open Inference Protocol v2 with binary tensors, and the management of models."
            ),
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": schemas.ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route, described: Mapping[type, JsonObject]) -> JsonObject:
    operation: dict[str, JSON] = {"operationId": route.operation, "summary": route.summary}
    parameters: list[JSON] = [
        _parameter(segment[1:-1]) for segment in route.segments if segment.startswith("{")
    ]
    if route.binary:
        length: JsonObject = {"type": "integer", "minimum": 0}
        parameters.append(
            {
                "name": _LENGTH,
                "in": "header",
                "required": False,
                "description": _PARTS,
                "schema": length,
            }
        )
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        body, required = route.body, False
        if isinstance(body, type):
            required = any(field.required for field in msgspec.structs.fields(body))
            body = described[body]
        content: JsonObject = {"application/json": {"schema": body}}
        operation["requestBody"] = {
            "required": required,
            "content": {**content, **_BINARY} if route.binary else content,
        }
    operation["responses"] = _responses(route)
    return operation


def _parameter(name: str) -> JsonObject:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _NAMES[name],
        "schema": {"type": "string", "minLength": 1},
    }


def _responses(route: Route) -> JsonObject:
    content: dict[str, JSON] = {"application/json": {"schema": route.answer}}
    answer: dict[str, JSON] = {"description": "What was asked for", "content": content}
    if route.binary:
        content.update(_BINARY)
        answer["headers"] = {
            _LENGTH: {"description": _PARTS, "schema": {"type": "integer", "minimum": 1}}
        }
    statuses = sorted({*_ALL, *route.statuses, *(_INFERENCE if route.binary else ())})
    return {"200": answer, **{str(status): _error(status) for status in statuses}}


def _error(status: int) -> JsonObject:
    return {
        "description": _ERRORS[status],
        "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(name="Error")}}},
    }
