"""Elements by their places."""

from __future__ import annotations

from infuse import dtypes
from infuse.ir.graph import Value
from infuse.tracing.importer import Importer


def gathered_by_batches(g: Importer, x: Value, at: Value, axis: int, batch: int) -> Value:
    """Slices of an axis by number, where the first `batch` axes of both operands go together."""
    # The axis comes behind the common ones, and afterwards the others between them come first.
    between = list(range(batch, axis))
    moved = g.permute(x, *range(batch), axis, *between, *range(axis + 1, x.rank))
    rows = g(
        "GatherND", moved, g("Unsqueeze", g.cast(at, dtypes.int64), g.ints(-1)), batch_dims=batch
    )
    inner = at.rank - batch
    first = [batch + inner + i for i in range(len(between))]
    perm = [*range(batch), *first, *range(batch, batch + inner)]
    return g.permute(rows, *perm, *range(len(perm), rows.rank))
