"""`infuse doctor`: known faults of exporters and runtimes that a model file shows."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import infuse
from infuse.cli import terminal
from infuse.cli.flags import with_flags
from infuse.cli.options import AsJson, check_model_output
from infuse.doctor.diagnosis import Diagnosis
from infuse.doctor.page import rows
from infuse.options.commands import DoctorOptions, FileOptions


@with_flags
def doctor(
    options: DoctorOptions,
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="A model file.", show_default=False),
    ] = None,
    repair: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT",
            help="Write the model with what the framework computes: .onnx or .infuse.",
        ),
    ] = None,
    as_list: Annotated[
        bool, typer.Option("--list", help="List the faults that are known.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say where a model file will give other numbers than the framework that it came from: known
    faults of its exporter, and of the runtimes that are to run it.

    Exit status 1 where there is a fault that is not repaired.
    """
    if as_list:
        if model is not None or repair is not None:
            raise typer.BadParameter("--list shows all faults: leave the model out")
        every = rows()
        terminal.answer(every, as_json, lambda: _print_all(every))
        return
    if model is None:
        raise typer.BadParameter("name a model, or --list")
    if repair is not None:
        check_model_output(repair, FileOptions())
    diagnosis = infuse.diagnose(model, options.runtimes or None)
    facts = diagnosis.to_dict()
    facts["repaired"] = None if repair is None else _repair(diagnosis, repair)
    facts["calls"] = asdict(diagnosis.compare_calls()) if options.calls else None
    terminal.answer(facts, as_json, lambda: _print(facts, options))
    if facts["faults"] if repair is None else facts["repaired"]["faults"]:
        raise typer.Exit(1)


def _repair(diagnosis: Diagnosis, output: Path) -> dict[str, Any]:
    """What was written, and which faults it still has."""
    graph, left = diagnosis.repaired()
    infuse.save(graph, output)
    after = infuse.diagnose(output, diagnosis.runtimes)
    return {"file": str(output), "not_repaired": left, "faults": after.to_dict()["faults"]}


def _print(facts: dict[str, Any], options: DoctorOptions) -> None:
    producer = " ".join(filter(None, (facts["producer"], facts["producer_version"])))
    terminal.say(f"{facts['model']}{f', written by {producer}' if producer else ''}")
    shown = [*facts["faults"], *(facts["notes"] if options.notes else ())]
    for each in shown:
        _print_one(each)
    if not facts["faults"]:
        runtimes = ", ".join(facts["runtimes"])
        also = f", and none of {runtimes}" if runtimes else ""
        terminal.say(f"no known fault of its exporter{also}")
    if facts["notes"] and not options.notes:
        count = terminal.counted(len(facts["notes"]), "note")
        terminal.say(f"{count} on special numbers: --notes shows them")
    if facts["calls"] is not None:
        _print_calls(facts["calls"])
    repaired = facts["repaired"]
    if repaired is not None:
        faults = repaired["faults"]
        left = terminal.counted(len(faults), "fault") if faults else "no known fault"
        terminal.say(f"written: {repaired['file']}, with {left}")
        for name, why in repaired["not_repaired"].items():
            terminal.note(f"{name} is not repaired: {why}")


def _print_one(each: dict[str, Any]) -> None:
    where = f" ({each['line']})" if each["line"] else ""
    versions = ", ".join(each["versions"])
    untested = f"; not tried with {each['untested']}" if each["untested"] else ""
    terminal.say(f"\n{each['operator']} {each['node']}{where}: {each['fault']}")
    call = f", by {each['call']}" if each["call"] else ""
    rows = (
        ("right", f"{each['right']}{call}"),
        (each["by"], f"{each['wrong']} (seen in {versions}{untested})"),
        ("when", f"{each['when']}{_apart(each['difference'])}"),
        ("do", each["advice"]),
    )
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        terminal.say(f"  {name:{width}}  {text}")


def _print_calls(calls: dict[str, Any]) -> None:
    left = sum(calls["not_compared"].values())
    count = terminal.counted(calls["agree"], "recorded call")
    terminal.say(f"{count} traced again agree, {left} could not be compared")
    rows = [
        (c["node"], c["target"], c["line"], f"{c['difference']:.2g}", "yes" if c["special"] else "")
        for c in calls["differ"]
    ]
    if rows:
        columns = ("node", "call", "line", "#off by", "for special numbers alone")
        terminal.say_table("calls that differ in trials", columns, rows)


def _apart(difference: float | None) -> str:
    if not difference:
        return ""
    if math.isinf(difference):
        return "; in trials one of two results is no number"
    return f"; in trials off by {difference:.2g} of the largest result"


def _print_all(every: list[dict[str, str]]) -> None:
    table = [(row["by"], row["fault"], row["wrong"], row["versions"]) for row in every]
    terminal.say_table("faults", ("by", "fault", "what comes instead", "seen in"), table)
