"""What the folder of a model has besides for programs that link it: how CMake and pkg-config learn
of it, licence, checksums; and its weights as a part of the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from infuse.options import PREFIX
from infuse.runtime.folder import HEADER, METADATA, STATIC, WEIGHTS, digest
from infuse.targets import Target

EMBEDDED: Final = "weights"
"""The name of the source that makes weights a part of a library, without its ending."""
SUMS: Final = "SHA256SUMS"
_LICENSE: Final = "LICENSE"
_ROOT: Final = Path(__file__).parents[1]

_WEIGHTS: Final = """// The content of weights.bin, as a part of the library.
#if defined(__APPLE__)
#define PLACE(name) ".section __TEXT,__const\\n.private_extern _" name "\\n.globl _" name "\\n"
#define START(name) "_" name ":\\n"
#define END(name)
#elif defined(_WIN32)
#define PLACE(name) ".section .rdata,\\"dr\\"\\n.globl " name "\\n"
#define START(name) name ":\\n"
#define END(name)
#else
#if defined(__wasm__)
#define PLACE(name) ".section .rodata." name ",\\"\\",@\\n.hidden " name "\\n.globl " name "\\n"
#else
#define PLACE(name) ".section .rodata\\n.hidden " name "\\n.globl " name "\\n"
#endif
#define START(name) name ":\\n"
#define END(name) ".size " name ", . - " name "\\n"
#endif
__asm__(PLACE("@NAME@") ".balign 64\\n" START("@NAME@") ".incbin \\"@FILE@\\"\\n.byte 0\\n"
        END("@NAME@") ".text\\n");
"""


def embedded_source(metadata: Mapping[str, Any]) -> str:
    """C text that makes the file of weights beside it a part of a library."""
    name = f"{metadata.get('prefix', PREFIX)}_embedded_weights"
    return _WEIGHTS.replace("@NAME@", name).replace("@FILE@", WEIGHTS)


def pack(folder: Path, metadata: Mapping[str, Any], target: Target) -> None:
    """Add to a compiled model what programs that link it need to find it; checksums come last."""
    prefix = metadata.get("prefix", PREFIX)
    name = "model" if prefix == PREFIX else prefix
    shared = target.system.library_name(prefix)
    (folder / f"{name}-config.cmake").write_text(_cmake(name, shared, target), "utf-8")
    (folder / "CMakeLists.txt").write_text(_LISTS.replace("@NAME@", name), "utf-8")
    (folder / f"{name}.pc").write_text(_pkg_config(name, prefix, metadata, target), "utf-8")
    (folder / _LICENSE).write_text(_license(), "utf-8")
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


def _cmake(name: str, shared: str, target: Target) -> str:
    """A file for find_package: both libraries as imported targets."""
    threads = "-pthread" in target.system.linking
    link = [*(["Threads::Threads"] if threads else []), *target.system.libraries]
    include = '  INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}"'
    common = f"""{include}
  INTERFACE_LINK_LIBRARIES "{";".join(link)}")
"""
    lines = [
        f"# The model as targets of CMake: infuse::{name} (shared) and infuse::{name}_static.\n",
        "find_package(Threads REQUIRED)\n" if threads else "",
    ]
    if shared.endswith((".so", ".dylib", ".dll")):
        implib = f'  IMPORTED_IMPLIB "${{CMAKE_CURRENT_LIST_DIR}}/{Path(shared).stem}.lib"\n'
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
  IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/{STATIC}"
{common}endif()
"""
    )
    return "".join(lines)


def _pkg_config(name: str, prefix: str, metadata: Mapping[str, Any], target: Target) -> str:
    library = f"-l{prefix}" if prefix != PREFIX else f"-l:{target.system.library}"
    libraries = [f"-l{each}" for each in target.system.libraries]
    private = " ".join(["-pthread"] * ("-pthread" in target.system.linking) + libraries)
    return f"""prefix=${{pcfiledir}}

Name: {name}
Description: a model compiled by Infuse ({HEADER})
Version: {metadata.get("abi", 0)}
Cflags: -I${{prefix}}
Libs: -L${{prefix}} {library}
Libs.private: {private}
"""
