"""Where models run: operating systems and processors, by the names that people use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from infuse.errors import OptionError
from infuse.immutable import Immutable, replace
from infuse.options import PREFIX
from infuse.runtime.folder import LIBRARY, STATIC
from infuse.runtime.levels import EXTENSIONS, NEON, VECTOR_BITS, X86_LEVELS


class System(Immutable):
    """An operating system as builds see it.

    `library`: the file that the code of a model becomes, `prefixed`: the same where its functions
    have a prefix. `naming`: how a linker is told what the library calls itself; empty where it is
    not. `compiling`, `linking`: what compilers are told for it; `libraries`: what
    programs with the static one link besides. `drops_first`: a linker drops functions that nobody
    calls before it looks for what these call. `headers`: the folder of the C library's among Zig's
    own, where it does not look there.
    """

    name: str
    library: str
    prefixed: str
    naming: str = ""
    compiling: tuple[str, ...] = ()
    linking: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    drops_first: bool = True
    headers: str = ""

    @property
    def is_static(self) -> bool:
        """Whether programs get a static library and no other."""
        return self.library == STATIC

    def library_name(self, prefix: str) -> str:
        """What the library of functions with this prefix calls itself, and is linked by."""
        return self.library if prefix == PREFIX else self.prefixed.format(prefix)


_POSIX: Final = ("-fPIC", "-pthread")
_ELF: Final = ("-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,--as-needed", "-Wl,--gc-sections")
LINUX: Final = System(
    "linux",
    LIBRARY,
    "lib{}.so",
    "-Wl,-soname,{}",
    _POSIX,
    ("-shared", "-pthread", *_ELF),
    ("m",),
)
# Names and sizes are those of musl, which Android's library shares where kernels call it; phones
# may have pages of 16 KiB, and bcmp is not there.
ANDROID: Final = replace(
    LINUX,
    name="android",
    compiling=(*_POSIX, "-fno-builtin-bcmp"),
    linking=(*LINUX.linking, "-Wl,-z,max-page-size=16384"),
)
WINDOWS: Final = System(
    "windows",
    "model.dll",
    "{}.dll",
    linking=("-shared", "-Wl,--out-implib,model.lib"),
    drops_first=False,
)
MACOS: Final = System(
    "macos",
    "model.dylib",
    "lib{}.dylib",
    "-Wl,-install_name,@rpath/{}",
    _POSIX,
    ("-shared", "-pthread", "-Wl,-dead_strip"),
)
# Apps link static libraries; Zig has headers of macOS, whose C library is the same, and no stubs
# of the system's to link a shared one against.
IOS: Final = System(
    "ios",
    STATIC,
    "lib{}.a",
    compiling=_POSIX,
    libraries=(),
    drops_first=False,
    headers="any-darwin-any",
)
WEB: Final = System(
    "wasm",
    "model.wasm",
    "{}.wasm",
    # The backend of Clang 22.1 ends in an error for vectors of bytes that SLP makes of comparisons.
    compiling=("-fno-slp-vectorize",),
    linking=(
        "-mexec-model=reactor",
        "-Wl,--export-dynamic",
        "-Wl,--export=malloc",
        "-Wl,--export=free",
        "-Wl,--gc-sections",
    ),
)
# Workers share a memory that is imported; Zig's linker takes its limit as a number of 32 bits.
WEB_THREADS: Final = replace(
    WEB,
    linking=(
        *WEB.linking,
        "-Wl,--shared-memory",
        "-Wl,--import-memory",
        "-Wl,--max-memory=4294901760",
        "-Wl,--export=__stack_pointer",
        "-Wl,--export=__wasm_init_tls",
    ),
)

# Microcontrollers: there is nothing but the program.
BARE: Final = System("bare metal", STATIC, "lib{}.a", libraries=())


class Platform(Immutable):
    """A system with a family of processors, and what code for it may use of them.

    `architecture`: as Linux calls it. `triple`: system and processor as Zig calls them, with the C
    library in it. `march`: the processor as GCC names it, None where GCC is not used, `cpu`: as Zig
    does; `gcc`: what the names of GCC's programs begin with, where that is not the triple; on bare
    metal `flags` are for GCC alone. `features`: instruction sets of which kernels know. `further`:
    those that may stand behind its name, each with what compilers call it. `tested`: how its code
    is tried.
    """

    system: System
    architecture: str
    triple: str
    march: str | None
    cpu: str
    flags: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    further: Mapping[str, str] = {}
    tested: str = ""
    gcc: str = ""


_X86: Final = {
    level.removeprefix("x86-64"): Platform(
        LINUX,
        "x86_64",
        "x86_64-linux-{libc}",
        level,
        level.replace("-", "_"),
        features=features,
        further=EXTENSIONS.get(level, {}),
        tested="natively",
    )
    for level, features in X86_LEVELS.items()
}
_ARM: Final = Platform(
    LINUX,
    NEON,
    "aarch64-linux-{libc}",
    "armv8-a",
    "generic",
    further=EXTENSIONS[NEON],
    tested="under QEMU (qemu-aarch64)",
)


def _on(
    row: Platform, system: System, triple: str, tested: str = "built; its file is not run"
) -> Platform:
    """The same processor under another system, where no machine has SVE."""
    further = {name: what for name, what in row.further.items() if not name.startswith("sve")}
    return replace(row, system=system, triple=triple, march=None, further=further, tested=tested)


_ARMV7: Final = Platform(
    LINUX,
    "armv7l",
    "arm-linux-{libc}eabihf",
    "armv7-a+neon-vfpv4",
    "generic+v7a+neon+vfp4+d32",
    ("-mfloat-abi=hard",),
    tested="under QEMU (qemu-arm)",
)
_WASM: Final = Platform(
    WEB,
    "wasm32",
    "wasm32-wasi",
    None,
    "generic+simd128+bulk_memory+nontrapping_fptoint+sign_ext",
    further={"relaxed_simd": "relaxed_simd"},
    tested="in Node.js",
)


def _cortex(name: str, architecture: str, tested: str, *flags: str) -> Platform:
    """A microcontroller of ARM. `flags`: what GCC is told of its unit for floats, where it has
    one.
    """
    kind = "hf" if flags else ""
    own = (f"-mcpu={name}", "-mthumb", *flags, *(["-mfloat-abi=hard"] if flags else []))
    cpu = name.replace("-", "_")
    triple = f"thumb-freestanding-eabi{kind}"
    return Platform(BARE, architecture, triple, None, cpu, own, tested=tested, gcc="arm-none-eabi")


_IN_QEMU: Final = "under QEMU (qemu-system-arm)"
PLATFORMS: Final[Mapping[str, Platform]] = {
    **{f"linux-x86_64{level}": row for level, row in _X86.items()},
    "linux-arm64": _ARM,
    "linux-armv7": _ARMV7,
    "linux-riscv64": Platform(
        LINUX,
        "riscv64",
        "riscv64-linux-{libc}",
        "rv64gc",
        "baseline_rv64",
        tested="under QEMU (qemu-riscv64)",
    ),
    "linux-riscv64-v": Platform(
        LINUX,
        "riscv64",
        "riscv64-linux-{libc}",
        None,
        "baseline_rv64+v+zvl128b",
        features=frozenset(("rvv",)),
        further={"zvl256b": "zvl256b"},
        tested="under QEMU (qemu-riscv64)",
    ),
    **{
        f"windows-x86_64{level}": _on(row, WINDOWS, "x86_64-windows-gnu", "under Wine")
        for level, row in _X86.items()
    },
    "windows-arm64": _on(_ARM, WINDOWS, "aarch64-windows-gnu"),
    "macos-arm64": replace(
        _on(_ARM, MACOS, "aarch64-macos.11.0"), cpu="apple_m1", features=frozenset(("asimddp",))
    ),
    **{f"macos-x86_64{level}": _on(row, MACOS, "x86_64-macos.11.0") for level, row in _X86.items()},
    "android-arm64": _on(_ARM, ANDROID, "aarch64-linux-musl"),
    "ios-arm64": replace(_on(_ARM, IOS, "aarch64-ios.13.0"), cpu="apple_a12"),
    "ios-arm64-simulator": replace(
        _on(_ARM, IOS, "aarch64-ios.14.0-simulator"),
        cpu="apple_m1",
        features=frozenset(("asimddp",)),
    ),
    "wasm32": _WASM,
    "wasm32-threads": replace(
        _WASM, system=WEB_THREADS, cpu=f"{_WASM.cpu}+atomics+mutable_globals"
    ),
    "cortex-m0": _cortex("cortex-m0", "armv6-m", _IN_QEMU),
    "cortex-m4": _cortex("cortex-m4", "armv7e-m", _IN_QEMU, "-mfpu=fpv4-sp-d16"),
    "cortex-m7": _cortex("cortex-m7", "armv7e-m", _IN_QEMU, "-mfpu=fpv5-sp-d16"),
    "cortex-m55": replace(
        _cortex("cortex-m55", "armv8.1-m", _IN_QEMU, "-mfpu=auto"), cpu="cortex_m55+mve_fp"
    ),
    "riscv32": Platform(
        BARE,
        "riscv32",
        "riscv32-freestanding",
        None,
        "generic_rv32+m+a+c",
        ("-march=rv32imac", "-mabi=ilp32"),
        tested="under QEMU (qemu-system-riscv32)",
        gcc="riscv64-unknown-elf",
    ),
}
"""The platforms by name, but for the C library and further instruction sets behind it."""

ALIASES: Final[Mapping[str, str]] = {
    **{level: f"linux-x86_64{level.removeprefix('x86-64')}" for level in X86_LEVELS},
    NEON: "linux-arm64",
    "arm64": "linux-arm64",
    "armv7": "linux-armv7",
    "riscv64": "linux-riscv64",
    "windows": "windows-x86_64",
    "macos": "macos-arm64",
    "android": "android-arm64",
    "ios": "ios-arm64",
    "pixel-8": "android-arm64+asimddp+i8mm+bf16",
    "raspberry-pi-3": "linux-arm64",
    "raspberry-pi-4": "linux-arm64",
    "raspberry-pi-5": "linux-arm64+asimddp",
    "jetson-orin": "linux-arm64+asimddp",
    "graviton2": "linux-arm64+asimddp",
    "graviton3": "linux-arm64+asimddp+i8mm+bf16",
    "graviton4": "linux-arm64+asimddp+i8mm+bf16",
}
"""Further names: those of boards and machines say what their processors have."""

MUSL: Final = "musl"
_LIBC: Final = re.compile(rf"-({MUSL}|glibc(\d+)\.(\d+))$")
_OLDEST_GLIBC: Final = (2, 17)


class Named(Immutable):
    """What the name of a target says: a platform, the C library ("" for that of this machine) and
    further instruction sets.
    """

    platform: Platform
    libc: str
    names: tuple[str, ...]


def named(name: str) -> Named:
    """What the name of a target says; OptionError for one that says nothing."""
    base, *names = name.split("+")
    libc = match.group(1) if (match := _LIBC.search(base)) else ""
    stem = base.removesuffix(f"-{libc}") if libc else base
    alias, *implied = ALIASES.get(stem, stem).split("+")
    platform = PLATFORMS.get(alias)
    if platform is None:
        raise OptionError(f"there is no target {name!r}", hint=_choices(stem))
    if match and platform.system is not LINUX:
        raise OptionError(
            f"the target {name!r} names the C library {libc}, which is one of Linux",
            hint=f"leave it out: {stem}",
        )
    if match and match.group(2) and tuple(map(int, match.group(2, 3))) < _OLDEST_GLIBC:
        oldest = ".".join(map(str, _OLDEST_GLIBC))
        raise OptionError(f"code for {libc} cannot be made", hint=f"glibc{oldest} is the oldest")
    if useless := [each for each in names if each not in platform.further]:
        what = f"the target {name!r} names {useless[0]!r}, which no kernel has a use for there"
        there = ", ".join(platform.further) or "none"
        raise OptionError(what, hint=f"behind {base} may stand: {there}")
    every = tuple(dict.fromkeys((*implied, *names)))
    if len(lengths := [each for each in every if each in VECTOR_BITS]) > 1:
        what = f"the target {name!r} names two lengths of vectors: {' and '.join(lengths)}"
        raise OptionError(what, hint="leave one out: code is made for one length")
    return Named(platform, libc, every)


def _choices(name: str) -> str:
    every = ("native", *PLATFORMS, *ALIASES, "c")
    near = get_close_matches(name, every, 3, 0.5)
    return f"such as: {', '.join(near)}" if near else "infuse targets lists them"
