"""What native code is compiled for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infuse.errors import OptionError
from infuse.options.fields import Checked, documented, option, refusal, require

PRECISIONS: Final = ("fp32", "bf16x2", "bf16", "fp16")
"""What a layer may compute in."""
AUTO: Final = "auto"
"""The precision that is looked for."""
WEIGHTS: Final = ("balanced", "fast", "small")
"""What weights may take, in the order in which kernels read them."""
_BOUNDS: Final = {"fp32": 1e-3, "bf16x2": 1e-3, "fp16": 1e-2, "bf16": 0.1}
COMPILE: Final = ("wait", "background", "never")
"""When native code is compiled."""
BARE: Final = "bare"
PROFILES: Final = ("hosted", BARE)
"""What there is where code runs."""
PREFIX: Final = "infuse"

Feeds = Mapping[str, Any]
Data = Feeds | Sequence[Feeds]
Timer = Callable[[Mapping[str, Callable[[], object]]], Mapping[str, Sequence[float]]]
"""The least seconds of several runs by name, measured in turns: of each several, apart."""


@documented
@dataclass(frozen=True)
class Auto(Checked):
    """The fastest precision on this machine that stays near fp32: for the whole model, or, where
    that differs more, for all layers but those that change the outputs most.
    """

    max_difference: float = option(
        0.01,
        "With precision auto: how far outputs may be from those of fp32, in parts of their largest "
        "element; default: 0.01.",
        metavar="PART",
        least=0,
        excluded=True,
    )
    data: Data | None = option(
        None,
        "With precision auto: arrays by input name to measure on, in place of random ones "
        "(repeatable).",
        metavar="FILE.npz",
        form="archives",
        compare=False,
    )
    timer: Timer | None = None
    """What measures in place of the clock; what it leads to is not kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require("timer", self.timer, Callable[..., Any] | None, "a function")


@documented
@dataclass(frozen=True)
class CompileOptions(Checked):
    """What a model is compiled for."""

    target: str = option(
        "native",
        "Processor and system: native, x86-64[-v3: AVX2, -v4: AVX-512], linux-arm64, windows, "
        "wasm32, … (infuse targets lists them), or c: C for any machine; more units: "
        "linux-arm64+i8mm.",
        metavar="NAME",
    )
    threads: int | None = option(
        None, "Threads of a run; default: all processors that this process may use.", least=1
    )
    precision: str | Auto = option(
        "fp32",
        "fp32; bf16: products of rounded operands, where the processor multiplies them; bf16x2: of "
        "operands split into two bfloat16, 16 bits exact, on AMX; fp16: weights are stored as "
        "halves, arithmetic stays fp32; auto: the fastest here that stays near fp32.",
        metavar="NAME",
        choices=(*PRECISIONS, AUTO),
    )
    tune: bool = option(
        False, "Measure the kernels that might be fastest, up to 3 minutes, and keep the times."
    )
    weights: str = option(
        "balanced",
        "What transformed copies of weights (Winograd's convolutions) may take: balanced: as much "
        "as keeps all weights within 1.5 × the model's, where they save most time; fast: whatever "
        "the fastest kernels take; small: nothing.",
        metavar="balanced|fast|small",
        choices=WEIGHTS,
        noun="choice of weights",
    )
    prefix: str = option(
        PREFIX,
        "What the names of the C functions begin with; one for each model.",
        metavar="NAME",
    )
    embed: bool = option(
        False, "Link the weights into the library: C programs need no weights.bin beside it."
    )
    single: bool = option(
        False,
        "Write one file of C with the weights in it, and its header: any compiler of C99 takes it, "
        "and none is needed here.",
    )
    profile: str = option(
        "hosted",
        "hosted: code calls the C library; bare: --single for machines without a system: no heap, "
        "threads, files or C library, all sizes fixed.",
        metavar="hosted|bare",
        choices=PROFILES,
    )
    size: bool = option(
        False,
        "Small code before fast code: smaller tiles, compiled for size, and weights as with small.",
    )
    compile: str = option(
        "wait",
        "wait: native code is compiled first; never: prebuilt kernels run the model, at once and "
        "without a compiler; background: they do until another process has compiled it.",
        metavar="wait|background|never",
        choices=COMPILE,
        noun="time of compiling",
    )
    debug: bool = option(
        False,
        "Line numbers and frame pointers for debuggers and profilers (gdb, perf); `directory "
        "FOLDER` shows gdb the sources.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,59}", self.prefix):
            raise OptionError(
                f"names of C cannot begin with {self.prefix!r}",
                hint="a prefix is a letter, then letters, digits and _",
            )
        if self.compile == "never":
            self._require_prebuilt()
        elif self.is_source:
            self._require_source()

    def _require_prebuilt(self) -> None:
        """OptionError where something is asked for that only compiled code has."""
        hint = 'let the model be compiled (compile="wait"), or leave it out'
        for name in ("tune", "prefix", "embed", "single", "profile", "size", "debug"):
            if getattr(self, name) != getattr(CompileOptions, name):
                raise refusal(name, "is for code that is compiled, and nothing is", hint)
        if self.precision != "fp32":
            raise refusal("precision", "is fp32 where nothing is compiled", hint)

    def _require_source(self) -> None:
        """OptionError where something is asked for that one file of C does not have."""
        hint = "leave it out"
        for name in ("tune", "debug", "precision", "size", "compile"):
            if getattr(self, name) != getattr(CompileOptions, name):
                raise refusal(name, "means nothing for one file of C, which is not compiled", hint)

    @property
    def is_source(self) -> bool:
        """Whether one file of C is what is made, and nothing that this machine runs."""
        return self.single or self.profile == BARE

    @property
    def bound(self) -> float:
        """How far compiled code may be from prebuilt kernels, in parts of the largest element of an
        output.
        """
        if self.auto is not None:
            return max(_BOUNDS["fp32"], self.auto.max_difference)
        return _BOUNDS[str(self.precision)]

    def uncompiled(self) -> CompileOptions:
        """These options where nothing is compiled: what only compiled code has is left out."""
        return CompileOptions(self.target, self.threads, weights=self.weights, compile="never")

    @classmethod
    def flat(
        cls,
        precision: str = "fp32",
        max_difference: float | None = None,
        data: Data | None = None,
        **others: Any,
    ) -> CompileOptions:
        """Options by the names of all fields, those of `Auto` too. OptionError for one of these
        with another precision.
        """
        if precision == AUTO:
            bound = Auto.max_difference if max_difference is None else max_difference
            return cls(precision=Auto(bound, data), **others)
        for name, value in (("max_difference", max_difference), ("data", data)):
            if value is not None:
                raise refusal(
                    name, f"means nothing for precision {precision}", f"it is for precision {AUTO}"
                )
        return cls(precision=precision, **others)

    @property
    def auto(self) -> Auto | None:
        """What is asked for with the precision auto; None with another one."""
        if isinstance(self.precision, Auto):
            return self.precision
        return Auto() if self.precision == AUTO else None
