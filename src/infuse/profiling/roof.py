"""What a machine can do at best, measured: operations on each kind of number and bytes from memory
per second.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infuse.build.build import build
from infuse.build.cache import Cache
from infuse.errors import OptionError, RuntimeFailure
from infuse.runtime.cpus import cpu_description, cpu_limit
from infuse.runtime.folder import LIBRARY, SOURCE
from infuse.targets import Caches, Target

_PROGRAM: Final = Path(__file__).with_name("roof.cpp")
KINDS: Final = ("fp32", "bf16", "int8")
"""The numbers that products are made of."""
SPLIT: Final = "bf16x2"
"""Numbers that are two bfloat16 each: one product is three."""
_FLOPS_SECONDS: Final = 0.3
_STREAM_SECONDS: Final = 0.7
_LEAST_STREAM, _MOST_STREAM = 64 << 20, 1 << 30


@dataclass(frozen=True)
class Roof:
    """The roof over a target's speed with so many threads: operations per second by kind of number,
    and bytes read per second from memory that no cache holds.

    Kinds for which the target has no instruction are missing: they compute as float32 does.
    """

    target: str
    threads: int
    peaks: Mapping[str, float]
    bandwidth: float

    def peak(self, kind: str = "fp32") -> float:
        """Operations per second."""
        if kind == SPLIT:
            return self.peak("bf16") / 3
        return self.peaks.get(kind, self.peaks["fp32"])

    def bound(self, flops: float, bytes: float, kind: str = "fp32") -> float:
        """Seconds that so much arithmetic and memory access takes at least."""
        return max(flops / self.peak(kind), bytes / self.bandwidth)


def runnable_target(name: str) -> Target:
    """The target called `name`; OptionError where it is not known, or this machine does not run
    code for it, or the code does not record its steps.
    """
    target = Target.resolve(name)
    if not target.is_runnable:
        raise OptionError(
            f"code for {name} does not run on this machine, so it cannot be measured here"
        )
    if target.machine.language == "c":
        raise OptionError(
            f"code for the target {name} does not record when its steps ran",
            hint="profile another target, or time whole runs (infuse bench)",
        )
    return target


def measure_roof(target: Target, threads: int, *, again: bool = False) -> Roof:
    """The roof of this machine for a target and a number of threads; it takes about two seconds.

    Kept in the cache folder, and measured anew with `again` only. Raises what compiling raises, and
    RuntimeFailure when there is no memory to measure with.
    """
    identity = (
        f"{cpu_description()}; {cpu_limit()} processors; {target.fingerprint}; {threads} threads"
    )
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    file = Cache().root / "machines" / f"{name}.json"
    measured = None if again else _read(file)
    if measured is None:
        measured = _measure(target, threads)
        _write(file, {"machine": identity, "peaks": measured[0], "bandwidth": measured[1]})
    return Roof(target.name, threads, *measured)


def _measure(target: Target, threads: int) -> tuple[dict[str, float], float]:
    sources = {SOURCE: _PROGRAM.read_text("utf-8")}
    folder = build(sources, [], 0, {"name": "machine"}, key="machine", target=target)
    library = ctypes.CDLL(str(folder / LIBRARY))
    peak, stream = library.machine_flops, library.machine_bandwidth
    peak.restype = stream.restype = ctypes.c_double
    peak.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_double]
    stream.argtypes = [ctypes.c_int, ctypes.c_double, ctypes.c_int64]
    peaks = {
        kind: float(peak(number, threads, _FLOPS_SECONDS)) for number, kind in enumerate(KINDS)
    }
    bandwidth = float(stream(threads, _STREAM_SECONDS, _stream_bytes()))
    if min(*peaks.values(), bandwidth) < 0:
        raise RuntimeFailure(
            "there is not enough memory to measure the machine", hint="use fewer threads"
        )
    return {kind: flops for kind, flops in peaks.items() if flops > 0}, bandwidth


def _stream_bytes() -> int:
    """Four times the last cache, of which then less than a quarter can be of use; at most half of
    the free memory.
    """
    size = 4 * Caches.of_host().l3
    free = _system("SC_AVPHYS_PAGES") * _system("SC_PAGE_SIZE") or _MOST_STREAM
    return min(max(size, _LEAST_STREAM), _MOST_STREAM, max(free // 2, _LEAST_STREAM))


def _system(name: str) -> int:
    """A number that the system tells about itself; 0 where it does not."""
    try:
        return max(os.sysconf(name), 0)
    except (AttributeError, OSError, ValueError):
        return 0


def _read(file: Path) -> tuple[dict[str, float], float] | None:
    """What was measured before; None where nothing was, or where it cannot be read."""
    try:
        content = json.loads(file.read_text("utf-8"))
        peaks = {kind: float(content["peaks"][kind]) for kind in KINDS if kind in content["peaks"]}
        bandwidth = float(content["bandwidth"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (peaks, bandwidth) if "fp32" in peaks and min(*peaks.values(), bandwidth) > 0 else None


def _write(file: Path, content: dict[str, Any]) -> None:
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):  # a cache that cannot be written only means measuring again
        file.parent.mkdir(exist_ok=True)
        temporary.write_text(json.dumps(content), "utf-8")
        temporary.replace(file)
