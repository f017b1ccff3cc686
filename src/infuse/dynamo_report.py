"""How much of a program `torch.compile(…, backend="infuse")` has compiled, and what it left to
torch.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

_RESUMED: Final = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")
_RECURRENT: Final = ("LSTM(", "GRU(", "RNN(")


@dataclass(frozen=True)
class Traced:
    """A function that torch has traced, or a part of it behind a break: its place, the operators of
    each graph that was compiled of it, and why torch runs the rest (nothing where it is whole).
    """

    name: str
    place: str
    graphs: tuple[Counter[str], ...]
    breaks: tuple[str, ...]

    @property
    def operators(self) -> int:
        """How many operators of it were compiled."""
        return sum(graph.total() for graph in self.graphs)

    def __str__(self) -> str:
        compiled = f"{_count(self.operators, 'operator')} compiled" if self.graphs else "nothing"
        lines = [f"{self.name} ({self.place}): {compiled}"]
        return "\n".join([*lines, *(f"    not: {reason}" for reason in self.breaks)])


@dataclass(frozen=True)
class Report:
    """All that torch has traced for Infuse since the start, or since `torch._dynamo.reset()`."""

    traced: tuple[Traced, ...]

    @property
    def graphs(self) -> int:
        """How many graphs were compiled."""
        return sum(len(each.graphs) for each in self.traced)

    @property
    def operators(self) -> int:
        """How many operators of torch these graphs have."""
        return sum(each.operators for each in self.traced)

    @property
    def breaks(self) -> tuple[str, ...]:
        """Why torch runs parts itself."""
        return tuple(reason for each in self.traced for reason in each.breaks)

    def __str__(self) -> str:
        counts = f"{_count(self.graphs, 'graph')} with {_count(self.operators, 'operator')}"
        what = f"{counts} compiled, {_count(len(self.breaks), 'part')} left to torch"
        return "\n".join([what, *map(str, self.traced)])


@dataclass
class _Frame:
    """What torch traces now: its code, and how often it gave each reason before."""

    code: Any
    reasons: Counter[str]
    graphs: list[Counter[str]] = field(default_factory=list)


class Recorder:
    """Listens to what torch traces for one backend."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._traced: list[Traced] = []
        self._frame: _Frame | None = None
        self._has_warned = False

    def listen(self) -> None:
        """Let torch say when it traces a function; it forgets its listeners when it is reset."""
        from torch._dynamo.callback import callback_handler

        for callbacks, own in (
            (callback_handler.start_callbacks, self._begin),
            (callback_handler.end_callbacks, self._end),
        ):
            if own not in callbacks:
                callbacks.append(own)

    def clear(self) -> None:
        """Forget what was traced, and warn again."""
        self._traced, self._frame, self._has_warned = [], None, False

    def add(self, module: Any) -> None:
        """Count a graph that torch hands over."""
        calls = ("call_function", "call_method", "call_module")
        nodes = [node for node in module.graph.nodes if node.op in calls]
        operators = Counter(str(getattr(node.target, "__name__", node.target)) for node in nodes)
        if self._frame is not None:
            self._frame.graphs.append(operators)
        else:
            self._traced.append(Traced("a function", "", (operators,), ()))
        self.listen()

    def report(self) -> Report:
        """What was traced so far."""
        return Report(tuple(self._traced))

    def _begin(self, *_: Any) -> None:
        code = _traced_code(self._backend)
        self._frame = None if code is None else _Frame(code, _reasons())

    def _end(self, *_: Any) -> None:
        frame, self._frame = self._frame, None
        if frame is None:
            return
        breaks = tuple(map(_told, (_reasons() - frame.reasons).keys()))
        if not frame.graphs and not breaks:
            return
        traced = Traced(*_place(frame.code), tuple(frame.graphs), breaks)
        self._traced.append(traced)
        if breaks and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"torch.compile leaves a part of {traced.name} ({traced.place}) to torch itself: "
                f"{breaks[0]}. print(infuse.dynamo.report()) lists all such parts",
                RuntimeWarning,
                stacklevel=2,
            )


def _traced_code(backend: Any) -> Any:
    """The code that torch traces now, if it does so for this backend."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals:
            asked = frame.f_locals["compiler_fn"]
            for name in ("_torchdynamo_orig_backend", "compiler_fn"):
                asked = getattr(asked, name, asked)
            return frame.f_locals.get("code") if asked is backend else None
        frame = frame.f_back
    return None


def _reasons() -> Counter[str]:
    """How often torch has given each reason for leaving something to Python."""
    from torch._dynamo.utils import counters

    return Counter(counters["graph_break"]) | Counter(counters["unimplemented"])


def _told(reason: str) -> str:
    """A reason of torch in one line."""
    parts = [line.strip() for line in reason.splitlines() if line.strip()]
    named = dict(part.split(": ", 1) for part in parts if ": " in part)
    what = named.get("Explanation", parts[0] if parts else "torch does not say why").rstrip(".")
    context = named.get("Developer debug context", "")
    line = f"{what} ({context})" if context else what
    if context.startswith(_RECURRENT):
        line += "; infuse.from_torch(module, (x,)) compiles the whole module"
    return line


def _place(code: Any) -> tuple[str, str]:
    """The name of a function, and its file and line."""
    if code.co_filename.endswith("external_utils.py"):  # around a module that torch itself has
        return "forward", "a module of torch"
    resumed = _RESUMED.match(code.co_name)
    if resumed is None:
        name = getattr(code, "co_qualname", code.co_name)
        return name, f"{code.co_filename}:{code.co_firstlineno}"
    return resumed["name"], f"{code.co_filename}:{resumed['line']} on"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
