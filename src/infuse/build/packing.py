"""What the folder of a model has besides for programs that link it: how CMake and pkg-config learn
of it, licence, checksums.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from infuse.options import PREFIX
from infuse.runtime.folder import ABI, HEADER, METADATA, STATIC, digest
from infuse.targets import Target

SUMS: Final = "SHA256SUMS"
_LICENSE: Final = "LICENSE"
_ROOT: Final = Path(__file__).parents[1]


def pack(folder: Path, metadata: Mapping[str, Any], target: Target) -> None:
    """Add to a compiled model what programs that link it need to find it; checksums come last."""
    prefix = metadata.get("prefix", PREFIX)
    name = "model" if prefix == PREFIX else prefix
    shared = target.system.library_name(prefix)
    (folder / f"{name}-config.cmake").write_text(_cmake(name, shared, STATIC, target), "utf-8")
    (folder / "CMakeLists.txt").write_text(_LISTS.replace("@NAME@", name), "utf-8")
    linked = f"-l{prefix}" if prefix != PREFIX else f"-l:{target.system.library}"
    what, version = f"a model compiled by Infuse ({HEADER})", metadata.get("abi", 0)
    (folder / f"{name}.pc").write_text(_pkg_config(name, what, linked, version, target), "utf-8")
    add_license(folder)
    add_sums(folder)


def pack_library(folder: Path, name: str, shared: str, static: str, target: Target) -> None:
    """Add to a library that runs programs what programs that link it need to find it."""
    (folder / f"{name}-config.cmake").write_text(_cmake(name, shared, static, target), "utf-8")
    (folder / "CMakeLists.txt").write_text(_LISTS.replace("@NAME@", name), "utf-8")
    facts = (name, "a library that runs models of Infuse", f"-l{name}", ABI, target)
    (folder / f"{name}.pc").write_text(_pkg_config(*facts), "utf-8")


def add_license(folder: Path) -> None:
    """Add the licence of kernels, which every model has in it."""
    (folder / _LICENSE).write_text(_license(), "utf-8")


def add_sums(folder: Path) -> None:
    """Add the checksums of all other files but the description."""
    files = sorted(f for f in folder.iterdir() if f.is_file() and f.name not in (SUMS, METADATA))
    lines = [f"{digest(file)}  {file.name}\n" for file in files]
    (folder / SUMS).write_text("".join(lines), "utf-8")


def _license() -> str:
    """The licence of the kernels that every library has in it: in wheels beside the package, in a
    checkout at its root.
    """
    places = (_ROOT / _LICENSE, _ROOT.parents[1] / _LICENSE)
    return next(place.read_text("utf-8") for place in places if place.is_file())


_LISTS: Final = """# add_subdirectory() of this folder gives the targets infuse::@NAME@ and
# infuse::@NAME@_static.
cmake_minimum_required(VERSION 3.13)
include("${CMAKE_CURRENT_LIST_DIR}/@NAME@-config.cmake")
"""


def _cmake(name: str, shared: str, static: str, target: Target) -> str:
    """A file for find_package: both libraries as imported targets."""
    threads = "-pthread" in target.system.linking
    link = [*(["Threads::Threads"] if threads else []), *target.system.libraries]
    include = '  INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}"'
    common = f"""{include}
  INTERFACE_LINK_LIBRARIES "{";".join(link)}")
"""
    lines = [
        f"# The library as targets of CMake: infuse::{name} (shared) and infuse::{name}_static.\n",
        "find_package(Threads REQUIRED)\n" if threads else "",
    ]
    if shared.endswith((".so", ".dylib", ".dll")):
        implib = '  IMPORTED_IMPLIB "${CMAKE_CURRENT_LIST_DIR}/model.lib"\n'
        lines.append(
            f"""if(NOT TARGET infuse::{name})
add_library(infuse::{name} SHARED IMPORTED GLOBAL)
set_target_properties(infuse::{name} PROPERTIES
  IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/{shared}"
{implib if shared.endswith(".dll") else ""}{include})
endif()
"""
        )
    lines.append(
        f"""if(NOT TARGET infuse::{name}_static)
add_library(infuse::{name}_static STATIC IMPORTED GLOBAL)
set_target_properties(infuse::{name}_static PROPERTIES
  IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/{static}"
{common}endif()
"""
    )
    return "".join(lines)


def _pkg_config(name: str, what: str, linked: str, version: int, target: Target) -> str:
    libraries = [f"-l{each}" for each in target.system.libraries]
    private = " ".join(["-pthread"] * ("-pthread" in target.system.linking) + libraries)
    return f"""prefix=${{pcfiledir}}

Name: {name}
Description: {what}
Version: {version}
Cflags: -I${{prefix}}
Libs: -L${{prefix}} {linked}
Libs.private: {private}
"""
