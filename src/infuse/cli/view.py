"""`infuse view`: the graph of a model as a page to look at."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

import infuse
from infuse.analysis import view_data, write_view_data
from infuse.analysis.comparison import quantity
from infuse.cli import terminal
from infuse.cli.flags import Only, with_flags
from infuse.cli.models import require_file
from infuse.cli.options import AsJson, ModelFile, check_output
from infuse.options import Examples


@with_flags
def view(
    model: ModelFile,
    examples: Annotated[Examples, Only("dims")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="The file to write: .html, or .json for the data; default: a page in a temporary "
            "folder, which a browser opens where there is a display.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the graph of a model as one page: nodes, edges, attributes, costs, and constants with
    statistics.

    The page loads nothing and needs no server. Nothing of the model is rewritten before.
    """
    if output is not None:
        check_output(output, ".html", ".json")
    require_file(model, "its graph is not in it")
    graph = infuse.load(model)
    data = view_data(graph, examples.sizes)
    path = output if output is not None else Path(mkdtemp(prefix="infuse-")) / "graph.html"
    write_view_data(path, data, model.name)
    opened = output is None and _has_display() and webbrowser.open(path.absolute().as_uri())
    totals = data["graph"]["totals"]
    if as_json:
        counts = {name: totals[name] for name in ("nodes", "parameters", "flops", "weight_bytes")}
        facts = {**counts, "constants": len(data["constants"]), "opened": opened}
        terminal.say_json(facts | terminal.report_facts(path))
        return
    terminal.say(
        f"{totals['nodes']:,} nodes, {len(data['constants']):,} constants, "
        f"{quantity(totals['parameters'])} parameters, {quantity(totals['flops'])} FLOPs"
    )
    terminal.say_written(path)


def _has_display() -> bool:
    """Whether a window can be opened; a browser of the terminal would take the terminal over."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
