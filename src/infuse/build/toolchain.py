"""The C++ compiler: finding one, what it is told, and running it over several sources at once."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from infuse.build.processes import Command, Failed, environment, run_all
from infuse.errors import CacheError, CompileError, InfuseError, ToolchainError
from infuse.targets import Target

LOG: Final = "compiler.txt"
"""Beside the output: what a compiler that failed has written."""

_INSTALL: Final = (
    "install one: pip install ziglang, or your system's g++ (apt install g++), or set CXX"
)
_COMPILE: Final = (
    "-O3",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-strict-aliasing",
    "-fno-stack-protector",
    "-ffunction-sections",
)
_SMALL: Final = ("-Os", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
"""Besides, where code is to be small."""
_PACKED: Final = ("-Wl,-z,noseparate-code", "-Wl,--build-id=none")
"""How its sections are linked, where the linker is GNU's."""
_LANGUAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "c++": ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"),
    "c": ("-x", "c", "-std=c11", "-D_DEFAULT_SOURCE"),
}
"""What sources of a language need besides."""
OLDEST_GLIBC: Final = "2.28"
"""The C library of the oldest systems that portable code is for, as manylinux_2_28 says."""
_BETTER_BY_ZIG: Final = frozenset(("aarch64",))
"""Architectures for which Zig's compiler comes before GCC's cross compiler: code of GCC 12 for
64-bit ARM takes 1.1 times as many instructions in fp32, and 1.4 times in int8 (MobileNetV2).
"""
CALLS: Final = ("-O1", "-fno-inline")
"""How sources that only call others are optimized. Where sizes follow from those of the inputs,
their terms are long, and what computes them takes ten times as long to compile in line.
"""
_GCC: Final = (
    "-fno-gnu-unique",
    # GCC 12.2 takes the flags of a comparison that an increment between has changed, where it makes
    # two conditional moves of a branch (`sparse_detail::tile_of`, x86-64 with AVX-512): wrong sums.
    "-fno-if-conversion",
)
Sanitizer = Literal["", "address", "thread"]
_SANITIZE: Final[Mapping[Sanitizer, tuple[str, ...]]] = {
    "": (),
    "address": (
        "-O0",
        "-g1",
        "-fno-omit-frame-pointer",
        "-fsanitize=address,undefined",
        "-fsanitize-recover=address,undefined",
        "-fno-sanitize=vptr",
    ),
    "thread": (
        "-O0",
        "-g1",
        "-fno-omit-frame-pointer",
        "-fsanitize=thread",
        "-DINFUSE_ALTERNATE=3",
    ),
}
# What compilers read beside their arguments.
_VARIABLES: Final = (
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCC_OVERRIDE_OPTIONS",
    "SOURCE_DATE_EPOCH",
    "ZIG_LIB_DIR",
)


@dataclass(frozen=True)
class Toolchain:
    """A C++ compiler: how to call it, its kind ("gcc", "clang" or "zig") and its version line.

    `details`: what else tells it from others: all that it says of its version, and size and time of
    its program.
    """

    command: tuple[str, ...]
    kind: str
    version: str
    sanitizer: Sanitizer = ""
    """What code reports: "address": accesses outside of memory and undefined behaviour, "thread":
    data races. It runs in sanitizing processes only.
    """
    details: str = field(default="", compare=False)
    glibc: str = ""
    """The oldest C library that code runs with; empty: that of this machine."""

    @classmethod
    def portable(cls) -> Toolchain:
        """The compiler of the package ziglang, for all systems that wheels of this project are for;
        ToolchainError without it.
        """
        zig = ziglang()
        if zig is None:
            raise ToolchainError(
                "code for other systems needs the compiler of the package ziglang",
                hint="install it: pip install ziglang",
            )
        return replace(cls.from_command((str(zig), "c++")), glibc=OLDEST_GLIBC)

    @classmethod
    def find(cls, target: Target | None = None) -> Toolchain:
        """The compiler of `$CXX`, else of the system, else of the package ziglang; ToolchainError
        when none works.

        For a foreign `target` it is a cross compiler.
        """
        chosen = os.environ.get("CXX", "").strip()
        if chosen:
            return cls.from_command(_split(chosen))
        if target is not None and (target.is_foreign or target.libc):
            return cls._find_cross(target)
        tried = []
        for name in ("g++", "clang++", "c++"):
            path = shutil.which(name)
            if path is None:
                continue
            try:
                return cls.from_command((path,))
            except ToolchainError as error:
                tried.append(error.what)
        zig = ziglang()
        if zig is not None:
            return cls.from_command((str(zig), "c++"))
        raise ToolchainError("; ".join(["no C++ compiler was found", *tried]), hint=_INSTALL)

    @classmethod
    def _find_cross(cls, target: Target) -> Toolchain:
        zig, system = ziglang(), target.gcc
        prefers_zig = zig is not None and target.architecture in _BETTER_BY_ZIG
        if target.is_bare or (target.march is not None and not target.libc and not prefers_zig):
            path = shutil.which(f"{system}-{'gcc' if target.is_bare else 'g++'}")
            if path is not None:
                return cls.from_command((path,))
        if zig is not None:
            return cls.from_command((str(zig), "c++"))
        raise ToolchainError(
            f"no C{'' if target.is_bare else '++'} compiler for {system} was found",
            hint=f"install one: pip install ziglang{_debian(target)}",
        )

    @classmethod
    def from_command(cls, command: Sequence[str]) -> Toolchain:
        """The compiler that this command starts; ToolchainError when it does not start or is
        none.
        """
        program = shutil.which(command[0])
        if program is None:
            raise ToolchainError(
                f"the C++ compiler {command[0]!r} does not exist or may not be run", hint=_INSTALL
            )
        program = str(Path(program).absolute())
        status = Path(program).stat()
        kind, version, text = _identify((program, *command[1:]), status.st_mtime_ns, status.st_size)
        details = f"{Path(program).resolve()} {status.st_size} {status.st_mtime_ns} {text}"
        return cls((program, *command[1:]), kind, version, details=details)

    @property
    def identity(self) -> str:
        """The text that must be part of every cache key: which compiler, called how, with which
        flags and variables.
        """
        variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        flags = (*self._compile_flags(), *_SMALL, *_LANGUAGES.values(), *CALLS)
        return repr((self.command, self.details, self.version, self.glibc, flags, variables))

    def _compile_flags(self) -> tuple[str, ...]:
        return (*_COMPILE, *_SANITIZE[self.sanitizer])

    def compiling(self, target: Target, include: Sequence[Path] = ()) -> Command:
        """What compiles sources for a target, but for their names."""
        folders = (f"-I{path.absolute()}" for path in include)
        language = _LANGUAGES[target.machine.language]
        system = target.system.compiling
        small = _SMALL if target.is_small and not self.sanitizer else ()
        flags = (*self._compile_flags(), *small, *system, *language, *self._target_flags(target))
        return (*self.command, *flags, *folders)

    def linking(self, target: Target, output: Path, soname: str = "") -> tuple[Command, Command]:
        """What links files to the library `output`, which calls itself `soname`: what stands before
        their names, and what behind.
        """
        naming = target.system.naming
        named = [naming.format(soname)] if soname and naming else []
        before = (*self.command, *self._target_flags(target))
        packed = _PACKED if target.is_small and self.kind == "gcc" else ()
        flags = (*target.system.linking, *self._link_flags(), *packed, *named)
        return before, (*flags, "-o", str(output))

    def processor(self, target: Target) -> list[str]:
        """What names the processor and system of a target."""
        return self._target_flags(target)

    def archiving(self, target: Target, output: Path) -> Command:
        """What makes the static library `output` of objects, but for their names; ToolchainError
        where there is nothing that does.
        """
        if self.kind == "zig":
            return (self.command[0], "ar", "rcsD", str(output))
        names = [f"{target.gcc}-ar", *([] if target.is_foreign else ["ar"])]
        path = next(filter(None, map(shutil.which, names)), None)
        if path is None:
            raise ToolchainError(f"there is no {names[0]} for a static library", hint=_INSTALL)
        return (path, "rcsD", str(output))

    def run(
        self,
        commands: Sequence[Command],
        folder: Path,
        jobs: int = 1,
        done: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Run commands of this compiler in a folder, as `run_all` does. CompileError where one of
        them rejects its sources; what it wrote lies in the folder then, as `LOG`.
        """
        try:
            run_all(commands, folder, jobs, done)
        except Failed as failed:
            raise self._error(failed, folder) from None

    def _error(self, failed: Failed, folder: Path) -> InfuseError:
        text = failed.text.replace(f"{folder}{os.sep}", "")
        with contextlib.suppress(OSError):  # a full disk is reported as such below
            (folder / LOG).write_text(failed.text, "utf-8")
        if "No space left on device" in text or "Disk quota exceeded" in text:
            return CacheError(
                "the disk is full: the compiler could not write its output", hint="free some space"
            )
        if re.search(
            r"bad value .* for .-march|unknown (target )?CPU|unsupported argument .* to option "
            r"'-march|unrecognized command.line option .-m|unknown argument: '-m|no such "
            r"instruction",
            text,
        ):
            what = f"{self.version} cannot build for this target: {_first_error(text)}"
            return ToolchainError(
                what, hint="use a newer compiler (pip install ziglang), or another target"
            )
        if failed.status < 0 or re.search(r"Killed|out of memory|bad_alloc", text):
            what = f"{self.version} was killed or ran out of memory: {_first_error(text)}"
            return CompileError(
                what, hint="compile with fewer jobs at once, or give the process more memory"
            )
        where = next(
            (argument for argument in failed.command if argument.endswith((".cpp", ".c"))), None
        )
        hint = (
            "this is a fault of Infuse and not of your model: please report it, with that file "
            f"and {LOG} beside it"
        )
        return CompileError(f"{self.version} failed: {_first_error(text)}", where=where, hint=hint)

    def check_made(self, output: Path) -> None:
        """ToolchainError where a command has not made the file that it should."""
        if not output.is_file():
            raise ToolchainError(
                f"{self.command[0]!r} ended without an error and without a result", hint=_INSTALL
            )

    def _target_flags(self, target: Target) -> list[str]:
        further = [*target.flags, *target.machine.defines()]
        if self.kind == "zig" and target.is_bare:
            return [*self._zig_flags(target), "-fno-sanitize=undefined"]
        if self.kind == "zig":
            return [*self._zig_flags(target), "-fno-sanitize=undefined", *further]
        if target.march == "native" and target.architecture == "aarch64":
            return ["-mcpu=native", *further]
        exact = [f"-march={target.march}"] if target.march else []
        plain = _GCC if self.kind == "gcc" and target.machine.language == "c++" else ()
        return [*exact, *plain, *further]

    def _zig_flags(self, target: Target) -> list[str]:
        """System and processor, as Zig calls them."""
        libc = target.libc or (f"glibc{self.glibc}" if self.glibc else "")
        kind, _, age = libc.replace("glibc", "gnu.").partition(".")
        system = f"{target.triple.format(libc=kind or 'gnu')}{f'.{age}' if age else ''}"
        flags = ["-target", system] if libc or target.is_foreign else []
        flags += [] if self._is_debugged else ["-g0", "-s"]
        if target.system.headers:
            own = Path(self.command[0]).resolve().parent / "lib" / "libc" / "include"
            flags += ["-isystem", str(own / target.system.headers)]
        return [*flags, f"-mcpu={target.cpu}"] if target.cpu else flags

    @property
    def _is_debugged(self) -> bool:
        """Whether code says which line it is of. Zig's does so without being asked, and is fifteen
        times as large then.
        """
        asked = (
            word for word in self.command[1:] if re.fullmatch(r"-g([1-3]|gdb.*|dwarf.*)?", word)
        )
        return bool(self.sanitizer) or any(asked)

    def _link_flags(self) -> list[str]:
        old_gcc = self.kind == "gcc" and _major(self.version) < 13
        no_library = [] if old_gcc else ["-nostdlib++"]
        stripped = [] if self._is_debugged or self.kind == "zig" else ["-Wl,-s"]
        return [*no_library, *stripped, *_SANITIZE[self.sanitizer]]


def _debian(target: Target) -> str:
    """How Debian's compiler for a target is installed, where it is of use."""
    if target.is_bare:
        source = "; --profile bare without a target writes the source, for a compiler of your own"
        return f", or your system's (apt install gcc-{target.gcc}){source}"
    if target.march is None or target.libc:
        return ""
    return f", or your system's (apt install g++-{target.gcc})"


def _split(text: str) -> tuple[str, ...]:
    """The words of `$CXX`, which may be one path with spaces in it or a command with arguments."""
    if shutil.which(text):
        return (text,)
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ToolchainError(
            f"CXX is {text!r}, which is not a command: {error}", hint=_INSTALL
        ) from error
    return words or (text,)


def ziglang() -> Path | None:
    """The compiler of the installed package ziglang."""
    spec = importlib.util.find_spec("ziglang")
    folders = spec.submodule_search_locations if spec else None
    paths = [Path(folder) / name for folder in folders or () for name in ("zig", "zig.exe")]
    return next((path for path in paths if path.is_file()), None)


@lru_cache(maxsize=64)
def _identify(command: tuple[str, ...], changed: int, size: int) -> tuple[str, str, str]:
    """Kind, version line and all of the version's text of a compiler.

    `changed` and `size` of its program make the answer forgotten in time.
    """
    zig = command[1:] == ("c++",) and Path(command[0]).name.startswith("zig")
    question = (command[0], "version") if zig else (*command, "--version")
    try:
        answer = subprocess.run(
            question, capture_output=True, text=True, env=environment(), check=False
        )
    except OSError as error:
        raise ToolchainError(
            f"the C++ compiler {command[0]!r} cannot be run: {error.strerror}", hint=_INSTALL
        ) from error
    line = next(iter(answer.stdout.splitlines()), "").strip()
    if answer.returncode or not line:
        told = f": {_first_error(answer.stderr)}" if answer.stderr.strip() else ""
        raise ToolchainError(
            f"{shlex.join(command)!r} does not work as a C++ compiler{told}", hint=_INSTALL
        )
    if zig:
        return "zig", f"zig {line}", answer.stdout
    kind = "clang" if "clang" in answer.stdout else "gcc"
    return ("zig" if "ziglang" in command else kind), line, answer.stdout


def _major(version: str) -> int:
    """The first number of the last dotted version in a line such as "g++ (Debian 12.2.0-14)
    12.2.0".
    """
    numbers = re.findall(r"(\d+)\.\d+(?:\.\d+)?", version)
    return int(numbers[-1]) if numbers else 0


def _first_error(text: str) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for pattern in (r"undefined (reference|symbol)", r"\berror:", r"\berror\b"):
        line_ = next((line for line in lines if re.search(pattern, line, re.IGNORECASE)), None)
        if line_:
            return line_
    return lines[-1] if lines else "it gave no reason"
