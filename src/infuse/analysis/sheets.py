"""Reports with tables and plots as pages: one file that needs nothing else, or the data as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from infuse.analysis.document import data_text, document, report_format, write_document

SHEETS: Final = {
    "inspection": "inspection.js",
    "pair": "pair.js",
    "compression": "compression.js",
}
"""The script that shows each kind of report."""
_STYLES: Final = ("base.css", "sheet.css")
_SCRIPTS: Final = ("common.js", "sheet.js")


def write_sheet(
    path: str | os.PathLike[str], kind: str, data: Mapping[str, Any], title: str
) -> None:
    """Write the plain data of a report of this kind: a page (.html) or the data (.json).

    The file appears whole or not at all. OptionError for another ending or a path that cannot be
    written.
    """
    text = render_sheet(kind, data, title) if report_format(path) == ".html" else data_text(data)
    write_document(path, text)


def render_sheet(kind: str, data: Mapping[str, Any], title: str) -> str:
    """The page as text: data, styles and scripts in one document that loads nothing."""
    return document("sheet.html", title, data, _STYLES, (*_SCRIPTS, SHEETS[kind]))
