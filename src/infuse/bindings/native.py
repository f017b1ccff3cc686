"""Shared libraries of packages: what all languages share, linked with the model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from infuse.bindings.package import Package
from infuse.build.toolchain import Toolchain
from infuse.errors import OptionError
from infuse.targets import Target

SOURCE: Final = "binding.c"


def target_of(package: Package) -> Target:
    """What the model was compiled for."""
    return Target.resolve(str(package.interface.metadata.get("target", "native")))


def library_name(package: Package) -> str:
    """What the shared library of a package is called."""
    system = target_of(package).system
    return system.prefixed.format(package.name)


def link(package: Package, sources: Path, static: Path, output: Path) -> None:
    """Compile `binding.c` in the folder `sources` for the model's target, and link it with the
    model's static library to the shared library `output`. ToolchainError where this machine has no
    compiler for the target, CompileError where it fails.
    """
    target = target_of(package)
    if not target.system.library.endswith((".so", ".dll", ".dylib")):
        raise OptionError(
            f"the language needs a shared library, which {target.name} does not take",
            hint="languages that link static ones: cpp, go, rust, swift",
        )
    toolchain = Toolchain.find(target)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "binding.o"
        source = str((sources / SOURCE).absolute())
        language = ("-xc++", "-c") if target.machine.language == "c++" else ("-c",)
        compiling = toolchain.compiling(target, [sources])
        toolchain.run([(*compiling, *language, source, "-o", str(compiled))], Path(folder))
        before, behind = toolchain.linking(target, output.absolute(), output.name)
        libraries = [f"-l{each}" for each in target.system.libraries]
        files = (str(compiled), str(static.absolute()))
        toolchain.run([(*before, *files, *behind, *libraries)], Path(folder))
    toolchain.check_made(output)
