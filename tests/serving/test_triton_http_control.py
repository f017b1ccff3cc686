"""tritonclient over HTTP, sync and asyncio, against the whole server: every other call."""

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.http import aio
from tritonclient.utils import InferenceServerException

from infuse.serving.server import Server
from tests.serving.rest_models import TYPES, identities
from tests.serving.triton_stage import X, address, client, refused, server, tensor

__all__ = ["client", "server"]
pytestmark = pytest.mark.row("S1")


@pytest.fixture
def admin(server: Server) -> Iterator[Any]:
    with triton.InferenceServerClient(address(server, admin=True)) as result:
        yield result


# -------------------------------------------------------------------------------------- other calls


def test_health(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("echo")
    assert client.is_model_ready("echo", "stable")
    assert not client.is_model_ready("echo", "9")
    assert not client.is_model_ready("later")
    assert not client.is_model_ready("none")


def test_metadata(client: Any) -> None:
    metadata = client.get_server_metadata()
    assert metadata["name"] == "infuse"
    assert {"binary_tensor_data", "model_repository", "statistics", "classification"} <= set(
        metadata["extensions"]
    )
    model = client.get_model_metadata("echo")
    assert model["name"] == "echo"
    assert sorted(model["versions"]) == ["1", "2"]
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert client.get_model_metadata("words", "1")["inputs"][0]["datatype"] == "BYTES"
    assert refused(404, client.get_model_metadata, "none")


def test_configuration(client: Any) -> None:
    found = client.get_model_config("echo", "1")
    assert found["name"] == "echo"
    assert found["input"][0]["data_type"] == "TYPE_FP32"
    assert refused(404, client.get_model_config, "none")


def test_statistics(client: Any) -> None:
    client.infer("echo", [tensor(X)], model_version="1")
    one = client.get_inference_statistics("echo", "1")["model_stats"]
    assert [(each["name"], each["version"]) for each in one] == [("echo", "1")]
    assert int(one[0]["inference_stats"]["success"]["count"]) >= 1
    assert len(client.get_inference_statistics("echo")["model_stats"]) == 2
    assert {each["name"] for each in client.get_inference_statistics()["model_stats"]} >= {
        "echo",
        "words",
    }
    assert refused(404, client.get_inference_statistics, "none")


def test_the_repository(client: Any, admin: Any) -> None:
    states = {
        (each["name"], each.get("version")): each.get("state")
        for each in client.get_model_repository_index()
    }
    assert states["echo", "1"] == "READY"
    assert "admin port" in refused(403, client.load_model, "later")
    assert not client.is_model_ready("later")
    admin.load_model("later")
    assert client.is_model_ready("later")
    np.testing.assert_array_equal(client.infer("later", [tensor(X)]).as_numpy("y"), X)
    admin.unload_model("later")
    assert not client.is_model_ready("later")
    assert refused(404, admin.load_model, "none")
    assert refused(400, admin.load_model, "later", config="{no json")


def test_a_model_is_loaded_from_files_of_the_request(client: Any, admin: Any) -> None:
    model = identities({"": TYPES["INT32"]}, ["rows", 2])
    admin.load_model(
        "sent", config='{"parameters": {"by": "hand"}}', files={"file:1/model.onnx": model}
    )
    array = np.array([[1, 2]], np.int32)
    np.testing.assert_array_equal(
        client.infer("sent", [tensor(array, "INT32")]).as_numpy("y"), array
    )
    admin.unload_model("sent", unload_dependents=True)
    assert not client.is_model_ready("sent")


def test_settings(client: Any, admin: Any) -> None:
    assert client.get_log_settings()["log_file"] == ""
    assert admin.update_log_settings({"log_verbose_level": 0})["log_verbose_level"] == 0
    assert refused(409, admin.update_log_settings, {"log_file": "x"})
    assert client.get_trace_settings()["trace_level"] == ["OFF"]
    assert client.get_trace_settings("echo")["trace_mode"] == "opentelemetry"
    assert admin.update_trace_settings("echo", {})["trace_level"] == ["OFF"]
    assert refused(409, admin.update_trace_settings, settings={"trace_rate": "5"})


def test_shared_memory(client: Any) -> None:
    assert client.get_system_shared_memory_status() == []
    assert client.get_cuda_shared_memory_status() == []
    assert refused(501, client.register_system_shared_memory, "r", "/r", 4)
    assert refused(501, client.register_cuda_shared_memory, "r", b"", 0, 4)
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()


# ------------------------------------------------------------------------------------------ asyncio


def test_asyncio(server: Server) -> None:
    async def calls() -> None:
        async with aio.InferenceServerClient(address(server)) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("echo", "1")
            assert (await client.get_server_metadata())["name"] == "infuse"
            assert (await client.get_model_metadata("echo"))["name"] == "echo"
            assert (await client.get_model_config("echo"))["name"] == "echo"
            assert (await client.get_inference_statistics("echo"))["model_stats"]
            assert await client.get_model_repository_index()
            assert "log_info" in await client.get_log_settings()
            assert "trace_rate" in await client.get_trace_settings()
            assert await client.get_system_shared_memory_status() == []
            assert await client.get_cuda_shared_memory_status() == []
            arrays = [np.full((1 + i % 3, 4), i, np.float32) for i in range(30)]
            for options in (
                {},
                {
                    "request_compression_algorithm": "gzip",
                    "response_compression_algorithm": "deflate",
                },
            ):
                results = await asyncio.gather(
                    *(client.infer("echo", [tensor(a)], **options) for a in arrays)
                )
                for result, array in zip(results, arrays):
                    np.testing.assert_array_equal(result.as_numpy("y"), array)
            with pytest.raises(InferenceServerException, match="none"):
                await client.infer("none", [tensor(X)])
        async with aio.InferenceServerClient(address(server, admin=True)) as admin:
            await admin.load_model("later")
            assert await admin.is_model_ready("later")
            await admin.unload_model("later")
            assert await admin.update_log_settings({}) == await admin.get_log_settings()
            assert await admin.update_trace_settings() == await admin.get_trace_settings()
            for call in (
                admin.register_system_shared_memory("r", "/r", 4),
                admin.register_cuda_shared_memory("r", b"", 0, 4),
            ):
                with pytest.raises(InferenceServerException):
                    await call
            await admin.unregister_system_shared_memory()
            await admin.unregister_cuda_shared_memory()

    asyncio.run(calls())
