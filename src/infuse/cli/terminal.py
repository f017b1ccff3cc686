"""What the commands print: tables and JSON on standard output, progress and remarks on standard
error.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from infuse.cli.bars import Bar, Lines

if TYPE_CHECKING:
    from infuse.api import Progress as Report

PIPED_WIDTH = 160
"""Columns of a table that no terminal shows, unless $COLUMNS says else."""
LEAST_NAME = 16
"""Characters of a name that a table shows at least."""
FOLDED = 24
"""Columns that a text gets before a name loses any."""
BETWEEN, EDGES = 3, 2
"""Columns between those of a table, and at its edges."""


_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for tabs and ends of lines, and those that turn the direction of text."""


def console(file: TextIO | None = None) -> Console:
    """A console that takes text as it is: names of models may hold what rich reads as markup."""
    stream = file or sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS", "").isdigit() else PIPED_WIDTH
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width)


def shown(text: str) -> str:
    """Text as a terminal may get it: names in files and what servers say must not steer it."""
    if text.isprintable():
        return text
    return _STEERING.sub(lambda sign: ascii(sign[0])[1:-1], text)


def say(text: str) -> None:
    """A line of the answer."""
    console().print(shown(text), soft_wrap=True)


def note(text: str) -> None:
    """A remark beside the answer."""
    console(sys.stderr).print(shown(text), soft_wrap=True)


def complain(text: str) -> None:
    """The reason why the command failed."""
    console(sys.stderr).print(shown(f"infuse: {text}"), soft_wrap=True)


def say_json(data: Any) -> None:
    """The answer for a machine; numbers that JSON does not know become null."""
    from infuse.analysis.document import plain

    text = json.dumps(plain(data), indent=1, ensure_ascii=False)
    print(_STEERING.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text))


def answer(facts: Any, as_json: bool, show: Callable[[], None]) -> None:
    """The answer for a machine, or else as it is printed for people."""
    if as_json:
        say_json(facts)
    else:
        show()


def fitted(
    columns: str, left_out: Container[str], rows: Iterable[Sequence[object]]
) -> tuple[list[str], list[list[object]]]:
    """Columns, whose names have | between them, and rows of a table without some of them."""
    names = columns.split("|")
    shown = [number for number, name in enumerate(names) if name not in left_out]
    return [names[n] for n in shown], [[row[n] for n in shown] for row in rows]


def say_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, last_bold: bool = False
) -> None:
    """A table; columns whose name begins with # hold numbers, which stand to the right. Where it is
    wider than the terminal, the first column loses the middle of its texts; where that does not
    do, numbers run over several lines as well.
    """
    lines = [[shown(str(cell)) for cell in row] for row in rows]
    screen = console()
    fits = _fit(columns, lines, screen.width)
    table = Table(
        title=shown(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for index, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if name.startswith("#") else "left"
        is_whole = index == 0 or (fits and name.startswith("#"))
        table.add_column(
            shown(name.removeprefix("#")), justify=justify, overflow="fold", no_wrap=is_whole
        )
    for number, line in enumerate(lines):
        is_last = last_bold and number == len(lines) - 1
        if is_last:
            table.add_section()
        table.add_row(*line, style="bold" if is_last else None)
    screen.print(table)


def width() -> int:
    """The columns that a table may take."""
    return console().width


def _fit(columns: Sequence[str], lines: Sequence[list[str]], most: int) -> bool:
    """Shorten the first texts of lines so that a table takes at most so many columns, or texts no
    less than `LEAST_NAME`; whether it does then. Other texts run over several lines.
    """
    widths = [
        max(map(cell_len, (name.removeprefix("#"), *cells)))
        for name, *cells in zip(columns, *lines)
    ]
    widths[1:] = [
        width if name.startswith("#") else min(width, FOLDED)
        for name, width in zip(columns[1:], widths[1:])
    ]
    excess = sum(widths) + BETWEEN * (len(widths) - 1) + EDGES - most
    if excess > 0:
        for line in lines:
            line[0] = shortened(line[0], max(LEAST_NAME, widths[0] - excess))
    return excess <= max(0, widths[0] - LEAST_NAME)


def shortened(text: str, most: int) -> str:
    """A text without its middle, where it is longer than so many characters."""
    if len(text) <= most:
        return text
    begin = (most - 1) // 3
    return f"{text[:begin]}…{text[len(text) - (most - 1 - begin) :]}"


@contextlib.contextmanager
def progress(what: str) -> Iterator[Report]:
    """What shows how far a command is on standard error while the block runs: call it as
    api.Progress. A bar on a terminal; elsewhere lines, of jobs that have phases.
    """
    screen = console(sys.stderr)
    if not screen.is_terminal:
        yield Lines(what)
        return
    with Bar(what, screen) as bar:
        yield bar


def roof_text(peaks: Mapping[str, float], bandwidth: float) -> str:
    """What a machine can do at best: operations, and bytes from memory, per second."""
    rates = ", ".join(f"{kind} {rate / 1e9:.1f}" for kind, rate in peaks.items())
    return f"this machine: {rates} GFLOP/s, {bandwidth / 1e9:.1f} GB/s from memory"


def report_facts(report: Path | None) -> dict[str, Any]:
    """The report that was written, for a machine; nothing where there is none."""
    if report is None:
        return {}
    return {"report": file_facts(report)}


def file_facts(path: Path) -> dict[str, Any]:
    """A file that was written, for a machine."""
    return {"path": str(path), "bytes": path.stat().st_size}


def say_notes(remarks: Iterable[str]) -> None:
    """Say what one must know to read the figures."""
    for remark in remarks:
        say(f"note: {remark}")


def say_written(report: Path | None, as_json: bool = False) -> None:
    """Say which file was written, where there is one and the answer is for people."""
    if report is not None and not as_json:
        say(f"wrote {report} ({bytes_text(report.stat().st_size)})")


def counted(count: int, noun: str) -> str:
    """A number of things: `1 thread`, `2 threads`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def fields_text(data: Mapping[str, object], between: str = ": ") -> str:
    """Fields in a line: `image: float32[1, 3], mask: bool[1]`."""
    return ", ".join(f"{name}{between}{value}" for name, value in data.items())


def top_rows(rows: Sequence[Sequence[str]], top: int) -> list[Sequence[str]]:
    """The first rows of a table (0: all), and how many more there are."""
    shown = list(rows[: top or None])
    if len(rows) > len(shown):
        shown.append((f"… {len(rows) - len(shown)} more", *[""] * (len(rows[0]) - 1)))
    return shown


def bytes_text(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
