"""ONNX Runtime's own operators as functions on a builder of graphs: what each means in operators of
ONNX.
"""

from __future__ import annotations

import importlib
import pkgutil

from infuse.tracing.microsoft.building import BODIES, DOMAIN, CallBuilder, results_of

for _part in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_part.name}")

__all__ = ["BODIES", "DOMAIN", "CallBuilder", "results_of"]
