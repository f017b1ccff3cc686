"""Whole pipelines in an engine: from the bytes of images and texts to labels and vectors."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tokenizers
import yaml
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from infuse.errors import InputError, RequestError, UnavailableError
from infuse.serving.config import ServerConfig
from infuse.serving.control.reading import convert
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, RequestedOutput, Tensor

pytestmark = pytest.mark.row("S1")


def put(repository: Path, name: str, model: onnx.ModelProto) -> None:
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "_SUCCESS").touch()
    onnx.save(model, folder / "model.onnx")


def put_pipeline(
    repository: Path, name: str, pipeline: Mapping[str, Any], files: Mapping[str, str]
) -> None:
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "_SUCCESS").touch()
    (folder / "config.yaml").write_text(yaml.safe_dump({"pipeline": dict(pipeline)}))
    for file, text in files.items():
        (folder / file).write_text(text)


def model(
    nodes: Sequence[Any], inputs: Any, outputs: Any, weights: Mapping[str, Any]
) -> onnx.ModelProto:
    def infos(ports: Any) -> list[Any]:
        return [helper.make_tensor_value_info(*port) for port in ports]

    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "graph", infos(inputs), infos(outputs), constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def colours() -> onnx.ModelProto:
    """Scores of three classes: the mean of each colour."""
    return model(
        [helper.make_node("ReduceMean", ["x", "axes"], ["scores"], keepdims=0)],
        [("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [("scores", TensorProto.FLOAT, ["n", 3])],
        {"axes": np.array([2, 3])},
    )


TABLE = np.random.default_rng(5).standard_normal((6, 4)).astype(np.float32)


def embeddings() -> onnx.ModelProto:
    """The rows of a table, where the mask is not zero."""
    return model(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
            helper.make_node("Mul", ["rows", "wide"], ["states"]),
        ],
        [(name, TensorProto.INT64, ["n", "t"]) for name in ("input_ids", "attention_mask")],
        [("states", TensorProto.FLOAT, ["n", "t", 4])],
        {"table": TABLE, "last": np.array([-1])},
    )


def flat(colour: tuple[int, int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (30, 20), colour).save(file, "PNG")
    return file.getvalue()


def bytes_of(name: str, *parts: bytes) -> Tensor:
    data = np.empty(len(parts), object)
    data[:] = parts
    return Tensor(name, "BYTES", data)


def settings(repository: Path) -> ServerConfig:
    plain = {"control": "none", "workers": {"mode": "inprocess"}}
    cache = str(repository.parent / "cache")
    return convert(ServerConfig, {"repository": str(repository), "cache": cache, **plain}, "test")


def ask(repository: Path, *requests: InferRequest) -> list[Any]:
    """The responses, or the errors, of an engine on this repository."""

    async def main() -> list[Any]:
        async with Engine(settings(repository)) as engine:
            assert engine.ready(), [entry["reason"] for entry in await engine.admin.index()]
            return await asyncio.gather(
                *(engine.infer(request) for request in requests), return_exceptions=True
            )

    return asyncio.run(main())


CLASSIFIER = {
    "inputs": [{"name": "image", "datatype": "BYTES", "shape": [-1]}],
    "outputs": [
        {"name": "label", "datatype": "BYTES", "shape": [-1, 2]},
        {"name": "probabilities", "datatype": "FP32", "shape": [-1, 3]},
    ],
    "steps": [
        {
            "builtin": "topk_labels",
            "options": {"k": 2},
            "inputs": {"scores": "p"},
            "outputs": {"labels": "label"},
        },
        {
            "builtin": "softmax",
            "inputs": {"scores": "s"},
            "outputs": {"probabilities": "probabilities"},
        },
        {"model": "colours", "inputs": {"x": "pixels"}, "outputs": {"scores": "s"}},
        {
            "builtin": "decode_image",
            "options": {"size": 8},
            "inputs": {"image": "image"},
            "outputs": {"pixels": "pixels"},
        },
        {"model": "same", "inputs": {"x": "probabilities"}, "outputs": {"y": "p"}},
    ],
}


def same() -> onnx.ModelProto:
    ports = [TensorProto.FLOAT, ["n", 3]]
    return model([helper.make_node("Identity", ["x"], ["y"])], [("x", *ports)], [("y", *ports)], {})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "models"
    put(root, "colours", colours())
    put(root, "same", same())
    put_pipeline(root, "classifier", CLASSIFIER, {"labels.txt": "red\ngreen\nblue\n"})
    return root


def test_images_become_labels(repository: Path) -> None:
    images = bytes_of("image", flat((255, 51, 0)), flat((0, 0, 102)))
    only = [RequestedOutput("probabilities")]
    whole, part, broken, other = ask(
        repository,
        InferRequest("classifier", id="a", inputs=[images]),
        InferRequest("classifier", inputs=[bytes_of("image", flat((255, 51, 0)))], outputs=only),
        InferRequest("classifier", inputs=[bytes_of("image", flat((1, 2, 3)), b"no image")]),
        InferRequest("classifier", inputs=[Tensor("image", "FP32", np.zeros(3, np.float32))]),
    )
    scores = np.array([[1, 0.2, 0], [0, 0, 0.4]])
    powers = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert (whole.model, whole.id) == ("classifier", "a")
    assert [output.name for output in whole.outputs] == ["label", "probabilities"]
    np.testing.assert_allclose(whole.outputs[1].data, powers, rtol=1e-5)
    named = [[label.decode().split(":") for label in row] for row in whole.outputs[0].data]
    assert [[name for name, _ in row] for row in named] == [["red", "green"], ["blue", "red"]]
    np.testing.assert_allclose(float(named[0][0][1]), powers[0, 0], rtol=1e-5)
    assert [output.name for output in part.outputs] == ["probabilities"]
    np.testing.assert_array_equal(part.outputs[0].data[0], whole.outputs[1].data[0])
    assert isinstance(broken, RequestError)
    assert "step 4 (decode_image): element 1 of input 'image'" in str(broken)
    assert isinstance(other, InputError)


def test_texts_become_vectors(tmp_path: Path) -> None:
    root = tmp_path / "models"
    put(root, "embeddings", embeddings())
    vocabulary = {
        word: number for number, word in enumerate(["[PAD]", "[UNK]", "the", "cat", "sat", "mat"])
    }
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_padding()
    pipeline = {
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [{"name": "vector", "datatype": "FP32", "shape": [-1, -1]}],
        "steps": [
            {
                "builtin": "tokenize",
                "inputs": {"text": "text"},
                "outputs": {"input_ids": "ids", "attention_mask": "mask"},
            },
            {
                "model": "embeddings",
                "inputs": {"input_ids": "ids", "attention_mask": "mask"},
                "outputs": {"states": "states"},
            },
            {
                "builtin": "mean_pool",
                "inputs": {"embeddings": "states", "mask": "mask"},
                "outputs": {"vectors": "vector"},
            },
        ],
    }
    put_pipeline(root, "vectors", pipeline, {"tokenizer.json": tokenizer.to_str()})
    texts = [["the", "cat", "sat"], ["mat"], ["the", "dog"]]
    (found,) = ask(
        root,
        InferRequest(
            "vectors", inputs=[bytes_of("text", *(" ".join(words).encode() for words in texts))]
        ),
    )
    for row, words in zip(found.outputs[0].data, texts):
        mean = TABLE[[vocabulary.get(word, 1) for word in words]].mean(0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), rtol=1e-5, atol=1e-6)


def test_a_model_that_decodes_images_itself_is_served_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "models"
    decoder = model(
        [
            helper.make_node("ImageDecoder", ["file"], ["pixels"], pixel_format="RGB"),
            helper.make_node("Cast", ["pixels"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["wide", "axes"], ["colour"], keepdims=0),
        ],
        [("file", TensorProto.UINT8, ["bytes"])],
        [("colour", TensorProto.FLOAT, [3])],
        {"axes": np.array([0, 1])},
    )
    put(root, "decoder", decoder)
    shades = [(255, 51, 0), (1, 2, 3)]
    requests = [
        InferRequest(
            "decoder", inputs=[Tensor("file", "UINT8", np.frombuffer(flat(shade), np.uint8))]
        )
        for shade in shades
    ]
    for response, shade in zip(ask(root, *requests), shades):
        np.testing.assert_allclose(response.outputs[0].data, shade, rtol=1e-6)


def test_pipelines_that_cannot_run_say_why(tmp_path: Path) -> None:
    root = tmp_path / "models"
    put(root, "same", same())

    def one_step(model: str) -> dict[str, Any]:
        port = {"datatype": "FP32", "shape": [-1, 3]}
        step = {"model": model, "inputs": {"x": "x"}, "outputs": {"y": "y"}}
        return {
            "inputs": [{"name": "x", **port}],
            "outputs": [{"name": "y", **port}],
            "steps": [step],
        }

    for name, calls in (("good", "same"), ("a", "b"), ("b", "a"), ("missing", "nobody")):
        put_pipeline(root, name, one_step(calls), {})

    async def main() -> tuple[dict[str, str], Any]:
        async with Engine(settings(root)) as engine:
            reasons = {entry["name"]: entry["reason"] for entry in await engine.admin.index()}
            ones = np.ones((2, 3), np.float32)
            return reasons, await engine.infer(
                InferRequest("good", inputs=[Tensor("x", "FP32", ones)])
            )

    reasons, answer = asyncio.run(main())
    assert answer.outputs[0].data.tolist() == [[1, 1, 1]] * 2
    assert "it runs itself: a → b → a" in reasons["a"]
    assert "it runs itself: b → a → b" in reasons["b"]
    assert "step 1 (nobody): there is no model 'nobody'" in reasons["missing"]


def test_pipelines_that_run_when_the_server_drains_are_finished(repository: Path) -> None:
    async def main() -> Any:
        async with Engine(settings(repository)) as engine:
            begun = asyncio.Event()
            go_on = asyncio.Event()
            inner = engine.models["colours"].versions[1]
            plain = inner.infer

            async def held(request: InferRequest) -> Any:
                begun.set()
                await go_on.wait()
                return await plain(request)

            inner.infer = held
            image = bytes_of("image", flat((9, 9, 9)))
            running = asyncio.ensure_future(
                engine.infer(InferRequest("classifier", inputs=[image]))
            )
            await asyncio.wait_for(begun.wait(), 60)
            engine.drain()
            with pytest.raises(UnavailableError, match="shutting down"):
                await engine.infer(InferRequest("classifier", inputs=[image]))
            go_on.set()
            return await running

    assert [output.name for output in asyncio.run(main()).outputs] == ["label", "probabilities"]
