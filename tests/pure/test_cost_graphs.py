"""What graphs cost, against numbers worked out by hand and the known figures of well-known
networks.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infuse import dtypes, ops
from infuse.analysis.cost import node_cost, totals
from infuse.ir import dims
from infuse.ir.graph import Graph, Value, constant
from infuse.ir.parser import parse
from infuse.ir.types import tensor
from infuse.rewrite import Patch
from infuse.testing.patterns import graph_of
from tests.pure.costs import X, Y

pytestmark = pytest.mark.row("G38")


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
