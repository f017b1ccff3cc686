"""Operators of TensorFlow that its graphs and the files of TensorFlow Lite share, by subject;
importing this registers them all.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
