"""The modules of a file: fields become constants, and inputs where the program changes them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

from infuse import dtypes
from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.pickles import Global, Instance, StoredTensor
from infuse.frontends.torchscript.archive import ScriptFile
from infuse.frontends.torchscript.specs import Spec, dtype_of
from infuse.frontends.torchscript.values import UNSET, Cell, Device, Dict, List, Object, Tensor
from infuse.tracing.aten.scripting import ScriptImporter

_CLASSES: Final = "__torch__.torch.classes."


class Modules:
    """The values of the fields of objects. `states`: by path those that the program changes, with
    what was said of them (a Spec, a number that they are to have, or None).
    """

    def __init__(self, file: ScriptFile, g: ScriptImporter, states: Mapping[str, Any]) -> None:
        self._file, self._g, self._states = file, g, states
        self._objects: dict[int, Object] = {}
        self._tensors: dict[int, Tensor] = {}
        self._fields: dict[tuple[int, str], Any] = {}
        self._shared: dict[str, str] = {}
        self.read_states: set[str] = set()
        """States that the program has."""
        self.revive: Callable[[Object, Any], None] | None = None
        """Calls `__setstate__` of an object."""

    def root(self) -> Object:
        """The module that the file is of."""
        made = self._value(self._file.module, "", self._file.data)
        assert isinstance(made, Object)
        return made

    def constant(self, name: str) -> Any:
        """A constant of the file, by the name that its sources give it (`CONSTANTS.c0`)."""
        number = name.removeprefix("CONSTANTS.c")
        if not number.isdigit() or int(number) >= len(self._file.constants):
            raise ModelFileError(f"there is no constant {name!r}")
        stored = self._file.constants[int(number)]
        return self._value(stored, f"constant_{number}", self._file.constant_data)

    def field(self, thing: Object, name: str) -> Any:
        """A field of an object, as it is now."""
        value = thing.fields[name] if name in thing.fields else self.original(thing, name)
        if value is UNSET:
            raise ModelFileError(f"an object of the class {thing.kind} has no field {name!r}")
        return value

    def original(self, thing: Object, name: str) -> Any:
        """A field of an object as the file has it; UNSET where it has none."""
        key = id(thing), name
        if key not in self._fields:
            stored = thing.stored if isinstance(thing.stored, dict) else {}
            if name in stored:
                path = f"{thing.path}.{name}" if thing.path else name
                self._fields[key] = self._value(stored[name], path, self._file.data)
            else:
                return self._class_constant(thing.kind, name)
        return self._fields[key]

    def _class_constant(self, kind: str, name: str) -> Any:
        definition = self._file.definition(kind)
        for entry in getattr(definition, "body", ()):
            target = getattr(entry, "target", None)
            named = isinstance(target, ast.Name) and target.id == name
            if not named or not isinstance(entry, ast.AnnAssign) or entry.value is None:
                continue
            try:
                value = ast.literal_eval(entry.value)
            except (ValueError, TypeError, SyntaxError, MemoryError) as error:
                raise ModelFileError(f"the constant {name!r} has no value") from error
            return List(value) if isinstance(value, list) else value
        return UNSET

    # -- from the file -----------------------------------------------------------------------------

    def _value(self, stored: Any, path: str, data: Callable[[str], memoryview]) -> Any:
        if isinstance(stored, StoredTensor):
            return self._tensor(stored, path, data)
        if isinstance(stored, Instance):
            return self._object(stored, path)
        if isinstance(stored, Global):
            return Device() if stored.name.startswith("device:") else stored
        if isinstance(stored, (int, float)) and path in self._states:
            return self._number(stored, path)
        if isinstance(stored, list):
            return _old(List(self._value(x, f"{path}.{i}", data) for i, x in enumerate(stored)))
        if isinstance(stored, tuple):
            return tuple(self._value(x, f"{path}.{i}", data) for i, x in enumerate(stored))
        if isinstance(stored, dict):
            entries = [(k, self._value(x, f"{path}.{k}", data)) for k, x in stored.items()]
            return _old(Dict(entries))
        return stored

    def _object(self, stored: Instance, path: str) -> Object:
        known = self._objects.get(id(stored))
        if known is None:
            known = self._objects[id(stored)] = Object(stored.kind, path)
            known.born = 0
            if stored.kind.startswith(_CLASSES) or stored.state is None:
                known.stored = stored.state
            elif self._file.method(stored.kind, "__setstate__") is not None:
                assert self.revive is not None
                self.revive(known, self._value(stored.state, path, self._file.data))
            elif isinstance(stored.state, dict):
                known.stored = stored.state
            else:
                raise ModelFileError(f"an object of the class {stored.kind} has no fields")
        return known

    def _tensor(self, stored: StoredTensor, path: str, data: Callable[[str], memoryview]) -> Tensor:
        known = self._tensors.get(id(stored))
        if known is None:
            if stored.quantization is not None:
                raise UnsupportedOperatorError(f"the quantized tensor {path!r} is not supported")
            array = stored.elements(path, data)
            dtype = stored.storage.dtype
            if path in self._states:
                self.read_states.add(path)
                spec = self._states[path]
                described = isinstance(spec, Spec)
                shape = spec.shape if described else array.shape
                kind = dtype_of(spec.dtype) if described else dtype
                value = self._g.input(path, kind, shape)
                if tuple(shape) == array.shape and kind == dtype:
                    value.default = array
            else:
                value = self._g.constant(array, path, dtype=dtype)
            known = self._tensors[id(stored)] = Tensor(Cell(value, path))
            known.cell.born = 0
            if data == self._file.data and array.size:
                first = self._shared.setdefault(stored.storage.key, path)
                if first != path and {first, path} & set(self._states):
                    raise UnsupportedOperatorError(
                        f"{path!r} is changed, and shares its elements with {first!r}"
                    )
        return known

    def _number(self, stored: float, path: str) -> Any:
        chosen = self._states[path]
        self.read_states.add(path)
        if isinstance(chosen, (bool, int, float)):
            return chosen
        kind = dtypes.float64 if isinstance(stored, float) else dtypes.int64
        kind = dtypes.bool_ if isinstance(stored, bool) else kind
        value = self._g.input(path, kind, ())
        value.default = self._g.number(stored, kind).const
        return value


def _old(thing: Any) -> Any:
    """A list or dictionary that the file has: it is older than all that the program does."""
    thing.born = 0
    return thing
