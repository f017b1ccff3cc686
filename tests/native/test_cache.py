"""The cache of compiled models: who may use it, damage, full disks, processes at once, eviction."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.build import bounded
from infuse.build.cache import Cache
from infuse.errors import CacheError, OptionError
from infuse.runtime import CompiledModel
from infuse.runtime.folder import ABI, describe_files, digest
from tests.native.adder import WEIGHTS, build_adder
from tests.native.cache_fixtures import ONES, SUM, left_over, root

__all__ = ["root"]

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system of limited size")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


class Maker:
    """Fills cache folders with a small pretended model, and counts how often."""

    def __init__(self, size: int = 100) -> None:
        self.size = size
        self.calls = 0

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "model.so").write_bytes(b"library")
        (folder / "weights.bin").write_bytes(bytes(self.size))
        files = str(describe_files(folder, digest(folder / "weights.bin"))).replace("'", '"')
        (folder / "metadata.json").write_text(f'{{"abi": {ABI}, "files": {files}}}')


def test_what_was_made_is_found_again() -> None:
    make = Maker()
    first = Cache().obtain("key", make)
    os.utime(first, (1, 1))
    assert Cache().obtain("key", make) == first
    assert make.calls == 1
    assert first.stat().st_mtime > 1, "finding a model is a use of it"
    assert Cache().obtain("other", make) != first
    assert make.calls == 2


def test_folders_are_made_for_the_user_alone(root: Path) -> None:
    before = os.umask(0)
    try:
        Cache().obtain("key", Maker())
    finally:
        os.umask(before)
    for folder in (root, root / "compiled"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "compiled" / "key").stat().st_mode) == 0o500


def test_default_is_the_cache_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("INFUSE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert Cache().root == tmp_path / "xdg" / "infuse"
    assert Cache().limit == 10**10


@pytest.mark.parametrize("mode", [0o770, 0o707])
@pytest.mark.parametrize("level", ["", "compiled"])
def test_cache_that_others_may_write_to_is_refused(mode: int, level: str, root: Path) -> None:
    make = Maker()
    Cache().obtain("key", make)
    (root / level).chmod(mode)
    with pytest.raises(CacheError, match=r"others may write to the cache.*chmod go-w"):
        Cache().obtain("key", make)


def test_cache_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    Cache().obtain("key", Maker())
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(CacheError, match=r"belongs to another user.*INFUSE_CACHE"):
        Cache().obtain("key", Maker())


@pytest.mark.parametrize("name", ["model.so", "weights.bin", "metadata.json"])
@pytest.mark.parametrize("damage", ["removed", "truncated", "changed"])
def test_damaged_entry_is_made_again(name: str, damage: str, root: Path) -> None:
    make = Maker()
    path = Cache().obtain("key", make) / name
    content = path.read_bytes()
    if damage == "removed":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-1])
    else:
        path.write_bytes(b"\xff" + content[1:])
    Cache().obtain("key", make)
    assert make.calls == 2
    assert path.read_bytes() == content
    assert left_over(root) == []


def test_a_change_of_one_byte_of_the_weights_is_noticed() -> None:
    folder = build_adder(weights=[(64, np.zeros(10**6, np.float32))], **big())
    path = folder / "weights.bin"
    content = bytearray(path.read_bytes())
    content[100_000] = 1
    path.write_bytes(content)
    build_adder(weights=[(64, np.zeros(10**6, np.float32))], **big())
    assert path.read_bytes()[100_000] == 0


def big() -> dict[str, Any]:
    return {"weights_bytes": 64 + 4 * 10**6}


def test_full_disk_is_named(root: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "half").write_bytes(b"1")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CacheError, match=r"compiled: the disk of the cache is full.*INFUSE_CACHE"):
        Cache().obtain("key", make)
    assert left_over(root) == []
    assert not (root / "compiled" / "key").exists()


@pytest.mark.parametrize("left", [0, 1, 2, 3, 4, 8, 64])
def test_really_full_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    """Space ends while the sources, the compiler's output or the weights are written."""
    monkeypatch.setenv("INFUSE_CACHE", str(small_disk / "cache"))
    Cache().obtain("key", Maker())
    disk = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(disk.f_bavail - left) * disk.f_frsize)
    weights = [(0, np.zeros(10**6, np.float32))] if left == 64 else WEIGHTS
    with pytest.raises(CacheError, match=r"disk.* full"):
        build_adder(weights=weights, weights_bytes=4 * 10**6 if left == 64 else 128)
    assert left_over(small_disk / "cache") == []
    (small_disk / "filler").unlink()
    np.testing.assert_array_equal(CompiledModel.load(build_adder())(ONES, ONES), SUM)


def test_read_only_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in a read-only cache is used; what is not is compiled elsewhere, with a warning."""
    monkeypatch.setenv("INFUSE_CACHE", str(small_disk / "cache"))
    kept = build_adder()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert build_adder() == kept
    with pytest.warns(UserWarning, match="cannot be written, so the model is compiled into"):
        elsewhere = build_adder(key="another")
    np.testing.assert_array_equal(CompiledModel.load(elsewhere)(ONES, ONES), SUM)


@pytest.mark.parametrize(
    "place", ["file", "file/deeper", "missing/../file/deeper/still", "/proc/infuse"]
)
def test_cache_that_cannot_be_written_is_replaced_by_a_private_folder(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths below a file and below /proc cannot be written by anybody, not even by the
    superuser.
    """
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INFUSE_CACHE", str(tmp_path / place))
    with pytest.warns(
        UserWarning, match=r"cannot be written.*set INFUSE_CACHE to a folder of your own"
    ):
        folder = build_adder()
    np.testing.assert_array_equal(CompiledModel.load(folder)(ONES, ONES), SUM)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_private_folder_is_removed_when_the_process_ends(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    program = (
        "import warnings; warnings.simplefilter('ignore')\nfrom tests.native.adder import "
        "build_adder"
    )
    environment = {**os.environ, "INFUSE_CACHE": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    output = python(f"{program}\nprint(build_adder())", environment).stdout
    assert Path(output.strip()).parent == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def python(program: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )


WAITING = """
import sys, time
from pathlib import Path
from infuse.build.cache import Cache
from tests.native.test_cache import Maker
def make(folder):
    with open(sys.argv[1], "a") as file:
        file.write("made\\n")
    time.sleep(float(sys.argv[2]))
    Maker()(folder)
print(Cache().obtain("key", make))
"""


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WAITING, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_processes_at_once_make_it_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    children = [start(log, 0.5) for _ in range(2)]
    outputs = {child.communicate(timeout=60)[0].strip() for child in children}
    assert outputs == {str(tmp_path / "cache" / "compiled" / "key")}
    assert log.read_text() == "made\n"


def test_lock_of_a_killed_process_is_free(tmp_path: Path, root: Path) -> None:
    log = tmp_path / "log"
    child = start(log, 600)
    wait_for(log)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    make = Maker()
    Cache().obtain("key", make)
    assert make.calls == 1
    assert len(left_over(root)) == 1, "what the killed process left stays for a day"


def test_two_real_compilations_at_once(tmp_path: Path) -> None:
    program = "from tests.native.adder import build_adder; print(build_adder())"
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    children = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    first, second = (child.communicate(timeout=60)[0].strip() for child in children)
    assert first == second
    np.testing.assert_array_equal(CompiledModel.load(first)(ONES, ONES), SUM)


@pytest.mark.parametrize("exception", [KeyboardInterrupt, RuntimeError, MemoryError])
def test_failure_while_making_leaves_nothing(exception: type[BaseException], root: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "half").write_text("")
        raise exception

    with pytest.raises(exception):
        Cache().obtain("key", make)
    assert [path.name for path in (root / "compiled").iterdir()] == [".locks"]


def test_oldest_are_evicted_but_never_the_one_in_use(root: Path) -> None:
    make = Maker(size=1000)
    cache = Cache(limit=3600)
    for i in range(3):
        os.utime(cache.obtain(f"key{i}", make), (i + 1, i + 1))
    os.utime(cache.obtain("key0", make), (10, 10))
    cache.obtain("key3", make)
    assert sorted(path.name for path in (root / "compiled").glob("key*")) == ["key0", "key3"]
    Cache(limit=0).obtain("key4", make)
    assert sorted(path.name for path in (root / "compiled").glob("key*")) == ["key4"]
    assert left_over(root) == []


def test_no_folder_but_the_new_one_is_looked_at(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(limit=10**6)
    cache.obtain("first", Maker(size=1000))
    seen: list[str] = []
    bytes_of = bounded._bytes_of
    monkeypatch.setattr(
        bounded, "_bytes_of", lambda folder: seen.append(folder.name) or bytes_of(folder)
    )
    for i in range(5):
        cache.obtain(f"key{i}", Maker(size=1000))
    assert seen == [f"key{i}" for i in range(5)]
    counted, *sizes = map(int, (root / "compiled" / ".sizes").read_text().split())
    assert abs(counted - time.time()) < 600
    assert sum(sizes) == sum(map(bytes_of, (root / "compiled").glob("[fk]*")))


@pytest.mark.parametrize("text", ["", "0\n5\n", "nonsense", "\0", "9" * 5000, None])
def test_folders_are_counted_again_where_the_sum_is_old_or_damaged(
    text: str | None, root: Path
) -> None:
    cache = Cache(limit=3600)
    for i in range(2):
        os.utime(cache.obtain(f"key{i}", Maker(size=1000)), (i + 1, i + 1))
    sizes = root / "compiled" / ".sizes"
    sizes.unlink() if text is None else sizes.write_text(text)
    for i in range(2, 5):
        os.utime(cache.obtain(f"key{i}", Maker(size=1000)), (i + 1, i + 1))
    assert sorted(path.name for path in (root / "compiled").glob("key*")) == ["key3", "key4"]


def test_abandoned_folders_are_removed_after_a_day(root: Path) -> None:
    cache = Cache()
    cache.obtain("key", Maker())
    for name, age in (("young", 3600), ("old", 3 * 86400)):
        folder = root / "compiled" / f".new-{name}"
        folder.mkdir()
        (folder / "model.so").write_text("")
        os.utime(folder, (time.time() - age, time.time() - age))
    (root / "compiled" / ".sizes").write_text(f"{time.time() - 4000:.0f}\n10\n")
    cache.obtain("another", Maker())
    assert left_over(root) == [".new-young"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 10**10),
        ("5000", 5000),
        ("20GB", 20 * 10**9),
        ("1.5m", 1_500_000),
        ("2T", 2 * 10**12),
        ("0", 0),
    ],
)
def test_size_limit(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_CACHE_SIZE", text)
    assert Cache().limit == size


@pytest.mark.parametrize("text", ["much", "10XB", "GB", "1 0", "nan", "inf"])
def test_size_limit_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_CACHE_SIZE", text)
    with pytest.raises(OptionError, match=r"INFUSE_CACHE_SIZE.*for example"):
        Cache()


def test_entry_that_vanishes_during_eviction_is_no_error(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    cache = Cache(limit=0)
    cache.obtain("key", Maker())
    gone = root / "compiled" / "gone"
    monkeypatch.setattr(bounded, "_folders", lambda parent: [gone, root / "compiled" / "key"])
    cache.evict()
    assert not (root / "compiled" / "key").exists()
