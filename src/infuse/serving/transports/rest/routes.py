"""The table of what can be asked for: the router finds a route in it, and the OpenAPI document
describes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from infuse.errors import NotFoundError, RequestError, TooLargeError
from infuse.serving.config import ServerConfig
from infuse.serving.control.callers import ANYBODY, Caller
from infuse.serving.messages import JSON, JsonObject
from infuse.serving.transports.coders import Coders
from infuse.serving.transports.elements import Buffer
from infuse.serving.transports.rest.refusals import Refusal
from infuse.serving.transports.security import Role

if TYPE_CHECKING:
    from infuse.serving.control.placements import PlacementDescription
    from infuse.serving.control.rollout.description import TrafficDescription
    from infuse.serving.engine.interface import ServingEngine
    from infuse.serving.messages import ModelMetadata, ServerMetadata
    from infuse.serving.transports.console.data import ConsoleSnapshot

_T = TypeVar("_T")

Plain: TypeAlias = (
    "JSON | ModelMetadata | ServerMetadata | TrafficDescription | PlacementDescription"
    " | ConsoleSnapshot"
)
"""What a route answers with, as JSON."""
_WILD: Final = ""
_MOST_BYTES: Final = 256 << 10
"""Of a body that is read at once: none but those of inference and of loading has reason to be
larger.
"""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that is being answered: `names` are what the path's templates stand for."""

    engine: ServingEngine
    config: ServerConfig
    names: Mapping[str, str]
    body: Buffer
    caller: Caller = ANYBODY
    coders: Coders | None = None

    @property
    def model(self) -> str:
        """The name of the model that the path names."""
        return self.names.get("model_name", "")

    @property
    def version(self) -> str:
        """The version or label that the path names, or nothing."""
        return self.names.get("model_version", "")

    def read(self, kind: type[_T]) -> _T:
        """The body as `read_body` reads it; TooLargeError for one that is too large to be read at
        once.
        """
        if len(self.body) > _MOST_BYTES:
            raise TooLargeError(
                f"the body has {len(self.body)} bytes, at most {_MOST_BYTES} are taken here"
            )
        return read_body(self.body, kind)


def read_body(body: Buffer, kind: type[_T]) -> _T:
    """JSON as a message of this kind; nothing is an empty object. RequestError when it is none."""
    body = body or b"{}"
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError):
            with contextlib.suppress(
                msgspec.DecodeError, UnicodeDecodeError, RecursionError
            ):  # the first is told
                return msgspec.convert(_whole(msgspec.json.decode(body)), type=kind)
        raise RequestError(f"the body is not what is taken here: {error}") from error


def _whole(value: JSON) -> JSON:
    """JSON in which whole numbers are integers, however they are written: 7.0 is one for JSON
    Schema.
    """
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


Handler = Callable[[Call], Awaitable[Plain]]


@dataclass(frozen=True, slots=True)
class Route:
    """A method of a path. `template` has `{names}`; `body` is the JSON that is taken, as a type or
    a schema, and `answer` the schema of what is given.

    `statuses`: of errors that this route has besides those that all have. `documented`: whether the
    OpenAPI document tells of it. `binary`: whether the binary tensor extension is understood.
    """

    method: str
    template: str
    operation: str
    summary: str
    role: Role
    handler: Handler | None
    body: type[msgspec.Struct] | JsonObject | None = None
    answer: JsonObject | None = None
    statuses: tuple[int, ...] = ()
    documented: bool = True
    binary: bool = False

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path."""
        return tuple(self.template.strip("/").split("/"))


@dataclass(slots=True)
class _Node:
    children: dict[str, _Node] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)


class Router:
    """Finds the route of a method and path; a literal part of a path goes before a template's
    name.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            for segment in route.segments:
                node = node.children.setdefault(
                    _WILD if segment.startswith("{") else segment, _Node()
                )
            node.routes[route.method] = route

    def find(self, method: str, path: str | bytes) -> tuple[Route, Mapping[str, str]]:
        """The route, and what its names stand for. NotFoundError; Refusal (405) for another
        method.
        """
        parts = segments(path)
        match = _found(self._root, parts, 0)
        if match is None:
            raise NotFoundError(
                "there is nothing at this address", hint="GET /openapi.json tells what there is"
            )
        route = match.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = sorted(match.routes)
            if "GET" in match.routes:
                allowed.append("HEAD")
            raise Refusal(405, f"{method} is not taken here", headers={"allow": ", ".join(allowed)})
        names = {
            name[1:-1]: part for name, part in zip(route.segments, parts) if name.startswith("{")
        }
        return route, names


def _found(node: _Node, parts: list[str], place: int) -> _Node | None:
    if place == len(parts):
        return node if node.routes else None
    for name in (parts[place], _WILD):
        child = node.children.get(name)
        if child is not None and (name or parts[place]):
            match = _found(child, parts, place + 1)
            if match is not None:
                return match
    return None


def segments(path: str | bytes) -> list[str]:
    """The parts of a path as it was sent, each decoded by itself; RequestError when that gives no
    text.
    """
    raw = path.encode() if isinstance(path, str) else path
    return [name_of(part) for part in raw.strip(b"/").split(b"/")]


def name_of(part: bytes) -> str:
    """A part of a path without percent encoding."""
    try:
        return (unquote_to_bytes(part) if b"%" in part else part).decode()
    except UnicodeDecodeError as error:
        raise RequestError("the path is not UTF-8") from error
