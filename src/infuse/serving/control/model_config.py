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
    """How requests are put together.

    `max_size`: rows of a batch; 0: as many as the model's first dimension allows and pays for, 1:
    no batching. `latency_target_ms`: a batch is chosen so that its requests are answered within
    this, where that can be. `max_queue`: rows that wait at most; more are refused. `pad`: for
    ragged requests, the value that an input is filled up with, by input name; inputs that are not
    named are grouped by shape. `dynamic`: whether requests are put together at all.
    `independent_rows`: they may be although it is not proven that each row of the outputs depends
    on that row of the inputs alone; it is tried. `priority_levels`: 1 is the highest; a request
    without a priority has `default_priority` (0: the middle one). `default_timeout_ms`: for
    requests that bring no timeout (0: none); `timeout_action` what happens to one that waited
    longer. `required`: a model whose inputs and outputs do not all have a free first dimension is
    refused.
    """

    max_size: Natural = 0
    latency_target_ms: Milliseconds | None = None
    dynamic: bool = True
    independent_rows: bool = False
    max_queue: Positive = 1024
    pad: Mapping[str, float] = {}
    priority_levels: Natural = 0
    default_priority: Natural = 0
    default_timeout_ms: Seconds = 0
    timeout_action: Literal["reject", "delay"] = "reject"
    preserve_ordering: bool = False
    required: bool = False


class VersionPolicy(Config, frozen=True, kw_only=True):
    """Which versions of a model are served: the latest so many, all, or those that are named."""

    latest: Positive | None = None
    all: bool = False
    specific: tuple[Positive, ...] = ()


class Canary(Config, frozen=True, kw_only=True):
    """How a new version gets its traffic: in steps, each held for so long, back to the old one when
    it is worse.

    `steps`: its share of the traffic, rising. It is rolled back when, with at least `min_requests`
    of its own in a step, its error rate exceeds the old one's by `max_error_rate`, its latency at
    `latency_quantile` exceeds `max_latency_ratio` times the old one's, or the part of compared
    outputs that differ by more than `max_drift` (relative to the largest magnitude of the old
    output) exceeds `max_drift_rate`. Outputs are compared by sending `shadow` of the old version's
    requests to the new one as well. A version that does not take what the old one takes, or does
    not give what it gives, is held, unless `new_signature` says that it may come.
    """

    steps: Annotated[tuple[Share, ...], msgspec.Meta(max_length=_MOST_STEPS)] = (
        0.05,
        0.25,
        0.5,
        1.0,
    )
    step_seconds: Seconds = 60
    min_requests: Natural = 20
    max_error_rate: Share = 0.02
    latency_quantile: Share = 0.95
    max_latency_ratio: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    shadow: Share = 0.0
    max_drift: Annotated[float, msgspec.Meta(ge=0)] = 0.05
    max_drift_rate: Share = 0.05
    new_signature: bool = False


class Sticky(Config, frozen=True, kw_only=True):
    """What a sticky split hashes: the value of a header, or the id of the request."""

    header: str = ""
    id: bool = False


class Warmup(Config, frozen=True, kw_only=True):
    """Runs before a version is ready; `seconds` is the most that they may take. `inputs`: a .npz
    file in the model's folder; without it, random inputs are made. `sizes` of symbolic dimensions
    by name, for those.
    """

    enabled: bool = True
    seconds: Seconds = 5.0
    inputs: str = ""
    sizes: Mapping[str, Positive] = {}


class PipelineStep(Config, frozen=True, kw_only=True):
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


class TensorConfig(Config, frozen=True, kw_only=True):
    """An input or output of a pipeline: name, protocol type, sizes (-1: any)."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class DeclaredTensor(Config, frozen=True, kw_only=True):
    """What a model's input or output must be, else it is not loaded: name, protocol type, sizes
    (-1: any).

    Callers see `shape`, and requests are held against it; without it, the model's own. The model
    has `reshape`, if that is there: as many -1 as `shape`, and between them as many elements.
    """

    name: str
    datatype: str
    shape: tuple[Dimension, ...] | None = None
    reshape: tuple[Dimension, ...] | None = None


class Pipeline(Config, frozen=True, kw_only=True):
    """Models that run one after another inside the server, as a graph of named values."""

    inputs: tuple[TensorConfig, ...]
    outputs: tuple[TensorConfig, ...]
    steps: tuple[PipelineStep, ...]


class ModelConfig(Compiling, frozen=True, kw_only=True):
    """What `config.yaml` beside a model's versions may say. Everything that is left out is
    inferred.

    Options of `infuse.compile` are fields, too (`Compiling`; `max_difference` 0: 0.01).
    `replicas`: workers per version (0: the placement decides);
    `threads` of each (0: all of its cores). `load_order`: whether a new version is loaded before
    the old one is unloaded. `labels`:
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
    batching: Batching = Batching()
    replicas: Natural = 0
    threads: Natural = 0
    version_policy: VersionPolicy = VersionPolicy(latest=1)
    labels: Mapping[str, Positive] = {}
    split: Mapping[str, Annotated[float, msgspec.Meta(ge=0, le=MOST_WEIGHT)]] = {}
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


class Objective(Config, frozen=True, kw_only=True):
    """A service level: at least `target` of the requests are good (answered, within `latency_ms` if
    that is set), counted over `window_seconds`. An alert burns when the budget is used `burn_rate`
    times too fast over both the window's twelfth and the whole window.
    """

    name: str
    target: Share = 0.99
    latency_ms: Milliseconds | None = None
    window_seconds: Annotated[float, msgspec.Meta(gt=0)] = 3600
    burn_rate: Annotated[float, msgspec.Meta(gt=0)] = 2.0
