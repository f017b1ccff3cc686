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
    """Certificates in PEM files. With `client_ca`, callers must show a certificate that it signed
    (mutual TLS).
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Listener(Config, frozen=True, kw_only=True):
    """An address that is listened on; port 0 takes a free one."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Port = 0
    tls: Tls | None = None


class Token(Config, frozen=True, kw_only=True):
    """A bearer token by the SHA-256 of its text, and what it may do. `models` it is limited to
    (empty: all).
    """

    sha256: str
    role: Literal["infer", "admin"]
    name: str = ""
    models: tuple[str, ...] = ()


class Security(Config, frozen=True, kw_only=True):
    """Who may call. Without tokens, everybody who reaches a port may; then open no port to others.

    `admin_on_data_port`: loading, unloading and rollouts are answered on the data ports too, for an
    admin's token (or anybody, if there are no tokens). `compiled_folders`: repositories from which
    compiled models, which are native code, are loaded; others are refused. `hosts`: names, other
    than addresses and names of the local network, by which browsers may call the admin port without
    a token. `insecure`: ports may be open to other machines although nobody is asked for a token or
    a certificate.
    """

    tokens: tuple[Token, ...] = ()
    admin_on_data_port: bool = False
    compiled_folders: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    insecure: bool = False


class Limits(Config, frozen=True, kw_only=True):
    """What a caller may ask of the server at most."""

    request_bytes: Positive = 64 << 20
    requests_per_second: Seconds = 0  # per token, or per address without tokens; 0: no limit
    burst: Positive = 100
    connections: Positive = 1024
    header_seconds: Seconds = 10
    body_seconds: Seconds = 60
    idle_seconds: Seconds = 75
    grpc_connection_seconds: Seconds = (
        0  # the calls of an older connection get `request_seconds` to end; 0: no limit
    )
    model_bytes: Natural = 0  # of one model's files; 0: no limit
    request_seconds: Seconds = 300  # the longest timeout that a request gets


class Workers(Config, frozen=True, kw_only=True):
    """Where models run. `process`: each version in worker processes; `inprocess`: in the server
    itself.

    `isolation`: `model`: a worker per replica; `packed`: one per group of cores, versions packed
    into them by load and size. `cores`: how many there are for models (0: all this process may
    use); `groups` of them (0: one per core); `memory_mb` of all (0: what the machine has).
    `rebalance_seconds`: how often replicas are moved between groups when the measured load calls
    for it (0: never). Starting a worker takes at most `start_seconds`, and a run while warming up
    half of that. Compiling a version takes at most `build_seconds`, and `build_memory_mb` in each
    of its processes (0: half of what the machine has). Where messages follow each other within
    `awake_ms`, server and workers wait for them without sleeping (0: never). `max_replicas`: what a
    model's `replicas` may be at most (0: four for each processor, at least eight);
    `max_all_replicas`: how many all models may have together (0: 64 for each processor, at least
    256).
    """

    mode: Literal["process", "inprocess"] = "process"
    isolation: Literal["model", "packed"] = "model"
    cores: Natural = 0
    groups: Natural = 0
    memory_mb: Natural = 0
    rebalance_seconds: Seconds = 30
    start_seconds: Seconds = 120
    build_seconds: Seconds = 900
    build_memory_mb: Natural = 0
    max_replicas: Natural = 0
    max_all_replicas: Natural = 0
    retries: Natural = 1
    awake_ms: Seconds = 1.0


class Telemetry(Config, frozen=True, kw_only=True):
    """Logs as JSON lines, traces to an OTLP endpoint (`http://host:4317`; `console` prints
    them).
    """

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    access_log: bool = False
    traces: str = ""
    trace_share: Share = 1.0


class ServerConfig(Config, frozen=True, kw_only=True):
    """All of a server.

    `repository`: a folder, or `s3://bucket/prefix`. `control`: `poll` looks for changes every
    `poll_seconds`; `explicit` loads what is asked for, and `models` at the start; `none` loads all
    once. `strict_readiness`: ready only while all models that are to be loaded serve and the
    repository can be read; otherwise once each was tried, and while those that served do.
    `cache_bytes`: what copies of models may take on disk before those go that were used longest
    ago; those that are loaded stay (0: no limit). `state`: the file of what operators and rollouts
    have set (by default, one for each repository in the cache); one server at a time owns it.
    `model_defaults` stands for the config of models that have no field of their own.
    """

    repository: str = ""
    store_options: Mapping[str, str] = {}
    cache: Path | None = None
    cache_bytes: Natural = 20 << 30
    state: Path | None = None
    control: Literal["poll", "explicit", "none"] = "poll"
    poll_seconds: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    models: tuple[str, ...] = ()
    strict_readiness: bool = False
    parallel_loads: Positive = 2
    exit_seconds: Seconds = 30
    http: Listener = Listener(port=8000)
    grpc: Listener = Listener(port=8001)
    admin: Listener = Listener(port=8002)
    security: Security = Security()
    limits: Limits = Limits()
    workers: Workers = Workers()
    telemetry: Telemetry = Telemetry()
    model_defaults: Mapping[str, Any] = {}

    @property
    def cache_folder(self) -> Path:
        """Where copies and state are kept: `cache`, else a folder in `$INFUSE_CACHE` or the user's
        cache.
        """
        return self.cache or cache_root() / "serving"
