"""Sizes as C: symbols are fields of the struct `d` that each call fills."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import Final

from infuse.ir import dim_text
from infuse.ir.dims import Atom, Dim
from infuse.lowering.program import Program, all_sizes

_FIELD: Final = re.compile(r"\bd->(\w+)")


def symbol_field(name: str) -> str:
    """A C identifier for a symbol, different for different names."""
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    if clean == name and not name[:1].isdigit() and len(name) < 40:
        return f"s_{name}"
    return f"s_{clean[:24]}_{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"


def size_text(dim: Dim) -> str:
    """A size as C of type isize; symbols are fields of `d`."""
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
        """A size as C of type isize."""
        return dim_text.c_text(dim, _field, term=self._name)

    def _name(self, atom: Atom) -> str | None:
        if atom.kind == "symbol" or atom.names & self._late:
            return None
        if atom not in self._names:
            value = dim_text.c_term(atom, _field, term=self._name)
            self._names[atom] = f"z{len(self._names)}"
            self.lines.append(f"const isize {self._names[atom]} = {value};")
        return self._names[atom]


def _field(name: str) -> str:
    return f"d->{symbol_field(name)}"


def estimate_text(dim: Dim) -> str:
    """A size as C of type double, which does not overflow."""
    return dim_text.c_text(
        dim, lambda name: f"(double){_field(name)}", ".0", functions=dim_text.C_ESTIMATE
    )


def fields_in(text: str) -> set[str]:
    """The sizes that C text reads, as fields."""
    return set(_FIELD.findall(text))


def size_fields(programs: Sequence[Program]) -> str:
    """The fields of the struct of sizes; one that nobody reads where there are none."""
    return " ".join(f"isize {symbol_field(s)};" for s in all_sizes(programs))


def sizes_struct(fields: str) -> str:
    """The struct of sizes."""
    content = fields or "char none;"
    return f"typedef struct Sizes {{ {content} }} Sizes;  // the symbolic dimensions"
