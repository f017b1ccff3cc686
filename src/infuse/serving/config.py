"""The configuration of the server, one YAML file (`infuse serve --config FILE`): typed, everything
optional. `control/reading.py` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from infuse.runtime.places import cache_root

Positive = Annotated[int, msgspec.Meta(ge=1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Dimension = Annotated[int, msgspec.Meta(ge=-1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Milliseconds = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Config(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Typed fields that never change; a name that is none of them is an error."""


class Tls(Config, frozen=True, kw_only=True):
    """PEM files, read again when they change."""

    certificate: Path
    """Its certificates, as a chain."""
    key: Path
    """The key of the certificate."""
    client_ca: Path | None = None
    """Callers must show a certificate that it signed."""


class Listener(Config, frozen=True, kw_only=True):
    """An address that is listened on."""

    enabled: bool = True
    """Whether it listens."""
    host: str = "127.0.0.1"
    """The address."""
    port: Port = 0
    """0 takes a free one."""
    tls: Tls | None = None
    """Certificates; without them, plain text."""


class Token(Config, frozen=True, kw_only=True):
    """A bearer token, by the SHA-256 of its text; `infuse serve --make-token` prints one."""

    sha256: str
    """The SHA-256 of the token's text."""
    role: Literal["infer", "admin"]
    """What it may do: `infer`, or `admin`, all."""
    name: str = ""
    """What logs call it."""
    models: tuple[str, ...] = ()
    """The only models that it is for; none: all."""


class Security(Config, frozen=True, kw_only=True):
    """Who may call. Without tokens, everybody who reaches a port may; then open no port to
    others.
    """

    tokens: tuple[Token, ...] = ()
    """Tokens that callers may show."""
    admin_on_data_port: bool = False
    """Loading, unloading and rollouts are answered on the data ports as well."""
    compiled_folders: tuple[Path, ...] = ()
    """Repositories from which compiled models, which are native code, are loaded."""
    hosts: tuple[str, ...] = ()
    """Names, besides addresses and local names, by which browsers may call the admin port without a
    token.
    """
    insecure: bool = False
    """Ports may be open to other machines although nobody is asked for a token or a certificate."""


class Limits(Config, frozen=True, kw_only=True):
    """What a caller may ask of the server at most; beyond that, callers are refused."""

    request_bytes: Positive = 64 << 20
    """Bytes of a message, also after decompression."""
    requests_per_second: Seconds = 0
    """Requests of a token, or of an address without tokens; 0: no limit."""
    burst: Positive = 100
    """Requests at once, before `requests_per_second` counts."""
    connections: Positive = 1024
    """Connections at once."""
    header_seconds: Seconds = 10
    """Time until a request's head is there."""
    body_seconds: Seconds = 60
    """Time until its body is there."""
    idle_seconds: Seconds = 75
    """How long a connection without requests stays open."""
    grpc_connection_seconds: Seconds = 0
    """How long a connection stays open; its calls get `request_seconds` to end; 0: no limit."""
    model_bytes: Natural = 0
    """Bytes of one model's files; 0: no limit."""
    request_seconds: Seconds = 300
    """The longest timeout that a request gets; 0: no limit."""


class Workers(Config, frozen=True, kw_only=True):
    """Where models run, and what they may take."""

    mode: Literal["process", "inprocess"] = "process"
    """`process`: each version in workers; `inprocess`: in the server itself."""
    isolation: Literal["model", "packed"] = "model"
    """`model`: a worker for each replica; `packed`: one for each group of cores, replicas packed
    into them.
    """
    cores: Natural = 0
    """Cores for models; 0: all that the process may use."""
    groups: Natural = 0
    """Groups of cores, with `packed`; 0: one for each core."""
    memory_mb: Natural = 0
    """Memory of all models; 0: what the machine or control group has."""
    rebalance_seconds: Seconds = 30
    """Time between looks at whether replicas should move, with `packed`; 0: never."""
    start_seconds: Seconds = 120
    """Time that a worker may take to start; a run while warming up, half of that."""
    build_seconds: Seconds = 900
    """Time that compiling a version may take."""
    build_memory_mb: Natural = 0
    """Memory of each compiling process; 0: half of what the machine or control group has."""
    max_replicas: Natural = 0
    """The most `replicas` of a model; 0: four for each processor, at least eight."""
    max_all_replicas: Natural = 0
    """The most replicas of all models; 0: 64 for each processor, at least 256."""
    retries: Natural = 1
    """How often a request is run again whose worker was lost."""
    awake_ms: Seconds = 1.0
    """Time within which messages must follow each other for server and workers not to sleep
    between; 0: they always do.
    """


class Telemetry(Config, frozen=True, kw_only=True):
    """Logs and traces."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged: `debug`, `info`, `warning`, `error`."""
    log_format: Literal["text", "json"] = "text"
    """`text`, or `json`, one object a line."""
    access_log: bool = False
    """A line for each request."""
    traces: str = ""
    """An OTLP endpoint over gRPC (`http://host:4317`), or `console`; without it, none."""
    trace_share: Share = 1.0
    """Share of requests without a traceparent that are traced."""


class ServerConfig(Config, frozen=True, kw_only=True):
    """All of a server: the file of `--config`."""

    repository: str = ""
    """A folder, or `s3://bucket/prefix`."""
    store_options: Mapping[str, str] = {}
    """Options of the object store: `endpoint`, `region`, `access_key_id`, `secret_access_key`,
    `allow_http`.
    """
    cache: Path | None = None
    """Folder of copies, compiled models and state; without it `serving` in `$INFUSE_CACHE`, or in
    the user's cache.
    """
    cache_bytes: Natural = 20 << 30
    """Bytes of copies on disk, above which those go that were used longest ago; what is loaded
    stays; 0: no limit.
    """
    state: Path | None = None
    """The file of what operators and rollouts have set; one server at a time owns it; without it,
    one for each repository in the cache.
    """
    control: Literal["poll", "explicit", "none"] = "poll"
    """`poll`: look for changes; `explicit`: load `models`, and what is asked for; `none`: load all
    once.
    """
    poll_seconds: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    """Time between two looks at the repository."""
    models: tuple[str, ...] = ()
    """Models that are loaded at the start, with `explicit`."""
    strict_readiness: bool = False
    """Ready only while all models that are to be loaded serve and the repository can be read;
    otherwise once each was tried, and while those that served do.
    """
    parallel_loads: Positive = 2
    """Versions that are built and started at the same time."""
    exit_seconds: Seconds = 30
    """Time that requests under way get when the server ends."""
    http: Listener = Listener(port=8000)
    """Where callers reach HTTP, by default port 8000."""
    grpc: Listener = Listener(port=8001)
    """Where callers reach gRPC, by default port 8001."""
    admin: Listener = Listener(port=8002)
    """Where changes, metrics and console are, by default port 8002."""
    security: Security = Security()
    """Who may call."""
    limits: Limits = Limits()
    """What callers may ask."""
    workers: Workers = Workers()
    """Where models run."""
    telemetry: Telemetry = Telemetry()
    """Logs and traces."""
    model_defaults: Mapping[str, Any] = {}
    """Fields of `ModelConfig` for models that do not say otherwise."""

    @property
    def cache_folder(self) -> Path:
        """Where copies and state are kept: `cache`, else a folder in `$INFUSE_CACHE` or the user's
        cache.
        """
        return self.cache or cache_root() / "serving"
