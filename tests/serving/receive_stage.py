"""Copied arrays and slots in use, counted for tests of memory that requests are received in."""

import gc
from typing import Any

import pytest

from infuse.serving.workers import process_executor
from infuse.serving.workers.memory import Slot
from infuse.serving.workers.process_executor import ProcessExecutor

ROWS = 20_000
BYTES = ROWS * 16


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many arrays each run copied; one that copied nothing is not there."""
    made: list[int] = []
    written = process_executor.written

    def noted(slot: Slot, parts: Any) -> Any:
        made.append(len(parts))
        return written(slot, parts)

    monkeypatch.setattr(process_executor, "written", noted)
    return made


def taken(executor: ProcessExecutor) -> int:
    """Slots that are not idle."""
    gc.collect()
    return len(executor._slots._slots) - len(executor._slots._idle)
