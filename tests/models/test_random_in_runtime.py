"""Random networks, optimized and written as ONNX, compute in ONNX Runtime what the original
computes there.
"""

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest

from infuse import Rules, optimize
from infuse.exporters.onnx import to_model
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ir.types import TensorType
from infuse.ops.core.evaluate import evaluate
from tests.models.onnx_tools import session
from tests.support.generators.networks import Network, network_of, random_network
from tests.support.sensitivity import Judge
from tests.support.shrinking import reduced, text

# NumPy warns of means of nothing and of casts of what is not a number: both have a result.
pytestmark = [pytest.mark.row("G39"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]
RUNTIMES = ("", "onnxruntime")
RECURRENT = ("GRU", "LSTM", "RNN")


def run(graph: Graph, feeds: Any, opset: int | None = None) -> dict[str, Any]:
    """The outputs of a graph by ONNX Runtime; constants among them may need no input."""
    loaded = session(to_model(graph, opset))
    names = [v.name for v in loaded.get_inputs()]
    results = loaded.run(None, {name: feeds[name] for name in names})
    return dict(zip((v.name for v in loaded.get_outputs()), results))


def complaint(network: Network, runtime: str) -> str | None:
    """What is wrong with the optimized network in ONNX Runtime, None when nothing is."""
    (feeds, *_) = network.feeds
    judge = Judge(network.graph, feeds, evaluate(network.graph, feeds), rewritten=True)
    opset = next(o.version for o in to_model(network.graph).opset_import if not o.domain)
    try:
        return judge.complaint(
            run(optimize(network.graph, Rules("all", runtime=runtime)), feeds, opset)
        )
    except (
        Exception
    ) as error:  # refused by the exporter or by ONNX Runtime, which took the original
        return f"{type(error).__name__}: {error}"


def is_witnessed(network: Network) -> bool:
    """Whether ONNX Runtime has all operators of a network in its types, and means the same by them.

    It computes halves in float32, and rounds them only here and there: x may differ from itself.
    Recurrent layers of few elements are not asked of it.
    """
    (feeds, *_) = network.feeds
    nodes = [node for graph in network.graph.all_graphs() for node in graph.nodes]
    values = [v for node in nodes for v in node.outputs]
    if any(node.kind in RECURRENT and 0 in (node.inputs[0].tensor.shape or ()) for node in nodes):
        return False
    if any(
        isinstance(v.type, TensorType) and v.dtype.is_float and v.dtype.bits < 32 for v in values
    ):
        return False
    try:
        found = run(network.graph, feeds)
    except Exception:
        return False
    return (
        Judge(network.graph, feeds, evaluate(network.graph, feeds), rewritten=True).complaint(found)
        is None
    )


def fails(runtime: str, network: Network) -> bool:
    return is_witnessed(network) and complaint(network, runtime) is not None


def check(seeds: range) -> None:
    count: Counter[bool] = Counter()
    for seed in seeds:
        network = random_network(seed)
        witnessed = not network.extreme and is_witnessed(network)
        count[witnessed] += 1
        for runtime in RUNTIMES if witnessed else ():
            wrong = complaint(network, runtime)
            if wrong is not None:
                small = reduced(network, partial(fails, runtime))
                pytest.fail(f"seed {seed}, {runtime}: {wrong}\n{text(small)}", pytrace=False)
    assert count[True] > len(seeds) / 8


@pytest.mark.parametrize("seeds", [range(n, n + 25) for n in range(0, 100, 25)], ids=str)
def test_random_networks_run_in_onnxruntime(seeds: range) -> None:
    check(seeds)


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seeds", [range(n, n + 250) for n in range(100, 20_100, 250)], ids=str)
def test_many_random_networks_run_in_onnxruntime(seeds: range) -> None:
    check(seeds)


def test_equal_maps_are_written_in_early_opsets() -> None:
    """No operator of opset 17 gives a map a second name."""
    graph = parse("""graph "g" (%x: float32[2, 3]) {
      %y = ai.onnx.ml::ZipMap(%x, classlabels_int64s=(4, 0, 7))
      %z = ai.onnx.ml::ZipMap(%x, classlabels_int64s=(4, 0, 7))
      return y = %y, z = %z
    }""")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = run(optimize(graph), {"x": x}, 17)
    assert found["y"] == found["z"] == [dict(zip((4, 0, 7), row)) for row in x.tolist()]


FOUND = {
    "pixels in float64": """graph "g" (%x: float64[2, 3, 1, 2]) {
      %a = LayerNormalization(%x, float64[1, 2]{1.0, 1.0}, axis=2)
      %b = Mul(%a, float64[3, 1, 1]{1.0, 1.1, 1.9})
      %y = Add(%b, float64[1, 3, 1, 1]{1.0, 1.0, 1.0})
      return y = %y
    }""",
    "rows without elements": """graph "g" (%x: float32[2, 0]) {
      %y = RMSNormalization(%x, float32[0]{})
      return y = %y
    }""",
    "keys of the past are joined only for outputs": """graph "g"
    (%q: float32[2, 3, 8], %k: float32[2, 2, 4, 4], %v: float32[2, 2, 4, 4]) {
      %y = Attention(%q, %q, %q, _, %k, %v, kv_num_heads=2, q_num_heads=2)
      return y = %y
    }""",
    "keys of the past are joined": """graph "g"
    (%q: float32[2, 3, 8], %k: float32[2, 2, 4, 4], %v: float32[2, 2, 4, 4]) {
      %y, %a, %b = Attention(%q, %q, %q, _, %k, %v, kv_num_heads=2, q_num_heads=2, is_causal=1)
      return y = %y, a = %a, b = %b
    }""",
    "a product with limits": """graph "g" (%x: float32[3, 4], %w: float32[4, 5], %b: float32[5]) {
      %m = Gemm(%x, %w, %b)
      %y = Clip(%m, float32[]{-0.5}, float32[]{0.25})
      return y = %y
    }""",
    "a name in a domain of others": """graph "g" (%x: float32[2, 8], %s: float32[8]) {
      %a = Relu(%x)
      %y = RMSNormalization(%a, %s)
      return y = %y
    }""",
    "a sign in float64": """graph "g" (%x: float64[2, 3]) {
      %a = Abs(%x)
      %b = Add(%a, float64[]{1.0})
      %y = Div(%x, %b)
      return y = %y
    }""",
    "a gelu in float64": """graph "g" (%x: float64[2, 3]) {
      %a = Pow(%x, float64[]{3.0})
      %b = Mul(%a, float64[]{0.044715})
      %c = Add(%x, %b)
      %d = Mul(%c, float64[]{0.7978845608028654})
      %t = Tanh(%d)
      %g = Add(%t, float64[]{1.0})
      %h = Mul(%x, %g)
      %y = Mul(%h, float64[]{0.5})
      %e = Exp(%x)
      %f = Add(%e, float64[]{1.0})
      %z = Log(%f)
      return y = %y, z = %z
    }""",
    "the runtime's gelu of a scalar": """graph "g" (%x: float32[]) {
      %a = Relu(%x)
      %y = Gelu(%a, approximate="tanh")
      return y = %y
    }""",
    "a transposed matrix times a vector": """graph "g" (%x: float32[3, 4, 2], %v: float32[4]) {
      %t = Transpose(%x, perm=(0, 2, 1))
      %y = MatMul(%t, %v)
      return y = %y
    }""",
    "a vector times a transposed matrix": """graph "g" (%x: float32[3, 4, 2], %v: float32[2]) {
      %t = Transpose(%x, perm=(0, 2, 1))
      %y = MatMul(%v, %t)
      return y = %y
    }""",
    "a matrix times a vector, scaled": """graph "g" (%x: float32[3, 4, 2], %v: float32[2]) {
      %m = MatMul(%x, %v)
      %y = Mul(%m, float32[]{3.0})
      return y = %y
    }""",
    "all pixels in float64": """graph "g" (%x: float64[1, 2, 3, 3]) {
      %y = MaxPool(%x, kernel_shape=(3, 3))
      return y = %y
    }""",
    "a loop that carries nothing": """graph "g" (%x: float32[3]) {
      %y = Loop(int64[]{3}) {
        body = graph "b" (%i: int64[], %going: bool[]) {
          %t = Identity(bool[]{True})
          %c = Cast(%i, to=float32)
          %r = Mul(%x, %c)
          return "" = %t, "" = %r
        }
      }
      return y = %y
    }""",
}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", FOUND)
def test_networks_that_have_failed(name: str, runtime: str) -> None:
    network = network_of(parse(FOUND[name]))
    (feeds,) = network.feeds
    expected = evaluate(network.graph, feeds)
    found = run(optimize(network.graph, Rules("all", runtime=runtime)), feeds)
    for key, wanted in expected.items():
        np.testing.assert_allclose(found[key], wanted, rtol=1e-5, atol=1e-6)
