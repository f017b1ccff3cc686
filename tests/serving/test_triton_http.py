"""tritonclient over HTTP against the whole server: inference with every datatype, also as JSON."""

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton

from infuse.serving.server import Server
from tests.serving.rest_models import TYPES
from tests.serving.triton_stage import X, address, client, refused, server, tensor

__all__ = ["client", "server"]
pytestmark = pytest.mark.row("S1")


KINDS = {
    "BOOL": np.array([[True, False], [False, True]]),
    **{
        f"{s}INT{b}": np.array([[0, 1], [2, 100]], f"{s}INT{b}".lower())
        for s in ("", "U")
        for b in (8, 16, 32, 64)
    },
    "FP16": np.array([[0.5, -1], [np.inf, 65504]], np.float16),
    "FP32": np.array([[0.5, -np.inf], [np.nan, 1e-45]], np.float32),
    "FP64": np.array([[0.5, np.inf], [np.nan, 5e-324]], np.float64),
    "BF16": np.array([[0.5, -1], [3, 1e30]], ml_dtypes.bfloat16),
}
LIMITS = {f"{s}INT{b}": np.iinfo(f"{s}INT{b}".lower()) for s in ("", "U") for b in (8, 16, 32, 64)}
WORDS = np.array([b"a", b"", "é".encode(), b"x" * 300], object)


def wanted(name: str, binary: bool = True, classes: int = 0) -> Any:
    return triton.InferRequestedOutput(name, binary_data=binary, class_count=classes)


# ---------------------------------------------------------------------------------------- inference


@pytest.mark.parametrize("json_outputs", [False, True])
@pytest.mark.parametrize("json_inputs", [False, True])
def test_every_datatype(client: Any, json_inputs: bool, json_outputs: bool) -> None:
    halves = ("FP16", "BF16")  # have no form in JSON
    inputs = [tensor(KINDS[n], n, f"x{n}", binary=not json_inputs or n in halves) for n in TYPES]
    outputs = [wanted(f"y{name}", binary=not json_outputs or name in halves) for name in TYPES]
    result = client.infer("kinds", inputs, outputs=outputs)
    for name, array in KINDS.items():
        output = result.get_output(f"y{name}")
        assert (output["datatype"], output["shape"]) == (name, [2, 2])
        assert ("data" in output) is (json_outputs and name not in halves)
        found = result.as_numpy(f"y{name}")
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("binary", [False, True])
def test_the_limits_of_whole_numbers(client: Any, binary: bool) -> None:
    arrays = {name: np.array([[info.min, info.max]], info.dtype) for name, info in LIMITS.items()}
    arrays |= {name: array[:1] for name, array in KINDS.items() if name not in arrays}
    inputs = [
        tensor(arrays[n], n, f"x{n}", binary=binary or n[1] == "F" or n == "FP16") for n in TYPES
    ]
    result = client.infer(
        "kinds", inputs, outputs=[wanted(f"y{name}", binary=binary) for name in LIMITS]
    )
    for name in LIMITS:
        np.testing.assert_array_equal(result.as_numpy(f"y{name}"), arrays[name])
    assert len(result.get_response()["outputs"]) == len(LIMITS)


@pytest.mark.parametrize("json_outputs", [False, True])
@pytest.mark.parametrize("json_inputs", [False, True])
def test_bytes(client: Any, json_inputs: bool, json_outputs: bool) -> None:
    result = client.infer(
        "words",
        [tensor(WORDS, "BYTES", binary=not json_inputs)],
        outputs=[wanted("y", not json_outputs)],
    )
    found = result.as_numpy("y").tolist()
    assert [word.encode() if json_outputs else word for word in found] == WORDS.tolist()


def test_bytes_that_are_no_text_are_sent_as_binary_only(client: Any) -> None:
    array = np.array([b"\xff\0"], object)
    assert client.infer("words", [tensor(array, "BYTES")]).as_numpy("y").tolist() == [b"\xff\0"]
    assert "binary_data" in refused(
        400, client.infer, "words", [tensor(array, "BYTES")], outputs=[wanted("y", False)]
    )


def test_outputs_are_binary_without_a_list_and_as_listed_with_one(client: Any) -> None:
    assert "data" not in client.infer("echo", [tensor(X)]).get_output("y")
    assert "data" in client.infer(
        "echo", [tensor(X)], outputs=[wanted("y", binary=False)]
    ).get_output("y")
    # kserve#5907: what the request says of all outputs holds for those that say nothing themselves.
    listed = {
        "inputs": [json_input()],
        "outputs": [{"name": "y"}],
        "parameters": {"binary_data_output": True},
    }
    response = client._post("v2/models/echo/infer", json.dumps(listed), None, None)
    assert response.get("Inference-Header-Content-Length") is not None


def json_input() -> dict[str, Any]:
    return {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": X.tolist()}


@pytest.mark.parametrize("version", ["", "1", "2", "stable"])
def test_versions_and_labels(client: Any, version: str) -> None:
    response = client.infer(
        "echo", [tensor(X)], model_version=version, request_id="é 7"
    ).get_response()
    assert response["model_name"] == "echo"
    assert response["model_version"] == {"": "2", "stable": "1"}.get(version, version)
    assert response["id"] == "é 7"


@pytest.mark.parametrize("answer", [None, "gzip", "deflate"])
@pytest.mark.parametrize("question", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [False, True])
def test_compression(client: Any, question: str | None, answer: str | None, binary: bool) -> None:
    array = np.arange(4000, dtype=np.float32).reshape(-1, 4)
    result = client.infer(
        "echo",
        [tensor(array, binary=binary)],
        outputs=[wanted("y", binary=binary)],
        request_compression_algorithm=question,
        response_compression_algorithm=answer,
    )
    np.testing.assert_array_equal(result.as_numpy("y"), array)


@pytest.mark.parametrize("rows", [0, 1, 33, 40_000, 400_000])
def test_payloads_of_many_sizes(client: Any, rows: int) -> None:
    array = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
    np.testing.assert_array_equal(client.infer("echo", [tensor(array)]).as_numpy("y"), array)


def test_pictures(client: Any) -> None:
    array = np.random.default_rng(1).random((1, 3, 224, 224), np.float32)
    np.testing.assert_array_equal(client.infer("picture", [tensor(array)]).as_numpy("y"), array)


def test_classes(client: Any) -> None:
    result = client.infer("echo", [tensor(X)], outputs=[wanted("y", classes=2)])
    assert result.as_numpy("y").tolist() == [[b"2.500000:1", b"1.500000:0"]]


def test_parameters_priority_and_timeout(client: Any) -> None:
    parameters = {"text": "é", "number": 7, "real": 0.5, "yes": True}
    result = client.infer(
        "echo", [tensor(X)], priority=1, timeout=60_000_000, parameters=parameters
    )
    np.testing.assert_array_equal(result.as_numpy("y"), X)
    assert refused(504, client.infer, "echo", [tensor(X)], timeout=1)


def test_requests_at_once(server: Server) -> None:
    with triton.InferenceServerClient(address(server), concurrency=8) as client:
        arrays = [np.full((1 + i % 3, 4), i, np.float32) for i in range(40)]
        pending = [
            client.async_infer("echo", [tensor(array)], request_id=str(i))
            for i, array in enumerate(arrays)
        ]
        for i, (each, array) in enumerate(zip(pending, arrays)):
            result = each.get_result(timeout=60)
            np.testing.assert_array_equal(result.as_numpy("y"), array)
            assert result.get_response()["id"] == str(i)


def test_bodies_that_are_made_and_read_by_hand(client: Any) -> None:
    body, length = triton.InferenceServerClient.generate_request_body(
        [tensor(X)], outputs=[wanted("y")]
    )
    response = client._post(
        "v2/models/echo/infer", body, {"Inference-Header-Content-Length": length}, None
    )
    header = int(response.get("Inference-Header-Content-Length"))
    result = triton.InferenceServerClient.parse_response_body(response.read(), header_length=header)
    np.testing.assert_array_equal(result.as_numpy("y"), X)


def test_a_raw_request(client: Any) -> None:
    response = client._post(
        "v2/models/echo/infer", X.tobytes(), {"Inference-Header-Content-Length": 0}, None
    )
    header = int(response.get("Inference-Header-Content-Length"))
    result = triton.InferenceServerClient.parse_response_body(response.read(), header_length=header)
    np.testing.assert_array_equal(result.as_numpy("y"), X)


@pytest.mark.parametrize(
    ("model", "inputs", "options", "status"),
    [
        ("none", [tensor(X)], {}, 404),
        ("later", [tensor(X)], {}, 503),
        ("echo", [tensor(X)], {"model_version": "9"}, 404),
        ("echo", [tensor(X)], {"model_version": "unknown"}, 404),
        ("echo", [tensor(X, name="z")], {}, 400),
        ("echo", [], {}, 400),
        ("echo", [tensor(X), tensor(X, name="z")], {}, 400),
        ("echo", [tensor(X), tensor(X)], {}, 400),
        ("echo", [tensor(X.astype(np.float64), "FP64")], {}, 400),
        ("echo", [tensor(X[:, :3])], {}, 400),
        ("echo", [tensor(X[0])], {}, 400),
        ("echo", [tensor(X)], {"outputs": [wanted("z")]}, 400),
        ("echo", [triton.InferInput("x", [1, 4], "FP32").set_shared_memory("region", 16)], {}, 501),
    ],
)
def test_wrong_requests(
    client: Any, model: str, inputs: list[Any], options: dict[str, Any], status: int
) -> None:
    assert refused(status, client.infer, model, inputs, **options)
    np.testing.assert_array_equal(client.infer("echo", [tensor(X)]).as_numpy("y"), X)
