"""Libraries that run models which are programs for them, as folders for programs in C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from infuse.build.library import Progress
from infuse.build.packing import add_license, add_sums, pack_library
from infuse.build.prebuilt import ForeignLibrary, make_program_library, stamp
from infuse.build.toolchain import Toolchain
from infuse.errors import CompiledModelError, OptionError
from infuse.immutable import Immutable
from infuse.lowering.emitter import ClosedFunctions, emitter_of
from infuse.runtime.folder import ABI, BUNDLED, METADATA, check_replaceable, publish
from infuse.runtime.program import Facts
from infuse.targets import Target
from infuse.targets.platforms import ANDROID, LINUX

LIBRARY: Final = "libinfuse.so"
ARCHIVE: Final = "libinfuse.a"
_NAME: Final = "infuse"


class LibraryFolder(Immutable):
    """A folder with a library, and the target that programs for it are written for."""

    path: Path
    target: Target
    library: ForeignLibrary


def require_programs(target: Target) -> None:
    """OptionError for a target without libraries that run programs."""
    has_closed = target.machine.language == "c++" and target.architecture in ("x86_64", "aarch64")
    if not has_closed or target.system not in (LINUX, ANDROID):
        raise OptionError(
            f"there are no libraries that run programs for the target {target.name!r}",
            hint="they are for Linux and Android on x86-64 and on 64-bit ARM",
        )


def write_library(
    folder: Path,
    functions: ClosedFunctions,
    target: Target,
    progress: Progress | None = None,
    toolchain: Toolchain | None = None,
) -> ForeignLibrary:
    """Fill a folder with a library of these functions, shared and static, its header, what CMake
    and pkg-config read, licence, checksums and a description.
    """
    facts = Facts(target.name, frozenset(target.required), stamp(target))
    compiler = toolchain or Toolchain.find(target)
    library = folder / LIBRARY
    make_program_library(functions, facts, target, library, folder / ARCHIVE, compiler, progress)
    (folder / BUNDLED).write_text(emitter_of(target.machine).program_header(), "utf-8")
    pack_library(folder, _NAME, LIBRARY, ARCHIVE, target)
    description = {
        "abi": ABI,
        "target": target.name,
        "machine": target.architecture,
        "cpu_features": sorted(target.required),
        "size": target.is_small,
        "stamp": facts.stamp,
        "toolchain": compiler.version,
        "functions": sorted(functions.names),
    }
    (folder / METADATA).write_text(json.dumps(description, indent=1), "utf-8")
    add_license(folder)
    add_sums(folder)
    return ForeignLibrary(library, facts, functions.names)


def publish_library(
    output: Path,
    functions: ClosedFunctions,
    target: Target,
    progress: Progress | None = None,
    toolchain: Toolchain | None = None,
) -> Path:
    """The folder `output` with a library of these functions, in place of an older one. OptionError
    where the folder is something else, and as `require_programs`.
    """
    require_programs(target)
    if not (output / BUNDLED).is_file():
        check_replaceable(output)

    def write(folder: Path) -> None:
        write_library(folder, functions, target, progress, toolchain)

    return publish(output, write)


def read_library(folder: Path) -> LibraryFolder:
    """The library in a folder. CompiledModelError where there is none, or it is of another release
    or, for `native`, of another processor.
    """
    try:
        content: dict[str, Any] = json.loads((folder / METADATA).read_text("utf-8"))
        target = Target.resolve(content["target"])
        target = target.smaller() if content["size"] else target
        facts = Facts(target.name, frozenset(content["cpu_features"]), content["stamp"])
        names = frozenset(content["functions"])
    except (OSError, ValueError, LookupError, TypeError, OptionError) as error:
        raise CompiledModelError(
            "the folder has no library that runs programs",
            where=str(folder),
            hint="make one: infuse prebuilt --library, or infuse bundle",
        ) from error
    if facts.stamp != stamp(target):
        raise CompiledModelError(
            "the library was made by another release of Infuse, whose programs it runs",
            where=str(folder),
            hint="make it again with this release",
        )
    if facts.features != target.required:
        raise CompiledModelError(
            "the library was made for the processor of another machine",
            where=str(folder),
            hint="make it again with a --target that is named, such as x86-64-v3",
        )
    return LibraryFolder(folder, target, ForeignLibrary(folder / LIBRARY, facts, names))
