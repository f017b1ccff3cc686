"""The gRPC server over the engine, models in process: answers, refusals, repository, statistics,
draining.
"""

import queue
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from onnx import TensorProto, helper
from tritonclient.grpc import service_pb2 as messages, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from infuse.serving.config import Listener, Security, ServerConfig, Workers
from infuse.serving.engine.engine import Engine
from tests.serving.rpc_tools import HOST, Running, serving
from tests.serving.test_triton_grpc import DATATYPES, refused, tensor

pytestmark = pytest.mark.row("S1")
ONNX = {name: name for name in DATATYPES} | {
    "FP16": "FLOAT16",
    "FP32": "FLOAT",
    "FP64": "DOUBLE",
    "BF16": "BFLOAT16",
    "BYTES": "STRING",
}
X = np.array([[1.5, 2.5]], np.float32)


def write(folder: Path, name: str, operator: str, inputs: tuple[str, ...] = ("x",)) -> Path:
    """A model of one operator over rows of two elements."""
    return save(
        folder,
        name,
        [helper.make_node(operator, list(inputs), ["y"])],
        dict.fromkeys((*inputs, "y"), "FP32"),
    )


def save(folder: Path, name: str, nodes: list[Any], types: dict[str, str]) -> Path:
    """A model of nodes over rows of two elements; `types` of its inputs and, last, as many outputs
    as nodes.
    """
    infos = [
        helper.make_tensor_value_info(n, getattr(TensorProto, ONNX[t]), ["rows", 2])
        for n, t in types.items()
    ]
    graph = helper.make_graph(nodes, "graph", infos[: -len(nodes)], infos[-len(nodes) :])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    path = folder / name / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(model, path)
    return path


def config(folder: Path) -> ServerConfig:
    return ServerConfig(
        repository=str(folder / "models"),
        cache=folder / "cache",
        control="explicit",
        models=("add", "echo", "types"),
        workers=Workers(mode="inprocess"),
        grpc=Listener(host=HOST),
        security=Security(admin_on_data_port=True),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = tmp_path_factory.mktemp("served")
    models = result / "models"
    nodes = [
        helper.make_node("Identity", [f"x_{datatype}"], [f"y_{datatype}"]) for datatype in DATATYPES
    ]
    save(
        models,
        "types",
        nodes,
        {f"{end}_{datatype}": datatype for end in "xy" for datatype in DATATYPES},
    )
    write(models, "echo", "Identity")
    write(models, "add", "Add", ("a", "b"))
    write(models, "later", "Neg")
    write(models, "broken", "Neg").write_bytes(b"this is not a model")
    return result


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with serving(Engine(config(folder))) as result:
        yield result


@pytest.fixture
def client(server: Running) -> Iterator[Any]:
    with triton.InferenceServerClient(server.address) as result:
        yield result


# ---------------------------------------------------------------------------------------- inference


def test_every_datatype(client: Any) -> None:
    inputs = [tensor(array, datatype, f"x_{datatype}") for datatype, array in DATATYPES.items()]
    result = client.infer("types", inputs, request_id="7", model_version="1")
    response = result.get_response()
    assert (response.model_name, response.model_version, response.id) == ("types", "1", "7")
    assert [output.datatype for output in response.outputs] == list(DATATYPES)
    for datatype, array in DATATYPES.items():
        np.testing.assert_array_equal(result.as_numpy(f"y_{datatype}"), array)


def test_outputs_are_chosen(client: Any) -> None:
    inputs = [tensor(array, datatype, f"x_{datatype}") for datatype, array in DATATYPES.items()]
    outputs = [triton.InferRequestedOutput(name) for name in ("y_UINT8", "y_BYTES")]
    result = client.infer("types", inputs, outputs=outputs)
    assert {output.name for output in result.get_response().outputs} == {"y_UINT8", "y_BYTES"}
    np.testing.assert_array_equal(result.as_numpy("y_BYTES"), DATATYPES["BYTES"])


def test_typed_contents(server: Running) -> None:
    request = messages.ModelInferRequest(model_name="echo")
    x = request.inputs.add(name="x", datatype="FP32", shape=X.shape)
    x.contents.fp32_contents.extend(X.reshape(-1).tolist())
    with grpc.insecure_channel(server.address) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    np.testing.assert_array_equal(triton.InferResult(answer).as_numpy("y"), X)


def test_requests_side_by_side_get_their_own_answers(client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    for index in range(200):
        a, b = (np.full((1 + index % 3, 2), index + offset, np.float32) for offset in (0, 1000))
        inputs = [tensor(a, name="a"), tensor(b, name="b")]
        client.async_infer(
            "add", inputs, lambda result, error: answers.put(error or result), request_id=str(index)
        )
    for _ in range(200):
        result = answers.get(timeout=60)
        index = int(result.get_response().id)
        expected = np.full((1 + index % 3, 2), 2 * index + 1000, np.float32)
        np.testing.assert_array_equal(result.as_numpy("y"), expected)


def test_a_stream(client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put(result or error))
    for index in range(50):
        inputs = [tensor(np.full((1, 2), index, np.float32), name=name) for name in ("a", "b")]
        client.async_stream_infer("add", inputs, request_id=str(index))
    client.async_stream_infer("add", [tensor(X, name="a")])
    found = [answers.get(timeout=60) for _ in range(51)]
    client.stop_stream()
    assert [result.as_numpy("y").tolist() for result in found[:50]] == [
        [[2 * i, 2 * i]] for i in range(50)
    ]
    assert isinstance(found[50], InferenceServerException)


@pytest.mark.parametrize(
    "inputs",
    [
        [],
        [tensor(X)],
        [tensor(X, name="a")],
        [tensor(X, name="a"), tensor(X, name="c")],
        [tensor(X, name="a"), tensor(X, name="b"), tensor(X, name="c")],
        [tensor(X, name="a"), tensor(X[0], name="b")],
        [tensor(X, name="a"), tensor(np.zeros((1, 3), np.float32), name="b")],
        [tensor(X, name="a"), tensor(np.zeros((2, 2), np.float32), name="b")],
        [tensor(X, name="a"), tensor(X.astype(np.float64), "FP64", "b")],
    ],
)
def test_inputs_that_the_model_does_not_take_are_refused(client: Any, inputs: list[Any]) -> None:
    refused("INVALID_ARGUMENT", client.infer, "add", inputs)


def test_what_is_not_there(client: Any) -> None:
    refused("NOT_FOUND", client.infer, "absent", [tensor(X)])
    refused("NOT_FOUND", client.infer, "echo", [tensor(X)], model_version="7")
    refused("NOT_FOUND", client.infer, "echo", [tensor(X)], model_version="canary")
    refused(
        "INVALID_ARGUMENT",
        client.infer,
        "echo",
        [tensor(X)],
        outputs=[triton.InferRequestedOutput("z")],
    )
    refused("NOT_FOUND", client.get_model_metadata, "absent")
    refused("NOT_FOUND", client.get_model_config, "echo", "7")
    refused("NOT_FOUND", client.get_inference_statistics, "absent")
    refused("NOT_FOUND", client.load_model, "absent")


@pytest.mark.row("S7")
def test_a_timeout_drops_the_request(client: Any) -> None:
    refused("DEADLINE_EXCEEDED", client.infer, "echo", [tensor(X)], timeout=1)


# ------------------------------------------------------------------------- descriptions, repository


def test_metadata_and_config(client: Any) -> None:
    assert client.get_server_metadata().name == "infuse"
    metadata = client.get_model_metadata("add")
    assert (metadata.name, list(metadata.versions)) == ("add", ["1"])
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [
        (n, "FP32", [-1, 2]) for n in "ab"
    ]
    found = client.get_model_config("add").config
    assert found.max_batch_size > 1
    assert [(t.name, t.data_type, list(t.dims)) for t in found.output] == [("y", 11, [2])]
    assert found.version_policy.latest.num_versions == 1
    assert found.WhichOneof("scheduling_choice") == "dynamic_batching"


def test_statistics_count_requests(client: Any) -> None:
    def count() -> int:
        statistics = client.get_inference_statistics("echo", "1").model_stats[0]
        assert statistics.inference_stats.success.ns > 0 or statistics.inference_count == 0
        return int(statistics.inference_stats.success.count)

    before = count()
    for _ in range(3):
        client.infer("echo", [tensor(X)])
    assert count() == before + 3
    assert {entry.name for entry in client.get_inference_statistics().model_stats} >= {
        "add",
        "echo",
        "types",
    }


@pytest.mark.row("S2")
def test_models_are_loaded_and_unloaded(client: Any) -> None:
    def states() -> dict[str, str]:
        return {entry.name: entry.state for entry in client.get_model_repository_index().models}

    assert not client.is_model_ready("later")
    refused("UNAVAILABLE", client.infer, "later", [tensor(X)])
    client.load_model("later")
    assert client.is_model_ready("later")
    assert states()["later"] == "READY"
    np.testing.assert_array_equal(client.infer("later", [tensor(X)]).as_numpy("y"), -X)
    client.load_model("later", config='{"batching": {"max_size": 4}}')
    assert client.get_model_config("later").config.max_batch_size == 4
    client.unload_model("later")
    assert not client.is_model_ready("later")
    assert "later" not in {
        entry.name for entry in client.get_model_repository_index().models if entry.state == "READY"
    }


@pytest.mark.row("S2")
def test_a_model_is_sent(client: Any, tmp_path: Path) -> None:
    content = write(tmp_path, "sent", "Abs").read_bytes()
    client.load_model("sent", config="{}", files={"file:1/model.onnx": content})
    np.testing.assert_array_equal(client.infer("sent", [tensor(-X)]).as_numpy("y"), X)
    client.unload_model("sent")


@pytest.mark.row("S9")
@pytest.mark.parametrize("path", ["../1/model.onnx", "/1/model.onnx", "1/../../x/1/model.onnx"])
def test_files_are_not_written_elsewhere(client: Any, folder: Path, path: str) -> None:
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("sent", config="{}", files={f"file:{path}": b"content"})
    assert "not a path in a model's folder" in caught.value.message()
    assert not [
        found
        for found in folder.parent.rglob("model.onnx")
        if found.is_file() and found.read_bytes() == b"content"
    ]


@pytest.mark.row("S2")
def test_a_broken_model_leaves_the_others_alone(client: Any) -> None:
    with pytest.raises(InferenceServerException):
        client.load_model("broken")
    assert not client.is_model_ready("broken")
    assert client.infer("echo", [tensor(X)]).as_numpy("y").tolist() == X.tolist()


def test_draining(folder: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    shutil.copytree(folder / "models" / "echo", models / "echo")
    listener = Listener(host=HOST)
    engine = Engine(
        ServerConfig(
            repository=str(models), cache=tmp_path, workers=Workers(mode="inprocess"), grpc=listener
        )
    )
    with serving(engine) as server, triton.InferenceServerClient(server.address) as client:
        assert client.is_server_ready()
        server.loop.call_soon_threadsafe(engine.drain)
        with grpc.insecure_channel(server.address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(), timeout=60
            )
            kinds = iter(answer.status for answer in watch)
            assert health_pb2.HealthCheckResponse.NOT_SERVING in kinds
            watch.cancel()
        assert client.is_server_live()
        assert not client.is_server_ready()
        refused("UNAVAILABLE", client.infer, "echo", [tensor(X)])


@pytest.mark.row("S5")
def test_through_worker_processes(folder: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    shutil.copytree(folder / "models" / "echo", models / "echo")
    engine = Engine(ServerConfig(repository=str(models), cache=tmp_path, grpc=Listener(host=HOST)))
    large = np.random.default_rng(0).random((100_000, 2), np.float32)
    with serving(engine) as server, triton.InferenceServerClient(server.address) as client:
        for array in (X, large, X):
            np.testing.assert_array_equal(
                client.infer("echo", [tensor(array)]).as_numpy("y"), array
            )
