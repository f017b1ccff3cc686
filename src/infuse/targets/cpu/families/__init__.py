"""One file a family of kernels: sizes, the packing of weights, the work that is counted for its
cost, and the meaning in NumPy; importing this registers them all.
"""

import importlib
import pkgutil

for _family in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_family.name}")
