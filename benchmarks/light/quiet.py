"""Waits until other programs leave the processors alone, so that a turn measures what it is to."""

import os
import time
from pathlib import Path

PAUSE = 0.1
BUSY = 0.15
"""Part of all processors' time that others may take."""
POLICIES = {0: "SCHED_OTHER", 1: "SCHED_FIFO", 2: "SCHED_RR"}
_STATISTICS = Path("/proc/stat")


def busy(pause: float = PAUSE) -> float:
    """The part of the time that the processors work for anybody, in the next `pause` seconds; 0
    where the system does not tell.
    """
    if not _STATISTICS.is_file():
        return 0.0
    before = _times()
    time.sleep(pause)
    passed = [now - then for now, then in zip(_times(), before)]
    idle = passed[3] + passed[4]  # idle, and waiting for a disk
    return 1 - idle / (sum(passed) or 1)


def wait(seconds: float) -> bool:
    """Wait for a quiet moment, so many seconds at most; whether there was one."""
    end = time.monotonic() + seconds
    while busy() > BUSY:
        if time.monotonic() >= end:
            return False
    return True


def _times() -> list[int]:
    """Ticks of all processors, by what they did."""
    line = _STATISTICS.read_text("utf-8").partition("\n")[0]
    return [int(word) for word in line.split()[1:9]]


def scheduling() -> str:
    """How the system chooses between this process and others: its policy and, where that goes by
    nice values, that of its group (Linux's autogroups); empty where the system does not tell.
    """
    if not hasattr(os, "sched_getscheduler"):
        return ""
    policy = POLICIES.get(os.sched_getscheduler(0), "another policy")
    path = Path("/proc/self/autogroup")
    words = path.read_text("utf-8").split() if path.is_file() else []
    return f"{policy}, nice {words[-1]}" if words and policy == "SCHED_OTHER" else policy
