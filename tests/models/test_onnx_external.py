"""ONNX models whose tensors lie in other files, and models of more than two gigabytes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from infuse.errors import ModelFileError
from infuse.frontends.onnx import load
from infuse.ir.graph import Graph
from tests.models.onnx_tools import model

pytestmark = pytest.mark.row("C1")
node = helper.make_node


def external(folder: Path, size: int, **entries: str) -> Path:
    """A model whose tensor `w` of `size` bytes lies outside."""
    proto = model(
        [node("Cast", ["w"], ["c"], to=1), node("Add", ["x", "c"], ["y"])], {"x": [1]}, ["y"]
    )
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.UINT8, dims=[size])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def constant_w(graph: Graph) -> np.ndarray:
    (value,) = (v for v in graph.constants() if v.name == "w")
    assert value.const is not None
    return value.const


def test_external_tensors_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(range(200)))
    found = constant_w(load(external(tmp_path, 100, offset="64", length="100")))
    assert not found.flags.owndata
    np.testing.assert_array_equal(found, np.arange(64, 164))
    np.testing.assert_array_equal(constant_w(load(external(tmp_path, 200))), np.arange(200))


def test_a_model_from_memory_takes_a_folder(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(100))
    data = external(tmp_path, 100).read_bytes()
    assert constant_w(load(data, folder=tmp_path)).shape == (100,)
    with pytest.raises(ModelFileError, match="came from memory") as caught:
        load(data)
    assert "folder=" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ({"location": "missing.bin"}, "missing.bin.*cannot be opened"),
        ({"location": "../w.bin"}, "outside the model's folder"),
        ({"location": "sub/../../w.bin"}, "outside the model's folder"),
        ({"location": "/etc/hostname"}, "outside the model's folder"),
        ({"location": "link"}, "outside the model's folder"),
        ({"location": "sub"}, "is a folder"),
        ({"location": ""}, "is not a file name"),
        ({"location": "a\0b"}, "is not a file name"),
        ({"offset": "-1"}, "offset '-1' .* is not a number of bytes"),
        ({"offset": "1e9"}, "is not a number of bytes"),
        ({"offset": "61"}, "its 40 bytes begin at byte 61 .* only 100 bytes"),
        ({"offset": "99999999999999999999"}, "is not a number of bytes"),
        ({"offset": "9999999999999999999"}, "begin at byte 9999999999999999999"),
        ({"length": "39"}, "need 40 bytes, .* said to have 39"),
        ({"length": "-40"}, "length '-40'"),
    ],
)
def test_external_data_that_cannot_be(tmp_path: Path, entries: dict[str, str], what: str) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "w.bin").write_bytes(bytes(100))
    (tmp_path / "w.bin").write_bytes(bytes(100))
    (folder / "link").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelFileError, match=what) as caught:
        load(external(folder, 40, **entries))
    assert "tensor 'w'" in str(caught.value)
    assert "m.onnx" in str(caught.value)


def test_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    """As download caches lay out a model: both names are links into one folder of blobs."""
    blobs, names = tmp_path / "blobs", tmp_path / "names"
    blobs.mkdir()
    names.mkdir()
    (blobs / "1").write_bytes(bytes(40))
    external(blobs, 40).rename(blobs / "2")
    (names / "w.bin").symlink_to(blobs / "1")
    (names / "m.onnx").symlink_to(blobs / "2")
    assert constant_w(load(names / "m.onnx")).shape == (40,)


def test_tensors_that_overlap_in_part_are_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(100))
    proto = onnx.load(external(tmp_path, 40, offset="10"), load_external_data=False)
    for name, offset in (("same", "10"), ("other", "49")):
        second = proto.graph.initializer.add()
        second.CopyFrom(proto.graph.initializer[0])
        second.name, second.external_data[1].value = name, offset
        graph = load(proto, folder=tmp_path) if name == "same" else None
        assert graph is None or len(graph) == 2
    with pytest.raises(ModelFileError, match="49 to 89 overlap those of tensor 'w', 10 to 50"):
        load(proto, folder=tmp_path)


def sparse_file(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_external_data_over_two_gigabytes(tmp_path: Path) -> None:
    size = 3 * 2**30
    sparse_file(tmp_path / "w.bin", size)
    os.pwrite(handle := os.open(tmp_path / "w.bin", os.O_WRONLY), b"\x07", size - 1)
    os.close(handle)
    found = constant_w(load(external(tmp_path, size)))
    assert (found.shape, found[-1], found[0]) == ((size,), 7, 0)


def test_one_file_over_two_gigabytes(tmp_path: Path) -> None:
    """Protobuf cannot read such a file; the weights are taken out before it tries."""
    size = 5 * 2**29
    head = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[size]).SerializeToString()
    proto = model([node("Identity", ["w"], ["y"])], {}, ["y"])
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    raw = _tag(9, size)
    tensor = _tag(5, len(head) + len(raw) + size)
    inner = len(graph) + len(tensor) + len(head) + len(raw) + size
    start = proto.SerializeToString() + _tag(7, inner) + graph + tensor + head + raw
    path = tmp_path / "m.onnx"
    sparse_file(path, len(start) + size)
    with path.open("r+b") as file:
        file.write(start)
    found = constant_w(load(path))
    assert found.nbytes == size
    assert not found.flags.owndata


def _tag(field: int, size: int) -> bytes:
    out = bytearray([field << 3 | 2])
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size])
