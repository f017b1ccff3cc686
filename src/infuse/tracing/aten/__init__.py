"""The operators of torch, by subject, as PyTorch, TorchScript and MindSpore call them; importing
this registers them all.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
