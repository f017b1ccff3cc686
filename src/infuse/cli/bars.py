"""How far a command is: a bar on a terminal, lines in pipes and logs."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

PHASE = "phase: "
"""As in `infuse.profiling.progress`, whose room is not imported for every command."""

SECONDS_BETWEEN = 30.0
"""Between two lines of one phase."""


def _elapsed(begin: float) -> str:
    minutes, seconds = divmod(int(time.monotonic() - begin), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


class Bar:
    """The stage of a job, how far it is, the time that it has left, and that since the start."""

    def __init__(self, what: str, screen: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("left, {task.fields[elapsed]} so far"),
        )
        self._bar = Progress(*columns, console=screen, transient=True)
        self._what, self._phase, self._stage = what, "", ""
        self._begin = time.monotonic()
        self._task = self._bar.add_task(what, total=None, elapsed=_elapsed(self._begin))

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage.startswith(PHASE):
            self._phase = f"phase {done} of {total}, {stage.removeprefix(PHASE)}"
            self._show(self._phase, None, None)
        else:
            text = f"{self._phase}: {stage}" if self._phase else stage
            self._show(text, done, total)

    def _show(self, text: str, done: int | None, total: int | None) -> None:
        if text != self._stage:  # so that the time left is that of this stage
            self._bar.reset(self._task, total=total)
            self._stage = text
        self._bar.update(
            self._task,
            description=f"{self._what}: {text}",
            completed=done,
            total=total,
            elapsed=_elapsed(self._begin),
        )


class Lines:
    """A line for each phase of a job, and now and then how far that is; none for other jobs."""

    def __init__(self, what: str) -> None:
        self._what, self._phase = what, ""
        self._begin = self._last = time.monotonic()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage.startswith(PHASE):
            self._phase = f"phase {done} of {total}, {stage.removeprefix(PHASE)}"
            self._say(self._phase)
        elif self._phase and time.monotonic() - self._last >= SECONDS_BETWEEN:
            self._say(f"{self._phase}: {stage} {done} of {total}")

    def _say(self, text: str) -> None:
        self._last = time.monotonic()
        print(f"{self._what}: {text} ({_elapsed(self._begin)})", file=sys.stderr, flush=True)
