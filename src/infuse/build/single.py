"""Models as one file of C: a folder with the source, its header and an example; for a machine
without a system, compiled to a static library.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from infuse.build.packing import add_license, add_sums
from infuse.build.toolchain import LOG, Toolchain
from infuse.runtime.folder import ABI, METADATA, STATIC, check_replaceable, digest, publish
from infuse.targets import Target

SYSTEM: Final = "source"
"""What the description of a folder calls the system of code that nobody has compiled."""
_FLAGS: Final = ("-x", "c", "-std=c99", "-ffreestanding", "-ffunction-sections", "-fdata-sections")


def write_single(
    texts: Mapping[str, str],
    metadata: Mapping[str, Any],
    target: Target,
    toolchain: Toolchain | None,
    output: str | os.PathLike[str],
) -> Path:
    """The folder `output` with these texts by name, the source of the model first, and with a
    static library where there is a `toolchain`. OptionError where the folder is something else;
    CompileError, ToolchainError.
    """
    check_replaceable(Path(output))
    main = next(iter(texts))

    def write(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
        made = [main]
        if toolchain is not None:
            _compile(folder, main, target, toolchain)
            made.append(STATIC)
        add_license(folder)
        _describe(folder, metadata, target, made, toolchain)
        add_sums(folder)

    return publish(Path(output), write)


def _compile(folder: Path, main: str, target: Target, toolchain: Toolchain) -> None:
    """Compile the source to a static library beside it."""
    source, made = folder / main, folder / "model.o"
    level = "-Os" if target.is_small else "-O2"
    command = [*toolchain.command, *_FLAGS, level, *toolchain.processor(target)]
    toolchain.run([(*command, "-c", str(source), "-o", str(made))], folder)
    toolchain.check_made(made)
    toolchain.run([(*toolchain.archiving(target, folder / STATIC), str(made))], folder)
    made.unlink()
    (folder / LOG).unlink(missing_ok=True)


def _describe(
    folder: Path,
    metadata: Mapping[str, Any],
    target: Target,
    made: Sequence[str],
    toolchain: Toolchain | None,
) -> None:
    """Write the description of a folder."""
    content = {
        **metadata,
        "abi": ABI,
        "target": target.name,
        "machine": target.architecture,
        "system": target.system_name if target.is_bare else SYSTEM,
        "cpu_features": [],
        "toolchain": "" if toolchain is None else toolchain.version,
        "files": {
            name: {"bytes": (folder / name).stat().st_size, "sha256": digest(folder / name)}
            for name in made
        },
    }
    (folder / METADATA).write_text(json.dumps(content, indent=1), "utf-8")
