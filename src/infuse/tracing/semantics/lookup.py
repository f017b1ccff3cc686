"""Values beside keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from infuse import dtypes
from infuse.dtypes import by_numpy
from infuse.ir.graph import Array, Value
from infuse.ir.registry import make_operator
from infuse.tracing.importer import Importer


def looked_up(g: Importer, x: Value, keys: Array, values: Array, default: Any) -> Value:
    """The value beside the key that each element is, and the default for what is none; integers of
    all sizes, floats, strings and truths.
    """
    kind = by_numpy(values.dtype)
    if not len(keys):
        return g("Expand", g.constant(np.asarray(default).reshape(()), dtype=kind), g("Shape", x))
    wide = dtypes.int64 if kind.is_integer or kind == dtypes.bool_ else kind
    attributes = {
        "keys_tensor": _widened(keys),
        "values_tensor": _widened(values),
        "default_tensor": _widened(np.asarray(default).reshape(-1)),
    }
    asked = g.cast(x, dtypes.int64) if x.dtype.is_integer else x
    (found,) = g.apply(make_operator("ai.onnx.ml", "LabelEncoder", attributes), [asked])
    return found if wide == kind else g.cast(found, kind)


def _widened(elements: Array) -> Array:
    return elements.astype(np.int64) if elements.dtype.kind in "iub" else elements
