"""Pruning of hidden sizes and residual blocks with compiled models: what is chosen, what it
computes, and what is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import infuse
from infuse.analysis.cost import totals
from infuse.compression import Narrowing, Request, narrow_graph
from infuse.compression.pruning.blocks import find_blocks, without_blocks
from infuse.compression.pruning.depth import order_of_dropping, with_switches
from infuse.compression.pruning.groups import Dependencies
from infuse.compression.pruning.importance import by_magnitude
from infuse.compression.pruning.normalized import KINDS, ROWS, with_fitted_norms
from infuse.compression.pruning.removal import removed_from
from infuse.compression.pruning.widths import Rounding, by_loss
from infuse.compression.sensitivity import change, powers_of
from infuse.errors import OptionError
from infuse.ir.clone import clone_exposing
from infuse.ir.graph import Graph, Node
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate
from tests.pruning_networks import NETWORKS, Network
from tests.residual_networks import FEATURES, LENGTH, WIDTH, Transformer

pytestmark = [pytest.mark.row("Z3")]


def examples(count: int = 40) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {"x": rng.standard_normal((count, LENGTH, FEATURES)).astype(np.float32)}


def idle(graph: Graph, name: str) -> Graph:
    """The graph, whose node of this name multiplies by nearly nothing."""
    (node,) = (node for node in graph.nodes if node.name == name)
    for value in node.inputs[1:]:
        value.const = value.const * np.float32(1e-3)
    return graph


def answers_elsewhere(graph: Graph, feeds: dict[str, np.ndarray], folder: Path) -> np.ndarray:
    """What ONNX Runtime computes."""
    infuse.save(graph, folder / "small.onnx")
    session = onnxruntime.InferenceSession(
        folder / "small.onnx", providers=["CPUExecutionProvider"]
    )
    (scores,) = session.run(None, feeds)
    return scores


@pytest.mark.parametrize(("norm", "is_before"), [("layer", False), ("rms written out", True)])
def test_a_transformer_with_a_smaller_hidden_size(
    norm: str, is_before: bool, tmp_path: Path
) -> None:
    graph, data = Transformer(norm, is_before, layers=2).graph(), examples()
    small = infuse.compress(
        graph,
        infuse.Prune("35%", kinds="hidden"),
        data=data,
        options=infuse.CompressOptions(threads=1, level="basic"),
    )
    verify(small)
    pruning = small.compression.pruning
    (group,) = (group for group in pruning.groups if "embed/MatMul" in group.nodes)
    assert (group.before, group.after) == (WIDTH, 8)
    assert totals(small).cost.macs == pruning.macs <= 0.65 * pruning.macs_before
    feeds = {"x": data["x"][:2]}
    expected = evaluate(small, feeds)["scores"]
    with infuse.compile(small, infuse.CompileOptions(threads=1)) as model:
        np.testing.assert_allclose(model.run(feeds)["scores"], expected, atol=1e-4)
    np.testing.assert_allclose(answers_elsewhere(small, feeds, tmp_path), expected, atol=1e-4)


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_normalizations_are_fitted_to_fewer_channels(norm: str) -> None:
    graph, runs = Transformer(norm).graph(), [{"x": p} for p in np.split(examples(400)["x"], 200)]
    dependencies = Dependencies(graph, opens_norms=True)
    dependencies.groups = [group for group in dependencies.groups if group.is_hidden]
    removed = {dependencies.groups[0]: np.arange(WIDTH) < 3}
    narrow, values = removed_from(dependencies, removed)
    alive = dependencies.alive(removed)
    result = with_fitted_norms(dependencies, alive, values, narrow, runs)
    assert result is not None
    fitted, _ = result
    verify(fitted)
    norms = [node for node in fitted.nodes if node.kind in KINDS]
    originals = [node for node in graph.nodes if node.kind in KINDS]
    assert len(norms) == len(originals)
    # The first one reads what no other normalization changed: its fit is that of least squares.
    used = runs[: -(-ROWS // (2 * LENGTH))]
    wanted, given = (
        np.concatenate([inner(whole, node, feeds) for feeds in used]).reshape(-1, width)
        for whole, node, width in (
            (graph, originals[0], WIDTH),
            (narrow, next(n for n in narrow.nodes if n.kind in KINDS), WIDTH - 3),
        )
    )
    after = np.concatenate([inner(fitted, norms[0], feeds) for feeds in used]).reshape(
        -1, WIDTH - 3
    )
    for channel in range(WIDTH - 3):
        ones = np.ones(len(given)) if norm == "layer" else np.zeros(len(given))
        basis = np.stack([given[:, channel], ones], 1).astype(np.float64)
        answer, *_ = np.linalg.lstsq(basis, wanted[:, 3 + channel].astype(np.float64), rcond=None)
        np.testing.assert_allclose(after[:, channel], basis @ answer, atol=1e-4)
    held = {"x": examples(600)["x"][500:502]}
    exact = evaluate(graph, held)["scores"]
    before, now = (np.square(evaluate(g, held)["scores"] - exact).sum() for g in (narrow, fitted))
    assert now < before


def test_a_channel_of_a_hidden_size_counts_for_each_reader() -> None:
    dependencies = Dependencies(Transformer().graph(), opens_norms=True)
    importance = by_magnitude(dependencies)
    (hidden,) = (group for group in dependencies.groups if group.is_hidden)
    shrink = by_loss(dependencies, importance, Rounding(1))
    kept = [shrink(part)[hidden] / hidden.size for part in (0.3, 0.5, 0.7)]
    assert kept == sorted(kept)
    assert kept[-1] > 0.5
    others = [group for group in dependencies.groups if not group.is_hidden]
    assert any(shrink(0.5)[group] < group.size for group in others)


def inner(graph: Graph, node: Node, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """What a node of a graph computes."""
    exposing, (name,) = clone_exposing(graph, [node.output])
    return evaluate(exposing, feeds)[name]


def test_the_block_that_does_little_goes_first(tmp_path: Path) -> None:
    graph, data = idle(Transformer(layers=2).graph(), "layers.1.wide.down/MatMul"), examples()
    names = [block.name for block in find_blocks(graph)]
    small = infuse.compress(
        graph,
        infuse.Prune("30%", kinds=["blocks"]),
        data=data,
        options=infuse.CompressOptions(threads=1, level="basic"),
    )
    pruning = small.compression.pruning
    assert [block.name for block in pruning.blocks] == names
    assert pruning.rounds[0]["blocks"][0] == "layers.1.wide (up/MatMul to down/MatMul)"
    gone = [block for block in pruning.blocks if block.is_removed]
    assert {block.name for block in gone} == set(pruning.rounds[0]["blocks"])
    assert pruning.macs == pruning.macs_before - sum(block.macs for block in gone)
    assert "block layers.1.wide (up/MatMul to down/MatMul) removed" in pruning.lines()
    assert not any(0 < group.after < group.before for group in pruning.groups)
    feeds = {"x": data["x"][:2]}
    with infuse.compile(small, infuse.CompileOptions(threads=1)) as model:
        expected = model.run(feeds)["scores"]
    np.testing.assert_allclose(answers_elsewhere(small, feeds, tmp_path), expected, atol=1e-4)


def test_channels_and_blocks_compete() -> None:
    graph, data = idle(Transformer().graph(), "layers.1.wide.down/MatMul"), examples()
    both = infuse.compress(
        graph, infuse.Prune("30%"), data=data, options=infuse.CompressOptions(threads=1)
    ).compression
    assert [block.name for block in both.pruning.blocks if block.is_removed] == [
        "layers.1.wide (up/MatMul to down/MatMul)"
    ]
    assert any(0 < group.after < group.before for group in both.pruning.groups)
    alone = infuse.compress(
        graph,
        infuse.Prune("30%", kinds="channels"),
        data=data,
        options=infuse.CompressOptions(threads=1),
    ).compression
    assert not alone.pruning.blocks
    assert both.score > alone.score


def test_residual_blocks_of_convolutions_go() -> None:
    graph = idle(NETWORKS["residual"](), "second1")
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((20, 3, 8, 8)).astype(np.float32)}
    small = infuse.compress(
        graph,
        infuse.Prune("40%"),
        data=data,
        options=infuse.CompressOptions(threads=1, level="basic"),
    )
    pruning = small.compression.pruning
    assert pruning.rounds[0]["blocks"] == ["first1 to second1"]
    assert totals(small).cost.macs == pruning.macs <= 0.6 * pruning.macs_before
    feeds = {"x": data["x"][:2]}
    with infuse.compile(small, infuse.CompileOptions(threads=1)) as model:
        scores = model.run(feeds)["scores"]
    np.testing.assert_allclose(scores, evaluate(small, feeds)["scores"], atol=1e-4)


@pytest.mark.full
def test_rounds_with_tuning_drop_blocks_and_channels() -> None:
    graph, data = idle(Transformer(layers=2).graph(), "layers.1.wide.down/MatMul"), examples(100)
    report = infuse.compress(
        graph,
        ["int8", infuse.Prune("60%", rounds=2)],
        data=data,
        tune=infuse.Tune(epochs=4, features=1.0),
        options=infuse.CompressOptions(threads=1, allow_slower=True),
    ).compression
    first, second = report.pruning.rounds
    assert "layers.1.wide (up/MatMul to down/MatMul)" in first["blocks"]
    assert not set(first["blocks"]) & set(second["blocks"])
    assert report.pruning.macs <= 0.4 * report.pruning.macs_before
    assert first["features"]
    assert {"channels", "blocks"} <= first["tried"].keys()
    assert any("after a part of it: " in line for line in report.pruning.lines())
    assert first["after"] >= first["before"]


@pytest.mark.full
def test_the_time_of_a_run_is_the_goal() -> None:
    graph, data = idle(Transformer(layers=2).graph(), "layers.1.wide.down/MatMul"), examples()
    times = iter(range(1, 1000))

    def timer(calls: dict[str, Any]) -> dict[str, list[float]]:
        """What a graph takes is what it is measured after: the original 100, others less."""
        for call in calls.values():
            call()
        return {name: [100.0 if name == "original" else 30.0 + next(times) % 2] for name in calls}

    request = Request(
        examples=infuse.Examples(data), options=infuse.CompressOptions(threads=1), timer=timer
    )
    pruning = infuse.Prune("60%", "latency", kinds="channels,blocks")
    result = narrow_graph(graph, request, Narrowing(pruning)).compression
    assert result.pruning.is_reached
    assert result.pruning.macs < result.pruning.macs_before


@pytest.mark.parametrize("name", ["transformer", "residual"])
def test_switches_do_what_dropping_does(name: str) -> None:
    graph = Transformer().graph() if name == "transformer" else NETWORKS[name]()
    blocks = find_blocks(graph)
    switched, switches = with_switches(graph, blocks)
    verify(switched)
    shape = tuple(int(str(size)) for size in graph.inputs[0].shape)
    feeds = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    for which in (*np.eye(len(blocks), dtype=np.bool_), np.ones(len(blocks), np.bool_)):
        gone = [block for block, is_gone in zip(blocks, which) if is_gone]
        expected = evaluate(without_blocks(graph, gone)[0], feeds)["scores"]
        given = evaluate(switched, {**feeds, switches: which})["scores"]
        np.testing.assert_allclose(given, expected, atol=1e-6)


def test_blocks_go_by_what_they_change_for_what_they_save() -> None:
    graph = Transformer().graph()
    blocks, costs = find_blocks(graph), {}
    runs = [{"x": part} for part in np.split(examples(8)["x"], 4)]
    exact = [evaluate(graph, feeds) for feeds in runs]
    powers = powers_of(exact)

    def changed(gone: list) -> float:
        small, _ = without_blocks(graph, gone)
        costs[tuple(gone)] = totals(small).cost.macs
        pairs = [(evaluate(small, feeds), right) for feeds, right in zip(runs, exact)]
        return float(np.mean([change(one, right, powers) for one, right in pairs]))

    order = order_of_dropping(graph, blocks, runs, exact, powers, 1e18, 1e18, threads=1)
    assert {each.block for each in order} == set(blocks)
    before, gone = changed([]), []
    for each in order:
        rates = {}
        for block in blocks:
            if block not in gone:
                value = changed([*gone, block])
                saved = costs[tuple(gone)] - costs[(*gone, block)]
                rates[block] = max(value - before, 0) / saved, value
        best = min(rates, key=rates.__getitem__)
        assert each.block is best
        assert each.change == pytest.approx(rates[best][1], rel=1e-3)
        before, gone = rates[best][1], [*gone, best]
    some = order_of_dropping(graph, blocks, runs, exact, powers, 1.0, 1e18, threads=1)
    assert [each.block for each in some] == [order[0].block]
    least = min(totals(graph).cost.macs - costs[(block,)] for block in blocks)
    few = order_of_dropping(graph, blocks, runs, exact, powers, 1e18, least, threads=1)
    assert len(few) == 1
    assert not order_of_dropping(graph, blocks, runs, exact, powers, 1e18, 1, threads=1)


def test_a_block_that_is_nearly_all_stays() -> None:
    net = Network("refining", (2, 3, 8, 8))
    y = net("Relu", net.conv("first", net.x, 24))
    x = net("Add", net.x, net.conv("last", y, 3))
    net.graph.add_output(net("Relu", x), "pixels")
    assert [block.name for block in find_blocks(net.graph)] == ["first to last"]
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((8, 3, 8, 8)).astype(np.float32)}
    small = infuse.compress(
        net.graph, infuse.Prune("50%"), data=data, options=infuse.CompressOptions(threads=1)
    )
    assert not small.compression.pruning.blocks
    assert sum(node.kind.startswith("Conv") for node in small.nodes) == 2
    none = infuse.compress(
        net.graph,
        infuse.Prune("50%", kinds="blocks,hidden"),
        data=data,
        options=infuse.CompressOptions(threads=1),
    ).compression
    assert not none.pruning.is_reached
    assert any("no hidden and no blocks can go" in note for note in none.notes)


@pytest.mark.parametrize(
    ("kinds", "data", "what"),
    [
        ("depth", examples(), "can be pruned is called depth"),
        ("", examples(), "can be pruned is called"),
        ([], examples(), "can be pruned is called so"),
        ("blocks", None, "measured on data"),
        ("channels,hidden", None, "measured on data"),
    ],
)
def test_kinds_that_mean_nothing_are_refused(
    kinds: str | list[str], data: dict[str, Any] | None, what: str
) -> None:
    options = infuse.CompressOptions(threads=1)
    with pytest.raises(OptionError, match=what):
        infuse.compress(
            Transformer().graph(), infuse.Prune("50%", kinds=kinds), data=data, options=options
        )


def test_without_data_channels_alone_go() -> None:
    report = infuse.compress(
        Transformer().graph(), infuse.Prune("30%"), options=infuse.CompressOptions(threads=1)
    ).compression
    assert not report.pruning.blocks
    assert {group.before for group in report.pruning.groups} == {2, 2 * WIDTH}
