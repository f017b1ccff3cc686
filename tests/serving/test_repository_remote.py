"""An object store as a repository, against a local S3 server: lists, copies and what changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from infuse.errors import ConfigurationError, RepositoryError
from infuse.serving.config import Security, ServerConfig
from infuse.serving.control.repository import Repository
from tests.serving.store_stage import LARGE, Bucket, Proxy, bucket, no_waiting, proxy, scan, server

__all__ = ["bucket", "no_waiting", "proxy", "server"]
pytestmark = pytest.mark.row("S2")


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
    store = bucket.backend  # without 1,001 requests
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
    assert "not a path" in found["empty"].problem
    assert "not a path" in found["up"].problem
    assert "not a path" in found["bell"].problem
    assert "not a path" in found["back"].versions[1].problem


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
