"""Compiled models that a record of the cache names."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from infuse.errors import InfuseError
from infuse.runtime.model import CompiledModel


def recorded_model(record: Any) -> CompiledModel | None:
    """The model of a record, which has its `folder` and `threads`; None where there is none, or
    what it tells is gone or damaged: compiling says what is wrong, if anything is.
    """
    try:
        folder = Path(record["folder"])
        model = CompiledModel.load(folder, record["threads"])
    except (OSError, LookupError, TypeError, ValueError, InfuseError):
        return None
    with suppress(OSError):  # a read-only cache does not keep the time of use
        os.utime(folder)
    return model
