"""What the body of a generated function consists of, and how C++ writes it.

Arguments and values are expressions: names that a function's writer gave to tensors, sizes and
sinks, or numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Statement(Protocol):
    """A part of a function's body."""

    def lines(self) -> Sequence[str]:
        """Its lines in C++."""
        ...


@dataclass(frozen=True)
class KernelCall:
    """A call of a kernel with these arguments, after the context where it takes one.

    `template`: what the kernel is specialized for. `failure`: what the function ends with when the
    kernel says that it cannot compute; empty for kernels that always can.
    """

    kernel: str
    arguments: tuple[str, ...]
    template: tuple[str, ...] = ()
    failure: str = ""
    context: bool = True

    def lines(self) -> Sequence[str]:
        template = f"<{', '.join(self.template)}>" if self.template else ""
        arguments = ", ".join((*(("c",) if self.context else ()), *self.arguments))
        call = f"{self.kernel}{template}({arguments})"
        return [f"if (!{call}) return {self.failure};" if self.failure else f"{call};"]


@dataclass(frozen=True)
class Array:
    """A constant list of whole numbers under a name."""

    name: str
    elements: tuple[str, ...]

    def lines(self) -> Sequence[str]:
        return [f"const long {self.name}[] = {{{', '.join(self.elements)}}};"]


@dataclass(frozen=True)
class Struct:
    """Parameters of a kernel under a name, by the order of their fields."""

    type: str
    name: str
    fields: tuple[str, ...]

    def lines(self) -> Sequence[str]:
        return [f"const {self.type} {self.name} = {{{', '.join(self.fields)}}};"]


@dataclass(frozen=True)
class Constant:
    """A value under a name."""

    type: str
    name: str
    value: str

    def lines(self) -> Sequence[str]:
        return [f"const {self.type} {self.name} = {self.value};"]


@dataclass(frozen=True)
class Room:
    """Lists of whole numbers, by name and length, that a call fills."""

    lengths: tuple[tuple[str, int], ...]

    def lines(self) -> Sequence[str]:
        return [f"long {', '.join(f'{name}[{length}]' for name, length in self.lengths)};"]


@dataclass(frozen=True)
class Assign:
    """Values stored where names point, or in elements and fields."""

    pairs: tuple[tuple[str, str], ...]

    def lines(self) -> Sequence[str]:
        return [f"{', '.join(f'{place} = {value}' for place, value in self.pairs)};"]


@dataclass(frozen=True)
class Require:
    """The function ends with a failure unless a condition holds."""

    condition: str
    failure: str

    def lines(self) -> Sequence[str]:
        return [f"if (!({self.condition})) return {self.failure};"]


@dataclass(frozen=True)
class Text:
    """C++ as it is."""

    text: str

    def lines(self) -> Sequence[str]:
        return [self.text]
