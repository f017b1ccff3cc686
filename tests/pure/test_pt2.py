"""Programs of torch.export without torch: a whole one, and what is none, or a broken one, for which
there is an error that says what and where, and no other exception.
"""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate

PATH = Path(__file__).resolve().parents[1] / "models" / "data" / "small.pt2"
MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
Members = dict[str, bytes]


@pytest.fixture(scope="module")
def members() -> Members:
    """The members of the program's archive, without the folder around them."""
    with zipfile.ZipFile(PATH) as archive:
        return {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}


def packed(members: Members) -> bytes:
    """An archive of these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"small/{name}", data)
    return buffer.getvalue()


def changed(members: Members, member: str, change: Callable[[Any], None]) -> bytes:
    """The archive with a member of JSON changed."""
    content = json.loads(members[member])
    change(content)
    return packed({**members, member: json.dumps(content).encode()})


def nodes(content: Any) -> Any:
    """The calls of a program."""
    return content["graph_module"]["graph"]["nodes"]


@pytest.mark.parametrize("positive", [True, False])
def test_a_program_is_read_without_torch(positive: bool) -> None:
    graph = infuse.load(PATH)
    verify(graph)
    assert [v.name for v in graph.inputs] == ["calls", "x", "positive"]
    assert graph.inputs[1].shape[1] == 4
    assert not isinstance(graph.inputs[1].shape[0], int)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    outputs = list(evaluate(graph, {"x": x, "positive": np.array(positive)}).items())
    assert outputs[0][0] == "calls.out"
    np.testing.assert_array_equal(outputs[0][1], [1, 1])
    weights = [v.const for n in graph.nodes for v in n.operands() if v.const is not None]
    weight, bias = (next(c for c in weights if c.shape == shape) for shape in ((4, 3), (3,)))
    y = np.maximum(x @ weight + bias, 0)
    y = np.sin(y) if positive else y - 1
    np.testing.assert_allclose(outputs[1][1], y, rtol=1e-5, atol=1e-6)
    top = -np.sort(-y, axis=1)[:, :2]
    np.testing.assert_allclose(outputs[2][1], top.sum() + 2, rtol=1e-5)


def test_archives_that_are_cut_off_are_refused() -> None:
    data = PATH.read_bytes()
    for size in [*range(4, 200, 9), *range(200, len(data) - 1, 97)]:
        with pytest.raises(InfuseError):
            infuse.load(data[:size])


def test_bytes_at_random_give_errors_or_a_graph(members: Members) -> None:
    data = PATH.read_bytes()
    rng = random.Random(1)
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(rng.choice([1, 3, 20])):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        _errors_or_a_graph(bytes(broken))


def test_values_at_random_give_errors_or_a_graph(members: Members) -> None:
    content = json.loads(members[MODEL])
    rng = random.Random(2)
    strange = [None, -1, 0, 1 << 70, 1.5, "", "x", [], {}, True, [[]], {"as_none": True}]
    places = list(_places(content))
    for _ in range(300):
        broken = copy.deepcopy(content)
        for _ in range(rng.choice([1, 1, 3])):
            *path, last = rng.choice(places)
            try:
                place = broken
                for key in path:
                    place = place[key]
                if rng.random() < 0.3:
                    del place[last]
                else:
                    place[last] = rng.choice(strange)
            except (LookupError, TypeError):
                continue
        _errors_or_a_graph(packed({**members, MODEL: json.dumps(broken).encode()}))


def _places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = (
        content.items() if isinstance(content, dict)
        else enumerate(content) if isinstance(content, list)
        else ()
    )  # fmt: skip
    for key, value in entries:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _errors_or_a_graph(data: bytes) -> None:
    with suppress(InfuseError):
        verify(infuse.load(data))


@pytest.mark.parametrize(
    "text", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100000, b'{"schema_version": 3}', b"{}"]
)
@pytest.mark.parametrize("member", [MODEL, WEIGHTS])
def test_members_that_are_no_program_are_refused(
    members: Members, member: str, text: bytes
) -> None:
    with pytest.raises(ModelFileError):
        infuse.load(packed({**members, member: text}))


def test_an_archive_without_a_program_is_refused(members: Members) -> None:
    rest = {name: data for name, data in members.items() if name != MODEL}
    with pytest.raises(ModelFileError, match="no exported program"):
        infuse.load(packed(rest))


def test_several_programs_are_refused(members: Members) -> None:
    program = members[MODEL]
    rest = {name: data for name, data in members.items() if name != MODEL}
    two = {**rest, "models/a.json": program, "models/b.json": program}
    with pytest.raises(ModelFileError, match="a, b"):
        infuse.load(packed(two))


def test_another_version_of_the_schema_is_refused(members: Members) -> None:
    data = changed(members, MODEL, lambda c: c["schema_version"].update(major=99))
    with pytest.raises(ModelFileError, match="version 99"):
        infuse.load(data)


def weight_named(content: Any) -> Any:
    """The entry of the first layer's weight."""
    return content["config"]["first.weight"]


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e["tensor_meta"].update(sizes=[{"as_int": 1 << 40}, {"as_int": 4}]),
        lambda e: e["tensor_meta"].update(strides=[{"as_int": 1 << 62}, {"as_int": 1}]),
        lambda e: e["tensor_meta"].update(strides=[{"as_int": -4}, {"as_int": 1}]),
        lambda e: e["tensor_meta"].update(storage_offset={"as_int": 5}),
        lambda e: e["tensor_meta"].update(sizes=[{"as_expr": {}}, {"as_int": 4}]),
        lambda e: e["tensor_meta"].update(dtype=99),
        lambda e: e.update(path_name="elsewhere"),
        lambda e: e.update(path_name="../../../etc/passwd"),
        lambda e: e.update(use_pickle=True),
        lambda e: e.update(tensor_meta=None),
        lambda e: e.clear(),
    ],
)
def test_weights_that_are_not_as_the_file_says_are_refused(
    members: Members, change: Callable[[Any], None]
) -> None:
    with pytest.raises(ModelFileError):
        infuse.load(changed(members, WEIGHTS, lambda c: change(weight_named(c))))


def test_missing_weights_are_named(members: Members) -> None:
    data = changed(members, WEIGHTS, lambda c: c["config"].pop("first.bias"))
    with pytest.raises(ModelFileError, match=r"no tensor 'first\.bias'"):
        infuse.load(data)


def test_all_unknown_operators_are_named(members: Members) -> None:
    def change(content: Any) -> None:
        for node, name in zip(nodes(content), ("foo", "bar")):
            node["target"] = f"torch.ops.aten.{name}.default"

    with pytest.raises(UnsupportedOperatorError) as caught:
        infuse.load(changed(members, MODEL, change))
    assert "aten.foo.default" in str(caught.value)
    assert "aten.bar.default" in str(caught.value)


def test_a_result_of_another_type_is_refused(members: Members) -> None:
    def change(content: Any) -> None:
        values = content["graph_module"]["graph"]["tensor_values"]
        values["linear"]["dtype"] = 8

    with pytest.raises(ModelFileError, match="fault of Infuse"):
        infuse.load(changed(members, MODEL, change))
