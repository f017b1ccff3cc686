"""Low-rank adaptation: products with weights get a second, small way beside them, which alone is
trained and can be merged into the weights afterwards (Hu et al., LoRA: Low-Rank Adaptation of Large
Language Models).
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from infuse.errors import GraphError, InputError, OptionError
from infuse.ir.clone import clone
from infuse.ir.graph import Array, Graph, Node, Value, constant
from infuse.rewrite.patch import remove_dead
from infuse.training.differentiation import Differentiator

_SCALE = "lora.scale"
"""The metadata of the sum of both ways: what the low-rank product is multiplied by."""


def add_lora(
    graph: Graph,
    rank: int,
    *,
    alpha: float | None = None,
    products: Collection[str] | None = None,
    seed: int = 0,
) -> Graph:
    """A copy of `graph` in which x · W is x · W + alpha / rank · (x · A) · B, with A (inputs, rank)
    random and B (rank, outputs) zero, so that it computes the same at first.

    `products` names MatMul and Gemm nodes whose second operand is a constant matrix of floats;
    without it, all such nodes are chosen. `alpha` is `rank` where it is not given.
    `lora_parameters` names the new constants, for `train`. OptionError for a rank that is not
    positive, InputError for names that are none of such a node.
    """
    scale = (rank if alpha is None else alpha) / rank if rank > 0 else math.nan
    if not math.isfinite(scale):
        raise OptionError(f"the rank must be positive and alpha finite, found {rank} and {alpha}")
    copy = clone(graph)
    fitting = {node.name: node for node in copy.nodes if _weights(node) is not None}
    unknown = sorted(set(products or ()) - set(fitting))
    if unknown or not fitting:
        raise InputError(
            f"no products with constant matrices: {', '.join(unknown) or 'none in the graph'}",
            hint=f"products of the graph: {', '.join(fitting) or 'none'}",
        )
    rng = np.random.default_rng(seed)
    for node in list(fitting.values()):
        if products is None or node.name in products:
            _add_way(copy, node, rank, scale, rng)
    return copy


def lora_parameters(graph: Graph) -> list[str]:
    """The names of the constants that `add_lora` added."""
    return [v.name for node in _sums(graph) for v in _parts(node)[1:]]


def merge_lora(graph: Graph) -> Graph:
    """A copy of `graph` in which the weights contain what `add_lora` put beside them, which is
    gone. InputError where there is nothing to merge, GraphError where the graph was changed.
    """
    copy = clone(graph)
    sums = _sums(copy)
    if not sums:
        raise InputError("the graph has no low-rank products that could be merged")
    for node in sums:
        product, a, b = _parts(node)
        weights = _weights(product)
        assert weights is not None
        assert weights.const is not None
        low = _array(a).astype(np.float64) @ _array(b) * float(node.metadata[_SCALE])
        # A Gemm multiplies its matrix by alpha once more.
        low = low / _alpha(product)
        low = low.T if product.op.attributes().get("transB") else low
        merged = (weights.const.astype(np.float64) + low).astype(weights.const.dtype)
        product.set_operand(1, constant(np.ascontiguousarray(merged), weights.name))
        node.output.replace_by(product.output)
        remove_dead([node])
    return copy


def _weights(node: Node) -> Value | None:
    """The constant matrix that a node multiplies by, None where it is no such product."""
    if node.op.domain or node.kind not in ("MatMul", "Gemm"):
        return None
    weights = node.inputs[1]
    if weights is None or not weights.is_const or not weights.dtype.is_float:
        return None
    return weights if weights.rank == 2 and _alpha(node) else None


def _alpha(node: Node) -> float:
    return float(node.op.attributes().get("alpha", 1.0))


def _add_way(graph: Graph, node: Node, rank: int, scale: float, rng: np.random.Generator) -> None:
    weights, x = _weights(node), node.inputs[0]
    assert weights is not None
    assert x is not None
    options = node.op.attributes()
    assert weights.const is not None
    depth, columns = weights.const.shape
    if options.get("transB"):
        depth, columns = columns, depth
    dtype = weights.dtype.numpy
    down = rng.standard_normal((depth, rank)) / math.sqrt(depth)
    a = constant(down.astype(dtype), f"{node.name}.lora_a")
    b = constant(np.zeros((rank, columns), dtype), f"{node.name}.lora_b")
    make = Differentiator(graph, f"{node.name}/lora")
    turned = make("Transpose", x) if options.get("transA") else x
    low = make("Mul", make("MatMul", make("MatMul", turned, a), b), scale)
    readers = list(node.output.uses)
    total = make("Add", node.output, low)
    for user, index in readers:
        user.set_operand(index, total)
    assert total.producer is not None
    total.producer.metadata[_SCALE] = repr(scale)


def _sums(graph: Graph) -> list[Node]:
    """The sums of both ways."""
    return [node for node in graph.nodes if _SCALE in node.metadata]


def _parts(node: Node) -> tuple[Node, Value, Value]:
    """The product with the weights, A and B."""
    product, scaled = (v.producer if v is not None else None for v in node.inputs)
    second = _made_by(scaled, "Mul")
    first = _made_by(second, "MatMul")
    a, b = (made.inputs[1] if made is not None else None for made in (first, second))
    if product is None or _weights(product) is None or a is None or b is None:
        raise GraphError(
            "the low-rank product is not what add_lora made",
            where=f"node {node.name!r}",
            hint="merge before the graph is optimized",
        )
    return product, a, b


def _made_by(node: Node | None, kind: str) -> Node | None:
    """What makes the first operand of a node of this kind."""
    if node is None or node.kind != kind or node.inputs[0] is None:
        return None
    return node.inputs[0].producer


def _array(value: Value) -> Array:
    assert value.const is not None
    return value.const
