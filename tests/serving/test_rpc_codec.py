"""Messages of gRPC to requests and back: every datatype both ways, and everything that is
refused.
"""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from tritonclient.grpc import service_pb2 as client

from infuse.errors import AccessError, RequestError, UnsupportedRequestError
from infuse.serving.datatypes import BYTES, NUMPY, RAW_ONLY
from infuse.serving.messages import InferRequest, InferResponse, RequestedOutput, Tensor
from infuse.serving.transports.rpc import codec, schema, wire

pytestmark = pytest.mark.row("S1")
FIELDS = {
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    **{
        "BOOL": "bool_contents",
        "INT64": "int64_contents",
        "UINT64": "uint64_contents",
        BYTES: "bytes_contents",
    },
    **{"FP32": "fp32_contents", "FP64": "fp64_contents"},
}


def raw_of(datatype: str, array: Any) -> bytes:
    if datatype == BYTES:
        return b"".join(len(e).to_bytes(4, "little") + e for e in array.reshape(-1))
    return array.tobytes()


def message(
    datatype: str = "FP32", shape: Any = (2, 2), raw: bytes | None = bytes(16), **fields: Any
) -> Any:
    """A request with one input, `x`."""
    result = client.ModelInferRequest(model_name="m", id="7")
    result.inputs.add(name="x", datatype=datatype, shape=shape)
    if raw is not None:
        result.raw_input_contents.append(raw)
    for name, values in fields.items():
        getattr(result.inputs[0].contents, name).extend(values)
    return result


def decode(request: Any) -> InferRequest:
    return codec.decode(request.SerializeToString())


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, Any]:
    datatype = draw(st.sampled_from(sorted(NUMPY)))
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    if datatype == BYTES:
        flat = np.empty(int(np.prod(shape, dtype=int)), object)
        flat[:] = [draw(st.binary(max_size=9)) for _ in flat]
        return datatype, flat.reshape(shape)
    if datatype == "BOOL":
        return datatype, draw(arrays.arrays(np.bool_, shape))
    dtype = NUMPY[datatype]
    bits = draw(arrays.arrays(np.dtype(f"u{dtype.itemsize}"), shape))
    return datatype, bits.view(dtype)


def same(a: Any, b: Any) -> bool:
    """Whether arrays have the same elements, bit for bit."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()


@settings(max_examples=300, deadline=None)
@given(st.lists(tensors(), min_size=1, max_size=3), st.booleans(), st.text(max_size=5))
def test_requests_survive_the_way(parts: list[tuple[str, Any]], typed: bool, id: str) -> None:
    typed = typed and not any(datatype in RAW_ONLY for datatype, _ in parts)
    request = client.ModelInferRequest(model_name="m", model_version="3", id=id)
    for index, (datatype, array) in enumerate(parts):
        tensor = request.inputs.add(name=f"x{index}", datatype=datatype, shape=array.shape)
        if typed:
            getattr(tensor.contents, FIELDS[datatype]).extend(array.reshape(-1).tolist())
        else:
            request.raw_input_contents.append(raw_of(datatype, array))
    result = decode(request)
    assert (result.model, result.version, result.id, result.protocol) == ("m", "3", id, "grpc")
    for (datatype, array), tensor in zip(parts, result.inputs, strict=True):
        assert tensor.datatype == datatype
        if typed and datatype[:2] == "FP":
            np.testing.assert_array_equal(tensor.data, array)
        else:
            assert same(tensor.data, array)


@settings(max_examples=300, deadline=None)
@given(st.lists(tensors(), max_size=3), st.text(max_size=5))
def test_responses_survive_the_way(parts: list[tuple[str, Any]], id: str) -> None:
    outputs = [
        Tensor(f"y{index}", datatype, array) for index, (datatype, array) in enumerate(parts)
    ]
    response = InferResponse("m", "3", id, outputs)
    result = client.ModelInferResponse.FromString(codec.encode(InferRequest("m"), response))
    assert (result.model_name, result.model_version, result.id) == ("m", "3", id)
    assert len(result.raw_output_contents) == len(result.outputs) == len(parts)
    for output, raw, (datatype, array) in zip(result.outputs, result.raw_output_contents, parts):
        assert (output.datatype, tuple(output.shape)) == (datatype, array.shape)
        assert raw == raw_of(datatype, array)
    streamed = client.ModelStreamInferResponse.FromString(
        codec.encode_streamed(InferRequest("m"), response)
    )
    assert streamed.error_message == ""
    assert streamed.infer_response.parameters.pop("triton_final_response").bool_param
    assert streamed.infer_response == result


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.binary(max_size=300), max_size=5), st.text(max_size=200), st.integers(0, 2**63 - 1)
)
def test_split_messages_are_the_same(raw: list[bytes], id: str, priority: int) -> None:
    request = client.ModelInferRequest(model_name="m", id=id, raw_input_contents=raw)
    request.parameters["priority"].int64_param = priority
    split = wire.split(request.SerializeToString(), 7)
    assert [bytes(part) for part in split.fields] == raw
    assert bytes(split.name) == b"m"
    rest = b"".join(split.rest)
    assert len(rest) == split.size
    assert (
        client.ModelInferRequest.FromString(rest + b"".join(wire.field(7, len(r)) + r for r in raw))
        == request
    )


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40), st.booleans())
def test_bytes_that_are_no_message_are_refused(data: bytes, large: bool) -> None:
    """Whatever is sent, large or small: it is a message for protobuf too, or it is refused."""
    if large:
        data += wire.field(9, 1 << 15) + bytes(1 << 15)
    try:
        codec.decode(data)
    except (RequestError, UnsupportedRequestError):
        return
    assert client.ModelInferRequest.FromString(data) is not None


def test_large_raw_contents_are_not_copied() -> None:
    data = message(shape=(1, 100_000), raw=bytes(400_000)).SerializeToString()
    array = codec.decode(data).inputs[0].data
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    assert not array.flags.writeable


@pytest.mark.parametrize("cut", [1, 2, 100, 39_990])
def test_a_cut_off_large_message_is_refused(cut: int) -> None:
    data = message(shape=(10_000,), raw=bytes(40_000)).SerializeToString()
    with pytest.raises(RequestError):
        codec.decode(data[:-cut])


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (message(raw=bytes(15)), "needs 16 bytes, but 15"),
        (message(raw=bytes(17)), "needs 16 bytes, but 17"),
        (message(shape=(-1, 4)), "negative"),
        (message(shape=(2**62, 2**62), raw=b""), "too large"),
        (message(shape=(0, 2**62, 2**62), raw=b""), "too large"),
        (message(shape=(2**63 - 1,)), "too large"),
        (message(shape=[1] * 33, raw=bytes(4)), "dimensions"),
        (message(datatype="FP23"), "not a datatype"),
        (message(datatype=""), "not a datatype"),
        (message(datatype="fp32"), "not a datatype"),
        (message(datatype="BOOL", shape=(2,), raw=b"\x00\x02"), "neither 0 nor 1"),
        (message(datatype=BYTES, shape=(2,), raw=b"\x01\x00\x00\x00a\x05\x00\x00\x00b"), "cut off"),
        (message(datatype=BYTES, shape=(1,), raw=b"\x01\x00"), "BYTES"),
        (message(datatype=BYTES, shape=(1,), raw=b"\x01\x00\x00\x00ab"), "follow"),
        (message(datatype=BYTES, shape=(2**40,), raw=bytes(8)), "BYTES"),
        (message(fp32_contents=[1, 2, 3, 4]), "typed contents"),
        (message(raw=None), "needs 4 elements, but fp32_contents has 0"),
        (message(raw=None, fp32_contents=[1, 2, 3]), "has 3"),
        (message(raw=None, fp32_contents=[1, 2, 3, 4, 5]), "has 5"),
        (message(raw=None, fp64_contents=[1, 2, 3, 4]), "fills fp64_contents"),
        (message(raw=None, fp32_contents=[1, 2, 3, 4], int_contents=[1]), "fills"),
        (message("FP16", (1,), None, fp32_contents=[1]), "no typed contents"),
        (message("BF16", (1,), None, fp32_contents=[1]), "no typed contents"),
        (message("INT8", (1,), None, int_contents=[128]), "outside -128 … 127"),
        (message("INT16", (1,), None, int_contents=[-32769]), "outside"),
        (message("UINT8", (1,), None, uint_contents=[256]), "outside 0 … 255"),
        (message("UINT16", (1,), None, uint_contents=[65536]), "outside"),
        (message("INT64", (2**61,), None, int64_contents=[1]), "too large"),
    ],
)
def test_malformed_inputs_are_refused(request_: Any, text: str) -> None:
    with pytest.raises(RequestError, match=text):
        decode(request_)


def test_callers_are_admitted_before_tensors_are_read() -> None:
    def admit(model: str) -> None:
        raise AccessError(f"not to {model}")

    for raw in (b"?", bytes(1 << 15)):  # neither fits its shape
        with pytest.raises(AccessError, match="not to m"):
            codec.InferMessage(message(raw=raw).SerializeToString()).admit(admit)


def test_raw_contents_are_one_for_each_input() -> None:
    for number in (2, 3):
        request = message()
        request.raw_input_contents.extend([bytes(16)] * (number - 1))
        with pytest.raises(RequestError, match=f"{number} raw contents for 1 inputs"):
            decode(request)
    request = message()
    request.inputs.add(name="z", datatype="FP32", shape=(1,))
    with pytest.raises(RequestError, match="1 raw contents for 2 inputs"):
        decode(request)


def test_names_occur_once() -> None:
    request = message()
    request.inputs.add(name="x", datatype="FP32", shape=(1,))
    request.raw_input_contents.append(bytes(4))
    with pytest.raises(RequestError, match="two of the inputs"):
        decode(request)
    request = message()
    request.outputs.extend([client.ModelInferRequest.InferRequestedOutputTensor(name="y")] * 2)
    with pytest.raises(RequestError, match="two of the outputs"):
        decode(request)


@pytest.mark.parametrize("raw", [True, False])
def test_shared_memory_is_refused(raw: bool) -> None:
    request = message(raw=bytes(16) if raw else None)
    request.inputs[0].parameters["shared_memory_region"].string_param = "r"
    with pytest.raises(UnsupportedRequestError, match="shared memory"):
        decode(request)
    request = message()
    request.outputs.add(name="y").parameters["shared_memory_region"].string_param = "r"
    with pytest.raises(UnsupportedRequestError, match="shared memory"):
        decode(request)


def test_shared_memory_beside_raw_contents_is_refused() -> None:
    request = message()
    request.inputs.add(name="z", datatype="FP32", shape=(1,)).parameters[
        "shared_memory_region"
    ].string_param = "r"
    with pytest.raises(UnsupportedRequestError, match="shared memory"):
        decode(request)


def test_parameters_of_every_kind() -> None:
    request = message()
    values = {"bool": True, "int64": -(2**63), "string": "é", "double": 0.5, "uint64": 2**64 - 1}
    for name, value in values.items():
        setattr(request.parameters[name], f"{name}_param", value)
        setattr(request.inputs[0].parameters[name], f"{name}_param", value)
    result = decode(request)
    assert result.parameters == values
    assert result.inputs[0].parameters == values
    assert (result.priority, result.deadline) == (0, None)


def test_priority_and_timeout() -> None:
    request = message()
    request.parameters["priority"].uint64_param = 2
    request.parameters["timeout"].int64_param = 5_000_000
    before = time.monotonic()
    result = decode(request)
    assert result.priority == 2
    assert result.deadline is not None
    assert before + 5 <= result.deadline <= time.monotonic() + 5


@pytest.mark.parametrize("name", ["priority", "timeout"])
@pytest.mark.parametrize(
    "value",
    [{"int64_param": -1}, {"bool_param": True}, {"string_param": "1"}, {"double_param": 1.0}, {}],
)
def test_priority_and_timeout_are_natural_numbers(name: str, value: dict[str, Any]) -> None:
    request = message()
    request.parameters[name].CopyFrom(client.InferParameter(**value))
    with pytest.raises(RequestError, match=name):
        decode(request)


@pytest.mark.parametrize("value", [{"int64_param": -1}, {"string_param": "a"}])
def test_a_number_of_classes_is_natural(value: dict[str, Any]) -> None:
    request = message()
    request.outputs.add(name="y").parameters["classification"].CopyFrom(
        client.InferParameter(**value)
    )
    with pytest.raises(RequestError, match="classification"):
        decode(request)


def test_classes_stand_for_an_output() -> None:
    scores = np.array([[0.25, 2.0, -1.0], [3.0, 1.0, 5.0]], np.float32)
    request = InferRequest(
        "m", outputs=[RequestedOutput("y", {"classification": 2}), RequestedOutput("z")]
    )
    response = InferResponse(
        "m", "1", "", [Tensor("y", "FP32", scores), Tensor("z", "FP32", scores)]
    )
    result = client.ModelInferResponse.FromString(codec.encode(request, response))
    assert [(o.datatype, list(o.shape)) for o in result.outputs] == [
        (BYTES, [2, 2]),
        ("FP32", [2, 3]),
    ]
    expected = np.array([b"2.000000:1", b"0.250000:0", b"5.000000:2", b"3.000000:0"], object)
    assert result.raw_output_contents[0] == raw_of(BYTES, expected)
    assert result.raw_output_contents[1] == scores.tobytes()


def test_parameters_of_a_response() -> None:
    tensor = Tensor("y", "FP32", np.zeros(1, np.float32), {"a": 1, "b": True})
    response = InferResponse("m", "1", "5", [tensor], {"c": 0.5, "d": "text"})
    result = client.ModelInferResponse.FromString(codec.encode(InferRequest("m"), response))
    assert result.outputs[0].parameters["a"].int64_param == 1
    assert result.outputs[0].parameters["b"].bool_param
    assert (result.parameters["c"].double_param, result.parameters["d"].string_param) == (
        0.5,
        "text",
    )


def test_views_are_sent_in_row_major_order() -> None:
    array = np.arange(40_000, dtype=np.int32).reshape(200, 200).T[::2]
    response = InferResponse("m", "1", "", [Tensor("y", "INT32", array)])
    result = client.ModelInferResponse.FromString(codec.encode(InferRequest("m"), response))
    assert result.raw_output_contents[0] == np.ascontiguousarray(array).tobytes()


def test_a_failure_in_a_stream() -> None:
    result = client.ModelStreamInferResponse.FromString(codec.encode_failure("it is wrong", "7"))
    assert (result.error_message, result.infer_response.id) == ("it is wrong", "7")
    assert result.infer_response.parameters["triton_final_response"].bool_param


def test_a_group_is_left_to_protobuf() -> None:
    data = b"\x7b\x3a\x01a\x7c"  # a field 7 inside a group is none of the message
    split = wire.split(data, 7)
    assert (b"".join(split.rest), split.fields) == (data, [])
    assert schema.parse(schema.message("ModelInferRequest"), data) is not None
    for damaged in (b"\x7b", b"\x7c", b"\x7f"):
        with pytest.raises(RequestError):
            wire.split(damaged, 7)
