"""What operators and graphs cost, against numbers worked out by hand and the known figures of
well-known networks.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.analysis.cost import Cost, Sizes, node_cost, totals
from infuse.ir import dims
from infuse.ir.expression import Variable
from infuse.ir.graph import Graph, Node, Value, constant
from infuse.ir.parser import parse
from infuse.ir.types import tensor
from infuse.ops.core.base import REGISTRY, WITHOUT_FLOPS, Inferred, Op
from infuse.ops.core.flops import Flops, Shapes
from infuse.rewrite import Patch
from infuse.testing.patterns import graph_of

pytestmark = pytest.mark.row("G38")

X, Y, Z = Variable("x"), Variable("y"), Variable("z")


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


def zeros(*shape: int) -> Value:
    """A weight that takes no memory."""
    return constant(np.broadcast_to(np.float32(0), shape))


class Net:
    """An image network in the making."""

    def __init__(self, side: int) -> None:
        self.graph = Graph("net")
        self.patch = Patch(self.graph)
        self.x = self.graph.add_input("x", tensor(dtypes.float32, 1, 3, side, side))

    def add(self, expression: Any) -> Value:
        self.x = self.patch.value(expression)
        return self.x

    def conv(
        self, out: int, kernel: int, stride: int = 1, group: int = 1, bias: bool = True
    ) -> Value:
        depth = self.x.shape[1]
        assert isinstance(depth, int)
        pads = (kernel // 2,) * 4
        weights = [zeros(out, depth // group, kernel, kernel), *([zeros(out)] if bias else [])]
        return self.add(ops.conv(self.x, *weights, strides=(stride,) * 2, pads=pads, group=group))

    def dense(self, out: int) -> Value:
        (_, depth) = self.x.shape
        assert isinstance(depth, int)
        return self.add(ops.gemm(self.x, zeros(depth, out), zeros(out)))

    def done(self) -> Graph:
        self.graph.add_output(self.x, "y")
        return self.graph


def vgg16() -> Graph:
    net = Net(224)
    for width, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            net.conv(width, 3)
            net.add(ops.relu(net.x))
        net.add(ops.max_pool(net.x, kernel_shape=(2, 2), strides=(2, 2)))
    net.add(ops.flatten(net.x))
    for width in (4096, 4096, 1000):
        net.dense(width)
    return net.done()


def resnet50() -> Graph:
    net = Net(224)
    net.conv(64, 7, 2)
    net.add(ops.max_pool(net.x, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            entry, step = net.x, stride if block == 0 else 1
            if block == 0:
                net.conv(4 * width, 1, step)
            skip, net.x = net.x, entry
            net.conv(width, 1)
            net.conv(width, 3, step)
            net.conv(4 * width, 1)
            net.add(ops.relu(net.x + skip))
    net.add(ops.flatten(ops.global_average_pool(net.x)))
    net.dense(1000)
    return net.done()


def mobilenet_v2() -> Graph:
    net = Net(224)
    net.conv(32, 3, 2)
    rows = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for growth, width, repeats, stride in rows:
        for repeat in range(repeats):
            wide = net.x.shape[1] * growth
            assert isinstance(wide, int)
            if growth > 1:
                net.conv(wide, 1)
            net.conv(wide, 3, stride if repeat == 0 else 1, group=wide)
            net.conv(width, 1)
    net.conv(1280, 1)
    net.add(ops.flatten(ops.global_average_pool(net.x)))
    net.dense(1000)
    return net.done()


@pytest.mark.parametrize(
    ("network", "giga_macs", "mega_parameters"),
    [(vgg16, 15.47, 138.36), (resnet50, 4.089, 25.53), (mobilenet_v2, 0.3008, 3.487)],
)
def test_known_networks(
    network: Callable[[], Graph], giga_macs: float, mega_parameters: float
) -> None:
    found = totals(network())
    assert not found.notes
    assert isinstance(found.cost.macs, int)
    assert found.cost.macs / 1e9 == pytest.approx(giga_macs, rel=1e-3)
    assert found.parameters / 1e6 == pytest.approx(mega_parameters, rel=1e-3)
    assert found.weight_bytes == 4 * found.parameters


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("name", "giga_macs"),
    [("resnet18", 1.814), ("resnet50", 4.089), ("mobilenet_v2", 0.3008), ("vit_b_16", 17.56)],
)
def test_exported_networks(zoo_model: Callable[[str], Any], name: str, giga_macs: float) -> None:
    import infuse

    found = totals(infuse.load(zoo_model(name)))
    assert isinstance(found.cost.macs, int)
    assert found.cost.macs / 1e9 == pytest.approx(giga_macs, rel=1e-3)


def test_weights_that_are_shared_count_once() -> None:
    graph = graph_of((X @ Y) @ Y, x=(2, 5), y=np.ones((5, 5), np.float32))
    found = totals(graph)
    assert (found.parameters, found.weight_bytes, found.nodes) == (25, 100, 2)
    assert found.kinds == {"MatMul": 2}
    assert found.costs["MatMul"] == found.cost


def test_open_sizes_stay_symbols_until_they_are_given() -> None:
    graph = parse("""graph "g" (%x: float32[batch, seq, 8], %w: float32[8, 4]) {
      %y = MatMul(%x, %w)
      return y = %y
    }""")
    (node,) = graph.nodes
    batch, seq = dims.symbol("batch"), dims.symbol("seq")
    assert node_cost(node).macs == batch * seq * 32
    assert node_cost(node).to_dict()["macs"] == str(batch * seq * 32)
    assert totals(graph, {"batch": 2, "seq": 7}).cost.macs == 2 * 7 * 32
    found = totals(graph, {"seq": 7})
    assert (found.cost.macs, found.assumed) == (7 * 32, {"batch": 1})


def test_sizes_that_only_run_time_knows_count_as_one() -> None:
    graph = parse("""graph "g" (%x: float32[9]) {
      %places = NonZero(%x)
      %y = Abs(%places)
      return y = %y
    }""")
    found = totals(graph)
    assert found.costs["Abs"].flops == 1
    assert list(found.assumed.values()) == [1]


LOOP = """graph "g" (%x: float32[5], %go: bool[]) {
  %y = Loop(TIMES, _, %x) {
    body = graph "body" (%i: int64[], %on: bool[], %s: float32[5]) {
      %t = Exp(%s)
      %u = Add(%t, %x)
      return on = %on, s = %u
    }
  }
  return y = %y
}"""


@pytest.mark.parametrize(("times", "runs", "note"), [("int64[]{3}", 3, False), ("_", 1, True)])
def test_a_loop_counts_as_often_as_it_runs(times: str, runs: int, note: bool) -> None:
    text = LOOP.replace("TIMES", times)
    found = totals(parse(text if times != "_" else text.replace("Loop(_, _,", "Loop(_, %go,")))
    assert found.cost.flops == runs * 10
    assert found.nodes == 3
    assert any("how often it runs is not known" in n for n in found.notes) == note


def test_of_two_branches_the_dearer_one_counts() -> None:
    found = totals(
        parse("""graph "g" (%x: float32[5], %c: bool[]) {
      %y = If(%c) {
        then_branch = graph "t" () {
          %a = Exp(%x)
          return a = %a
        }
        else_branch = graph "e" () {
          %b = Exp(%x)
          %d = Neg(%b)
          return d = %d
        }
      }
      return y = %y
    }""")
    )
    assert found.cost.flops == 10
    assert found.kinds["Exp"] == 2


def test_an_unknown_operator_is_said_to_be_not_counted() -> None:
    graph = parse("""graph "g" (%x: float32[5]) {
      %y: float32[5] = my.domain::Mystery(%x)
      return y = %y
    }""")
    (node,) = graph.nodes
    assert not node_cost(node).is_known
    assert totals(graph).notes == ["1 × Mystery: its cost is not known and not counted"]


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
