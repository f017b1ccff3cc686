"""The trace of a session in Chrome's format: its loading, and every run with its kernels."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infuse.errors import OptionError
from infuse.onnxruntime.devices import CPU_PROVIDER

if TYPE_CHECKING:
    from infuse.profiling import Run
    from infuse.profiling.steps import Place

_MOST_EVENTS: Final = 1_000_000


class SessionTrace:
    """Events since it was made. Times are those of `time.perf_counter_ns`."""

    def __init__(self, prefix: str) -> None:
        self.start_ns = time.time_ns()
        self._start = time.perf_counter_ns()
        self._path = Path(f"{prefix}_{datetime.now():%Y-%m-%d_%H-%M-%S_%f}.json").absolute()
        if not self._path.parent.is_dir():
            raise OptionError(
                f"the profile cannot be written: there is no folder {self._path.parent}",
                hint="change profile_file_prefix",
            )
        self._shown = f"{prefix}{self._path.name[len(Path(prefix).name) :]}"
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._is_finished = False

    def add(self, name: str, begin: int, end: int, kind: str = "Session", **arguments: Any) -> None:
        """Add what happened between two times. After a million events, the next ones are left
        out.
        """
        event = {
            "cat": kind,
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "dur": (end - begin) // 1000,
            "ts": (begin - self._start) // 1000,
            "ph": "X",
            "name": name,
            "args": arguments,
        }
        with self._lock:
            if len(self._events) < _MOST_EVENTS:
                self._events.append(event)

    def add_kernels(self, run: Run, places: Sequence[Place]) -> None:
        """Add every call of a kernel of a run, under the node that it computes."""
        for call in run.calls():
            place = places[call.place]
            node = place.main
            self.add(
                f"{(node.name or node.kind) if node else place.label}_kernel_time",
                call.begin,
                call.end,
                "Node",
                op_name=node.kind if node else place.label,
                provider=CPU_PROVIDER,
                kernel=place.kernel,
                nodes=[other.name for other in place.nodes],
                node_index=str(call.place),
            )

    def finish(self) -> str:
        """Write the events to the file, and return its path; an empty text when that was done."""
        with self._lock:
            if self._is_finished:
                return ""
            self._is_finished = True
        part = self._path.with_suffix(".part")
        lines = ",\n".join(map(json.dumps, self._events))
        part.write_text(f"[\n{lines}\n]\n", "utf-8")
        part.replace(self._path)
        return self._shown
