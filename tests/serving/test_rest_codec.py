"""Requests and responses as bytes: JSON, the binary tensor extension, raw requests, and everything
that is neither.
"""

import json
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from infuse.errors import InfuseError, RequestError, TooLargeError, UnsupportedRequestError
from infuse.serving.datatypes import BYTES, NUMPY, RAW_ONLY
from infuse.serving.messages import InferRequest, InferResponse, RequestedOutput, Tensor
from infuse.serving.transports.rest.codec import (
    Signature,
    decode,
    decode_raw,
    encode,
    header_length,
)
from infuse.serving.transports.rest.compression import accepted_coding, deflate, inflate
from infuse.serving.transports.rest.refusals import Refusal
from tests.serving.rest_tools import binary, plain

pytestmark = pytest.mark.row("S1")
NUMBERS = [name for name in NUMPY if name not in (*RAW_ONLY, BYTES)]


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


BAD_JSON: list[tuple[str, Any, list[int], Any]] = [
    ("FP32", "needs", [2], [1.0]),
    ("FP32", "needs", [1], [1.0, 2.0]),
    ("FP32", "null", [1], [None]),
    ("FP32", "bool", [1], [True]),
    ("FP32", "str", [1], ["1"]),
    ("FP32", "range", [1], [1e39]),
    ("INT8", "range", [1], [128]),
    ("INT8", "range", [1], [-129]),
    ("UINT8", "range", [1], [-1]),
    ("INT32", "range", [1], [1 << 31]),
    ("INT64", "range", [1], [1 << 63]),
    ("UINT64", "range", [1], [1 << 64]),
    ("UINT64", "range", [1], [10**100]),
    ("INT32", "float", [1], [1.0]),
    ("INT32", "bool", [1], [True]),
    ("BOOL", "int", [1], [1]),
    ("BYTES", "int", [1], [1]),
    ("FP16", "no form", [1], [1.0]),
    ("BF16", "no form", [1], [1.0]),
    ("FP8", "no datatype", [1], [1.0]),
    ("FP32", "nested", [2, 2], [[1.0, 2.0], [3.0]]),
    ("FP32", "nested", [2, 2], [[1.0], [2.0], [3.0], [4.0]]),
    ("FP32", "nested", [4], [[1.0, 2.0], [3.0, 4.0]]),
    ("FP32", "nested", [2, 2], [[[1.0, 2.0, 3.0, 4.0]]]),
    ("FP32", "list|FP32", [2, 2], [[1.0, 2.0], 3.0]),
    ("FP32", "nested", [1], 1.0),
    ("FP32", "nested", [1], {"a": 1}),
    ("FP32", "negative", [-1], [1.0]),
    ("FP32", "too large", [1 << 62, 1 << 62], [1.0]),
    ("FP32", "too large", [0, 1 << 62], []),
    ("FP32", "dimensions", [1] * 65, [1.0]),
    ("FP32", "elements", [1 << 40], [1.0]),
]


@pytest.mark.parametrize(("datatype", "words", "shape", "data"), BAD_JSON)
def test_wrong_json_is_refused(datatype: str, words: str, shape: list[int], data: Any) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        decode(plain(data, shape, datatype), None, "m")
    assert "input 'x'" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b"{}",
        b'{"inputs":{}}',
        b'{"inputs":[1]}',
        b'{"inputs":[{}]}',
        b'{"inputs":[{"name":1,"shape":[1],"datatype":"FP32","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":1,"datatype":"FP32","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":[1.5],"datatype":"FP32","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":["1"],"datatype":"FP32","data":[1]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32"}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1e999]}]}',
        b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[NaN,1e999]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"INT32","data":[NaN]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["\\ud800"]}]}',
        b'{"inputs":[{"name":"\\ud800","shape":[1],"datatype":"FP32","data":[NaN]}]}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[NaN]}],"id":"\\udc00"}',
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"id":7}',
        b'{"inputs":[],"parameters":{"a":{}}}',
        b'{"inputs":[],"parameters":{"a":null}}',
        b'{"inputs":[],"parameters":{"priority":-1}}',
        b'{"inputs":[],"parameters":{"priority":1.5}}',
        b'{"inputs":[],"parameters":{"timeout":true}}',
        b'{"inputs":[],"parameters":{"timeout":"soon"}}',
        b'{"inputs":[],"parameters":{"timeout":99999999999999999999}}',
        b'{"inputs":[],"parameters":{"binary_data_output":1}}',
        b'{"inputs":[],"outputs":[{"name":"y","parameters":{"binary_data":"yes"}}]}',
        b'{"inputs":[],"outputs":[{"name":"y","parameters":{"classification":-1}}]}',
        b'{"inputs":[],"outputs":[{"name":"y"},{"name":"y"}]}',
        b'{"inputs":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
        b'{"x":NaN,"inputs":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":'
        + b"[" * 9_999
        + b"]" * 9_999
        + b"}]}",
    ],
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError):
        decode(body, None, "m")


def test_names_of_inputs_are_not_given_twice() -> None:
    item = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}
    with pytest.raises(RequestError, match="same name"):
        decode(json.dumps({"inputs": [item, item]}).encode(), None, "m")


@pytest.mark.parametrize("size", [0, 3, 5, 8, 1 << 40, -4, True, 4.0, "4"])
def test_a_size_that_does_not_fit_the_shape_is_refused(size: Any) -> None:
    item = {"name": "x", "shape": [1], "datatype": "FP32", "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [item]}).encode()
    with pytest.raises(RequestError):
        decode(head + bytes(4), len(head), "m")


@pytest.mark.parametrize("shape", [[1 << 62, 4], [-1], [1 << 61, 1 << 61, 0]])
def test_a_huge_binary_shape_is_refused_before_memory_is_taken(shape: list[int]) -> None:
    item = {"name": "x", "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": 4}}
    head = json.dumps({"inputs": [item]}).encode()
    with pytest.raises(RequestError):
        decode(head + bytes(4), len(head), "m")


@pytest.mark.parametrize(("more", "words"), [(-1, "left"), (1, "belong to no input")])
def test_cut_off_and_surplus_bytes_are_refused(more: int, words: str) -> None:
    body, headers = binary(np.zeros(3, np.float32))
    body = body[:more] if more < 0 else body + bytes(more)
    with pytest.raises(RequestError, match=words):
        decode(body, int(headers["inference-header-content-length"]), "m")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x01\0\0",
        b"\x02\0\0\0a",
        b"\xff\xff\xff\xffa",
        b"\x01\0\0\0ab",
        b"\x01\0\0\0a\0\0\0\0",
        b"\0" * 3,
    ],
)
def test_bytes_whose_lengths_are_wrong_are_refused(raw: bytes) -> None:
    item = {
        "name": "x",
        "shape": [1],
        "datatype": "BYTES",
        "parameters": {"binary_data_size": len(raw)},
    }
    head = json.dumps({"inputs": [item]}).encode()
    with pytest.raises(RequestError, match="BYTES"):
        decode(head + raw, len(head), "m")


def test_a_bool_is_nothing_but_0_or_1() -> None:
    body, headers = binary(np.array([0, 1, 2], np.uint8), "BOOL")
    with pytest.raises(RequestError, match="BOOL"):
        decode(body, int(headers["inference-header-content-length"]), "m")


def test_an_input_has_its_data_in_one_place() -> None:
    item = {
        "name": "x",
        "shape": [1],
        "datatype": "FP32",
        "data": [1.0],
        "parameters": {"binary_data_size": 4},
    }
    head = json.dumps({"inputs": [item]}).encode()
    with pytest.raises(RequestError, match="both"):
        decode(head + bytes(4), len(head), "m")


@pytest.mark.parametrize("field", ["inputs", "outputs"])
def test_shared_memory_is_not_supported(field: str) -> None:
    item = {
        "name": "x",
        "shape": [1],
        "datatype": "FP32",
        "parameters": {"shared_memory_region": "r"},
    }
    with pytest.raises(UnsupportedRequestError):
        decode(json.dumps({"inputs": [], field: [item]}).encode(), None, "m")


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "", "1e3", "0x10", "9" * 20, "²", "+1"])
def test_a_header_length_is_a_number(text: str) -> None:
    with pytest.raises(RequestError):
        header_length(text)


def test_a_header_length_beyond_the_body_is_refused() -> None:
    with pytest.raises(RequestError, match="the body has"):
        decode(b"{}", 3, "m")


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


# -------------------------------------------------------------------------------------- compression


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_bodies_come_back(coding: str) -> None:
    assert inflate(deflate([b"ab" * 99, b"c"], coding), coding, 199) == b"ab" * 99 + b"c"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_bomb_is_refused_at_the_limit(coding: str) -> None:
    bomb = deflate([bytes(1 << 20)] * 64, coding)
    with pytest.raises(TooLargeError):
        inflate(bomb, coding, 1 << 16)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[:-3], lambda b: b"\xff" + b[1:], lambda b: b + b"x", lambda b: b""]
)
def test_damaged_compression_is_refused(coding: str, damage: Any) -> None:
    with pytest.raises(RequestError):
        inflate(damage(deflate([b"hello" * 99], coding)), coding, 1 << 16)


def test_unknown_codings_are_refused() -> None:
    with pytest.raises(Refusal) as caught:
        inflate(b"x", "br", 9)
    assert caught.value.status == 415


@pytest.mark.parametrize(
    ("accept", "coding"),
    [
        ("gzip", "gzip"),
        (" Deflate ", "deflate"),
        ("gzip;q=0.5", "gzip"),
        ("gzip;q=0", ""),
        ("gzip, deflate", ""),
        ("br", ""),
        ("*", ""),
        ("", ""),
    ],
)
def test_an_answer_is_compressed_when_one_coding_is_asked_for(accept: str, coding: str) -> None:
    assert accepted_coding(accept) == coding


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300), st.one_of(st.none(), st.integers(0, 400)))
def test_any_bytes_are_a_request_or_an_error_of_ours(body: bytes, length: int | None) -> None:
    try:
        request = decode(body, length, "m")
    except InfuseError:
        return
    assert request.model == "m"
