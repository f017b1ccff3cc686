"""A profile as a trace in Chrome's event format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infuse.analysis.document import write_document
from infuse.profiling.profile import Call, Profile, Run

_PROCESS = 1
_NODES = 0
"""The track of the nodes; the run of number i has track i."""


def trace_events(profile: Profile) -> dict[str, Any]:
    """The trace as plain data. Every run is a track that begins at 0; another one names the nodes
    of the fastest run.

    Times are microseconds. A step lies inside of its run, steps of bodies inside of the step that
    ran them.
    """
    roof = profile.roof
    best = min(range(len(profile.runs)), key=lambda number: profile.runs[number].seconds)
    events = [
        _named("process_name", _NODES, profile.model),
        _named("thread_name", _NODES, f"nodes of run {best + 1}"),
    ]
    events += _nodes(profile, profile.runs[best])
    for number, run in enumerate(profile.runs, 1):
        events.append(_named("thread_name", number, f"run {number}"))
        events += _run(profile, run, number)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "model": profile.model,
            "inputs": profile.inputs,
            "target": roof.target,
            "threads": roof.threads,
            "peak_flops": dict(roof.peaks),
            "peak_bytes": roof.bandwidth,
        },
    }


def write_trace(path: Path, profile: Profile) -> None:
    """Write the trace as JSON; the file appears whole or not at all. OptionError where it cannot be
    written.
    """
    write_document(path, json.dumps(trace_events(profile), ensure_ascii=False))


def _named(what: str, track: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": _PROCESS, "tid": track, "args": {"name": name}}


def _run(profile: Profile, run: Run, track: int) -> Iterator[dict[str, Any]]:
    yield _event(f"run {track}", "run", track, 0, run.end - run.begin, {})
    for call in _in_order(run):
        yield _call(profile, call, run, track, profile.places[call.place].label)


def _nodes(profile: Profile, run: Run) -> Iterator[dict[str, Any]]:
    for call in _in_order(run):
        main = profile.places[call.place].main
        if main is not None:
            yield _call(profile, call, run, _NODES, main.name or main.kind)


def _in_order(run: Run) -> list[Call]:
    """What runs first, comes first; what holds others, before them."""
    numbered = sorted(
        enumerate(run.calls()), key=lambda entry: (entry[1].begin, -entry[1].end, -entry[0])
    )
    return [call for _, call in numbered]


def _call(profile: Profile, call: Call, run: Run, track: int, name: str) -> dict[str, Any]:
    place = profile.places[call.place]
    bound = profile.roof.bound(call.work.flops, call.work.bytes, call.work.kind)
    arguments = {
        "nodes": [node.name for node in place.nodes],
        "kinds": [node.kind for node in place.nodes],
        "kernel": place.kernel,
        "flops": call.work.flops if call.work.is_known else None,
        "bytes": call.work.bytes,
        "bound_us": bound * 1e6,
        "efficiency": bound * 1e9 / call.own if call.own and call.work.is_known else None,
    }
    category = place.main.kind if place.main is not None else "move"
    return _event(name, category, track, call.begin - run.begin, call.end - call.begin, arguments)


def _event(
    name: str, category: str, track: int, begin: int, length: int, arguments: Any
) -> dict[str, Any]:
    """A complete event; times are given in nanoseconds."""
    times = {"ts": begin / 1e3, "dur": length / 1e3}
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        **times,
        "pid": _PROCESS,
        "tid": track,
        "args": arguments,
    }
