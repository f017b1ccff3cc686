"""What code is generated for: processors by name, and what they offer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from infuse.errors import OptionError, ToolchainError
from infuse.runtime.cpus import architecture, cpu_description, cpu_features
from infuse.targets.machine import USUAL, Caches, Machine

_V3: Final = frozenset(("avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"))
_V4: Final = _V3 | frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))
_LEVELS: Final = {"x86-64": frozenset[str](), "x86-64-v3": _V3, "x86-64-v4": _V4}
_NEON: Final = "aarch64"
EXTENSIONS: Final = {
    "x86-64-v3": {"avx_vnni": "avxvnni"},
    "x86-64-v4": {
        **{"avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16"},
        **{"amx_tile": "amx-tile", "amx_bf16": "amx-bf16", "amx_int8": "amx-int8"},
    },
    _NEON: {"asimddp": "dotprod", "i8mm": "i8mm", "bf16": "bf16"},
}
"""Instruction sets that may be added to a name, as Linux and as compilers name them."""


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
        (AVX-512), or "aarch64" (64-bit ARM with NEON, on Linux), for which other machines compile
        but which they do not run.

        Behind the last three, further instruction sets (`EXTENSIONS`) may be named, as Linux does:
        "x86-64-v3+avx_vnni", "x86-64-v4+avx512_vnni", "aarch64+asimddp+i8mm". OptionError for other
        names, ToolchainError for one that this machine cannot build.
        """
        if name == "native":
            caches = Caches.of_host()
            return cls(
                name,
                name,
                cpu_features(),
                f"native {cpu_description()} {caches}",
                architecture(),
                caches,
            )
        base, *names = name.split("+")
        if base not in (*_LEVELS, _NEON):
            raise OptionError(
                f"there is no target {name!r}",
                hint=f"one of: native, {', '.join(_LEVELS)}, {_NEON}",
            )
        extensions = EXTENSIONS.get(base, {})
        if useless := [extension for extension in names if extension not in extensions]:
            what = f"the target {name!r} names {useless[0]!r}, which no kernel has a use for there"
            choices = "; ".join(
                f"{', '.join(all)} behind {base}" for base, all in EXTENSIONS.items()
            )
            raise OptionError(what, hint=f"there are {choices}")
        options = sorted(extensions[extension] for extension in names)
        if base == _NEON:
            march = "+".join(("armv8.2-a" if options else "armv8-a", *options))
            return cls(name, march, frozenset(names), name, _NEON)
        if architecture() != "x86_64":
            raise ToolchainError(
                f"the target {name!r} cannot be built on {architecture()}", hint='use "native"'
            )
        flags = tuple(f"-m{option}" for option in options)
        return cls(name, base, _LEVELS[base] | frozenset(names), name, "x86_64", flags=flags)

    @cached_property
    def machine(self) -> Machine:
        """What kernels are made for."""
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
