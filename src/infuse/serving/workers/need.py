"""What a replica of a version is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Need:
    """What a replica of a version is: a compiled model, its threads, the memory that a worker of
    its own may have (in MiB, 0: no limit), and the bytes of its weights.
    """

    name: str
    folder: Path
    threads: int
    memory_mb: int = 0
    weights_bytes: int = 0
