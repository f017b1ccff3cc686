"""Operators whose steps are the same on every kind of machine: views, control flow, and the sizes
that steps find; importing this registers them all.
"""

import importlib
import pkgutil

for _part in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_part.name}")
