"""What the machine says of itself: processor time and memory. Linux; elsewhere nothing is said."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_CGROUP: Final = Path("/sys/fs/cgroup")


class Host:
    """Readings of the machine, or of the container where that has a limit of its own."""

    def __init__(self, proc: Path = _PROC, cgroup: Path = _CGROUP) -> None:
        self._proc = proc
        self._cgroup = cgroup
        self._last = self._ticks()

    def utilization(self) -> float | None:
        """The part of the processor time that was in use since the last call; None: it is not
        known.
        """
        now, last = self._ticks(), self._last
        self._last = now
        if now is None or last is None or now[1] <= last[1]:
            return None
        return 1 - min(max((now[0] - last[0]) / (now[1] - last[1]), 0.0), 1.0)

    def memory(self) -> tuple[int, int] | None:
        """Bytes in use and bytes in all; None: they are not known."""
        text = _read(self._proc / "meminfo")
        if text is None:
            return None
        fields = {
            key: int(rest.split()[0]) << 10
            for key, _, rest in (line.partition(":") for line in text.splitlines())
        }
        total = fields["MemTotal"]
        used = total - fields.get("MemAvailable", fields["MemFree"])
        limit, held = _read(self._cgroup / "memory.max"), _read(self._cgroup / "memory.current")
        if limit and held and limit.strip().isdigit() and int(limit) < total:
            return int(held), int(limit)
        return used, total

    def _ticks(self) -> tuple[int, int] | None:
        """Idle ticks and all ticks of all processors."""
        text = _read(self._proc / "stat")
        if text is None:
            return None
        # user nice system idle iowait irq softirq steal; guests are counted as users already.
        ticks = [int(field) for field in text.split("\n", 1)[0].split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
