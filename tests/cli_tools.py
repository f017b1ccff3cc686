"""Running the command line in this process, and a small network to run it on."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from infuse.cli.main import main


class Answer(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))


class Cli:
    """`cli("show", path)` runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Answer:
        self._capsys.readouterr()
        status = main([str(a) for a in arguments])
        return Answer(status, *self._capsys.readouterr())

    def refused(self, *arguments: object, status: int = 1) -> str:
        """The complaint of a command that must fail without a traceback and without an answer."""
        answer = self(*arguments)
        assert answer.status == status, answer
        assert "Traceback" not in answer.err
        assert not answer.out
        return " ".join(answer.err.split())


def small_network(path: Path, batch: int | str = "batch", size: int = 8) -> Path:
    """Conv, BatchNormalization, Relu, x · sigmoid(x), GlobalAveragePool, with a node that does
    nothing.
    """
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(rng.uniform(0.5, 1.5, shape).astype(np.float32), name)

    norms = ("scale", "shift", "mean", "variance")
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["a"], name="conv"),
        helper.make_node("BatchNormalization", ["a", *norms], ["b"], name="norm"),
        helper.make_node("Identity", ["b"], ["c"], name="nothing"),
        helper.make_node("Relu", ["c"], ["d"], name="relu"),
        helper.make_node("Sigmoid", ["d"], ["e"], name="gate"),
        helper.make_node("Mul", ["d", "e"], ["f"], name="swish"),
        helper.make_node("GlobalAveragePool", ["f"], ["pooled [mean]"], name="pool"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 3, size, size])],
        [helper.make_tensor_value_info("pooled [mean]", TensorProto.FLOAT, [batch, 4, 1, 1])],
        [weight("w", 4, 3, 3, 3), *(weight(name, 4) for name in norms)],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path
