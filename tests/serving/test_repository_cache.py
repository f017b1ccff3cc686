"""Contents by their hashes: kept, checked, shared, removed; and what a full disk leaves behind."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from infuse.errors import RepositoryError
from infuse.serving.control.repository.cache import Cache

pytestmark = pytest.mark.row("S2")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def never() -> Iterator[bytes]:
    pytest.fail("it was read although it is in the cache")
    yield b""


def leftovers(cache: Cache) -> list[str]:
    """Files that are neither contents, nor entries, nor folders in use."""
    return [str(path) for path in (cache.disk.root / "new").iterdir()]


def blobs(cache: Cache) -> set[str]:
    return {path.name for path in cache.disk.root.glob("blobs/*/*")}


def test_a_content_is_kept_by_its_hash_and_found_by_its_key(cache: Cache) -> None:
    assert cache.contents.find("key") == ""
    digest = cache.contents.obtain("key", 6, [b"abc", b"def"])
    assert digest == sha(b"abcdef")
    assert cache.contents.obtain("key", 6, never()) == digest
    assert Cache(cache.disk.root).contents.obtain("key", 6, never()) == digest
    assert blobs(cache) == {digest}
    assert not leftovers(cache)


def test_what_must_not_be_remembered_is_read_each_time(cache: Cache) -> None:
    first = cache.contents.obtain("key", 1, [b"a"], remember=False)
    second = cache.contents.obtain("key", 1, [b"b"], remember=False)
    assert first != second
    assert cache.contents.find("key") == ""


@pytest.mark.parametrize("content", [b"abc", b"abcdefgh", b""])
def test_a_content_of_another_size_is_not_kept(content: bytes, cache: Cache) -> None:
    with pytest.raises(RepositoryError, match=f"{len(content)} bytes where 6"):
        cache.contents.obtain("key", 6, [content])
    assert not blobs(cache)
    assert not leftovers(cache)
    assert cache.contents.obtain("key", 6, [b"abcdef"]) == sha(b"abcdef")


@pytest.mark.parametrize("damage", [b"abcdeX", b"abc"])
def test_a_damaged_content_is_found_and_read_again(damage: bytes, cache: Cache) -> None:
    digest = cache.contents.obtain("key", 6, [b"abcdef"])
    folder, name = cache.assemble({"f": digest})
    blob = cache.disk.root / "blobs" / digest[:2] / digest
    blob.chmod(0o600)
    blob.write_bytes(damage)  # the same inode, and so the folder's file as well
    fresh = Cache(cache.disk.root)
    assert fresh.contents.obtain("key", 6, [b"abcdef"]) == digest
    assert fresh.assemble({"f": digest}) == (folder, name)
    assert (folder / "f").read_bytes() == b"abcdef"
    assert not leftovers(cache)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"sha256": 1, "bytes": "x"}', b"\xff"])
def test_a_damaged_entry_is_read_again(damage: bytes, cache: Cache) -> None:
    digest = cache.contents.obtain("key", 3, [b"abc"])
    (entry,) = (cache.disk.root / "index").iterdir()
    entry.write_bytes(damage)
    assert cache.contents.find("key") == ""
    assert cache.contents.obtain("key", 3, [b"abc"]) == digest
    assert cache.contents.find("key") == digest


def test_a_folder_is_made_of_contents_and_nobody_can_write_to_them(cache: Cache) -> None:
    digest = cache.contents.add(b"weights")
    folder, name = cache.assemble({"a/b.bin": digest, "c.bin": digest})
    assert folder.name == name
    assert (folder / "a/b.bin").read_bytes() == b"weights"
    assert (folder / "c.bin").stat().st_mode & 0o222 == 0
    assert (folder / "a/b.bin").samefile(folder / "c.bin")
    assert Cache(cache.disk.root).assemble({"c.bin": digest, "a/b.bin": digest}) == (folder, name)
    assert cache.assemble({"c.bin": digest})[0] != folder


def test_a_file_that_went_from_a_folder_is_put_back(cache: Cache) -> None:
    digest = cache.contents.add(b"weights")
    folder, _ = cache.assemble({"a": digest, "b": digest})
    (folder / "a").unlink()
    cache.assemble({"a": digest, "b": digest})
    assert (folder / "a").read_bytes() == b"weights"


def test_where_files_cannot_be_linked_they_are_copied(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    digest = cache.contents.add(b"weights")
    for _ in range(2):
        folder, _ = cache.assemble({"a": digest})
        assert (folder / "a").read_bytes() == b"weights"
        assert not (folder / "a").samefile(cache.disk.root / "blobs" / digest[:2] / digest)


def test_threads_that_want_the_same_read_it_once(cache: Cache) -> None:
    reads = []

    def chunks() -> Iterator[bytes]:
        reads.append(1)
        yield b"abc"

    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(cache.contents.obtain("key", 3, chunks())))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [sha(b"abc")] * 8
    assert len(reads) == 1


def test_processes_that_want_the_same_read_it_once(tmp_path: Path) -> None:
    """Each holds its read open until the other asks too, or would wait for the test's limit."""
    script = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from infuse.serving.control.repository.cache import Cache
        root, reads = Path(sys.argv[1]), Path(sys.argv[2])
        def chunks():
            with reads.open("a") as file:
                file.write("read\\n")
            (reads.parent / "reading").touch()
            while not (reads.parent / "asking").exists():
                time.sleep(0.01)
            yield b"abc"
        if sys.argv[3] == "second":
            while not (reads.parent / "reading").exists():
                time.sleep(0.01)
            (reads.parent / "asking").touch()
        print(Cache(root).contents.obtain("key", 3, chunks()))
        """
    )
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        script,
        str(tmp_path / "cache"),
        str(tmp_path / "reads"),
    ]
    running = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True)
        for name in ("first", "second")
    ]
    printed = [process.communicate(timeout=120)[0].strip() for process in running]
    assert printed == [sha(b"abc")] * 2
    assert (tmp_path / "reads").read_text() == "read\n"


def test_a_server_that_ends_waits_for_no_other(cache: Cache) -> None:
    closing = threading.Event()
    other = Cache(cache.disk.root, closing=closing)

    def chunks() -> Iterator[bytes]:
        closing.set()
        with pytest.raises(RepositoryError, match="the server ends"):
            other.contents.obtain("key", 3, never())
        yield b"abc"

    assert cache.contents.obtain("key", 3, chunks()) == sha(b"abc")


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x"])
def test_files_stay_in_their_folder(name: str, cache: Cache) -> None:
    with pytest.raises(RepositoryError, match="not a path"):
        cache.assemble({name: cache.contents.add(b"x")})


# -------------------------------------------------------------------------------------- a full disk


def test_a_full_disk_is_said_before_anything_is_read(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 98, 2))  # type: ignore[attr-defined]
    with pytest.raises(RepositoryError, match="3 bytes are needed and 2 are free"):
        cache.contents.obtain("key", 3, never())


def test_a_disk_that_fills_up_while_a_file_is_written_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: writing fails in the middle, as it
    does there.
    """
    script = textwrap.dedent(
        """
        import resource, sys
        from pathlib import Path
        from infuse.errors import RepositoryError
        from infuse.serving.control.repository.cache import Cache
        cache = Cache(Path(sys.argv[1]))
        kept = cache.contents.add(b"kept")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        try:
            cache.contents.obtain("key", 4 << 20, (b"x" * (1 << 18) for _ in range(16)))
        except RepositoryError as error:
            print(error)
        assert cache.contents.obtain("small", 3, [b"abc"])
        assert cache.contents.holds(kept)
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the disk of the cache of models is full" in done.stdout
    cache = Cache(tmp_path / "cache")
    assert blobs(cache) == {sha(b"kept"), sha(b"abc")}
    assert not leftovers(cache)


def test_a_disk_that_is_full_when_the_folder_is_made_leaves_nothing(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {"a": cache.contents.add(b"a"), "b": cache.contents.add(b"b")}
    link, made = os.link, []

    def full(source: Any, target: Any) -> None:
        if made:
            raise OSError(errno.ENOSPC, "No space left on device")
        made.append(target)
        link(source, target)

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(RepositoryError, match="full"):
        cache.assemble(digests)
    assert not list((cache.disk.root / "versions").iterdir())
    assert not leftovers(cache)
    assert not cache.in_use()


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_cache_that_others_may_write_to_is_refused(mode: int, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    with pytest.raises(RepositoryError, match="other users may write"):
        Cache(tmp_path / "cache").contents.add(b"x")


def test_a_cache_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RepositoryError, match="cannot be used") as caught:
        Cache(tmp_path / "file/cache").contents.add(b"x")
    assert "file" in str(caught.value)


# ----------------------------------------------------------------------------------------- its size


def filled(root: Path, limit: int) -> tuple[Cache, list[str], list[str]]:
    """A cache with three versions of ten bytes each, of rising age, none in use; contents and
    folders.
    """
    cache = Cache(root, fresh_seconds=0)
    contents = [cache.contents.add(bytes([65 + i]) * 10) for i in range(3)]
    folders = [cache.assemble({"f": digest})[1] for digest in contents]
    cache.close()
    for age, (content, folder) in enumerate(zip(contents, folders)):
        os.utime(root / "blobs" / content[:2] / content, (1e9 + age, 1e9 + age))
        os.utime(root / "versions" / folder, (1e9 + age, 1e9 + age))
    return Cache(root, limit, fresh_seconds=0), contents, folders


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache, contents, folders = filled(tmp_path / "cache", 20)
    cache.evict()
    assert blobs(cache) == set(contents[1:])
    assert {path.name for path in (cache.disk.root / "versions").iterdir()} == set(folders[1:])


def test_what_a_process_uses_stays(tmp_path: Path) -> None:
    cache, contents, folders = filled(tmp_path / "cache", 10)
    other = Cache(cache.disk.root)
    other.assemble({"f": contents[0]})
    cache.evict()
    assert blobs(cache) == {contents[0]}
    cache.limit = 1
    cache.evict()
    assert blobs(cache) == {contents[0]}
    other.release(folders[0])
    cache.evict()
    assert not blobs(cache)
    assert not leftovers(cache)


def test_what_is_fresh_stays(tmp_path: Path) -> None:
    cache, contents, _ = filled(tmp_path / "cache", 1)
    cache.fresh_seconds = 3600
    cache.contents.holds(contents[2])  # used now; its folder was not
    cache.evict()
    assert blobs(cache) == {contents[2]}


def test_files_that_a_killed_process_left_go(tmp_path: Path) -> None:
    cache, _, _ = filled(tmp_path / "cache", 100)
    old, new = cache.disk.root / "new/old", cache.disk.root / "new/new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1e9, 1e9))
    cache.evict()
    assert leftovers(cache) == [str(new)]
