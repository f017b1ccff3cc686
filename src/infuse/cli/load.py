"""`infuse load`: how many requests a server answers, and how fast."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infuse.cli import options, terminal
from infuse.cli.outputs import type_text
from infuse.cli.rollout import TOKEN_VARIABLE
from infuse.cli.serve import require_packages
from infuse.errors import OptionError
from infuse.profiling.turns import PERCENTILES, distribution

if TYPE_CHECKING:
    from infuse.serving.load.levels import Level
    from infuse.serving.load.measuring import Measurement, Plan

DEFAULT_CALLERS = "1,2,4,8"
BUSY = 0.9
"""The part of a processor from which on the generator itself may be what limits."""
LATE_MS = 10.0
"""Milliseconds by which a hundredth of the requests may be late before that is said."""
INTERRUPTED = 130
_SHOWN = 16  # inputs, and kinds of errors


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
    concurrency: Annotated[
        str,
        typer.Option(
            metavar="COUNTS",
            help="So many callers, each of whom waits for an answer before the next request; by "
            f"default {DEFAULT_CALLERS}, one level after the other.",
            show_default=False,
        ),
    ] = "",
    rate: Annotated[
        str,
        typer.Option(
            metavar="RATES",
            help="So many requests a second at random times, whether or not answers come, as "
            "100,200; latencies count from the time at which a request was to be sent.",
            show_default=False,
        ),
    ] = "",
    seconds: Annotated[float, typer.Option(min=0.01, help="Length of each level.")] = 10.0,
    warm_up: Annotated[
        float, typer.Option(min=0.0, help="Seconds of the same load before each level.")
    ] = 1.0,
    batch: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Examples in a request.", show_default=False),
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            "--dim",
            metavar="NAME=SIZE",
            help="Size of a dynamic axis of random inputs, named INPUT.AXIS, as image.2=224; "
            "default: 1 for the first, else 32.",
        ),
    ] = None,
    inputs: options.InputArchive = None,
    version: Annotated[str, typer.Option(help="A version, in place of the server's choice.")] = "",
    json_tensors: Annotated[
        bool, typer.Option("--json-tensors", help="HTTP: tensors as JSON, in place of binary.")
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            help=f"The bearer token; by default that in ${TOKEN_VARIABLE}.",
            show_default=False,
        ),
    ] = None,
    ca: options.Authorities = None,
    certificate: options.CallerCertificate = None,
    key: options.CallerKey = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="S", help="The longest that an answer may take.")
    ] = 60.0,
    processes: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Processes that send the load together."),
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    """Measure a server of the Open Inference Protocol v2: throughput, latencies and errors by load.

    Any such server will do: Infuse, Triton, KServe, MLServer. Status and outputs of every answer
    are checked.
    """
    require_packages(("aiohttp", "grpc", "msgspec"))
    from infuse.cli.served_inputs import requests_for
    from infuse.serving.load.caller_tls import CallerTls
    from infuse.serving.load.measuring import Plan, Target, measure
    from infuse.serving.load.processes import runner

    plan = Plan(*_loads(concurrency, rate), seconds, warm_up, seed, processes)
    sizes = options.dims(dim)
    if inputs is not None and (sizes or batch is not None):
        raise OptionError("--inputs has sizes of its own", hint="leave --dim and --batch out")
    secret = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
    tls = CallerTls(ca, certificate, key)
    target = Target(url, model, version, secret, timeout, json_tensors, tls)
    with terminal.progress(model) as progress:
        work = measure(
            target, plan, lambda m: requests_for(m, inputs, batch, sizes, seed), progress
        )
        measured = runner()(work)
    levels, facts = measured.levels, _facts(measured, plan, url)
    if as_json:
        terminal.say_json(facts)
    else:
        _print(facts)
    if measured.interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(level.failed for level in levels) and not any(level.latencies for level in levels):
        is_binary = url.startswith("http") and not json_tensors
        advice = "; a server without binary tensors needs --json-tensors" if is_binary else ""
        terminal.complain(f"every request failed{advice}")
        raise typer.Exit(1)


def _loads(concurrency: str, rate: str) -> tuple[list[int], list[float]]:
    """The levels of both kinds; OptionError for anything but positive numbers."""
    from infuse.serving.load.measuring import MOST_CONNECTIONS

    callers = _numbers("--concurrency", concurrency or ("" if rate else DEFAULT_CALLERS))
    if any(count % 1 or count > MOST_CONNECTIONS for count in callers):
        raise OptionError(
            f"--concurrency {concurrency!r} is not a list of counts up to {MOST_CONNECTIONS}",
            hint=f"write it as {DEFAULT_CALLERS}",
        )
    return list(map(int, callers)), _numbers("--rate", rate)


def _numbers(option: str, text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        numbers = [math.nan]
    if not all(0 < number < math.inf for number in numbers):
        raise OptionError(
            f"{option} {text!r} is not a list of positive numbers", hint="write it as 1,2,4"
        )
    return list(dict.fromkeys(numbers))


def _facts(measured: Measurement, plan: Plan, url: str) -> dict[str, Any]:
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
        *("load", "#requests", "#failed", "#requests/s", "#examples/s", "#min ms"),
        *(f"#p{percent} ms" for percent in PERCENTILES),
        *("#max ms", "#sent", "#received"),
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
