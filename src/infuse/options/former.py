"""Keywords of the verbs before their options were classes: they work for one release more, with a
warning that names the new spelling.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from infuse.errors import OptionError
from infuse.options.fields import Checked, shown

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Moved:
    """Keywords that are fields of one argument now."""

    parameter: str
    """The argument that has them."""
    make: Callable[..., Any]
    """What makes it of the keywords that are given, by the names of its fields."""
    names: Mapping[str, str]
    """The fields by keyword."""
    plain: str = ""
    """The field that an argument stands for which is no object of options, such as a text."""

    @property
    def kind(self) -> type[Checked] | None:
        """The class of the argument; None where it may be of several."""
        made = self.make if isinstance(self.make, type) else getattr(self.make, "__self__", None)
        return made if isinstance(made, type) and issubclass(made, Checked) else None

    def check(self, verb: str, value: Any) -> None:
        """OptionError unless the argument may have this value."""
        if self.kind is None or isinstance(value, self.kind):
            return
        if self.plain and not isinstance(value, Checked):
            self.kind(**{self.plain: value})
            return
        raise OptionError(
            f"{self.parameter} is {shown(value)}",
            where=verb,
            hint=f"it is an object of {self.kind.__name__}",
        )


def same(*names: str) -> dict[str, str]:
    """Keywords that are called like the fields."""
    return dict(zip(names, names))


def former(*moves: Moved) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A verb that takes keywords of the last release, too. OptionError where an argument is given
    in both ways.
    """

    def decorate(verb: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(verb).parameters
        order = list(signature)
        absent = {move.parameter: signature[move.parameter].default for move in moves}

        @functools.wraps(verb)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            every = {**dict(zip(order, arguments)), **named}
            for move in moves:
                if every.get(move.parameter, absent[move.parameter]) is not absent[move.parameter]:
                    move.check(verb.__name__, every[move.parameter])
            if not any(keyword in named for move in moves for keyword in move.names):
                return verb(*arguments, **named)
            for move in moves:
                keywords = [keyword for keyword in move.names if keyword in every]
                if keywords:
                    every[move.parameter] = _moved(verb.__name__, move, keywords, every)
            return verb(**every)  # type: ignore[arg-type, call-arg]

        call.moves = moves  # type: ignore[attr-defined]
        return call

    return decorate


def _moved(verb: str, move: Moved, keywords: Sequence[str], every: dict[str, Any]) -> Any:
    """The argument that keywords stand for, which are taken out of `every`."""
    given = {move.names[keyword]: every.pop(keyword) for keyword in keywords}
    given = {name: value for name, value in given.items() if value is not None}
    argument = every.get(move.parameter)
    is_plain = move.plain and not isinstance(argument, Checked) and move.plain not in given
    if argument is not None and not is_plain:
        raise OptionError(
            f"{move.parameter} is given, and {' and '.join(keywords)} besides",
            where=verb,
            hint=f"let {move.parameter} say it: the keywords are those of the last release",
        )
    if argument is not None:
        given[move.plain] = argument
    result = move.make(**given)
    warnings.warn(
        f"{verb}({', '.join(f'{keyword}=' for keyword in keywords)}) is written "
        f"{move.parameter}={shown(result)} now; the former keywords go with the next release",
        FutureWarning,
        stacklevel=3,
    )
    return result
