"""Images of other sizes whose pixels are weighted sums: kernels that are moved, and areas."""

from __future__ import annotations

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.tensorflow.calls import FlowCall, operator
from infuse.frontends.tensorflow.operators.images import LARGEST
from infuse.ir.graph import Value
from infuse.tracing.semantics import resampling


def _spans(call: FlowCall) -> tuple[Value, list[tuple[int, int]]]:
    """Images as floats, and their sizes before and after along rows and columns."""
    x, after = call.g.cast(call.raw(0), dtypes.float32), call.ints(1)
    if x.rank != 4 or len(after) != 2 or min(after) < 1 or max(after) > LARGEST:
        raise ModelFileError(f"images of {x.rank} axes become {after[:4]}")
    spans = []
    for size, count in zip(x.shape[1:3], after):
        if not isinstance(size, int) or not 0 < size <= LARGEST:
            raise call.unsupported(f"an image of size {size}")
        spans.append((size, count))
    return x, spans


@operator("ScaleAndTranslate")
def scale_and_translate(call: FlowCall) -> Value:
    """Images scaled and moved, between whose pixels lie the curves of a kernel."""
    x, spans = _spans(call)
    kind = call.text("kernel_type", "lanczos3", *resampling.KERNELS)
    smooth = bool(call.option("antialias", True))
    parts = [call.const(index) for index in (2, 3)]
    if any(part is None or part.shape != (2,) for part in parts):
        raise call.unsupported("a scale or translation that is computed")
    (scale, shift) = ([float(v) for v in part] for part in parts if part is not None)
    if not all(value > 0 and np.isfinite(value) for value in scale):
        raise ModelFileError(f"its scale is {scale}")
    weights = [
        resampling.moved_weights(*span, factor, by, *resampling.KERNELS[kind], smooth)
        for span, factor, by in zip(spans, scale, shift)
    ]
    return resampling.weighted(call.g, x, weights[0], weights[1])


@operator("ResizeArea")
def area(call: FlowCall) -> Value:
    """Images of other sizes whose pixels are the means of what they cover."""
    x, spans = _spans(call)
    aligned = bool(call.option("align_corners", False))
    rows, columns = (resampling.area_weights(size, count, aligned) for size, count in spans)
    return resampling.weighted(call.g, x, rows, columns)
