"""The .infuse file: round trips, its layout, and what it costs to open."""

import random
import re
import struct
import sys
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.ir import DataFormat, Graph, Node, Value, constant, dims, registry, tensor
from infuse.ir.coding.narrow import stored_bytes
from infuse.ir.equality import equal
from infuse.ir.file import VERSION, load, load_bytes, save
from infuse.ir.flat import decode as decoding, records
from infuse.ir.flat.encode import encode
from infuse.ir.flat.from_graph import to_records
from infuse.ir.printer import print_graph
from infuse.ir.verify import verify
from tests.pure.infuse_bytes import HEADER, parts, repack, sample
from tests.pure.random_graphs import Branch, Toy, random_graph

pytestmark = pytest.mark.row("C6")
SCHEMA = (Path(records.__file__).parent / "infuse.fbs").read_text(encoding="utf-8")


@pytest.fixture
def stored(tmp_path: Path) -> bytes:
    save(sample(), tmp_path / "sample.infuse")
    return (tmp_path / "sample.infuse").read_bytes()


# -- round trips -----------------------------------------------------------------------------------


def test_everything_is_kept(tmp_path: Path) -> None:
    graph = sample()
    save(graph, tmp_path / "a.infuse")
    again = load(tmp_path / "a.infuse")
    assert equal(graph, again) is None
    verify(again, infer=False)
    content = again.outputs[0].content
    assert content is not None
    assert content.tolist() == [dims.symbol("batch"), -1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.infuse"]


def test_known_elements_of_constants_are_kept(tmp_path: Path) -> None:
    graph = Graph()
    graph.add_output(constant([[3, -1], [2**40, 0]], "c"), "y")
    save(graph, tmp_path / "a.infuse")
    content = load(tmp_path / "a.infuse").outputs[0].content
    assert content is not None
    assert content.tolist() == [[3, -1], [2**40, 0]]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6))
def test_random_graphs_are_kept(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    net, arrays = to_records(graph, VERSION, "test")
    weights = bytearray()
    for span, array in zip(net.weights, arrays):
        weights += bytes(span.offset - len(weights)) + stored_bytes(array).tobytes()
    again = load_bytes(repack(encode(net), bytes(weights)), "memory")
    assert equal(graph, again) is None
    assert print_graph(again) == print_graph(graph)
    verify(again, infer=False)


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    save(sample(), tmp_path / "a.infuse")
    save(load(tmp_path / "a.infuse"), tmp_path / "b.infuse")
    assert (tmp_path / "a.infuse").read_bytes() == (tmp_path / "b.infuse").read_bytes()


def test_a_file_can_replace_the_one_that_it_was_loaded_from(tmp_path: Path) -> None:
    path = tmp_path / "a.infuse"
    save(sample(), path)
    graph = load(path)
    graph.name = "changed"
    save(graph, path)
    assert load(path).name == "changed"
    assert equal(sample(), graph, annotations=False) is None


def test_unregistered_operators_come_from_the_fallback(
    stored: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, Any]] = []

    def fallback(domain: str, name: str, attributes: Any) -> Toy:
        asked.append((domain, name, attributes))
        return Toy()

    branches = {("", "Branch"): Branch}
    monkeypatch.setattr(registry, "_SOURCES", [lambda *key: branches.get(key)])
    monkeypatch.setattr(registry, "_FALLBACK", [])
    with pytest.raises(UnsupportedOperatorError, match="there is no operator test"):
        load_bytes(stored, "memory")
    monkeypatch.setattr(registry, "_FALLBACK", [fallback])
    load_bytes(stored, "memory")
    assert [(domain, name) for domain, name, _ in asked] == [("test.toys", "Toy")] * 2
    assert asked[0][2] == {
        "axis": -1,
        "alpha": 0.5,
        "mode": "plain",
        "axes": (1, 2),
        "given": (1.5, "x"),
    }


# -- layout ----------------------------------------------------------------------------------------


def test_weights_are_aligned_and_stored_once(stored: bytes) -> None:
    table, weights = parts(stored)
    net = decoding.decode(table)
    assert [span.length for span in net.weights] == [
        37 * 4,
        1,
        5,
    ]  # the tied weight has no span of its own
    assert all(span.offset % 64 == 0 for span in net.weights)
    assert HEADER.unpack_from(stored)[5] % 64 == 0
    assert np.frombuffer(weights[: 37 * 4], np.float32).tolist() == list(range(37))


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.bits in (2, 4)], ids=str)
def test_elements_of_few_bits_lie_side_by_side(dtype: DType, coded: bool, tmp_path: Path) -> None:
    """All values of a type, more of them than fill bytes, and an empty array."""
    graph, rng = Graph(), np.random.default_rng(dtype.bits)
    codes = rng.integers(0, 1 << dtype.bits, (401, 13), np.uint8)
    for name, part in (("all", codes), ("odd", codes[:1]), ("none", codes[:0])):
        graph.add_output(constant(part.view(dtype.numpy), name), name)
    graph.add_output(constant(codes, "bytes"), "bytes")  # the same memory, as bytes
    save(graph, tmp_path / "a.infuse", coded=coded)
    again = load(tmp_path / "a.infuse")
    assert equal(graph, again) is None
    assert all(not v.const.flags.writeable for v in again.outputs if v.const is not None)
    net = decoding.decode(parts((tmp_path / "a.infuse").read_bytes())[0])
    if not coded:
        lengths = {-(-n * dtype.bits // 8) for n in (codes.size, 13, 0)} | {codes.size}
        assert {span.length for span in net.weights} == lengths


def test_elements_of_few_bits_in_too_few_bytes_are_refused() -> None:
    graph = Graph()
    graph.add_output(constant(np.zeros(64, dtypes.uint4.numpy)), "y")
    net, arrays = to_records(graph, VERSION, "test")
    for length in (0, 31, 33, 64):
        short = net._replace(weights=[net.weights[0]._replace(length=length)])
        with pytest.raises(ModelFileError, match="64 elements of uint4"):
            load_bytes(repack(encode(short), bytes(length)), "memory")
    assert stored_bytes(arrays[0]).nbytes == 32


def test_constants_are_read_only_views_that_share(tmp_path: Path) -> None:
    graph = Graph()
    array = np.arange(100, dtype=np.float32)
    for name in ("a", "b"):
        graph.add_output(constant(array, name), name)
    graph.add_output(constant(array[::2], "half"), "half")
    graph.add_output(constant(array.reshape(10, 10).T, "turned"), "turned")
    save(graph, tmp_path / "a.infuse")
    again = load(tmp_path / "a.infuse")
    a, b, half, turned = (v.const for v in again.outputs)
    assert a is b
    assert equal(graph, again) is None
    for view in (a, half, turned):
        assert view is not None
        assert not view.flags.writeable
        assert not view.flags.owndata
        assert view.ctypes.data % 64 == 0
    assert (tmp_path / "a.infuse").stat().st_size < 1000 + 400 + 200 + 400


@pytest.mark.parametrize("coded", [False, True])
def test_constants_of_equal_bytes_are_stored_once(coded: bool, tmp_path: Path) -> None:
    """Copies in memory of their own; what differs in the middle alone, or in length, is apart."""
    graph, rng = Graph(), np.random.default_rng(0)
    first = rng.standard_normal((128, 128)).astype(np.float32)
    other = first.copy()
    other[64, 64] += 1
    codes = rng.integers(0, 16, 20001, np.uint8).view(dtypes.uint4.numpy)
    arrays = {
        "first": first,
        "copy": first.copy(),
        "flat": first.reshape(-1).copy(),
        "integers": first.view(np.int32).copy(),
        "turned": np.ascontiguousarray(first.T).T,
        "other": other,
        "shorter": first[:-1].copy(),
        "codes": codes,
        "codes again": codes.copy(),
    }
    for name, array in arrays.items():
        graph.add_output(constant(array, name), name)
    path = tmp_path / "a.infuse"
    save(graph, path, coded=coded)
    again = load(path)
    assert equal(graph, again) is None
    net = decoding.decode(parts(path.read_bytes())[0])
    numbers = [net.tensors[number].weight for number in net.graphs[0].outputs]
    assert numbers == [1, 1, 1, 1, 1, 2, 3, 4, 4]
    assert len(net.weights) == 4
    loaded = dict(zip(arrays, (value.const for value in again.outputs)))
    assert loaded["first"] is loaded["copy"]
    assert loaded["first"] is not None
    assert loaded["flat"] is not None
    assert np.shares_memory(loaded["first"], loaded["flat"])


def test_records_follow_the_schema() -> None:
    schema = Schema(SCHEMA)
    assert schema.identifier == records.IDENTIFIER.decode()
    declared = {
        name: records.field_types(t) for name, t in {**records.STRUCTS, **records.TABLES}.items()
    }
    assert {**schema.structs, **schema.tables} == declared
    assert schema.enums["TypeKind"] == {k.name: k.value for k in records.TypeKind}
    assert schema.enums["AttributeKind"] == {k.name: k.value for k in records.AttributeKind}
    types = {name.lower(): code for name, code in schema.enums["DataType"].items() if code}
    assert types == {d.name: d.onnx for d in dtypes.ALL}
    assert schema.enums["DataFormat"] == {f.value: i for i, f in enumerate(DataFormat)}
    assert set(schema.enums) == set(records.ENUMS)


class Schema:
    """A reader of FlatBuffers that knows nothing but the text of a schema."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"//.*", "", text)
        blocks = re.findall(r"(enum|struct|table)\s+(\w+)(?:\s*:\s*\w+)?\s*\{([^}]*)\}", text)
        self.enums = {
            n: {k: int(v) for k, v in re.findall(r"(\w+) = (\d+)", b)}
            for kind, n, b in blocks
            if kind == "enum"
        }
        self.structs = {
            n: dict(re.findall(r"(\w+): ([^;]+);", b)) for kind, n, b in blocks if kind == "struct"
        }
        self.tables = {
            n: dict(re.findall(r"(\w+): ([^;]+);", b)) for kind, n, b in blocks if kind == "table"
        }
        self.identifier = re.findall(r'file_identifier "(\w+)"', text)[0]
        self.root = re.findall(r"root_type (\w+)", text)[0]

    def read(self, data: bytes) -> dict[str, Any]:
        assert data[4:8].decode() == self.identifier
        return self.table(data, self.unpack("I", data, 0), self.root)

    @staticmethod
    def unpack(letter: str, data: bytes, at: int) -> Any:
        assert at % struct.calcsize(letter) == 0, "unaligned"
        return struct.unpack_from("<" + letter, data, at)[0]

    def table(self, data: bytes, at: int, name: str) -> dict[str, Any]:
        vtable = at - self.unpack("i", data, at)
        size = self.unpack("H", data, vtable)
        found = {}
        for index, (field, type) in enumerate(self.tables[name].items()):
            slot = 4 + 2 * index
            offset = self.unpack("H", data, vtable + slot) if slot < size else 0
            if offset:
                found[field] = self.value(data, at + offset, type)
        return found

    def value(self, data: bytes, at: int, type: str) -> Any:
        letters = {
            "bool": "?",
            "ubyte": "B",
            "int": "i",
            "uint": "I",
            "long": "q",
            "ulong": "Q",
            "double": "d",
        }
        if type in letters:
            return self.unpack(letters[type], data, at)
        if type in self.enums:
            return self.unpack("B", data, at)
        if type in self.structs:
            width = {"uint": 4, "ulong": 8}
            fields = self.structs[type].items()
            return tuple(self.value(data, at + i * width[t], t) for i, (_, t) in enumerate(fields))
        at += self.unpack("I", data, at)
        if type in self.tables:
            return self.table(data, at, type)
        count, first = self.unpack("I", data, at), at + 4
        if type == "string":
            assert data[first + count] == 0
            return data[first : first + count].decode()
        element = type[1:-1]
        sizes = {"ubyte": 1, "long": 8, "double": 8, "Symbol": 8, "Span": 16}
        return [self.value(data, first + i * sizes.get(element, 4), element) for i in range(count)]


def plain(record: Any) -> Any:
    """Records as dictionaries without the fields that are at their default."""
    if hasattr(record, "_asdict") and type(record).__name__ in records.TABLES:
        default = record._field_defaults
        given = {
            k: v
            for k, v in record._asdict().items()
            if v != default[k] and (v or isinstance(v, (bool, float)))
        }
        return {k: plain(v) for k, v in given.items()}
    if isinstance(record, (list, tuple, bytes)):
        return [plain(item) for item in record]
    return int(record) if isinstance(record, IntEnum) else record


def unstruct(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: unstruct(v) for k, v in value.items()}
    return [unstruct(v) for v in value] if isinstance(value, (list, tuple)) else value


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_another_reader_finds_the_same_by_the_schema(seed: int) -> None:
    net, _ = to_records(random_graph(random.Random(seed)), VERSION, "test")
    table = encode(net)
    found = unstruct(Schema(SCHEMA).read(table))
    assert repr(found) == repr(plain(decoding.decode(table)))
    assert repr(found) == repr(plain(net))


def test_files_of_the_first_release_still_open() -> None:
    """golden/sample.infuse.txt is a file of format 1 in hexadecimal digits; it is never written
    anew.
    """
    text = (Path(__file__).parent / "golden" / "sample.infuse.txt").read_text(encoding="ascii")
    assert equal(load_bytes(bytes.fromhex(text), "sample"), sample()) is None


# -- cost ------------------------------------------------------------------------------------------


def chain(nodes: int, weights: int, elements: int) -> Graph:
    """Weights that are zero but for the number of their node, so that all differ."""
    graph = Graph("chain")
    value = graph.add_input("x", tensor(dtypes.float32, "batch", 64, 56, 56))
    for index in range(nodes):
        name = f"/layers.{index}/Conv"
        weight = np.zeros(elements if index < weights else 1, np.float32)
        weight[0] = index
        inputs = [value, constant(weight, f"{name}.weight")] if index < weights else [value]
        operator = Toy(axis=index % 7, axes=(index % 5, 1))
        value = graph.add_node(
            Node(operator, inputs, [Value(value.type, f"{name}_output_0")], name=name)
        ).output
    graph.add_output(value, "y")
    return graph


def test_a_thousand_nodes_make_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.infuse"
    save(chain(1101, 400, 8), path)
    assert path.stat().st_size < 330_000


def resident(kind: str) -> int:
    """Bytes of this process in memory: RssAnon (own) or RssFile (mapped)."""
    (line,) = re.findall(rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_400_megabytes_open_and_stay_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "big.infuse"
    save(chain(100, 100, 1_000_000), path)
    try:
        assert path.stat().st_size > 400_000_000
        own, mapped = resident("RssAnon"), resident("RssFile")
        graph = load(path)
        assert resident("RssAnon") - own < 5_000_000
        assert resident("RssFile") - mapped < 5_000_000
        own = resident("RssAnon")
        assert sum(float(v.const.sum()) for v in graph.constants() if v.const is not None) == 4950
        assert resident("RssAnon") - own < 5_000_000
    finally:
        path.unlink()
