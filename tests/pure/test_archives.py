"""Zip archives of models: members without a copy, and archives that are damaged or lie."""

import contextlib
import io
import zipfile

import numpy as np
import pytest

from infuse.errors import ModelFileError
from infuse.frontends.archives import Archive

CONTENT = bytes(range(256)) * 40


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_read(method: int) -> None:
    archive = Archive(memoryview(packed({"net/a": CONTENT, "net/b/c": b""}, method)), "file")
    assert archive.folder == "net"
    assert sorted(archive.names) == ["a", "b/c"]
    assert bytes(archive.read("a")) == CONTENT
    assert bytes(archive.read("b/c")) == b""
    with pytest.raises(ModelFileError, match="no member 'd'"):
        archive.read("d")


def test_a_stored_member_is_a_part_of_the_file() -> None:
    data = packed({"a": CONTENT})
    part = Archive(memoryview(data), "file").read("a")
    assert np.shares_memory(np.frombuffer(part, np.uint8), np.frombuffer(data, np.uint8))


def test_members_without_a_common_folder_keep_their_names() -> None:
    archive = Archive(memoryview(packed({"x/a": b"1", "y": b"2"})), "file")
    assert archive.folder == ""
    assert sorted(archive.names) == ["x/a", "y"]


def test_names_that_lead_elsewhere_are_names_only() -> None:
    archive = Archive(memoryview(packed({"../../a": b"1"})), "file")
    assert bytes(archive.read(archive.names[0])) == b"1"


def test_a_member_that_unpacks_to_more_than_it_can_is_refused() -> None:
    data = bytearray(packed({"a": bytes(100_000)}, zipfile.ZIP_DEFLATED))
    directory = data.index(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = (1 << 30).to_bytes(4, "little")
    with pytest.raises(ModelFileError, match="damaged"):
        Archive(memoryview(bytes(data)), "file").read("a")


def test_two_members_of_one_name_are_refused() -> None:
    data = packed({"a": b"1", "b": b"2"}).replace(b"b", b"a")
    with pytest.raises(ModelFileError, match="two members have one name"):
        Archive(memoryview(data), "file")


def test_damaged_archives_give_an_error() -> None:
    rng = np.random.default_rng(1)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        good = packed({"net/a": CONTENT, "net/b": b"text" * 50}, method)
        for _ in range(300):
            data = bytearray(good)
            for place in rng.integers(0, len(data), 4):
                data[place] = rng.integers(256)
            cut = int(rng.integers(1, len(data))) if rng.random() < 0.3 else len(data)
            with contextlib.suppress(ModelFileError):
                archive = Archive(memoryview(bytes(data[:cut])), "file")
                assert all(len(archive.read(name)) <= len(CONTENT) for name in archive.names)
