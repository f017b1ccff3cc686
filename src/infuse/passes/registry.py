"""Rules and passes of other packages: registered by a call, or announced by an installed package's
entry points.

A package announces its own in its pyproject.toml, by any names; each names a Rule or Pass class, or
a list of them:

    [project.entry-points."infuse.rules"]
    mine = "my_package.rules:RULES"
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from infuse.errors import RuleError
from infuse.options import LEVELS
from infuse.rewrite import Pass, Rule
from infuse.sources import announced

SWITCH = "INFUSE_PLUGINS"
"""The environment variable that leaves entry points out when it is 0."""
Extension = Rule | Pass

_registered: dict[str, Extension] = {}


def register(*things: Any) -> None:
    """Let rules and passes (classes or objects) take part in every optimization of this process
    from now on.

    A thing of the same name takes the place of an earlier registration. RuleError for anything
    else, and for a name that Infuse's own rules use.
    """
    for thing in extensions_of(things, "infuse.register"):
        _registered[thing.name] = thing


def unregister(*names: str) -> None:
    """Take registrations back; RuleError for a name that was not registered."""
    for name in names:
        if name not in _registered:
            raise RuleError(f"nothing is registered by the name {name!r}")
        del _registered[name]


def registered() -> tuple[Extension, ...]:
    """Everything that was registered or that installed packages announce, registrations first."""
    announced = [thing for thing in _plugins() if thing.name not in _registered]
    return (*_registered.values(), *announced)


def _plugins() -> tuple[Extension, ...]:
    return () if os.environ.get(SWITCH, "1") == "0" else _announced()


@cache
def _announced() -> tuple[Extension, ...]:
    """What installed packages announce, in the order of its entry points' names."""
    extensions: dict[str, Extension] = {}
    for entry in announced():
        extensions.update((thing.name, thing) for thing in _load(entry))
    return tuple(extensions.values())


def _load(entry: EntryPoint) -> list[Extension]:
    owner = entry.dist.name if entry.dist is not None else "an installed package"
    where = f"entry point {entry.name} of {owner}"
    try:
        loaded = entry.load()
    except Exception as error:
        raise RuleError(
            f"{entry.value} cannot be loaded: {type(error).__name__}: {error}",
            where=where,
            hint=f"repair or uninstall {owner}, or set {SWITCH}=0 to run without such packages",
        ) from error
    return extensions_of([loaded], where)


def extensions_of(things: Iterable[Any], where: str) -> list[Extension]:
    """Rules and passes as objects, from objects, classes, and lists of them; RuleError for anything
    else.
    """
    extensions: list[Extension] = []
    for thing in things:
        if isinstance(thing, (list, tuple)):
            extensions += extensions_of(thing, where)
            continue
        made = _made(thing, where) if isinstance(thing, type) else thing
        if not isinstance(made, (Rule, Pass)):
            raise RuleError(
                f"{thing!r} is neither a Rule nor a Pass",
                where=where,
                hint="give a class that derives from one of them",
            )
        if made.level not in LEVELS[1:]:
            raise RuleError(
                f"{made.name} has the level {made.level!r}",
                where=where,
                hint=f"one of: {LEVELS[1:]}",
            )
        extensions.append(made)
    return extensions


def _made(kind: type, where: str) -> Any:
    if not issubclass(kind, (Rule, Pass)):
        return None
    try:
        return kind()
    except Exception as error:
        raise RuleError(
            f"{kind.__name__} cannot be made without arguments: {error}", where=where
        ) from error
