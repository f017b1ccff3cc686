"""Which stage takes the time of a version's requests, and what would help, as far as the numbers
tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infuse.serving.control.telemetry.statistics import FEWEST, BatchCounts, Counts, Recent
from infuse.serving.control.telemetry.views import EngineView, VersionView
from infuse.serving.messages import JSON

# Part of its time from which on a replica has no room; of the cores, from which on another one
# would only take from others; of the time per row, up to which a larger batch is worth a word.
_BUSY: Final = 0.8
_IDLE: Final = 0.5
_LARGE: Final = 64 << 10  # bytes of a request or an answer whose way takes time of its own


@dataclass(frozen=True)
class _Load:
    """A version's load in some time. `busy`: part of the time that its replicas computed;
    `cores_busy`: of all cores, with all versions; `cores_free`: cores that no model used.
    """

    counts: Counts
    seconds: float
    stages: Mapping[str, float]
    replicas: int
    threads: int
    busy: float
    cores: int
    cores_busy: float
    batches: Mapping[int, BatchCounts]

    @property
    def mean_batch(self) -> float:
        return self.counts.rows / self.counts.executions if self.counts.executions else 0.0

    @property
    def received(self) -> float:
        """Bytes of a request's inputs."""
        return self.counts.bytes_in / max(self.counts.successes + self.counts.failed, 1)

    @property
    def sent(self) -> float:
        """Bytes of an answer's outputs."""
        return self.counts.bytes_out / max(self.counts.successes, 1)

    @property
    def free_replicas(self) -> int:
        """Replicas that the free cores would take."""
        return int(self.cores * (1 - self.cores_busy) / self.threads) if self.threads else 0


def explain(engine: EngineView) -> list[dict[str, JSON]]:
    """For every version with enough requests of late (or ever): mean milliseconds and share of each
    stage, the stage that takes most, and a sentence of advice.

    `decode`: reading the request; `queue`: waiting for a batch; `batch`: handing the batch to a
    worker, or waiting for it there; `compute`; `collect`: handing the outputs back; `encode`:
    writing the answer. The network is not seen.
    """
    versions = [(version, version.statistics.recent()) for version in engine.versions()]
    used = sum(
        recent.counts.busy_ns / 1e9 / recent.seconds * version.threads
        for version, recent in versions
    )
    cores_busy = min(used / engine.cores, 1.0) if engine.cores else 0.0
    return [_explained(version, recent, engine.cores, cores_busy) for version, recent in versions]


def _explained(
    version: VersionView, recent: Recent, cores: int, cores_busy: float
) -> dict[str, JSON]:
    counts, late = recent.counts, True
    if counts.computed < FEWEST:
        counts, late = version.statistics.total(), False
    replicas = sum(count for state, count in version.replicas.items() if state in ("idle", "busy"))
    busy = recent.counts.busy_ns / 1e9 / recent.seconds / replicas if replicas else 0.0
    load = _Load(
        counts,
        recent.seconds,
        _stages(counts),
        replicas,
        version.threads,
        min(busy, 1.0),
        cores,
        cores_busy,
        dict(version.statistics.batches),
    )
    entry: dict[str, JSON] = {
        "model": version.name,
        "version": version.number,
        "requests": counts.computed,
        "recent": late,
    }
    if counts.computed < FEWEST:
        return entry | {
            "stages": {},
            "bottleneck": "",
            "advice": f"It had fewer than {FEWEST} requests.",
        }
    total = sum(load.stages.values()) or 1.0
    worst = max(load.stages, key=lambda stage: load.stages[stage])
    return entry | {
        "stages": {
            stage: {"ms": round(ns / 1e6, 4), "share": round(ns / total, 4)}
            for stage, ns in load.stages.items()
        },
        "bottleneck": worst,
        "replicas_busy": round(load.busy, 4),
        "cores_busy": round(cores_busy, 4),
        "mean_batch": round(load.mean_batch, 2),
        "advice": _ADVICE[worst](load)
        if late
        else f"It had few requests of late; before, {worst} took most of the time.",
    }


def _stages(counts: Counts) -> dict[str, float]:
    """Mean nanoseconds of each stage."""
    queued, computed, encoded = (
        max(counts.queued, 1),
        max(counts.computed, 1),
        max(counts.encoded, 1),
    )
    return {
        "decode": counts.decode_ns / queued,
        "queue": counts.queue_ns / queued,
        "batch": counts.dispatch_ns / computed,
        "compute": counts.compute_ns / computed,
        "collect": counts.collect_ns / computed,
        "encode": counts.encode_ns / encoded,
    }


def _waiting(load: _Load) -> str:
    busy = f"{load.busy:.0%}"
    if load.busy >= _BUSY and load.cores_busy >= _BUSY:
        return (
            f"Requests wait for replicas that are busy {busy} of the time, and models use "
            f"{load.cores_busy:.0%} of "
            f"{load.cores} cores: only a faster model (precision: bf16) or another machine helps."
        )
    if load.busy >= _BUSY and load.free_replicas:
        return (
            f"Requests wait for replicas that are busy {busy} of the time, while cores are free: "
            f"set replicas to {load.replicas + load.free_replicas} (now {load.replicas})."
        )
    if load.busy >= _BUSY:
        return (
            f"Requests wait for replicas that are busy {busy} of the time, and too few cores are "
            "free for another one "
            f"with {load.threads} threads: give each fewer threads, or add a machine."
        )
    if load.busy < _IDLE:
        return (
            f"Requests wait although replicas are busy only {busy} of the time: they come in "
            "bursts, or in shapes that "
            "do not go into one batch; spread them, pad them, or take the wait as it is."
        )
    return (
        f"Requests wait for replicas that are busy {busy} of the time: they come unevenly, and "
        "there is room for more."
    )


def _handing(load: _Load) -> str:
    if load.busy >= _BUSY:
        return _waiting(load)
    what = f"Handing {_size(load.received)} a request to a worker"
    if load.received < _LARGE:
        return _around(what)
    return (
        f"{what} takes most of the time: workers.mode: inprocess saves it, at the price that a "
        "crash of the model is "
        "one of the server."
    )


def _around(what: str) -> str:
    """Advice where little data takes more time than the model."""
    return (
        f"{what} takes most of the time: the model is faster than the server around it; send more "
        "rows in a request."
    )


def _computing(load: _Load) -> str:
    better = _larger_batch(load)
    if load.mean_batch < 2 and better is not None:
        rows, share = better
        return (
            f"The model takes most of the time, one row after another; in batches of {rows} a row "
            f"took {share:.0%} of "
            "that: send more requests at once, or more rows in one."
        )
    if load.busy >= _BUSY and load.cores_busy < _BUSY and load.free_replicas:
        return (
            f"The model takes most of the time and its replicas are busy {load.busy:.0%} of it, "
            "while cores are free: "
            f"set replicas to {load.replicas + load.free_replicas} (now {load.replicas})."
        )
    if load.busy < _IDLE and load.threads < load.cores:
        return (
            "The model takes most of the time and replicas are mostly idle: more threads than "
            f"{load.threads} for each "
            "would answer sooner, and so may precision: bf16."
        )
    return (
        f"The model takes most of the time, in batches of {load.mean_batch:.1f} rows: it is what "
        "there is to pay; "
        "precision: bf16, tune: true or a smaller model make it less."
    )


def _larger_batch(load: _Load) -> tuple[int, float] | None:
    """The batch size with the least time per row, and that time as a part of a single row's, if it
    is worth it.
    """
    times = {
        size: batch.compute_infer_ns / batch.executions / size
        for size, batch in load.batches.items()
        if size > 0
    }
    if 1 not in times or not times[1]:
        return None
    best = min(times, key=lambda size: times[size])
    share = times[best] / times[1]
    return (best, share) if best > 1 and share <= _BUSY else None


def _collecting(load: _Load) -> str:
    what = f"Handing back {_size(load.sent)} an answer"
    if load.sent < _LARGE:
        return _around(what)
    return f"{what} takes most of the time: ask only for the outputs that are needed."


def _decoding(load: _Load) -> str:
    what = f"Reading requests of {_size(load.received)}"
    if load.received < _LARGE:
        return _around(what)
    return f"{what} takes most of the time: send tensors as binary data, not as JSON."


def _encoding(load: _Load) -> str:
    what = f"Writing answers of {_size(load.sent)}"
    if load.sent < _LARGE:
        return _around(what)
    return f"{what} takes most of the time: ask for binary outputs, and only those that are needed."


_ADVICE: Final = {
    "decode": _decoding,
    "queue": _waiting,
    "batch": _handing,
    "compute": _computing,
    "collect": _collecting,
    "encode": _encoding,
}


def _size(count: float) -> str:
    """Bytes for people."""
    if count < 1:
        return "0 bytes"
    power = min(int(math.log(count, 1024)), 3)
    return f"{count / 1024**power:.4g} {('bytes', 'KiB', 'MiB', 'GiB')[power]}"
