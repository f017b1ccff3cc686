"""The configuration of the server and of a model: typed, checked when read, everything optional.

A server's is one YAML file (`infuse serve --config FILE`), a model's is `config.yaml` in its folder
(or Triton's `config.pbtxt`, which `repository/pbtxt.py` turns into the same). An unknown field is
an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from infuse.errors import ConfigurationError
from infuse.runtime.places import cache_root
from infuse.serving.misspelt import meant
from infuse.serving.yamltext import read_yaml

_T = TypeVar("_T")

Positive = Annotated[int, msgspec.Meta(ge=1)]
Natural = Annotated[int, msgspec.Meta(ge=0)]
Dimension = Annotated[int, msgspec.Meta(ge=-1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Milliseconds = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class _Config(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    pass


# ------------------------------------------------------------------------------------------ a model


class Batching(_Config, frozen=True, kw_only=True):
    """How requests are put together.

    `max_size`: rows of a batch; 0: as many as the model's first dimension allows and pays for, 1:
    no batching. `latency_target_ms`: a batch is chosen so that its requests are answered within
    this, where that can be. `max_queue`: rows that wait at most; more are refused. `pad`: for
    ragged requests, the value that an input is filled up with, by input name; inputs that are not
    named are grouped by shape. `priority_levels`: 1 is the highest; a request without a priority
    has `default_priority` (0: the middle one). `default_timeout_ms`: for requests that bring no
    timeout (0: none); `timeout_action` what happens to one that waited longer. `required`: a model
    whose inputs and outputs do not all have a free first dimension is refused.
    """

    max_size: Natural = 0
    latency_target_ms: Milliseconds | None = None
    max_queue: Positive = 1024
    pad: Mapping[str, float] = {}
    priority_levels: Natural = 0
    default_priority: Natural = 0
    default_timeout_ms: Seconds = 0
    timeout_action: Literal["reject", "delay"] = "reject"
    preserve_ordering: bool = False
    required: bool = False


class VersionPolicy(_Config, frozen=True, kw_only=True):
    """Which versions of a model are served: the latest so many, all, or those that are named."""

    latest: Positive | None = None
    all: bool = False
    specific: tuple[Positive, ...] = ()


class Canary(_Config, frozen=True, kw_only=True):
    """How a new version gets its traffic: in steps, each held for so long, back to the old one when
    it is worse.

    `steps`: its share of the traffic, rising. It is rolled back when, with at least `min_requests`
    of its own in a step, its error rate exceeds the old one's by `max_error_rate`, its latency at
    `latency_quantile` exceeds `max_latency_ratio` times the old one's, or the part of compared
    outputs that differ by more than `max_drift` (relative to the largest magnitude of the old
    output) exceeds `max_drift_rate`. Outputs are compared by sending `shadow` of the old version's
    requests to the new one as well.
    """

    steps: tuple[Share, ...] = (0.05, 0.25, 0.5, 1.0)
    step_seconds: Seconds = 60
    min_requests: Natural = 20
    max_error_rate: Share = 0.02
    latency_quantile: Share = 0.95
    max_latency_ratio: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    shadow: Share = 0.0
    max_drift: Annotated[float, msgspec.Meta(ge=0)] = 0.05
    max_drift_rate: Share = 0.05


class Sticky(_Config, frozen=True, kw_only=True):
    """What a sticky split hashes: the value of a header, or the id of the request."""

    header: str = ""
    id: bool = False


class Warmup(_Config, frozen=True, kw_only=True):
    """Runs before a version is ready; `seconds` is the most that they may take. `inputs`: a .npz
    file in the model's folder; without it, random inputs are made. `sizes` of symbolic dimensions
    by name, for those.
    """

    enabled: bool = True
    seconds: Seconds = 5.0
    inputs: str = ""
    sizes: Mapping[str, Positive] = {}


class PipelineStep(_Config, frozen=True, kw_only=True):
    """A step of a pipeline: a model (or a built-in such as `decode_image`) whose inputs are fed
    from named values.

    `inputs`: input name of the step → name of a value; `outputs`: output name of the step → name of
    a value.
    """

    model: str = ""
    version: str = ""
    builtin: str = ""
    options: Mapping[str, Any] = {}
    inputs: Mapping[str, str] = {}
    outputs: Mapping[str, str] = {}


class TensorConfig(_Config, frozen=True, kw_only=True):
    """An input or output of a pipeline: name, protocol type, sizes (-1: any)."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class DeclaredTensor(_Config, frozen=True, kw_only=True):
    """What a model's input or output must be, else it is not loaded: name, protocol type, sizes
    (-1: any).

    Callers see `shape`, and requests are held against it; without it, the model's own. The model
    has `reshape`, if that is there: as many -1 as `shape`, and between them as many elements.
    """

    name: str
    datatype: str
    shape: tuple[Dimension, ...] | None = None
    reshape: tuple[Dimension, ...] | None = None


class Pipeline(_Config, frozen=True, kw_only=True):
    """Models that run one after another inside the server, as a graph of named values."""

    inputs: tuple[TensorConfig, ...]
    outputs: tuple[TensorConfig, ...]
    steps: tuple[PipelineStep, ...]


class ModelConfig(_Config, frozen=True, kw_only=True):
    """What `config.yaml` beside a model's versions may say. Everything that is left out is
    inferred.

    `replicas`: workers per version (0: the placement decides); `threads` of each (0: all of its
    cores). `load_order`: whether a new version is loaded before the old one is unloaded. `labels`:
    version numbers by label. `split`: weights by version or label; `shadow`: part of the traffic
    that a version or label gets besides, its answers being compared and thrown away. `timeout_ms`:
    a run that takes longer is taken for hung (0: twenty times the expected, at least ten seconds).
    `finite`: outputs that are not finite are an error. `memory_mb`: of a worker, 0 no limit.
    `label_files`: by output, a file in the model's folder with the names of its classes, one a
    line. `inputs`: all that the model must have; `outputs`: those that callers get, in this order
    (none: what the model has).
    """

    name: str = ""
    platform: str = ""
    file: str = ""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    tune: bool = False
    batching: Batching = Batching()
    replicas: Natural = 0
    threads: Natural = 0
    version_policy: VersionPolicy = VersionPolicy(latest=1)
    labels: Mapping[str, Positive] = {}
    split: Mapping[str, Annotated[float, msgspec.Meta(ge=0)]] = {}
    sticky: Sticky = Sticky()
    shadow: Mapping[str, Share] = {}
    canary: Canary | None = None
    load_order: Literal["load_first", "unload_first"] = "load_first"
    warmup: Warmup = Warmup()
    timeout_ms: Seconds = 0
    finite: bool = False
    memory_mb: Natural = 0
    sha256: Mapping[str, str] = {}
    label_files: Mapping[str, str] = {}
    inputs: tuple[DeclaredTensor, ...] = ()
    outputs: tuple[DeclaredTensor, ...] = ()
    pipeline: Pipeline | None = None
    objectives: tuple[Objective, ...] = ()
    parameters: Mapping[str, str] = {}


class Objective(_Config, frozen=True, kw_only=True):
    """A service level: at least `target` of the requests are good (answered, within `latency_ms` if
    that is set), counted over `window_seconds`. An alert burns when the budget is used `burn_rate`
    times too fast over both the window's twelfth and the whole window.
    """

    name: str
    target: Share = 0.99
    latency_ms: Milliseconds | None = None
    window_seconds: Annotated[float, msgspec.Meta(gt=0)] = 3600
    burn_rate: Annotated[float, msgspec.Meta(gt=0)] = 2.0


# --------------------------------------------------------------------------------------- the server


class Tls(_Config, frozen=True, kw_only=True):
    """Certificates in PEM files. With `client_ca`, callers must show a certificate that it signed
    (mutual TLS).
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Listener(_Config, frozen=True, kw_only=True):
    """An address that is listened on; port 0 takes a free one."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Port = 0
    tls: Tls | None = None


class Token(_Config, frozen=True, kw_only=True):
    """A bearer token by the SHA-256 of its text, and what it may do. `models` it is limited to
    (empty: all).
    """

    sha256: str
    role: Literal["infer", "admin"]
    name: str = ""
    models: tuple[str, ...] = ()


class Security(_Config, frozen=True, kw_only=True):
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


class Limits(_Config, frozen=True, kw_only=True):
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


class Workers(_Config, frozen=True, kw_only=True):
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


class Telemetry(_Config, frozen=True, kw_only=True):
    """Logs as JSON lines, traces to an OTLP endpoint (`http://host:4317`; `console` prints
    them).
    """

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    access_log: bool = False
    traces: str = ""
    trace_share: Share = 1.0


class ServerConfig(_Config, frozen=True, kw_only=True):
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


_UNKNOWN: Final = "fields are listed in docs/serving.md"


def parse(kind: type[_T], text: str | bytes, where: str) -> _T:
    """A configuration from YAML (or JSON) text; ConfigurationError names the field that is
    wrong.
    """
    plain = read_yaml(text, where)
    return convert(kind, {} if plain is None else plain, where)


def convert(kind: type[_T], plain: Any, where: str) -> _T:
    """A configuration from plain data."""
    try:
        return msgspec.convert(plain, kind, strict=False, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            str(error), where=where, hint=meant(kind, str(error)) or _UNKNOWN
        ) from error


def _decoded(kind: type[Any], plain: Any) -> Any:
    """What msgspec does not know: paths from text."""
    if kind is Path and isinstance(plain, str | Path):
        return Path(plain)
    raise TypeError(f"expected {kind.__name__}, got {type(plain).__name__}")


def read_plain(path: Path) -> dict[str, Any]:
    """The fields of a configuration file, not yet checked; ConfigurationError when it cannot be
    read or is no YAML.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"it cannot be read: {error.strerror or error}", where=str(path)
        ) from error
    return parse(dict[str, Any], text, str(path))


def value_of(text: str) -> Any:
    """A value as it is written in YAML: a number, a truth value, a list, or text."""
    try:
        return read_yaml(text, "")
    except ConfigurationError as error:
        raise ConfigurationError(f"{text[:100]!r} is no value: {error.what}") from error
