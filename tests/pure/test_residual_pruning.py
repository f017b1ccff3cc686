"""Hidden sizes that normalizations join, and residual blocks, without a compiler."""

from __future__ import annotations

import numpy as np
import pytest

from infuse.analysis.cost import totals
from infuse.compression.pruning.blocks import find_blocks, without_blocks
from infuse.compression.pruning.groups import Dependencies
from infuse.compression.pruning.lineage import Lineage
from infuse.compression.pruning.removal import removed_from
from infuse.ir.graph import Graph, Value, constant
from infuse.ir.parser import parse
from infuse.ir.printer import print_graph
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from tests.pruning_networks import NETWORKS, Network, feeds_for
from tests.residual_networks import LAYERS, NORMS, WIDTH, Transformer

pytestmark = [pytest.mark.row("Z3")]
PLACES = pytest.mark.parametrize("is_before", [True, False], ids=["pre-norm", "post-norm"])


# -- hidden sizes ----------------------------------------------------------------------------------


@PLACES
@pytest.mark.parametrize("norm", NORMS)
def test_a_transformer_without_hidden_channels_is_one_of_narrower_weights(
    norm: str, is_before: bool
) -> None:
    network = Transformer(norm, is_before)
    graph = network.graph()
    dependencies = Dependencies(graph, opens_norms=True)
    (group,) = (group for group in dependencies.groups if group.is_hidden)
    assert group.size == WIDTH
    gone = np.random.default_rng(3).random(WIDTH) < 0.4
    narrow, _ = removed_from(dependencies, {group: gone})
    verify(narrow)
    assert totals(narrow).cost.macs < totals(graph).cost.macs
    feeds = feeds_for(graph)
    whole = network.scores(feeds["x"], np.arange(WIDTH))
    np.testing.assert_allclose(evaluate(graph, feeds)["scores"], whole, atol=1e-4)
    expected = network.scores(feeds["x"], np.flatnonzero(~gone))
    assert np.abs(expected - whole).max() > 1e-2
    np.testing.assert_allclose(evaluate(narrow, feeds)["scores"], expected, atol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_hidden_channels_stay_unless_they_are_asked_for(norm: str) -> None:
    dependencies = Dependencies(Transformer(norm).graph())
    assert {group.size for group in dependencies.groups} == {2, 2 * WIDTH}
    assert not any(group.is_hidden for group in dependencies.groups)
    kind = {"layer": "LayerNormalization", "rms": "RMSNormalization"}.get(norm, "ReduceMean")
    assert f"{kind} is computed along it" in {each.reason for each in dependencies.closed}


def test_heads_that_are_added_without_a_projection_go_whole_with_their_hidden_channels() -> None:
    net = Network("tied", (2, 5, 6))
    x = net.dense("embed", net.x, 12)
    split = net.ints(2, 5, 4, 3)
    y = net("LayerNormalization", x, net.weights(12), net.weights(12))
    q, k, v = (net("Reshape", net.dense(each, y, 12), split) for each in "qkv")
    q, k, v = (net("Transpose", each, perm=(0, 2, 1, 3)) for each in (q, k, v))
    score = net("Softmax", net("MatMul", q, net("Transpose", k, perm=(0, 1, 3, 2))), axis=-1)
    y = net("Transpose", net("MatMul", score, v), perm=(0, 2, 1, 3))
    x = net("Add", x, net("Reshape", y, net.ints(2, 5, 12)))
    net.graph.add_output(net.dense("scores", x, 3), "scores")
    dependencies = Dependencies(net.graph, opens_norms=True)
    (group,) = dependencies.groups
    assert group.size == 4
    assert group.is_hidden
    assert {node.name for node in group.nodes} == {"embed", "q", "k", "v"}
    narrow, _ = removed_from(dependencies, {group: np.arange(4) < 2})
    verify(narrow)
    assert any(value.shape == (6, 6) for value in narrow.constants())


def test_a_normalization_over_several_axes_stays_whole() -> None:
    net = Network("wide", (2, 4, 6))
    x = net.dense("first", net.x, 8)
    x = net("LayerNormalization", x, net.weights(4, 8), net.weights(4, 8), axis=1)
    net.graph.add_output(net.dense("scores", x, 3), "scores")
    assert not Dependencies(net.graph, opens_norms=True).groups


def test_one_group_of_normalized_channels_is_joined() -> None:
    net = Network("one", (2, 3, 8, 8))
    x = net.conv("stem", net.x, 12)
    x = net("GroupNormalization", x, net.weights(12), net.weights(12), num_groups=1)
    graph = net.scores(net("Relu", x))
    assert not Dependencies(graph).groups
    (group,) = Dependencies(graph, opens_norms=True).groups
    assert (group.size, group.is_hidden) == (12, True)


# -- blocks ----------------------------------------------------------------------------------------


@PLACES
@pytest.mark.parametrize("norm", NORMS)
def test_a_transformer_without_blocks_is_one_of_fewer_layers(norm: str, is_before: bool) -> None:
    network = Transformer(norm, is_before)
    graph = network.graph()
    blocks = find_blocks(graph)
    assert [block.name for block in blocks] == [
        f"layers.{number}.{kind}"
        for number in range(LAYERS)
        for kind in ("attention (q/MatMul to o/MatMul)", "wide (up/MatMul to down/MatMul)")
    ]
    before, feeds = print_graph(graph), feeds_for(graph)
    gone = {1: "layers.0.wide", 2: "layers.1.attention", 3: "layers.1.wide"}
    shallow, _ = without_blocks(graph, [blocks[number] for number in gone])
    verify(shallow)
    assert print_graph(graph) == before
    expected = network.scores(feeds["x"], np.arange(WIDTH), gone.values())
    np.testing.assert_allclose(evaluate(shallow, feeds)["scores"], expected, atol=1e-4)


def test_hidden_channels_and_blocks_go_together() -> None:
    network = Transformer()
    graph = network.graph()
    blocks, whole = find_blocks(graph), Dependencies(graph, opens_norms=True)
    lineage = Lineage(whole)
    shallow, copies = without_blocks(graph, blocks[:2])
    lineage = lineage.copied(copies, shallow)
    dependencies = Dependencies(shallow, opens_norms=True)
    (group,) = (group for group in dependencies.groups if group.is_hidden)
    gone = np.arange(WIDTH) < 5
    narrow, values = removed_from(dependencies, {group: gone})
    lineage = lineage.narrowed(dependencies, dependencies.alive({group: gone}), values)
    feeds = feeds_for(graph)
    expected = network.scores(
        feeds["x"], np.arange(5, WIDTH), ("layers.0.attention", "layers.0.wide")
    )
    np.testing.assert_allclose(evaluate(narrow, feeds)["scores"], expected, atol=1e-4)
    left = {each.nodes[0]: (each.before, each.after) for each in lineage.groups()}
    assert left["embed/MatMul"] == (WIDTH, WIDTH - 5)
    assert left["layers.0.wide.up/MatMul"] == (2 * WIDTH, 0)
    assert left["layers.1.wide.up/MatMul"] == (2 * WIDTH, 2 * WIDTH)
    np.testing.assert_array_equal(lineage.remaining["layers.1.wide.sum", 2], np.arange(5, WIDTH))
    assert ("layers.0.wide.sum", 2) not in lineage.remaining


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("residual", [{"first0", "second0"}, {"first1", "second1"}]),
        ("depthwise", [{"expand", "spread", "squeeze", "excite", "project"}]),
        ("dense_blocks", []),
        ("parted", []),
        ("flattened", []),
    ],
)
def test_blocks_of_usual_networks(name: str, expected: list[set[str]]) -> None:
    blocks = find_blocks(NETWORKS[name]())
    own = [
        {node.name for node in block.nodes if node.kind in ("Conv", "MatMul", "Gemm")}
        for block in blocks
    ]
    assert own == expected


def bottleneck(has_norm: bool, stride: int = 1) -> Graph:
    """A bottleneck of three convolutions, with batch normalization or after that was folded."""
    net = Network("bottleneck", (2, 3, 8, 8))

    def conv(name: str, x: Value, count: int, size: int, step: int = 1) -> Value:
        y = net.conv(name, x, count, size, stride=step)
        if not has_norm:
            return y
        scale, bias, mean = (net.weights(count) for _ in range(3))
        variance = constant(np.abs(mean.const) + np.float32(0.5))
        return net("BatchNormalization", y, scale, bias, mean, variance)

    x = net("Relu", conv("stem", net.x, 16, 3))
    y = net("Relu", conv("layer1.0.conv1", x, 4, 1))
    y = net("Relu", conv("layer1.0.conv2", y, 4, 3, stride))
    y = conv("layer1.0.conv3", y, 16, 1)
    skip = x if stride == 1 else conv("layer1.0.downsample", x, 16, 1, stride)
    return net.scores(net("Relu", net("Add", y, skip)))


@pytest.mark.parametrize("has_norm", [True, False], ids=["normalized", "folded"])
def test_a_bottleneck_goes_and_what_follows_the_sum_stays(has_norm: bool) -> None:
    graph = bottleneck(has_norm)
    (block,) = find_blocks(graph)
    assert block.name == "layer1.0 (conv1 to conv3)"
    shallow, _ = without_blocks(graph, [block])
    verify(shallow)
    kinds = [node.kind for node in shallow.nodes if node.kind != "BatchNormalization"]
    assert kinds == ["Conv", "Relu", "Relu", "GlobalAveragePool", "Flatten", "Gemm"]


def test_a_block_beside_a_projection_stays() -> None:
    assert not find_blocks(bottleneck(has_norm=False, stride=2))


TEXT = """graph "g" (%x: float32[3, 2]) {
  %a = MatMul(%x, float32[2, 4]{1, 2, 3, 4, 5, 6, 7, 8})
  BODY
  %z = MatMul(%y, float32[4, 1]{1, 2, 3, 4})
  return z = %zMORE
}"""
SQUARE = "float32[4, 4]{0, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 9}"


def written(*lines: str, more: str = "") -> Graph:
    """A graph that computes %y of %a by these lines, and gives more values."""
    return parse(TEXT.replace("BODY", "\n  ".join(lines)).replace("MORE", more))


def sums(*lines: str, more: str = "") -> list[str]:
    """The sum of each block that is found."""
    return [block.sum.output.name for block in find_blocks(written(*lines, more=more))]


def test_a_branch_that_somebody_else_reads_stays() -> None:
    product, total = f"%b = MatMul(%a, {SQUARE})", "%y = Add(%b, %a)"
    assert sums(product, "%c = Relu(%b)", "%y = Add(%c, %a)") == ["y"]
    assert sums(product, total) == ["y"]
    assert sums(product, total, more=", b = %b") == []
    assert sums(product, "%c = Relu(%b)", "%s = Add(%c, %a)", "%y = Mul(%s, %b)") == []


def test_sums_that_are_no_blocks_stay() -> None:
    assert sums("%b = Relu(%a)", "%y = Add(%b, %a)") == []
    assert sums("%y = Add(%a, %a)") == []
    assert sums(f"%b = MatMul(%x, {SQUARE.replace('4, 4', '2, 8')})", "%y = Add(%a, %a)") == []
    both = f"%b = MatMul(%a, {SQUARE})", f"%c = MatMul(%a, {SQUARE})"
    assert sums(*both, "%y = Add(%b, %c)") == []
    wider = f"%b = MatMul(%a, {SQUARE})", "%c = Unsqueeze(%b, int64[1]{0})"
    assert sums(*wider, "%d = Add(%c, %a)", "%y = Squeeze(%d, int64[1]{0})") == []


def test_terms_of_one_sum_go_alone() -> None:
    lines = (
        f"%b = MatMul(%a, {SQUARE})",
        f"%c = MatMul(%a, {SQUARE})",
        "%s = Add(%a, %b)",
        "%y = Add(%s, %c)",
    )
    assert sums(*lines) == ["s", "y"]


def test_a_block_inside_another_goes_with_it() -> None:
    lines = (
        f"%b = MatMul(%a, {SQUARE})",
        f"%c = MatMul(%b, {SQUARE})",
        "%d = Add(%c, %b)",
        f"%e = MatMul(%d, {SQUARE})",
        "%y = Add(%e, %a)",
    )
    graph = written(*lines)
    inner, outer = find_blocks(graph)
    for chosen in ([inner, outer], [outer, inner], [outer]):
        shallow, _ = without_blocks(graph, chosen)
        verify(shallow)
        assert [node.kind for node in shallow.nodes] == ["MatMul", "MatMul"]
    assert len(without_blocks(graph, [inner])[0].nodes) == 5
    feeds = {"x": np.ones((3, 2), np.float32)}
    weights = [np.array(value.const, np.float64) for value in shallow.constants()]
    expected = feeds["x"] @ weights[0] @ weights[1]
    np.testing.assert_allclose(evaluate(shallow, feeds)["z"], expected)


def test_an_input_does_not_become_an_output() -> None:
    graph = parse("""graph "g" (%x: float32[3, 2]) {
      %a = MatMul(%x, float32[2, 2]{1, 2, 3, 4})
      %y = Add(%x, %a)
      return y = %y
    }""")
    assert not find_blocks(graph)
