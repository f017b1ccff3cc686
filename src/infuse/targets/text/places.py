"""Where elementwise work reads and writes, by `row`."""

from __future__ import annotations

from infuse.lowering.elementwise import Place, RowStep
from infuse.targets.text.sizes import size_text


def offset_text(place: Place) -> str:
    """The elements before those of a row."""
    return " + ".join(map(_row_text, place.rows)) or "0L"


def _row_text(step: RowStep) -> str:
    index = "row" if step.below == 1 else f"(row / {_text(step.below)})"
    if step.size is not None:
        index = f"({index} % {_text(step.size)})"
    return index if step.stride == "1" else f"{index} * {step.stride}"


def _text(size: int | str) -> str:
    return size if isinstance(size, str) else size_text(size)
