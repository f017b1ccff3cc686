"""Random networks over all operators keep their meaning through every optimization and through ONNX
files.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest

from infuse import ops
from infuse.ir.parser import parse
from infuse.ir.printer import print_graph
from infuse.ops.core.base import REGISTRY
from infuse.ops.core.evaluate import evaluate
from infuse.passes.rules import ALL_RULES
from infuse.passes.run import optimize_in_place
from infuse.passes.selection import Selection
from infuse.rewrite import Rule
from tests.support.generators.networks import Network, network_of, random_network
from tests.support.optimizing import failure, guilty
from tests.support.sensitivity import Judge
from tests.support.shrinking import reduced, text

OPTIONS = (
    Selection("basic"),
    Selection("extended"),
    Selection("all"),
    Selection("all", runtime="onnxruntime"),
)
# NumPy warns of means of nothing and of casts of what is not a number: both have a result.
pytestmark = [pytest.mark.row("G39"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]


def check(network: Network) -> None:
    """Fail with the smallest network that fails, as text for `FOUND`, and the rules that are to
    blame.
    """
    for options in OPTIONS:
        wrong = failure(network, options)
        if wrong is not None:
            small = reduced(network, partial(fails_alike, wrong, options))
            where = f"level {options.level} {options.runtime}"
            blamed = ", ".join(guilty(small, options)) or "nobody alone"
            pytest.fail(
                f"{network.graph.name}, {where}: {wrong}\n{text(small)}\nguilty: {blamed}",
                pytrace=False,
            )


def fails_alike(wrong: str, options: Selection, network: Network) -> bool:
    """Whether a smaller network fails, and with the same error where one was raised."""
    found = failure(network, options)
    first = wrong.split(":", maxsplit=1)[0]
    return found is not None and (
        not first.endswith(("Error", "Failure")) or found.startswith(first)
    )


@pytest.mark.parametrize("seeds", [range(n, n + 50) for n in range(0, 500, 50)], ids=str)
def test_random_networks_keep_their_meaning(seeds: range) -> None:
    for seed in seeds:
        check(random_network(seed))


@pytest.mark.full
@pytest.mark.parametrize("seeds", [range(n, n + 250) for n in range(500, 20_500, 250)], ids=str)
def test_many_random_networks_keep_their_meaning(seeds: range) -> None:
    for seed in seeds:
        check(random_network(seed))


def test_a_seed_is_a_network() -> None:
    first, second = random_network(7), random_network(7)
    assert print_graph(first.graph) == print_graph(second.graph)
    assert all(np.array_equal(a, second.feeds[0][name]) for name, a in first.feeds[0].items())


# -- networks that have failed ---------------------------------------------------------------------

SEEDS = (3179, 4511)
"""Networks that have failed and are too large to be written here: an If that went with another one,
a single text.
"""
FOUND: dict[str, str] = {
    "the scores of a classifier are not asked for": """graph "g" (%x: float32[3, 2]) {
      %label = ai.onnx.ml::LinearClassifier(%x, coefficients=(1.0, 2.0, -1.0, 0.5),
          classlabels_ints=(3, 4))
      return label = %label
    }""",
    "statistics of a wide normalization are written without the operator": """
    graph "g" (%x: float64[5, 4]) {
      %y: float64[5, 4], %m: float32[5, 1] = LayerNormalization(%x, float64[4]{1.0, 2.0, 1.0, 3.0})
      return m = %m
    }""",
    "a group normalization of nothing is decomposed": """graph "g" (%x: float32[2, 4, 0, n]) {
      %y = GroupNormalization(%x, float32[4]{1.0, 2.0, 1.0, 1.0}, float32[4]{0.0, 1.0, 0.0, 0.0},
          num_groups=2)
      return y = %y
    }""",
    "attention gives its keys as they came": """graph "g"
    (%q: float32[2, 4, 3, 8], %k: float32[2, 2, 5, 8], %v: float32[2, 2, 5, 6]) {
      %y, %keys = Attention(%q, %k, %v)
      return y = %y, keys = %keys
    }""",
    "a slope of float64 is not an attribute": """graph "g" (%x: float64[2, 3]) {
      %y = PRelu(%x, float64[1]{0.1})
      return y = %y
    }""",
    "a factor of float64 is not an attribute": """graph "g" (%x: float64[2, 3]) {
      %a = Mul(%x, float64[]{1.1})
      %b = Sigmoid(%a)
      %y = Mul(%x, %b)
      return y = %y
    }""",
    "a sixth in float64 has sixteen digits": """graph "g" (%x: float64[2, 3]) {
      %a = Add(%x, float64[]{3.0})
      %b = Clip(%a, float64[]{0.0}, float64[]{6.0})
      %c = Mul(%b, float64[]{0.16666667163372040})
      %d = Div(%b, float64[]{6.0})
      return c = %c, d = %d
    }""",
    "elements that are known wrap around as their type does": """graph "g" (%x: int32[2, n]) {
      %a = Mul(int32[2]{3, -715827882}, int32[2]{3, -715827882})
      %s = Shape(%x)
      %b = Cast(%s, to=uint8)
      %c = Sub(%b, uint8[2]{3, 3})
      %d = Cast(%c, to=int64)
      return a = %a, d = %d
    }""",
    "rows of a tile are normalized": """graph "g" (%x: float32[25, 1, 4], %w: float32[9, 4]) {
      %t = Tile(%x, int64[3]{1, 9, 1})
      %y = LayerNormalization(%t, %w, axis=1)
      return y = %y
    }""",
    "a mask may be shorter than all keys": """graph "g"
    (%q: float32[2, 5, 8], %k: float32[2, 2, 3, 4], %v: float32[2, 2, 3, 4], %mask: float32[5, 5]) {
      %y = Attention(%q, %q, %q, %mask, %k, %v, kv_num_heads=2, q_num_heads=2)
      return y = %y
    }""",
    "a sixth in float64 is not an attribute": """graph "g" (%x: float64[4]) {
      %y = HardSwish(%x)
      return y = %y
    }""",
    "amounts of padding are computed": """graph "g" (%x: float32[3]) {
      %s = Shape(%x)
      %p = Pad(%s, int64[2]{1, 0})
      %y = Pad(%x, %p)
      return y = %y
    }""",
    "scalars are scanned": """graph "g" (%x: float32[n]) {
      %y = Scan(%x, num_scan_inputs=1) {
        body = graph "b" (%part: float32[]) {
          %inner = Sigmoid(%part)
          return "" = %inner
        }
      }
      return y = %y
    }""",
}


@pytest.mark.parametrize("seed", SEEDS)
def test_seeds_that_have_failed(seed: int) -> None:
    check(random_network(seed))


@pytest.mark.parametrize("name", FOUND)
def test_networks_that_have_failed(name: str) -> None:
    check(network_of(parse(FOUND[name])))


# -- the generator, the judge and the reducer ------------------------------------------------------

NEEDLESS = """graph "g" (%x: float32[2, 3], %z: float32[2, 3]) {
  %a = Relu(%x)
  %b = Mul(%a, %z)
  %c = Exp(%b)
  %d = Transpose(%c, perm=(1, 0))
  %e = Sum(%d, %d)
  return y0 = %e, y1 = %a
}"""


def test_all_operators_come_and_rules_find_work() -> None:
    """But for those that no sample shows: sequences of control flow."""
    kinds: set[str] = set()
    fired: set[str] = set()
    for seed in range(240):
        network = random_network(seed)
        kinds.update(node.kind for graph in network.graph.all_graphs() for node in graph.nodes)
        fired |= set(optimize_in_place(network.graph, Selection("all")).fired)
    missing = {op.name for op in REGISTRY.values() if not op.domain} - kinds
    assert len(missing) < 60, missing
    idle = {rule.name for rule in ALL_RULES if not rule.opt_in and not rule.runtime} - fired
    assert len(idle) < len(ALL_RULES) / 2, idle


def test_a_wrong_rule_is_found_and_its_network_made_small() -> None:
    network = network_of(parse(NEEDLESS))
    wrong = Selection("basic", extra=(SumIsOne(),))
    assert "output y0" in (failure(network, wrong) or "")
    small = reduced(network, lambda n: failure(n, wrong) is not None)
    assert [node.kind for node in small.graph.nodes] == ["Sum"]
    assert guilty(small, wrong) == ["SumIsOne"]
    assert "Sum(" in text(small)
    assert "np.array(" in text(small)


class SumIsOne(Rule):
    """x + x → x, which is wrong."""

    def match(self, x: Any) -> Any:
        return ops.sum(x, x)

    def build(self, x: Any) -> Any:
        return x * 1.0


def test_a_network_that_does_not_fail_is_not_made_small() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        reduced(network_of(parse(NEEDLESS)), lambda network: False)


@pytest.mark.parametrize("factor", [1 + 1e-7, 1 + 1e-3], ids=["rounding", "error"])
def test_rounding_is_told_from_errors(factor: float) -> None:
    network = network_of(parse(NEEDLESS))
    (feeds,) = network.feeds
    expected = evaluate(network.graph, feeds)
    found = {name: (array * factor).astype(np.float32) for name, array in expected.items()}
    judge = Judge(network.graph, feeds, expected, rewritten=True)
    assert (judge.complaint(found) is None) is (factor < 1 + 1e-6)
    exact = Judge(network.graph, feeds, expected, rewritten=False)
    assert exact.complaint(found) is not None
    assert exact.complaint(expected) is None
