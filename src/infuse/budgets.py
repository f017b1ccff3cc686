"""How much a model may cost before it runs: nodes, terms, work and time, each with a limit that can
be raised.

`$INFUSE_BUDGET` raises or lowers them: `INFUSE_BUDGET=nodes=2000000,seconds=3600`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from infuse.errors import BudgetError, OptionError

VARIABLE: Final = "INFUSE_BUDGET"
DEFAULTS: Final = {
    "nodes": 1_000_000,
    "terms": 1 << 15,
    "seconds": 1800,
    "entries": 1 << 23,
}
"""`nodes`: of a model once its functions are inlined. `terms`: products of terms that one product
of symbolic sizes takes. `seconds`: from a verb's call to its end, in any stage. `entries`: fields,
strings, arrays and tensors that the header of a GGUF file lists.
"""

_deadline: ContextVar[float] = ContextVar("deadline", default=0.0)


def limit(name: str) -> int:
    """The limit of a budget; OptionError when the variable has no meaning."""
    text = os.environ.get(VARIABLE, "")
    return DEFAULTS[name] if not text else _parsed(text)[name]


def spend(name: str, amount: float, what: str) -> None:
    """BudgetError when `amount` is more than a budget allows; `what` says what has so many."""
    most = limit(name)
    if amount > most:
        shown = f"{amount:.3g}" if amount > 10**9 else f"{round(amount)}"
        raise BudgetError(f"{what} {shown} {name}, and {most} are allowed", hint=advice(name))


def advice(name: str) -> str:
    """How to raise a budget."""
    return f"if the model is meant to be so, set {VARIABLE}={name}=… to more"


@contextmanager
def timed() -> Iterator[None]:
    """The budget of seconds runs inside; a verb that calls another shares its time."""
    if _deadline.get():
        yield
        return
    token = _deadline.set(time.monotonic() + limit("seconds"))
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left() -> float | None:
    """Seconds that are left of the budget; None outside of `timed`."""
    deadline = _deadline.get()
    return deadline - time.monotonic() if deadline else None


def check_time(stage: str) -> None:
    """BudgetError when the time is up, in the stage of this name."""
    deadline = _deadline.get()
    if deadline and time.monotonic() > deadline:
        raise BudgetError(
            f"{stage} did not end within {limit('seconds')} seconds", hint=advice("seconds")
        )


def _parsed(text: str) -> dict[str, int]:
    budgets = dict(DEFAULTS)
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        if name not in DEFAULTS or not value.isascii() or not value.isdigit() or len(value) > 18:
            example = (
                f"for example {VARIABLE}=nodes=2000000,seconds=3600; there are "
                f"{', '.join(DEFAULTS)}"
            )
            raise OptionError(
                f"{VARIABLE} is {text[:80]!r}, in which {part[:40]!r} is not a budget", hint=example
            )
        budgets[name] = int(value)
    return budgets
