"""What benchmarks print while they work and when they are done."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

Thing = TypeVar("Thing")


def console(width: int = 160) -> Console:
    """A console for tables, `width` columns wide where no terminal shows them."""
    return Console(width=None if sys.stdout.isatty() else width)


def watched(things: Iterable[Thing], name: Callable[[Thing], str]) -> Iterator[Thing]:
    """The same things, with a bar that tells which one is at work."""
    listed = list(things)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(listed))
        for thing in listed:
            progress.update(task, description=name(thing))
            yield thing
            progress.advance(task)


def complain(shown: Console, where: str, errors: Mapping[str, str]) -> None:
    """Say which engines failed, and why."""
    for name, error in errors.items():
        shown.print(f"[red]{where}, {name}:[/] ", end="")
        shown.print(error, markup=False, highlight=False)
