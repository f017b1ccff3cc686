"""The page of all options: `python -m infuse.options.page docs/options.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from infuse.options.commands import BindOptions
from infuse.options.compiling import Auto, CompileOptions
from infuse.options.compressing import CompressOptions, Contract, Tune
from infuse.options.data import Examples, Turns
from infuse.options.fields import Checked, OptionField, fields_of, shown, summary_of
from infuse.options.formats import FormatOptions
from infuse.options.methods import METHODS, Prune
from infuse.options.rules import Rules

GROUPS: dict[str, tuple[type[Checked], ...]] = {
    "Loading": tuple(FormatOptions.__subclasses__()),
    "Optimizing": (Rules,),
    "Compiling": (CompileOptions, Auto, BindOptions),
    "Measuring": (Examples, Turns),
    "Compressing": (CompressOptions, Contract, Tune, Prune, *METHODS.values()),
}
"""The classes by what they are for."""
HEAD = """# Options

What a verb is asked for is an object: `infuse.compile(graph, infuse.CompileOptions(threads=2))`.
It is frozen, says what is wrong with it when it is made, and any number of calls may share it.
Flags of the command line, options of `torch.compile`, fields of `SessionOptions` and of a served
model's `config.yaml` are made from the same fields. Keywords of the last release
(`infuse.compile(graph, threads=2)`) work until the next one, with a warning that shows the new
spelling.

A text may stand for an object: a level for `Rules`, a method's name for the method with its
defaults; and arrays for `Examples`.

This page is made from the classes: `python -m infuse.options.page docs/options.md`.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for title, kinds in GROUPS.items():
        parts.append(f"\n## {title}\n")
        for kind in kinds:
            parts += [f"\n### {kind.__name__}\n", summary_of(kind), "\n", *_table(kind)]
    return "".join(parts)


def _table(kind: type[Checked]) -> Iterator[str]:
    fields = fields_of(kind)
    if fields:
        yield "\n| field | default | flag | means |\n|---|---|---|---|\n"
    for each in fields:
        yield f"| `{each.name}` | {_default(each)} | {_flag(each)} | {_cell(each.about.text)} |\n"


def _default(each: OptionField) -> str:
    return "" if each.default in (None, "", (), frozenset()) else f"`{shown(each.default)}`"


def _flag(each: OptionField) -> str:
    if each.about.form == "object":
        return ""
    metavar = each.about.metavar or "|".join(filter(None, each.about.choices))
    return _cell(f"`{' '.join(filter(None, (each.flag, metavar)))}`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
