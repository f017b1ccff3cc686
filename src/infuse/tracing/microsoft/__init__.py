"""ONNX Runtime's own operators as functions on a builder of graphs: what each means in operators of
ONNX.
"""

from __future__ import annotations

from infuse.tracing.microsoft.building import BODIES, DOMAIN, CallBuilder, results_of

__all__ = ["BODIES", "DOMAIN", "CallBuilder", "results_of"]
