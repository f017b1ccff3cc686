"""A version whose inputs or outputs do not suit the callers of the one before gets none of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from infuse.errors import InputError, OptionError
from infuse.serving.control.model_config import Canary, ModelConfig
from infuse.serving.control.rollout.signatures import Signatures
from infuse.serving.engine.engine import Engine
from infuse.serving.messages import InferRequest, RequestedOutput, Tensor
from tests.serving import models
from tests.serving.engine_stage import served
from tests.serving.models import write
from tests.serving.rollout_tools import CANARY, Stage

pytestmark = pytest.mark.row("S5")
Sides = tuple[Mapping[str, Any], Mapping[str, Any]]
OLD: Sides = ({"x": ("FP32", [-1, 4])}, {"y": ("FP32", [-1, 2])})


class Version:
    def __init__(self, sides: Sides) -> None:
        self.sides = sides

    def described(self, inputs: bool) -> Sequence[Mapping[str, Any]]:
        side = self.sides[not inputs]
        return [{"name": n, "datatype": t, "shape": s} for n, (t, s) in side.items()]


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (OLD, ""),
        (({"x": ("FP32", [-1, -1])}, {"y": ("FP32", [-1, 2]), "z": ("FP32", [])}), ""),
        (({"renamed": ("FP32", [-1, 4])}, OLD[1]), "it has no input 'x'"),
        (({**OLD[0], "more": ("FP32", [1])}, OLD[1]), "its input 'more' is new"),
        (({"x": ("FP32", [-1, 8])}, OLD[1]), r"its input 'x' has shape \[-1, 8\]"),
        (({"x": ("FP32", [1, 4])}, OLD[1]), r"its input 'x' has shape \[1, 4\]"),
        (({"x": ("FP32", [-1, 4, 1])}, OLD[1]), "its input 'x' has shape"),
        (({"x": ("FP64", [-1, 4])}, OLD[1]), "its input 'x' is FP64, and was FP32"),
        ((OLD[0], {"renamed": ("FP32", [-1, 2])}), "it has no output 'y'"),
        ((OLD[0], {"y": ("INT64", [-1, 2])}), "its output 'y' is INT64"),
        ((OLD[0], {"y": ("FP32", [-1, 3])}), r"its output 'y' has shape \[-1, 3\]"),
        ((OLD[0], {"y": ("FP32", [-1, -1])}), "its output 'y' has shape"),
    ],
)
def test_what_differs_is_said(new: Sides, reason: str) -> None:
    signatures = Signatures({1: Version(OLD), 2: Version(new)}.get)
    found = signatures.changed(2, (1,))
    assert bool(found) is bool(reason)
    assert re.search(reason, found)


@pytest.mark.parametrize(
    ("shape", "datatype", "output", "taken"),
    [
        ((3, 4), "FP32", "y", True),
        ((3, 5), "FP32", "y", False),
        ((4,), "FP32", "y", False),
        ((3, 4), "INT32", "y", False),
        ((3, 4), "FP32", "z", False),
    ],
)
def test_what_a_signature_takes(
    shape: tuple[int, ...], datatype: str, output: str, taken: bool
) -> None:
    signatures = Signatures({1: Version(OLD)}.get)
    tensor = Tensor("x", datatype, np.zeros(shape))
    request = InferRequest("m", inputs=[tensor], outputs=[RequestedOutput(output)])
    assert signatures.takes((1,), request) is taken
    assert not signatures.takes((1,), InferRequest("m"))
    assert not signatures.takes((7,), request)


def test_refusals_of_what_the_old_version_takes_are_evidence() -> None:
    """At the door both look alike; the new one refuses, as where sizes depend on each other."""
    stage = Stage(ModelConfig(canary=CANARY))
    stage.traffic._signatures._version = {1: Version(({}, {})), 2: Version(({}, {}))}.get
    stage.tick()
    stage.arrive(2)
    assert stage.kinds() == ["rollout_started"]
    for _second in range(40):
        stage.send(40, errors={2: InputError("it has another size")})
        if "rolled_back" in stage.kinds(1):
            break
    assert stage.rollout["state"] == "rolled_back"
    assert "error rate" in stage.rollout["reason"]


def renamed(**names: str) -> bytes:
    """An adder whose input and output have other names."""
    x, y = names.get("x", "x"), names.get("y", "y")
    node = helper.make_node("Add", [x, x], [y])
    sizes = ["rows", 4]
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, sizes) for n in (x, y)]
    return models.model([node], tensors[:1], tensors[1:], [])


@pytest.mark.parametrize("names", [{"x": "renamed"}, {"y": "renamed"}])
def test_a_version_with_another_signature_is_held(names: dict[str, str], tmp_path: Path) -> None:
    repository = tmp_path / "models"
    canary = "canary: {steps: [0.5, 1.0], step_seconds: 0.1, min_requests: 1}\n"
    write(repository, "add", models.adder(1), config=canary)

    async def work(engine: Engine) -> None:
        write(repository, "add", renamed(**names), version=2)
        traffic = engine.admin.traffic("add")
        await models.until(lambda: traffic.describe()["refused"], "it is held")
        for _ in range(20):
            assert await models.ask(engine, "add", 1) == 2
        assert "is not that of version 1" in traffic.describe()["refused"]["2"]
        assert traffic.describe()["rollout"] is None
        kinds = lambda: [event.kind for event in engine.journal.recent()]  # noqa: E731
        await models.until(lambda: "held" in kinds(), "it is told")
        with pytest.raises(OptionError, match="cannot take its callers"):
            traffic.start_rollout(2)
        traffic.start_rollout(2, Canary(new_signature=True))
        assert traffic.describe()["rollout"]["state"] == "running"

    served(tmp_path, work)
