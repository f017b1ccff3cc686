"""Losses and optimizers beside PyTorch in float64; gradients are refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from infuse import dtypes
from infuse.codegen.compile import compile_graph
from infuse.errors import InfuseError
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN, TensorType
from infuse.ops.core.base import Rounding
from tests.native.several import RNG, Several, floats

TRAINING = "ai.onnx.preview.training"

LOSS = Rounding(ulp=8, abs=1e-5)


def losses() -> Iterator[tuple[Any, Any, Any, str, int | None]]:
    for shape, weighed, reduction, ignore in itertools.product(
        ((5, 4), (2, 4, 6), (2, 4, 3, 2), (1, 4, 2, 3, 2)),
        (False, True),
        ("mean", "sum", "none"),
        (None, 2, -100),
    ):
        classes = RNG.integers(0, shape[1], (shape[0], *shape[2:]))
        if ignore is not None:
            classes.reshape(-1)[::3] = ignore
        yield (
            floats(*shape),
            classes,
            np.abs(floats(4)) + 0.1 if weighed else None,
            reduction,
            ignore,
        )


def test_losses_agree_with_pytorch() -> None:
    several = Several()
    for scores, classes, weights, reduction, ignore in losses():
        wide = torch.tensor(scores, dtype=torch.float64)
        more: dict[str, Any] = {
            "reduction": reduction,
            "ignore_index": -7 if ignore is None else ignore,
        }
        more["weight"] = None if weights is None else torch.tensor(weights, dtype=torch.float64)
        target = torch.tensor(classes)
        given = [scores, classes] if weights is None else [scores, classes, weights]
        options = {"reduction": reduction, "ignore_index": ignore}
        exact = torch.nn.functional.nll_loss(wide, target, **more).numpy()
        several.add("NegativeLogLikelihoodLoss", given, [exact], LOSS, **options)
        wanted = [
            torch.nn.functional.cross_entropy(wide, target, **more).numpy(),
            wide.log_softmax(1).numpy(),
        ]
        several.add("SoftmaxCrossEntropyLoss", given, wanted, LOSS, **options)
    several.check()


def test_optimizers_agree_with_pytorch() -> None:
    """A first step of PyTorch's is one with the count 1, whose epsilon stands beside the root
    without bias.
    """
    x, g, v, h = floats(3, 4), floats(3, 4), floats(3, 4), np.abs(floats(3, 4))
    rate, several = np.float32(0.01), Several()
    one = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    one.grad = torch.tensor(g, dtype=torch.float64)
    torch.optim.Adam([one], lr=0.01, eps=0.0).step()
    zeros = np.zeros_like(x)
    several.add(
        "Adam",
        [rate, np.array(1), x, g, zeros, zeros],
        [one.detach().numpy()],
        Rounding(ulp=8, abs=1e-6),
        domain=TRAINING,
        epsilon=0.0,
    )
    two = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    two.grad = torch.tensor(g, dtype=torch.float64)
    optimizer = torch.optim.SGD([two], lr=0.01, momentum=0.9, nesterov=True)
    optimizer.state[two]["momentum_buffer"] = torch.tensor(v, dtype=torch.float64)
    optimizer.step()
    options = {"alpha": 0.9, "beta": 1.0, "mode": "nesterov", "norm_coefficient": 0.0}
    given = [rate, np.array(3), x, g, v]
    several.add(
        "Momentum",
        given,
        [two.detach().numpy()],
        Rounding(ulp=8, abs=1e-6),
        domain=TRAINING,
        **options,
    )
    three = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    three.grad = torch.tensor(g, dtype=torch.float64)
    adagrad = torch.optim.Adagrad([three], lr=0.01, eps=1e-3, lr_decay=0.5)
    adagrad.state[three]["sum"].copy_(torch.tensor(h, dtype=torch.float64))
    adagrad.step()
    options = {"epsilon": 1e-3, "decay_factor": 0.5}
    given = [rate, np.array(0), x, g, h]
    several.add(
        "Adagrad",
        given,
        [three.detach().numpy()],
        Rounding(ulp=8, abs=1e-6),
        domain=TRAINING,
        **options,
    )
    several.check()


def test_gradient_says_that_it_cannot_run() -> None:
    graph = Graph("gradient")
    x = graph.add_input("x", TensorType(dtypes.float32, (2,)))
    op = make_operator(TRAINING, "Gradient", {"xs": ("x",), "y": "y"})
    node = graph.add_node(Node(op, [x], [Value(UNKNOWN, "dx")], name="gradient"))
    node.op.infer_node(node)
    assert node.output.type == x.type
    graph.add_output(node.output, "dx")
    with (
        compile_graph(graph) as model,
        pytest.raises(InfuseError, match="differentiates the graph"),
    ):
        model.run({"x": np.zeros(2, np.float32)})
