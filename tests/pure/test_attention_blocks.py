"""Whole attention blocks, written as exporters write them: what is left of them, and that it
computes the same.
"""

from typing import Any

import numpy as np
import pytest

import infuse
from infuse import ops
from infuse.ir.expression import Call, Variable
from infuse.ir.graph import Graph, count_operators
from infuse.ops.core.evaluate import evaluate
from infuse.ops.core.sizes import int64s
from infuse.testing.patterns import graph_of

X, Y, PAST_K, PAST_V = (Variable(name) for name in ("x", "y", "past_k", "past_v"))
OPERANDS = {"x": (2, 5, 12), "y": (2, 7, 12), "past_k": (2, 3, 6, 4), "past_v": (2, 3, 6, 4)}
RNG = np.random.default_rng(3)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def heads(x: Any, count: int = 3, size: int = 4, bias: bool = True) -> Call:
    """x · w + b as (batch, heads, length, size)."""
    rows = ops.matmul(x, weights(12, count * size))
    rows = rows + weights(count * size) if bias else rows
    return ops.transpose(ops.reshape(rows, int64s(0, 0, count, size)), perm=(0, 2, 1, 3))


def attend(q: Any, k: Any, v: Any, mask: Any = None) -> Call:
    """The parts of attention, and the heads side by side again."""
    scores = ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2))) * np.float32(0.5)
    mixed = ops.matmul(ops.softmax(scores if mask is None else scores + mask, axis=-1), v)
    return ops.reshape(ops.transpose(mixed, perm=(0, 2, 1, 3)), int64s(0, 0, -1))


def repeated(x: Any, length: int) -> Call:
    """Each of three heads twice."""
    return ops.reshape(
        ops.expand(ops.unsqueeze(x, int64s(2)), int64s(2, 3, 2, length, 4)), int64s(2, 6, length, 4)
    )


def fused(*results: Call) -> tuple[dict[str, int], Graph]:
    graph = graph_of(*results, **OPERANDS)
    feeds = {v.name: weights(*(int(d) for d in v.shape)) for v in graph.inputs}
    after = infuse.optimize(graph, "extended")
    wanted, found = evaluate(graph, feeds), evaluate(after, feeds)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)
    return dict(count_operators(after)), after


@pytest.mark.row("G33")
def test_self_attention_is_four_operators() -> None:
    counts, _ = fused(attend(heads(X), heads(X), heads(X)))
    assert counts == {"MatMul": 1, "Add": 1, "Split": 1, "Attention": 1}


@pytest.mark.row("G33")
def test_cross_attention_reads_keys_and_values_elsewhere() -> None:
    counts, _ = fused(attend(heads(X), heads(Y), heads(Y)))
    assert counts == {"MatMul": 2, "Add": 2, "Split": 1, "Attention": 1}


@pytest.mark.row("G33")
def test_a_constant_triangle_is_a_causal_mask() -> None:
    counts, graph = fused(
        attend(heads(X), heads(X), heads(X), np.triu(np.full((5, 5), -1e9, np.float32), 1))
    )
    assert counts == {"MatMul": 1, "Add": 1, "Split": 1, "Attention": 1}
    assert [
        node.op.attributes()["is_causal"] for node in graph.nodes if node.kind == "Attention"
    ] == [1]


@pytest.mark.row("G33")
def test_grouped_heads_are_shared_and_not_repeated() -> None:
    k, v = (repeated(heads(X, bias=False), 5) for _ in "kv")
    counts, graph = fused(attend(heads(X, 6, bias=False), k, v))
    assert counts == {"MatMul": 1, "Split": 1, "Attention": 1}
    (node,) = (node for node in graph.nodes if node.kind == "Attention")
    given = node.op.attributes()
    assert (given["q_num_heads"], given["kv_num_heads"]) == (6, 3)


@pytest.mark.row("G33")
def test_attention_over_past_keys_and_values_is_one_operator() -> None:
    k, v = (ops.concat(past, heads(X), axis=2) for past in (PAST_K, PAST_V))
    counts, graph = fused(attend(heads(X), k, v), k, v)
    assert counts["Attention"] == 1
    assert "Softmax" not in counts
    assert [output.shape for output in graph.outputs] == [(2, 5, 12), (2, 3, 11, 4), (2, 3, 11, 4)]


@pytest.mark.row("G33")
@pytest.mark.parametrize("neighbours", [False, True])
def test_rotary_embedding_turns_rows_of_all_heads(neighbours: bool) -> None:
    angles = weights(1, 1, 5, 2)
    wide = np.repeat(angles, 2, -1) if neighbours else np.concatenate([angles, angles], -1)

    def turned(x: Call) -> Call:
        step = int64s(2 if neighbours else 1)
        places = ((0, 9), (1, 9)) if neighbours else ((0, 2), (2, 9))
        a, b = (ops.slice(x, int64s(start), int64s(end), int64s(3), step) for start, end in places)
        if neighbours:
            pair = ops.concat(ops.unsqueeze(-b, int64s(-1)), ops.unsqueeze(a, int64s(-1)), axis=-1)
            return x * np.cos(wide) + ops.reshape(pair, int64s(2, 3, 5, 4)) * np.sin(wide)
        return x * np.cos(wide) + ops.concat(-b, a, axis=-1) * np.sin(wide)

    counts, graph = fused(attend(turned(heads(X)), turned(heads(X)), heads(X)))
    assert counts == {"MatMul": 1, "Add": 1, "Split": 1, "RotaryEmbedding": 2, "Attention": 1}
    kinds = {
        node.op.attributes()["interleaved"]
        for node in graph.nodes
        if node.kind == "RotaryEmbedding"
    }
    assert kinds == {int(neighbours)}
