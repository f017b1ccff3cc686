"""The configuration of a model: `config.yaml` in its folder, or Triton's `config.pbtxt`, which
`repository/pbtxt.py` turns into the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from infuse.serving.config import (
    Config,
    Dimension,
    Milliseconds,
    Natural,
    Positive,
    Seconds,
    Share,
)
from infuse.serving.control.compiling import Compiling

MOST_WEIGHT: Final = 1e9
"""Of a version in a split: sums of weights stay numbers."""
_MOST_STEPS: Final = 100  # of a rollout


class Batching(Config, frozen=True, kw_only=True):
    """How requests are put together."""

    max_size: Natural = 0
    """Rows of a batch; 0: as many as pay, 1: no batching."""
    latency_target_ms: Milliseconds | None = None
    """Time within which requests are answered, where that can be."""
    dynamic: bool = True
    """Whether requests are put together at all."""
    independent_rows: bool = False
    """Whether rows are stated to be independent where that is not proven; it is tried."""
    max_queue: Positive = 1024
    """Rows that wait at most; more are refused."""
    pad: Mapping[str, float] = {}
    """The value that shorter requests are filled up with, by input; inputs without one are grouped
    by shape.
    """
    priority_levels: Natural = 0
    """How many there are, 1 is the highest; 0: all are alike."""
    default_priority: Natural = 0
    """The priority of a request without one; 0: the middle one."""
    default_timeout_ms: Seconds = 0
    """The timeout of a request without one; 0: none."""
    timeout_action: Literal["reject", "delay"] = "reject"
    """`reject` a request that waited longer, or `delay` it behind the others."""
    preserve_ordering: bool = False
    """Whether answers come in the order of the requests."""
    required: bool = False
    """Whether a model without a free first dimension everywhere is refused."""


class VersionPolicy(Config, frozen=True, kw_only=True):
    """Which versions of a model are served: one of these."""

    latest: Positive | None = None
    """So many of the latest."""
    all: bool = False
    """Whether all serve."""
    specific: tuple[Positive, ...] = ()
    """Those with these numbers."""


class Canary(Config, frozen=True, kw_only=True):
    """How a new version gets its traffic: in steps, each held for so long, back to the old one when
    it is more than chance that one of the bounds is exceeded.
    """

    steps: Annotated[tuple[Share, ...], msgspec.Meta(max_length=_MOST_STEPS)] = (
        0.05,
        0.25,
        0.5,
        1.0,
    )
    """Shares of the traffic, rising."""
    step_seconds: Seconds = 60
    """Time that each step is held at least."""
    min_requests: Natural = 20
    """Requests that a step must have had."""
    max_error_rate: Share = 0.02
    """How much more of the new version's requests may fail than of the old one's."""
    latency_quantile: Share = 0.95
    """The quantile of latencies that is compared."""
    max_latency_ratio: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    """The bound of the new version's latency over the old one's."""
    shadow: Share = 0.0
    """Part of the old version's requests that the new one gets as well, to compare answers."""
    max_drift: Annotated[float, msgspec.Meta(ge=0)] = 0.05
    """The difference of an output, relative to the largest magnitude of the old one, from which on
    it differs.
    """
    max_drift_rate: Share = 0.05
    """The bound of the share of compared answers that differ."""
    new_signature: bool = False
    """Whether a version, too, gets traffic whose inputs or outputs do not suit the old one's
    callers.
    """


class Sticky(Config, frozen=True, kw_only=True):
    """What a sticky split hashes."""

    header: str = ""
    """The header whose value is hashed."""
    id: bool = False
    """Whether a request's id is hashed."""


class Warmup(Config, frozen=True, kw_only=True):
    """Runs before a version is ready."""

    enabled: bool = True
    """Whether there are any."""
    seconds: Seconds = 5.0
    """Time that they may take."""
    inputs: str = ""
    """A .npz file in the model's folder; without it, inputs are random."""
    sizes: Mapping[str, Positive] = {}
    """Sizes of symbolic dimensions, by name, for random inputs."""


class PipelineStep(Config, frozen=True, kw_only=True):
    """A step of a pipeline: a model or a built-in whose inputs are fed from named values."""

    model: str = ""
    """The model's name."""
    version: str = ""
    """Number or label; without it, the model's traffic decides."""
    builtin: str = ""
    """A built-in step: `decode_image`, `decode_audio`, `tokenize`, `detokenize`, `softmax`,
    `topk_labels`, `mean_pool`.
    """
    options: Mapping[str, Any] = {}
    """Options of the built-in step."""
    inputs: Mapping[str, str] = {}
    """Names of values, by the step's inputs."""
    outputs: Mapping[str, str] = {}
    """Names of values, by the step's outputs."""


class TensorConfig(Config, frozen=True, kw_only=True):
    """An input or output of a pipeline."""

    name: str
    """The name of the value."""
    datatype: str
    """The protocol's type."""
    shape: tuple[int, ...]
    """Its sizes; -1: any."""


class DeclaredTensor(Config, frozen=True, kw_only=True):
    """What a model's input or output must be, else it is not loaded."""

    name: str
    """The name that the model has for it."""
    datatype: str
    """The protocol's type: `FP32`, `INT64`, `BYTES` …"""
    shape: tuple[Dimension, ...] | None = None
    """What callers see and requests are held against, -1: any; without it, the model's."""
    reshape: tuple[Dimension, ...] | None = None
    """The model's shape, with as many -1 and as many elements between them."""


class Pipeline(Config, frozen=True, kw_only=True):
    """Models that run one after another inside the server, as a graph of named values."""

    inputs: tuple[TensorConfig, ...]
    """Inputs of requests."""
    outputs: tuple[TensorConfig, ...]
    """Outputs of answers."""
    steps: tuple[PipelineStep, ...]
    """Steps in any order: each runs as soon as its inputs are there."""


class ModelConfig(Compiling, frozen=True, kw_only=True):
    """What `config.yaml` beside a model's versions, or `model_defaults`, may say. Everything that
    is left out is inferred.
    """

    name: str = ""
    """The folder's name, if any is given."""
    platform: str = ""
    """What metadata say of the model; it changes nothing else."""
    file: str = ""
    """The name of the model's file in a version's folder."""
    batching: Batching = Batching()
    """How requests are put together."""
    replicas: Natural = 0
    """Workers of a version; 0: as many as is measured to be best."""
    threads: Natural = 0
    """Threads of each replica; 0: all of its cores."""
    version_policy: VersionPolicy = VersionPolicy(latest=1)
    """Which versions serve."""
    labels: Mapping[str, Positive] = {}
    """Version numbers by label."""
    split: Mapping[str, Annotated[float, msgspec.Meta(ge=0, le=MOST_WEIGHT)]] = {}
    """Weights of the traffic by version or label."""
    sticky: Sticky = Sticky()
    """What keeps a caller with a version."""
    shadow: Mapping[str, Share] = {}
    """Part of the traffic that a version or label gets besides, by version or label; its answers
    are compared, and thrown away.
    """
    canary: Canary | None = None
    """How new versions get their traffic; without it, all at once."""
    load_order: Literal["load_first", "unload_first"] = "load_first"
    """`load_first`: a new version is loaded before the old one is unloaded; `unload_first`: after
    it.
    """
    warmup: Warmup = Warmup()
    """Runs before a version is ready."""
    timeout_ms: Seconds = 0
    """Time after which a run counts as hung; 0: twenty times the expected, at least ten seconds."""
    finite: bool = False
    """Whether outputs that are not finite are an error."""
    memory_mb: Natural = 0
    """Memory of a worker; 0: no limit."""
    sha256: Mapping[str, str] = {}
    """SHA-256 of files, by their path in the model's folder; others are refused."""
    label_files: Mapping[str, str] = {}
    """Files with the names of classes, one a line, by output."""
    inputs: tuple[DeclaredTensor, ...] = ()
    """All inputs that the model must have; none: what it has."""
    outputs: tuple[DeclaredTensor, ...] = ()
    """Outputs that callers get, in this order; none: what it has."""
    pipeline: Pipeline | None = None
    """A graph of other models, which the model is then."""
    objectives: tuple[Objective, ...] = ()
    """Service levels."""
    parameters: Mapping[str, str] = {}
    """For people: shown with the configuration."""


class Objective(Config, frozen=True, kw_only=True):
    """A service level. An alert burns when the budget for bad requests is used too fast."""

    name: str
    """What metrics and events call it."""
    target: Share = 0.99
    """Share of requests that are to be good."""
    latency_ms: Milliseconds | None = None
    """Time within which a good request is answered; without it, whenever it is."""
    window_seconds: Annotated[float, msgspec.Meta(gt=0)] = 3600
    """Time over which requests are counted."""
    burn_rate: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    """How many times too fast the budget may be used, over a twelfth of the window and over all of
    it.
    """
