"""A folder as a repository: copies, what changes under way, what cannot be read."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import RepositoryError
from infuse.serving.config import ServerConfig
from infuse.serving.control.repository import ModelFiles, Repository
from infuse.serving.control.repository.files import FileEntry
from infuse.serving.control.repository.local import LocalFolder

pytestmark = pytest.mark.row("S2")


class Clock:
    """A clock that goes when it is told to; it starts a minute from now, when what was just written
    has settled.
    """

    def __init__(self, ahead: float = 60.0) -> None:
        self.start = time.time() + ahead
        self.passed = 0.0

    def wall(self) -> float:
        return self.start + self.passed

    def monotonic(self) -> float:
        return 1000.0 + self.passed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    (folder / "m/1/w").mkdir(parents=True)
    (folder / "m/1/model.onnx").write_bytes(b"first")
    (folder / "m/1/w/0.bin").write_bytes(b"weights")
    return folder


def repository(root: Path, clock: Clock | None = None, **fields: Any) -> Repository:
    clock = clock or Clock()
    config = ServerConfig(repository=str(root), cache=root.parent / "cache", **fields)
    return Repository(config, wall=clock.wall, clock=clock.monotonic)


def model(found: Repository) -> ModelFiles:
    return asyncio.run(found.scan())["m"]


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_fetched_version_is_a_copy_with_its_hash(root: Path) -> None:
    found = repository(root)
    local = asyncio.run(found.fetch(model(found), 1))
    assert local.main == local.folder / "model.onnx"
    assert local.main.read_bytes() == b"first"
    assert (local.folder / "w/0.bin").read_bytes() == b"weights"
    assert (local.number, local.bytes) == (1, 12)
    assert not local.folder.is_relative_to(root)
    with (root / "m/1/model.onnx").open("r+b") as file:
        file.write(b"XXXXX")
    assert local.main.read_bytes() == b"first"


def test_versions_with_the_same_content_share_a_folder_until_the_last_is_released(
    root: Path,
) -> None:
    (root / "m/2/w").mkdir(parents=True)
    (root / "m/2/model.onnx").write_bytes(b"first")
    (root / "m/2/w/0.bin").write_bytes(b"weights")
    found = repository(root)
    files = model(found)
    one, two = (asyncio.run(found.fetch(files, number)) for number in (1, 2))
    assert one.folder == two.folder
    assert one.digest == two.digest
    found.release(one)
    assert found.cache.in_use() == {two.digest}
    found.release(two)
    assert found.cache.in_use() == set()


def test_nothing_is_read_twice_also_after_a_restart(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    chunks = LocalFolder.chunks

    def counted(self: LocalFolder, file: FileEntry) -> Iterator[bytes]:
        reads.append(file.path)
        yield from chunks(self, file)

    monkeypatch.setattr(LocalFolder, "chunks", counted)
    first = repository(root)
    folder = asyncio.run(first.fetch(model(first), 1)).folder
    assert sorted(reads) == ["m/1/model.onnx", "m/1/w/0.bin"]
    assert asyncio.run(first.fetch(model(first), 1)).folder == folder
    first.close()
    second = repository(root)
    assert asyncio.run(second.fetch(model(second), 1)).folder == folder
    assert len(reads) == 2


def test_a_file_that_was_written_a_moment_ago_is_read_again(root: Path) -> None:
    found = repository(root, Clock(0.0))
    files = model(found)
    asyncio.run(found.fetch(files, 1))
    stamp = (root / "m/1/model.onnx").stat()
    with (root / "m/1/model.onnx").open("r+b") as file:  # the same size, and the same time
        file.write(b"other")
    os.utime(root / "m/1/model.onnx", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert asyncio.run(found.fetch(files, 1)).main.read_bytes() == b"other"


def test_a_file_that_changed_since_the_scan_is_tried_again_later(root: Path) -> None:
    found = repository(root)
    files = model(found)
    (root / "m/1/model.onnx").write_bytes(b"second")
    with pytest.raises(RepositoryError, match="changed") as caught:
        asyncio.run(found.fetch(files, 1))
    assert caught.value.transient
    assert asyncio.run(found.fetch(model(found), 1)).main.read_bytes() == b"second"


def test_a_file_that_changes_while_it_is_read_is_not_taken(root: Path) -> None:
    (root / "m/1/model.onnx").write_bytes(b"a" * (3 << 20))
    source = LocalFolder(root)
    (entry,) = [file for file in source.listing().files if file.name.endswith("model.onnx")]
    chunks = source.chunks(entry)
    next(chunks)
    with (root / "m/1/model.onnx").open("r+b") as file:
        file.truncate(2 << 20)
    with pytest.raises(RepositoryError, match="changed"):
        list(chunks)


def test_a_version_of_which_one_file_was_replaced_meanwhile_is_not_taken(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = LocalFolder.chunks

    def replaced(self: LocalFolder, file: FileEntry) -> Iterator[bytes]:
        yield from chunks(self, file)
        if file.path.endswith("0.bin"):
            (root / "m/1/model.onnx").write_bytes(b"newer")

    monkeypatch.setattr(LocalFolder, "chunks", replaced)
    found = repository(root)
    with pytest.raises(RepositoryError, match="changed"):
        asyncio.run(found.fetch(model(found), 1))


def test_a_link_that_is_turned_outside_after_the_scan_is_not_followed(root: Path) -> None:
    (root.parent / "secret").write_bytes(b"first")
    found = repository(root)
    files = model(found)
    (root / "m/1/model.onnx").unlink()
    (root / "m/1/model.onnx").symlink_to(root.parent / "secret")
    with pytest.raises(RepositoryError, match="leaves the repository"):
        asyncio.run(found.fetch(files, 1))


def test_hashes_of_the_configuration_are_checked(root: Path) -> None:
    config = root / "m/config.yaml"
    config.write_text(f"sha256: {{1/model.onnx: {sha(b'first').upper()}, 9/model.onnx: '00'}}")
    found = repository(root)
    asyncio.run(found.fetch(model(found), 1))
    config.write_text(f"sha256: {{1/model.onnx: {sha(b'other')}}}")
    with pytest.raises(RepositoryError, match=f"{sha(b'first')}.*expected {sha(b'other')}"):
        asyncio.run(found.fetch(model(found), 1))
    config.write_text(f"sha256: {{1/modell.onnx: {sha(b'first')}}}")
    with pytest.raises(RepositoryError, match=r"no '1/modell.onnx'"):
        asyncio.run(found.fetch(model(found), 1))


def test_what_cannot_be_served_is_not_fetched(root: Path) -> None:
    (root / "m/2").mkdir()
    found = repository(root)
    files = model(found)
    with pytest.raises(RepositoryError, match="holds no model"):
        asyncio.run(found.fetch(files, 2))
    with pytest.raises(RepositoryError, match="no version 7"):
        asyncio.run(found.fetch(files, 7))


def test_files_of_the_model_are_fetched_apart(root: Path) -> None:
    (root / "m/tokenizer.json").write_text("{}")
    found = repository(root)
    local = asyncio.run(found.fetch_files(model(found)))
    assert (local.folder / "tokenizer.json").read_text() == "{}"
    assert [path.name for path in local.folder.iterdir()] == ["tokenizer.json"]


def test_files_of_the_model_have_the_hashes_of_the_configuration(root: Path) -> None:
    (root / "m/tokenizer.json").write_text("{}")
    for content, refused in ((b"{}", False), (b"[]", True)):
        (root / "m/config.yaml").write_text(f"sha256: {{tokenizer.json: {sha(content)}}}")
        found = repository(root)
        if refused:
            with pytest.raises(
                RepositoryError, match=r"tokenizer.json is not the file that .* expects"
            ):
                asyncio.run(found.fetch_files(model(found)))
        else:
            asyncio.run(found.fetch_files(model(found)))


def test_a_repository_that_is_not_there_is_an_error_as_a_whole(tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path / "file"):
        (tmp_path / "file").touch()
        with pytest.raises(RepositoryError, match="cannot be read") as caught:
            asyncio.run(repository(place).scan())
        assert caught.value.where == str(place)
    with pytest.raises(RepositoryError, match="no repository is named"):
        asyncio.run(Repository(ServerConfig(cache=tmp_path / "cache")).scan())


@pytest.mark.parametrize("place", ["bad", "bad/1", "bad/1/model.onnx", "bad/config.yaml"])
def test_one_unreadable_place_spoils_one_model(
    place: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated, since the superuser can read everything."""
    (root / "bad/1").mkdir(parents=True)
    (root / "bad/1/model.onnx").write_bytes(b"x")
    (root / "bad/config.yaml").write_text("tune: true")
    scandir, opened = os.scandir, os.open

    def refuse(path: str) -> None:
        if str(path) == str(root / place):
            raise PermissionError(13, "Permission denied", str(path))

    def guarded_scandir(path: str) -> Any:
        refuse(path)
        return scandir(path)

    def guarded_open(path: str, *arguments: Any, **keywords: Any) -> int:
        refuse(path)
        return opened(path, *arguments, **keywords)

    monkeypatch.setattr(os, "scandir", guarded_scandir)
    monkeypatch.setattr(os, "open", guarded_open)
    found = repository(root)
    models = asyncio.run(found.scan())
    assert asyncio.run(found.fetch(models["m"], 1)).main.read_bytes() == b"first"
    with pytest.raises(RepositoryError, match="Permission denied"):
        asyncio.run(found.fetch(models["bad"], 1))


# ----------------------------------------------------------------------------------- partial copies


def test_at_the_start_what_has_not_changed_for_a_second_is_whole(root: Path) -> None:
    newest = max(path.stat().st_ctime for path in (root / "m").rglob("*"))
    for age, whole in ((0.5, False), (1.5, True)):
        clock = Clock()
        clock.start = newest + age
        found = repository(root, clock)
        assert found.stable(model(found), 1) is whole


def test_a_version_is_whole_when_two_scans_with_a_poll_between_see_the_same(root: Path) -> None:
    clock = Clock(-3600.0)  # times in the future prove nothing
    found = repository(root, clock, poll_seconds=2.0)
    assert not found.stable(model(found), 1)
    clock.passed = 1.9
    assert not found.stable(model(found), 1)
    clock.passed = 2.0
    assert found.stable(model(found), 1)


def test_a_version_that_grows_is_not_whole(root: Path) -> None:
    clock = Clock(-3600.0)
    found = repository(root, clock, poll_seconds=2.0)
    for step in range(4):
        clock.passed = step * 3.0
        with (root / "m/1/w/0.bin").open("ab") as file:
            file.write(b"more")
        assert not found.stable(model(found), 1)
    clock.passed += 3.0
    assert found.stable(model(found), 1)


def test_an_old_file_that_is_moved_in_later_makes_the_version_new(root: Path) -> None:
    """Its own time is old, as after `cp -p` or `tar`; the folder's is not."""
    clock = Clock(-3600.0)
    found = repository(root, clock, poll_seconds=2.0)
    model(found)
    clock.passed = 2.0
    (root / "m/1/late.bin").write_bytes(b"late")
    os.utime(root / "m/1/late.bin", (0, 0))
    assert not found.stable(model(found), 1)


def test_a_hidden_file_that_grows_holds_its_version_back(root: Path) -> None:
    """As rsync writes: to `.1.bin.Xa3dQz`, which it then renames."""
    clock = Clock(-3600.0)
    found = repository(root, clock, poll_seconds=2.0)
    for step in range(3):
        clock.passed = step * 3.0
        with (root / "m/1/w/.1.bin.Xa3dQz").open("ab") as file:
            file.write(b"more")
        os.utime(root / "m/1/w/.1.bin.Xa3dQz", (2e9 + step, 2e9 + step))
        assert not found.stable(model(found), 1)
    clock.passed += 3.0
    assert found.stable(model(found), 1)
    assert {file.name for file in model(found).versions[1].files} == {"model.onnx", "w/0.bin"}


@pytest.mark.parametrize("name", ["model.onnx.part", "w/1.bin.tmp", "x.crdownload"])
def test_a_file_that_is_being_copied_holds_its_version_back(name: str, root: Path) -> None:
    (root / "m/1" / name).write_bytes(b"half")
    found = repository(root)
    files = model(found)
    assert files.versions[1].unfinished == name
    assert not found.stable(files, 1)
    (root / "m/1" / name).rename(root / "m/1/w/2.bin")
    assert found.stable(model(found), 1)


def test_the_mark_of_success_makes_a_version_whole_at_once(root: Path) -> None:
    found = repository(root, Clock(-3600.0))
    assert not found.stable(model(found), 1)
    (root / "m/1/_SUCCESS").touch()
    files = model(found)
    assert found.stable(files, 1)
    assert "_SUCCESS" not in {file.name for file in files.versions[1].files}


# ------------------------------------------------------------------------------------------ uploads


def test_uploaded_files_become_a_model(root: Path) -> None:
    found = repository(root)
    files = {"3/model.onnx": b"sent", "config.yaml": b"tune: true"}
    sent = asyncio.run(found.fetch_uploaded("u", files))
    local = asyncio.run(found.fetch(sent, 3))
    assert local.main.read_bytes() == b"sent"
    assert sent.config.tune


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "1/../../x", "1//x", "", "1/.x", "1/a\\b", "1/a\nb"]
)
def test_uploads_stay_in_the_models_folder(path: str, root: Path) -> None:
    with pytest.raises(RepositoryError, match="not a path"):
        asyncio.run(repository(root).fetch_uploaded("u", {path: b"x"}))
    with pytest.raises(RepositoryError):
        asyncio.run(repository(root).fetch_uploaded(path or "..", {"1/model.onnx": b"x"}))


def test_compiled_models_cannot_be_uploaded(root: Path) -> None:
    found = repository(root)
    sent = asyncio.run(found.fetch_uploaded("u", {"1/metadata.json": b"{}", "1/model.so": b"x"}))
    with pytest.raises(RepositoryError, match="native code"):
        asyncio.run(found.fetch(sent, 1))


def test_a_repository_that_is_closed_reads_no_further(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = repository(root)
    files = model(found)

    def closing(self: LocalFolder, file: FileEntry) -> Iterator[bytes]:
        found.close()
        yield b"first"

    monkeypatch.setattr(LocalFolder, "chunks", closing)
    with pytest.raises(RepositoryError, match="the server ends"):
        asyncio.run(found.fetch(files, 1))
    with pytest.raises(RepositoryError, match="the server ends"):
        asyncio.run(found.scan())
    assert not list(found.cache.disk.root.glob("blobs/*/*"))
    assert not list(found.cache.disk.root.glob("new/*"))
