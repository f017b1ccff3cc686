"""Large JSON is read and written as small JSON is, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infuse.errors import RequestError
from infuse.serving.messages import InferRequest, InferResponse, RequestedOutput, Tensor
from infuse.serving.rest import codec, turns
from infuse.serving.rest.app import DataApp
from infuse.serving.rest.turns import Turns
from tests.serving.rest_tools import FakeEngine, config, plain

pytestmark = pytest.mark.row("S1")

T = TypeVar("T")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is large, and a piece is a few numbers."""
    for name, value in {"LARGE": 0, "MANY": 0, "_PIECE": 12, "_VALUES": 3}.items():
        monkeypatch.setattr(turns, name, value)


def turned(work: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """A result, and how often the loop went round meanwhile."""

    async def main() -> tuple[T, int]:
        rounds = 0

        async def count() -> None:
            nonlocal rounds
            while True:
                await asyncio.sleep(0)
                rounds += 1

        counting = asyncio.create_task(count())
        try:
            return await work, rounds
        finally:
            counting.cancel()

    return asyncio.run(main())


def body(data: Any, shape: list[int], datatype: str = "FP32", **fields: Any) -> bytes:
    tensor = {"name": "x", "shape": shape, "datatype": datatype, "data": data, **fields}
    return json.dumps({"inputs": [tensor]}).encode()


def told(decoded: Any) -> Any:
    """What was decoded, or why not: without what the reader says of an element, which it found in a piece."""
    try:
        request = decoded()
    except RequestError as error:
        return re.sub(r"(data is not \w+): .*", r"\1", str(error))
    return [(t.name, t.datatype, t.data.shape, t.data.tolist()) for t in request.inputs]


def both(text: bytes) -> tuple[Any, Any]:
    """What `codec` and `Turns` make of a body."""
    return told(lambda: codec.decode(text, None, "m")), told(lambda: turned(Turns().decode(text, None, "m"))[0])


SHAPES = [[0], [1], [7], [60], [1, 40], [40, 1], [3, 17], [2, 3, 5], [1, 1, 30], [5, 1, 2, 3], [2, 0], [0, 3]]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers_are_read_as_they_are_at_once(shape: list[int], nested: bool, indent: int | None) -> None:
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape) - 9
    data = array.tolist() if nested else array.reshape(-1).tolist()
    text = json.dumps(json.loads(body(data, shape, "INT32")), indent=indent).encode()
    once, by_turns = both(text)
    assert by_turns == once == [("x", "INT32", tuple(shape), array.tolist())]


VALUES = {
    "BOOL": [True, False] * 20,
    "UINT8": list(range(0, 250, 5)),
    "INT64": [(-1) ** n * (1 << n) for n in range(62)],
    "UINT64": [(1 << 64) - 1] * 20,
    "FP32": [0.5, -1e-45, 3.4e38, 7] * 9,
    "FP64": [0.1, -5e-324, 1.7e308] * 9,
    "BYTES": ["a,b", "[", "", "é\n", '"]'] * 9,
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("datatype", VALUES)
def test_every_datatype_is_read(datatype: str) -> None:
    once, by_turns = both(body(VALUES[datatype], [len(VALUES[datatype])], datatype))
    assert by_turns == once
    assert len(once[0][3]) == len(VALUES[datatype])


@pytest.mark.usefixtures("small")
def test_numbers_that_json_does_not_know_are_read() -> None:
    text = body([0.5, float("nan"), float("-inf")] * 9, [27])
    array = turned(Turns().decode(text, None, "m"))[0].inputs[0].data
    np.testing.assert_array_equal(array, np.tile(np.float32([0.5, np.nan, -np.inf]), 9))


LONG = list(range(40))
WRONG: dict[str, tuple[Any, list[int], str]] = {
    "too few": (LONG, [41], "FP32"),
    "too many": (LONG, [39], "FP32"),
    "a text at the end": ([*LONG, "1,[2"], [41], "FP32"),
    "a text in the middle": ([*LONG, "1,[2", *LONG], [81], "FP32"),
    "an object": ([*LONG, {"a": [1, 2]}, *LONG], [81], "FP32"),
    "a list among numbers": ([*LONG, [1], *LONG], [81], "FP32"),
    "a number among lists": ([LONG, 1, LONG], [3, 40], "FP32"),
    "null": ([*LONG, None], [41], "FP32"),
    "no whole number": ([*LONG, 0.5], [41], "INT32"),
    "out of range": ([*LONG, 256], [41], "UINT8"),
    "too large for a float": ([*LONG, 1e39], [41], "FP32"),
    "unequal rows": ([LONG, LONG[1:]], [2, 40], "FP32"),
    "a long row, a short row": ([[*LONG, 1], LONG[1:]], [2, 40], "FP32"),
    "a row too many": ([LONG, LONG], [1, 40], "FP32"),
    "an empty row": ([LONG, [], LONG], [2, 40], "FP32"),
    "rows of another size": (np.zeros((4, 10)).tolist(), [2, 20], "FP32"),
    "another depth": ([[LONG]], [2, 20], "FP32"),
    "rows of another depth": ([LONG, [LONG]], [2, 40], "FP32"),
    "no datatype": (LONG, [40], "FP31"),
    "no form in JSON": (LONG, [40], "FP16"),
    "a negative size": (LONG, [-40], "FP32"),
    "a huge shape": (LONG, [1 << 40], "FP32"),
    "texts that are numbers": (["a", 1], [2], "BYTES"),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_as_at_once(case: str) -> None:
    once, by_turns = both(body(*WRONG[case]))
    assert isinstance(once, str)
    assert by_turns == once


MALFORMED = [b"[1,2,,3]", b"[1,2,3,]", b"[1,2 3,4]", b"[1,2,3,4", b"[1,2,3]]", b"[1,2.3.4,5]", b"[01,2]", b"[1,-,2]"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("data", MALFORMED)
def test_malformed_lists_are_refused(data: bytes) -> None:
    text = b'{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":%s}]}' % data.replace(b"1,", b"1," * 30, 1)
    once, by_turns = both(text)
    assert isinstance(once, str)
    assert isinstance(by_turns, str)


LISTS = st.recursive(st.integers(-9, 9), lambda inner: st.lists(inner, max_size=4), max_leaves=30)


@settings(max_examples=300, deadline=None)
@given(data=LISTS, shape=st.lists(st.integers(0, 4), min_size=1, max_size=3), piece=st.integers(2, 40))
def test_any_lists_are_read_or_refused_as_at_once(data: Any, shape: list[int], piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "LARGE", 0)
        patch.setattr(turns, "_PIECE", piece)
        once, by_turns = both(body(data, shape, "INT8"))
    assert type(once) is type(by_turns)
    assert isinstance(once, str) or once == by_turns


@settings(max_examples=100, deadline=None)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=4), piece=st.integers(2, 40))
def test_any_tensor_is_read(shape: list[int], piece: int) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "LARGE", 0)
        patch.setattr(turns, "_PIECE", piece)
        found = turned(Turns().decode(body(array.tolist(), shape, "INT16"), None, "m"))[0]
    np.testing.assert_array_equal(found.inputs[0].data, array)


def test_the_loop_goes_round_between_pieces() -> None:
    text = body([0.5] * 400_000, [400_000])
    request, rounds = turned(Turns().decode(text, None, "m"))
    assert rounds >= len(text) // turns._PIECE
    response = InferResponse("m", "1", "", request.inputs)
    _, rounds = turned(Turns().encode(request, response))
    assert rounds >= 400_000 // turns._VALUES


def test_binary_tensors_lie_behind_large_json() -> None:
    number = {"name": "b", "shape": [2], "datatype": "INT32", "parameters": {"binary_data_size": 8}}
    large = {"name": "x", "shape": [100_000], "datatype": "FP32", "data": [0.25] * 100_000}
    head = json.dumps({"inputs": [number, large], "id": "7", "parameters": {"priority": 2}}).encode()
    request, _ = turned(Turns().decode(head + bytes(range(8)), len(head), "m", "3"))
    assert (request.model, request.version, request.id, request.priority) == ("m", "3", "7", 2)
    assert [tensor.name for tensor in request.inputs] == ["b", "x"]
    assert request.inputs[0].data.tobytes() == bytes(range(8))
    assert request.inputs[1].data.sum() == 25_000


# ------------------------------------------------------------------------------------------------- answers


ANSWERS = {
    "FP32": np.float32([0.5, np.nan, -np.inf, 3, np.inf, 1e-45, 7]),
    "INT64": np.arange(10).reshape(2, 5).T,
    "BOOL": np.array([True, False] * 4),
    "BYTES": np.array([b"a,b", "é".encode(), b'"', b""] * 3, object),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("datatype", "parameters"),
    [*((name, form) for name in ANSWERS for form in ({}, {"binary_data": True})), ("FP32", {"classification": 2})],
)
def test_answers_are_written_as_they_are_at_once(datatype: str, parameters: dict[str, Any]) -> None:
    request = InferRequest("m", outputs=[RequestedOutput("y", parameters), RequestedOutput("z")])
    outputs = [Tensor(name, datatype, ANSWERS[datatype]) for name in "yz"]
    response = InferResponse("m", "1", "5", outputs)
    length, parts = codec.encode(request, response)
    (length_by_turns, parts_by_turns), _ = turned(Turns().encode(request, response))
    assert (length_by_turns, [bytes(part) for part in parts_by_turns]) == (length, [bytes(part) for part in parts])


@pytest.mark.usefixtures("small")
def test_what_has_no_form_in_json_is_refused() -> None:
    for datatype, array in (("FP16", np.zeros(20, np.float16)), ("BYTES", np.array([b"a"] * 19 + [b"\xff"], object))):
        response = InferResponse("m", "1", "", [Tensor("y", datatype, array)])
        with pytest.raises(RequestError, match="binary_data"):
            turned(Turns().encode(InferRequest("m"), response))


# ------------------------------------------------------------------------------------------------- the application


async def ask(app: DataApp, body: bytes) -> Any:
    """The answer to a request, as JSON."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    path = "/v2/models/echo/infer"
    await app({"type": "http", "method": "POST", "path": path, "headers": [(b"host", b"127.0.0.1")]}, receive, send)
    return json.loads(b"".join(bytes(message["body"]) for message in sent[1:]))


def test_a_small_request_does_not_wait_for_a_large_one() -> None:
    numbers = np.arange(400_000, dtype=np.float32).reshape(-1, 4)
    app = DataApp(FakeEngine(), config())
    order: list[str] = []

    async def answer(name: str, array: Any) -> Any:
        answered = await ask(app, plain(array.tolist(), list(array.shape)))
        order.append(name)
        return answered["outputs"][0]

    async def main() -> list[Any]:
        return await asyncio.gather(answer("large", numbers), answer("small", numbers[:1]))

    large, small = asyncio.run(main())
    assert order == ["small", "large"]
    assert (small["shape"], small["data"]) == ([1, 4], [0, 1, 2, 3])
    assert (large["shape"], large["data"]) == ([100_000, 4], numbers.reshape(-1).tolist())


def test_a_large_request_that_is_wrong_is_refused() -> None:
    app = DataApp(FakeEngine(), config())
    for data, shape, reason in (
        ([0.5] * 100_000, [100_001], "needs 100001 elements, but 100000 are given"),
        ([0.5] * 100_000 + ["a"], [100_001], "its data is not FP32"),
    ):
        assert reason in asyncio.run(ask(app, plain(data, shape)))["error"]
