"""A program of TorchScript → graph: inputs, the method forward, states, outputs."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

import infuse.tracing.aten  # noqa: F401  registers the operators
from infuse import dtypes
from infuse.errors import InputError, ModelFileError, OptionError, UnsupportedOperatorError
from infuse.frontends.pickles import StoredTensor
from infuse.frontends.torchscript import branches, loops, primitives
from infuse.frontends.torchscript.archive import ScriptFile, dotted
from infuse.frontends.torchscript.interpreter import Interpreter, Raised
from infuse.frontends.torchscript.modules import Modules
from infuse.frontends.torchscript.specs import Spec, dtype_of
from infuse.frontends.torchscript.values import (
    UNSET,
    Cell,
    Dict,
    List,
    Named,
    Object,
    Stacked,
    Tensor,
    Undecided,
)
from infuse.ir.graph import Graph, Value
from infuse.ops.core.sizes import numbering
from infuse.tracing.aten.scripting import ScriptImporter
from infuse.tracing.sizes import Sizes

_ROUNDS: Final = 8
"""How often a program is followed until all of its states are known."""
_REQUIRED: Final = object()


class ScriptReader:
    """Reads one file; `inputs` says what its inputs and states are."""

    def __init__(self, file: ScriptFile, name: str, inputs: Mapping[str, Any]) -> None:
        self._file, self._name, self._inputs = file, name, dict(inputs)
        forward = file.method(file.module.kind, "forward")
        if forward is None:
            raise ModelFileError(
                "the module has no method forward", hint="save a module that has one"
            )
        self._forward = forward
        self._names = [a.arg for a in forward.args.args[1:]]
        for key, stored in zip(self._names, file.traced_inputs() or ()):
            if isinstance(stored, StoredTensor):
                self._inputs.setdefault(key, Spec(stored.storage.dtype.name, stored.sizes))

    def graph(self) -> Graph:
        """The graph; what the program changes of its modules becomes inputs and outputs."""
        states = {k: v for k, v in self._inputs.items() if k not in self._names}
        for _ in range(_ROUNDS):
            run = _Run(self._file, self._name, self._arguments, self._inputs, states)
            g, changed = run.follow(self._forward, self._names)
            fresh = [path for path in changed if path not in states]
            if not fresh:
                unused = [
                    n for n in states if n not in run.modules.read_states and n not in self._names
                ]
                if unused:
                    raise OptionError(
                        f"the program has no input or state {unused[0]!r}",
                        hint=f"its inputs are {', '.join(self._names)}",
                    )
                return g.graph
            states |= dict.fromkeys(fresh)
        raise UnsupportedOperatorError("the program changes more of its modules in every round")

    def _arguments(self, g: ScriptImporter) -> Iterator[Any]:
        """What forward is called with."""
        arguments = self._forward.args
        defaults: dict[str, Any] = dict.fromkeys(self._names, _REQUIRED)
        for name, default in zip(self._names[::-1], arguments.defaults[::-1]):
            try:
                defaults[name] = ast.literal_eval(default)
            except (ValueError, TypeError, SyntaxError, MemoryError):
                defaults[name] = _REQUIRED
        for argument in arguments.args[1:]:
            name, kind = argument.arg, argument.annotation
            if name in self._inputs:
                yield self._described(g, name, self._inputs[name], kind)
            elif defaults[name] is not _REQUIRED:
                value = defaults[name]
                yield List(value) if isinstance(value, list) else value
            else:
                raise self._unknown(name, kind)

    def _unknown(self, name: str, kind: ast.expr | None) -> InputError:
        text = "" if kind is None else ast.unparse(kind)
        example = 'infuse.Spec("float32", ("batch", 3, 224, 224))'
        example = {"int": "1", "float": "1.0", "bool": "True", "str": '"…"'}.get(text, example)
        if text.startswith(("List[", "Tuple[")):
            example = f"[{example}]"
        return InputError(
            f"the file does not say what shape the input {name!r} ({text}) has",
            hint=f"call infuse.from_torchscript(path, inputs={{{name!r}: {example}}}), or say "
            f"--input {name}:float32:batch,3,224,224 (--input {name}=1 for a number)",
        )

    def _described(self, g: ScriptImporter, name: str, said: Any, kind: Any) -> Any:
        if isinstance(said, Spec):
            value = g.input(name, dtype_of(said.dtype), said.shape)
            number = kind is not None and dotted(kind) in ("int", "float", "bool")
            if number and value.rank:
                raise OptionError(f"the input {name!r} is a number, and is described with axes")
            if number:
                wide = {"int": dtypes.int64, "float": dtypes.float64, "bool": dtypes.bool_}
                return g.cast(value, wide[dotted(kind)])
            return Tensor(Cell(value))
        if isinstance(said, (list, tuple)):
            parts = [self._described(g, f"{name}_{i}", x, None) for i, x in enumerate(said)]
            return List(parts) if isinstance(said, list) else tuple(parts)
        if isinstance(said, dict):
            return Dict((k, self._described(g, f"{name}_{k}", x, None)) for k, x in said.items())
        if kind is not None and dotted(kind) == "Tensor":
            raise OptionError(f"the input {name!r} is a tensor, and is described by {said!r}")
        return said


class _Run:
    """The program followed once."""

    def __init__(
        self, file: ScriptFile, name: str, arguments: Any, inputs: Mapping[str, Any],
        states: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self._file, self._arguments, self._states = file, arguments, states
        sizes = Sizes(_texts([*inputs.values(), *states.values()]))
        self.g = ScriptImporter(name, sizes)
        self.modules = Modules(file, self.g, states)
        self._interpreter = Interpreter(file, self.g, self.modules)
        self._interpreter.branch, self._interpreter.loop = branches.branch, loops.loop
        self.modules.revive = self._revive

    def _revive(self, thing: Object, state: Any) -> None:
        self._interpreter.call_method(thing, "__setstate__", [state], {})

    def follow(
        self, forward: ast.FunctionDef, names: list[str]
    ) -> tuple[ScriptImporter, list[str]]:
        """The importer, and the paths of what the program changed."""
        interpreter, g = self._interpreter, self.g
        with numbering(g.sizes.taken):
            root = self.modules.root()
            arguments = list(self._arguments(g))
            for value in arguments:
                if isinstance(value, Tensor):
                    value.cell.born, value.cell.path = 0, f"{value.cell.value.name}"
            try:
                result = interpreter.call(forward, [root, *arguments], {})
            except Raised as error:
                raise ModelFileError(
                    f"the program raises an error for these inputs: {error}",
                    hint="describe the inputs otherwise (inputs=)",
                ) from None
            except UnsupportedOperatorError as error:
                self._name_all(error)
                raise
            changed = self._changed()
            if all(path in self._states for path in changed):
                self._outputs(result, changed)
                for text in interpreter.unchecked:
                    warnings.warn(
                        f"{self._file.where}: the program's check of {text!r} is not made, "
                        "because its condition is only known at run time",
                        stacklevel=2,
                    )
        return g, list(changed)

    def _name_all(self, error: UnsupportedOperatorError) -> None:
        """Let an error also name all operators of the file that are not known."""
        if "there is no translation" not in error.what:
            return
        names = {
            name.removeprefix("torch.").removeprefix("ops.aten.").removeprefix("ops.prim.")
            for name in self._file.calls()
            if name.startswith(("torch.", "ops."))
        }
        missing = sorted(n for n in names if not primitives.is_read(n) and n != "RaiseException")
        if len(missing) > 1:
            error.what += f"; the file has more that are not known: {', '.join(missing[:20])}"

    def _changed(self) -> dict[str, Any]:
        """What the program changed of its modules and inputs, by path: as it is now."""
        changed: dict[str, Any] = {}
        for thing, before in self._interpreter.journals[0].before.values():
            if isinstance(thing, Cell):
                if thing.value is not before[0]:
                    changed[thing.path] = Tensor(thing)
            elif isinstance(thing, Object):
                for name, value in thing.fields.items():
                    path = f"{thing.path}.{name}" if thing.path else name
                    old = self.modules.original(thing, name)
                    if old is UNSET and thing.stored is None:
                        continue
                    if value is not old and not _equal(value, old):
                        changed[path] = value
            elif thing.born == 0 and not _equal_items(thing, before):
                raise UnsupportedOperatorError("the program changes a list of one of its modules")
        return changed

    # -- outputs -----------------------------------------------------------------------------------

    def _outputs(self, result: Any, changed: Mapping[str, Any]) -> None:
        self._output("output", result)
        for path, value in changed.items():
            if not isinstance(value, Tensor) and not _is_number(value):
                raise UnsupportedOperatorError(
                    f"the program changes {path!r}, which is neither a tensor nor a number"
                )
            inputs = [v for v in self.g.graph.inputs if v.name == path]
            if inputs and isinstance(value, Tensor):
                new = value.read(self.g)
                if new.rank != inputs[0].rank or new.dtype != inputs[0].dtype:
                    raise UnsupportedOperatorError(
                        f"the state {path!r} is {inputs[0].type} before the call, {new.type} after",
                        hint=f"say what it is between calls: inputs={{{path!r}: infuse.Spec(…)}}",
                    )
            self._leaf(f"{path}.out", value)

    def _output(self, name: str, value: Any) -> None:
        if isinstance(value, (list, tuple)):
            names = value.names if isinstance(value, Named) else range(len(value))
            for part, item in zip(names, value):
                text = str(part) if isinstance(value, Named) and name == "output" else None
                self._output(text or f"{name}_{part}", item)
        elif isinstance(value, dict):
            for key, item in value.items():
                self._output(str(key) if name == "output" else f"{name}_{key}", item)
        elif isinstance(value, Object):
            raise UnsupportedOperatorError(f"an output is an object of the class {value.kind}")
        elif value is not None:
            self._leaf(name, value)

    def _leaf(self, name: str, value: Any) -> None:
        if isinstance(value, Undecided):
            raise UnsupportedOperatorError(f"an output has no value: {value.reason}")
        if isinstance(value, (Stacked, str)):
            raise UnsupportedOperatorError("an output is a list that a loop made, or a text")
        if isinstance(value, Tensor):
            value = value.read(self.g)
        if not isinstance(value, Value):
            value = self.g.constant(value)
        names = {*self.g.graph.output_names, *(v.name for v in self.g.graph.inputs)}
        while name in names:
            name += "_"
        if value.producer is None:
            value = self.g("Identity", value)
        self.g.output(name, value)


def _texts(said: Any) -> list[str]:
    """The sizes that are texts in descriptions of inputs."""
    texts: list[str] = []
    for entry in said.values() if isinstance(said, dict) else said:
        if isinstance(entry, Spec):
            texts += [size for size in entry.shape if isinstance(size, str)]
        elif isinstance(entry, (list, tuple, dict)):
            texts += _texts(entry)
    return texts


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, Value))


def _equal(a: Any, b: Any) -> bool:
    plain = (bool, int, float, str, type(None))
    return isinstance(a, plain) and type(a) is type(b) and a == b


def _equal_items(thing: Any, before: Any) -> bool:
    now = list(thing.items()) if isinstance(thing, dict) else list(thing)
    was = list(before.items()) if isinstance(before, dict) else list(before)
    return len(now) == len(was) and all(a is b or _equal(a, b) for a, b in zip(now, was))
