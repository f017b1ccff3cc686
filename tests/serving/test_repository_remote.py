"""An object store as a repository, against a local S3 server: lists, copies, what changes, and
faults on the way.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import ConfigurationError, RepositoryError
from infuse.serving.config import Security, ServerConfig
from infuse.serving.control.repository import ModelFiles, Repository
from infuse.serving.control.repository.remote import ObjectStore

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto")
from moto.core import DEFAULT_ACCOUNT_ID  # noqa: E402
from moto.s3.models import s3_backends  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402

pytestmark = pytest.mark.row("S2")

LARGE = bytes(range(256)) * 4096 * 6  # several pieces


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


class Bucket:
    """A bucket and a client for it."""

    def __init__(self, server: str, name: str) -> None:
        self.server = server
        self.name = name
        keys = {
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "region_name": "us-east-1",
        }
        self.client: Any = boto3.client("s3", endpoint_url=server, **keys)
        self.client.create_bucket(Bucket=name)

    def put(self, key: str, content: bytes = b"") -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def options(self, endpoint: str = "") -> dict[str, str]:
        return {
            "endpoint": endpoint or self.server,
            "region": "us-east-1",
            "access_key_id": "key",
            "secret_access_key": "secret",
            "allow_http": "true",
            "timeout": "30s",
        }

    def config(self, cache: Path, endpoint: str = "", **fields: Any) -> ServerConfig:
        options = self.options(endpoint)
        return ServerConfig(
            repository=f"s3://{self.name}/models", store_options=options, cache=cache, **fields
        )


@pytest.fixture
def bucket(server: str, request: pytest.FixtureRequest) -> Iterator[Bucket]:
    made = Bucket(server, f"b{abs(hash(request.node.nodeid)):x}")
    yield made
    made.client.close()


Fault = Callable[["Handler", http.client.HTTPResponse, bytes], None]


class Proxy(ThreadingHTTPServer):
    """Between a client and the store. Each fault spoils one answer, in order."""

    daemon_threads = True

    def __init__(self, store: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store = store.removeprefix("http://")
        self.faults: list[tuple[str, Fault]] = []  # part of the path that it waits for
        self.requests: list[tuple[str, str]] = []  # path and range
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Range", "")))
        store = http.client.HTTPConnection(self.server.store, timeout=30)
        store.request(self.command, self.path, headers=dict(self.headers))
        answer = store.getresponse()
        body = answer.read()
        store.close()
        for number, (part, fault) in enumerate(self.server.faults):
            if part in self.path:
                del self.server.faults[number]
                fault(self, answer, body)
                return
        self.forward(answer, body, len(body))

    def forward(self, answer: http.client.HTTPResponse, body: bytes, size: int) -> None:
        """The store's answer, and so many bytes of its body."""
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in (
                "content-length",
                "transfer-encoding",
                "connection",
                "date",
                "server",
            ):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(body[:size])

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


def refuse(status: int) -> Fault:
    """An answer with that status instead."""

    def fault(handler: Handler, _answer: http.client.HTTPResponse, _body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return fault


def cut(share: float) -> Fault:
    """An answer whose body breaks off."""

    def fault(handler: Handler, answer: http.client.HTTPResponse, body: bytes) -> None:
        handler.forward(answer, body, int(len(body) * share))
        handler.close_connection = True

    return fault


def drop(handler: Handler, _answer: http.client.HTTPResponse, _body: bytes) -> None:
    """No answer: the connection ends."""
    handler.close_connection = True


@pytest.fixture
def proxy(server: str) -> Iterator[Proxy]:
    running = Proxy(server)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    thread.join(30)
    running.server_close()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow one another at once."""
    monkeypatch.setattr("infuse.serving.control.repository.remote.RETRY_SECONDS", 1e-3)


def scan(repository: Repository) -> dict[str, ModelFiles]:
    return dict(asyncio.run(repository.scan()))


def test_models_are_listed_and_fetched(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("models/m/1/model.onnx", LARGE)
    bucket.put("models/m/1/w/0.bin", b"weights")
    bucket.put("models/m/01/model.onnx", b"no")
    bucket.put("models/m/.hidden/model.onnx", b"no")
    bucket.put("models/m/config.yaml", b"tune: true")
    bucket.put("models/p/config.yaml", b"pipeline: {inputs: [], outputs: [], steps: []}")
    bucket.put("models/p/2/")
    bucket.put("models/single.onnx", b"s")
    bucket.put("models/spaced name/3/\u00fc.onnx", b"u")
    bucket.put("models2/other/1/model.onnx", b"no")
    repository = Repository(bucket.config(tmp_path))
    found = scan(repository)
    assert {name: (list(model.versions), model.problem) for name, model in found.items()} == {
        "m": ([1], ""),
        "p": ([2], ""),
        "single": ([1], ""),
        "spaced name": ([3], ""),
    }
    assert found["m"].config.tune
    assert found["m"].versions[1].source == f"s3://{bucket.name}/models/m/1"
    local = asyncio.run(repository.fetch(found["m"], 1))
    assert local.main.read_bytes() == LARGE
    assert (local.folder / "w/0.bin").read_bytes() == b"weights"
    assert asyncio.run(repository.fetch(found["spaced name"], 3)).main.read_bytes() == b"u"
    assert asyncio.run(repository.fetch(found["single"], 1)).main.name == "single.onnx"
    assert list(asyncio.run(repository.fetch(found["p"], 2)).folder.iterdir()) == []


def test_a_thousand_versions_are_listed(bucket: Bucket, tmp_path: Path) -> None:
    store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]  # without 1,001 requests
    for number in range(1, 1002):
        store.put_object(bucket.name, f"models/m/{number}/model.onnx", b"%d" % number)
    repository = Repository(bucket.config(tmp_path))
    model = scan(repository)["m"]
    assert set(model.versions) == set(range(1, 1002))
    assert asyncio.run(repository.fetch(model, 1001)).main.read_bytes() == b"1001"


def test_an_empty_prefix_is_an_empty_repository(bucket: Bucket, tmp_path: Path) -> None:
    assert scan(Repository(bucket.config(tmp_path))) == {}


def test_nothing_is_fetched_twice_also_after_a_restart(
    bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    bucket.put("models/m/1/model.onnx", LARGE)
    bucket.put("models/m/config.yaml", b"tune: true")
    for _ in range(2):
        repository = Repository(bucket.config(tmp_path, proxy.address))
        for _ in range(2):
            model = scan(repository)["m"]
            assert asyncio.run(repository.fetch(model, 1)).main.read_bytes() == LARGE
        repository.close()
    assert sum("model.onnx" in path for path, _ in proxy.requests) == 1
    assert sum("config.yaml" in path for path, _ in proxy.requests) == 2  # once by each server


def test_labels_are_read_once_and_anew_when_they_change(
    bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    bucket.put("models/m/1/model.onnx", b"m")
    bucket.put("models/m/config.yaml", b"label_files: {y: labels.txt}")
    repository = Repository(bucket.config(tmp_path, proxy.address))
    for names in (b"cat", b"dog"):
        bucket.put("models/m/labels.txt", names)
        assert [scan(repository)["m"].labels.outputs for _ in range(2)] == [{"y": (names,)}] * 2
    assert sum("labels.txt" in path for path, _ in proxy.requests) == 2


def test_an_object_that_changed_is_fetched_anew(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("models/m/1/model.onnx", b"first")
    repository = Repository(bucket.config(tmp_path))
    before = scan(repository)["m"]
    first = asyncio.run(repository.fetch(before, 1))
    bucket.put("models/m/1/model.onnx", b"other")
    after = scan(repository)["m"]
    assert after.versions[1].fingerprint != before.versions[1].fingerprint
    assert asyncio.run(repository.fetch(after, 1)).main.read_bytes() == b"other"
    assert first.main.read_bytes() == b"first"


def test_an_object_that_changed_since_the_scan_is_tried_again_later(
    bucket: Bucket, tmp_path: Path
) -> None:
    bucket.put("models/m/1/model.onnx", b"first")
    repository = Repository(bucket.config(tmp_path))
    model = scan(repository)["m"]
    bucket.put("models/m/1/model.onnx", b"other")
    with pytest.raises(RepositoryError, match="changed") as caught:
        asyncio.run(repository.fetch(model, 1))
    assert caught.value.transient
    bucket.client.delete_object(Bucket=bucket.name, Key="models/m/1/model.onnx")
    with pytest.raises(RepositoryError, match="changed"):
        asyncio.run(repository.fetch(model, 1))
    assert scan(repository) == {}


FAULTS: dict[str, list[Fault]] = {
    "500": [refuse(500)],
    "503_often": [refuse(503)] * 6,
    "429": [refuse(429)],
    "dropped": [drop, drop],
    "cut": [cut(0.5)],
    "cut_often": [cut(0.3), drop, cut(0.5), refuse(500), cut(0.9)],
    "nothing": [cut(0.0)],
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_on_the_way_are_overcome(
    name: str, bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    bucket.put("models/m/1/model.onnx", LARGE)
    repository = Repository(bucket.config(tmp_path, proxy.address))
    proxy.faults += [("list-type", fault) for fault in FAULTS[name][:2]]
    proxy.faults += [("model.onnx", fault) for fault in FAULTS[name]]
    model = scan(repository)["m"]
    assert asyncio.run(repository.fetch(model, 1)).main.read_bytes() == LARGE
    assert not proxy.faults
    assert not list((tmp_path / "new").iterdir())


def test_a_transfer_goes_on_where_it_broke_off(bucket: Bucket, proxy: Proxy) -> None:
    bucket.put("models/m/1/model.onnx", LARGE)
    store = ObjectStore(
        f"s3://{bucket.name}/models", bucket.options(proxy.address), threading.Event()
    )
    (file,) = store.listing().files
    proxy.faults.append(("model.onnx", cut(0.9)))
    assert b"".join(store.chunks(file)) == LARGE
    first, second = [wanted for path, wanted in proxy.requests if "model.onnx" in path]
    assert first == ""
    assert int(second.removeprefix("bytes=").partition("-")[0]) > 0


def test_a_store_that_stays_away_is_a_fault_that_may_pass(
    bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    bucket.put("models/m/1/model.onnx", LARGE)
    repository = Repository(bucket.config(tmp_path, proxy.address))
    model = scan(repository)["m"]
    proxy.faults += [("", refuse(503))] * 100
    with pytest.raises(RepositoryError) as caught:
        asyncio.run(repository.fetch(model, 1))
    assert caught.value.transient
    assert caught.value.where == f"s3://{bucket.name}/models/m/1/model.onnx"
    with pytest.raises(RepositoryError) as caught:
        scan(repository)
    assert caught.value.transient
    assert not list((tmp_path / "blobs").iterdir())
    proxy.faults.clear()
    assert asyncio.run(repository.fetch(scan(repository)["m"], 1)).main.read_bytes() == LARGE


def test_a_config_that_cannot_be_read_now_spoils_the_scan_and_not_the_model(
    bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    bucket.put("models/m/1/model.onnx", b"m")
    bucket.put("models/m/config.yaml", b"tune: true")
    repository = Repository(bucket.config(tmp_path, proxy.address))
    proxy.faults += [("config.yaml", refuse(503))] * 100
    with pytest.raises(RepositoryError) as caught:
        scan(repository)
    assert caught.value.transient
    proxy.faults.clear()
    assert scan(repository)["m"].config.tune


def test_refusals_are_said_at_once(bucket: Bucket, proxy: Proxy, tmp_path: Path) -> None:
    proxy.faults += [("", refuse(403))] * 100
    with pytest.raises(RepositoryError, match="403") as caught:
        scan(Repository(bucket.config(tmp_path, proxy.address)))
    assert not caught.value.transient
    assert len(proxy.requests) == 1
    missing = ServerConfig(
        repository="s3://no-such-bucket/x", store_options=bucket.options(), cache=tmp_path
    )
    with pytest.raises(RepositoryError, match="404"):
        scan(Repository(missing))


def test_names_that_are_no_paths_spoil_their_model_only(bucket: Bucket, tmp_path: Path) -> None:
    for key in (
        "good/1/model.onnx",
        "empty//1/model.onnx",
        "up/../../x",
        "bell/1/a\u0007.onnx",
        "back/1/a\\b.onnx",
    ):
        bucket.client.put_object(Bucket=bucket.name, Key=f"models/{key}", Body=b"x")
    repository = Repository(bucket.config(tmp_path))
    found = scan(repository)
    assert asyncio.run(repository.fetch(found["good"], 1)).main.read_bytes() == b"x"
    assert "no path" in found["empty"].problem
    assert "no path" in found["up"].problem
    assert "no path" in found["bell"].problem
    assert "no path" in found["back"].versions[1].problem


def test_an_object_that_is_a_folder_too_spoils_its_version_only(
    bucket: Bucket, tmp_path: Path
) -> None:
    bucket.put("models/m/1/model.onnx", b"x")
    bucket.put("models/m/1/model.onnx/part", b"x")
    bucket.put("models/m/2/model.onnx", b"x")
    versions = scan(Repository(bucket.config(tmp_path)))["m"].versions
    assert "as if it were a folder" in versions[1].problem
    assert not versions[2].problem


def test_compiled_models_need_trust_in_the_address(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("models/m/1/metadata.json", b"{}")
    refused = scan(Repository(bucket.config(tmp_path)))["m"].versions[1]
    assert "security.compiled_folders" in refused.problem
    trusted = Security(compiled_folders=(Path(f"s3://{bucket.name}/models"),))
    assert not scan(Repository(bucket.config(tmp_path, security=trusted)))["m"].versions[1].problem


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("ftp://host/x", {}),
        ("s3://bucket/x", {"nonsense": "1"}),
        ("s3://bucket/x", {"timeout": "soon"}),
    ],
)
def test_addresses_and_options_that_mean_nothing(
    address: str, options: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        scan(Repository(ServerConfig(repository=address, store_options=options, cache=tmp_path)))
    assert address in str(caught.value)


def test_waits_grow_and_end_when_the_server_ends(bucket: Bucket, proxy: Proxy) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 3

    proxy.faults += [("", refuse(503))] * 100
    store = ObjectStore(
        f"s3://{bucket.name}/models", bucket.options(proxy.address), threading.Event(), wait=wait
    )
    with pytest.raises(RepositoryError):
        store.listing()
    assert len(waits) == 3
    assert waits[2] > waits[0]
