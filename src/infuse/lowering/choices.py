"""What was chosen for the steps of a program."""

from __future__ import annotations

from infuse.lowering.choice import Choice
from infuse.lowering.program import Program


class Choices:
    """Collects the choices of the group that is being lowered, for its steps."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._choices: list[tuple[int, Choice]] = []  # and how many steps there were before

    def add(self, choice: Choice) -> str:
        """A choice for the steps that follow: the candidate to take."""
        self._choices.append((len(self._program.steps), choice))
        return choice.chosen

    def settle(self, first: int) -> None:
        """Give the steps from number `first` on, those of one group, the choices that were made for
        them.
        """
        for begin, choice in self._choices[:1]:
            self._choices[0] = min(begin, first), choice
        for begin, choice in self._choices:
            for step in self._program.steps[begin:]:
                step.choice = choice
        self._choices.clear()
