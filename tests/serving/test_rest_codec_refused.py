"""Bytes that are no request are refused with the reason."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from infuse.errors import InfuseError, RequestError, UnsupportedRequestError
from infuse.serving.transports.rest.codec import (
    decode,
    header_length,
)
from tests.serving.rest_tools import binary, plain

pytestmark = pytest.mark.row("S1")


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
    ("FP8", "not a datatype", [1], [1.0]),
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


# -------------------------------------------------------------------------------------- compression


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300), st.one_of(st.none(), st.integers(0, 400)))
def test_any_bytes_are_a_request_or_an_error_of_ours(body: bytes, length: int | None) -> None:
    try:
        request = decode(body, length, "m")
    except InfuseError:
        return
    assert request.model == "m"
