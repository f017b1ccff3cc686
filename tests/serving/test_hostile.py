"""What hostile callers and configurations get: a refusal that is short, and others are answered
meanwhile.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from infuse.errors import ConfigurationError, DataError, InputError
from infuse.runtime.shapes import TensorSpec
from infuse.serving.control.bounds import check_bounds
from infuse.serving.control.repository.configs import parse_config
from infuse.serving.control.statuses import MOST_TEXT, grpc_code, http_status, public_text
from infuse.serving.control.yamltext import MOST_DEPTH, MOST_VALUES, read_yaml
from infuse.serving.engine.signature import Checker
from infuse.serving.messages import InferRequest, Tensor
from tests.serving import hostile_cases, models
from tests.serving.hostile_cases import CONFIGURATIONS, FULL, LISTS, SINGLE, SMALL
from tests.serving.processes import ServeProcess

pytestmark = pytest.mark.row("S9")

_LATE = 20.0  # seconds, far beyond what a busy machine needs to say that it lives


class Watch:
    """Asks for the health of a server again and again; `worst` is the longest that it took."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self.worst = 0.0
        self.asked = 0
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set() or not self.asked:
            began = time.monotonic()
            try:
                status = sent(self._port, hostile_cases.http(method="GET", path="/v2/health/live"))
            except OSError as error:
                self.failures.append(str(error))
                return
            self.asked += 1
            self.worst = max(self.worst, time.monotonic() - began)
            if status != 200:
                self.failures.append(f"status {status}")
            self._over.wait(0.02)


def sent(port: int, request: bytes, seconds: float = 240.0) -> int:
    """The status of the answer to these bytes; the text of an error must be short."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        writer = threading.Thread(target=_write, args=(connection, request), daemon=True)
        writer.start()
        answer = b""
        while part := _read(connection):
            answer += part
        writer.join()
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1."), answer[:200]
    status = int(head.split()[1])
    assert status < 400 or len(content) < 4 * MOST_TEXT, content[:300]
    return status


def _write(connection: socket.socket, request: bytes) -> None:
    try:
        connection.sendall(request)
    except OSError:  # it has been refused already
        return


def _read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except ConnectionError:
        return b""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    folder = tmp_path_factory.mktemp("hostile")
    models.write(folder / "models", "add", models.adder(1))
    options = ["--set=security.admin_on_data_port=true", "--set=limits.request_bytes=134217728"]
    with ServeProcess(folder / "models", folder, options) as started:
        yield started.serve()


def told(server: ServeProcess, request: bytes, expected: int) -> float:
    """Send a request; health is answered meanwhile, and the server serves on. How long health took
    at worst.
    """
    with Watch(server.http) as watch:
        status = sent(server.http, request)
    assert not watch.failures
    assert watch.worst < _LATE
    assert status == expected or (expected == 0 and 400 <= status < 500), status
    body = hostile_cases.body()
    assert sent(server.http, hostile_cases.http(body)) == 200
    return watch.worst


@pytest.mark.parametrize("name", SINGLE)
def test_one_wrong_thing_is_refused(name: str, server: ServeProcess) -> None:
    told(server, *SINGLE[name])


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_refused(name: str, server: ServeProcess) -> None:
    make, expected = LISTS[name]
    told(server, make(SMALL), expected)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", LISTS)
def test_long_lists_are_refused(name: str, server: ServeProcess) -> None:
    make, expected = LISTS[name]
    status = 0 if expected == 400 else expected  # there may be more of it than is counted
    if expected == 200:
        with Watch(server.http) as watch:
            sent(server.http, make(FULL))
        assert not watch.failures
        assert watch.worst < _LATE
    else:
        told(server, make(FULL), status)


def test_trailers_replace_no_headers(server: ServeProcess) -> None:
    body = hostile_cases.body()
    for trailer in (
        b"Inference-Header-Content-Length: 3",
        b"Host: evil.example",
        b"Content-Encoding: gzip",
    ):
        assert sent(server.http, hostile_cases.chunked(body, trailers=trailer + b"\r\n")) == 200


def test_there_are_a_hundred_and_more() -> None:
    assert len(SINGLE) + len(LISTS) + len(CONFIGURATIONS) >= 150


# ----------------------------------------------------------------------------------- configurations


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_hostile_configurations_are_refused(name: str) -> None:
    text, expected = CONFIGURATIONS[name]
    file = "config.pbtxt" if name.startswith("{") else "config.yaml"
    with pytest.raises(ConfigurationError) as caught:
        check_bounds(parse_config("m", text, file, {}).config, cores=2)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_usual_configurations_are_read() -> None:
    text = 'name: m\nreplicas: 2\nlabels: {"stable": 1}\nparameters: {a: !!str 1, b: "*x"}\n'
    config = parse_config("m", text, "config.yaml", {}).config
    check_bounds(config, cores=2)
    assert (config.replicas, config.parameters) == (2, {"a": "1", "b": "*x"})
    check_bounds(
        parse_config("m", "replicas: 300", "config.yaml", {}).config, cores=2, max_replicas=300
    )
    check_bounds(parse_config("m", "replicas: 300", "config.yaml", {}).config, cores=128)
    shared = parse_config(
        "m", "labels: &a {stable: 1}\nsplit: *a\n", "config.yaml", {}
    ).config  # as PyYAML writes it
    assert shared.split == shared.labels == {"stable": 1}


def test_limits_of_a_text_are_its_own() -> None:
    read_yaml("[" * MOST_DEPTH + "]" * MOST_DEPTH, "")
    assert len(read_yaml("[" + "1," * (MOST_VALUES - 1) + "]", "")) == MOST_VALUES - 1


def test_a_hostile_configuration_harms_no_other_model(tmp_path: Path) -> None:
    models.write(tmp_path / "models", "add", models.adder(1))
    models.write(tmp_path / "models", "bomb", models.adder(1), config=hostile_cases.LAUGH)
    models.write(tmp_path / "models", "horde", models.adder(1), config="replicas: 300\n")
    with ServeProcess(tmp_path / "models", tmp_path) as server:
        server.serve()
        assert (
            server.ask("POST", "/v2/models/add/infer", {"inputs": [hostile_cases.tensor()]})[0]
            == 200
        )
        _, index = server.ask("POST", "/v2/repository/index", {})
        reasons = {entry["name"]: entry["reason"] for entry in index}
        assert "aliases" in reasons["bomb"]
        assert "workers.max_replicas" in reasons["horde"]
        assert len(server.children()) <= 2


# ------------------------------------------------------------------------------------------- counts


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("twice", [False, True])
def test_wrong_names_are_found_in_linear_time(twice: bool) -> None:
    specs = [TensorSpec(name, np.dtype(np.float32), ("n",)) for name in ("x", "y")]
    checker = Checker(specs[:1], specs[1:], ["n"], {})
    array = np.zeros(1, np.float32)
    for count in (1000, 4000):
        names = [Counted(f"n{0 if twice else number}") for number in range(count)]
        Counted.compared = 0
        with pytest.raises(InputError, match="is there twice" if twice else "has no input"):
            checker.arrays(
                InferRequest("m", inputs=[Tensor(name, "FP32", array) for name in names])
            )
        assert Counted.compared < 10 * count


def test_what_callers_read_is_bounded() -> None:
    assert len(public_text(InputError("a" * 10**6, hint="b" * 10**6))) <= MOST_TEXT + 1


# -------------------------------------------------------------------------------------- whose fault


def gatherer() -> bytes:
    """y = table[x], of three places."""
    table = numpy_helper.from_array(np.zeros(3, np.float32), "table")
    node = helper.make_node("Gather", ["table", "x"], ["y"])
    ends = [models.tensor("x", TensorProto.INT64, ["rows"]), models.tensor("y", sizes=["rows"])]
    return models.model([node], ends[:1], ends[1:], [table])


def divider() -> bytes:
    """y = 6 / x in integers."""
    six = numpy_helper.from_array(np.array(6), "six")
    node = helper.make_node("Div", ["six", "x"], ["y"])
    ends = [models.tensor(name, TensorProto.INT64, ["rows"]) for name in ("x", "y")]
    return models.model([node], ends[:1], ends[1:], [six])


PIPELINE = """pipeline:
  inputs: [{name: x, datatype: INT64, shape: [-1]}]
  outputs: [{name: y, datatype: FP32, shape: [-1]}]
  steps: [{model: gather, inputs: {x: x}, outputs: {y: y}}]
"""


@pytest.mark.parametrize("make", [gatherer, divider])
@pytest.mark.parametrize("mode", ["process", "inprocess"])
def test_elements_that_a_model_cannot_take_are_the_callers_fault(
    make: Callable[[], bytes], mode: str, tmp_path: Path
) -> None:
    from infuse.serving.config import ServerConfig, Workers
    from infuse.serving.engine.engine import Engine

    bad = 7 if make is gatherer else 0
    models.write(tmp_path / "models", "gather", make())
    if make is gatherer:
        models.write(tmp_path / "models", "line", b"", config=PIPELINE)
        (tmp_path / "models" / "line" / "1" / "model.onnx").unlink()
    workers = Workers(mode=mode)  # type: ignore[arg-type]
    config = ServerConfig(
        repository=str(tmp_path / "models"), cache=tmp_path / "cache", workers=workers
    )

    async def main() -> None:
        async with Engine(config) as engine:
            for name in ["gather", *(["line"] if make is gatherer else [])]:
                request = InferRequest(name, inputs=[Tensor("x", "INT64", np.array([bad]))])
                with pytest.raises(DataError) as caught:
                    await engine.infer(request)
                assert (http_status(caught.value), grpc_code(caught.value)) == (
                    400,
                    "INVALID_ARGUMENT",
                )
                good = InferRequest(name, inputs=[Tensor("x", "INT64", np.array([1]))])
                assert (await engine.infer(good)).outputs[0].data.shape == (1,)

    asyncio.run(main())
