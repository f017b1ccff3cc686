"""Warnings of a session, and the level from which on they are given."""

from __future__ import annotations

import threading
import warnings
from typing import Final

from infuse.onnxruntime.errors import ValueFault

WARNING: Final = 2
LEVELS: Final = range(5)
"""Of severity."""
_lock = threading.Lock()
_warned: set[str] = set()
_severity = WARNING


class OptionWarning(UserWarning):
    """An option or argument of ONNX Runtime that has no effect in Infuse."""


def set_default_logger_severity(level: int) -> None:
    """From which level on messages are given: 0 verbose, 1 info, 2 warning (the default), 3 error,
    4 fatal. From 3 on, nobody is told of options without effect.
    """
    global _severity  # noqa: PLW0603  the level is the process's
    if level not in LEVELS:
        raise ValueFault(
            f"{level} is not a level of severity",
            hint="0 verbose, 1 info, 2 warning, 3 error, 4 fatal",
        )
    _severity = int(level)


def tells_warnings(severity: int = -1) -> bool:
    """Whether warnings are given at a level of severity; -1: at the default one."""
    return (severity if severity >= 0 else _severity) <= WARNING


def no_effect(what: str, why: str = "", *, severity: int = -1, depth: int = 3) -> None:
    """Warn, once a process for each `what`, that it has no effect, unless the level of severity
    (-1: the default one) is above that of warnings. `depth` is as in `warnings.warn`.
    """
    if not tells_warnings(severity):
        return
    with _lock:
        if what in _warned:
            return
        _warned.add(what)
    because = f": {why}" if why else ""
    warnings.warn(f"{what} has no effect in Infuse{because}", OptionWarning, stacklevel=depth)


def forget_notices() -> None:
    """Give every warning once more; for tests."""
    with _lock:
        _warned.clear()
