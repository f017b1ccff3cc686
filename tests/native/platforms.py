"""Models compiled for other platforms, linked with a driver and run by what stands in for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from infuse import dtypes
from infuse.build.toolchain import ziglang
from infuse.runtime.folder import STATIC, WEIGHTS
from infuse.runtime.foreign import ForeignModel
from infuse.targets import Target
from infuse.targets.text.javascript import ARRAYS
from tests.native.foreign import ForeignFailure, answered, requested

_DRIVER: Final = Path(__file__).with_name("platform_driver.c")
_MODULE: Final = Path(__file__).with_name("run_module.mjs")
"""What runs a model with threads: programs of WASI have none."""
_WASI: Final = Path(__file__).with_name("run_wasi.mjs")


class Emulator(NamedTuple):
    """What runs programs of a platform. `command`: what stands before one; `package`: where its
    first word comes from.
    """

    command: tuple[str, ...]
    package: str

    @property
    def words(self) -> tuple[str, ...]:
        """The command with the path of its program; empty where this machine lacks it."""
        path = shutil.which(self.command[0], path=f"{os.environ['PATH']}:/usr/lib/wine")
        return (path, *self.command[1:]) if path else ()


@lru_cache
def _v8_options() -> str:
    """What Node.js says of the options of V8; nothing without it."""
    node = shutil.which("node")
    words = [node or "node", "--v8-options"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout if node else ""


def _flags(*names: str) -> tuple[str, ...]:
    """Those of these flags that Node.js has."""
    return tuple(f for f in names if f.removeprefix("--no-").removeprefix("--") in _v8_options())


def relaxed_flags() -> tuple[str, ...]:
    """What Node.js takes for relaxed SIMD: releases before 21 have it behind a flag."""
    return _flags("--experimental-wasm-relaxed-simd")


_NODE: Final = ("node", "--no-warnings")
# Node.js 20 writes beside the memory when optimized code calls WASI directly, and crashes later.
_SAFE: Final = _flags("--no-turbo-fast-api-calls")
_RISCV: Final = ("qemu-riscv64", "-cpu")
EMULATORS: Final = {
    "linux-x86_64-v3-musl": Emulator((), ""),
    "linux-arm64-musl": Emulator(("qemu-aarch64",), "qemu-user"),
    "linux-armv7-musl": Emulator(("qemu-arm",), "qemu-user"),
    "linux-riscv64-musl": Emulator(("qemu-riscv64",), "qemu-user"),
    "linux-riscv64-v-musl": Emulator(
        (*_RISCV, "rv64,v=true,vlen=128,elen=64,vext_spec=v1.0"), "qemu-user"
    ),
    "linux-riscv64-v-musl+zvl256b": Emulator(
        (*_RISCV, "rv64,v=true,vlen=256,elen=64,vext_spec=v1.0"), "qemu-user"
    ),
    "windows-x86_64-v3": Emulator(("wine64",), "wine64"),
    "wasm32": Emulator((*_NODE, *_SAFE, str(_WASI)), "nodejs"),
    "wasm32+relaxed_simd": Emulator((*_NODE, *_SAFE, *relaxed_flags(), str(_WASI)), "nodejs"),
    "wasm32-threads": Emulator((*_NODE, str(_MODULE)), "nodejs"),
}
"""By the name of a target, whose programs need nothing else."""
QUICK: Final = ("linux-armv7-musl", "wasm32")
"""Those of `make test`: two where addresses have 32 bits. Zig makes a C library for each."""


def platforms(*names: str) -> pytest.MarkDecorator:
    """Parameters: the platforms that this machine compiles for and runs; others are skipped, with
    what is missing.
    """
    return pytest.mark.parametrize("target", [_parameter(name) for name in names or EMULATORS])


def _parameter(name: str) -> Any:
    emulator = EMULATORS[name]
    lacking = [] if ziglang() else ["pip install ziglang"]
    if emulator.command and not emulator.words:
        lacking.append(f"apt install {emulator.package}")
    reason = f"not tested on {name}: {', '.join(lacking)}"
    full = [] if name in QUICK else [pytest.mark.full]
    return pytest.param(name, marks=[*full, pytest.mark.skipif(bool(lacking), reason=reason)])


def run_on(
    target: str, model: ForeignModel, feeds: Mapping[str, Any], folder: Path, threads: int = 2
) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of a model for these inputs, computed on a platform; ForeignFailure with the
    words of the model where it fails.
    """
    if target == "wasm32-threads":
        return _run_module(model, feeds, folder, threads)
    program = _program(target, model.folder, folder)
    request, answer = folder / "request", folder / "answer"
    request.write_bytes(requested(model, feeds, threads))
    files = [program, model.folder / WEIGHTS, request, answer]
    emulator = EMULATORS[target]
    command = (*(emulator.words if emulator.command else ()), *map(str, files))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}"
    return answered(model, answer.read_bytes())


def _run_module(
    model: ForeignModel, feeds: Mapping[str, Any], folder: Path, threads: int
) -> dict[str, np.ndarray[Any, Any]]:
    """The same by the module of the package."""
    inputs = {name: as_tensor(np.asarray(x)) for name, x in feeds.items() if x is not None}
    request = folder / "request.json"
    call = {"symbols": {}, "inputs": inputs}
    request.write_text(json.dumps({"calls": [call], "load": {"threads": threads}}))
    words = (*EMULATORS["wasm32-threads"].words, str(model.folder / "model.mjs"), str(request))
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    answer = answer if "error" in answer else answer["answers"][0]
    if "error" in answer:
        raise ForeignFailure(answer["error"])
    return {name: as_array(output) for name, output in answer.items()}


def as_tensor(array: np.ndarray[Any, Any], shaped: bool = True) -> dict[str, Any]:
    """An array as run_module.mjs reads it; without a shape, if its length is to tell that."""
    dtype = dtypes.by_numpy(array.dtype)
    bits = {"bool": np.uint8, "float16": np.uint16, "bfloat16": np.uint16}.get(dtype.name)
    numbers = array.view(bits) if bits else array
    data = [str(number).replace("inf", "Infinity") for number in numbers.ravel().tolist()]
    shape = {"shape": list(array.shape)} if shaped else {}
    return {"type": ARRAYS[dtype.name], "data": data, **shape}


def as_array(output: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """An array that run_module.mjs has written."""
    kind = dtypes.by_name(output["dtype"]).numpy
    is_float = ARRAYS[output["dtype"]].startswith("Float")
    numbers = [float(n) if is_float else int(n) for n in output["data"]]
    if is_float:
        return np.array(numbers, kind).reshape(output["shape"])
    stored = np.array(numbers, f"u{kind.itemsize}" if kind.kind not in "iu" else kind)
    return stored.view(kind).reshape(output["shape"])


def _program(target: str, model: Path, folder: Path) -> Path:
    """The driver, linked with a model."""
    resolved, zig = Target.resolve(target), ziglang()
    ends = {"windows": ".exe", "wasm": ".wasm"}.get(resolved.system.name, "")
    program = folder / f"driver{ends}"
    system = resolved.triple.format(libc="musl")
    flags = ["-target", system, "-O1", "-Wall", "-Werror", f"-I{model}"]
    command = [str(zig), "cc", *flags, str(_DRIVER), str(model / STATIC), "-o", str(program)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not made.returncode, made.stderr[-3000:]
    return program
