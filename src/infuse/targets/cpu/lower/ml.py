"""Kernels of tables and texts: lists of labels, support vectors, n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.ir import dims
from infuse.ir.graph import Node
from infuse.lowering.expand.ml_kernels import KERNELS
from infuse.lowering.expressions import invoke
from infuse.lowering.groups import Group
from infuse.lowering.lowering import Lowering
from infuse.lowering.operators.operands import operand, row_major
from infuse.ops.core.base import Array
from infuse.ops.domains.ml import DOMAIN
from infuse.ops.text import TfIdfVectorizer
from infuse.targets.cpu.table import lowers


@lowers("SquareDistances", domain=KERNELS)
def square_distances(low: Lowering, node: Node, group: Group) -> None:
    x = operand(node)
    vectors: Array = node.op.attributes()["vectors"]
    count = len(vectors)
    padded = -(-count // 32) * 32
    source, target = row_major(low, x), low.storage.allocate(node.output)
    weights = low.program.weight(np.pad(vectors, ((0, padded - count), (0, 0))).T.copy())
    f = low.function("square_distances", node)
    f.include("vectors.hpp")
    sizes = f.numbers(*x.shape, count, padded)
    f.call("square_distances", sizes, f.read(source), f.read(weights), f.write(target))
    f.finish("SquareDistances")
    low.storage.tensors[node.output] = target


@lowers("CouplePairs", domain=KERNELS)
def couple_pairs(low: Lowering, node: Node, group: Group) -> None:
    x, count = operand(node), node.op.attributes()["count"]
    source, target = row_major(low, x), low.storage.allocate(node.output)
    f = low.function("couple_pairs", node)
    f.include("vectors.hpp")
    f.scratch("couple_pairs_scratch", "vectors.hpp", str(count))
    f.call("couple_pairs", f.numbers(x.shape[0], count), f.read(source), f.write(target))
    f.finish("CouplePairs")
    low.storage.tensors[node.output] = target


@lowers("KnownElements", domain=KERNELS)
def known_elements(low: Lowering, node: Node, group: Group) -> None:
    x, listed = operand(node), np.array(node.op.attributes()["listed"], np.int64)
    source = row_major(low, x)
    f = low.function("known_elements", node)
    f.include("lookup.hpp")
    keys = f.read(low.program.weight(listed)), f.number(len(listed))
    count = f.number(dims.product(x.shape))
    f.fail_unless(invoke("all_known", count, f.read(source), *keys), "BAD_INDEX")
    f.finish("KnownElements")
    low.storage.tensors[node.output] = source


@lowers("LabelEncoder", domain=DOMAIN)
def label_encoder(low: Lowering, node: Node, group: Group) -> None:
    x, op = operand(node), node.op
    if x.dtype == dtypes.string or node.output.dtype == dtypes.string:
        low.unsupported(node, "strings")
    keys, values = op.pairs()  # type: ignore[attr-defined]
    # NaN is one key, after all others; of equal keys the last counts.
    distinct, last = np.unique(keys[::-1], return_index=True)
    lists = [distinct, values[::-1][last], op.default(values).reshape(1)]  # type: ignore[attr-defined]
    source, target = row_major(low, x), low.storage.allocate(node.output)
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
    low.storage.tensors[node.output] = target


@lowers("TfIdfVectorizer")
def count_ngrams(low: Lowering, node: Node, group: Group) -> None:
    x, op = operand(node), node.op
    assert isinstance(op, TfIdfVectorizer)
    if x.dtype == dtypes.string:
        low.unsupported(node, "strings")
    tree = op.tree()
    source, target = row_major(low, x), low.storage.allocate(node.output)
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
    low.storage.tensors[node.output] = target
