"""The report as a page: one file that needs nothing else, or the same data as JSON."""

from __future__ import annotations

import html
import json
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from infuse.analysis.comparison import Comparison, compare
from infuse.errors import OptionError
from infuse.ir.graph import Graph

SCRIPTS = ("data.js", "place.js", "paint.js", "canvas.js", "panels.js", "inspector.js", "main.js")
WORKER = ("vendor/dagre.min.js", "layout.js")


def write_report(
    path: str | os.PathLike[str],
    original: Graph,
    optimized: Graph,
    values: Mapping[str, int] | None = None,
    title: str | None = None,
) -> None:
    """Write what the optimization of `original` to `optimized` did: a page (.html) or its data
    (.json).

    `values` are sizes for symbolic dimensions. The file appears whole or not at all. OptionError
    for another ending or a path that cannot be written, GraphError where `compare` raises it.
    """
    target = Path(path)
    if target.suffix not in (".html", ".json"):
        raise OptionError(
            f"{target.name} ends neither in .html nor in .json",
            hint="name the report by its format",
        )
    comparison = compare(original, optimized, values)
    if target.suffix == ".html":
        text = render(comparison, title or original.name)
    else:
        text = json.dumps(comparison.to_dict(), ensure_ascii=False, indent=1)
    try:
        _write(target, text)
    except OSError as error:
        raise OptionError(
            f"the report cannot be written: {error.strerror or error}", where=str(target)
        ) from error


def _write(target: Path, text: str) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def render(comparison: Comparison, title: str) -> str:
    """The page as text: data, styles, scripts and the layout library in one document that loads
    nothing.
    """
    parts = {
        "title": html.escape(title),
        "style": _asset("page.css"),
        "data": _json_in_script({"title": title, **comparison.to_dict()}),
        "worker": "\n".join(map(_asset, WORKER)),
        "licence": html.escape(_asset("vendor/dagre.LICENSE.txt")),
        "script": "\n".join(map(_asset, SCRIPTS)),
    }
    return _PLACE.sub(lambda place: parts[place[1]], _asset("page.html"))


_PLACE = re.compile(r"\{\{(\w+)\}\}")
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)


def _asset(name: str) -> str:
    """A file of the page, without the name of a source map, which browsers would ask for."""
    return _SOURCE_MAP.sub(
        "", (files("infuse.analysis") / "report" / name).read_text(encoding="utf-8")
    )


def _json_in_script(value: object) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
