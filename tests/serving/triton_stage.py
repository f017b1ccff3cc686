"""The whole server, and HTTP clients of tritonclient for both of its ports."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from infuse.serving.server import Server
from tests.serving.rest_models import whole_server

X = np.array([[1.5, 2.5, -3, 0]], np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with whole_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def address(server: Server, admin: bool = False) -> str:
    """Where a port of the server is, as tritonclient wants it."""
    listener = server.admin if admin else server.http
    assert listener is not None
    return f"127.0.0.1:{listener.port}"


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with triton.InferenceServerClient(address(server)) as result:
        yield result


def tensor(array: Any, datatype: str = "FP32", name: str = "x", binary: bool = True) -> Any:
    result = triton.InferInput(name, list(array.shape), datatype)
    result.set_data_from_numpy(array, binary_data=binary)
    return result


def refused(status: int, call: Any, *args: Any, **options: Any) -> str:
    """The message of a call that fails with `status`."""
    with pytest.raises(InferenceServerException) as caught:
        call(*args, **options)
    assert caught.value.status() == str(status)
    return str(caught.value.message())
