"""Products of matrices in their general forms: Gemm, Einsum, attention, rotary embedding."""

from __future__ import annotations

import math

from infuse import dtypes, ops
from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.expression import Call
from infuse.ir.graph import Node, Value
from infuse.lowering.expand.composer import Composer, Results, expands
from infuse.ops.contraction import parse_equation


@expands("Gemm")
def gemm(make: Composer, node: Node) -> Results:
    a, b, c = node.inputs[0], node.inputs[1], node.input(2)
    assert a is not None
    assert b is not None
    attributes = node.op.attributes()
    if c is not None and attributes["beta"] == 0:
        return make("Gemm", a, b, **{**attributes, "beta": 1.0})
    addend = c
    if (
        c is not None
        and attributes["beta"] != 1.0
        and not (c.is_const and c.dtype == dtypes.float32)
    ):
        if c.dtype.is_integer:
            return None
        addend = make(c * attributes["beta"])
    if make.has_kernel and a.dtype == dtypes.float32:
        if addend is c:
            return None
        return make("Gemm", a, b, addend, **{**attributes, "beta": 1.0})
    if a.dtype.is_integer and attributes["alpha"] != 1.0:
        return None
    left = make.permute(a, 1, 0) if attributes["transA"] else a
    right = make.permute(b, 1, 0) if attributes["transB"] else b
    result = make("MatMul", left, right)
    if attributes["alpha"] != 1.0:
        result = make(result * attributes["alpha"])
    return result if addend is None else make(result + addend)


@expands("MatMul")
def matmul(make: Composer, node: Node) -> Results:
    a, b = (v for v in node.inputs if v is not None)
    if a.rank < 2 or b.rank != 1:
        return None
    return make.reshape(make("MatMul", a, make.reshape(b, b.shape[0], 1)), *node.output.shape)


# -- Einsum ----------------------------------------------------------------------------------------


class _Named(Immutable):
    """A value whose axes have labels, each once."""

    value: Value
    labels: str


@expands("Einsum")
def einsum(make: Composer, node: Node) -> Results:
    xs = [v for v in node.inputs if v is not None]
    terms, result = parse_equation(node.op.attributes()["equation"], len(xs))
    batch = max((x.rank - len(t) + 1 for x, t in zip(xs, terms) if "." in t), default=0)
    dots = "".join(chr(0x100 + i) for i in range(batch))
    result = result.replace(".", dots)
    named = []
    for x, term in zip(xs, terms):
        own = dots[batch - (x.rank - len(term) + 1) :] if "." in term else ""
        named.append(_diagonal(make, x, term.replace(".", own)))
    total = named[0]
    for i, other in enumerate(named[1:], 2):
        later = set(result).union(*(n.labels for n in named[i:]))
        total = _contract(make, total, other, later)
    total = _summed(make, total, set(result))
    missing = [d for d in result if d not in total.labels]
    value = make.permute(
        total.value, *(total.labels.index(label) for label in result if label not in missing)
    )
    return make.reshape(value, *node.output.shape)


def _diagonal(make: Composer, x: Value, labels: str) -> _Named:
    """Axes of the same label become one: the elements whose indices along them are equal."""
    for i, label in enumerate(labels):
        if label not in labels[:i]:
            continue
        first = labels.index(label)
        a, size = x.shape[first], x.shape[i]
        if isinstance(a, int) and isinstance(size, int) and a != size:
            make.refuse("a diagonal of unequal sizes")
        size = a if isinstance(a, int) else size
        perm = [a for a in range(x.rank) if a not in (first, i)]
        rest = [x.shape[a] for a in perm]
        flat = make.reshape(make.permute(x, *perm, first, i), *rest, size * size)
        if isinstance(size, int):
            places = make.slice(flat, len(rest), 0, size * size, size + 1)
        else:
            # The diagonal is a column where every row is longer by one.
            wider = make.reshape(make.pad(flat, len(rest), 0, size), *rest, size, size + 1)
            places = make.reshape(make.slice(wider, len(rest) + 1, 0, 1), *rest, size)
        return _diagonal(make, places, "".join(labels[a] for a in perm) + label)
    return _Named(x, labels)


def _summed(make: Composer, x: _Named, remaining: set[str]) -> _Named:
    axes = [i for i, label in enumerate(x.labels) if label not in remaining]
    if not axes:
        return x
    value = make("ReduceSum", x.value, make.ints(*axes), keepdims=0)
    return _Named(value, "".join(label for label in x.labels if label in remaining))


def _contract(make: Composer, a: _Named, b: _Named, later: set[str]) -> _Named:
    """The product of two, summed over the labels that nobody needs later."""
    a, b = _summed(make, a, later | set(b.labels)), _summed(make, b, later | set(a.labels))
    shared = [label for label in a.labels if label in b.labels]
    size_a, size_b = dict(zip(a.labels, a.value.shape)), dict(zip(b.labels, b.value.shape))
    inner = [d for d in shared if d not in later and size_a[d] == size_b[d]]
    batch = [d for d in shared if d not in inner]
    left = [d for d in a.labels if d not in shared]
    right = [d for d in b.labels if d not in shared]
    one = _matrix(make, a, batch, left, inner)
    other = _matrix(make, b, batch, inner, right)
    product = make("MatMul", one, other)
    lead = product.shape[: len(batch)]
    shape = [*lead, *(size_a[d] for d in left), *(size_b[d] for d in right)]
    return _Named(make.reshape(product, *shape), "".join([*batch, *left, *right]))


def _matrix(
    make: Composer, x: _Named, batch: list[str], rows: list[str], columns: list[str]
) -> Value:
    """Batch axes, then two axes that stand for the others."""
    order = [x.labels.index(d) for d in (*batch, *rows, *columns)]
    turned = make.permute(x.value, *order)
    cut, end = len(batch), len(batch) + len(rows)
    shape = turned.shape
    return make.reshape(
        turned, *shape[:cut], dims.product(shape[cut:end]), dims.product(shape[end:])
    )


# -- attention -------------------------------------------------------------------------------------


@expands("Attention")
def attention(make: Composer, node: Node) -> Results:
    if not make.has_kernel or node.output.dtype != dtypes.float32 or _needs_scores(node):
        return _Attention(make, node).results()
    mask, keys, past = node.input(3), node.inputs[1], node.input(4)
    assert keys is not None
    total = keys.shape[-2] + (0 if past is None else past.shape[2])
    if mask is None or mask.shape[-1] == total:
        return None
    whole = _lengthened(make, mask, total)
    return list(make.apply(node.op, [*node.inputs[:3], whole, *node.inputs[4:]], len(node.outputs)))


def _lengthened(make: Composer, mask: Value, keys: Dim) -> Value:
    """A mask that stops before the last key, with the other keys hidden."""
    fill = make.number(False if mask.dtype.is_bool else -math.inf, mask.dtype)
    return make("Pad", mask, make.ints(0, keys - mask.shape[-1]), fill, make.ints(mask.rank - 1))


def _needs_scores(node: Node) -> bool:
    """Whether more is asked for than the kernel does, which never holds all scores."""
    return any(v.uses for v in node.outputs[3:])


class _Attention:
    """Attention step by step, all scores in memory."""

    def __init__(self, make: Composer, node: Node) -> None:
        self.make, self.node = make, node
        self.attributes = node.op.attributes()
        q, k, v = (x for x in node.inputs[:3] if x is not None)
        self.flat = q.rank == 3
        self.queries = self._heads(q, self.attributes["q_num_heads"])
        self.keys, self.values = (self._heads(x, self.attributes["kv_num_heads"]) for x in (k, v))
        self.past: Dim = 0
        past_key, past_value = node.input(4), node.input(5)
        if past_key is not None and past_value is not None:
            self.past = past_key.shape[2]
            self.keys = make("Concat", past_key, self.keys, axis=2)
            self.values = make("Concat", past_value, self.values, axis=2)

    def _heads(self, x: Value, heads: int | None) -> Value:
        if x.rank == 4:
            return x
        assert heads is not None
        batch, length, width = x.shape
        split = self.make.reshape(x, batch, length, heads, dims.floordiv(width, heads))
        return self.make.permute(split, 0, 2, 1, 3)

    def results(self) -> Results:
        make = self.make
        size = self.queries.shape[3]
        scale = self.attributes["scale"]
        if scale is None and not isinstance(size, int):
            make.refuse("heads of unknown size")
        factor = 1 / math.sqrt(size) if scale is None and isinstance(size, int) else scale
        queries = self._grouped(self.queries)
        keys = make.permute(self._shared(self.keys), 0, 1, 2, 4, 3)
        raw = make(make("MatMul", queries, keys) * factor)
        cap = self.attributes["softcap"]
        capped = make(ops.tanh(raw / cap) * cap) if cap else raw
        biased, seen = self._masked(capped)
        weights = self._weights(biased, seen)
        result = self._ungrouped(make("MatMul", weights, self._shared(self.values)))
        if self.flat:
            merged = make.permute(result, 0, 2, 1, 3)
            result = make.reshape(merged, *merged.shape[:2], merged.shape[2] * merged.shape[3])
        shown = (raw, capped, biased, weights)[self.attributes["qk_matmul_output_mode"]]
        outputs = [result, self.keys, self.values, self._ungrouped(shown)]
        return outputs[: len(self.node.outputs)]

    def _grouped(self, x: Value) -> Value:
        """(batch, heads, …) as (batch, heads of keys, queries that share one, …)."""
        heads = self.keys.shape[1]
        return self.make.reshape(
            x, x.shape[0], heads, dims.floordiv(x.shape[1], heads), *x.shape[2:]
        )

    def _ungrouped(self, x: Value) -> Value:
        return self.make.reshape(x, x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])

    def _shared(self, x: Value) -> Value:
        return self.make.reshape(x, *x.shape[:2], 1, *x.shape[2:])

    def _masked(self, scores: Value) -> tuple[Value, Value | None]:
        """Scores with −∞ where a query does not see a key, and where it sees one (None:
        everywhere).
        """
        make, mask = self.make, self._mask(scores)
        seen = self._visible(scores)
        if mask is not None and mask.dtype.is_bool:
            seen = mask if seen is None else make("And", seen, mask)
        elif mask is not None:
            scores = make(scores + mask)
        if seen is not None:
            scores = make("Where", seen, scores, make.number(-math.inf, scores.dtype))
        hidden = mask is not None and not mask.dtype.is_bool
        if not hidden:
            return scores, seen
        assert mask is not None
        finite = make("Not", make("Equal", mask, -math.inf))
        return scores, finite if seen is None else make("And", seen, finite)

    def _mask(self, scores: Value) -> Value | None:
        mask = self.node.input(3)
        if mask is None:
            return None
        make = self.make
        if mask.shape[-1] != scores.shape[-1]:
            mask = _lengthened(make, mask, scores.shape[-1])
        shape = (*(1,) * (4 - mask.rank), *mask.shape)
        if shape[1] == 1:
            return make.reshape(mask, shape[0], 1, 1, *shape[2:])
        return self._grouped(make.reshape(mask, *shape))

    def _visible(self, scores: Value) -> Value | None:
        """Which keys each query sees by its place, None where it sees all."""
        make, valid = self.make, self.node.input(6)
        lengths = scores.shape[3:]
        query = make.reshape(make.range(lengths[0]), lengths[0], 1)
        key = make.reshape(make.range(lengths[1]), lengths[1])
        first = make.size(self.past)
        conditions: list[Call | Value] = []
        if valid is not None:
            counts = make.reshape(make.cast(valid, dtypes.int64), valid.shape[0], 1, 1, 1, 1)
            conditions.append(ops.less(key, counts))
            first = make(counts - make.size(lengths[0]))
        ahead = make(key - (query + first))
        if self.attributes["is_causal"]:
            conditions.append(ops.less_or_equal(ahead, 0))
        if self.attributes["left_window_size"] >= 0:
            conditions.append(
                ops.less_or_equal(ops.neg(ahead), self.attributes["left_window_size"])
            )
        if self.attributes["right_window_size"] >= 0:
            conditions.append(ops.less_or_equal(ahead, self.attributes["right_window_size"]))
        seen: Value | None = None
        for condition in conditions:
            seen = make(condition) if seen is None else make("And", seen, condition)
        return seen

    def _weights(self, scores: Value, seen: Value | None) -> Value:
        """Softmax over the keys; zeros for a query that sees none."""
        make = self.make
        weights = make("Softmax", scores, axis=-1)
        if seen is None:
            return weights
        sees = make("ReduceMax", seen, make.ints(seen.rank - 1), keepdims=1)
        return make("Where", sees, weights, make.number(0, weights.dtype))


@expands("RotaryEmbedding")
def rotary_embedding(make: Composer, node: Node) -> Results:
    x, cos, sin = (v for v in node.inputs[:3] if v is not None)
    if make.has_kernel and x.dtype == dtypes.float32:
        return None
    attributes, places = node.op.attributes(), node.input(3)
    if places is not None:
        cos, sin = (make("Gather", table, places, axis=0) for table in (cos, sin))
    flat = x.rank == 3
    batch, length = (x.shape[0], x.shape[1]) if flat else (x.shape[0], x.shape[2])
    if flat:
        heads = attributes["num_heads"]
        x = make.permute(
            make.reshape(x, batch, length, heads, dims.floordiv(x.shape[2], heads)), 0, 2, 1, 3
        )
    half, size = cos.shape[-1], x.shape[3]
    turned = half * 2
    whole = not attributes["rotary_embedding_dim"] or turned == size
    cos, sin = (
        make.reshape(table, table.shape[0], 1, table.shape[1], half) for table in (cos, sin)
    )
    part = x if whole else make.slice(x, 3, 0, turned)
    if attributes["interleaved"]:
        pairs = make.reshape(part, *part.shape[:3], half, 2)
        even, odd = (
            make.reshape(make.slice(pairs, 4, i, i + 1), *part.shape[:3], half) for i in range(2)
        )
    else:
        even, odd = make.slice(part, 3, 0, half), make.slice(part, 3, half, turned)
    real, imaginary = make(cos * even - sin * odd), make(sin * even + cos * odd)
    if attributes["interleaved"]:
        joined = [make.reshape(v, *part.shape[:3], half, 1) for v in (real, imaginary)]
        result = make.reshape(make("Concat", *joined, axis=4), *part.shape)
    else:
        result = make("Concat", real, imaginary, axis=3)
    if not whole:
        result = make("Concat", result, make.slice(x, 3, turned, size), axis=3)
    if flat:
        result = make.reshape(make.permute(result, 0, 2, 1, 3), *node.output.shape)
    return result
