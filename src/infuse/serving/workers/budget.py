"""What models may take of memory, what they take, and the refusal of those for which there is
none.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infuse.errors import UnavailableError
from infuse.serving.workers.host import Host

PROCESS_BYTES: Final = 24 << 20
"""What a worker takes of its own before its first model."""


class NoRoomError(UnavailableError):
    """There is no memory for a version now."""


@dataclass(frozen=True)
class Memory:
    """A process: bytes that are present, those by its share of what others have too, and those that
    are its own.
    """

    resident: int = 0
    pss: int = 0
    own: int = 0


def memory_of(pid: int, proc: Path = Path("/proc")) -> Memory:
    """The memory of a process; nothing when there is no such process.

    Its own is what it has written (its heap, tensors in shared memory by share): mapped weights are
    not in it.
    """
    try:
        lines = (proc / str(pid) / "smaps_rollup").read_text("ascii").splitlines()[1:]
    except (OSError, ValueError):
        return Memory(resident_bytes(pid, proc))
    sizes = {
        name: int(rest.split()[0]) << 10
        for name, _, rest in (line.partition(":") for line in lines)
    }
    own = (
        sizes.get("Pss_Anon", sizes.get("Anonymous", 0))
        + sizes.get("Pss_Shmem", 0)
        + sizes.get("SwapPss", 0)
    )
    return Memory(sizes.get("Rss", 0), sizes.get("Pss", 0), own)


def resident_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Memory of a process that is its own or shared and present; 0 when there is no such
    process.
    """
    try:
        return int((proc / str(pid) / "statm").read_text("ascii").split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    except (OSError, IndexError, ValueError):
        return 0


def limit_of(memory_mb: int, host: Host | None = None) -> int | None:
    """Bytes that all models may take: what is configured, or what the machine or its control group
    has.

    None: that is not known, and nothing is refused.
    """
    if memory_mb:
        return memory_mb << 20
    limit = (host or Host()).memory()
    return limit[1] if limit else None


def build_limit_of(memory_mb: int, host: Host | None = None) -> int | None:
    """Bytes that compiling a model may take in a process: what is configured, or half of what there
    is.

    None: that is not known, and nothing is limited.
    """
    if memory_mb:
        return memory_mb << 20
    limit = (host or Host()).memory()
    return limit[1] // 2 if limit else None


class Budget:
    """The memory of all workers. Weights count once, however many replicas map them."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._promised: dict[object, int] = {}
        self._seen: dict[int, Memory] = {}

    def promise(self, holder: object, needed: int, taken: int) -> None:
        """Set memory aside for a replica that is being loaded; NoRoomError when there is none.

        `taken` is what those take that are loaded.
        """
        there = self.left(taken)
        if there is not None and needed > there:
            raise no_room(needed, there)
        self._promised[holder] = needed

    def keep(self, holder: object) -> None:
        """A replica has been loaded, or never will be: it is measured now."""
        self._promised.pop(holder, None)

    def left(self, taken: int) -> int | None:
        """Bytes that nobody has or was promised; None: there is no limit."""
        return (
            None
            if self.limit is None
            else max(0, self.limit - taken - sum(self._promised.values()))
        )

    async def measure(self, pids: Iterable[int]) -> None:
        """Measure processes, beside the loop: the kernel walks through all of their pages."""
        listed = list(pids)
        sizes = await asyncio.to_thread(lambda: [memory_of(pid) for pid in listed])
        self._seen = dict(zip(listed, sizes))

    def look(self, pids: Mapping[str, int]) -> dict[str, Memory]:
        """The memory of workers by name, as it was last measured; of new ones, as it is."""
        for pid in pids.values():
            if pid not in self._seen:
                self._seen[pid] = memory_of(pid)
        return {name: self._seen[pid] for name, pid in pids.items()}


def no_room(needed: int, there: int) -> NoRoomError:
    """The refusal of a version."""
    return NoRoomError(
        f"it needs {mib(needed)} of memory, and {mib(there)} are left for models",
        hint="unload another one, or raise workers.memory_mb",
    )


def mib(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / (1 << 20):.0f} MiB" if size >= 10 << 20 else f"{size / (1 << 20):.1f} MiB"
