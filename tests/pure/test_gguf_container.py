"""GGUF's container: what is written is read in place, and what is wrong is an error."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import BudgetError, InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.gguf import GgufFile
from tests.support.gguf_writer import decoder, gguf_bytes, tensor, written

FIELDS: dict[str, Any] = {
    "general.architecture": "llama",
    "a.byte": np.uint8(255),
    "a.signed": np.int8(-128),
    "a.short": np.uint16(65535),
    "a.negative": np.int16(-5),
    "a.count": 7,
    "a.minus": np.int32(-7),
    "a.long": np.uint64(2**64 - 1),
    "a.low": np.int64(-(2**63)),
    "a.ratio": 0.5,
    "a.exact": np.float64(0.1),
    "a.on": True,
    "a.off": False,
    "a.empty": "",
    "a.words": ["one", "", "三", "🙂"],
    "a.none": [],
    "a.numbers": np.arange(5, dtype=np.int32),
    "a.scores": np.array([-1.5, np.inf], np.float32),
    "a.flags": np.array([True, False]),
    "a.nested": [["x"], ["y", "z"]],
    "a.layers": np.array([4, 8], np.uint32),
}


def opened(tmp_path: Path, content: bytes) -> GgufFile:
    return GgufFile(written(tmp_path / "a.gguf", content))


@pytest.mark.parametrize("version", [2, 3])
def test_fields_and_tensors_are_read(
    version: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    weights = rng.standard_normal((3, 64), np.float32)
    cube = rng.standard_normal((2, 3, 5), np.float32)
    tensors = {
        "w": tensor(weights, "Q8_0"), "half": tensor(weights, "F16"), "cube": tensor(cube),
        "one": ("I32", (1,), np.array([9], np.int32)), "scalar": ("F64", (), np.array(2.5)),
        "none": ("F32", (0, 4), np.empty(0, np.float32)),
    }  # fmt: skip
    file = opened(tmp_path, gguf_bytes(FIELDS, tensors, version=version))
    for name, value in FIELDS.items():
        read = file.metadata[name]
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(read, value)
            assert read.dtype == value.dtype
        elif name == "a.nested":
            assert [list(each) for each in read] == value
        elif isinstance(value, list):
            assert list(read) == value
            assert [read[i] for i in range(len(read))] == value
            assert read[1:3] == value[1:3]
        else:
            assert read == value
            assert type(read) is type(value.item() if isinstance(value, np.generic) else value)
    assert list(file.tensors) == list(tensors)
    assert file.tensors["w"].shape == (3, 64)
    assert file.tensors["w"].rows.shape == (3, 68)
    np.testing.assert_allclose(file.tensors["w"].array(), weights, atol=0.02)
    np.testing.assert_array_equal(file.tensors["half"].array(), weights.astype(np.float16))
    np.testing.assert_array_equal(file.tensors["cube"].array(), cube)
    assert file.tensors["cube"].rows.shape == (6, 20)
    assert file.tensors["one"].array().tolist() == [9]
    assert file.tensors["scalar"].array() == np.float64(2.5)
    assert file.tensors["none"].array().shape == (0, 4)
    assert not file.tensors["w"].rows.flags.writeable


def test_an_alignment_of_its_own(tmp_path: Path, rng: np.random.Generator) -> None:
    weights = rng.standard_normal((3, 5), np.float32)
    for alignment in (8, 64, 4096):
        fields = {"general.alignment": alignment}
        content = gguf_bytes(
            fields, {"a": tensor(weights), "b": tensor(weights)}, alignment=alignment
        )
        file = opened(tmp_path, content)
        assert file.tensors["b"].offset % alignment == 0
        np.testing.assert_array_equal(file.tensors["b"].array(), weights)


def test_no_fields_and_no_tensors(tmp_path: Path) -> None:
    file = opened(tmp_path, struct.pack("<4sIQQ", b"GGUF", 3, 0, 0))
    assert (len(file.metadata), len(file.tensors)) == (0, 0)


def test_typed_fields(tmp_path: Path) -> None:
    metadata = opened(tmp_path, gguf_bytes(FIELDS)).metadata
    assert metadata.integer("a.count") == 7
    assert metadata.integer("a.missing", 3) == 3
    assert metadata.number("a.count") == 7.0
    assert metadata.flag("a.on") is True
    assert metadata.per_layer("a.layers", 2) == [4, 8]
    assert metadata.per_layer("a.count", 3) == [7, 7, 7]
    assert metadata.text("a.missing", None) is None
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: metadata.integer("a.ratio"), "'a.ratio' is 0.5, not a whole number"),
        (lambda: metadata.integer("a.on"), "'a.on' is True, not a whole number"),
        (lambda: metadata.text("a.words"), "'a.words' is an array of strings, not a string"),
        (lambda: metadata.texts("a.numbers"), "is an array of int32, not an array of strings"),
        (lambda: metadata.numbers("a.nested"), "is an array of arrays, not an array of numbers"),
        (lambda: metadata.integer("a.cuont"), "no field 'a.cuont'.*did you mean 'a.count'"),
        (lambda: metadata.per_layer("a.layers", 3), "a.layers has 2 numbers for 3 layers"),
    ]
    for call, message in wrong:
        with pytest.raises(ModelFileError, match=message):
            call()


# -- files that are split ---------------------------------------------------------------------


def shards(folder: Path, weights: np.ndarray, **changes: dict[str, Any]) -> list[Path]:
    """Three files of one model; `changes` are other fields of a file, by its number."""
    paths = []
    for number in range(3):
        fields = {
            "split.no": np.uint16(number),
            "split.count": np.uint16(3),
            "split.tensors.count": np.int32(3),
            **({"general.architecture": "llama"} if number == 0 else {}),
            **changes.get(f"file{number}", {}),
        }
        path = folder / f"model-0000{number + 1}-of-00003.gguf"
        paths.append(written(path, gguf_bytes(fields, {f"w{number}": tensor(weights + number)})))
    return paths


def test_split_files_are_read_as_one(tmp_path: Path, rng: np.random.Generator) -> None:
    weights = rng.standard_normal((2, 4), np.float32)
    for path in shards(tmp_path, weights):
        file = GgufFile(path)
        assert list(file.tensors) == ["w0", "w1", "w2"]
        assert file.metadata.text("general.architecture") == "llama"
        np.testing.assert_array_equal(file.tensors["w2"].array(), weights + 2)


def test_split_files_that_do_not_belong_together(tmp_path: Path, rng: np.random.Generator) -> None:
    weights = rng.standard_normal((2, 4), np.float32)
    first = shards(tmp_path, weights, file2={"split.no": np.uint16(1)})[0]
    with pytest.raises(ModelFileError, match=r"00003.*it says that it is file 2 of 3, not 3 of 3"):
        GgufFile(first)
    first = shards(tmp_path, weights, file0={"split.tensors.count": np.int32(4)})[0]
    with pytest.raises(ModelFileError, match="have 3 tensors, not the 4 that it states"):
        GgufFile(first)
    paths = shards(tmp_path, weights)
    with pytest.raises(ModelFileError, match="one of 3 files, which its name does not say"):
        GgufFile(paths[0].rename(tmp_path / "model.gguf"))
    first, second, _ = shards(tmp_path, weights)
    second.unlink()
    with pytest.raises(ModelFileError, match=r"'model-00002-of-00003.gguf' is missing"):
        GgufFile(first)


# -- files that are wrong -----------------------------------------------------------------------


GOOD = gguf_bytes({"k": "v"}, {"w": tensor(np.ones((2, 32)), "Q8_0")})
_AT = GOOD.index(b"w\x02\x00\x00\x00")
"""Where the description of the tensor is, with its name."""
LONG = struct.Struct("<Q")


def changed(at: int, data: bytes) -> bytes:
    return GOOD[:at] + data + GOOD[at + len(data) :]


def fields_of(*items: tuple[bytes, int, bytes]) -> bytes:
    """A header with fields of these names, types and values."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, 0, len(items))
    for name, kind, value in items:
        head += LONG.pack(len(name)) + name + struct.pack("<I", kind) + value
    return head


WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a GGUF file"),
    "text": (b"hello, world", "not a GGUF file.*it is text"),
    "zip": (b"PK\x03\x04rest", "not a GGUF file.*zip archive"),
    "magic alone": (b"GGUF", "ends within its header"),
    "version alone": (GOOD[:8], "number of tensors needs 8 bytes from byte 8"),
    "version 1": (changed(4, b"\x01\0\0\0"), "GGUF file of version 1.*newer converter"),
    "version 4": (changed(4, b"\x04\0\0\0"), "GGUF file of version 4"),
    "big-endian": (changed(4, b"\0\0\0\x03"), "big-endian.*convert it to little-endian"),
    "many tensors": (changed(8, LONG.pack(2**60)), "states 1152921504606846976 tensors, and only"),
    "many fields": (changed(16, LONG.pack(2**63)), "states 9223372036854775808 fields, and only"),
    "long name": (changed(24, LONG.pack(2**62)), "name of field 0 needs 4611686018427387904 bytes"),
    "no name": (fields_of((b"", 7, b"\1")), "name of field 0 has 0 characters"),
    "two fields": (fields_of((b"k", 7, b"\1"), (b"k", 7, b"\1")), "two fields 'k'"),
    "unknown type": (fields_of((b"k", 13, b"\1")), "'k' has the unknown type 13"),
    "odd flag": (fields_of((b"k", 7, b"\2")), "truth value that is neither 0 nor 1"),
    "odd text": (fields_of((b"k", 8, LONG.pack(2) + b"\xff\xfe")), "field 'k': it is not UTF-8"),
    "short value": (fields_of((b"k", 10, b"\1\2\3")), "'k' needs 8 bytes"),
    "array of unknown": (
        fields_of((b"k", 9, struct.pack("<IQ", 99, 0))),
        "array of the unknown type 99",
    ),
    "long array": (fields_of((b"k", 9, struct.pack("<IQ", 6, 2**62))), "'k' needs 18446744073"),
    "many strings": (
        fields_of((b"k", 9, struct.pack("<IQ", 8, 2**61))),
        "states 2305843009213693952 elements of the field 'k', and only 0 bytes",
    ),
    "string beyond": (
        fields_of((b"k", 9, struct.pack("<IQQ", 8, 1, 5) + b"four")),
        "string 0 of the field 'k' goes beyond",
    ),
    "string far beyond": (
        fields_of((b"k", 9, struct.pack("<IQQQ", 8, 2, 2**64 - 1, 0))),
        "string 0 of the field 'k' goes beyond",
    ),
    "deep arrays": (
        fields_of((b"k", 9, struct.pack("<IQ", 9, 1) * 40 + struct.pack("<IQ", 4, 0))),
        "nested in more than 4 arrays",
    ),
    "alignment": (gguf_bytes({"general.alignment": 12}), "alignment is 12, no multiple of 8"),
    "no alignment": (gguf_bytes({"general.alignment": 0}), "alignment is 0"),
    "alignment as text": (gguf_bytes({"general.alignment": "x"}), "not a whole number"),
    "rank": (changed(_AT + 1, b"\x05"), "tensor 'w': it has 5 axes; 4 are allowed"),
    "format": (changed(_AT + 21, b"\x63"), "tensor 'w': its format is number 99"),
    "row": (changed(_AT + 5, LONG.pack(33)), "33 elements, no multiple of the 32 of a block"),
    "rows": (changed(_AT + 13, LONG.pack(2**50)), "tensor 'w': its .* bytes of shape"),
    "overflow": (changed(_AT + 5, LONG.pack(2**59) * 2), "tensor 'w': its .* bytes of shape"),
    "offset": (changed(_AT + 25, LONG.pack(3)), "tensor 'w': its offset 3 is no multiple of 32"),
    "far offset": (changed(_AT + 25, LONG.pack(2**63)), "tensor 'w': its 68 bytes"),
    "cut off": (GOOD[:-40], "tensor 'w': its 68 bytes.*and the file has"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_an_error_that_says_where(name: str, tmp_path: Path) -> None:
    content, message = WRONG[name]
    with pytest.raises((ModelFileError, UnsupportedOperatorError), match=message) as error:
        opened(tmp_path, content)
    assert "a.gguf" in str(error.value)


def test_the_file_that_is_changed_is_right(tmp_path: Path) -> None:
    assert opened(tmp_path, GOOD).tensors["w"].array() == pytest.approx(np.ones((2, 32)), abs=1e-4)


def test_tensors_that_share_bytes_or_a_name(tmp_path: Path) -> None:
    content = gguf_bytes({}, {"v": tensor(np.ones((2, 32))), "w": tensor(np.ones((2, 32)))})
    second = content.index(b"w\x02\0\0\0") + 25
    with pytest.raises(ModelFileError, match=r"tensor 'w': .* within those of tensor 'v'"):
        opened(tmp_path, content[:second] + LONG.pack(32) + content[second + 8 :])
    with pytest.raises(ModelFileError, match="two tensors are named 'v'"):
        opened(tmp_path, content.replace(b"w\x02\0\0\0", b"v\x02\0\0\0"))


def test_a_string_that_is_no_text_is_an_error_when_it_is_read(tmp_path: Path) -> None:
    words = opened(tmp_path, gguf_bytes({"a.words": ["good", "\udcff"]})).metadata["a.words"]
    assert words[0] == "good"
    for read in (list, lambda each: each[1], lambda each: each[-1], lambda each: each[:]):
        with pytest.raises(ModelFileError, match=r"'a.words': string 1: it is not UTF-8"):
            read(words)


def test_headers_have_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gguf_bytes({"a.words": ["w"] * 100})
    monkeypatch.setenv("INFUSE_BUDGET", "entries=100")
    with pytest.raises(BudgetError, match=r"elements of the field 'a.words', the header has 101"):
        opened(tmp_path, content)
    monkeypatch.setenv("INFUSE_BUDGET", "entries=101")
    assert len(opened(tmp_path, content).metadata["a.words"]) == 100


@pytest.mark.parametrize("path", ["missing.gguf", "."])
def test_paths_that_are_no_files(path: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError):
        GgufFile(tmp_path / path)


def test_a_large_vocabulary_takes_no_time(tmp_path: Path) -> None:
    words = [f"▁word{number}" for number in range(262_144)]
    path = written(tmp_path / "a.gguf", gguf_bytes({"tokenizer.ggml.tokens": words}))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        file = GgufFile(path)
        assert list(file.metadata["tokenizer.ggml.tokens"])[-1] == words[-1]
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1.5  # 0.1 s where nothing else runs


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"])
def test_decoders_of_random_weights(architecture: str, tmp_path: Path) -> None:
    file = opened(tmp_path, decoder(architecture, form="Q4_0"))
    assert file.metadata.text("general.architecture") == architecture
    assert file.metadata.integer(f"{architecture}.block_count") == 2
    for each in file.tensors.values():
        assert np.isfinite(each.array()).all()


def test_the_package_gguf_reads_the_same(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    file = opened(tmp_path, decoder(form="Q4_1"))
    other = gguf.GGUFReader(file.path)
    assert [each.name for each in other.tensors] == list(file.tensors)
    for each in other.tensors:
        mine = file.tensors[each.name]
        assert tuple(reversed(each.shape.tolist())) == mine.shape
        assert each.data_offset == mine.offset
        np.testing.assert_array_equal(each.data.view(np.uint8).reshape(mine.rows.shape), mine.rows)
    names = {name for name in other.fields if not name.startswith("GGUF.")}
    assert names == set(file.metadata)


def test_errors_are_ours(tmp_path: Path) -> None:
    for content, _ in WRONG.values():
        with pytest.raises(InfuseError):
            opened(tmp_path, content)
