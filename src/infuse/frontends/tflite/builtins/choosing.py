"""Operators that take elements, spread them, and choose among boxes."""

from __future__ import annotations

import numpy as np

from infuse.errors import ModelFileError
from infuse.frontends.tflite.calls import LiteCall, builtin
from infuse.ir.graph import Value
from infuse.tracing.tensorflow.indexing import unsorted

builtin("UNSORTED_SEGMENT_MAX")(unsorted("max", skips_nan=True))
builtin("UNSORTED_SEGMENT_MIN")(unsorted("min", skips_nan=True))


@builtin("EMBEDDING_LOOKUP")
def embedding_lookup(call: LiteCall) -> Value:
    """Rows of operand 1 by number."""
    if call.tensor(1).quantized and not call.result().quantized:
        return call.g("Gather", call.real(1), call.raw(0), axis=0)
    return call.g("Gather", call.moved(1)[0], call.raw(0), axis=0)


@builtin("DILATE")
def dilate(call: LiteCall) -> Value:
    """Elements with others between them: along each axis one less than operand 1 says."""
    g = call.g
    x, number = call.moved(0, 2)
    steps = call.ints(1)
    if len(steps) != x.rank or any(step < 1 for step in steps):
        raise ModelFileError(f"it dilates {x.rank} axes by {steps}")
    for axis, step in enumerate(steps):
        size = x.shape[axis]
        if step == 1:
            continue
        if not isinstance(size, int):
            raise call.unsupported("dilation of an axis of unknown length")
        sizes = [g.size_of(x, a) for a in range(x.rank)]
        columns = g("Unsqueeze", x, g.ints(axis + 1))
        pads = g.ints(0, step - 1)
        spread = g("Pad", columns, pads, number, g.ints(axis + 1))
        joined = g("Reshape", spread, g.ints(*sizes[:axis], size * step, *sizes[axis + 1 :]))
        x = g.slice(joined, axis, 0, (size - 1) * step + 1)
    return x


# -- boxes -----------------------------------------------------------------------------------------


@builtin("NON_MAX_SUPPRESSION_V4")
def non_max_suppression(call: LiteCall) -> list[Value]:
    """The numbers of the boxes that stay, zeros behind them, and how many there are."""
    _, places, count = _boxes(call)
    return [call.as_result(places), call.as_result(count, 1)]


@builtin("NON_MAX_SUPPRESSION_V5")
def non_max_suppression_v5(call: LiteCall) -> list[Value]:
    """Besides, their scores."""
    sigma = call.const(5)
    if sigma is None or np.any(sigma):
        raise call.unsupported("soft suppression of boxes")
    chosen, places, count = _boxes(call)
    g = call.g
    scores = g("Gather", call.raw(1), chosen, axis=0)
    missing = g("Sub", call.list_of(2), g("Shape", chosen))
    padded = g("Pad", scores, g("Concat", g.ints(0), missing, axis=0))
    return [call.as_result(places), padded, call.as_result(count, 2)]


def _boxes(call: LiteCall) -> tuple[Value, Value, Value]:
    g, most = call.g, call.list_of(2)
    boxes, scores = (
        g("Unsqueeze", call.raw(0), g.ints(0)),
        g("Unsqueeze", call.raw(1), g.ints(0, 1)),
    )
    rows = g("NonMaxSuppression", boxes, scores, most, call.raw(3), call.raw(4))
    chosen = g("Gather", rows, g.constant(2), axis=1)
    missing = g("Sub", most, g("Shape", chosen))
    places = g("Pad", chosen, g("Concat", g.ints(0), missing, axis=0))
    return chosen, places, g("Squeeze", g("Shape", chosen), g.ints(0))
