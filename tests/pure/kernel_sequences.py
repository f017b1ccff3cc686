"""Graphs of one kernel that works along rows: normalization, reductions and attention."""

from dataclasses import replace
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import DType
from infuse.ir.graph import Node, Value, constant
from infuse.ir.registry import make_operator
from infuse.ir.types import UNKNOWN
from infuse.ops.domains.microsoft import DOMAIN
from tests.native.builder import Builder
from tests.pure.kernel_runs import Case


def along(
    kind: str, shape: tuple[int, ...], *weights: Any, after: str = "Relu", **how: Any
) -> Case:
    """An operator of a tensor and of weights, which are given by their shapes."""
    b = Builder("rows")
    held = [b.weight(*w) if isinstance(w, tuple) else w for w in weights]
    b.output(b(after, b(kind, b.input(*shape), *held, **how)))
    return Case(b.graph)


def turned(kind: str, *axes: int, **how: Any) -> Case:
    """A reduction of what does not lie in the order of its axes."""
    b = Builder("turned")
    x = b("Transpose", b.input(3, 4, 5, 6), perm=(0, 2, 3, 1))
    result = b(kind, x, list(axes), **how)
    b.output(b("Add", result, b.input(*result.shape)))
    return Case(b.graph)


def numbers(kind: str, dtype: DType, *operands: Any, **how: Any) -> Case:
    """An operator of other numbers than float32, which has no sink."""
    b = Builder("numbers")
    b.output(b(kind, b.input(3, 5, 7, dtype=dtype), *operands, **how))
    return Case(b.graph)


def of_any_size(kind: str, count: int, *shape: int, **how: Any) -> Case:
    """An operator of inputs alike, of whose shape nothing but the rank was declared."""
    b, rng = Builder("any size"), np.random.default_rng(5)
    names = [f"n{axis}" for axis in range(len(shape))]
    inputs = [b.input(*names) for _ in range(count)]
    b.output(b.several(4 if kind == "Attention" else 1, kind, *inputs, **how)[0])
    feeds = {v.name: rng.standard_normal(shape, dtype=np.float32) for v in inputs}
    return Case(b.graph, feeds=feeds)


def logarithm(dtype: DType) -> Case:
    """The logarithm of a sum, which has to be positive."""
    case = numbers("ReduceLogSum", dtype, [1])
    return replace(case, feeds={"x0": np.arange(1, 106, dtype=dtype.numpy).reshape(3, 5, 7)})


NORMALIZATIONS = {
    "softmax": along("Softmax", (2, 3, 7)),
    "softmax, inner": along("Softmax", (2, 5, 7), axis=1),
    "softmax, across": along("Softmax", (2, 5, 3, 40), axis=1),
    "softmax of few": along("Softmax", (40, 5, 2)),
    "logarithm of few": along("LogSoftmax", (3, 2, 90), axis=1),
    "logarithm": along("LogSoftmax", (2, 3, 7), axis=-1),
    "logarithm, outer": along("LogSoftmax", (4, 3, 7), axis=0),
    "length": along("LpNormalization", (3, 5, 7)),
    "length, inner": along("LpNormalization", (3, 5, 7), axis=1),
    "magnitudes": along("LpNormalization", (3, 5, 7), axis=0, p=1),
    "layer": along("LayerNormalization", (2, 3, 10), (10,), (10,), epsilon=0.01),
    "layer, unshifted": along("LayerNormalization", (2, 3, 10), (10,)),
    "root of squares": along("RMSNormalization", (2, 3, 10), (10,), epsilon=0.125),
    "groups": along("GroupNormalization", (2, 6, 3, 4), (6,), (6,), num_groups=3),
    "groups of planes": along("GroupNormalization", (2, 6, 8, 17), (6,), (6,), num_groups=3),
    "instances in planes": along("InstanceNormalization", (2, 6, 200), (6,), (6,), epsilon=0.5),
    "instances": along("InstanceNormalization", (2, 6, 3, 4), (6,), (6,), epsilon=0.5),
}
REDUCERS = ("Sum", "Mean", "Max", "Min", "Prod", "SumSquare", "L1", "L2", "LogSum", "LogSumExp")
REDUCTIONS = {
    **{f"Reduce{one}": along(f"Reduce{one}", (3, 5, 7), [1], after="Abs") for one in REDUCERS[:-2]},
    **{f"{one}, doubles": numbers(f"Reduce{one}", dtypes.float64, [2]) for one in REDUCERS[:-2]},
    **{f"{one}, integers": numbers(f"Reduce{one}", dtypes.int32, [0, 1]) for one in REDUCERS[:-3]},
    "LogSum": logarithm(dtypes.float32),
    "LogSum, doubles": logarithm(dtypes.float64),
    "bytes": numbers("ReduceMax", dtypes.uint8, [1], keepdims=0),
    "powers, inner": along("ReduceLogSumExp", (3, 5, 7), [1], after="Abs"),
    "powers, rows": along("ReduceLogSumExp", (3, 5, 7), [2], after="Abs"),
    "powers, doubles": numbers("ReduceLogSumExp", dtypes.float64, [1]),
    "rows": along("ReduceSum", (3, 5, 7), [2], after="Abs", keepdims=0),
    "all": along("ReduceMean", (3, 5, 7), after="Abs"),
    "turned, inner": turned("ReduceSum", 1, 2, keepdims=0),
    "turned, last": turned("ReduceMax", 3),
    "turned, apart": turned("ReduceMean", 0, 1, keepdims=0),
    "turned, around": turned("ReduceSum", 2, 3),
    "turned, powers": turned("ReduceLogSumExp", 1, keepdims=0),
    "largest": numbers("ArgMax", dtypes.float32, axis=1),
    "smallest, last": numbers("ArgMin", dtypes.int32, axis=-1, select_last_index=1),
    "largest, last": numbers("ArgMax", dtypes.uint8, axis=0, select_last_index=1, keepdims=0),
    "largest of any size": of_any_size("ArgMax", 1, 3, 5, 7, axis=1),
    "powers of any size": of_any_size("ReduceLogSumExp", 1, 3, 5, 7, keepdims=0),
    "sums": numbers("CumSum", dtypes.float32, np.array(1), exclusive=1),
    "sums, back": numbers("CumSum", dtypes.int32, np.array(-1), reverse=1),
    "products": numbers("CumProd", dtypes.float64, np.array(0), exclusive=1, reverse=1),
}


def attention(
    q: tuple[int, ...] = (2, 4, 5, 6),
    k: tuple[int, ...] = (2, 2, 7, 6),
    v: tuple[int, ...] = (2, 2, 7, 3),
    *,
    mask: Any = None,
    past: int = 0,
    valid: tuple[int, ...] = (),
    **how: Any,
) -> Case:
    """Attention of heads, with what decides which keys a query sees."""
    b = Builder("attention")
    rows = [b.input(*shape, name=name) for shape, name in ((q, "q"), (k, "k"), (v, "v"))]
    kind = dtypes.bool_ if how.pop("flags", False) else dtypes.float32
    held = None if mask is None else b.input(*mask, dtype=kind, name="mask")
    before: list[Value | None] = [None, None]
    if past:
        heads = how.get("kv_num_heads", k[1])
        sizes = {f"past{i}": x[-1] // (heads if len(x) == 3 else 1) for i, x in enumerate((k, v))}
        before = [b.input(k[0], heads, past, n, name=name) for name, n in sizes.items()]
    counts = b.input(len(valid), dtype=dtypes.int64, name="valid") if valid else None
    b.output(b("Relu", b.several(4, "Attention", *rows, held, *before, counts, **how)[0]))
    feeds = {"valid": np.array(valid, np.int64)} if valid else {}
    if kind.is_bool:
        feeds["mask"] = np.random.default_rng(2).random(mask) < 0.7
    return Case(b.graph, feeds=feeds)


def grouped(
    length: int,
    past: int,
    last: tuple[int, ...],
    *,
    sinks: bool = False,
    counted: bool = False,
    **how: Any,
) -> Case:
    """GroupQueryAttention, which keeps keys and values, in four kernels; the number of all keys is
    data where it is `counted`.
    """
    b = Builder("grouped")
    batch = len(last)
    rows = [b.input(batch, length, 6 * heads, name=f"x{heads}{i}") for i, heads in HEADS]
    before = [b.input(batch, 2, past, 6, name=f"past{i}") if past else None for i in range(2)]
    counts = b.input(batch, dtype=dtypes.int32, name="last")
    most = np.array(max(last) + 1, np.int32)
    total = b.input(dtype=dtypes.int32, name="total") if counted else constant(most)
    own = [None, None, None, None, b.weight(4) if sinks else None]
    outputs = [Value(UNKNOWN, f"g{i}") for i in range(3)]
    op = make_operator(DOMAIN, "GroupQueryAttention", {"num_heads": 4, "kv_num_heads": 2, **how})
    node = Node(op, [*rows, *before, counts, total, *own], outputs)
    op.infer_node(b.graph.add_node(node))
    b.output(b("Relu", outputs[0]), *outputs[1:])
    fixed = {"last": np.array(last, np.int32), **({"total": most} if counted else {})}
    return Case(b.graph, fixed, calls=4)


HEADS = ((0, 4), (1, 2), (2, 2))
"""Numbers of queries, keys and values, and their heads."""


def rotated(
    x: tuple[int, ...], half: int, *, picked: bool = True, cut: int = 0, **how: Any
) -> Case:
    """A rotary embedding whose tables are picked from, or have a row for each position; `cut`
    channels lie before those that turn.
    """
    b = Builder("rotated")
    places = (x[0], x[2] if len(x) == 4 else x[1])
    shape = (9, half) if picked else (*places, half)
    tables = [b.input(*shape, name=name) for name in ("cos", "sin")]
    picks = b.input(*places, dtype=dtypes.int64, name="places") if picked else None
    whole = b.input(*x[:-1], x[-1] + cut, name="x")
    part = b("Slice", whole, [cut], [x[-1] + cut], [-1]) if cut else whole
    b.output(b("RotaryEmbedding", part, *tables, picks, **how))
    chosen = np.random.default_rng(3).integers(0, 9, places)
    return Case(b.graph, feeds={"places": chosen} if picked else {})


FLAT = {"q": (2, 5, 24), "k": (2, 7, 12), "v": (2, 7, 6), "q_num_heads": 4, "kv_num_heads": 2}
ATTENTIONS = {
    "heads": attention(),
    "side by side": attention(**FLAT),
    "few queries": attention((2, 4, 2, 6)),
    "one query": attention((1, 4, 1, 16), (1, 4, 300, 16), (1, 4, 300, 8)),
    "many keys": attention((1, 2, 9, 8), (1, 1, 300, 8), (1, 1, 300, 8), scale=0.25),
    "added": attention(mask=(2, 1, 5, 7)),
    "added, by heads": attention(mask=(4, 1, 7)),
    "added, one for all keys": replace(attention(mask=(5, 1)), calls=2),
    "flags": attention(mask=(2, 4, 5, 7), flags=True),
    "flags of keys": attention(mask=(2, 1, 1, 7), flags=True),
    "causal": attention(is_causal=1),
    "causal, with a past": attention(past=3, is_causal=1),
    "a past, side by side": attention(**FLAT, past=4, left_window_size=2),
    "counts": attention(valid=(6, 3)),
    "counts, causal": attention(valid=(7, 5), is_causal=1, right_window_size=1),
    "window": attention(left_window_size=2, right_window_size=1),
    "window, causal": attention(past=2, is_causal=1, left_window_size=1, mask=(5, 9)),
    "capped": attention(softcap=0.5, mask=(5, 7)),
    "capped window": attention(softcap=2.0, left_window_size=3, mask=(5, 7), flags=True),
    "any size": of_any_size("Attention", 3, 2, 3, 4, 5, is_causal=1),
    "any size, window": of_any_size("Attention", 3, 2, 3, 4, 5, right_window_size=1),
    "grouped": grouped(3, 0, (2, 2)),
    "grouped, counted": grouped(3, 0, (2, 2), counted=True),
    "grouped, counted with a past": grouped(2, 4, (4, 2), counted=True),
    "grouped, sinks": grouped(5, 0, (4, 4), sinks=True, softcap=2.0),
    "grouped, with a past": grouped(1, 4, (4, 2), local_window_size=3),
    "grouped, smooth": grouped(5, 3, (7, 5), smooth_softmax=1, scale=0.5),
    "picked": rotated((2, 3, 4, 8), 4),
    "picked, neighbours": rotated((2, 3, 4, 8), 4, interleaved=1),
    "picked, cut": rotated((2, 3, 4, 8), 4, cut=3),
    "turned, cut": rotated((2, 4, 24), 4, cut=2, picked=False, num_heads=3),
    "turned in part": rotated((2, 4, 24), 2, num_heads=3, rotary_embedding_dim=4),
    "turned, each": rotated((2, 4, 24), 4, picked=False, num_heads=3),
    "each, neighbours": rotated(
        (2, 3, 4, 9), 3, picked=False, interleaved=1, rotary_embedding_dim=6
    ),
}
SEQUENCES = {**NORMALIZATIONS, **REDUCTIONS, **ATTENTIONS}
