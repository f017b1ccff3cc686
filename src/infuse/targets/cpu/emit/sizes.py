"""The sizes of kernel calls as C++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infuse.ir.dims import Dim, Expr
from infuse.targets.cpu.families.base import KernelSizes


def struct_text(sizes: KernelSizes, size_text: Callable[[Dim], str]) -> str:
    """C++ text of the struct, every field named."""
    names = sizes._fields  # type: ignore[attr-defined]
    fields = (
        f".{name} = {_field_text(value, size_text)}"
        for name, value in zip(names, sizes, strict=True)
    )
    return f"{type(sizes).__name__}{{{', '.join(fields)}}}"


def _field_text(value: Any, size_text: Callable[[Dim], str]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return size_text(value) if isinstance(value, (int, Expr)) else struct_text(value, size_text)
