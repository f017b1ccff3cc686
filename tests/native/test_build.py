"""Building a compiled model: its key, weights, output folder, header, and what is left when it
fails.
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.build import build as build_module
from infuse.build.build import build
from infuse.build.cache import Cache
from infuse.build.toolchain import Toolchain
from infuse.errors import CompileError, OptionError
from infuse.runtime import CompiledModel
from tests.native.adder import METADATA, WEIGHTS, build_adder, source
from tests.native.cache_fixtures import ONES, SUM, left_over, root

__all__ = ["root"]


def test_weights_are_not_read_when_the_model_is_in_the_cache() -> None:
    def untouched() -> Iterator[Any]:
        raise AssertionError("the weights were read")
        yield

    folder = build_adder()
    assert build_adder(weights=untouched()) == folder


def test_everything_that_matters_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**options: Any) -> str:
        return build_adder(cache=Seen(), **options).name

    class Seen(Cache):
        def obtain(self, key: str, make: Any) -> Path:
            return Path(key)

    names = [
        key(),
        key(key="other weights"),
        key(target="x86-64"),
        key(sources={"model.cpp": source() + " "}),
    ]
    names.append(key(sources={"model.cpp": source(), "more.cpp": ""}))
    names.append(key(toolchain=Toolchain(("c++",), "gcc", "g++ 1.0")))
    monkeypatch.setattr(build_module, "kernels_hash", lambda: "other kernels")
    names.append(key())
    assert len(set(names)) == len(names)


def test_weights_file_has_zeros_between_the_arrays() -> None:
    arrays = [
        (64, np.array([1, 2], np.int16)),
        (128, np.array(3.0)),
        (192, np.zeros((0, 4))),
        (256, np.arange(8, dtype=np.int32).reshape(2, 4).T),
    ]
    content = (build_adder(weights=arrays, weights_bytes=512) / "weights.bin").read_bytes()
    expected = bytearray(512)
    expected[64:68] = b"\1\0\2\0"
    expected[128:136] = np.array(3.0).tobytes()
    expected[256:288] = np.array([0, 4, 1, 5, 2, 6, 3, 7], np.int32).tobytes()
    assert content == expected


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([64, 64], "overlap"), ([100], "multiple of 64"), ([128], "larger than was announced")],
)
def test_weights_that_make_no_sense(offsets: list[int], message: str, root: Path) -> None:
    with pytest.raises(AssertionError, match=message):
        build_adder(weights=[(offset, np.zeros(4)) for offset in offsets])
    assert left_over(root) == []


def test_rejected_source_stays_where_the_error_says(root: Path) -> None:
    with pytest.raises(CompileError) as caught:
        build_adder(sources={"model.cpp": "int main( {"})
    assert caught.value.where is not None
    path = Path(caught.value.where)
    assert path.parent.parent == root / "compiled"
    assert path.read_text() == "int main( {"
    assert "error" in (path.parent / "compiler.txt").read_text()
    assert not (path.parent / "weights.bin").exists()
    assert left_over(root) == []


def test_weights_stop_being_written_when_the_compiler_fails() -> None:
    def endless() -> Iterator[tuple[int, Any]]:
        for i in range(10**9):
            time.sleep(0.001)
            yield i * 64, np.zeros(16, np.float32)

    with pytest.raises(CompileError):
        build_adder(sources={"model.cpp": "no"}, weights=endless())


def test_failure_of_the_weights_is_passed_on(root: Path) -> None:
    def failing() -> Iterator[tuple[int, Any]]:
        yield WEIGHTS[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build_adder(weights=failing())
    assert left_over(root) == []


def test_output_is_a_copy_that_runs_elsewhere(tmp_path: Path, root: Path) -> None:
    before = os.umask(0o022)
    output = tmp_path / "a b" / "it's"
    assert build_adder(output=output) == output
    os.umask(before)
    assert sorted(path.name for path in output.iterdir()) == [
        *("CMakeLists.txt", "LICENSE", "SHA256SUMS", "example.c", "libmodel.a", "metadata.json"),
        *("model-config.cmake", "model.cpp", "model.h", "model.pc", "model.so", "weights.bin"),
    ]
    assert stat.S_IMODE(output.stat().st_mode) == 0o755, "others may run it"
    assert [path.name for path in output.parent.iterdir()] == ["it's"]
    for path in root.rglob("model.so"):
        path.unlink()
    np.testing.assert_array_equal(CompiledModel.load(output)(ONES, ONES), SUM)


def test_output_replaces_an_older_model_but_nothing_else(tmp_path: Path) -> None:
    output = tmp_path / "model"
    output.mkdir()
    build_adder(output=output)
    (output / "old").write_text("")
    build_adder(output=output)
    assert not (output / "old").exists()
    (tmp_path / "note").mkdir()
    (tmp_path / "note" / "text").write_text("mine")
    for name in ("note", "note/text"):
        with pytest.raises(OptionError, match="the output is"):
            build_adder(output=tmp_path / name)
    assert (tmp_path / "note" / "text").read_text() == "mine"


def test_older_model_stays_when_the_new_one_cannot_be_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = build_adder(output=tmp_path / "model")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(errno.EIO, "broken disk")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OptionError, match="broken disk"):
        build_adder(output=output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "model"]
    np.testing.assert_array_equal(CompiledModel.load(output)(ONES, ONES), SUM)


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot be written"):
        build_adder(output=tmp_path / "file" / "model")


def test_header_is_c_and_lists_the_tensors(tmp_path: Path) -> None:
    hostile = {
        **METADATA,
        "inputs": [{"name": "*/ int evil; /*", "dtype": "float32", "shape": ["batch", "seq + 1"]}],
        "symbols": ["batch", "seq", "*/ evil"],
    }
    folder = build({"model.cpp": source()}, WEIGHTS, 128, hostile, key="adder")
    text = (folder / "model.h").read_text()
    assert "inputs[0]: __ int evil_ __, float32[batch][seq + 1]" in text
    assert "@" not in text
    program = tmp_path / "main.c"
    program.write_text(f'#include "{folder / "model.h"}"\nint main(void) {{ return INFUSE_OK; }}\n')
    command = [
        *Toolchain.find().command,
        "-x",
        "c",
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
    ]
    subprocess.run([*command, "-c", str(program), "-o", str(tmp_path / "main.o")], check=True)


def test_interrupt_between_the_two_halves_of_a_build(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_module, "write_metadata", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_adder()
    assert [path.name for path in (root / "compiled").iterdir()] == [".locks"]


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt
