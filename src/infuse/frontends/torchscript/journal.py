"""Which lists, dictionaries, objects and elements a part of a program changes, so that it can be
undone.
"""

from __future__ import annotations

from typing import Any

from infuse.frontends.torchscript.values import CLOCK, Cell, Dict, List, Object


def content(thing: Any) -> Any:
    """What of a thing can change, as it is now."""
    if isinstance(thing, Cell):
        return thing.value, thing.spoiled
    if isinstance(thing, Object):
        return dict(thing.fields)
    return list(thing) if isinstance(thing, List) else dict(thing)


def restore(thing: Any, before: Any) -> None:
    """Let a thing be as it was."""
    if isinstance(thing, Cell):
        thing.value, thing.spoiled = before
    elif isinstance(thing, Object):
        thing.fields.clear()
        thing.fields.update(before)
    elif isinstance(thing, List):
        thing[:] = before
    else:
        thing.clear()
        thing.update(before)


class Journal:
    """What was changed since it began."""

    def __init__(self) -> None:
        self.start = next(CLOCK)
        self.before: dict[int, tuple[Any, Any]] = {}

    def touch(self, thing: Cell | Object | List | Dict) -> None:
        """Note how a thing is, before it changes."""
        if thing.born < self.start:
            self.before.setdefault(id(thing), (thing, content(thing)))

    def now(self) -> dict[int, tuple[Any, Any]]:
        """What was changed, as it is now."""
        return {key: (thing, content(thing)) for key, (thing, _) in self.before.items()}

    def undo(self) -> None:
        """Let everything be as it was."""
        for thing, before in self.before.values():
            restore(thing, before)

    def pass_on(self, outer: Journal) -> None:
        """Let an outer journal know of what stays changed."""
        for key, (thing, before) in self.before.items():
            if thing.born < outer.start:
                outer.before.setdefault(key, (thing, before))
