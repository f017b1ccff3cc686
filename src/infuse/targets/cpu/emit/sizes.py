"""Sizes as C++: symbols are fields of the struct `d` that each call fills."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from infuse.ir import dim_text
from infuse.ir.dims import Atom, Dim, Expr
from infuse.targets.cpu.families.base import KernelSizes
from infuse.targets.text.sizes import symbol_field

_FIELD = re.compile(r"\bd\.(\w+)")


def size_text(dim: Dim) -> str:
    """A size as C++ of type long; symbols are fields of `d`."""
    return dim_text.c_text(dim, _field)


class RunSizes:
    """Sizes in a function that runs: what is a function of symbols other than those in `late` is
    computed once, by `lines`, which come first.
    """

    def __init__(self, late: Collection[str]) -> None:
        self.lines: list[str] = []
        self._late = frozenset(late)
        self._names: dict[Atom, str] = {}

    def text(self, dim: Dim) -> str:
        """A size as C++ of type long."""
        return dim_text.c_text(dim, _field, term=self._name)

    def _name(self, atom: Atom) -> str | None:
        if atom.kind == "symbol" or atom.names & self._late:
            return None
        if atom not in self._names:
            value = dim_text.c_term(atom, _field, term=self._name)
            self._names[atom] = f"z{len(self._names)}"
            self.lines.append(f"const long {self._names[atom]} = {value};")
        return self._names[atom]


def _field(name: str) -> str:
    return f"d.{symbol_field(name)}"


def estimate_text(dim: Dim) -> str:
    """A size as C++ of type double, which does not overflow."""
    return dim_text.c_text(dim, lambda name: f"double(d.{symbol_field(name)})", ".0")


def fields_in(text: str) -> set[str]:
    """The sizes that C++ text reads, as fields."""
    return set(_FIELD.findall(text))


def sizes_text(sizes: KernelSizes) -> str:
    """The sizes of a kernel call as C++; symbols are fields of `d`."""
    return struct_text(sizes, size_text)


def struct_text(sizes: KernelSizes, size_text: Callable[[Dim], str]) -> str:
    """C++ text of the struct, every field named."""
    names = sizes._fields  # type: ignore[attr-defined]
    fields = (
        f".{name} = {_field_text(value, size_text)}"
        for name, value in zip(names, sizes, strict=True)
    )
    return f"{type(sizes).__name__}{{{', '.join(fields)}}}"


def _field_text(value: Any, size_text: Callable[[Dim], str]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return size_text(value) if isinstance(value, (int, Expr)) else struct_text(value, size_text)
