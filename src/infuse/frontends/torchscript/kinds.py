"""Types of TorchScript, as its sources write them."""

from __future__ import annotations

import ast
from typing import Any

from infuse.errors import UnsupportedOperatorError
from infuse.frontends.torchscript.archive import dotted
from infuse.frontends.torchscript.values import Dict, List, Named, Object, Tensor
from infuse.ir.graph import Value
from infuse.tracing.aten.scripting import ScriptImporter


def is_instance(g: ScriptImporter, value: Any, kind: ast.expr) -> bool:
    """Whether a value is of a type; UnsupportedOperatorError where that cannot be told."""
    if isinstance(kind, (ast.Tuple, ast.List)):
        return any(is_instance(g, value, k) for k in kind.elts)
    if isinstance(kind, ast.Subscript):
        return _is_generic(g, value, kind)
    name = dotted(kind)
    if isinstance(value, Value):
        computed = "float" if value.dtype.is_float else "bool" if value.dtype.is_bool else "int"
        return name == computed or name == "number"
    plain = {"int": int, "float": float, "bool": bool, "str": str, "Tensor": Tensor}
    if name in plain:
        return type(value) is plain[name]
    if name in ("NoneType", "None"):
        return value is None
    if name in ("list", "tuple"):
        return isinstance(value, List if name == "list" else tuple)
    if isinstance(value, (Object, Named)):
        return value.kind == name
    if name.startswith("__torch__."):
        return False
    raise UnsupportedOperatorError(f"isinstance(…, {name}) is not supported")


def _is_generic(g: ScriptImporter, value: Any, kind: ast.Subscript) -> bool:
    name = dotted(kind.value)
    inner = list(kind.slice.elts) if isinstance(kind.slice, ast.Tuple) else [kind.slice]
    if name == "Optional":
        return value is None or is_instance(g, value, inner[0])
    if name == "List":
        if isinstance(value, List) and not value:
            raise UnsupportedOperatorError("the type of an empty list is asked for")
        return isinstance(value, List) and all(is_instance(g, v, inner[0]) for v in value)
    if name == "Tuple":
        same = isinstance(value, tuple) and len(value) == len(inner)
        return same and all(is_instance(g, v, k) for v, k in zip(value, inner))
    if name == "Dict":
        if isinstance(value, Dict) and not value:
            raise UnsupportedOperatorError("the type of an empty dictionary is asked for")
        pairs = value.items() if isinstance(value, Dict) else ()
        return isinstance(value, Dict) and all(
            is_instance(g, k, inner[0]) and is_instance(g, v, inner[1]) for k, v in pairs
        )
    raise UnsupportedOperatorError(f"isinstance(…, {name}[…]) is not supported")
