"""Folders of compiled models: broken ones, what loading maps and shares, for how long."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.build.build import build
from infuse.errors import CompiledModelError, RuntimeFailure
from infuse.runtime import CompiledModel
from tests.native.adder import METADATA, WEIGHTS, build_adder, source
from tests.native.adder_fixtures import (
    cache,
    expected,
    folder,
    make,
    model,
    own_cache,
    replace_body,
    values,
)

__all__ = ["cache", "folder", "make", "model", "own_cache"]

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"


# ---------------------------------------------------------------- broken folders


def change(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


BREAKS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no folder": (lambda f: f.rename(f.parent / "elsewhere"), "the folder does not exist"),
    "no metadata": (lambda f: (f / "metadata.json").unlink(), "the folder is not a compiled model"),
    "no library": (lambda f: (f / "model.so").unlink(), r"model\.so: the file is missing"),
    "no weights": (lambda f: (f / "weights.bin").unlink(), r"weights\.bin: the file is missing"),
    "cut metadata": (lambda f: (f / "metadata.json").write_text('{"abi": 3,'), "cannot be read"),
    "binary metadata": (
        lambda f: (f / "metadata.json").write_bytes(b"\xff\xfe\0"),
        "cannot be read",
    ),
    "list as metadata": (lambda f: (f / "metadata.json").write_text("[]"), "not a JSON object"),
    "foreign interface": (
        lambda f: change(f / "metadata.json", lambda m: m.update(abi=99)),
        (
            "binary interface has number 99, and this release of Infuse speaks 3.*"
            "compile the model "
            "again"
        ),
    ),
    "no table of files": (
        lambda f: change(f / "metadata.json", lambda m: m.pop("files")),
        "table of files is missing",
    ),
    "a file less": (
        lambda f: change(f / "metadata.json", lambda m: m["files"].pop("weights.bin")),
        r"weights\.bin is not described",
    ),
    "cut library": (lambda f: os.truncate(f / "model.so", 5000), "has 5000 bytes instead of"),
    "cut weights": (lambda f: os.truncate(f / "weights.bin", 100), "has 100 bytes instead of 128"),
    "changed library": (
        lambda f: flip(f / "model.so", 3000),
        r"model\.so: the content is not what was compiled",
    ),
    "changed weights": (
        lambda f: flip(f / "weights.bin", 70),
        r"weights\.bin: the content is not what was compiled",
    ),
    "foreign processor": (
        lambda f: change(f / "metadata.json", lambda m: m["cpu_features"].append("avx9000")),
        "built for the target 'native', and this processor has no avx9000",
    ),
    "library of another model": (
        lambda f: change(f / "metadata.json", lambda m: m.update(weights_bytes=64)),
        "do not belong together: they differ in weights_bytes",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_broken_folder_is_refused(name: str, folder: Path) -> None:
    breaks, message = BREAKS[name]
    breaks(folder)
    with pytest.raises(CompiledModelError, match=message) as caught:
        CompiledModel.load(folder)
    assert str(folder) in str(caught.value)


def replace_library(folder: Path, content: bytes) -> None:
    """Put another library into the folder, and describe it as the right one."""
    from infuse.runtime.folder import describe_files, digest

    (folder / "model.so").unlink()
    (folder / "model.so").write_bytes(content)
    change(
        folder / "metadata.json",
        lambda m: m.update(files=describe_files(folder, digest(folder / "weights.bin"))),
    )


def test_library_that_is_none(folder: Path) -> None:
    replace_library(folder, b"\x7fELF is how it starts")
    with pytest.raises(CompiledModelError, match="the library cannot be loaded"):
        CompiledModel.load(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("infuse_shapes", "other_shapes", "has no function infuse_shapes"),
        ('{\\"abi\\": 3', '{\\"abi\\": 1', "binary interface has number 1"),
        ('{\\"abi\\": 3', "nothing", "metadata cannot be read"),
        ("float32", "float33", "tensor that cannot be read"),
        ('\\"shape\\": [\\"batch\\"', '\\"shape\\": [1.5', "tensor that cannot be read"),
        ('\\"shape\\": [\\"batch\\"', '\\"shape\\": [\\"os.exit()\\"', "is not an expression"),
    ],
)
def test_library_with_another_interface(
    old: str, new: str, message: str, folder: Path, tmp_path: Path
) -> None:
    text = source().replace(old, new)
    assert text != source()
    made = build({"model.cpp": text}, WEIGHTS, 128, METADATA, key="other")
    replace_library(folder, (made / "model.so").read_bytes())
    with pytest.raises(CompiledModelError, match=message):
        CompiledModel.load(folder)


def test_model_without_weights(tmp_path: Path) -> None:
    text = replace_body(source(), "infuse_run", "return 0;").replace("weights + 64", "weights")
    metadata = {**METADATA, "weights_bytes": 0}
    text = text.replace('\\"weights_bytes\\": 128', '\\"weights_bytes\\": 0')
    model = CompiledModel.load(build({"model.cpp": text}, [], 0, metadata, key="none"))
    assert model.weights_bytes == 0
    assert model(values(1), values(1)).shape == (1, 3)


# ---------------------------------------------------------------- life time


def mappings(folder: Path) -> list[str]:
    return [
        line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line
    ]


def test_weights_are_mapped_shared_and_read_only(tmp_path: Path) -> None:
    size = 1 << 21
    folder = build_adder(output=tmp_path / "large", weights_bytes=size, key="large")
    model = CompiledModel.load(folder, threads=1)
    assert model.weights_bytes == size
    (line,) = [line for line in mappings(folder) if "weights.bin" in line]
    assert line.split()[1] == "r--s"


def test_library_and_weights_are_unloaded_with_the_last_reference(folder: Path) -> None:
    model = CompiledModel.load(folder)
    session = model.session()
    del model
    gc.collect()
    assert session(values(1), values(1)).shape == (1, 3)
    assert mappings(folder)
    del session
    gc.collect()
    assert mappings(folder) == []


def test_closed_model_cannot_be_run(folder: Path) -> None:
    with CompiledModel.load(folder) as model:
        session = model.session()
        model(values(1), values(1))
    model.close()
    with pytest.raises(RuntimeFailure, match=r"adder: the model is closed.*load it again"):
        model(values(1), values(1))
    with pytest.raises(RuntimeFailure, match="the model is closed"):
        model.session()
    assert session(values(1), values(1)).shape == (1, 3), "a session of its own lives on"
    session.close()
    session.close()
    with pytest.raises(RuntimeFailure, match="the session is closed"):
        session(values(1), values(1))


def test_model_outlives_its_folder(model: CompiledModel, folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    np.testing.assert_array_equal(model(values(3), values(3)), expected(values(3), values(3)))


def test_calls_from_many_threads(model: CompiledModel) -> None:
    gate = threading.Barrier(8)

    def work(number: int) -> None:
        gate.wait()
        for i in range(200):
            x, y = values(1 + i % 5, number), values(1 + i % 5, i)
            np.testing.assert_array_equal(model.run({"x": x, "y": y})["sum"], expected(x, y))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert 1 <= len(model._idle) <= 8


def test_concurrent_calls_have_contexts_of_their_own(make: Callable[..., CompiledModel]) -> None:
    """Two calls meet inside the model: each waits until the other is there."""
    body = (
        "static int inside; __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);"
        "for (long i = 0; i < 20000000000; i++) if (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) >= "
        "2) {"
        "  *(int64_t*)outputs[0] = (int64_t)opened; return 0; } return 1;"
    )
    model = make(
        body=body,
        inputs=[],
        symbols=[],
        outputs=[{"name": "context", "dtype": "int64", "shape": []}],
    )
    with ThreadPoolExecutor(2) as pool:
        contexts = {int(future.result()) for future in [pool.submit(model), pool.submit(model)]}
    assert len(contexts) == 2
    assert len(model._idle) == 2


def test_child_after_fork_opens_its_own_context(folder: Path) -> None:
    program = f"""
import os, sys
import numpy as np
from infuse.runtime import CompiledModel
model = CompiledModel.load({str(folder)!r})
x = np.ones((1, 3), np.float32)
before = model(x, x)
context = model._idle[0]
child = os.fork()
if not child:
    assert model._idle == []
    same = (model(x, x) == before).all() and model._idle[0] is not context
    os._exit(0 if same else 1)
assert model._idle == [context]
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    assert (
        subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode
        == 0
    )


def test_the_interface_is_plain_c(folder: Path) -> None:
    """The library is usable without our runtime, as model.h says."""
    library = ctypes.CDLL(str(folder / "model.so"))
    library.infuse_open.restype = ctypes.c_void_p
    weights = np.fromfile(folder / "weights.bin", np.uint8)
    context = ctypes.c_void_p(library.infuse_open(ctypes.c_void_p(weights.ctypes.data), 1))
    x, result = values(2), np.zeros((2, 3), np.float32)
    table = (ctypes.c_void_p * 2)(x.ctypes.data, x.ctypes.data)
    outputs = (ctypes.c_void_p * 1)(result.ctypes.data)
    assert library.infuse_run(context, (ctypes.c_int64 * 1)(2), table, outputs) == 0
    np.testing.assert_array_equal(result, expected(x, x))
    library.infuse_close(context)
