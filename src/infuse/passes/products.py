"""Products of one tensor with several weights computed at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from infuse.immutable import Immutable
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.ops.arithmetic import Add
from infuse.ops.contraction import Gemm, MatMul
from infuse.ops.core.sizes import int64s
from infuse.ops.movement import Split
from infuse.passes.rules.common import SHARED_LIMIT, data
from infuse.rewrite import Pass
from infuse.rewrite.node_ref import label
from infuse.rewrite.patch import Patch, redirect, remove_dead
from infuse.rewrite.record import Report, Rewrite

MERGED_LIMIT = 1 << 26
"""Bytes of the largest weights that are put side by side."""
TOTAL_LIMIT = 1 << 29
"""Bytes of all weights of a graph that are put side by side: they are copied into memory."""


class Product(Immutable):
    """x · w + b; b may be absent. `node` computes the product, `last` the sum where that is another
    node.
    """

    node: Node
    weights: Value
    bias: Value | None
    last: Node

    @property
    def matrix(self) -> Array:
        """The weights with one column for each of the result."""
        return data(self.weights).T if getattr(self.node.op, "transB", 0) else data(self.weights)

    @property
    def addend(self) -> Array:
        """One number for each column."""
        columns = self.matrix.shape[1:]
        if self.bias is None:
            return np.zeros(columns, dtype=self.weights.dtype.numpy)
        return np.broadcast_to(data(self.bias).reshape(-1), columns)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The node, and the one of the sum, in order."""
        return tuple(dict.fromkeys((self.node, self.last)))


class MergeProducts(Pass):
    """MatMul(x, w) + a, MatMul(x, v) + b → Split(MatMul(x, w next to v) + a next to b), where that
    is fewer nodes

    One large product is faster than several small ones, and reads x once. Gemm likewise. Weights
    that others read too, and very large ones, stay as they are.
    """

    level = "extended"
    rows = ("G15", "G33")

    def __init__(self) -> None:
        self._copied: WeakKeyDictionary[Graph, int] = WeakKeyDictionary()
        """Bytes of weights copied so far, by graph: a pass runs several times."""

    def run(self, graph: Graph, report: Report) -> None:
        left = TOTAL_LIMIT - self._copied.get(graph, 0)
        for inner in graph.all_graphs():
            shared: dict[tuple[Value, str], list[Product]] = {}
            for node in inner.nodes:
                product = _product(node)
                if product is not None and node.inputs[0] is not None:
                    shared.setdefault((node.inputs[0], node.kind), []).append(product)
            for products in shared.values():
                size = sum(data(p.weights).nbytes for p in products)
                if len(products) > 1 and _pays(products) and size <= min(MERGED_LIMIT, left):
                    left -= size
                    self._merge(inner, products, report)
        self._copied[graph] = TOTAL_LIMIT - left

    def _merge(self, graph: Graph, products: Sequence[Product], report: Report) -> None:
        first = products[0].node
        patch = Patch(
            graph, [name for p in products for node in p.nodes for name in node.origin], first.name
        )
        operands = [first.inputs[0], constant(np.concatenate([p.matrix for p in products], axis=1))]
        if any(p.bias is not None for p in products):
            operands.append(constant(np.concatenate([p.addend for p in products])))
        if isinstance(first.op, Gemm):
            whole = patch.add(Gemm(), operands).output
        else:
            whole = patch.add(MatMul(), operands[:2]).output
            whole = whole if len(operands) == 2 else patch.add(Add(), [whole, operands[2]]).output
        sizes = patch.value(int64s(*(p.matrix.shape[1] for p in products)))
        split = patch.add(Split(axis=-1), [whole, sizes], len(products))
        for product, part in zip(products, split.outputs):
            redirect(product.last.output, part)
        removed = label(remove_dead([p.last for p in products]))
        report.add(Rewrite(self.name, removed, label(patch.created), self.level, self.rows))


def _pays(products: Sequence[Product]) -> bool:
    """Whether merged products are fewer nodes."""
    sums = any(p.bias is not None for p in products) and not isinstance(products[0].node.op, Gemm)
    return sum(len(p.nodes) for p in products) > 2 + sums


def _product(node: Node) -> Product | None:
    """A product with a matrix of constants of its own, together with the bias that it alone
    meets.
    """
    if not isinstance(node.op, (MatMul, Gemm)):
        return None
    x, weights = node.inputs[:2]
    if (
        x is None
        or weights is None
        or x.is_const
        or not weights.is_const
        or not weights.dtype.is_float
    ):
        return None
    if weights.rank != 2 or x.tensor.shape is None or x.rank < 2:
        return None
    if len(weights.uses) > 1 and data(weights).nbytes > SHARED_LIMIT:
        return None
    if isinstance(node.op, Gemm):
        bias = node.input(2)
        plain = (node.op.transA, node.op.alpha, node.op.beta) == (0, 1.0, 1.0)
        return (
            Product(node, weights, bias, node)
            if plain and (bias is None or _fits(bias, node))
            else None
        )
    for add, bias in _additions(node) if len(node.output.uses) == 1 else ():
        if _fits(bias, node):
            return Product(node, weights, bias, add)
    return Product(node, weights, None, node)


def _additions(node: Node) -> Iterator[tuple[Node, Value]]:
    """The nodes that add a constant to the result of `node`, and the constant."""
    for user in node.output.users():
        if isinstance(user.op, Add) and user.graph is node.graph:
            yield from ((user, other) for other in user.operands() if other.is_const)


def _fits(bias: Value, node: Node) -> bool:
    """Whether a constant is one number for each column."""
    if not bias.is_const or bias.rank > node.output.rank:
        return False
    return all(size == 1 for size in bias.shape[:-1]) and bias.tensor.size in (
        1,
        node.output.shape[-1],
    )
