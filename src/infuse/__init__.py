"""Infuse: a trained model in, a verified and fast native library out.

```python
graph = infuse.load("model.onnx")
better = infuse.optimize(graph, level="all")
model = infuse.compile(better)
out = model.run({"input": x})
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from infuse.api import (
    compile,
    from_jax,
    from_torch,
    from_torchscript,
    load,
    load_compiled,
    optimize,
    save,
    trace,
)
from infuse.compressing import compress
from infuse.errors import InfuseError
from infuse.measuring import compare, inspect, profile
from infuse.runtime import CompiledModel

if TYPE_CHECKING:
    from infuse.frontends.arrays import Spec, cond, loop, scan
    from infuse.ir.graph import Graph
    from infuse.onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
    from infuse.passes.registry import register, unregister

__version__ = "0.1.0"

__all__ = [
    "CompiledModel",
    "Graph",
    "GraphOptimizationLevel",
    "InferenceSession",
    "InfuseError",
    "SessionOptions",
    "Spec",
    "compare",
    "compile",
    "compress",
    "cond",
    "from_jax",
    "from_torch",
    "from_torchscript",
    "inspect",
    "load",
    "load_compiled",
    "loop",
    "optimize",
    "profile",
    "register",
    "save",
    "scan",
    "trace",
    "unregister",
]

_LATER = {
    "Graph": "infuse.ir.graph",
    "GraphOptimizationLevel": "infuse.onnxruntime",
    "InferenceSession": "infuse.onnxruntime",
    "SessionOptions": "infuse.onnxruntime",
    "Spec": "infuse.frontends.arrays",
    "cond": "infuse.frontends.arrays",
    "loop": "infuse.frontends.arrays",
    "scan": "infuse.frontends.arrays",
    "register": "infuse.passes.registry",
    "unregister": "infuse.passes.registry",
}
"""Names whose modules a program that only runs compiled models should not have to load."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
