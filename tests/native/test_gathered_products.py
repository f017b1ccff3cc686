"""Products of matrices whose elements do not lie side by side, since channels do: each is turned by
one copy.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import infuse
from infuse import dtypes, ops
from infuse.build.staged import generate
from infuse.ir.dims import Dim
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph
from infuse.ir.types import tensor
from infuse.targets import Target
from infuse.testing.patterns import graph_of

pytestmark = pytest.mark.row("G34")
X = Variable("x")
WEIGHTS = np.random.default_rng(3).uniform(-0.3, 0.3, (24, 5, 1, 1)).astype(np.float32)


def product(kind: str) -> Any:
    """A product of what a convolution leaves channels last."""
    image = Call("Conv", (X, WEIGHTS))
    turned = ops.transpose(image, perm=(0, 1, 3, 2))
    if kind == "itself":
        return ops.matmul(image, turned)
    if kind == "columns":
        return ops.matmul(turned, image)
    if kind == "broadcast":
        return ops.matmul(image, ops.relu(Variable("y")))
    return ops.matmul(ops.unsqueeze(image, np.array([2])), ops.unsqueeze(turned, np.array([2])))


def expected(kind: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product in float64."""
    image = np.einsum("mc,nchw->nmhw", WEIGHTS[..., 0, 0].astype(np.float64), x)
    turned = image.swapaxes(2, 3)
    if kind == "unsqueezed":
        return np.asarray(image @ turned)[:, :, None]
    pairs = {"itself": (image, turned), "columns": (turned, image)}
    left, right = pairs.get(kind, (image, np.maximum(y, 0)))
    return np.asarray(left @ right)


def copies(graph: Graph) -> int:
    """The steps that arrange what a convolution has made."""
    labels = [step.label for step in generate(graph, Target.resolve("native"))[0].steps]
    return labels[labels.index("Conv") :].count("reorder")


@pytest.mark.parametrize("kind", ["itself", "columns", "broadcast", "unsqueezed"])
@pytest.mark.parametrize("sizes", [(7, 28), (9, 5), ("h", "w")])
def test_matrices_are_turned_once(
    kind: str, sizes: Sequence[Dim], rng: np.random.Generator
) -> None:
    height, width = (n if isinstance(n, int) else size for n, size in zip(sizes, (6, 11)))
    types: dict[str, Any] = {"x": tensor(dtypes.float32, 2, 5, *sizes)}
    if kind == "broadcast":
        types["y"] = tensor(dtypes.float32, sizes[1], 13)
    graph = graph_of(product(kind), **types)
    assert copies(graph) == 1
    x = rng.standard_normal((2, 5, height, width), np.float32)
    y = rng.standard_normal((width, 13), np.float32)
    feeds = {"x": x, "y": y} if kind == "broadcast" else {"x": x}
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        result = model.run(feeds)["y0"]
    np.testing.assert_allclose(result, expected(kind, x, y), rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", [(1, 5, 1, 9), (1, 5, 9, 1)])
def test_rows_and_columns_need_no_copy(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    graph = graph_of(product("itself"), x=shape)
    assert copies(graph) == 0
    x = rng.standard_normal(shape, np.float32)
    with infuse.compile(graph, infuse.CompileOptions(threads=1)) as model:
        result = model.run({"x": x})["y0"]
    np.testing.assert_allclose(result, expected("itself", x, x), rtol=0, atol=2e-5)
