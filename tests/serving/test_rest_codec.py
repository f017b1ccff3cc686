"""Requests and responses as bytes: JSON, the binary tensor extension and raw requests."""

import json
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from infuse.errors import RequestError
from infuse.serving.datatypes import BYTES, NUMPY, RAW_ONLY
from infuse.serving.messages import InferRequest, InferResponse, RequestedOutput, Tensor
from infuse.serving.transports.rest.codec import (
    Signature,
    decode,
    decode_raw,
    encode,
)
from tests.serving.rest_tools import binary, plain

pytestmark = pytest.mark.row("S1")


def answered(response: InferResponse, request: InferRequest | None = None) -> tuple[Any, bytes]:
    """The JSON of an answer and the bytes behind it."""
    length, parts = encode(request or InferRequest("m"), response)
    assert length in (None, len(parts[0]))
    assert (length is None) == (len(parts) == 1)
    return json.loads(bytes(parts[0])), b"".join(map(bytes, parts[1:]))


def same(left: Any, right: Any) -> None:
    assert left.shape == right.shape
    assert left.dtype == right.dtype
    if left.dtype == object:
        assert left.tolist() == right.tolist()
    else:
        assert left.tobytes() == right.tobytes()


@st.composite
def tensors(draw: Any, raw: bool) -> tuple[str, Any]:
    datatype = draw(st.sampled_from([name for name in NUMPY if raw or name not in RAW_ONLY]))
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    if datatype == BYTES:
        element = st.binary(max_size=9) if raw else st.text(max_size=9).map(str.encode)
        values = draw(st.lists(element, min_size=math.prod(shape), max_size=math.prod(shape)))
        flat = np.empty(len(values), object)
        flat[:] = values
        return datatype, flat.reshape(shape)
    if datatype == "BF16":
        return datatype, draw(arrays.arrays(np.uint16, shape)).view(ml_dtypes.bfloat16)
    # What a NaN carries besides is no part of JSON.
    elements = (
        None
        if raw or datatype[0] != "F"
        else st.floats(allow_nan=True, width=int(datatype[2:])).map(quiet)
    )
    return datatype, draw(arrays.arrays(NUMPY[datatype], shape, elements=elements))


def quiet(value: float) -> float:
    return math.nan if math.isnan(value) else value


@settings(deadline=None, max_examples=200)
@given(st.lists(tensors(raw=True), min_size=1, max_size=3))
def test_binary_requests_and_answers_keep_every_bit(given_tensors: list[tuple[str, Any]]) -> None:
    outputs = [
        Tensor(f"t{place}", datatype, array)
        for place, (datatype, array) in enumerate(given_tensors)
    ]
    asked = InferRequest("m", parameters={"binary_data_output": True})
    length, parts = encode(asked, InferResponse("m", "1", "7", outputs))
    answer = json.loads(bytes(parts[0]))
    assert length == len(parts[0])
    # An answer has the form of a request, but for its names.
    head = json.dumps({"id": answer["id"], "inputs": answer["outputs"]}).encode()
    request = decode(head + b"".join(map(bytes, parts[1:])), len(head), "m")
    assert request.id == "7"
    for (_, array), found in zip(given_tensors, request.inputs):
        same(found.data, array)


@settings(deadline=None, max_examples=200)
@given(tensors(raw=False), st.booleans())
def test_json_requests_and_answers_keep_every_value(
    given_tensor: tuple[str, Any], nested: bool
) -> None:
    datatype, array = given_tensor
    answer, rest = answered(InferResponse("m", "", "", [Tensor("t", datatype, array)]))
    assert rest == b""
    assert answer["model_name"] == "m"
    item = answer["outputs"][0]
    if nested and array.ndim > 0:
        item["data"] = np.array(item["data"], object).reshape(array.shape).tolist()
    request = decode(json.dumps({"inputs": [item]}).encode(), None, "m")
    same(request.inputs[0].data, array)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_know_are_read_and_written(text: str) -> None:
    body = (
        b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1.5,%b]}]}' % text.encode()
    )
    array = decode(body, None, "m").inputs[0].data
    assert array[0] == 1.5
    assert str(array[1]) == str(float(text))
    _, parts = encode(InferRequest("m"), InferResponse("m", "1", "", [Tensor("y", "FP32", array)]))
    assert b"[1.5," + text.encode() + b"]" in bytes(parts[0])


def test_a_word_that_says_nan_is_a_word() -> None:
    body = b'{"id":"NaN","inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["NaN"]}]}'
    request = decode(body, None, "m")
    assert request.inputs[0].data.tolist() == [b"NaN"]


def test_tensors_are_views_of_the_body() -> None:
    array = np.arange(6, dtype=np.float32)
    body, headers = binary(array)
    memory = bytearray(body)
    found = decode(memory, int(headers["inference-header-content-length"]), "m").inputs[0].data
    memory[-4:] = np.float32(9).tobytes()
    assert found[-1] == 9


def test_what_a_request_says_reaches_the_engine() -> None:
    outputs = [{"name": "y", "parameters": {"classification": 2}}]
    body = plain(
        [1.0],
        [1],
        id="42",
        parameters={"priority": 1, "timeout": 5_000_000, "mine": "x"},
        outputs=outputs,
    )
    request = decode(body, None, "m", "stable")
    assert (request.model, request.version, request.id, request.priority) == (
        "m",
        "stable",
        "42",
        1,
    )
    assert request.deadline is not None
    assert request.parameters["mine"] == "x"
    assert request.outputs == [RequestedOutput("y", {"classification": 2})]


def test_unknown_fields_and_nulls_are_passed_over() -> None:
    item = {
        "name": "x",
        "shape": [1],
        "datatype": "FP32",
        "data": [1],
        "parameters": None,
        "more": {"a": [1]},
    }
    body = json.dumps(
        {"inputs": [item], "outputs": None, "parameters": None, "id": None, "extra": 1}
    ).encode()
    assert decode(body, None, "m").inputs[0].data.tolist() == [1.0]


# ------------------------------------------------------------------------------------- raw requests


def test_a_raw_request_is_one_row_of_the_only_input() -> None:
    array = np.arange(4, dtype=np.float32)
    request = decode_raw(array.tobytes(), Signature("x", "FP32", (-1, 4), batched=True), "m")
    assert request.inputs[0].data.tolist() == [[0, 1, 2, 3]]
    assert request.parameters["binary_data_output"] is True
    free = decode_raw(array.tobytes(), Signature("x", "FP32", (-1, 2)), "m")
    assert free.inputs[0].shape == (2, 2)
    words = decode_raw(b"\xff\0a", Signature("x", "BYTES", (1,)), "m")
    assert words.inputs[0].data.tolist() == [b"\xff\0a"]


@pytest.mark.parametrize(
    ("signature", "size"),
    [
        (Signature("x", "FP32", (-1, -1)), 16),
        (Signature("x", "FP32", (-1, 3)), 16),
        (Signature("x", "FP32", (-1, 0)), 16),
        (Signature("x", "FP32", (4,)), 12),
        (Signature("x", "FP32", (-1, 4), batched=True), 32),
        (Signature("x", "BYTES", (2,)), 8),
    ],
)
def test_a_raw_request_that_leaves_the_shape_open_is_refused(
    signature: Signature, size: int
) -> None:
    with pytest.raises(RequestError):
        decode_raw(bytes(size), signature, "m")


# ---------------------------------------------------------------------------------------- responses


@pytest.mark.parametrize("whole", [None, True, False])
@pytest.mark.parametrize("own", [None, True, False])
def test_an_output_is_binary_as_it_says_itself_then_as_the_request_says(
    whole: bool | None, own: bool | None
) -> None:
    outputs = [RequestedOutput("y", {} if own is None else {"binary_data": own})]
    request = InferRequest(
        "m", outputs=outputs, parameters={} if whole is None else {"binary_data_output": whole}
    )
    answer, rest = answered(
        InferResponse("m", "1", "", [Tensor("y", "INT32", np.array([1, 2], np.int32))]), request
    )
    expected = own if own is not None else bool(whole)
    assert len(rest) == (8 if expected else 0)
    assert ("data" in answer["outputs"][0]) is not expected
    if expected:
        assert answer["outputs"][0]["parameters"] == {"binary_data_size": 8}


def test_outputs_that_do_not_lie_in_order_are_put_in_order() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    request = InferRequest("m", parameters={"binary_data_output": True})
    assert (
        answered(InferResponse("m", "1", "", [Tensor("y", "FP32", array)]), request)[1]
        == array.tobytes()
    )
    assert answered(InferResponse("m", "1", "", [Tensor("y", "FP32", array)]))[0]["outputs"][0][
        "data"
    ] == [
        0,
        3,
        1,
        4,
        2,
        5,
    ]


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_halves_are_not_sent_as_json(datatype: str) -> None:
    array = np.ones(2, NUMPY[datatype])
    with pytest.raises(RequestError, match="binary_data"):
        encode(InferRequest("m"), InferResponse("m", "1", "", [Tensor("y", datatype, array)]))


def test_bytes_that_are_no_text_are_not_sent_as_json() -> None:
    array = np.array([b"\xff"], object)
    with pytest.raises(RequestError, match="binary_data"):
        encode(InferRequest("m"), InferResponse("m", "1", "", [Tensor("y", BYTES, array)]))


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([0.25, math.nan, 2.5, 2.5], np.float32, [b"2.500000:2", b"2.500000:3", b"0.250000:0"]),
        ([[1, 9], [5, 5]], np.int64, [[b"9:1", b"1:0"], [b"5:0", b"5:1"]]),
        ([3, 255, 0], np.uint8, [b"255:1", b"3:0", b"0:2"]),
    ],
)
def test_classification_gives_the_largest_of_each_row(
    values: Any, dtype: Any, expected: Any
) -> None:
    array = np.array(values, dtype)
    names = {dtype: name for name, dtype in NUMPY.items()}
    request = InferRequest("m", outputs=[RequestedOutput("y", {"classification": 3})])
    answer, _ = answered(
        InferResponse("m", "1", "", [Tensor("y", names[array.dtype], array)]), request
    )
    output = answer["outputs"][0]
    assert output["datatype"] == BYTES
    assert output["shape"] == list(np.array(expected).shape)
    assert output["data"] == [text.decode() for text in np.array(expected).reshape(-1).tolist()]


def test_bytes_have_no_classes() -> None:
    request = InferRequest("m", outputs=[RequestedOutput("y", {"classification": 1})])
    with pytest.raises(RequestError, match="classified"):
        encode(request, InferResponse("m", "1", "", [Tensor("y", BYTES, np.array([b"a"], object))]))
