"""Infuse: a trained model in, a verified and fast native library out.

```python
graph = infuse.load("model.onnx")
better = infuse.optimize(graph, infuse.Rules("all"))
model = infuse.compile(better)
out = model.run({"input": x})
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infuse.api import (
        bind,
        compile,
        encrypt,
        extract,
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
    from infuse.ir.graph import Graph
    from infuse.language.model import LanguageModel
    from infuse.measuring import compare, diagnose, inspect, profile, view
    from infuse.onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
    from infuse.options import *
    from infuse.passes.registry import register, unregister
    from infuse.runtime import CompiledModel
    from infuse.runtime.cancelling import Cancellation
    from infuse.tracing.arrays import Spec, cond, loop, scan

__version__ = "0.2.0"

__all__ = [
    "Auto",
    "BindOptions",
    "Cancellation",
    "Clusters",
    "CompileOptions",
    "CompiledModel",
    "CompressOptions",
    "Contract",
    "Examples",
    "Graph",
    "GraphOptimizationLevel",
    "HuggingFace",
    "InferenceSession",
    "InfuseError",
    "Int16Activations",
    "Int2",
    "Int3",
    "Int4",
    "Int8",
    "Int8Dynamic",
    "Int8Weights",
    "LanguageModel",
    "LowRank",
    "Prune",
    "Rules",
    "SavedModel",
    "SessionOptions",
    "Sparse",
    "SparseInt8",
    "Spec",
    "TorchScript",
    "Tune",
    "Turns",
    "bind",
    "compare",
    "compile",
    "compress",
    "cond",
    "diagnose",
    "encrypt",
    "extract",
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
    "view",
]

_MODULES = {
    "api": (
        "bind",
        "compile",
        "encrypt",
        "extract",
        "from_jax",
        "from_torch",
        "from_torchscript",
        "load",
        "load_compiled",
        "optimize",
        "save",
        "trace",
    ),
    "compressing": ("compress",),
    "errors": ("InfuseError",),
    "tracing.arrays": ("Spec", "cond", "loop", "scan"),
    "ir.graph": ("Graph",),
    "language.model": ("LanguageModel",),
    "measuring": ("compare", "diagnose", "inspect", "profile", "view"),
    "passes.registry": ("register", "unregister"),
    "runtime": ("CompiledModel",),
    "runtime.cancelling": ("Cancellation",),
    "onnxruntime": ("GraphOptimizationLevel", "InferenceSession", "SessionOptions"),
}
"""Where names come from, others than options; their modules are imported when they are first asked
for, so that a program loads what it uses.
"""

if not TYPE_CHECKING:
    _HOMES = dict.fromkeys(__all__, "infuse.options") | {
        name: f"infuse.{module}" for module, names in _MODULES.items() for name in names
    }

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
