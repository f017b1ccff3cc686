"""The builtin operators, by subject; importing this registers them all, and after them those that
are TensorFlow's.
"""

import importlib
import pkgutil
import re

import infuse.tracing.tensorflow  # noqa: F401  registers the operators of both
from infuse.frontends.tflite.calls import TABLE
from infuse.frontends.tflite.schema import OPERATORS as _NAMES
from infuse.tracing.tensorflow.calls import OPERATORS as _SHARED

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
for _name, _handler in _SHARED.items():
    _words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", _name).upper()
    for _builtin in {_words, f"REDUCE_{_words}", _name.upper()} & set(_NAMES):
        TABLE.setdefault(_builtin, _handler)
