"""Functions of tensors as exported programs and in TorchScript, beside torch in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import infuse
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate
from tests.models.torchscript_tools import read, traced

Case = tuple[Callable[..., Any], list[torch.Tensor]]


class Net(torch.nn.Module):
    """A function of tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> Any:
        """What the function gives."""
        return self.function(x, *others)


def graphs(case: Case) -> list[Graph]:
    """The graphs of an exported program, and of a traced one."""
    function, inputs = case

    def named(*values: Any) -> Any:
        return function(*values)

    script = traced(Net(named), *inputs)
    given = [v.debugName().partition(".")[0] for v in script.graph.inputs()][1:]
    names = [n if n.isidentifier() else f"argument_{i + 1}" for i, n in enumerate(given)]
    return [
        infuse.from_torch(Net(function).eval(), tuple(inputs)),
        read(script, dict(zip(names, inputs, strict=True))),
    ]


def compare(case: Case, compiled: bool = False, *, signs: bool = False, rtol: float = 2e-5) -> None:
    """Assert that all graphs of a case give what torch gives; with `signs`, zeros have torch's."""
    function, inputs = case
    expected = [
        leaf for leaf in torch.utils._pytree.tree_leaves(function(*inputs))
        if isinstance(leaf, torch.Tensor)
    ]  # fmt: skip
    for graph in graphs(case):
        feeds = {v.name: x.numpy() for v, x in zip(graph.inputs, inputs, strict=True)}
        if compiled:
            with infuse.compile(infuse.optimize(graph)) as model:
                results = list(model.run(feeds).values())
        else:
            results = list(evaluate(graph, feeds).values())
        assert len(results) == len(expected)
        for result, reference in zip(results, expected):
            array = reference.numpy()
            assert (result.dtype, result.shape) == (array.dtype, array.shape)
            np.testing.assert_allclose(result, array, rtol=rtol, atol=3e-6)
            if signs:
                odd = np.isnan(array)
                np.testing.assert_array_equal(np.signbit(result[~odd]), np.signbit(array[~odd]))
