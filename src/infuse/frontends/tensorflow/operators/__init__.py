"""TensorFlow's operators, by subject; importing this registers them all, and after them those that
TensorFlow Lite shares.
"""

import importlib
import pkgutil

import infuse.tracing.tensorflow  # noqa: F401  registers the operators of both
from infuse.frontends.tensorflow.calls import TABLE
from infuse.tracing.tensorflow.calls import OPERATORS as _SHARED

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
for _name, _handler in _SHARED.items():
    TABLE.setdefault(_name, _handler)
