"""The sizes of a program, which torch writes as SymPy represents them
(`Add(Symbol('s0', integer=True), Integer(1))`), in Infuse's form (`s0 + 1`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from infuse.errors import ModelFileError

_INFIX: Final = {
    "Add": " + ",
    "Mul": "*",
    "FloorDiv": "//",
    "CleanDiv": "//",
    "Mod": " % ",
    "PythonMod": " % ",
}
_CALLED: Final = {"Max": "max", "Min": "min"}


def size_text(text: str, names: Mapping[str, str]) -> str:
    """A size as text; `names` are those of symbols by torch's (`s0`). ModelFileError where it is
    none.
    """
    try:
        return _text(ast.parse(text, mode="eval").body, names, outer=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{text[:80]!r} is not a size") from error


def _text(node: ast.expr, names: Mapping[str, str], outer: bool = False) -> str:
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return str(node.value)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError("no call")
    kind, operands = node.func.id, node.args
    if kind == "Symbol" and isinstance(operands[0], ast.Constant):
        name = str(operands[0].value)
        return names.get(name, name)
    if kind == "Integer":
        return ast.unparse(operands[0])
    parts = [_text(operand, names) for operand in operands]
    if kind in _INFIX:
        joined = _INFIX[kind].join(parts)
        return joined if outer else f"({joined})"
    if kind == "Pow" and isinstance(operands[1], ast.Call):
        return "(" + "*".join([parts[0]] * int(parts[1])) + ")"
    return f"{_CALLED.get(kind, kind)}({', '.join(parts)})"
