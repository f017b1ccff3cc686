"""Outputs as their best classes, with names: by tritonclient over HTTP and gRPC, and when their
files change.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import urllib3
import yaml
from onnx import TensorProto

from infuse.errors import InfuseError, RepositoryError
from infuse.serving.config import Listener, ServerConfig, Workers
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from infuse.serving.server import Server
from tests.serving import models
from tests.serving.rest_models import identities, running

pytestmark = pytest.mark.row("S1")

SCORES = np.array([[0.25, 2.0, -1.0, 1.0], [3.0, 1.0, 5.0, 4.0]], np.float32)
NAMES = "cat\r\ndog\r\n\r\nÉté: blé\r\n"
BEST = [["2.000000:1:dog", "1.000000:3:Été: blé"], ["5.000000:2", "4.000000:3:Été: blé"]]
PBTXT = """max_batch_size: 8 input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] label_filename: "labels.txt" } ]"""
PORT = {"datatype": "FP32", "shape": [-1, 4]}
PIPELINE = {
    "inputs": [{"name": "x", **PORT}],
    "outputs": [{"name": "scores", **PORT}],
    "steps": [{"model": "full", "inputs": {"x": "x"}, "outputs": {"y": "scores"}}],
}
CONFIGS: Mapping[str, Mapping[str, str]] = {
    "full": {"config.pbtxt": PBTXT, "labels.txt": NAMES},
    "few": {"config.yaml": "label_files: {y: names/few.txt}", "names/few.txt": "cat\ndog"},
    "many": {"config.yaml": "label_files: {y: labels.txt}", "labels.txt": "a\nb\nc\nd\ne\nf\n"},
    "none": {"labels.txt": NAMES},
    "heir": {"config.yaml": yaml.safe_dump({"pipeline": PIPELINE})},
    "own": {
        "config.yaml": yaml.safe_dump({"pipeline": PIPELINE, "label_files": {"scores": "l"}}),
        "l": "A\nB\nC\nD",
    },
}


def fill(repository: Path) -> None:
    echo = identities({"": TensorProto.FLOAT}, ["rows", 4])
    for name, files in CONFIGS.items():
        models.write(repository, name, echo)
        for file, text in files.items():
            (repository / name / file).parent.mkdir(exist_ok=True)
            (repository / name / file).write_bytes(text.encode())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    fill(folder / "models")
    config = ServerConfig(
        repository=str(folder / "models"),
        cache=folder / "cache",
        control="none",
        http=Listener(),
        grpc=Listener(),
        admin=Listener(),
        workers=Workers(mode="inprocess"),
        model_defaults={"warmup": {"enabled": False}},
    )
    with running(config) as result:
        yield result


@pytest.fixture(params=["http", "grpc"])
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    kind = getattr(tritonclient, request.param)
    with kind.InferenceServerClient(f"127.0.0.1:{getattr(server, request.param).port}") as result:
        result.kind = kind
        yield result


def best(client: Any, model: str, classes: int, output: str = "y", **options: Any) -> Any:
    """The best classes of both rows, as text."""
    given = client.kind.InferInput("x", list(SCORES.shape), "FP32")
    given.set_data_from_numpy(SCORES)
    wanted = client.kind.InferRequestedOutput(output, class_count=classes, **options)
    found = client.infer(model, [given], outputs=[wanted]).as_numpy(output)
    return [
        [element.decode() if isinstance(element, bytes) else element for element in row]
        for row in found.tolist()
    ]


def test_classes_have_names(client: Any) -> None:
    assert best(client, "full", 2) == BEST


def test_more_classes_than_there_are(client: Any) -> None:
    assert best(client, "full", 9)[1] == [
        "5.000000:2",
        "4.000000:3:Été: blé",
        "3.000000:0:cat",
        "1.000000:1:dog",
    ]


def test_names_may_be_fewer_or_more_than_classes(client: Any) -> None:
    assert best(client, "few", 3)[0] == ["2.000000:1:dog", "1.000000:3", "0.250000:0:cat"]
    assert best(client, "many", 2)[1] == ["5.000000:2:c", "4.000000:3:d"]


def test_a_file_that_nobody_names_is_none_of_labels(client: Any) -> None:
    assert best(client, "none", 1) == [["2.000000:1"], ["5.000000:2"]]


def test_a_pipeline_has_the_names_of_its_models_or_its_own(client: Any) -> None:
    assert best(client, "heir", 2, "scores") == BEST
    assert best(client, "own", 1, "scores") == [["2.000000:1:B"], ["5.000000:2:C"]]


@pytest.mark.parametrize("binary", [False, True])
def test_names_are_sent_as_json_and_as_bytes(server: Server, binary: bool) -> None:
    outputs = [{"name": "y", "parameters": {"classification": 2, "binary_data": binary}}]
    inputs = [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": SCORES.tolist()}]
    assert server.http is not None
    answer = urllib3.request(
        "POST",
        f"http://127.0.0.1:{server.http.port}/v2/models/full/infer",
        body=json.dumps({"inputs": inputs, "outputs": outputs}).encode(),
    )
    length = int(answer.headers.get("inference-header-content-length", len(answer.data)))
    output = json.loads(answer.data[:length])["outputs"][0]
    assert (output["datatype"], output["shape"]) == ("BYTES", [2, 2])
    flat = [text.encode() for row in BEST for text in row]
    if binary:
        assert answer.data[length:] == b"".join(
            len(text).to_bytes(4, "little") + text for text in flat
        )
    else:
        assert output["data"] == [text.decode() for text in flat]


def test_requests_of_one_batch_have_names(server: Server) -> None:
    given = tritonclient.http.InferInput("x", [1, 4], "FP32")
    wanted = tritonclient.http.InferRequestedOutput("y", class_count=1)
    assert server.http is not None
    with tritonclient.http.InferenceServerClient(
        f"127.0.0.1:{server.http.port}", concurrency=8
    ) as client:
        pending = []
        for number in range(32):
            given.set_data_from_numpy(np.roll(SCORES[:1], number, axis=1))
            pending.append(client.async_infer("many", [given], outputs=[wanted]))
        found = [each.get_result().as_numpy("y")[0, 0].decode() for each in pending]
    assert found == [f"2.000000:{(1 + number) % 4}:{'bcda'[number % 4]}" for number in range(32)]


def test_the_configuration_names_the_files(client: Any) -> None:
    def named(model: str) -> Any:
        grpc = client.kind is tritonclient.grpc
        found = (
            client.get_model_config(model, as_json=True)["config"]
            if grpc
            else client.get_model_config(model)
        )
        return [output.get("label_filename", "") for output in found["output"]]

    assert (named("full"), named("few"), named("none")) == (["labels.txt"], ["names/few.txt"], [""])
    assert (named("heir"), named("own")) == ([""], ["l"])


# ------------------------------------------------------------------------------------- in an engine


async def labels(engine: Engine, model: str) -> list[bytes]:
    """The names that come with an answer."""
    request = InferRequest(model, inputs=[Tensor("x", "FP32", SCORES)])
    return list((await engine.infer(request)).outputs[0].labels)


@pytest.mark.row("S2")
def test_changed_labels_are_taken(tmp_path: Path) -> None:
    write_labelled(tmp_path, "cat\ndog\n")
    file = tmp_path / "models" / "m" / "labels.txt"

    async def main() -> None:
        async with Engine(models.config(tmp_path, control="poll")) as engine:
            assert await labels(engine, "m") == [b"cat", b"dog"]
            before = engine.models["m"].versions[1]
            file.write_text("dog\ncat\n")
            await models.until(
                lambda: engine.models["m"].versions[1] is not before, "it is loaded again"
            )
            assert await labels(engine, "m") == [b"dog", b"cat"]
            file.unlink()
            await models.until(lambda: engine.models["m"].problem, "the file is missed")
            assert "'labels.txt'" in engine.models["m"].problem
            assert await labels(engine, "m") == [b"dog", b"cat"]

    asyncio.run(main())


def write_labelled(folder: Path, names: str, config: str = "label_files: {y: labels.txt}") -> None:
    models.write(folder / "models", "m", models.adder(1), config=config)
    if names:
        (folder / "models" / "m" / "labels.txt").write_text(names)


SOFTMAX = {
    "pipeline": {
        "inputs": [{"name": "x", **PORT}],
        "outputs": [{"name": "p", **PORT}],
        "steps": [
            {"builtin": "softmax", "inputs": {"scores": "x"}, "outputs": {"probabilities": "p"}}
        ],
    },
    "label_files": {"z": "labels.txt"},
}
MISSING = {
    "'labels.txt', which its configuration names as labels of 'y'": (
        "",
        "label_files: {y: labels.txt}",
    ),
    "labels of the output 'z', and its outputs are y": ("cat", "label_files: {z: labels.txt}"),
    "labels of the output 'z', and its outputs are p": ("cat", yaml.safe_dump(SOFTMAX)),
}


@pytest.mark.row("S2")
@pytest.mark.parametrize("reason", MISSING)
def test_a_model_whose_labels_are_missing_is_not_loaded(reason: str, tmp_path: Path) -> None:
    write_labelled(tmp_path, *MISSING[reason])

    async def main() -> None:
        async with Engine(models.config(tmp_path, control="none")) as engine:
            assert [
                (entry["state"], reason in entry["reason"]) for entry in await engine.admin.index()
            ] == [("UNAVAILABLE", True)]
            with pytest.raises(RepositoryError) as caught:
                await engine.admin.load("m")
            assert reason in str(caught.value)

    asyncio.run(main())


@pytest.mark.row("S2")
def test_a_configuration_that_is_sent_brings_labels(tmp_path: Path) -> None:
    write_labelled(tmp_path, "cat\n", "{}")
    output = {
        "name": "y",
        "data_type": "TYPE_FP32",
        "dims": [-1, 4],
        "label_filename": "labels.txt",
    }

    async def main() -> None:
        async with Engine(models.config(tmp_path, control="explicit")) as engine:
            await engine.admin.load("m")
            assert await labels(engine, "m") == []
            await engine.admin.load("m", config=json.dumps({"output": [output]}))
            assert await labels(engine, "m") == [b"cat"]
            with pytest.raises(InfuseError, match="outside of the model's folder"):
                await engine.admin.load(
                    "m", config=json.dumps({"output": [{**output, "label_filename": "../l"}]})
                )
            assert await labels(engine, "m") == [b"cat"]

    asyncio.run(main())
