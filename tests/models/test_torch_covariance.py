"""Covariances in TorchScript, beside torch; torch.export takes none of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from infuse.ops.core.evaluate import evaluate
from tests.models.torchscript_tools import module_from, read

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of torch: too few observations
]
X = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
TIMES, SHARES = torch.tensor([1, 2, 3, 1, 0]), torch.tensor([0.5, 0.1, 0.7, 0.3, 0.9])
CASES: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "torch.cov(x)": (torch.cov, [X]),
    "torch.cov(x, correction=0)": (lambda x: torch.cov(x, correction=0), [X]),
    "torch.cov(x, correction=9)": (lambda x: torch.cov(x, correction=9), [X]),
    "torch.cov(x[0])": (lambda x: torch.cov(x[0]), [X]),
    "torch.cov(x, fweights=n)": (lambda x, n: torch.cov(x, fweights=n), [X, TIMES]),
    "torch.cov(x, aweights=n)": (lambda x, n: torch.cov(x, aweights=n), [X, SHARES]),
    "torch.cov(x, aweights=a)": (
        lambda x, n, a: torch.cov(x, aweights=a), [X, TIMES, SHARES.double()]
    ),
    "torch.cov(x, fweights=n, aweights=a)": (
        lambda x, n, a: torch.cov(x, fweights=n, aweights=a), [X, TIMES, SHARES]
    ),
    "torch.corrcoef(x)": (torch.corrcoef, [X]),
    "torch.corrcoef(x[:1])": (lambda x: torch.corrcoef(x[:1]), [X]),
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_covariances(text: str) -> None:
    function, inputs = CASES[text]
    named = dict(zip(("x", "n", "a"), inputs))
    graph = read(module_from(f"return {text}", list(named)), named)
    feeds = {name: x.numpy() for name, x in named.items()}
    (result,) = evaluate(graph, feeds).values()
    expected = function(*inputs).numpy()
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6)
