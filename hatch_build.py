"""Wheels with libraries of prebuilt kernels: those of the folder $INFUSE_WHEEL_LIBRARIES, which
`infuse prebuilt --portable` has filled. Without it a wheel is pure Python. What $INFUSE_WHEEL_NOTES
has, which `infuse.catalog.ship` has filled, goes into either.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER_VARIABLE: Final = "INFUSE_WHEEL_LIBRARIES"
NOTES_VARIABLE: Final = "INFUSE_WHEEL_NOTES"
_OLDEST_GLIBC: Final = (2, 28)
_ARCHITECTURES: Final = {62: "x86_64", 183: "aarch64"}
"""By the number that ELF files have for them."""
_MACHINE_FIELD: Final = slice(18, 20)


class PrebuiltLibraries(BuildHookInterface[Any]):
    """Adds the libraries to a wheel, and says for which systems it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """ValueError where a library is for no system that the wheel is for."""
        if version == "editable":
            return
        if notes := os.environ.get(NOTES_VARIABLE, ""):
            home = Path(self.root, notes)
            build_data["force_include"].update(
                {str(path): str(path.relative_to(home)) for path in home.rglob("*.json")}
            )
        folder = os.environ.get(FOLDER_VARIABLE, "")
        if not folder:
            return
        libraries = sorted(Path(self.root, folder).glob("*.so"))
        architectures = {_architecture(path) for path in libraries}
        if len(architectures) != 1:
            count = len(architectures)
            raise ValueError(f"{folder} has libraries for {count} architectures, not 1")
        glibc = "_".join(map(str, _OLDEST_GLIBC))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{glibc}_{architectures.pop()}"
        build_data["force_include"].update(
            {str(path): f"infuse/prebuilt/{path.name}" for path in libraries}
        )


def _architecture(path: Path) -> str:
    """The architecture of a library that needs nothing but the oldest glibc."""
    content = path.read_bytes()
    found = _ARCHITECTURES.get(int.from_bytes(content[_MACHINE_FIELD], "little"))
    if content[:4] != b"\x7fELF" or found is None:
        raise ValueError(f"{path} is no library for {' or '.join(_ARCHITECTURES.values())}")
    versions = [tuple(map(int, v)) for v in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", content)]
    if max(versions, default=_OLDEST_GLIBC) > _OLDEST_GLIBC:
        newest = ".".join(map(str, max(versions)))
        raise ValueError(f"{path} needs glibc {newest}: make it with `infuse prebuilt --portable`")
    if others := re.findall(rb"\0(GLIBC_ABI_|GLIBCXX_|CXXABI_|libstdc\+\+|libgcc_s)", content):
        raise ValueError(f"{path} needs more than glibc: {others[0].decode()}")
    return found
