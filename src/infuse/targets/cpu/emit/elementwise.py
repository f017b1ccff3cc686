"""Elementwise work by row and column in C++."""

from __future__ import annotations

from collections.abc import Sequence

from infuse.lowering.elementwise import Elementwise, Place, Scalar, Source
from infuse.targets.cpu.emit.blocks import block_lines
from infuse.targets.cpu.emit.formulas import FormulaPrinter
from infuse.targets.text.places import offset_text


def load_text(place: Place) -> str:
    """The elements from (row, col) on."""
    begin = f"{place.pointer} + {offset_text(place)}"
    if not place.column:
        return f"splat<L>(load({begin}, One{{}}))"
    column = "col" if place.column == "1" else f"col * {place.column}"
    return f"load({begin} + {column}, lanes)"


def store_text(place: Place, value: str) -> str:
    """A statement that puts elements there, whose columns lie side by side."""
    return f"store({place.pointer} + {offset_text(place)} + col, {value}, lanes);"


def work_lines(work: Elementwise) -> Sequence[str]:
    """The statements of elementwise work."""
    printer = FormulaPrinter()
    names: list[str] = []

    def name(source: Source) -> str:
        return source if isinstance(source, str) else names[source]

    for definition in work.definitions:
        if isinstance(definition, Place):
            names.append(printer.define(load_text(definition)))
        elif isinstance(definition, Scalar):
            names.append(f"splat<L>({definition.name})")
        else:
            leaves = {number: name(source) for number, source in definition.leaves.items()}
            names.append(printer.print(definition.term, leaves))
    stores = [store_text(store.place, name(store.source)) for store in work.stores]
    returned = [] if work.result is None else [f"return {name(work.result)};"]
    first = [] if work.blocks is None else block_lines(work.blocks)
    return [*first, *printer.lines, *stores, *returned]
