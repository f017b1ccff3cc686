"""The embeddings of words, positions and segments as one operator of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes, ops
from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.ir.expression import Variable
from infuse.ir.graph import Node, Value
from infuse.ops.core.samples import Ints
from infuse.ops.core.sizes import int64s
from infuse.passes.rules.backend.onnxruntime import (
    RuntimeRule,
    own,
    require_elements,
    require_float32,
)
from infuse.passes.rules.common import attribute, data, is_one, require_shape, require_unread
from infuse.rewrite import require

_TABLES: dict[str, Any] = {"w": (9, 4), "ids": Ints((2, 3), 0, 9), "t": (9, 4)}
_WEIGHTS: dict[str, Any] = {"gamma": np.ones(4, np.float32), "beta": (4,)}


class FuseEmbedNormalization(RuntimeRule):
    """LayerNormalization(word[ids] + segment[kinds] + position) → EmbedLayerNormalization, which
    may lack segments

    On request, as the runtime refuses indices that count from the end, which Gather takes.
    """

    rows = ("G32",)
    opt_in = True
    rounding = "the sum is added up in another order"
    examples = (
        {
            **_TABLES,
            **_WEIGHTS,
            "kinds": Ints((2, 3), 0, 9),
            "p": (9, 4),
            "places": Ints((2, 3), 0, 7),
            "cut": [int64s(0), int64s(3), int64s(0)],
        },
        {
            **_TABLES,
            **_WEIGHTS,
            "kinds": Ints((2, 3), 0, 9),
            "p": (1, 7, 4),
            "cut": [int64s(0), int64s(3), int64s(1)],
        },
        {**_TABLES, **_WEIGHTS, "kinds": Ints((2, 3), 0, 9), "p": (3, 4)},
    )

    def match(
        self,
        w: Variable,
        ids: Variable,
        t: Variable,
        kinds: Variable,
        p: Variable,
        places: Variable,
        cut: Variable,
        gamma: Variable,
        beta: Variable,
    ) -> Any:
        word = ops.gather(ops.const(w), ids, axis=0)
        segment = ops.gather(ops.const(t), kinds, axis=0)
        found = []
        for position in (
            ops.slice(ops.const(p), ops.rest(cut), name="front"),
            ops.gather(ops.const(p), places, axis=0),
            ops.const(p),
        ):
            sums = (
                (word + segment) + position,
                (word + position) + segment,
                word + position,
            )
            found += [ops.layer_normalization(total, gamma, beta, name="norm") for total in sums]
        return found

    def when(
        self,
        w: Value,
        ids: Value,
        p: Value,
        gamma: Value,
        norm: Node,
        beta: Value,
        t: Value | None = None,
        kinds: Value | None = None,
        places: Value | None = None,
        front: Node | None = None,
    ) -> None:
        require_float32(w, t, p, gamma)
        require_shape(ids, norm.output)
        require(ids.rank == 2 and w.rank == 2, "the words are not rows of a batch")
        require(norm.output.shape == (*ids.shape, *w.shape[1:]), "the words are repeated")
        require(attribute(norm, "axis") in (-1, 2), "it does not normalize the last axis")
        require(attribute(norm, "stash_type") == 1, "it computes in another type")
        require(gamma.shape == w.shape[1:], "the scale is not a vector")
        require_elements(w, 1)
        require_unread(norm, "the statistics are")
        if t is not None and kinds is not None:
            require(t.rank == 2 and kinds.tensor.shape == ids.shape, "segments are repeated")
        if places is not None:
            require_shape(places)
            alike = places.shape == ids.shape or (
                places.rank == 2 and is_one(places.shape[0]) and _is_length(places.shape[1], ids)
            )
            require(p.rank == 2 and alike, "positions are not those of the words")
        else:
            matrix = p.rank in (2, 3) and all(map(is_one, p.shape[:-2]))
            require(matrix, "the table is not a matrix")
            self._require_front(p if front is None else front.output, ids, front)
        require(beta.tensor.rank == 1, "the shift is not a vector")
        tables = [v for v in (p, t, beta) if v is not None]
        require(all(v.shape[-1:] == w.shape[1:] for v in tables), "the tables differ in width")

    def _require_front(self, rows: Value, ids: Value, front: Node | None) -> None:
        """Refuse unless these are the first rows of the table, one for each word."""
        require_shape(rows)
        own = _is_length(rows.shape[-2], ids)
        require(own, "positions are not those of the words")
        if front is None:
            return
        starts = front.input(1)
        first = starts is not None and starts.is_const and not data(starts).any()
        require(first, "it does not begin with the first position")
        steps = front.input(4)
        require(steps is None or (steps.is_const and bool((data(steps) == 1).all())), "it skips")

    def build(
        self,
        w: Value,
        ids: Value,
        p: Value,
        gamma: Value,
        beta: Value,
        norm: Node,
        t: Value | None = None,
        kinds: Value | None = None,
        places: Value | None = None,
    ) -> Any:
        table = data(p).reshape(p.shape[-2:]) if p.rank == 3 else p
        indices = [_narrow(v) for v in (ids, kinds, places)]
        return own(
            "EmbedLayerNormalization",
            indices[0],
            indices[1],
            w,
            table,
            t,
            gamma,
            beta,
            None,
            indices[2],
            epsilon=attribute(norm, "epsilon"),
        )


def _is_length(size: Dim, ids: Value) -> bool:
    """Whether a size is the number of words in a run, as it is in all that do not end in an
    error.
    """
    return size == ids.shape[1] or dims.is_limited(size, ids.shape[1])


def _narrow(indices: Value | None) -> Any:
    """Indices as the operator takes them."""
    if indices is None or indices.dtype == dtypes.int32:
        return indices
    return ops.cast(indices, to=dtypes.int32)


RULES = (FuseEmbedNormalization,)
