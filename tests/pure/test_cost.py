"""What operators cost, against numbers worked out by hand."""

from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.analysis.cost import Cost, Sizes, node_cost, totals
from infuse.ir import dims
from infuse.ir.graph import Graph, Node, Value
from infuse.ir.types import tensor
from infuse.ops.core.base import REGISTRY, WITHOUT_FLOPS, Inferred, Op
from infuse.ops.core.flops import Flops, Shapes
from infuse.testing.patterns import graph_of
from tests.pure.costs import X, Y, Z

pytestmark = pytest.mark.row("G38")


def cost(expression: Any, **operands: Any) -> Cost:
    """The cost of the one node that an expression makes."""
    (node,) = graph_of(expression, **operands).nodes
    return node_cost(node)


def counts(expression: Any, **operands: Any) -> tuple[object, object]:
    found = cost(expression, **operands)
    assert found.is_known
    return found.macs, found.flops


# -- operators -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "operands", "macs", "others"),
    [
        (ops.conv(X, Y), {"x": (2, 3, 8, 8), "y": (16, 3, 3, 3)}, 2 * 16 * 36 * 27, 0),
        (
            ops.conv(X, Y, Z),
            {"x": (1, 3, 8, 8), "y": (16, 3, 3, 3), "z": (16,)},
            16 * 36 * 27,
            16 * 36,
        ),
        (ops.conv(X, Y, group=8), {"x": (1, 8, 5, 5), "y": (8, 1, 3, 3)}, 8 * 9 * 9, 0),
        (
            ops.conv(X, Y, strides=(2, 2), pads=(1, 1, 1, 1)),
            {"x": (1, 4, 8, 8), "y": (6, 4, 3, 3)},
            6 * 16 * 36,
            0,
        ),
        (
            ops.conv_transpose(X, Y, strides=(2, 2)),
            {"x": (1, 4, 5, 6), "y": (4, 3, 2, 2)},
            4 * 30 * 3 * 4,
            0,
        ),
        (X @ Y, {"x": (4, 7), "y": (7, 5)}, 4 * 7 * 5, 0),
        (X @ Y, {"x": (2, 1, 4, 7), "y": (3, 7, 5)}, 2 * 3 * 4 * 7 * 5, 0),
        (X @ Y, {"x": (7,), "y": (7,)}, 7, 0),
        (ops.gemm(X, Y, Z), {"x": (4, 7), "y": (7, 5), "z": (5,)}, 140, 20),
        (ops.gemm(X, Y, transA=1, alpha=0.5), {"x": (7, 4), "y": (7, 5)}, 140, 20),
        (
            ops.einsum(X, Y, equation="bij,bjk->bik"),
            {"x": (2, 3, 4), "y": (2, 4, 5)},
            2 * 3 * 4 * 5,
            0,
        ),
        (
            ops.einsum(X, Y, equation="...i,ij->...j"),
            {"x": (2, 3, 4), "y": (4, 5)},
            2 * 3 * 4 * 5,
            0,
        ),
        (ops.einsum(X, Y, equation="i,j->ij"), {"x": (3,), "y": (5,)}, 0, 15),
        (ops.einsum(X, equation="ij->ji"), {"x": (3, 5)}, 0, 0),
        (ops.einsum(X, equation="ij->i"), {"x": (3, 5)}, 0, 15),
        (
            ops.einsum(X, Y, Z, equation="ij,jk,kl->il"),
            {"x": (2, 3), "y": (3, 4), "z": (4, 5)},
            24 + 40,
            0,
        ),
        (
            ops.attention(X, Y, Z),
            {"x": (2, 4, 3, 8), "y": (2, 4, 5, 8), "z": (2, 4, 5, 6)},
            120 * 14,
            120 * 6,
        ),
        (
            ops.attention(X, Y, Z, q_num_heads=4, kv_num_heads=2),
            {"x": (2, 3, 32), "y": (2, 5, 16), "z": (2, 5, 12)},
            2 * 4 * 3 * 5 * (8 + 6),
            2 * 4 * 3 * 5 * 6,
        ),
        (ops.softmax(X), {"x": (2, 5)}, 0, 50),
        (ops.layer_normalization(X, Y), {"x": (2, 5), "y": (5,)}, 0, 60),
        (ops.layer_normalization(X, Y, Z), {"x": (2, 5), "y": (5,), "z": (5,)}, 0, 70),
        (ops.relu(X), {"x": (2, 5)}, 0, 10),
        (ops.sigmoid(X), {"x": (10,)}, 0, 40),
        (ops.gelu(X), {"x": (10,)}, 0, 50),
        (X + Y, {"x": (2, 1), "y": (5,)}, 0, 10),
        (ops.clip(X, Y, Z), {"x": (10,), "y": (), "z": ()}, 0, 20),
        (ops.cast(X, to=dtypes.float64), {"x": (10,)}, 0, 0),
        (ops.reduce_sum(X, np.array([1])), {"x": (2, 5)}, 0, 10),
        (ops.reduce_mean(X, np.array([1])), {"x": (2, 5)}, 0, 12),
        (ops.reduce_l2(X, np.array([1])), {"x": (2, 5)}, 0, 22),
        (ops.max_pool(X, kernel_shape=(3, 3)), {"x": (1, 2, 5, 5)}, 0, 2 * 9 * 9),
        (
            ops.average_pool(X, kernel_shape=(2, 2), strides=(2, 2)),
            {"x": (1, 2, 4, 4)},
            0,
            2 * 4 * 5,
        ),
        (ops.global_average_pool(X), {"x": (1, 2, 4, 4)}, 0, 34),
        (ops.transpose(X, perm=(1, 0)), {"x": (2, 5)}, 0, 0),
        (ops.concat(X, Y, axis=0), {"x": (2, 5), "y": (1, 5)}, 0, 0),
    ],
    ids=lambda value: value.kind if hasattr(value, "kind") else "",
)
def test_arithmetic_worked_out_by_hand(
    expression: Any, operands: dict[str, Any], macs: int, others: int
) -> None:
    assert counts(expression, **operands) == (macs, 2 * macs + others)


def test_resampling_counts_only_axes_that_change() -> None:
    sizes = np.array([1, 2, 8, 5])
    assert counts(ops.resize(X, None, None, sizes, mode="linear"), x=(1, 2, 4, 5)) == (0, 80 * 3)
    assert counts(ops.resize(X, None, None, sizes), x=(1, 2, 4, 5)) == (0, 0)


@pytest.mark.parametrize(
    ("expression", "operands", "read", "written"),
    [
        (X + Y, {"x": (2, 5), "y": (5,)}, 60, 40),
        (ops.transpose(X, perm=(1, 0)), {"x": (2, 5)}, 40, 40),
        (ops.reshape(X, np.array([5, 2])), {"x": (2, 5)}, 0, 0),
        (ops.identity(X), {"x": (2, 5)}, 0, 0),
        (ops.shape(X), {"x": (2, 5)}, 0, 16),
        (ops.gather(X, np.array([3, 1])), {"x": (1000, 5)}, 40 + 16, 40),
        (ops.slice(X, np.array([1]), np.array([2])), {"x": (1000, 5)}, 20 + 16, 20),
        (ops.cast(X, to=dtypes.float16), {"x": (10,)}, 40, 20),
    ],
    ids=lambda value: value.kind if hasattr(value, "kind") else "",
)
def test_memory_access(expression: Any, operands: dict[str, Any], read: int, written: int) -> None:
    found = cost(expression, **operands)
    assert (found.read, found.written, found.bytes) == (read, written, read + written)


def test_every_operator_is_counted() -> None:
    missing = [key for key, op in REGISTRY.items() if not says_its_flops(op)]
    assert [key for key in missing if key[0] in ("", "com.microsoft", "infuse")] == []


def says_its_flops(op: type[Op]) -> bool:
    """Whether the class, a family of it or its traits say what the operator computes."""
    return op.flops is not Op.flops or bool(op.traits & WITHOUT_FLOPS)


# -- graphs ----------------------------------------------------------------------------------------


class Mystery(Op, abstract=True):
    """An operator of a user's own, which says what it computes."""

    name = "Mystery"
    domain = "my.domain"

    def infer(self, x: Value) -> Inferred:
        return x.type

    def flops(self, shapes: Shapes) -> Flops:
        return Flops(shapes.made, 2)


def test_a_count_of_ones_own_is_used() -> None:
    graph = Graph("g")
    x = graph.add_input("x", tensor(dtypes.float32, 5))
    graph.add_output(graph.add_node(Node(Mystery(), [x], [Value(x.type, "y")])).output)
    assert totals(graph).cost.flops == 12
    assert totals(graph).notes == []


def test_costs_add_up() -> None:
    a, b = Cost(1, 2, 3, 4), Cost(10, 20, 30, 40, is_known=False)
    assert a + b == Cost(11, 22, 33, 44, False)
    assert (b - a).to_dict() == {"macs": 9, "flops": 18, "read": 27, "written": 36}
    assert (a * 3).bytes == 21


def test_sizes_remember_what_was_assumed() -> None:
    sizes = Sizes(Graph("g"), {"a": 4})
    assert sizes(dims.symbol("a") * 2) == 8
    assert sizes(dims.symbol("a") - 9) == 0
    assert (sizes.assumed, sizes(dims.symbol("b") + 1), sizes.assumed) == ({"b": 1}, 2, {"b": 1})
