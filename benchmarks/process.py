"""What a process holds in memory, as Linux counts it."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADER = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)$")


@dataclass
class Memory:
    """Bytes: the most that was ever resident, what is resident now, of that anonymous memory;
    `shared` by the processes that share it (PSS), and `private` to this one.
    """

    peak: int
    resident: int
    anonymous: int
    shared: int
    private: int

    @classmethod
    def of(cls, process: int | str = "self") -> Memory:
        """The memory of a process; FileNotFoundError where there is no /proc."""
        folder = Path("/proc", str(process))
        status = _sizes((folder / "status").read_text("utf-8"))
        rollup = _sizes((folder / "smaps_rollup").read_text("utf-8"))
        private = rollup["Private_Clean"] + rollup["Private_Dirty"]
        return cls(status["VmHWM"], status["VmRSS"], status["RssAnon"], rollup["Pss"], private)


@dataclass
class Mapping:
    """Bytes of a file that a process has mapped and touched, and which of them no other process
    shares.
    """

    resident: int
    private: int

    @classmethod
    def of(cls, file: Path, process: int | str = "self") -> Mapping:
        """All mappings of a file together; 0 where there is none."""
        found, inside = cls(0, 0), False
        for line in Path("/proc", str(process), "smaps").read_text("utf-8").splitlines():
            if header := _HEADER.match(line):
                inside = header[1] == str(file.resolve())
            elif inside:
                name, _, rest = line.partition(":")
                size = int(rest.split()[0]) * 1024 if rest.endswith("kB") else 0
                found.resident += size * (name == "Rss")
                found.private += size * (name in ("Private_Clean", "Private_Dirty"))
        return found


def peak_bytes() -> int:
    """The most that was ever resident of this process; 0 where Linux does not tell.

    getrusage tells more: what the parent had when it forked counts there.
    """
    path = Path("/proc/self/status")
    return _sizes(path.read_text("utf-8"))["VmHWM"] if path.is_file() else 0


class OwnMemory:
    """The most memory of its own that a process had while this watched it: without pages that it
    shares with others, such as those of files and of shared memory.
    """

    _PAUSE: Final = 0.01

    def __init__(self, process: int) -> None:
        self._status = Path(f"/proc/{process}/status")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.begin = self.most = self._now()

    def __enter__(self) -> OwnMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _now(self) -> int:
        return _sizes(self._status.read_text("utf-8"))["RssAnon"]

    def _watch(self) -> None:
        while not self._over.wait(self._PAUSE):
            self.most = max(self.most, self._now())


def after_import(*modules: str) -> Memory:
    """What a new interpreter holds that has only imported these modules."""
    text = (
        f"import {', '.join(modules)}; import sys; sys.stdout.write('.'); sys.stdout.flush(); "
        "sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", text], stdin=pipe, stdout=pipe) as process:
        assert process.stdout
        if process.stdout.read(1) != b".":
            raise ImportError(f"{', '.join(modules)} cannot be imported")
        return Memory.of(process.pid)


def _sizes(text: str) -> dict[str, int]:
    """The lines 'Name:   12 kB' in bytes."""
    found = re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)
    return {name: int(size) * 1024 for name, size in found}
