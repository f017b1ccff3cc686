"""Functions of the host that scripts call: sizes, blocks of memory, and what finds sizes."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import Final

from infuse.immutable import Immutable

_HEADERS: Final = (
    "blocks.h",
    "failure.h",
    "program.hpp",
    "sizes.h",
    "sizes.hpp",
    "threads.hpp",
    "whole.h",
)


class Operand(Immutable):
    """What a function is called with: a isize, a double, a pointer to elements of a C type, or a
    text.
    """

    kind: str
    type: str


class HostFunction(Immutable):
    """A function with the kinds of what it is called with. `form`: it gives a "value", or says
    whether it can ("fails"), or is only "done".
    """

    form: str
    function: str
    template: tuple[str, ...]
    operands: tuple[Operand, ...]
    headers: tuple[str, ...]

    @property
    def name(self) -> str:
        """A name that only equal functions have."""
        digest = hashlib.blake2b(repr(self).encode(), digest_size=8).hexdigest()
        return f"host_{self.function.rpartition(':')[2]}_{digest}"

    def needed(self) -> set[str]:
        """The headers of a file with it."""
        return {*_HEADERS, *self.headers}

    def slots(self) -> str:
        """The kinds of its slots (kernels/program.hpp)."""
        kinds = {"text": "", "double": "f", "pointer": "t"}
        return "".join(kinds.get(each.kind, "i") for each in self.operands)

    def unit(self, linkage: str) -> str:
        """What calls it with slots."""
        slots = itertools.count()
        arguments = ", ".join(_argument(each, slots) for each in self.operands)
        template = f"<{', '.join(self.template)}>" if self.template else ""
        call = f"{self.function}{template}({arguments})"
        given = {"value": f"(isize)({call})", "fails": f"!{call}", "done": f"({call}, 0L)"}[
            self.form
        ]
        return (
            f"{linkage} isize {self.name}(Context& c, const Slot* a) {{\n"
            f"  (void)c, (void)a;\n  return {given};\n}}\n"
        )


def _argument(operand: Operand, slots: Iterator[int]) -> str:
    match operand.kind:
        case "text":
            return operand.type
        case "double":
            return f"a[{next(slots)}].f"
        case "pointer":
            return f"({operand.type}*)a[{next(slots)}].p"
    return f"(isize)a[{next(slots)}].i"
