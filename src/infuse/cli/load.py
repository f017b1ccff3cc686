"""`infuse load`: how many requests a server answers, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infuse.cli import terminal
from infuse.cli.flags import with_flags
from infuse.cli.options import AsJson, InputArchive
from infuse.cli.outputs import type_text
from infuse.cli.serve import require_packages
from infuse.errors import OptionError
from infuse.options.serving import CallOptions, Certificates, LoadPlan, RequestOptions
from infuse.profiling.turns import PERCENTILES, distribution

if TYPE_CHECKING:
    from infuse.serving.load.levels import Level
    from infuse.serving.load.measuring import Measurement

BUSY = 0.9
"""The part of a processor from which on the generator itself may be what limits."""
LATE_MS = 10.0
"""Milliseconds by which a hundredth of the requests may be late before that is said."""
INTERRUPTED = 130
_SHOWN = 16  # inputs, and kinds of errors


@with_flags
def load(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The server: http://host:8000 or grpc://host:8001 (https, grpcs: with TLS).",
            show_default=False,
        ),
    ],
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The model's name.", show_default=False)
    ],
    plan: LoadPlan,
    sizes: RequestOptions,
    calls: CallOptions,
    certificates: Certificates,
    inputs: InputArchive = None,
    as_json: AsJson = False,
) -> None:
    """Measure a server of the Open Inference Protocol v2: throughput, latencies and errors by load.

    Any such server will do: Infuse, Triton, KServe, MLServer. Status and outputs of every answer
    are checked.
    """
    require_packages(("aiohttp", "grpc", "msgspec"))
    from infuse.cli.served_inputs import requests_for
    from infuse.serving.load.caller_tls import CallerTls
    from infuse.serving.load.measuring import Target, measure
    from infuse.serving.load.processes import runner

    if inputs is not None and sizes != RequestOptions():
        raise OptionError("--inputs has sizes of its own", hint="leave --dim and --batch out")
    target = Target(url, model, calls, CallerTls(certificates))
    with terminal.progress(model) as progress:
        work = measure(target, plan, lambda m: requests_for(m, inputs, sizes, plan.seed), progress)
        measured = runner()(work)
    facts = _facts(measured, plan, url)
    if as_json:
        terminal.say_json(facts)
    else:
        _print(facts)
    if measured.interrupted:
        raise typer.Exit(INTERRUPTED)
    if _is_refused(measured.levels):
        is_binary = url.startswith("http") and not calls.json_tensors
        advice = "; a server without binary tensors needs --json-tensors" if is_binary else ""
        terminal.complain(f"every request failed{advice}")
        raise typer.Exit(1)


def _is_refused(levels: Sequence[Level]) -> bool:
    """Whether requests failed, and none did not."""
    return any(level.failed for level in levels) and not any(level.latencies for level in levels)


def _facts(measured: Measurement, plan: LoadPlan, url: str) -> dict[str, Any]:
    described = {tensor.name: type_text(tensor.data) for tensor in measured.inputs}
    return {
        "url": url,
        "model": measured.model.name,
        "inputs": described,
        "outputs": list(map(str, measured.model.outputs)),
        "request_bytes": measured.request_bytes,
        "seconds": plan.seconds,
        "warm_up": plan.warm_up,
        "processes": plan.processes,
        "levels": [_level_facts(level, plan.processes) for level in measured.levels],
        "interrupted": measured.interrupted,
    }


def _level_facts(level: Level, processes: int) -> dict[str, Any]:
    right = len(level.latencies) / level.seconds
    return {
        "loop": level.loop,
        "load": level.load,
        "requests": level.requests,
        "failed": level.failed,
        "errors": [
            {"kind": kind, "count": errors.count, "first": errors.first}
            for kind, errors in level.errors.items()
        ],
        "seconds": level.seconds,
        "requests_per_second": right,
        "examples_per_second": right * level.examples,
        "latency": distribution(level.latencies) if level.latencies else None,
        "delay": distribution(level.delays) if level.delays else None,
        "sent_bytes": level.sent,
        "received_bytes": level.received,
        "generator_processors": level.processor_seconds / level.seconds / processes,
        "interrupted": level.interrupted,
    }


def _print(facts: dict[str, Any]) -> None:
    few = list(facts["inputs"].items())[:_SHOWN]
    more = (
        f", and {len(facts['inputs']) - len(few)} more" if len(facts["inputs"]) > len(few) else ""
    )
    described = ", ".join(f"{name}: {kind}" for name, kind in few) + more
    size = terminal.bytes_text(facts["request_bytes"])
    terminal.say(f"{facts['model']} at {facts['url']}; {described}; {size} a request")
    levels = facts["levels"]
    columns = (
        "load",
        "#requests",
        "#failed",
        "#requests/s",
        "#examples/s",
        "#min ms",
        *(f"#p{percent} ms" for percent in PERCENTILES),
        "#max ms",
        "#sent",
        "#received",
    )
    terminal.say_table("", columns, [_row(level) for level in levels])
    errors = [
        (_load_text(level), error["kind"], error["count"], error["first"])
        for level in levels
        for error in level["errors"][:_SHOWN]
    ]
    if errors:
        terminal.say_table("errors", ("load", "kind", "#requests", "the first one"), errors)
    if facts["interrupted"]:
        terminal.note("interrupted: the last level is not complete")
    _note_limits(levels)


def _row(level: dict[str, Any]) -> tuple[object, ...]:
    names = ("min", *(f"p{percent}" for percent in PERCENTILES), "max")
    latency = level["latency"]
    return (
        _load_text(level),
        level["requests"],
        level["failed"],
        f"{level['requests_per_second']:.1f}",
        f"{level['examples_per_second']:.1f}",
        *("–" if latency is None else f"{latency[f'{name}_ms']:.3f}" for name in names),
        terminal.bytes_text(level["sent_bytes"]),
        terminal.bytes_text(level["received_bytes"]),
    )


def _load_text(level: dict[str, Any]) -> str:
    load = level["load"]
    if level["loop"] == "open":
        return f"{load:g} requests/s"
    return f"{load} caller{'' if load == 1 else 's'}"


def _note_limits(levels: Sequence[dict[str, Any]]) -> None:
    """Say where the figures may be those of this program, not of the server."""
    for level in levels:
        delay = level["delay"]
        if level["generator_processors"] > BUSY:
            terminal.note(
                f"{_load_text(level)}: the load generator itself took "
                f"{level['generator_processors']:.0%} of a processor for each process: the server "
                "may do more (--processes)"
            )
        if delay is not None and delay["p99_ms"] > LATE_MS:
            terminal.note(
                f"{_load_text(level)}: the load generator sent 1 % of the requests more than "
                f"{delay['p99_ms']:.0f} ms late, which is a part of their latencies"
            )
