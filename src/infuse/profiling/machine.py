"""What a machine can do at best, measured: floating-point operations and bytes from memory per second."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infuse.codegen.build import build
from infuse.codegen.cache import Cache
from infuse.codegen.toolchain import Target
from infuse.errors import RuntimeFailure
from infuse.runtime.cpus import cpu_description, cpu_limit
from infuse.runtime.folder import LIBRARY, SOURCE

_PROGRAM: Final = Path(__file__).with_name("machine.cpp")
_FLOPS_SECONDS: Final = 0.6
_STREAM_SECONDS: Final = 0.8
_USUAL_CACHE: Final = 32 << 20
_LEAST_STREAM, _MOST_STREAM = 64 << 20, 1 << 30


@dataclass(frozen=True)
class Machine:
    """The roof over a target's speed with so many threads: float32 operations per second, and bytes read per second
    from memory that no cache holds.
    """

    target: str
    threads: int
    flops: float
    bandwidth: float

    def bound(self, flops: float, bytes: float) -> float:
        """Seconds that so much arithmetic and memory access takes at least."""
        return max(flops / self.flops, bytes / self.bandwidth)


def measure_machine(target: Target, threads: int, *, again: bool = False) -> Machine:
    """The roof of this machine for a target and a number of threads; it takes about two seconds.

    Kept in the cache folder, and measured anew with `again` only. Raises what compiling raises, and RuntimeFailure
    when there is no memory to measure with.
    """
    identity = f"{cpu_description()}; {cpu_limit()} processors; {target.name}; {threads} threads"
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    file = Cache().root / "machines" / f"{name}.json"
    found = None if again else _read(file)
    if found is None:
        found = _measure(target, threads)
        _write(file, {"machine": identity, "flops": found[0], "bandwidth": found[1]})
    return Machine(target.name, threads, *found)


def _measure(target: Target, threads: int) -> tuple[float, float]:
    sources = {SOURCE: _PROGRAM.read_text("utf-8")}
    folder = build(sources, [], 0, {"name": "machine"}, key="machine", target=target)
    library = ctypes.CDLL(str(folder / LIBRARY))
    peak, stream = library.machine_flops, library.machine_bandwidth
    peak.restype = stream.restype = ctypes.c_double
    peak.argtypes = [ctypes.c_int, ctypes.c_double]
    stream.argtypes = [*peak.argtypes, ctypes.c_int64]
    flops = float(peak(threads, _FLOPS_SECONDS))
    bandwidth = float(stream(threads, _STREAM_SECONDS, _stream_bytes()))
    if flops <= 0 or bandwidth <= 0:
        raise RuntimeFailure("there is not enough memory to measure the machine", hint="use fewer threads")
    return flops, bandwidth


def _stream_bytes() -> int:
    """Four times the last cache, of which then less than a quarter can be of use; at most half of the free memory."""
    wanted = 4 * (_system("SC_LEVEL3_CACHE_SIZE") or _USUAL_CACHE)
    free = _system("SC_AVPHYS_PAGES") * _system("SC_PAGE_SIZE") or _MOST_STREAM
    return min(max(wanted, _LEAST_STREAM), _MOST_STREAM, max(free // 2, _LEAST_STREAM))


def _system(name: str) -> int:
    """A number that the system tells about itself; 0 where it does not."""
    try:
        return max(os.sysconf(name), 0)
    except (AttributeError, OSError, ValueError):
        return 0


def _read(file: Path) -> tuple[float, float] | None:
    """What was measured before; None where nothing was, or where it cannot be read."""
    try:
        known = json.loads(file.read_text("utf-8"))
        flops, bandwidth = float(known["flops"]), float(known["bandwidth"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (flops, bandwidth) if flops > 0 and bandwidth > 0 else None


def _write(file: Path, content: dict[str, Any]) -> None:
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):  # a cache that cannot be written only means measuring again
        file.parent.mkdir(exist_ok=True)
        temporary.write_text(json.dumps(content), "utf-8")
        temporary.replace(file)
