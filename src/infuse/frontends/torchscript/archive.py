"""The archive that torch.jit.save writes: the tree of modules, constants, and the source of their
methods.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from infuse.errors import ModelFileError
from infuse.frontends import pickles
from infuse.frontends.archives import Archive

_LONGEST: Final = 1 << 25
"""Bytes of source that one file may have."""
_HINT: Final = "save it again by torch.jit.save"


class ScriptFile:
    """A program of TorchScript: its parts, read when they are asked for."""

    def __init__(self, archive: Archive) -> None:
        self._archive, self.where = archive, archive.where
        self._sources: dict[str, dict[str, ast.ClassDef | ast.FunctionDef]] = {}
        order = b"little"
        if "byteorder" in archive:
            order = bytes(archive.read("byteorder")).strip()
        if order != b"little":
            raise ModelFileError("its tensors are not stored in little-endian order", hint=_HINT)
        self.module = pickles.read(archive.read("data.pkl"), f"{self.where}: data.pkl")
        constants: Any = ()
        if "constants.pkl" in archive:
            place = f"{self.where}: constants.pkl"
            constants = pickles.read(archive.read("constants.pkl"), place)
        if not isinstance(constants, tuple):
            raise ModelFileError("its constants are not a tuple", where=self.where, hint=_HINT)
        self.constants = constants
        if not isinstance(self.module, pickles.Instance):
            raise ModelFileError("its data are not a module", where=self.where, hint=_HINT)

    def data(self, key: str) -> memoryview:
        """The bytes of a storage of a module's tensors."""
        return self._archive.read(f"data/{key}")

    def constant_data(self, key: str) -> memoryview:
        """The bytes of a storage of a constant."""
        return self._archive.read(f"constants/{key}")

    def traced_inputs(self) -> list[Any] | None:
        """What the program was traced on, where it was traced."""
        if "traced_inputs.pkl" not in self._archive:
            return None
        place = f"{self.where}: traced_inputs.pkl"
        content = pickles.read(self._archive.read("traced_inputs.pkl"), place)
        listed = content.get("forward") if isinstance(content, dict) else None
        return listed if isinstance(listed, list) else None

    def definition(self, name: str) -> ast.ClassDef | ast.FunctionDef | None:
        """The class or function of this qualified name; None where the file has none."""
        module, _, last = name.rpartition(".")
        return self._source(module).get(last)

    def method(self, kind: str, name: str) -> ast.FunctionDef | None:
        """A method of a class; None where it has none."""
        definition = self.definition(kind)
        if not isinstance(definition, ast.ClassDef):
            return None
        for entry in definition.body:
            if isinstance(entry, ast.FunctionDef) and entry.name == name:
                return entry
        return None

    def calls(self) -> Iterator[str]:
        """The dotted names that all sources call."""
        members = [n for n in self._archive.names if n.startswith("code/") and n.endswith(".py")]
        for member in members:
            for entry in self._source(member[5:-3].replace("/", ".")).values():
                for node in ast.walk(entry):
                    if isinstance(node, ast.Call):
                        yield dotted(node.func)

    def _source(self, module: str) -> dict[str, ast.ClassDef | ast.FunctionDef]:
        if module not in self._sources:
            member = f"code/{module.replace('.', '/')}.py"
            entries = self._parsed(member) if member in self._archive else []
            self._sources[module] = {
                e.name: e for e in entries if isinstance(e, (ast.ClassDef, ast.FunctionDef))
            }
        return self._sources[module]

    def _parsed(self, member: str) -> list[ast.stmt]:
        data = self._archive.read(member)
        if len(data) > _LONGEST:
            raise ModelFileError(f"{member} has {len(data)} bytes of source", where=self.where)
        try:
            return ast.parse(bytes(data)).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ModelFileError(
                f"{member} is not a source of TorchScript: {error}", where=self.where, hint=_HINT
            ) from error


def dotted(node: ast.expr) -> str:
    """`torch.nn.relu` for such an expression; nothing for another."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])
