"""Infuse: a trained model in, a verified and fast native library out.

```python
graph = infuse.load("model.onnx")
better = infuse.optimize(graph, level="all")
model = infuse.compile(better)
out = model.run({"input": x})
```
"""

from __future__ import annotations

from infuse.api import compile, load, load_compiled, optimize, profile, register, save, unregister
from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.runtime import CompiledModel
from infuse.session import GraphOptimizationLevel, InferenceSession, SessionOptions

__version__ = "0.1.0"

__all__ = [
    "CompiledModel",
    "Graph",
    "GraphOptimizationLevel",
    "InferenceSession",
    "InfuseError",
    "SessionOptions",
    "compile",
    "load",
    "load_compiled",
    "optimize",
    "profile",
    "register",
    "save",
    "unregister",
]
