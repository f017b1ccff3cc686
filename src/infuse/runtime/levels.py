"""Processors by name: the instruction sets of each level, and those that may be added to a name."""

from __future__ import annotations

import os
from typing import Final

from infuse.errors import OptionError

CPU_VARIABLE: Final = "INFUSE_CPU"
"""The variable that names the most that Infuse sees of this processor."""
NEON: Final = "aarch64"
_V3: Final = frozenset(("avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"))
_V4: Final = _V3 | frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))
X86_LEVELS: Final = {"x86-64": frozenset[str](), "x86-64-v3": _V3, "x86-64-v4": _V4}
EXTENSIONS: Final = {
    "x86-64-v3": {"avx_vnni": "avxvnni"},
    "x86-64-v4": {
        "avx512_vnni": "avx512vnni",
        "avx512_bf16": "avx512bf16",
        "amx_tile": "amx-tile",
        "amx_bf16": "amx-bf16",
        "amx_int8": "amx-int8",
    },
    NEON: {
        "asimddp": "dotprod",
        "i8mm": "i8mm",
        "bf16": "bf16",
        "sve2": "sve2",
        "sve128": "sve",
        "sve256": "sve",
    },
}
"""Instruction sets that may be added to a name, as Linux and as compilers name them. Vectors of a
stated length are two: Linux has no name for the length, which a process asks for.
"""
VECTOR_BITS: Final = {"sve128": 128, "sve256": 256, "zvl256b": 256}
"""Bits of a vector, for the instruction sets that state them."""
_BEYOND: Final = (
    "avx",
    "fma",
    "f16c",
    "bmi",
    "movbe",
    "gfni",
    "vaes",
    "vpclmul",
    "amx",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
)
"""How the names of instruction sets begin that not every processor of its family has."""


def split_level(name: str) -> tuple[str, tuple[str, ...]]:
    """The level that a name begins with, and the instruction sets behind it; OptionError for a name
    that is none.
    """
    base, *names = name.split("+")
    if base not in (*X86_LEVELS, NEON):
        choices = ", ".join(("native", *X86_LEVELS, NEON, "c"))
        raise OptionError(f"there is no target {name!r}", hint=f"one of: {choices}")
    extensions = EXTENSIONS.get(base, {})
    if useless := [extension for extension in names if extension not in extensions]:
        what = f"the target {name!r} names {useless[0]!r}, which no kernel has a use for there"
        choices = "; ".join(f"{', '.join(all)} behind {base}" for base, all in EXTENSIONS.items())
        raise OptionError(what, hint=f"there are {choices}")
    return base, tuple(names)


def named_features(name: str) -> frozenset[str]:
    """The instruction sets that a name promises; OptionError for a name that is none."""
    base, names = split_level(name)
    return X86_LEVELS.get(base, frozenset()) | frozenset(names)


def limit_name() -> str:
    """What `$INFUSE_CPU` names; empty where nothing is to be hidden."""
    return os.environ.get(CPU_VARIABLE, "").strip()


def within_limit(features: frozenset[str]) -> frozenset[str]:
    """Those of `features` that `$INFUSE_CPU` does not hide; OptionError where its name is none."""
    name = limit_name()
    if not name:
        return features
    try:
        shown = named_features(name)
    except OptionError as error:
        error.within(CPU_VARIABLE)
        raise
    return frozenset(f for f in features if f in shown or not f.startswith(_BEYOND))
