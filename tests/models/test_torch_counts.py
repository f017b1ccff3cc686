"""Elements that are counted, repeated and named by no index, and matrices that are taken apart,
beside torch in eager mode.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import infuse
from infuse.ops.core.evaluate import evaluate
from tests.models.torch_tools import Case, Net, compare

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of torch, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
NAN, INF = math.nan, math.inf
RANDOM = torch.Generator().manual_seed(3)
WHOLE = torch.tensor([[3, 1, 1, 2, 3, 3], [5, -4, -4, 5, 7, 0], [1, 1, 1, 1, 1, 1]])
FLOATS = torch.tensor([[NAN, 1.0, -0.0, 0.0, INF, INF], [2.0, 2.0, -INF, 1.0, 1.0, 1.0]])
TIMES = torch.tensor([1, 0, 3, 2])
X = torch.randn(4, 5, generator=RANDOM)
EDGES = torch.tensor([-2.0, -1.6, -0.4, 0.0, 0.4, 1.2, 1.6, 2.0, 2.1, -3.0])
COUNTED: dict[str, Case] = {
    "mode": (lambda x: (torch.mode(x), torch.mode(x, 0, keepdim=True)), [WHOLE]),
    "mode of floats": (lambda x: torch.mode(x, 1), [FLOATS]),
    "mode of truths": (lambda x: torch.mode(x, 1), [WHOLE > 1]),
    "mode of one": (lambda x: (torch.mode(x, 1), torch.mode(x[0, 0])), [WHOLE[:, :1]]),
    "histc": (lambda x: (torch.histc(x, 10, -2, 2), torch.histc(x, 3, -2, 2)), [EDGES]),
    "histc between extremes": (lambda x: (torch.histc(x, 4), torch.histc(x)), [X]),
    "histc of one number": (lambda x: torch.histc(x, 5), [torch.full((3,), 2.0)]),
    "histc of halves": (
        lambda x: (torch.histc(x, 100, -10, 10), torch.histc(x, 37), torch.histc(x, 7, 0.1, 0.7)),
        [(torch.randn(300, generator=RANDOM) * 5).half()],
    ),
    "histc of special ones": (lambda x: torch.histc(x, 4, -1, 1), [FLOATS]),
    "bincount": (lambda x: torch.bincount(x), [TIMES]),
    "bincount, longer": (lambda x: torch.bincount(x, minlength=6), [TIMES.int()]),
    "bincount of nothing": (lambda x: torch.bincount(x, minlength=2), [TIMES[:0]]),
    "bincount with weights": (lambda x, w: torch.bincount(x, w), [TIMES, X[:, 0]]),
    "bincount with whole weights": (lambda x, w: torch.bincount(x, w, 7), [TIMES, TIMES]),
    "repeats": (lambda x, n: torch.repeat_interleave(x, n, dim=0), [X, TIMES]),
    "repeats of a row": (lambda x, n: torch.repeat_interleave(x, n), [X[:, 0], TIMES.int()]),
    "repeats by one number": (
        lambda x, n: torch.repeat_interleave(x, n, dim=1), [X, torch.tensor([2])]
    ),
    "places": (lambda n: torch.repeat_interleave(n), [TIMES]),
    "repeats of known size": (
        lambda x, n: torch.repeat_interleave(x, n, dim=0, output_size=6), [X, TIMES]
    ),
    "nothing repeated": (
        lambda x, n: torch.repeat_interleave(x, n, dim=0), [X[:0], TIMES[:0]]
    ),
    "repeats by a number": (
        lambda x: (torch.repeat_interleave(x, 3), torch.repeat_interleave(x, repeats=2, dim=1)), [X]
    ),
    "no index": (
        lambda x, i: (torch.gather(x, 0, i), torch.scatter(x, 0, i, 1.0),
                      torch.scatter_add(x, 1, i, torch.zeros(0))),
        [X, TIMES[:0]],
    ),
    "median of nothing": (
        lambda x, i: (torch.median(x), torch.nanmedian(x), torch.median(i)), [X[:0], TIMES[:0]]
    ),
    "no index in a row": (lambda x, i: torch.gather(x, 0, i), [X, TIMES[:0, None]]),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_elements_are_counted(name: str) -> None:
    compare(COUNTED[name])


@pytest.mark.parametrize(
    "name", ["mode of floats", "histc", "histc of halves", "bincount with weights", "repeats"]
)
def test_elements_are_counted_by_compiled_code(name: str) -> None:
    compare(COUNTED[name], compiled=True)


STACK = torch.randn(2, 4, 4, generator=RANDOM) + 3 * torch.eye(4)
SIDES = torch.randn(2, 4, 3, generator=RANDOM)
TAKEN_APART: dict[str, Case] = {
    "inverse": (lambda a: (torch.linalg.inv(a), torch.inverse(a[0])), [STACK]),
    "inverse, unchecked": (lambda a: torch.linalg.inv_ex(a)[0], [STACK.double()]),
    "powers": (lambda a: torch.linalg.matrix_power(a, -3), [STACK]),
    "solutions": (torch.linalg.solve, [STACK, SIDES]),
    "solutions from the right": (
        lambda a, b: torch.linalg.solve(a, b.mT, left=False), [STACK, SIDES]
    ),
    "solutions of vectors": (torch.linalg.solve, [STACK, SIDES[..., 0]]),
    "a solution": (torch.linalg.solve, [STACK[0], SIDES[0, :, 0]]),
    "determinants": (
        lambda a: (torch.linalg.det(a), torch.det(-a[0]), torch.linalg.slogdet(-a),
                   torch.logdet(a), torch.logdet(a[0] * torch.tensor([-1.0, 1, 1, 1]))),
        [STACK],
    ),
    "singular ones": (lambda a: (torch.linalg.det(a), torch.linalg.slogdet(a)), [STACK * 0]),
    "factors": (
        lambda a: (torch.linalg.cholesky(a @ a.mT), torch.linalg.cholesky(a @ a.mT, upper=True)),
        [STACK],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN_APART)
def test_matrices_are_taken_apart(name: str) -> None:
    compare(TAKEN_APART[name], rtol=2e-4)


@pytest.mark.parametrize("name", ["inverse", "solutions"])
def test_matrices_are_taken_apart_by_compiled_code(name: str) -> None:
    compare(TAKEN_APART[name], compiled=True, rtol=2e-4)


@pytest.mark.parametrize("compiled", [False, True])
def test_results_of_an_lstm_are_projected(compiled: bool) -> None:
    torch.manual_seed(4)
    nets = [
        torch.nn.LSTM(5, 6, proj_size=2).eval(),
        torch.nn.LSTM(
            5, 6, proj_size=3, num_layers=2, bidirectional=True, batch_first=True, bias=False
        ).eval(),
    ]

    def run(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
        (y, last), (z, more) = nets[0](x), nets[1](x, (h, c))
        return [y, *last, z, *more]

    x, h, c = (torch.randn(*size, generator=RANDOM) for size in ((4, 3, 5), (4, 4, 3), (4, 4, 6)))
    module = Net(run)
    module.nets = torch.nn.ModuleList(nets)
    expected = run(x, h, c)
    graph = infuse.from_torch(module.eval(), (x, h, c))
    feeds = {v.name: a.numpy() for v, a in zip(graph.inputs, (x, h, c), strict=True)}
    if compiled:
        with infuse.compile(infuse.optimize(graph)) as model:
            results = list(model.run(feeds).values())
    else:
        results = list(evaluate(graph, feeds).values())
    for result, reference in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, reference.detach().numpy(), rtol=2e-5, atol=3e-6)


def test_a_matrix_without_an_inverse_gives_nan() -> None:
    """torch raises an error, which a compiled program cannot."""
    x = torch.stack([STACK[0], torch.ones(4, 4)])
    graph = infuse.from_torch(Net(torch.linalg.inv).eval(), (STACK,))
    (found,) = evaluate(graph, {graph.inputs[0].name: x.numpy()}).values()
    np.testing.assert_allclose(found[0], torch.linalg.inv(x[0]), rtol=1e-3, atol=1e-5)
    assert np.isnan(found[1]).all()
