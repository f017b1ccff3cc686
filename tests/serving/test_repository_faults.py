"""An object store as a repository, against a local S3 server: faults on the way."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from infuse.errors import RepositoryError
from infuse.serving.config import ServerConfig
from infuse.serving.control.repository import Repository
from infuse.serving.control.repository.remote import ObjectStore
from tests.serving.store_stage import (
    LARGE,
    Bucket,
    Fault,
    Proxy,
    bucket,
    cut,
    drop,
    no_waiting,
    proxy,
    refuse,
    scan,
    server,
)

__all__ = ["bucket", "no_waiting", "proxy", "server"]
pytestmark = pytest.mark.row("S2")

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
