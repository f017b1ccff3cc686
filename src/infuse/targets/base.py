"""What code is generated for: processors by name, and what they offer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from infuse.errors import OptionError
from infuse.runtime.cpus import architecture, cpu_description, cpu_features
from infuse.runtime.levels import CPU_VARIABLE, NEON, VECTOR_BITS, limit_name
from infuse.targets.machine import USUAL, Caches, Machine, PlainMachine
from infuse.targets.platforms import BARE, LINUX, MUSL, System, named

PLAIN: Final = "c"
"""The target whose code is C for any machine."""
KERNELS: Final = Path(__file__).parents[1] / "kernels"
"""The headers with the code of kernels."""


@dataclass(frozen=True)
class Target:
    """What code is generated for.

    `march` is the processor as GCC names it (None: GCC is not used), `cpu` as Zig does, for which
    `triple` is the system, with a place for `libc`; `flags` are what else compilers are told,
    `features` the instruction sets that the code is made of, `fingerprint` the text that must be
    part of every cache key.

    A machine may lack the `emulated` features: what `flags` tell GCC stands in for them
    (`testing/emulation.py`).
    """

    name: str
    march: str | None
    features: frozenset[str]
    fingerprint: str
    architecture: str
    caches: Caches = USUAL
    emulated: frozenset[str] = frozenset()
    flags: tuple[str, ...] = ()
    system: System = LINUX
    cpu: str = ""
    triple: str = ""
    libc: str = ""
    gcc: str = ""
    """What the names of GCC's programs for it begin with."""
    is_small: bool = False
    """Whether code is to be small before it is fast."""

    @classmethod
    def resolve(cls, name: str = "native") -> Target:
        """The target called "native" (this processor), "c" (C for any machine, compiled for this
        one), or by a name of `PLATFORMS` or `ALIASES`, for most of which other machines compile but
        which they do not run.

        Behind the names of platforms, a C library and further instruction sets may be named, the
        latter as Linux does: "linux-arm64-glibc2.17", "x86-64-v4+avx512_vnni". OptionError for
        other names.
        """
        if name == "native":
            return cls._native()
        if name == PLAIN:
            return cls(
                name, "", frozenset(), name, architecture(), triple=_own_triple(), gcc=_own_gcc()
            )
        known = named(name)
        platform = known.platform
        options = sorted({platform.further[each] for each in known.names})
        stated = [
            f"-msve-vector-bits={VECTOR_BITS[each]}"
            for each in known.names
            if each in VECTOR_BITS and platform.architecture == NEON
        ]
        is_x86 = platform.architecture == "x86_64"
        march = platform.march
        if march is not None and not is_x86 and options:
            march = "+".join((march.replace("armv8-a", "armv8.2-a"), *options))
        return cls(
            name,
            march,
            platform.features | frozenset(known.names),
            name,
            platform.architecture,
            flags=(*platform.flags, *(f"-m{option}" for option in options if is_x86), *stated),
            system=platform.system,
            cpu=platform.cpu if is_x86 else "+".join((platform.cpu, *options)),
            triple=platform.triple,
            libc=known.libc,
            gcc=platform.gcc or platform.triple.format(libc="gnu"),
        )

    @classmethod
    def _native(cls) -> Target:
        """This processor, or what `$INFUSE_CPU` shows of it."""
        caches, limit = Caches.of_host(), limit_name()
        text = f"native {cpu_description()} {caches}"
        if not limit:
            return cls(
                "native",
                "native",
                cpu_features() - VECTOR_BITS.keys(),  # whose code was measured on no machine
                text,
                architecture(),
                caches,
                cpu="native",
                triple=_own_triple(),
                gcc=_own_gcc(),
            )
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
        if self.name == PLAIN or self.is_bare:
            return PlainMachine.on(self.architecture)
        machine = Machine.of(self.architecture, self.features, self.caches)
        return machine.smaller() if self.is_small else machine

    def smaller(self) -> Target:
        """The same target for code that is small before it is fast."""
        return replace(self, is_small=True, fingerprint=f"{self.fingerprint} small")

    @property
    def is_foreign(self) -> bool:
        """Whether this machine compiles for it but cannot run it."""
        return self.architecture != architecture() or bool(self.system_name)

    @property
    def is_bare(self) -> bool:
        """Whether there is no system where the code runs."""
        return self.system is BARE

    @property
    def system_name(self) -> str:
        """The system, in words; empty for Linux with the usual C library."""
        if self.system is LINUX:
            return f"Linux with {MUSL}" if self.libc == MUSL else ""
        return self.system.name

    @property
    def required(self) -> frozenset[str]:
        """The instruction sets that a machine must have to run the code."""
        return self.features - self.emulated

    @property
    def remarks(self) -> list[str]:
        """What is to be told of code for it, in words: a length of vectors, tile registers, which a
        system has to grant, and what is emulated.
        """
        tiled = ", ".join(sorted(kind.value for kind in self.machine.tiled))
        return [
            *([f"vectors have {self.vector_bits} bits"] * bool(self.vector_bits)),
            *(
                [f"tile registers (AMX), which the system must grant, multiply {tiled}"]
                * bool(tiled)
            ),
            *([f"emulated: {', '.join(sorted(self.emulated))}"] * bool(self.emulated)),
        ]

    @property
    def vector_bits(self) -> int:
        """Bits that the vectors of the processor must have to run the code; 0 where all do."""
        return max((VECTOR_BITS.get(name, 0) for name in self.features), default=0)

    @property
    def conditions(self) -> dict[str, Any]:
        """What metadata says of code that may be refused where it runs: by a system that grants no
        tile registers, or for vectors of another length.
        """
        tiles = {"tiles": True} if self.machine.tiled else {}
        return tiles | ({"vector_bits": self.vector_bits} if self.vector_bits else {})

    @property
    def is_runnable(self) -> bool:
        """Whether this machine runs code for it."""
        return not self.is_foreign and self.required <= cpu_features()


def _own_triple() -> str:
    return f"{architecture()}-linux-{{libc}}"


def _own_gcc() -> str:
    return _own_triple().format(libc="gnu")
