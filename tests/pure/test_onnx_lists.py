"""Long lists of attributes are read as protobuf reads them, whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from infuse.errors import TypeMismatchError
from infuse.frontends.onnx import lists, wire
from infuse.ops.domains import classic_forest as forests
from infuse.ops.domains.classic_forest import classic_forest
from infuse.ops.domains.forest import levels_of

RNG = np.random.default_rng(0)
LONG = 1 << 63
NUMBERS = {
    "small": [0, 1, 127] * 9000,
    "of every length": [(1 << bits) - 1 + more for bits in range(63) for more in (0, 1)] * 200,
    "negative": [-1, -LONG, LONG - 1, 0, -128, 128, 1 << 31] * 3000,
    "of int32": RNG.integers(-(2**31), 2**31, 9000).tolist(),
}
TEXTS = {
    "few": ["BRANCH_LEQ", "LEAF", "BRANCH_EQ"] * 3000,
    "many": [f"text {number}" for number in range(3000)],
    "with the tag's letter": ["JAR", "LEAF", "J"] * 5000,
    "long and empty": ["", "x" * 127, "x" * 128, "é" * 63] * 500,
    "not of Unicode": ["\udcff\udc80", "\0\0"] * 5000,
}
FLOATS = np.frombuffer(RNG.bytes(40_000), np.float32)


def message(attribute: AttributeProto) -> bytes:
    node = NodeProto(op_type="Thing", attribute=[attribute])
    return ModelProto(graph=GraphProto(node=[node])).SerializeToString()


def taken(data: bytes) -> tuple[AttributeProto, object]:
    """The attribute that is left of a model, and the list that was taken out of it, if any."""
    small, payloads = wire.split(memoryview(data), "model")
    (node,) = ModelProto.FromString(small).graph.node
    return node.attribute[0], payloads.take_list(node.attribute[0].s)


@pytest.fixture(params=[1 << 20, 300], ids=["at once", "in pieces"])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(lists, "_CHUNK", request.param)
    return int(request.param)


@pytest.mark.parametrize("kind", NUMBERS)
def test_integers(kind: str, chunk: int) -> None:
    given = AttributeProto(name="a", type=AttributeProto.INTS, ints=NUMBERS[kind])
    left, elements = taken(message(given))
    assert not left.ints
    assert isinstance(elements, np.ndarray)
    assert elements.tolist() == NUMBERS[kind]


@pytest.mark.parametrize("kind", TEXTS)
def test_texts(kind: str, chunk: int) -> None:
    raw = [text.encode("utf-8", "surrogateescape") for text in TEXTS[kind]]
    left, elements = taken(
        message(AttributeProto(name="a", type=AttributeProto.STRINGS, strings=raw))
    )
    if kind in ("with the tag's letter", "long and empty"):
        assert elements is None
        assert list(left.strings) == raw
    else:
        assert elements == tuple(TEXTS[kind])
        assert not left.strings


def test_floats_bit_by_bit(chunk: int) -> None:
    given = AttributeProto(name="a", type=AttributeProto.FLOATS)
    given.floats.extend(FLOATS.tolist())
    _, elements = taken(message(given))
    assert isinstance(elements, np.ndarray)
    # What Python's numbers make of signaling NaN is not the reader's.
    expected = np.array(given.floats, np.float32)
    np.testing.assert_array_equal(elements, expected)
    assert (np.isnan(elements) | (elements.view(np.uint32) == expected.view(np.uint32))).all()


@pytest.mark.parametrize(
    ("numbers", "is_thin"),
    [
        ([1.0] * 20_000, True),
        ([float("nan")] * 20_000, True),
        ([0.0] * 10_000 + [-0.0] * 10_000, False),
        ([0.0, -0.0] * 10_000, False),
        ([1.0] * 19_999 + [2.0], False),
    ],
)
def test_a_list_of_one_number_takes_its_memory_once(
    numbers: list[float], is_thin: bool, chunk: int
) -> None:
    given = AttributeProto(name="a", type=AttributeProto.FLOATS, floats=numbers)
    _, elements = taken(message(given))
    assert isinstance(elements, np.ndarray)
    assert elements.tobytes() == np.array(numbers, np.float32).tobytes()
    assert (elements.strides == (0,)) == is_thin


@pytest.mark.parametrize("whole", [True, False])
def test_a_list_of_one_integer_takes_its_memory_once(whole: bool, chunk: int) -> None:
    numbers = [300] * 20_000
    data = (
        packed(8, AttributeProto.INTS, varints(numbers))
        if whole
        else message(AttributeProto(name="a", type=AttributeProto.INTS, ints=numbers))
    )
    _, elements = taken(data)
    assert isinstance(elements, np.ndarray)
    assert (elements.tolist(), elements.strides) == (numbers, (0,))


def packed(number: int, kind: int, elements: bytes) -> bytes:
    """A model with one attribute, whose list is one field."""

    def field(place: int, content: bytes) -> bytes:
        return wire._varint(place << 3 | 2) + wire._varint(len(content)) + content

    attribute = field(1, b"a") + field(number, elements) + wire._varint(20 << 3) + bytes([kind])
    return field(7, field(1, field(4, b"Thing") + field(5, attribute)))


def varints(numbers: list[int]) -> bytes:
    return b"".join(wire._varint(number % (2 * LONG)) for number in numbers)


@pytest.mark.parametrize("kind", NUMBERS)
def test_packed_integers(kind: str, chunk: int) -> None:
    data = packed(8, AttributeProto.INTS, varints(NUMBERS[kind]))
    assert list(ModelProto.FromString(data).graph.node[0].attribute[0].ints) == NUMBERS[kind]
    _, elements = taken(data)
    assert isinstance(elements, np.ndarray)
    assert elements.tolist() == NUMBERS[kind]


def test_packed_floats() -> None:
    _, elements = taken(packed(7, AttributeProto.FLOATS, FLOATS.tobytes()))
    assert isinstance(elements, np.ndarray)
    assert elements.tobytes() == FLOATS.tobytes()


def test_what_is_no_single_run_is_left_to_protobuf() -> None:
    run = message(AttributeProto(name="a", type=AttributeProto.INTS, ints=[5] * 20_000))
    other = AttributeProto(name="a", type=AttributeProto.INTS, ints=[5] * 20_000, floats=[1.0])
    named = AttributeProto(name="a", type=AttributeProto.FLOATS, ints=[5] * 20_000)
    texts = AttributeProto(name="a", type=AttributeProto.INTS, ints=[5] * 20_000, s=b"text")
    assert taken(run)[1] is not None
    for attribute in (other, named, texts):
        left, elements = taken(message(attribute))
        assert elements is None
        assert left == attribute


def test_a_number_that_does_not_end_is_an_error_of_the_file() -> None:
    data = packed(8, AttributeProto.INTS, b"\x80" * 20_000)
    left = wire.split(memoryview(data), "model")[0]
    assert left == data


# -- forests ---------------------------------------------------------------------------------------


def trees(order: np.ndarray, low: int, names: tuple[int, int]) -> dict[str, object]:
    """Two trees whose nodes stand in this order, their numbers from `low` on."""
    ids = np.array([0, 1, 2, 3, 4, 0, 1, 2]) + low
    true = np.array([1, 3, 0, 0, 0, 1, 0, 0]) + low
    false = np.array([2, 4, 0, 0, 0, 2, 0, 0]) + low
    tree = np.array([names[0]] * 5 + [names[1]] * 3)
    modes = np.array(["BRANCH_LEQ", "BRANCH_LT", *["LEAF"] * 3, "BRANCH_GT", *["LEAF"] * 2])
    return {
        "nodes_treeids": tree[order],
        "nodes_nodeids": ids[order],
        "nodes_featureids": np.array([0, 2, 0, 0, 0, 1, 0, 0])[order],
        "nodes_values": np.array([0.5, -1, 0, 0, 0, 0.25, 0, 0], np.float32)[order],
        "nodes_truenodeids": true[order],
        "nodes_falsenodeids": false[order],
        "nodes_modes": tuple(modes[order]),
        "nodes_missing_value_tracks_true": (),
        "v_treeids": np.array([names[0]] * 3 + [names[1]] * 2),
        "v_nodeids": np.array([2, 3, 4, 1, 2]) + low,
        "v_ids": np.zeros(5, np.int64),
        "v_weights": np.array([0.5, -0.25, 1.5, 0.75, -1.0], np.float32),
    }


IN_ORDER = np.arange(8)
# The root of a tree is its first node, wherever the others stand.
MIXED = np.array([0, 5, 7, 3, 1, 4, 6, 2])


@pytest.fixture(params=[1 << 16, 3], ids=["at once", "in blocks"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(forests, "_BLOCK", request.param)
    return int(request.param)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("order", [IN_ORDER, MIXED], ids=["in order", "mixed"])
@pytest.mark.parametrize("low", [0, 1, -100, 1 << 40, -(1 << 40)])
@pytest.mark.parametrize("names", [(0, 1), (-5, 1 << 60)])
def test_forests_whatever_the_numbers_of_their_nodes(
    order: np.ndarray, low: int, names: tuple[int, int]
) -> None:
    rows = RNG.normal(size=(50, 3)).astype(np.float32)
    x, y, z = rows.T
    first = np.where(x <= 0.5, np.where(z < -1, -0.25, 1.5), 0.5)
    expected = first + np.where(y > 0.25, 0.75, -1.0)
    forest = classic_forest("Trees", trees(order, low, names), "v", 1, np.float32)
    np.testing.assert_array_equal(forest.scores(rows, 1, "SUM")[:, 0], expected.astype(np.float32))


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("order", [IN_ORDER, MIXED], ids=["in order", "mixed"])
@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("nodes_nodeids", 3, 1, "two nodes of one number"),
        ("nodes_truenodeids", 1, 99, "leads nowhere"),
        ("nodes_truenodeids", 1, -1, "leads nowhere"),
        ("nodes_featureids", 0, -1, "leads nowhere"),
        ("v_treeids", 0, 7, "a vote of node 2 of tree 7"),
        ("v_nodeids", 0, 1 << 50, "which is not there"),
        ("v_ids", 0, 1, "for 1, which is not there"),
        ("nodes_nodeids", 3, 1 << 62, "numbers of nodes from 0"),
    ],
)
def test_lists_that_contradict_each_other(
    order: np.ndarray, name: str, place: int, value: int, message: str
) -> None:
    attributes = trees(IN_ORDER, 0, (0, 1))
    attributes[name] = np.array(attributes[name], np.int64)
    attributes[name][place] = value  # type: ignore[index]
    for key in list(attributes):
        if key.startswith("nodes_") and len(attributes[key]):  # type: ignore[arg-type]
            listed = np.asarray(attributes[key])[order]
            attributes[key] = tuple(listed.tolist()) if key == "nodes_modes" else listed
    with pytest.raises(TypeMismatchError, match=message):
        classic_forest("Trees", attributes, "v", 1, np.float32)


def test_levels_where_ways_meet_and_where_they_do_not_end() -> None:
    # 0 leads to 1 and 2; both lead to 3, and 2 to 1: the longest way to 3 has three branches.
    branches = np.array([[1, 2], [3, 4], [3, 1], [3, 3], [4, 4], [5, 5]])
    is_leaf = np.array([False, False, False, True, True, True])
    assert levels_of(branches, np.array([0]), is_leaf).tolist() == [0, 2, 1, 3, 3, -1]
    assert levels_of(branches, np.array([1, 5]), is_leaf).tolist() == [-1, 0, -1, 1, 1, 0]
    assert levels_of(branches, np.array([1, 1]), is_leaf).tolist() == [-1, 0, -1, 1, 1, -1]
    branches[1, 0] = 0
    with pytest.raises(TypeMismatchError, match="comes back"):
        levels_of(branches, np.array([0]), is_leaf)
