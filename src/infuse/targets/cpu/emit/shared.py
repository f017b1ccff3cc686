"""Instances of kernel templates that no model changes: an object has them for all models of a
machine, whose own files declare them only.
"""

from __future__ import annotations

from typing import NamedTuple


class Shared(NamedTuple):
    """A macro of a kernel header that declares, or makes, such instances of these arguments."""

    header: str
    macro: str
    arguments: tuple[int, ...] = ()

    @property
    def declaration(self) -> str:
        """C++ that declares them."""
        return f"{self.macro}({', '.join(('extern', *map(str, self.arguments)))})"

    @property
    def file(self) -> str:
        """The name of the file that makes them."""
        name = self.macro.removeprefix("INFUSE_").lower()
        return f"{'_'.join((name, *map(str, self.arguments)))}.cpp"

    @property
    def text(self) -> str:
        """The file."""
        arguments = ", ".join(("", *map(str, self.arguments)))
        return f'#include "{self.header}"\n{self.macro}({arguments})\n'
