"""Structured pruning without a compiler: what depends on what, and graphs without channels."""

from __future__ import annotations

import numpy as np
import pytest

from infuse.analysis.cost import totals
from infuse.compression.pruning.groups import Dependencies, Group
from infuse.compression.pruning.removal import removed_from
from infuse.compression.pruning.segments import Segment, segments
from infuse.ir import dims
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.ir.printer import print_graph
from infuse.ir.verify import verify
from infuse.ops.core.base import REGISTRY
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.traits import Trait
from infuse.testing.samples import results, rows
from tests.pruning_networks import NETWORKS, feeds_for

pytestmark = [pytest.mark.row("Z3")]
Removed = dict[Group, np.ndarray]


def without_weights(dependencies: Dependencies, removed: Removed) -> Graph:
    """The original graph, with zeros for the weights that multiply channels that are removed: what
    reads these channels gets nothing of them, whatever they are.
    """
    alive = dependencies.alive(removed)
    values: dict = {}
    copy = clone(dependencies.graph, values)
    for contraction in dependencies.contractions:
        value, axis = contraction.weights
        stays = alive[dependencies.places[value, axis]]
        shape = [-1 if each == axis else 1 for each in range(value.rank)]
        array = values[value].const
        values[value].const = array * stays.reshape(shape).astype(array.dtype)
    return copy


def some(dependencies: Dependencies, seed: int) -> Removed:
    """About half of the channels of all groups, at least one, and never all."""
    rng = np.random.default_rng(seed)
    removed = {}
    for group in dependencies.groups:
        gone = rng.random(group.size) < 0.5
        gone[rng.integers(group.size)] = True
        gone[rng.choice(np.flatnonzero(gone))] = not gone.all()
        removed[group] = gone
    return removed


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NETWORKS)
def test_a_graph_without_channels_answers_as_if_nobody_read_them(name: str, seed: int) -> None:
    graph = NETWORKS[name]()
    dependencies = Dependencies(graph)
    before = print_graph(graph)
    removed = some(dependencies, seed)
    smaller, _ = removed_from(dependencies, removed)
    verify(smaller)
    assert print_graph(graph) == before
    assert totals(smaller).cost.macs < totals(graph).cost.macs
    feeds = feeds_for(graph)
    expected = evaluate(without_weights(dependencies, removed), feeds)["scores"]
    assert np.abs(expected - evaluate(graph, feeds)["scores"]).max() > 1e-3
    # Sums of the same terms, rounded in another order.
    np.testing.assert_allclose(evaluate(smaller, feeds)["scores"], expected, atol=1e-5, rtol=1e-5)


def names(graph: Graph) -> dict[str, tuple[set[str], int]]:
    """The nodes that make each group, and how many channels it has, by its name."""
    return {
        group.name: ({node.name for node in group.nodes}, group.size)
        for group in Dependencies(graph).groups
    }


def test_sums_join_channels() -> None:
    groups = names(NETWORKS["residual"]())
    assert groups == {
        "stem and 2 more": ({"stem", "second0", "second1"}, 16),
        "first0": ({"first0"}, 12),
        "first1": ({"first1"}, 12),
    }


def test_a_depthwise_convolution_and_a_gate_go_with_their_channels() -> None:
    groups = names(NETWORKS["depthwise"]())
    assert groups["expand and 2 more"] == ({"expand", "spread", "excite"}, 24)
    assert groups["squeeze"] == ({"squeeze"}, 6)
    assert groups["stem and 1 more"] == ({"stem", "project"}, 8)


def test_concatenations_keep_their_parts_apart() -> None:
    groups = names(NETWORKS["dense_blocks"]())
    assert {name: size for name, (_, size) in groups.items()} == {
        "stem": 8,
        "grown0": 6,
        "grown1": 6,
        "grown2": 6,
    }


def test_whole_groups_of_a_convolution_go() -> None:
    dependencies = Dependencies(NETWORKS["parted"]())
    sizes = [
        member.per_channel
        for group in dependencies.groups
        for member in group.members
        if member.value.producer is not None and member.value.producer.name == "right"
    ]
    assert set(sizes) == {3}


def test_whole_heads_of_attention_go() -> None:
    graph = NETWORKS["attending"]()
    dependencies = Dependencies(graph)
    heads = [group for group in dependencies.groups if group.size == 4]
    assert [{node.name for node in group.nodes} for group in heads] == [
        {"q0", "k0", "v0"},
        {"q1", "k1", "v1"},
    ]
    closed = {each.node.name: each.reason for each in dependencies.closed}
    assert closed["scores"] == "it is an axis of an output"
    assert closed["narrow1"] == "it is an axis of an input"


def test_channels_of_images_that_become_rows_take_their_columns_along() -> None:
    dependencies = Dependencies(NETWORKS["flattened"]())
    second = next(group for group in dependencies.groups if group.nodes[0].name == "second")
    assert second.size == 8
    columns = [member.per_channel for member in second.members if member.value.rank == 2]
    assert 9 in columns


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((2, 8, 3, 3), (2, 72), [((1, 2, 3), (1,)), ((0,), (0,))]),
        ((2, 5, 12), (2, 5, 3, 4), [((2,), (2, 3)), ((1,), (1,)), ((0,), (0,))]),
        ((2, 7, 1, 1), (2, 7), [((1,), (1,)), ((0,), (0,))]),
        ((4, 6), (6, 4), [((0, 1), (0, 1))]),
    ],
)
def test_axes_of_a_reshape(before: tuple, after: tuple, expected: list) -> None:
    assert segments(before, after) == [Segment(*pair) for pair in expected]


def test_axes_of_a_reshape_with_symbols() -> None:
    b, t = dims.symbol("b"), dims.symbol("t")
    assert segments((b, t, 12), (b * t, 3, 4)) == [Segment((2,), (1, 2)), Segment((0, 1), (0,))]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("%y = Softmax(%a, axis=1)", "Softmax is computed along it"),
        ("%y = CumSum(%a, int64[]{1})", "CumSum is computed along it"),
        ("%y = Hardmax(%a, axis=1)", "Hardmax is computed along it"),
        ("%i = NonZero(%a) %y = Cast(%i, to=float32)", "how NonZero treats channels is not known"),
    ],
)
def test_channels_stay_where_they_are_computed_together(body: str, reason: str) -> None:
    graph = parse(f"""graph "g" (%x: float32[3, 2]) {{
      %a = MatMul(%x, float32[2, 4]{{1, 2, 3, 4, 5, 6, 7, 8}})
      {body}
      %z = MatMul(%x, float32[2, 1]{{1, 2}})
      return y = %y, z = %z
    }}""")
    dependencies = Dependencies(graph)
    assert not dependencies.groups
    assert reason in {each.reason for each in dependencies.closed}


@pytest.mark.parametrize(
    "op", [op for _, op in sorted(REGISTRY.items()) if Trait.PER_CHANNEL in op.traits]
)
def test_operators_that_say_so_compute_every_channel_on_its_own(op: type) -> None:
    tested = 0
    for row in rows(op, np.random.default_rng(3)):
        x, others = row.inputs[0], row.inputs[1:]
        if x.ndim < 2 or x.shape[1] < 2:
            continue
        index = [x.shape[1] - 1, 0]
        fewer = (x[:, index], *(a[index] if np.ndim(a) == 1 else a for a in others))
        part = results(type(row)(**{**vars(row), "inputs": fewer}))[0]
        np.testing.assert_allclose(part, results(row)[0][:, index], rtol=1e-6, atol=1e-6)
        tested += 1
    assert tested
