"""Kernels of tables and texts: trees, lists of labels, support vectors, n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.codegen.expand.ml_kernels import KERNELS
from infuse.codegen.groups import Group
from infuse.codegen.kernel_table import lowers
from infuse.codegen.lower.indexing import row_major
from infuse.codegen.lower.runtime_operands import operand
from infuse.codegen.lowering import Lowering
from infuse.ir import dims
from infuse.ir.graph import Node
from infuse.ops.core.base import Array
from infuse.ops.domains.forest import EQUAL, LEAF, Forest
from infuse.ops.domains.ml import DOMAIN
from infuse.ops.text import TfIdfVectorizer

_JOINS = {"SUM": "TREE_SUM", "AVERAGE": "TREE_SUM", "MIN": "TREE_LEAST", "MAX": "TREE_MOST"}
_EQUAL_MARK, _NAN_MARK = 1 << 29, 1 << 30
_SMALL = 4096
"""Votes that may always be a table."""


@lowers("TreeScores", domain=KERNELS)
def tree_scores(low: Lowering, node: Node, group: Group) -> None:
    x, attributes = operand(node), node.op.attributes()
    forest: Forest = attributes["forest"]
    source, target, kind = row_major(low, x), low.allocate(node.output), x.dtype.c_name
    arrays = [
        _words(forest, x.dtype.numpy),
        forest.roots,
        _depths(forest),
        forest.starts,
        forest.targets,
    ]
    weights = [low.program.weight(a.astype(np.int32)) for a in arrays]
    join = _JOINS[attributes["aggregate"]]
    numbers = forest.votes if forest.votes.size else np.zeros(1, x.dtype.numpy)
    if (
        join == "TREE_SUM"
        and len(forest.kinds) * attributes["count"] <= 4 * forest.votes.size + _SMALL
    ):
        table = forest.table(attributes["count"])
        join, numbers = (join, numbers) if table is None else ("TREE_TABLE", table)
    votes = low.program.weight(numbers.astype(x.dtype.numpy))
    f = low.function("trees", node)
    f.include("trees.hpp")
    nodes, *lists = map(f.read, weights)
    width, targets = f.number(x.shape[1]), f.number(attributes["count"])
    f.fail_unless(f"{width} >= {forest.columns}")
    count = f.number(len(forest.roots))
    f.struct(
        f"Trees<{kind}>",
        "trees",
        nodes=f"(const TreeNode<{kind}>*){nodes}",
        roots=lists[0],
        depths=lists[1],
        count=count,
        starts=lists[2],
        targets=lists[3],
        votes=f.read(votes),
    )
    if attributes["aggregate"] in ("MIN", "MAX"):
        f.scratch(f"trees_scratch({attributes['count']})", "trees.hpp")
    only_leq = not (forest.kinds == EQUAL).any()
    test = "TREE_PLAIN" if forest.is_plain else "TREE_MARKED" if only_leq else "TREE_ANY"
    sizes = f"{f.number(x.shape[0])}, {width}, {targets}, {f.number(forest.depth)}"
    f.call(
        "run_trees",
        "trees",
        sizes,
        f.read(source),
        f.write(target),
        template=(
            test,
            join,
        ),
    )
    f.finish("trees")
    low.tensors[node.output] = target


def _words(forest: Forest, dtype: Any) -> Array:
    """The nodes as `TreeNode` has them, seen as words of 32 bits."""
    layout = np.dtype(
        [("threshold", dtype), ("feature", np.int32), ("next", np.int32, 2)], align=True
    )
    nodes = np.zeros(len(forest.kinds), layout)
    nodes["threshold"], nodes["next"] = forest.thresholds, forest.branches
    marks = np.where(forest.kinds == EQUAL, _EQUAL_MARK, 0) + np.where(
        forest.takes_nan, _NAN_MARK, 0
    )
    nodes["feature"] = forest.features + marks
    return nodes.view(np.int32)


def _depths(forest: Forest) -> Array:
    """The depth of each tree."""
    below = np.zeros(len(forest.kinds), np.int32)
    inner = forest.kinds != LEAF
    for _ in range(forest.depth):
        below[inner] = below[forest.branches[inner]].max(axis=1) + 1
    return below[forest.roots]


@lowers("SquareDistances", domain=KERNELS)
def square_distances(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    vectors: Array = node.op.attributes()["vectors"]
    count = len(vectors)
    padded = -(-count // 32) * 32
    source, target = row_major(low, x), low.allocate(node.output)
    weights = low.program.weight(np.pad(vectors, ((0, padded - count), (0, 0))).T.copy())
    f = low.function("square_distances", node)
    f.include("vectors.hpp")
    sizes = f.numbers(*x.shape, count, padded)
    f.call("square_distances", sizes, f.read(source), f.read(weights), f.write(target))
    f.finish("SquareDistances")
    low.tensors[node.output] = target


@lowers("CouplePairs", domain=KERNELS)
def couple_pairs(low: Lowering, node: Node, group: Group) -> None:
    x, count = operand(node), node.op.attributes()["count"]
    source, target = row_major(low, x), low.allocate(node.output)
    f = low.function("couple_pairs", node)
    f.include("vectors.hpp")
    f.scratch(f"couple_pairs_scratch({count})", "vectors.hpp")
    f.call("couple_pairs", f.numbers(x.shape[0], count), f.read(source), f.write(target))
    f.finish("CouplePairs")
    low.tensors[node.output] = target


@lowers("KnownElements", domain=KERNELS)
def known_elements(low: Lowering, node: Node, group: Group) -> None:
    x, listed = operand(node), np.array(node.op.attributes()["listed"], np.int64)
    source = row_major(low, x)
    f = low.function("known_elements", node)
    f.include("lookup.hpp")
    keys = f"{f.read(low.program.weight(listed))}, {f.number(len(listed))}"
    f.fail_unless(
        f"all_known({f.number(dims.product(x.shape))}, {f.read(source)}, {keys})", "BAD_INDEX"
    )
    f.finish("KnownElements")
    low.tensors[node.output] = source


@lowers("LabelEncoder", domain=DOMAIN)
def label_encoder(low: Lowering, node: Node, group: Group) -> None:
    x, op = operand(node), node.op
    if x.dtype == dtypes.string or node.output.dtype == dtypes.string:
        low.unsupported(node, "strings")
    keys, values = op.pairs()  # type: ignore[attr-defined]
    # NaN is one key, after all others; of equal keys the last counts.
    distinct, last = np.unique(keys[::-1], return_index=True)
    lists = [distinct, values[::-1][last], op.default(values).reshape(1)]  # type: ignore[attr-defined]
    source, target = row_major(low, x), low.allocate(node.output)
    f = low.function("lookup", node)
    f.include("lookup.hpp")
    listed, beside, otherwise = (low.program.weight(np.ascontiguousarray(v)) for v in lists)
    pointers = (
        f"{f.read(listed)}, {f.number(len(distinct))}, {f.read(beside.bits)}, "
        f"{f.read(otherwise.bits)}"
    )
    f.call(
        "lookup", f.number(dims.product(x.shape)), f.read(source), pointers, f.write(target.bits)
    )
    f.finish("LabelEncoder")
    low.tensors[node.output] = target


@lowers("TfIdfVectorizer")
def count_ngrams(low: Lowering, node: Node, group: Group) -> None:
    x, op = operand(node), node.op
    assert isinstance(op, TfIdfVectorizer)
    if x.dtype == dtypes.string:
        low.unsupported(node, "strings")
    tree = op.tree()
    source, target = row_major(low, x), low.allocate(node.output)
    f = low.function("count_ngrams", node)
    f.include("lookup.hpp")
    lists: list[Any] = [tree.starts, tree.tokens, tree.children, tree.columns]
    kinds: tuple[Any, ...] = (np.int32, x.dtype.numpy, np.int32, np.int32)
    arrays = [
        low.program.weight(np.array(v if len(v) else [0]).astype(k)) for v, k in zip(lists, kinds)
    ]
    least, most = f.number(op.min_gram_length), f.number(op.max_gram_length)
    skips = f.number(op.max_skip_count)
    pointers = dict(zip(("starts", "tokens", "children", "columns"), map(f.read, arrays)))
    kind = f"Ngrams<{x.dtype.c_name}>"
    f.struct(kind, "grams", **pointers, least=least, most=most, skips=skips)
    rows = x.shape[0] if x.rank == 2 else 1
    sizes = f.numbers(rows, dims.product(x.shape[-1:]), op.columns)
    f.call("count_ngrams", "grams", sizes, f.read(source), f.write(target))
    f.finish("TfIdfVectorizer")
    low.tensors[node.output] = target
