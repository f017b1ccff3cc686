"""What compiled models consist of, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infuse.build.autotune.precision import PrecisionReport
from infuse.cli import terminal
from infuse.lowering.precisions import MIXED
from infuse.runtime.interface import PREBUILT


def say_folder(title: str, facts: Mapping[str, Any]) -> None:
    """Files, interface, precisions, and what the interpreter runs."""
    rows = [(name, terminal.bytes_text(size)) for name, size in facts["files"].items()]
    terminal.say_table(title, ("file", "#size"), rows)
    for kind in ("inputs", "outputs"):
        terminal.say(f"{kind}: {', '.join(facts[kind])}")
    say_rows(facts["rows"])
    say_precisions(facts["precision_report"])
    say_limited(facts["limited_kernels"])
    say_kept(facts["kept_in_fp32"])
    say_hosted(facts["host_steps"])


def say_rows(rows: Mapping[str, Any] | None) -> None:
    """What is proven of the rows of a batch (`RowReport`)."""
    if rows is None:
        return
    if rows["independent"]:
        terminal.say("rows of a batch: independent, so that a server puts requests together")
    else:
        terminal.say(f"rows of a batch: a server does not put requests together: {rows['reason']}")


def say_compiled(title: str, facts: Mapping[str, Any]) -> None:
    """All of `describe_folder`."""
    say_folder(title, facts)
    stated = {key: facts[key] for key in ("name", "target", "machine", "precision", "weights")}
    is_prebuilt = facts["tier"] == PREBUILT
    stated["run by" if is_prebuilt else "compiler"] = (
        "prebuilt kernels" if is_prebuilt else facts["toolchain"]
    )
    terminal.say(terminal.fields_text({key: value for key, value in stated.items() if value}))
    if facts["arena"]:
        arena = facts["arena"]
        terminal.say(f"arena: {arena['bytes']:,} bytes, lower bound {arena['lower_bound']:,} bytes")
    for key, value in facts["model"].items():
        if value:
            terminal.say(f"model {key}: {value}")


def say_precisions(report: Mapping[str, Any] | None) -> None:
    """Say what a search for the fastest precision found, where there was one."""
    if report is None:
        return
    for line in PrecisionReport.parse(report).lines():
        terminal.say(line)
    if report["precision"] != MIXED:
        return
    rows = [
        (layer["node"], layer["operator"], layer["precision"], _part(layer["difference"]))
        for layer in report["layers"]
    ]
    columns = ("layer", "operator", "precision", "#difference alone")
    terminal.say_table("precisions of layers", columns, rows)


def say_limited(kernels: Mapping[str, Any]) -> None:
    """Say which kernels are not the fastest, to keep weights within their budget, by node."""
    if kernels:
        named = (f"{node} ({own['chosen']}, not {own['fastest']})" for node, own in kernels.items())
        terminal.say(f"not the fastest kernels, whose weights are larger: {', '.join(named)}")


def say_kept(reasons: Mapping[str, str]) -> None:
    """Say which tensors precision fp16 has left in float32, by name and reason."""
    for name, reason in reasons.items():
        terminal.say(f"stays in float32: {name}: {reason}")


def say_hosted(steps: Sequence[str]) -> None:
    """Say which steps the interpreter runs, where there are any."""
    if steps:
        terminal.say(f"without a native kernel, run by the interpreter: {', '.join(steps)}")


def weights_text(packed: int, constants: int, choice: str) -> str:
    """What weights take in the order in which kernels read them, beside the graph's constants."""
    times = f", {packed / constants:.2f} ×" if constants else ", besides"
    return (
        f"packed weights ({choice}): {terminal.bytes_text(packed)}{times} the "
        f"{terminal.bytes_text(constants)} of the optimized graph's constants"
    )


def _part(difference: float | None) -> str:
    return "–" if difference is None else f"{difference:.1e}"
