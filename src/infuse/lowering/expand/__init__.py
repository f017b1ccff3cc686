"""Operators without a kernel of their own, expressed in simpler ones before the graph is
lowered.
"""

import importlib
import pkgutil

from infuse.lowering.expand.driver import expand

for _part in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_part.name}")

__all__ = ["expand"]
