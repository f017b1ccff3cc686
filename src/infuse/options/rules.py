"""What an optimization may do to a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from infuse.errors import OptionError
from infuse.options.fields import Checked, documented, option, refusal

LEVELS: Final = ("none", "basic", "extended", "all")
RUNTIMES: Final = ("", "onnxruntime")


@documented
@dataclass(frozen=True)
class Rules(Checked):
    """Which rules and passes an optimization applies."""

    level: str = option("all", "How much of the graph is rewritten.", choices=LEVELS)
    disable: str | Iterable[str] = option(
        frozenset(), "Leave this rule out (repeatable).", metavar="RULE", form="names"
    )
    only: str | Iterable[str] = option(
        frozenset(), "Try no other rules (repeatable).", metavar="RULE", form="names"
    )
    enable: str | Iterable[str] = option(
        frozenset(), "Try this opt-in rule too (repeatable).", metavar="RULE", form="names"
    )
    extra: Any = option(
        (), "Rules and passes of your own: objects or classes, one or several.", form="object"
    )
    runtime: str = option(
        "",
        "Whose operators the result may use, besides the standard ones.",
        flag="--for",
        choices=RUNTIMES,
        nothing="standard",
    )
    search: float = option(
        0.0,
        "Also look so long at most for cheaper forms of linear operators that no rule finds; sums "
        "may be added in another order.",
        metavar="SECONDS",
        least=0,
    )

    def __post_init__(self) -> None:
        for name in ("disable", "only", "enable"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        super().__post_init__()

    @property
    def mentioned(self) -> frozenset[str]:
        """All names of rules and passes."""
        return frozenset((*self.disable, *self.only, *self.enable))

    @classmethod
    def of(cls, rules: Rules | str) -> Rules:
        """The rules themselves, or those of the level that a text names."""
        return cls(rules) if isinstance(rules, str) else rules


@documented
@dataclass(frozen=True, eq=False)
class OptimizeOptions(Checked):
    """What is made of a model file besides what `Rules` say, and how the result is checked."""

    level: str | None = option(
        None,
        "How much of the graph is rewritten; default: all for .infuse; for .onnx extended where "
        "the opset has the fused operators (23 and newer) and with --for, else basic.",
        choices=LEVELS,
    )
    dims: Mapping[str, int] | None = option(
        None,
        "Fix the size of a dynamic axis in the result (repeatable).",
        flag="--set-dim",
        metavar="NAME=SIZE",
        form="sizes",
    )
    fix_defaults: bool = option(False, "Let inputs that have a default be constants.")
    verify: bool | None = option(
        None,
        "Compare original and result, leave out a rule that is wrong; default: where that takes "
        "seconds.",
    )
    inputs: Mapping[str, Any] | None = option(
        None,
        "Inputs to compare on; default: random ones.",
        metavar="FILE.npz",
        form="archive",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inputs is not None and self.verify is False:
            raise refusal(
                "inputs", "are for the comparison that --no-verify leaves out", "leave one out"
            )

    @property
    def is_random(self) -> bool:
        """Whether random inputs may be compared on."""
        return self.inputs is None and self.verify is not False


def _names(option: str, value: str | Iterable[str]) -> frozenset[str]:
    names: tuple[Any, ...] = (value,)
    if not isinstance(value, str):
        with suppress(TypeError):
            names = tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise OptionError(
            f"{option} takes names of rules, not {value!r}",
            hint="the name of a rule, or a list of names; infuse why --list shows them",
        )
    return frozenset(names)
