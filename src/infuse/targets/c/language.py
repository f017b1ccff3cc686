"""C: what it says differently from C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from infuse.dtypes import DType
from infuse.ir.dims import Dim
from infuse.lowering.elementwise import Elementwise, Place, Scalar, Source
from infuse.lowering.expressions import Aggregate, KernelSizes
from infuse.lowering.statements import InterleavePlanes, MapWork, RowWork, Statement
from infuse.targets.c.formulas import FormulaPrinter, load_text, scalar_type, store_text
from infuse.targets.text.language import Language
from infuse.targets.text.literals import literal
from infuse.targets.text.places import offset_text


class C(Language):
    """C99, whose functions take no others: elementwise work is two loops."""

    nothing = "NULL"
    linkage = "static"
    apart = "__attribute__((noinline))"
    context, given = "Context* c", "c"

    def aggregate(self, braces: Aggregate) -> str:
        head = f"({self.instance(braces.type, braces.template)})" if braces.type else ""
        return f"{head}{{{self.fields(braces.items)}}}"

    def instance(self, function: str, template: Sequence[str]) -> str:
        return "_".join((function, *template))

    def literal(self, value: float, dtype: DType) -> str:
        return literal(value, dtype)

    def scalar_type(self, dtype: DType) -> str:
        return scalar_type(dtype)

    def call_sizes(self, sizes: KernelSizes, size_text: Callable[[Dim], str]) -> str:
        raise AssertionError("kernels of C take sizes one by one")

    def sizes_parameter(self, type: str, name: str) -> str:
        raise AssertionError("kernels of C take sizes one by one")

    # -- statements --------------------------------------------------------------------------------

    def own_lines(self, statement: Statement) -> Sequence[str]:
        match statement:
            case MapWork():
                return self._map_work(statement)
            case RowWork():
                return self._row_work(statement)
            case InterleavePlanes(channels, images, pixels, source, target):
                image = f"i / {channels} / {pixels} * {channels} + i % {channels}"
                return [
                    f"for (isize i = 0; i < {images} * {pixels} * {channels}; ++i)",
                    f"  {target}[i] = {source}[({image}) * {pixels} + i / {channels} % {pixels}];",
                ]
        raise AssertionError(f"C has no {type(statement).__name__}")

    def copy_head(self, bytes: int) -> str:
        return f"copy_elements({bytes}"

    def _map_work(self, s: MapWork) -> Sequence[str]:
        divides = s.work.divides
        return [
            *(["bool zero = false, *const found_zero = &zero;"] if divides else []),
            f"for (isize row = 0; row < {s.rows}; ++row)",
            f"  for (isize col = 0; col < {s.columns}; ++col) {{",
            *(f"    {line}" for line in _work_lines(s.work)),
            "  }",
            *(["if (zero) return DIVIDES_BY_ZERO;"] if divides else []),
        ]

    def _row_work(self, s: RowWork) -> Sequence[str]:
        divides, loop = s.work.divides, "for (isize row = 0; row < {}; ++row)"
        at, head, end = "row", [loop.format(s.rows)], []
        if s.call is not None:
            at, end = "(row - first)", ["}"]
            head = [
                f"for (isize first = 0; first < {s.rows}; first += {s.together}) {{",
                f"  const isize count = min_long({s.together}, {s.rows} - first);",
                *(f"  {line}" for line in self.lines(s.call)),
                "  for (isize row = first; row < first + count; ++row)",
            ]
        return [
            *(["bool zero = false, *const found_zero = &zero;"] if divides else []),
            *head,
            f"    for (isize col = 0; col < {s.columns}; ++col) {{",
            f"      const {scalar_type(s.dtype)} acc = {s.line}[{at} * {s.columns} + col];",
            *(f"      {line}" for line in _work_lines(s.work)),
            "    }",
            *end,
            *(["if (zero) return DIVIDES_BY_ZERO;"] if divides else []),
        ]


def _index(place: Place) -> str:
    """The number of an element at (row, col)."""
    if not place.column:
        return offset_text(place)
    column = "col" if place.column == "1" else f"col * {place.column}"
    return f"{offset_text(place)} + {column}"


def _work_lines(work: Elementwise) -> Sequence[str]:
    """The statements of elementwise work at (row, col)."""
    printer = FormulaPrinter()
    names: list[str] = []

    def name(source: Source) -> str:
        return source if isinstance(source, str) else names[source]

    for definition in work.definitions:
        if isinstance(definition, Place):
            text = load_text(definition.pointer, _index(definition), definition.dtype)
            names.append(printer.define(text, definition.dtype))
        elif isinstance(definition, Scalar):
            names.append(definition.name)
        else:
            leaves = {number: name(source) for number, source in definition.leaves.items()}
            names.append(printer.print(definition.term, leaves))
    stores = [
        store_text(s.place.pointer, _index(s.place), name(s.source), s.place.dtype)
        for s in work.stores
    ]
    return [*printer.lines, *stores]


PLAIN: Final = C()
