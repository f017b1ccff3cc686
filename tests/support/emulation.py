"""Code for processors that this machine is none of, run all the same: AVX-512, VNNI, AVX512-BF16
and the tile registers of AMX on one with AVX2.

What is compiled is what ships: the same program, the same kernels, the same choices between them.
Only the instructions that this machine lacks are functions (emulation.hpp, emulation_tiles.hpp),
and GCC splits the operators on wide vectors. So results are those of the other processor, and times
are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from unittest import mock

from infuse.build.toolchain import Toolchain
from infuse.errors import ToolchainError
from infuse.runtime.cpus import architecture, cpu_features
from infuse.runtime.levels import EXTENSIONS
from infuse.targets import Target

_HEADERS: Final = [
    Path(__file__).with_name(name) for name in ("emulation.hpp", "emulation_tiles.hpp")
]
_BASE: Final = "x86-64-v3"
_WIDE: Final = "x86-64-v4"
NARROW_BYTES: Final = f"{_BASE}+avx_vnni"
"""The target whose vectors of AVX2 multiply bytes."""
NARROW_DOTS: Final = f"{_WIDE}+avx512_vnni+avx512_bf16"
"""The target whose vectors multiply narrow numbers."""
NEWEST: Final = f"{NARROW_DOTS}+amx_tile+amx_bf16+amx_int8"
"""The target with everything that kernels have a use for: its tile registers multiply them too."""

_resolve = Target.resolve


def obstacle() -> str | None:
    """Why nothing can be emulated on this machine; None where it can."""
    if architecture() != "x86_64" or not _resolve(_BASE).is_runnable:
        return "AVX-512 is emulated on processors with AVX2, and this is none"
    try:
        kind = Toolchain.find().kind
    except ToolchainError as error:
        return error.what
    return None if kind == "gcc" else f"AVX-512 is emulated with GCC, and the compiler is {kind}"


def resolve(name: str = "native") -> Target:
    """As `Target.resolve`; what this machine lacks for the target is emulated. ToolchainError where
    that cannot be.
    """
    target = _resolve(name)
    if target.is_runnable or target.is_foreign:
        return target
    if why := obstacle():
        raise ToolchainError(f"the target {name!r} does not run on this machine", hint=why)
    base = _resolve(_BASE)
    extra = target.features - base.features
    text = hashlib.sha256(b"".join(path.read_bytes() for path in _HEADERS)).hexdigest()
    return replace(
        target,
        march=base.march,
        fingerprint=f"{name} emulated {text}",
        emulated=extra,
        flags=("-O1", "-Wno-psabi", *_defines(extra), "-include", str(_HEADERS[0])),
    )


def _defines(features: frozenset[str]) -> list[str]:
    names = EXTENSIONS[_BASE] | EXTENSIONS[_WIDE]
    options = (names.get(feature, feature) for feature in sorted(features))
    return [f"-D__{option.replace('-', '_').upper()}__=1" for option in options]


@contextmanager
def emulated(*features: str, native: str = "") -> Iterator[None]:
    """In the block, `Target.resolve` emulates what this machine lacks, so that every target may be
    named everywhere.

    The target "native" is the one that `native` names; with `features`, an x86-64-v4 that has them
    too, unless this processor has them itself.
    """
    if features and not frozenset(features) <= cpu_features():
        native = "+".join((_WIDE, *features))

    def stand_in(cls: type[Target], name: str = "native") -> Target:
        if name != "native" or not native:
            return resolve(name)
        target = resolve(native)
        return replace(target, name=name, fingerprint=f"{name} {target.fingerprint}")

    with mock.patch.object(Target, "resolve", classmethod(stand_in)):
        yield
