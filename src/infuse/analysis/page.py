"""The report of an optimization as a page: one file that needs nothing else, or its data as
JSON.
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence

from infuse.analysis.comparison import Comparison, compare
from infuse.analysis.document import (
    asset,
    data_text,
    document,
    joined_assets,
    report_format,
    write_document,
)
from infuse.ir.graph import Graph

STYLES = ("base.css", "page.css")
SCRIPTS = (
    "common.js",
    "side.js",
    "data.js",
    "place.js",
    "paint.js",
    "canvas.js",
    "lists.js",
    "inspector.js",
    "rewrites.js",
    "panels.js",
    "stage.js",
    "main.js",
)
WORKER = ("vendor/dagre.min.js", "layout.js")


def write_report(
    path: str | os.PathLike[str],
    original: Graph,
    optimized: Graph,
    values: Mapping[str, int] | None = None,
    title: str | None = None,
    faults: Sequence[str] = (),
) -> None:
    """Write what the optimization of `original` to `optimized` did: a page (.html) or its data
    (.json).

    `values` are sizes for symbolic dimensions, `faults` those of the model's exporter. The file
    appears whole or not at all. OptionError for another ending or a path that cannot be written,
    GraphError where `compare` raises it.
    """
    is_page = report_format(path) == ".html"
    comparison = compare(original, optimized, values)
    comparison.faults += faults
    text = (
        render(comparison, title or original.name) if is_page else data_text(comparison.to_dict())
    )
    write_document(path, text)


def render(comparison: Comparison, title: str) -> str:
    """The page as text: data, styles, scripts and the layout library in one document that loads
    nothing.
    """
    licence = html.escape(asset("vendor/dagre.LICENSE.txt"))
    return document(
        "page.html",
        title,
        comparison.to_dict(),
        STYLES,
        SCRIPTS,
        aside=asset("comparison_aside.html"),
        keys=asset("comparison_keys.html"),
        worker=joined_assets(WORKER),
        licence=licence,
    )
