"""The form of the table of faults: what is stated of each, and how a file shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from infuse.doctor.facts import FileFacts, FileNode

Detector = Callable[[FileFacts], Iterable[FileNode]]
"""The nodes of a file that show a fault; of several nodes of one call, the last."""
Condition = Callable[[FileNode], bool]
CallCondition = Callable[[FileNode, list[str]], bool]


@dataclass(frozen=True)
class Fault:
    """A known fault of an exporter or a runtime on valid input.

    `by` is who errs, `versions` those in which it was seen, the newest last, and `gone` the first
    without it. `right` is what the framework or the standard computes, `wrong` what comes instead,
    `when` for which numbers. `proof` is a script of `findings/` or a test. A `note` concerns
    special numbers alone (NaN, infinities, beyond 32 bits, empty tensors).
    """

    name: str
    by: str
    versions: tuple[str, ...]
    right: str
    wrong: str
    when: str
    advice: str
    proof: str
    detect: Detector
    gone: str | None = None
    note: bool = False


FAULTS: Final[list[Fault]] = []


def register(*faults: Fault) -> None:
    """Add rows to the table; their names must be new."""
    names = {fault.name for fault in FAULTS}
    for fault in faults:
        if fault.name in names:
            raise ValueError(f"two faults are called {fault.name}")
        names.add(fault.name)
        FAULTS.append(fault)


@dataclass(frozen=True)
class Nodes:
    """Finds nodes of these kinds that meet a condition."""

    kinds: tuple[str, ...]
    where: Condition

    def __call__(self, facts: FileFacts) -> Iterator[FileNode]:
        return (node for node in facts.of(*self.kinds) if self.where(node))


@dataclass(frozen=True)
class Calls:
    """Finds recorded calls of these operators of a framework, by the last node of each, which must
    meet a condition together with the kinds of all nodes that were written for the call.
    """

    targets: tuple[str, ...]
    where: CallCondition

    def __call__(self, facts: FileFacts) -> Iterator[FileNode]:
        for group in facts.calls:
            call = group[-1].call
            if call is None or not {call.target, call.target.rpartition(".")[0]} & {*self.targets}:
                continue
            if self.where(group[-1], [node.kind for node in group]):
                yield group[-1]


@dataclass(frozen=True)
class Either:
    """Finds what one of several detectors does, each node once."""

    detectors: tuple[Detector, ...]

    def __call__(self, facts: FileFacts) -> Iterator[FileNode]:
        every = (node for detector in self.detectors for node in detector(facts))
        return iter(dict.fromkeys(every))


def nodes(*kinds: str, where: Condition = lambda node: True) -> Nodes:
    """Nodes of these kinds that meet a condition."""
    return Nodes(kinds, where)


def calls(*targets: str, where: CallCondition = lambda node, kinds: True) -> Calls:
    """Calls of these operators (`aten.floor_divide`, with or without the overload)."""
    return Calls(targets, where)
