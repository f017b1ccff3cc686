"""What code is generated for: processors by name, and what they offer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from infuse.errors import OptionError, ToolchainError
from infuse.runtime.cpus import architecture, cpu_description, cpu_features
from infuse.runtime.levels import (
    CPU_VARIABLE,
    EXTENSIONS,
    NEON,
    X86_LEVELS,
    limit_name,
    split_level,
)
from infuse.targets.machine import USUAL, Caches, Machine, PlainMachine

PLAIN: Final = "c"
"""The target whose code is C for any machine."""
KERNELS: Final = Path(__file__).parents[1] / "kernels"
"""The headers with the code of kernels."""


@dataclass(frozen=True)
class Target:
    """What code is generated for.

    `march` is the processor as GCC names it, `flags` what else compilers are told, `features` the
    instruction sets that the code is made of, `fingerprint` the text that must be part of every
    cache key.

    A machine may lack the `emulated` features: what `flags` tell GCC stands in for them
    (`testing/emulation.py`).
    """

    name: str
    march: str
    features: frozenset[str]
    fingerprint: str
    architecture: str
    caches: Caches = USUAL
    emulated: frozenset[str] = frozenset()
    flags: tuple[str, ...] = ()

    @classmethod
    def resolve(cls, name: str = "native") -> Target:
        """The target called "native" (this processor), "x86-64", "x86-64-v3" (AVX2), "x86-64-v4"
        (AVX-512), "c" (C for any machine, compiled for this one), or "aarch64" (64-bit ARM with
        NEON, on Linux), for which other machines compile but which they do not run.

        Behind the names of levels and "aarch64", further instruction sets (`EXTENSIONS`) may be
        named, as Linux does: "x86-64-v3+avx_vnni", "x86-64-v4+avx512_vnni", "aarch64+asimddp+i8mm".
        OptionError for other names, ToolchainError for one that this machine cannot build.
        """
        if name == "native":
            return cls._native()
        if name == PLAIN:
            return cls(name, "", frozenset(), name, architecture())
        base, names = split_level(name)
        extensions = EXTENSIONS.get(base, {})
        options = sorted(extensions[extension] for extension in names)
        if base == NEON:
            march = "+".join(("armv8.2-a" if options else "armv8-a", *options))
            return cls(name, march, frozenset(names), name, NEON)
        if architecture() != "x86_64":
            raise ToolchainError(
                f"the target {name!r} cannot be built on {architecture()}", hint='use "native"'
            )
        flags = tuple(f"-m{option}" for option in options)
        return cls(name, base, X86_LEVELS[base] | frozenset(names), name, "x86_64", flags=flags)

    @classmethod
    def _native(cls) -> Target:
        """This processor, or what `$INFUSE_CPU` shows of it."""
        caches, limit = Caches.of_host(), limit_name()
        text = f"native {cpu_description()} {caches}"
        if not limit:
            return cls("native", "native", cpu_features(), text, architecture(), caches)
        shown = cls.resolve(limit)
        if not shown.is_runnable:
            lacking = ", ".join(sorted(shown.required - cpu_features())) or shown.architecture
            raise OptionError(
                f"{CPU_VARIABLE} is {limit!r}, and this processor has no {lacking}",
                hint="name less: it hides what a processor has, and adds nothing",
            )
        return replace(
            shown, name="native", fingerprint=f"{text} {shown.fingerprint}", caches=caches
        )

    @cached_property
    def machine(self) -> Machine:
        """What kernels are made for."""
        if self.name == PLAIN:
            return PlainMachine.on(self.architecture)
        return Machine.of(self.architecture, self.features, self.caches)

    @property
    def is_foreign(self) -> bool:
        """Whether this machine compiles for it but cannot run it."""
        return self.architecture != architecture()

    @property
    def required(self) -> frozenset[str]:
        """The instruction sets that a machine must have to run the code."""
        return self.features - self.emulated

    @property
    def remarks(self) -> list[str]:
        """What is to be told of code for it, in words: tile registers, which a system has to grant,
        and what is emulated.
        """
        tiled = ", ".join(sorted(kind.value for kind in self.machine.tiled))
        return [
            *(
                [f"tile registers (AMX), which the system must grant, multiply {tiled}"]
                * bool(tiled)
            ),
            *([f"emulated: {', '.join(sorted(self.emulated))}"] * bool(self.emulated)),
        ]

    @property
    def is_runnable(self) -> bool:
        """Whether this machine runs code for it."""
        return not self.is_foreign and self.required <= cpu_features()
