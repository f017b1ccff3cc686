"""Names of classes in files of a model's folder: which are read, how, and which are refused."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import ConfigurationError
from infuse.serving.config import ServerConfig
from infuse.serving.control.repository import ModelFiles, Repository, parse_config

pytestmark = pytest.mark.row("S2")

OWN = "label_files: {y: labels.txt}"


def write(root: Path, config: str = OWN, **files: bytes) -> Path:
    """A model `m` with labels.txt and others in its folder, which is given back."""
    folder = root / "models" / "m"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.onnx").write_bytes(b"a")
    (folder / "config.yaml").write_text(config)
    for name, content in files.items():
        (folder / f"{name}.txt").write_bytes(content)
    return folder


def repository(root: Path) -> Repository:
    return Repository(ServerConfig(repository=str(root / "models"), cache=root / "cache"))


def scan(root: Path, configs: Mapping[str, str] | None = None) -> ModelFiles:
    opened = repository(root)
    try:
        return asyncio.run(opened.scan(configs))["m"]
    finally:
        opened.close()


CONTENTS = {
    "a line for each": (b"cat\ndog\n", (b"cat", b"dog")),
    "no end of the last line": (b"cat\ndog", (b"cat", b"dog")),
    "ends of Windows, a byte order mark": (b"\xef\xbb\xbfcat\r\ndog\r\n", (b"cat", b"dog")),
    "empty lines count": (b"\ncat\n\n\r\ndog\n\n", (b"", b"cat", b"", b"", b"dog", b"")),
    "spaces and colons belong to names": (b" a b \nc:d\n", (b" a b ", b"c:d")),
    "other separators do not end a line": (
        "a\u2028b\x0bc\rd\n".encode(),
        ("a\u2028b\x0bc\rd".encode(),),
    ),
    "all of Unicode": ("猫\nÉté\n".encode(), ("猫".encode(), "Été".encode())),
    "nothing": (b"", ()),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_a_line_is_a_name(case: str, tmp_path: Path) -> None:
    content, expected = CONTENTS[case]
    write(tmp_path, labels=content)
    model = scan(tmp_path)
    assert not model.problem
    assert model.labels.outputs == {"y": expected}


def test_outputs_have_files_of_their_own(tmp_path: Path) -> None:
    folder = write(
        tmp_path, "label_files: {y: labels.txt, z: ./names/z.txt, w: 1/w.txt}", labels=b"a"
    )
    (folder / "names").mkdir()
    (folder / "names" / "z.txt").write_bytes(b"b")
    (folder / "1" / "w.txt").write_bytes(b"c")
    assert scan(tmp_path).labels.outputs == {"y": (b"a",), "z": (b"b",), "w": (b"c",)}


def test_a_model_without_version_folders_has_labels(tmp_path: Path) -> None:
    folder = write(tmp_path, labels=b"a")
    (folder / "1" / "model.onnx").rename(folder / "model.onnx")
    (folder / "1").rmdir()
    assert scan(tmp_path).labels.outputs == {"y": (b"a",)}


TRITON = {
    "y.pbtxt": (
        'output [ { name: "y" data_type: TYPE_FP32 dims: [2] label_filename: "labels.txt" } ]'
    ),
    "json": (
        '{"output": [{"name": "y", "data_type": "TYPE_FP32", "dims": ["2"], '
        '"label_filename": "labels.txt"}]}'
    ),
    "yaml": "output: [{name: y, dataType: TYPE_FP32, dims: [2], labelFilename: labels.txt}]",
    "others have none": """output [ { name: "y" data_type: TYPE_FP32 dims: [2]
        label_filename: "labels.txt" },
        { name: "z" data_type: TYPE_FP32 dims: [2] label_filename: "" } ]""",
}


@pytest.mark.parametrize("case", TRITON)
def test_tritons_label_filename(case: str) -> None:
    where = "m/config.yaml" if case in ("json", "yaml") else "m/config.pbtxt"
    found = parse_config("m", TRITON[case], where, {})
    assert found.config.label_files == {"y": "labels.txt"}
    assert not found.notes


def test_a_name_of_digits_stays_a_name() -> None:
    plain = {
        "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [2], "label_filename": "12"}]
    }
    assert parse_config("m", json.dumps(plain), "", {}).config.label_files == {"y": "12"}


def test_inputs_have_no_labels() -> None:
    text = 'input [ { name: "x" data_type: TYPE_FP32 dims: [2] label_filename: "labels.txt" } ]'
    with pytest.raises(ConfigurationError, match=r"input\.label_filename: there is no such field"):
        parse_config("m", text, "m/config.pbtxt", {})


REFUSED = {
    "there is no 'labels.txt', which its configuration names as labels of 'y'": (OWN, {}),
    "labels.txt: it is not UTF-8 text": (OWN, {"labels": b"\xff\xfe"}),
    "labels.txt: it has 4194305 bytes": (OWN, {"labels": b"a" * ((4 << 20) + 1)}),
    "lie outside of the model's folder: '../n/labels.txt'": (
        "label_files: {y: ../n/labels.txt}",
        {},
    ),
    "lie outside of the model's folder: '1/../../n/labels.txt'": (
        "label_files: {y: 1/../../n/labels.txt}",
        {},
    ),
    "lie outside of the model's folder: '/etc/hostname'": ("label_files: {y: /etc/hostname}", {}),
    "lie outside of the model's folder: '..\\\\labels.txt'": (
        "label_files: {y: '..\\labels.txt'}",
        {},
    ),
    "there is no '', which": ("label_files: {y: ''}", {}),
    "there is no '1', which": ("label_files: {y: '1'}", {}),
    "labels.txt: it is not the file that the model's configuration expects": (
        f"{OWN}\nsha256: {{labels.txt: {'ab' * 32}}}",
        {"labels": b"a"},
    ),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_what_is_no_file_of_labels_is_the_models_problem(problem: str, tmp_path: Path) -> None:
    config, files = REFUSED[problem]
    write(tmp_path, config, **files)
    (tmp_path / "models" / "n").mkdir()
    (tmp_path / "models" / "n" / "labels.txt").write_bytes(b"secret")
    model = scan(tmp_path)
    assert problem in model.problem
    assert not model.labels.outputs


def test_a_link_does_not_lead_out_of_the_repository(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (folder / "labels.txt").symlink_to(tmp_path / "secret.txt")
    assert "leaves the repository" in scan(tmp_path).problem


def test_the_expected_hash_is_taken(tmp_path: Path) -> None:
    write(
        tmp_path, f"{OWN}\nsha256: {{labels.txt: {sha256(b'a').hexdigest().upper()}}}", labels=b"a"
    )
    assert scan(tmp_path).labels.outputs == {"y": (b"a",)}


def test_a_configuration_that_is_given_may_name_labels(tmp_path: Path) -> None:
    write(tmp_path, "{}", labels=b"a")
    assert scan(tmp_path).labels.outputs == {}
    assert scan(tmp_path, {"m": OWN}).labels.outputs == {"y": (b"a",)}


def test_labels_are_sent_with_a_model(tmp_path: Path) -> None:
    opened = repository(tmp_path)
    files = {"1/model.onnx": b"a", "config.yaml": OWN.encode(), "labels.txt": b"a\nb"}

    async def upload(files: Mapping[str, bytes]) -> ModelFiles:
        return await opened.fetch_uploaded("m", files)

    try:
        assert asyncio.run(upload(files)).labels.outputs == {"y": (b"a", b"b")}
        del files["labels.txt"]
        assert "'labels.txt'" in asyncio.run(upload(files)).problem
    finally:
        opened.close()


def test_a_change_of_labels_is_one_of_the_model(tmp_path: Path) -> None:
    folder = write(tmp_path, labels=b"a")
    opened = repository(tmp_path)

    def change(content: bytes) -> Any:
        """The model before and after; the new file has the time, the inode and the size of the old
        one.
        """
        before = asyncio.run(opened.scan())["m"]
        found = (folder / "labels.txt").stat()
        (folder / "labels.txt").write_bytes(content)
        os.utime(folder / "labels.txt", ns=(found.st_atime_ns, found.st_mtime_ns))
        return before, asyncio.run(opened.scan())["m"]

    try:
        before, after = change(b"a")
        assert (after.fingerprint, after.labels) == (before.fingerprint, before.labels)
        before, after = change(b"b")
        assert after.fingerprint != before.fingerprint
        assert after.labels.fingerprint != before.labels.fingerprint
        assert after.labels.outputs == {"y": (b"b",)}
        before, after = change(b"\xff")
        assert "UTF-8" in after.problem
        before, after = change(b"c")
        assert (before.problem != "", after.problem) == (True, "")
        assert after.labels.outputs == {"y": (b"c",)}
    finally:
        opened.close()
