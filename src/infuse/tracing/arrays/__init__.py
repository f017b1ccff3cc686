"""Programs in the style of NumPy, traced: their array functions become nodes."""

from infuse.tracing.arrays.control import cond, loop, scan
from infuse.tracing.arrays.tracing import Spec, trace

__all__ = ["Spec", "cond", "loop", "scan", "trace"]
