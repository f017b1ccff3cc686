"""Files in memory: what others may cut off is copied, what is the user's own is shared; whole
weights are checked.
"""

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import infuse
from infuse.build.cache import Cache
from infuse.build.toolchain import Toolchain
from infuse.errors import CompiledModelError
from infuse.mapped import SMALL, contents, is_ours
from infuse.runtime import CompiledModel, checked
from tests.caches import new_cache
from tests.native.adder import build_adder
from tests.native.builder import Builder

pytestmark = [pytest.mark.row("R5"), pytest.mark.row("R1")]
ROOT = Path(__file__).resolve().parents[2]
SIDE = 640  # a weight of 1.6 MB


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_CACHE", new_cache(tmp_path / "cache"))
    monkeypatch.setenv("INFUSE_CHECK", "0")
    monkeypatch.setattr(checked, "_seen", {})


@pytest.mark.parametrize(
    ("size", "mode", "shared"),
    [
        (SMALL + 1, 0o644, True),
        (SMALL + 1, 0o664, False),
        (SMALL + 1, 0o646, False),
        (9, 0o600, False),
    ],
)
def test_what_others_may_write_is_copied_and_so_is_what_is_small(
    size: int, mode: int, shared: bool, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    data = os.urandom(size)
    path.write_bytes(data)
    path.chmod(mode)
    with path.open("rb") as file:
        assert is_ours(os.fstat(file.fileno())) is (mode in (0o644, 0o600))
        content = contents(file.fileno())
    assert bytes(content) == data
    with path.open("r+b") as file:
        file.write(bytes(byte ^ 255 for byte in data[:4]))
    assert (bytes(content[:4]) != data[:4]) is shared


def product() -> infuse.Graph:
    """x times a weight of 1.6 MB."""
    g = Builder()
    g.output(g("MatMul", g.input("n", SIDE), g.weight(SIDE, SIDE)))
    return g.graph


CODE = """
import os, sys
import numpy as np
import infuse
kind, path, cut = sys.argv[1:]
x = np.ones((2, 640), np.float32)
if kind == "compiled":
    from infuse.runtime import CompiledModel
    model = CompiledModel.load(path)
    os.truncate(cut, 0)
    print(float(model(x).sum()))
else:
    graph = infuse.load(path)
    os.truncate(cut, 0)
    better = infuse.optimize(graph)
    infuse.save(better, path + ".again.onnx")
    from infuse.ops.core.evaluate import evaluate
    print(float(evaluate(better, {graph.inputs[0].name: x})[better.output_names[0]].sum()))
"""


@pytest.mark.parametrize("kind", ["compiled", "infuse", "onnx", "external"])
def test_what_others_may_cut_off_ends_no_process(kind: str, tmp_path: Path) -> None:
    graph = product()
    (weight,) = (value.const for value in graph.constants())
    path, cut = tmp_path / f"m.{kind}", tmp_path / f"m.{kind}"
    if kind == "compiled":
        infuse.compile(graph, output=path).close()
        cut = path / "weights.bin"
    elif kind == "infuse":
        infuse.save(graph, path)
    else:
        path = cut = tmp_path / "m.onnx"
        infuse.save(graph, path)
        if kind == "external":
            cut = tmp_path / "m.data"
            onnx.save_model(
                onnx.load(path),
                path,
                save_as_external_data=True,
                location=cut.name,
                size_threshold=0,
            )
    assert cut.stat().st_size > SMALL
    cut.chmod(0o666)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", CODE, kind, str(path), str(cut)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    expected = 2 * np.asarray(weight, np.float64).sum()
    assert float(done.stdout) == pytest.approx(expected, rel=1e-3, abs=0.1)


def test_all_of_the_weights_are_checked_once_for_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    infuse.compile(product(), output=folder).close()
    weights = folder / "weights.bin"
    monkeypatch.setattr(checked, "_RACY_SECONDS", -1.0)
    CompiledModel.load(folder).close()
    assert list((tmp_path / "cache" / "checked").iterdir())
    for forget in (False, True):  # by this process, and by the next one
        if forget:
            monkeypatch.setattr(checked, "_seen", {})
        with monkeypatch.context() as patch:
            patch.setattr(checked.hashlib, "sha256", Small)
            assert checked.has_content(weights, infuse_sha(weights))
    status = weights.stat()
    data = bytearray(weights.read_bytes())
    data[SIDE * 1999] ^= 1  # a byte among 1.6 million, and the time set back
    weights.write_bytes(data)
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(
        CompiledModelError, match=r"weights\.bin: the content is not what was compiled"
    ):
        CompiledModel.load(folder)


def infuse_sha(weights: Path) -> str:
    return str(
        json.loads((weights.parent / "metadata.json").read_text())["files"]["weights.bin"]["sha256"]
    )


class Small:
    """SHA-256 of names, and of no file."""

    def __init__(self, data: bytes = b"") -> None:
        self._inner = hashlib.new("sha256", data)

    def update(self, data: bytes) -> None:
        raise AssertionError("the weights were read")

    def hexdigest(self) -> str:
        return self._inner.hexdigest()


def test_a_record_that_others_could_have_written_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked, "_RACY_SECONDS", -1.0)
    path = tmp_path / "file"
    path.write_bytes(b"content")
    sha256 = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    assert checked.has_content(path, sha256)
    assert checked._recalled(str(path)) is not None
    (tmp_path / "cache" / "checked").chmod(0o777)
    assert checked._recalled(str(path)) is None
    for record in (tmp_path / "cache" / "checked").iterdir():
        (tmp_path / "cache" / "checked").chmod(0o700)
        record.write_bytes(b"[")
    assert checked._recalled(str(path)) is None
    assert checked.has_content(path, sha256)


def test_what_this_process_has_written_is_not_read_again_while_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    checked.note_written(path, "told")
    assert checked.has_content(path, "told")
    assert not checked.has_content(path, "told", again=True)
    path.write_bytes(b"another content")
    assert not checked.has_content(path, "told")


def test_entries_of_the_cache_are_read_only_and_can_be_removed(tmp_path: Path) -> None:
    folder = build_adder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o500
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o444}
    copy = build_adder(output=tmp_path / "copy")
    assert os.access(copy / "weights.bin", os.W_OK)
    assert stat.S_IMODE((copy / "weights.bin").stat().st_mode) & 0o200
    Cache(limit=0).evict()
    assert not folder.exists()
    left = {path.name for path in (tmp_path / "cache" / "compiled").iterdir()}
    assert left == {".locks", ".sizes"}


def script(path: Path, real: tuple[str, ...], flags: str) -> Path:
    """A compiler that says of itself what another says, and is called with other flags."""
    path.write_text(f'#!/bin/sh\nexec {" ".join(real)} {flags} "$@"\n')
    path.chmod(0o755)
    return path


def test_compilers_that_call_themselves_the_same_share_no_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Toolchain.find().command
    folders = [build_adder()]
    for place, flags in (("one", ""), ("two", "-DX=1"), ("two", "-DX=2")):
        (tmp_path / place).mkdir(exist_ok=True)
        monkeypatch.setenv("CXX", str(script(tmp_path / place / "cxx", real, flags)))
        folders.append(build_adder())
        assert build_adder() == folders[-1]
    monkeypatch.setenv("CXX", f"{tmp_path / 'two' / 'cxx'} -DY=1")
    folders.append(build_adder())
    monkeypatch.setenv("CPATH", str(tmp_path))
    folders.append(build_adder())
    assert len(set(folders)) == len(folders)


@pytest.mark.parametrize(("racy", "reads"), [(-1.0, 2), (1e9, 3)])
def test_the_hash_of_a_file_is_remembered_while_it_stays_the_same(
    racy: float, reads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by other processes, but for one that was changed just before it was read."""
    count: list[None] = []
    real = hashlib.sha256

    def counted(*data: bytes) -> Any:
        count.extend([None] * (not data))
        return real(*data)

    monkeypatch.setattr(checked, "_RACY_SECONDS", racy)
    monkeypatch.setattr(hashlib, "sha256", counted)
    path = tmp_path / "file"
    path.write_bytes(b"first")
    times = path.stat().st_mtime_ns
    assert checked.sha256_of(path) == real(b"first").hexdigest()
    checked._seen.clear()
    assert checked.sha256_of(path) == real(b"first").hexdigest()
    path.write_bytes(b"other")
    os.utime(path, ns=(times, times))
    assert checked.sha256_of(path) == real(b"other").hexdigest()
    assert len(count) == reads
    assert checked.sha256_of(path, again=True) == real(b"other").hexdigest()
    assert len(count) == reads + 1
