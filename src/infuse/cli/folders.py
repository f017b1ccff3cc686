"""Folders of compiled models: what they hold, as data and as tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import infuse
from infuse.cli import terminal
from infuse.cli.outputs import kept_lines, say_precisions
from infuse.runtime.folder import STAGES, read_metadata
from infuse.runtime.shapes import TensorSpec


def describe_folder(folder: Path) -> dict[str, Any]:
    """What a compiled model says of itself, on any machine, and its files. CompiledModelError for
    another folder.
    """
    if (folder / STAGES).is_file():
        with infuse.load_compiled(folder) as model:
            metadata = {
                **model.metadata,
                "inputs": [str(spec) for spec in model.inputs],
                "outputs": [str(spec) for spec in model.outputs],
            }
    else:
        metadata = read_metadata(folder)
        for kind in ("inputs", "outputs"):
            specs = map(TensorSpec.from_metadata, metadata[kind])
            metadata[kind] = [str(spec) for spec in specs]
    facts = dict.fromkeys(
        ("name", "inputs", "outputs", "target", "machine", "precision", "precision_report")
    )
    facts |= {"arena": None, "kept_in_fp32": {}, "host_steps": [], "toolchain": None, "model": {}}
    facts["rows"] = None
    facts["weights"] = None
    facts |= {name: metadata[name] for name in facts if name in metadata}
    return {**facts, "files": file_sizes(folder)}


def file_sizes(folder: Path) -> dict[str, int]:
    """Bytes of every file in a folder, by path."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.stat().st_size for file in files}


def say_folder(title: str, facts: Mapping[str, Any]) -> None:
    """Files, interface, precisions, and what the interpreter runs."""
    rows = [(name, terminal.bytes_text(size)) for name, size in facts["files"].items()]
    terminal.say_table(title, ("file", "#size"), rows)
    for kind in ("inputs", "outputs"):
        terminal.say(f"{kind}: {', '.join(facts[kind])}")
    say_rows(facts["rows"])
    say_precisions(facts["precision_report"])
    for line in kept_lines(facts["kept_in_fp32"]):
        terminal.say(line)
    if facts["host_steps"]:
        steps = ", ".join(facts["host_steps"])
        terminal.say(f"without a native kernel, run by the interpreter: {steps}")


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
    made = {
        "name": facts["name"],
        "target": facts["target"],
        "machine": facts["machine"],
        "precision": facts["precision"],
        "weights": facts["weights"],
        "compiler": facts["toolchain"],
    }
    terminal.say(", ".join(f"{key}: {value}" for key, value in made.items() if value))
    if facts["arena"]:
        arena = facts["arena"]
        terminal.say(f"arena: {arena['bytes']:,} bytes, lower bound {arena['lower_bound']:,} bytes")
    for key, value in facts["model"].items():
        if value:
            terminal.say(f"model {key}: {value}")
