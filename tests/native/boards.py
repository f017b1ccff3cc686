"""Models for microcontrollers, linked with a driver and run on boards that QEMU stands in for."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from infuse.runtime.folder import STATIC
from infuse.runtime.foreign import ForeignModel
from tests.native.foreign import answered, requested

_HERE: Final = Path(__file__).parent
_PACKAGES: Final = {
    "arm-none-eabi-gcc": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "qemu-system-arm": "qemu-system-arm",
    "riscv64-unknown-elf-gcc": "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
    "qemu-system-riscv32": "qemu-system-misc",
}
"""Where tools come from."""


class Board(NamedTuple):
    """A machine of QEMU, where its code and its data lie, and what GCC is told of its processor.

    `options`: what else the emulator is told.
    """

    machine: str
    code: int
    data: int
    size: int
    flags: tuple[str, ...]
    gcc: str = "arm-none-eabi-gcc"
    qemu: str = "qemu-system-arm"
    options: tuple[str, ...] = ()


_DDR: Final = 0x60000000
_RV32: Final = ("-march=rv32imac", "-mabi=ilp32")
BOARDS: Final = {
    # Code for a Cortex-M0 runs on a Cortex-M3, which has all of its instructions.
    "cortex-m0": Board("mps2-an385", 0, 0x21000000, 1 << 24, ("-mcpu=cortex-m0", "-mthumb")),
    "cortex-m4": Board(
        "mps2-an386",
        0,
        0x21000000,
        1 << 24,
        ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
    ),
    "cortex-m7": Board(
        "mps2-an500",
        0,
        0x60000000,
        1 << 24,
        ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"),
    ),
    "cortex-m55": Board(
        "mps3-an547",
        _DDR,
        _DDR + (1 << 24),
        1 << 26,
        ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
    ),
    "riscv32": Board(
        "virt",
        0x80000000,
        0x81000000,
        1 << 26,
        (*_RV32, "--specs=picolibc.specs", "--oslib=semihost", "--crt0=hosted"),
        "riscv64-unknown-elf-gcc",
        "qemu-system-riscv32",
        ("-bios", "none", "-m", "128M"),
    ),
}
_SCRIPT: Final = """ENTRY(reset)
SECTIONS {{
  .vectors 0 : {{ KEEP(*(.vectors)) }}
  . = MAX({code}, 64);
  .text : {{ *(.text*) *(.rodata*) KEEP(*(.init)) KEEP(*(.fini)) }}
  .ARM.exidx : {{ __exidx_start = .; *(.ARM.exidx*) __exidx_end = .; }}
  .eh_frame : {{ *(.eh_frame*) }}
  .init_array : {{
    __preinit_array_start = .; KEEP(*(.preinit_array)) __preinit_array_end = .;
    __init_array_start = .; KEEP(*(.init_array*)) __init_array_end = .;
    __fini_array_start = .; KEEP(*(.fini_array*)) __fini_array_end = .;
  }}
  . = {data};
  .data : {{ *(.data*) }}
  .bss : {{ __bss_start__ = .; *(.bss*) *(COMMON) __bss_end__ = .; }}
  end = .; _end = .; __end__ = .;
  . = {data} + {size};
  stack_top = .;
}}
"""


def boards(*names: str) -> pytest.MarkDecorator:
    """Parameters: the targets that this machine compiles for and emulates; others are skipped, with
    what is missing.
    """
    return pytest.mark.parametrize("target", [_parameter(name) for name in names or BOARDS])


def _parameter(name: str) -> Any:
    tools = BOARDS[name].gcc, BOARDS[name].qemu
    lacking = [f"apt install {_PACKAGES[tool]}" for tool in tools if not shutil.which(tool)]
    reason = f"not tested on {name}: {', '.join(lacking)}"
    return pytest.param(name, marks=pytest.mark.skipif(bool(lacking), reason=reason))


def run_on_board(
    target: str, model: ForeignModel, feeds: Mapping[str, Any], folder: Path
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a model for these inputs, computed on a board; ForeignFailure with the words
    of the model where it fails.
    """
    board = BOARDS[target]
    link(board, model.folder, folder)
    (folder / "request").write_bytes(requested(model, feeds, 1))
    told = ["-nographic", "-monitor", "none", "-serial", "none", *board.options]
    told += ["-semihosting-config", "enable=on,target=native", "-kernel", "driver.elf"]
    command = [board.qemu, "-M", board.machine, *told]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, f"the emulator ended with {done.returncode}: {done.stderr!r}"
    return answered(model, (folder / "answer").read_bytes())


def link(board: Board, model: Path, folder: Path) -> None:
    """The program `driver.elf` for a board, of the driver and a model."""
    flags = [board.gcc, *board.flags, "-O1"]
    if board.gcc.startswith("arm"):
        script = folder / "board.ld"
        script.write_text(_SCRIPT.format(code=board.code, data=board.data, size=board.size))
        flags.append("--specs=rdimon.specs")
        linking = [str(_HERE / "bare_start.c"), f"-T{script}", "-Wl,--no-warn-rwx-segments"]
    else:
        places = {"flash": board.code, "flash_size": board.data - board.code, "ram": board.data}
        places |= {"ram_size": board.size, "stack_size": 1 << 16}
        linking = [f"-Wl,--defsym=__{name}={value}" for name, value in places.items()]
    driver, made = folder / "driver.o", folder / "driver.elf"
    source = str(_HERE / "platform_driver.c")
    _run([*flags, f"-I{model}", "-Dmain=driver", "-c", source, "-o", str(driver)])
    parts = [str(driver), str(_HERE / "bare_arguments.c"), str(model / STATIC)]
    _run([*flags, *parts, *linking, "-o", str(made)])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-3000:]
