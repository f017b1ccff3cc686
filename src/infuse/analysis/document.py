"""Documents in one file that load nothing: a template with data, styles and scripts inside."""

from __future__ import annotations

import html
import json
import math
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from infuse.errors import OptionError

FORMATS = (".html", ".json")
"""Endings of reports: a page, or its data."""
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)


def document(
    template: str,
    title: str,
    data: Mapping[str, Any],
    styles: Sequence[str],
    scripts: Sequence[str],
    **parts: str,
) -> str:
    """The page `template` with a title, the data as JSON, and files of styles and scripts; `parts`
    go where it names them.
    """
    texts = {
        "title": html.escape(title),
        "logo": asset("logo.svg"),
        "style": joined_assets(styles),
        "data": _json_in_script({"title": title, **data}),
        "script": joined_assets(scripts),
        **parts,
    }
    return _PLACE.sub(lambda place: texts[place[1]], asset(template))


def asset(name: str) -> str:
    """A file of the page, without the name of a source map, which browsers would ask for."""
    return _SOURCE_MAP.sub(
        "", (files("infuse.analysis") / "report" / name).read_text(encoding="utf-8")
    )


def joined_assets(names: Sequence[str]) -> str:
    """Files of the page, one after another."""
    return "\n".join(map(asset, names))


def report_format(path: str | os.PathLike[str]) -> str:
    """The ending of a report's file; OptionError for one that no report has."""
    target = Path(path)
    if target.suffix not in FORMATS:
        raise OptionError(
            f"{target.name} ends neither in .html nor in .json",
            hint="name the report by its format",
        )
    return target.suffix


def write_document(path: str | os.PathLike[str], text: str) -> None:
    """Write a report; the file appears whole or not at all. OptionError where it cannot be
    written.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(target)
    except OSError as error:
        raise OptionError(
            f"the report cannot be written: {error.strerror or error}", where=str(target)
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def plain(data: Any) -> Any:
    """Data as JSON has it: names are texts, and numbers that it does not know are None."""
    if isinstance(data, dict):
        return {str(name): plain(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [plain(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data


def data_text(data: Mapping[str, Any]) -> str:
    """The data of a report as a file of JSON."""
    return json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False)


def _json_in_script(value: object) -> str:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")
