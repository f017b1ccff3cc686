"""`infuse load`: how many requests a server answers, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infuse.cli import terminal
from infuse.cli.flags import with_flags
from infuse.cli.options import AsJson, InputArchive
from infuse.cli.packages import require_packages
from infuse.data.answers import type_text
from infuse.data.arrays import read_inputs_of
from infuse.errors import OptionError
from infuse.ops.core.feeds import random_array
from infuse.options.serving import CallOptions, Certificates, LoadPlan, RequestOptions
from infuse.profiling.turns import SPREAD, distribution

if TYPE_CHECKING:
    from infuse.serving.load.levels import Level
    from infuse.serving.load.measuring import Measurement
    from infuse.serving.load.remote import RemoteModel
    from infuse.serving.messages import Tensor

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
    from infuse.serving.load.caller_tls import CallerTls
    from infuse.serving.load.inputs import random_requests, stored_request
    from infuse.serving.load.measuring import Target, measure
    from infuse.serving.load.processes import runner

    if inputs is not None and sizes != RequestOptions():
        raise OptionError("--inputs has sizes of its own", hint="leave --dim and --batch out")
    arrays = None if inputs is None else read_inputs_of(inputs)

    def requests(served: RemoteModel) -> list[list[Tensor]]:
        if arrays is None:
            return random_requests(served, sizes, plan.seed, random_array)
        return [stored_request(served, arrays, str(inputs))]

    target = Target(url, model, calls, CallerTls(certificates))
    with terminal.progress(model) as progress:
        measured = runner()(measure(target, plan, requests, progress))
    facts = _facts(measured, plan, url)
    terminal.answer(facts, as_json, lambda: _print(facts))
    if measured.interrupted:
        raise typer.Exit(INTERRUPTED)
    if measured.is_refused:
        is_binary = url.startswith("http") and not calls.json_tensors
        advice = "; a server without binary tensors needs --json-tensors" if is_binary else ""
        terminal.complain(f"every request failed{advice}")
        raise typer.Exit(1)


def _facts(measured: Measurement, plan: LoadPlan, url: str) -> dict[str, Any]:
    return {
        "url": url,
        "model": measured.model.name,
        "inputs": {tensor.name: type_text(tensor.data) for tensor in measured.inputs},
        "outputs": list(map(str, measured.model.outputs)),
        "request_bytes": measured.request_bytes,
        **{name: getattr(plan, name) for name in ("seconds", "warm_up", "processes")},
        "levels": [_level_facts(level, plan.processes) for level in measured.levels],
        "interrupted": measured.interrupted,
    }


def _level_facts(level: Level, processes: int) -> dict[str, Any]:
    times = {"latency": level.latencies, "delay": level.delays}
    spread = {name: distribution(each) if each else None for name, each in times.items()}
    return {**level.to_dict(processes), **spread}


def _print(facts: dict[str, Any]) -> None:
    few = dict(list(facts["inputs"].items())[:_SHOWN])
    count = len(facts["inputs"]) - len(few)
    described = terminal.fields_text(few) + (f", and {count} more" if count else "")
    size = terminal.bytes_text(facts["request_bytes"])
    terminal.say(f"{facts['model']} at {facts['url']}; {described}; {size} a request")
    levels = facts["levels"]
    names = ("load", "#requests", "#failed", "#requests/s", "#examples/s")
    columns = (*names, *(f"#{each} ms" for each in SPREAD), "#sent", "#received")
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
    latency = level["latency"]
    return (
        _load_text(level),
        level["requests"],
        level["failed"],
        f"{level['requests_per_second']:.1f}",
        f"{level['examples_per_second']:.1f}",
        *("–" if latency is None else f"{latency[f'{name}_ms']:.3f}" for name in SPREAD),
        terminal.bytes_text(level["sent_bytes"]),
        terminal.bytes_text(level["received_bytes"]),
    )


def _load_text(level: dict[str, Any]) -> str:
    load = level["load"]
    if level["loop"] == "open":
        return f"{load:g} requests/s"
    return terminal.counted(load, "caller")


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
