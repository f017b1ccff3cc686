"""Instructions that one run of a compiled model takes on 64-bit ARM, counted under QEMU.

A count says nothing of time: loads that miss, and what runs side by side, do not show in it.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from infuse.runtime.folder import LIBRARY, WEIGHTS
from infuse.runtime.foreign import ForeignModel

TARGET = "aarch64"
EMULATOR, COMPILER = "qemu-aarch64", "aarch64-linux-gnu-gcc"
HERE = Path(__file__).parent
VERSIONS = range(1, 9)
"""Of the interface of QEMU's plugins that are tried."""


class NoCounts(RuntimeError):
    """Instructions cannot be counted on this machine, and why."""


def count(model: ForeignModel, folder: Path) -> int:
    """Instructions of one run in one thread, after the first; `folder` is for what is built.

    NoCounts where the machine lacks what it takes, or the model failed.
    """
    (source,), (result,) = model.inputs, model.outputs
    sizes = [spec.dtype.itemsize * _elements(spec.shape) for spec in (source, result)]
    files = [str(model.folder / LIBRARY), str(model.folder / WEIGHTS), *map(str, sizes)]
    plugin, driver = built(folder)
    once, thrice = (_instructions(plugin, [str(driver), *files, str(n)]) for n in (1, 3))
    return (thrice - once) // 2


def _elements(shape: tuple[object, ...]) -> int:
    assert all(isinstance(size, int) for size in shape), "a size is symbolic"
    return int(np.prod(shape, dtype=np.int64))


def versions() -> Mapping[str, str]:
    """The first lines of what emulator and compiler say of their versions."""
    return {name: _said([name, "--version"]).splitlines()[0] for name in (EMULATOR, COMPILER)}


@cache
def built(folder: Path) -> tuple[Path, Path]:
    """The plugin, for the interface that this QEMU has, and the program that runs a model."""
    if missing := [name for name in (EMULATOR, COMPILER, "cc") if not shutil.which(name)]:
        raise NoCounts(
            f"{', '.join(missing)} is not installed (apt install qemu-user g++-aarch64-linux-gnu)"
        )
    driver, plugin = folder / "run_model", folder / "count.so"
    _said([COMPILER, "-O1", str(HERE / "run_model.c"), "-o", str(driver), "-ldl"])
    source, words = str(HERE / "count_instructions.c"), ""
    for version in VERSIONS:
        _said(["cc", "-O2", "-shared", "-fPIC", f"-DAPI={version}", source, "-o", str(plugin)])
        done = _emulated(plugin, [str(driver)])
        if "instructions " in done.stderr:
            return plugin, driver
        words = done.stderr.strip()
    raise NoCounts(f"{EMULATOR} takes no plugin: {words}")


def _instructions(plugin: Path, command: list[str]) -> int:
    done = _emulated(plugin, command)
    found = re.search(r"^instructions (\d+)$", done.stderr, re.MULTILINE)
    if done.returncode or not found:
        raise NoCounts(f"status {done.returncode} of {EMULATOR}: {done.stderr.strip()[-500:]}")
    return int(found[1])


def _emulated(plugin: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    words = [EMULATOR, "-L", _system(), "-plugin", str(plugin), *command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=1800)


@cache
def _system() -> str:
    """The folder in which the emulator finds the C library."""
    return str(Path(_said([COMPILER, "-print-file-name=libc.so.6"]).strip()).resolve().parents[1])


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCounts(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
