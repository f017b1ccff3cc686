"""A model's configuration is held against the model, and what it declares is applied to
requests.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from infuse.errors import ConfigurationError, InputError
from infuse.serving.config import ServerConfig
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.reading import convert
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, Tensor
from tests.serving.engine_stage import served

pytestmark = pytest.mark.row("S2")


def model(first: int | str = "n", second: int | str = 4) -> bytes:
    """x, an image of first × 2 × second, doubled; and the sums of its rows."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["y"]),
        helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=0),
    ]
    tensors = [helper.make_tensor("axes", TensorProto.INT64, [2], [1, 2])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [first, 2, second])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [first, 2, second])
    s = helper.make_tensor_value_info("s", TensorProto.FLOAT, [first])
    graph = helper.make_graph(nodes, "m", [x], [y, s], tensors)
    return bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()
    )


def put(folder: Path, text: str, content: bytes, kind: str = "config.pbtxt") -> None:
    place = folder / "models" / "m"
    (place / "1").mkdir(parents=True)
    (place / kind).write_text(text)
    (place / "1" / "model.onnx").write_bytes(content)
    (place / "1" / "_SUCCESS").touch()


X = 'input { name: "x" data_type: TYPE_FP32 dims: [ 2, 4 ] }'
Y = 'output { name: "y" data_type: TYPE_FP32 dims: [ 2, 4 ] }'
B = "max_batch_size: 8 "

REFUSED = {
    "another name": (
        B + X.replace('"x"', '"z"') + Y,
        "the model has no input 'z'. Hint: its inputs are x",
    ),
    "another output": (
        B + X + Y.replace('"y"', '"z"'),
        "the model has no output 'z'. Hint: its outputs are y, s",
    ),
    "another type": (
        B + X.replace("FP32", "INT64") + Y,
        "'x' is declared as INT64, and the model's is FP32",
    ),
    "another type of an output": (B + Y.replace("FP32", "FP16"), "'y' is declared as FP16"),
    "another size": (
        B + X.replace("4", "5") + Y,
        "'x' is declared as [-1, 2, 5], and the model's is [-1, 2, 4]",
    ),
    "a free size": (
        B + X.replace("4", "-1") + Y,
        "'x' is declared as [-1, 2, -1], and the model's is [-1, 2, 4]",
    ),
    "a size more": (B + X.replace("4", "4, 1") + Y, "'x' is declared as [-1, 2, 4, 1]"),
    "dims without the batch": (X + Y, "'x' is declared as [2, 4], and the model's is [-1, 2, 4]"),
    "dims with the batch": (B + X.replace("2, 4", "-1, 2, 4"), "'x' is declared as [-1, -1, 2, 4]"),
    "twice": (B + X + X + Y, "the input 'x' is declared twice"),
    "below -1": (B + X.replace("4", "-2"), "-1"),
    "reshape of other sizes": (
        B + X.replace("]", "] reshape { shape: [ 2, 3 ] }"),
        "the input 'x' of [-1, 2, 4] cannot be reshaped to [-1, 2, 3]",
    ),
    "reshape to what the model has not": (
        B + X.replace("[ 2, 4 ]", "[ 8 ] reshape { shape: [ 4, 2 ] }"),
        "'x' is declared as [-1, 4, 2], and the model's is [-1, 2, 4]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_contradicts_the_model_keeps_it_from_loading(case: str, tmp_path: Path) -> None:
    text, message = REFUSED[case]
    put(tmp_path, text, model())

    async def work(engine: Engine) -> None:
        (entry,) = await engine.admin.index()
        assert entry["state"] == "UNAVAILABLE"
        assert message in entry["reason"]
        assert any(
            event["kind"] == "load_failed" and message in event["reason"] for event in engine.events
        )

    served(tmp_path, work)


def test_batches_of_a_model_that_has_none_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "max_batch_size: 8", model(3))

    async def work(engine: Engine) -> None:
        (entry,) = await engine.admin.index()
        assert (
            "it asks for batches, and the first dimension of x: float32[3, 2, 4] is not free"
            in entry["reason"]
        )

    served(tmp_path, work)


async def ask(engine: Engine, x: Any, *outputs: str) -> dict[str, Any]:
    array = np.asarray(x, np.float32)
    response = await engine.infer(InferRequest("m", inputs=[Tensor("x", "FP32", array)]))
    return {tensor.name: tensor.data for tensor in response.outputs}


def test_tensors_are_reshaped_on_their_way_in_and_out(tmp_path: Path) -> None:
    put(
        tmp_path,
        B
        + 'input { name: "x" data_type: TYPE_FP32 dims: [ 8 ] reshape { shape: [ 2, 4 ] } }'
        + 'output { name: "s" data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }'
        + 'output { name: "y" data_type: TYPE_FP32 dims: [ 4, 2 ] reshape { shape: [ 2, 4 ] } }',
        model(),
    )

    async def work(engine: Engine) -> None:
        told = engine.model_metadata("m")
        assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}]
        assert [(tensor["name"], tensor["shape"]) for tensor in told["outputs"]] == [
            ("s", [-1, 1]),
            ("y", [-1, 4, 2]),
        ]
        x = np.arange(24, dtype=np.float32).reshape(3, 8)
        answer = await ask(engine, x)
        assert list(answer) == ["s", "y"]
        np.testing.assert_array_equal(answer["y"], (2 * x).reshape(3, 4, 2))
        np.testing.assert_array_equal(answer["s"], x.sum(1, keepdims=True))
        with pytest.raises(
            InputError, match=r"'x' has the shape \[3, 2, 4\], and the model takes \[-1, 8\]"
        ):
            await ask(engine, x.reshape(3, 2, 4))

    served(tmp_path, work)


def test_sizes_that_the_model_leaves_free_bind_callers(tmp_path: Path) -> None:
    put(tmp_path, B + X + 'output { name: "y" data_type: TYPE_FP32 }', model("n", "m"))

    async def work(engine: Engine) -> None:
        assert engine.model_metadata("m")["inputs"][0]["shape"] == [-1, 2, 4]
        assert list(await ask(engine, np.zeros((1, 2, 4)))) == ["y"]
        with pytest.raises(InputError, match=r"the model takes \[-1, 2, 4\]"):
            await ask(engine, np.zeros((1, 2, 5)))

    served(tmp_path, work)


def test_free_sizes_go_through_a_reshape(tmp_path: Path) -> None:
    text = (
        'input { name: "x" data_type: TYPE_FP32 dims: [ -1, 8 ] reshape { shape: [ -1, 2, 4 ] } }'
    )
    put(tmp_path, text, model())

    async def work(engine: Engine) -> None:
        for rows in (1, 5):
            assert (await ask(engine, np.zeros((rows, 8))))["y"].shape == (rows, 2, 4)

    served(tmp_path, work)


def test_our_own_configuration_declares_too(tmp_path: Path) -> None:
    put(tmp_path, "inputs: [{name: x, datatype: FP64}]\n", model(), "config.yaml")

    async def work(engine: Engine) -> None:
        (entry,) = await engine.admin.index()
        assert "declared as FP64, and the model's is FP32" in entry["reason"]

    served(tmp_path, work)


def test_what_the_server_tells_of_a_model_loads_it_again(tmp_path: Path) -> None:
    put(tmp_path, B + X + Y + "dynamic_batching { }", model())

    async def work(engine: Engine) -> None:
        told = engine.model_config("m")
        await engine.admin.load("m", json.dumps(told))
        assert engine.model_config("m")["input"] == told["input"]
        assert list(await ask(engine, np.zeros((1, 2, 4)))) == ["y"]

    served(tmp_path, work)


@pytest.mark.parametrize(
    ("kind", "plain", "hint"),
    [
        (ModelConfig, {"batchin": {}}, "did you mean 'batching'?"),
        (ModelConfig, {"batching": {"max_sise": 3}}, "did you mean 'max_size'?"),
        (ModelConfig, {"canary": {"step": [1]}}, "did you mean 'steps'?"),
        (ModelConfig, {"objectives": [{"name": "a", "targets": 1}]}, "did you mean 'target'?"),
        (
            ModelConfig,
            {"pipeline": {"steps": [{"modle": "a"}], "inputs": [], "outputs": []}},
            "did you mean 'model'?",
        ),
        (ServerConfig, {"securty": {}}, "did you mean 'security'?"),
        (ServerConfig, {"http": {"prt": 1}}, "did you mean 'port'?"),
        (
            ServerConfig,
            {"security": {"tokens": [{"sha": "a", "role": "infer"}]}},
            "did you mean 'sha256'?",
        ),
        (ServerConfig, {"http": {"zzzz": 1}}, "fields here are enabled, host, port, tls"),
    ],
)
def test_a_misspelt_field_is_told_from_those_beside_it(kind: Any, plain: Any, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        convert(kind, plain, "file.yaml")
    assert hint in str(caught.value)
    assert "unknown field" in str(caught.value)
