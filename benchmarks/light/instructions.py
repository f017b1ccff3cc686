"""Instructions that one run of a compiled model takes on 64-bit ARM, counted under QEMU.

A count says nothing of time: loads that miss, and what runs side by side, do not show in it.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
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
    command = [*_system(), str(driver), *files]
    once, thrice = (counted(plugin, [*command, str(n)])[0] for n in (1, 3))
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
    if not shutil.which(COMPILER):
        raise NoCounts(f"{COMPILER} is not installed (apt install g++-aarch64-linux-gnu)")
    driver = folder / "run_model"
    _said([COMPILER, "-O1", str(HERE / "run_model.c"), "-o", str(driver), "-ldl"])
    return plugin_for([*_system(), str(driver)], folder), driver


def plugin_for(command: Sequence[str], folder: Path) -> Path:
    """The plugin that counts, for the interface that this QEMU has; `command`: something that it
    runs, after its own options.
    """
    if missing := [name for name in (EMULATOR, "cc") if not shutil.which(name)]:
        raise NoCounts(f"{', '.join(missing)} is not installed (apt install qemu-user gcc)")
    source, words, plugin = str(HERE / "count_instructions.c"), "", folder / "count.so"
    for version in VERSIONS:
        _said(["cc", "-O2", "-shared", "-fPIC", f"-DAPI={version}", source, "-o", str(plugin)])
        done = emulated(plugin, command)
        if "instructions " in done.stderr:
            return plugin
        words = done.stderr.strip()
    raise NoCounts(f"{EMULATOR} takes no plugin: {words}")


def counted(plugin: Path, command: Sequence[str]) -> tuple[int, str]:
    """Instructions of a command under the emulator, and what it printed."""
    done = emulated(plugin, command)
    found = re.search(r"^instructions (\d+)$", done.stderr, re.MULTILINE)
    if done.returncode or not found:
        raise NoCounts(f"status {done.returncode} of {EMULATOR}: {done.stderr.strip()[-500:]}")
    return int(found[1]), done.stdout


def emulated(plugin: Path, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """A command with what stands before it of the emulator's own options, run with a plugin."""
    words = [EMULATOR, "-plugin", str(plugin), *command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=3600)


@cache
def _system() -> tuple[str, ...]:
    """Where the emulator finds the C library."""
    library = Path(_said([COMPILER, "-print-file-name=libc.so.6"]).strip())
    return "-L", str(library.resolve().parents[1])


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCounts(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
