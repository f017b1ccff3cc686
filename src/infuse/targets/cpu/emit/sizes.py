"""The sizes of kernel calls as C++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infuse.ir.dims import Dim, Expr
from infuse.targets.cpu.families.base import KernelSizes


def struct_text(
    sizes: KernelSizes,
    size_text: Callable[[Dim], str],
    flag_text: Callable[[bool], str] = lambda holds: "true" if holds else "false",
) -> str:
    """C++ text of the struct, every field named; what its sizes and truth values are."""

    def field(value: Any) -> str:
        if isinstance(value, bool):
            return flag_text(value)
        is_size = isinstance(value, (int, Expr))
        return size_text(value) if is_size else struct_text(value, size_text, flag_text)

    names = sizes._fields  # type: ignore[attr-defined]
    fields = (f".{name} = {field(value)}" for name, value in zip(names, sizes, strict=True))
    return f"{type(sizes).__name__}{{{', '.join(fields)}}}"
