"""Code for processors that this machine is none of, run all the same: AVX-512, VNNI and AVX512-BF16 on one with AVX2.

What is compiled is what ships: the same program, the same kernels, the same choices between them. Only the vector
instructions that this machine lacks are functions (emulation.hpp), and GCC splits the operators on wide vectors. So
results are those of the other processor, and times are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from unittest import mock

from infuse.codegen.toolchain import Target, Toolchain
from infuse.errors import OptionError, ToolchainError
from infuse.runtime.cpus import cpu_features, machine

_HEADER: Final = Path(__file__).with_name("emulation.hpp")
_BASE: Final = "x86-64-v3"
_WIDE: Final = "x86-64-v4"
_OPTIONS: Final = {
    **{name: name for name in ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")},
    **{"avx512_vnni": "avx512vnni", "avx512_bf16": "avx512bf16"},
}
"""What is emulated: how Linux names it, and how compilers do."""
NEWEST: Final = f"{_WIDE}+avx512_vnni+avx512_bf16"
"""The target with everything that kernels have a use for."""

_resolve = Target.resolve


def obstacle() -> str | None:
    """Why nothing can be emulated on this machine; None where it can."""
    if machine() != "x86_64" or not _resolve(_BASE).is_runnable:
        return "AVX-512 is emulated on processors with AVX2, and this is none"
    try:
        kind = Toolchain.find().kind
    except ToolchainError as error:
        return error.what
    return None if kind == "gcc" else f"AVX-512 is emulated with GCC, and the compiler is {kind}"


def resolve(name: str = "native") -> Target:
    """The target that `Target.resolve` calls so, or `LEVEL+FEATURE+…`, as "x86-64-v4+avx512_vnni".

    What this machine lacks for it is emulated. ToolchainError where that cannot be, OptionError for other names.
    """
    level, *further = name.split("+")
    base = _resolve(level)
    features = base.features | frozenset(further)
    if not further and (base.is_runnable or base.is_foreign):
        return base
    if features <= cpu_features():
        flags = tuple(f"-m{_option(feature)}" for feature in sorted(further))
        return replace(base, name=name, features=features, flags=flags, fingerprint=f"{base.fingerprint} {name}")
    if why := obstacle():
        raise ToolchainError(f"the target {name!r} does not run on this machine", hint=why)
    lower = _resolve(_BASE)
    extra = features - lower.features
    text = hashlib.sha256(_HEADER.read_bytes()).hexdigest()
    return Target(
        name=name,
        march=lower.march,
        features=features,
        fingerprint=f"{name} emulated {text}",
        machine=lower.machine,
        emulated=extra,
        flags=("-O1", "-Wno-psabi", *_defines(extra), "-include", str(_HEADER)),
    )


def _option(feature: str) -> str:
    if feature not in _OPTIONS:
        raise OptionError(f"{feature!r} is not emulated", hint=f"one of: {', '.join(_OPTIONS)}")
    return _OPTIONS[feature]


def _defines(features: frozenset[str]) -> list[str]:
    return [f"-D__{_option(feature).upper()}__=1" for feature in sorted(features)]


@contextmanager
def emulated(*features: str) -> Iterator[None]:
    """In the block, `Target.resolve` emulates what this machine lacks, so that every target may be named everywhere.

    With `features`, the target "native" is an x86-64-v4 that has them too, unless this processor has them itself.
    """

    def stand_in(cls: type[Target], name: str = "native") -> Target:
        if name != "native" or frozenset(features) <= cpu_features():
            return resolve(name)
        target = resolve("+".join((_WIDE, *features)))
        return replace(target, name=name, fingerprint=f"{name} {target.fingerprint}")

    with mock.patch.object(Target, "resolve", classmethod(stand_in)):
        yield
