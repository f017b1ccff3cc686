"""What this machine offers a process: how many processors it may use, and which instructions they
know.
"""

from __future__ import annotations

import ctypes
import os
import platform
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, SupportsIndex

from infuse.errors import OptionError
from infuse.runtime.levels import EXTENSIONS, NEON, VECTOR_BITS, within_limit

THREADS_VARIABLE = "INFUSE_NUM_THREADS"
MOST_THREADS = 256
"""Threads of a context, as kernels/threads.hpp has it."""

# Instruction sets that a compiler may choose on its own when it builds for one processor, as Linux
# names them.
_X86_EXTENSIONS = (
    "sse",
    "ssse3",
    "popcnt",
    "avx",
    "fma",
    "f16c",
    "bmi",
    "abm",
    "movbe",
    "gfni",
    "vaes",
    "vpclmul",
    "amx",
)

_VECTOR_LENGTH: Final = 51
_LENGTH_BYTES: Final = 0xFFFF
"""What Linux is asked of a process (PR_SVE_GET_VL), and which bits of the answer are bytes."""
_TILES: Final = "amx"
_ARCH_PRCTL: Final = 158
_REQUEST_PERMISSION: Final = 0x1023
_TILE_DATA: Final = 18
"""The number of a system call of x86-64, what it is asked to do, and with which state."""


def architecture() -> str:
    """The family of this machine's processors: x86_64, aarch64, …"""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def available_cpus() -> int:
    """The number of threads to use: `$INFUSE_NUM_THREADS`, else `cpu_limit()`."""
    text = os.environ.get(THREADS_VARIABLE, "").strip()
    if not text:
        return cpu_limit()
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(
            f"{THREADS_VARIABLE} is {text!r}, which is not a valid number of threads",
            hint="set it to 1 or more",
        )
    return int(text)


def usable_threads(threads: int) -> int:
    """`threads`, or as many as a context has at most, with a warning; OptionError for less than
    one.
    """
    if isinstance(threads, bool) or not isinstance(threads, SupportsIndex) or threads < 1:
        raise OptionError(
            f"{threads!r} is not a valid number of threads",
            hint="use 1 or more, or None for all processors",
        )
    if threads > MOST_THREADS:
        warnings.warn(
            f"a model runs on at most {MOST_THREADS} threads, not {threads}",
            RuntimeWarning,
            stacklevel=4,
        )
    return min(threads, MOST_THREADS)


def cpu_limit(root: Path = Path("/")) -> int:
    """The number of processors that this process may keep busy: its affinity mask and its cgroup
    quota, at least 1.

    `root` is where `proc` and `sys` are found.
    """
    quota = cgroup_quota(root)
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return allowed if quota is None else max(1, min(allowed, quota))


def cgroup_quota(root: Path = Path("/")) -> int | None:
    """The processor quota of this process's control groups, rounded up; None when there is no
    limit.

    Reads version 1 and version 2, at this group and at every group above it, as each may set a
    limit.
    """
    quotas: list[float] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        relative = Path(path.lstrip("/"))
        if not controllers:
            mounts = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"]
        elif "cpu" in controllers.split(","):
            mounts = [root / "sys/fs/cgroup" / controllers, root / "sys/fs/cgroup/cpu"]
        else:
            continue
        for mount in mounts:
            for group in (relative, *relative.parents):
                quotas += _quota(mount / group)
    return max(1, int(-(-min(quotas) // 1))) if quotas else None


def _quota(group: Path) -> list[float]:
    """The quota set at one control group, in processors: a list of one or none."""
    text = (
        _read(group / "cpu.max")
        or f"{_read(group / 'cpu.cfs_quota_us')} {_read(group / 'cpu.cfs_period_us')}"
    )
    fields = text.split()
    if (
        len(fields) != 2
        or not fields[0].isdecimal()
        or not fields[1].isdecimal()
        or int(fields[1]) == 0
    ):
        return []
    return [int(fields[0]) / int(fields[1])]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # a file that is not there is the answer "no limit"
        return ""


@lru_cache(maxsize=1)
def cpu_features() -> frozenset[str]:
    """The instruction-set extensions of this processor that this process may use, as Linux names
    them; empty where they cannot be read.

    Tile registers are asked for where the processor has them, and those that the system does not
    grant do not count, nor do those that `$INFUSE_CPU` hides.
    """
    return within_limit(all_features())


def all_features() -> frozenset[str]:
    """As `cpu_features`, also those that `$INFUSE_CPU` hides."""
    return _processor_features() - withheld_features()


@lru_cache(maxsize=1)
def withheld_features() -> frozenset[str]:
    """Instruction-set extensions that this processor has and the system does not let this process
    use.
    """
    tiles = frozenset(name for name in _processor_features() if name.startswith(_TILES))
    return frozenset() if not tiles or _tiles_granted() else tiles


@lru_cache(maxsize=1)
def _processor_features() -> frozenset[str]:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(flag for flag in value.split() if flag.startswith(_X86_EXTENSIONS))
        if name.strip() == "Features":
            return frozenset(value.split()) | _stated_vectors(value.split())
    return frozenset()


def _stated_vectors(flags: Sequence[str]) -> frozenset[str]:
    """The instruction set that states the length of the vectors (SVE) of this process, which the
    system sets.
    """
    if "sve" not in flags:
        return frozenset()
    length = int(ctypes.CDLL(None).prctl(_VECTOR_LENGTH, 0, 0, 0, 0))
    bits = (length & _LENGTH_BYTES) * 8 if length > 0 else 0
    lengths = EXTENSIONS[NEON].keys() & VECTOR_BITS
    return frozenset(name for name in lengths if VECTOR_BITS[name] == bits)


def _tiles_granted() -> bool:
    """Whether the system lets this process use tile registers; it is asked, as
    kernels/permission.hpp does.

    It refuses while some thread has an alternate stack for signals that is too small to save them.
    """
    request = map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA))
    return int(ctypes.CDLL(None).syscall(*request)) == 0


@lru_cache(maxsize=1)
def cpu_description() -> str:
    """One line that two machines share only if code built for one runs as well on the other."""
    fields = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part", "CPU variant")
    facts: dict[str, str] = {}
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in fields:
            facts.setdefault(name.strip(), value.strip())
    identity = " ".join(facts.get(name, "") for name in fields).strip() or platform.processor()
    return f"{platform.machine()} {identity} {' '.join(sorted(cpu_features()))}"
