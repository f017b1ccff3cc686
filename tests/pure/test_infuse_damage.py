"""Files that are no .infuse files, damaged or hostile: always an error of ours."""

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

from infuse.errors import GraphError, ModelFileError, UnsupportedOperatorError
from infuse.ir import Graph, Node
from infuse.ir.file import VERSION, load, load_bytes, read_header, save
from infuse.ir.flat import decode as decoding, records
from infuse.ir.flat.encode import encode
from infuse.ir.verify import verify
from tests.pure.infuse_bytes import HEADER, parts, repack, sample
from tests.pure.random_graphs import Toy

pytestmark = pytest.mark.row("C6")


@pytest.fixture
def stored(tmp_path: Path) -> bytes:
    save(sample(), tmp_path / "sample.infuse")
    return (tmp_path / "sample.infuse").read_bytes()


# -- files that cannot be read or written ----------------------------------------------------------


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.infuse"):
        with pytest.raises(ModelFileError, match="cannot be opened"):
            load(path)
    for path in (tmp_path, tmp_path / "missing" / "a.infuse"):
        with pytest.raises(ModelFileError, match="cannot be written"):
            save(Graph(), path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.infuse"
    save(sample(), path)
    before = path.read_bytes()
    for bad in (
        Toy(given=[1]),
        Toy(given={}),
        Toy(given=np.array([1, "x"], dtype=object)),
        Toy(mode="\ud800"),
    ):
        graph = Graph()
        graph.add_node(Node(bad, [], []))
        with pytest.raises(GraphError, match="cannot be stored"):
            save(graph, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.infuse"]


def refused(data: bytes, what: str = r"\w") -> None:
    with pytest.raises(ModelFileError, match=what):
        load_bytes(data, "memory")


def test_every_truncation_is_refused(tmp_path: Path, stored: bytes) -> None:
    path = tmp_path / "cut.infuse"
    for length in [*range(0, len(stored), 64), *range(64), len(stored) - 1]:
        path.write_bytes(stored[:length])
        with pytest.raises(ModelFileError, match=r"cut\.infuse"):
            load(path)


def test_foreign_files_are_refused(stored: bytes) -> None:
    refused(b"\x08\x07\x12\x04" * 40, "the file is no .infuse file")
    refused(b"PK\x03\x04".ljust(200, b"\0"), "the file is no .infuse file")
    refused(stored[:6] + b"\0\2" + stored[8:], "the file is no .infuse file")
    refused(
        stored[:8] + struct.pack("<I", VERSION + 1) + stored[12:],
        "has version 2, this release reads up to 1",
    )
    refused(stored + b"\0", "should have")
    flipped = bytearray(stored)
    flipped[100] ^= 1
    refused(bytes(flipped), "does not match its checksum")
    table, weights = parts(stored)
    refused(repack(table[:4] + b"TFL3" + table[8:], weights), "does not have its mark")
    refused(repack(b"", weights), "does not have its mark")


@pytest.mark.parametrize("field", range(7))
@pytest.mark.parametrize("value", [0, 1, 63, 65, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
def test_headers_that_lie_are_refused(stored: bytes, field: int, value: int) -> None:
    header: list[Any] = list(HEADER.unpack_from(stored))
    header[field] = (
        value.to_bytes(8, "little") if field == 0 else value % 2**32 if field < 3 else value
    )
    if HEADER.pack(*header) != stored[: HEADER.size]:
        refused(HEADER.pack(*header) + stored[HEADER.size :])


# -- tables that contradict themselves -------------------------------------------------------------


def changed(net: records.Net, table: str, index: int, **fields: Any) -> records.Net:
    items = list(getattr(net, table))
    items[index] = items[index]._replace(**fields)
    return net._replace(**{table: items})


def tensor_changed(net: records.Net, name: str, **fields: Any) -> records.Net:
    (index,) = [i for i, t in enumerate(net.tensors) if t.name == name]
    return changed(net, "tensors", index, **fields)


def op(net: records.Net, graph: int, index: int, **fields: Any) -> records.Net:
    ops = list(net.graphs[graph].ops)
    ops[index] = ops[index]._replace(**fields)
    return changed(net, "graphs", graph, ops=ops)


Change = Callable[[records.Net], records.Net]
LIES: dict[str, tuple[Change, str]] = {
    "no graph": (lambda n: n._replace(graphs=()), "there is no graph number 0"),
    "body of itself": (lambda n: op(n, 0, 1, bodies=[records.Body("b", 0)]), "inside itself"),
    "body twice": (
        lambda n: op(n, 0, 0, bodies=[records.Body("b", 1)]),
        "is read where it is not made yet|used twice",
    ),
    "body in itself": (lambda n: op(n, 1, 0, bodies=[records.Body("b", 1)]), "inside itself"),
    "two bodies of a name": (
        lambda n: op(
            n._replace(graphs=[*n.graphs, records.SubGraph()]),
            0,
            1,
            bodies=[(records.Body("b", i)) for i in (1, 2)],
        ),
        "two bodies of one name",
    ),
    "no such body": (
        lambda n: op(n, 0, 1, bodies=[records.Body("b", 9)]),
        "there is no graph number 9",
    ),
    "no such operator": (lambda n: op(n, 0, 0, operator=99), "there is no operator number 99"),
    "no such input": (lambda n: op(n, 0, 0, inputs=[99]), "there is no tensor number 99"),
    "input below -1": (lambda n: op(n, 0, 0, inputs=[-2]), "there is no tensor number -2"),
    "cycle": (
        lambda n: op(n, 0, 0, inputs=n.graphs[0].ops[1].outputs),
        "is read where it is not made yet",
    ),
    "self loop": (
        lambda n: op(n, 0, 0, inputs=n.graphs[0].ops[0].outputs),
        "is read where it is not made yet",
    ),
    "reads a body": (
        lambda n: changed(n, "graphs", 0, outputs=n.graphs[1].outputs, output_names=["y"]),
        "'b' is read where it is not made yet",
    ),
    "made twice": (lambda n: op(n, 0, 1, outputs=n.graphs[0].ops[0].outputs), "'a' is made twice"),
    "input twice": (lambda n: changed(n, "graphs", 0, inputs=[0, 0]), "'x' is made twice"),
    "constant made": (lambda n: op(n, 0, 1, outputs=[1]), "'w' is made twice"),
    "names missing": (
        lambda n: changed(n, "graphs", 0, output_names=["y"]),
        "2 outputs with 1 names",
    ),
    "no such type": (lambda n: tensor_changed(n, "x", type=99), "there is no type number 99"),
    "no such weight": (lambda n: tensor_changed(n, "w", weight=99), "there is no weight number 98"),
    "constant of unknown size": (lambda n: tensor_changed(n, "w", type=0), "not a possible shape"),
    "constant of another size": (
        lambda n: changed(n, "types", 1, shape=[38]),
        r"float32\[38\] has 148 bytes",
    ),
    "constant that overflows": (
        lambda n: changed(n, "types", 1, shape=[2**62, 4]),
        "not a possible shape",
    ),
    "empty constant that overflows": (
        lambda n: changed(n, "types", 1, shape=[0, 2**62]),
        "not a possible shape",
    ),
    "negative size": (lambda n: changed(n, "types", 1, shape=[-37]), "negative size"),
    "no such element type": (
        lambda n: changed(n, "types", 1, data_type=99),
        "there is no element type number 99",
    ),
    "no such format": (
        lambda n: changed(n, "types", 1, data_format=99),
        "there is no data format number 99",
    ),
    "format of a low rank": (
        lambda n: changed(n, "types", 1, data_format=2),
        "rank 1 cannot be stored as NHWC",
    ),
    "no such kind of type": (lambda n: changed(n, "types", 1, kind=99), "99 is not a kind of type"),
    "type in itself": (
        lambda n: changed(n, "types", 1, kind=2, element=1),
        "no type before this one number 1",
    ),
    "constant sequence": (
        lambda n: changed(n, "types", 1, kind=2, element=0),
        "a constant is a seq",
    ),
    "symbol beyond": (
        lambda n: changed(n, "types", 1, symbols=[records.Symbol(9, 0)]),
        "there is no size number 9",
    ),
    "no such symbol": (
        lambda n: changed(n, "types", 1, symbols=[records.Symbol(0, 9)]),
        "there is no dimension number 9",
    ),
    "odd dimension": (lambda n: n._replace(dims=["batch", "a +"]), "expected a size"),
    "long dimension": (lambda n: n._replace(dims=["batch", "a" * 5000]), "5000 characters"),
    "unaligned": (lambda n: changed(n, "weights", 1, offset=193), "unaligned"),
    "overlapping": (lambda n: changed(n, "weights", 1, offset=64), "over another"),
    "outside": (lambda n: changed(n, "weights", 2, length=2**63), "outside of its section"),
    "overflowing": (
        lambda n: changed(n, "weights", 2, offset=2**64 - 64, length=2**64 - 1),
        "outside of its section",
    ),
    "texts missing": (lambda n: tensor_changed(n, "text", texts=[]), "string.* has 0 elements"),
    "kind of attribute": (
        lambda n: changed(n, "operators", 0, attributes=[records.Attribute("a", 99)]),
        "there is no kind of attribute number 99",
    ),
    "float without number": (
        lambda n: changed(
            n, "operators", 0, attributes=[records.Attribute("a", records.AttributeKind.Float)]
        ),
        "there is no number of an attribute",
    ),
    "big number": (
        lambda n: changed(
            n,
            "operators",
            0,
            attributes=[records.Attribute("a", records.AttributeKind.BigInt, text="9e9")],
        ),
        "not a whole number",
    ),
    "array of other size": (
        lambda n: changed(
            n,
            "operators",
            0,
            attributes=[records.Attribute("a", records.AttributeKind.Array, 1, data=b"x")],
        ),
        r"float32\[37\] has 1 bytes",
    ),
    "content of other size": (
        lambda n: tensor_changed(n, "c", content=records.Content([3], [1, 2])),
        "no possible shape",
    ),
    "content of negative size": (
        lambda n: tensor_changed(n, "c", content=records.Content([-1, -2], [1, 2])),
        "no possible shape",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_tables_that_lie_are_refused(stored: bytes, lie: str) -> None:
    table, weights = parts(stored)
    change, what = LIES[lie]
    refused(repack(encode(change(decoding.decode(table))), weights), what)


def test_attributes_that_the_operator_does_not_take(stored: bytes) -> None:
    table, weights = parts(stored)
    net = changed(decoding.decode(table), "operators", 0, attributes=[records.Attribute("heat")])
    with pytest.raises(UnsupportedOperatorError, match="does not take these attributes: heat"):
        load_bytes(repack(encode(net), weights), "memory")


def test_deep_nesting_is_refused() -> None:
    attribute = records.Attribute("x")
    for _ in range(200):
        attribute = records.Attribute("x", records.AttributeKind.Tuple, items=[attribute])
    net = records.Net(
        operators=[records.Operator("", "Branch", [attribute])], graphs=[records.SubGraph()]
    )
    refused(repack(encode(net), b""), "nested more than 64 deep")
    count = 300
    bodies = [
        records.SubGraph(ops=[records.Op(bodies=[records.Body("b", i + 1)])]) for i in range(count)
    ]
    net = records.Net(
        operators=[records.Operator("", "Branch")], graphs=[*bodies, records.SubGraph()]
    )
    refused(repack(encode(net), b""), "nested too deep")


def test_tables_that_share_bytes_cannot_multiply() -> None:
    """Thirty levels of tuples, each of which holds the next one twice: 2^30 attributes in 1 KB."""
    builder = flatbuffers.Builder(0)

    def table(*slots: tuple[int, int]) -> int:
        builder.StartObject(9)
        for slot, offset in slots:
            builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        if slots == ((8, slots[0][1]),):
            builder.PrependUint8Slot(1, records.AttributeKind.Tuple, 0)
        return int(builder.EndObject())

    def vector(*offsets: int) -> int:
        builder.StartVector(4, len(offsets), 4)
        for offset in offsets:
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    attribute = table((0, builder.CreateString("leaf")))
    for _ in range(30):
        attribute = table((8, vector(attribute, attribute)))
    operator = table((2, vector(attribute)))
    builder.Finish(table((4, vector(operator))), file_identifier=records.IDENTIFIER)
    with pytest.raises(ModelFileError, match="parts of the table overlap"):
        decoding.decode(bytes(builder.Output()))  # each part once; 2 ** 30 would take hours


def test_mutated_files_give_an_error_of_ours_or_a_sound_graph(stored: bytes) -> None:
    """2,000 files: bytes, words and runs of the table changed under a right checksum, or random
    bytes.
    """
    table, weights = parts(stored)
    rnd = random.Random(0)
    survived = 0
    for _ in range(2000):
        damaged = bytearray(table)
        for _ in range(rnd.choice([1, 1, 2, 5])):
            at = rnd.randrange(len(damaged))
            kind = rnd.randrange(5)
            if kind == 0:
                damaged[at] ^= 1 << rnd.randrange(8)
            elif kind == 1:
                damaged[at] = rnd.choice([0, 1, 4, 127, 128, 255])
            elif kind == 2:
                at -= at % 4
                damaged[at : at + 4] = struct.pack(
                    "<I", rnd.choice([0, 1, 4, 8, len(table), 2**31 - 1, 2**31, 2**32 - 1])
                )
            elif kind == 3:
                other = rnd.randrange(len(damaged))
                length = rnd.randrange(1, 64)
                damaged[at : at + length] = damaged[other : other + length]
            else:
                damaged[at : at + 16] = rnd.randbytes(16)
        try:
            graph = load_bytes(repack(bytes(damaged), weights), "memory")
        except (ModelFileError, UnsupportedOperatorError):
            continue
        survived += 1
        verify(graph, infer=False)
    assert 0 < survived < 1500
    for _ in range(300):
        refused(repack(b"\x08\0\0\0INFU" + rnd.randbytes(rnd.randrange(200)), b""))
        refused(rnd.randbytes(rnd.randrange(300)))


def test_the_header_of_a_sound_file(stored: bytes) -> None:
    header = read_header(stored, "memory")
    assert (header.magic, header.version, header.table) == (b"INFUSE\0\1", 1, 64)
    assert header.weights + header.weights_length == len(stored)
