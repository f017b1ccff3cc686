"""Tables in HTML, as notebooks show the value of a cell."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; columns whose name begins with # hold numbers, which stand to the right."""
    sides = ["right" if name.startswith("#") else "left" for name in columns]
    head = "".join(_cell("th", name.removeprefix("#"), side) for name, side in zip(columns, sides))
    body = "".join(
        f"<tr>{''.join(_cell('td', value, side) for value, side in zip(row, sides))}</tr>"
        for row in rows
    )
    caption = f'<caption style="text-align: left">{html.escape(title)}</caption>' if title else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def network(
    name: str, kinds: Counter[str], size: int, values: Iterable[tuple[str, str, object]]
) -> str:
    """A network by its inputs and outputs (which of both, name, type), its operators, and the bytes
    of its constants.
    """
    title = f"{name}: {kinds.total():,} nodes, {size / 1e6:,.2f} MB of constants"
    operators = table("", ("operator", "#count"), kinds.most_common())
    return table(title, ("", "name", "type"), values) + operators


def paragraphs(lines: Iterable[str]) -> str:
    """Each line as a paragraph."""
    return "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def frame(page: str, height: int = 640) -> str:
    """A whole page inside of another: so high, in pixels, and as wide as there is room."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: {height}px; border: 0">'
        "</iframe>"
    )


def _cell(tag: str, value: object, side: str) -> str:
    return f'<{tag} style="text-align: {side}">{html.escape(str(value))}</{tag}>'
