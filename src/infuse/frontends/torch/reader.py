"""An exported program of torch → graph: its inputs, parameters, calls of operators, outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

import infuse.tracing.aten  # noqa: F401  registers the operators
from infuse import dtypes
from infuse.errors import InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.frontends.torch.archive import PT2, dtype_of
from infuse.frontends.torch.higher import HIGHER
from infuse.frontends.torch.inplace import Sharing, functional
from infuse.frontends.torch.symbols import size_text
from infuse.ir.graph import Array, Graph, Value
from infuse.ir.types import TensorType
from infuse.tracing.aten.calls import PLACEMENT, Complex, Meta, TorchImporter, handler_of, part_type
from infuse.tracing.importer import require_all
from infuse.tracing.sizes import Sizes

IGNORED: Final = frozenset(
    [
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default",
    ]
)
"""What a program checks of its inputs, and exporting has decided."""
_LINE: Final = re.compile(r'File "([^"]+)", line (\d+)')
_CALLED: Final = re.compile(r"\[['\"]?\w*['\"]?\]|\.slice\(.*?\)")


class ExportReader:
    """Reads one program; `names` are the names of sizes by torch's symbols (`s0`)."""

    def __init__(self, file: PT2, name: str, names: Mapping[str, str] | None = None) -> None:
        self._file, self._names = file, names or {}
        self._module = file.program["graph_module"]
        texts = [self._names.get(s, s) for s in file.program["range_constraints"]]
        sizes = Sizes(texts)
        self.taken = sizes.taken
        self._g = TorchImporter(name, sizes)

    def graph(self) -> Graph:
        """The graph; UnsupportedOperatorError names all operators that are not known."""
        proto, signature = self._module["graph"], self._module["signature"]
        require_all(
            ((short_target(n["target"]), place_of(n)) for n in _all_nodes(proto)),
            _Known(),
            "the program",
            "run `ep.run_decompositions()` before saving it, or report the operator",
        )
        scope = ExportScope(self._g, proto, self)
        mutated = {
            spec[kind]["buffer_name" if kind == "buffer_mutation" else "user_input_name"]
            for spec in signature["output_specs"]
            for kind in ("buffer_mutation", "user_input_mutation")
            if kind in spec
        }
        for spec in signature["input_specs"]:
            self._input(spec, scope, mutated)
        scope.run()
        for number, spec in enumerate(signature["output_specs"]):
            self._output(number, spec, scope)
        return self._g.graph

    # -- inputs and outputs ------------------------------------------------------------------------

    def _input(self, spec: Mapping[str, Any], scope: ExportScope, mutated: set[str]) -> None:
        (kind, content), *_ = spec.items()
        if kind == "user_input":
            self._user_input(content["arg"], scope)
        elif kind in ("parameter", "buffer", "tensor_constant"):
            stored = content[f"{kind}_name"]
            name = content["arg"]["name"]
            array = self._file.tensor(stored)
            if array.dtype.kind == "c":
                scope.values[name] = self._complex(stored, array, stored in mutated)
            elif stored in mutated:
                scope.values[name] = self._g.input(stored, scope.meta(name).dtype, array.shape)
                scope.values[name].default = array
            else:
                scope.values[name] = self._g.constant(array, stored)
        elif kind == "constant_input":
            scope.values[content["name"]] = next(iter(content["value"].values()))
        else:
            raise UnsupportedOperatorError(f"an input of kind {kind} is not supported")

    def _complex(self, name: str, array: Array, mutated: bool) -> Complex:
        if mutated:
            raise UnsupportedOperatorError(f"the complex buffer {name!r} changes")
        parts = np.ascontiguousarray(array).view(array.real.dtype)
        return Complex(self._g.constant(parts.reshape(*array.shape, 2), name))

    def _user_input(self, argument: Mapping[str, Any], scope: ExportScope) -> None:
        (kind, content), *_ = argument.items()
        if kind == "as_tensor":
            name = content["name"]
            meta = scope.proto["tensor_values"][name]
            sizes = [self.size(size) for size in meta["sizes"]]
            if dtype_of(meta["dtype"]) != part_type(dtype_of(meta["dtype"])):
                raise UnsupportedOperatorError(
                    f"the input {name!r} is complex",
                    hint="let the module take its parts, and put them together in it",
                )
            scope.values[name] = self._g.input(name, dtype_of(meta["dtype"]), sizes)
        elif kind == "as_sym_int" and "as_name" in content:
            name = content["as_name"]
            scope.values[name] = self._g.input(name, dtypes.int64, [])
        elif kind == "as_custom_obj":
            raise UnsupportedOperatorError("an input is an object of a class, not a tensor")

    def size(self, size: Mapping[str, Any]) -> int | str:
        """A size of an input: a number, or the text of a symbol or an expression of symbols."""
        if "as_int" in size:
            return int(size["as_int"])
        return size_text(str(size["as_expr"]["expr_str"]), self._names)

    def _output(self, number: int, spec: Mapping[str, Any], scope: ExportScope) -> None:
        (kind, content), *_ = spec.items()
        if kind == "buffer_mutation":
            name, value = f"{content['buffer_name']}.out", scope.values[content["arg"]["name"]]
        elif kind == "user_input_mutation":
            name, value = f"{content['user_input_name']}.out", scope.values[content["arg"]["name"]]
        elif kind == "user_output":
            value = scope.argument(content["arg"])
            name = _name_of(content["arg"]) or f"output_{number}"
            if value is None:
                return
        else:
            raise UnsupportedOperatorError(f"an output of kind {kind} is not supported")
        if isinstance(value, Complex):
            raise UnsupportedOperatorError(
                f"the output {name!r} is complex", hint="let the module return torch.view_as_real"
            )
        if not isinstance(value, Value):
            value = self._g.constant(np.asarray(value), dtype=None)
        taken = {*self._g.graph.output_names, *(v.name for v in self._g.graph.inputs)}
        self._g.output(name if name not in taken else f"{name}_{number}", value)


class ExportScope:
    """The values of one graph of the program, by name, and those of the graphs around it."""

    def __init__(self, g: TorchImporter, proto: Mapping[str, Any], reader: ExportReader) -> None:
        self.g, self.proto, self.reader = g, proto, reader
        self.values: dict[str, Any] = {}
        self._storages: dict[str, str] = {}

    def run(self) -> None:
        """Make the nodes of all calls."""
        nodes = self.proto["nodes"]
        in_place = any(functional(short_target(node["target"])) for node in nodes)
        sharing = Sharing(self.proto, short_target) if in_place else None
        for number, node in enumerate(nodes):
            target = short_target(node["target"])
            if target in IGNORED:
                continue
            with self.g.scope(*module_path(node), source=source_of(node)):
                try:
                    self._call(target, node)
                    if sharing is not None and functional(target):
                        changed = node["inputs"][0]["arg"]["as_tensor"]["name"]
                        (made,) = _tensor_names(node["outputs"])
                        names = sharing.changed(changed, number)
                        self.values.update(dict.fromkeys(names, self.values[made]))
                except InfuseError as error:
                    error.within(target)
                    raise

    def _call(self, target: str, node: Mapping[str, Any]) -> None:
        self.g.called = functional(target) or target
        self.g.results = [self.meta(name) for name in _tensor_names(node["outputs"])]
        if target in HIGHER:
            made = HIGHER[target](self, [entry["arg"] for entry in node["inputs"]])
        else:
            target = functional(target) or target
            if target.startswith("aten.as_strided"):
                node = self._on_storage(node)
            positional: list[Any] = []
            named: dict[str, Any] = {}
            for entry in node["inputs"]:
                if entry.get("kind", 1) == 2:
                    if entry["name"] not in PLACEMENT:
                        named[entry["name"]] = self.argument(entry["arg"])
                else:
                    positional.append(self.argument(entry["arg"]))
            handler = self.g.handler(target, [*positional, *named.values()])
            made = handler(self.g, *positional, **named)
        outputs = node["outputs"]
        whole = len(outputs) == 1 and "as_tensors" in outputs[0]
        values = [made] if whole or not isinstance(made, (list, tuple)) else list(made)
        if len(values) < len(outputs):
            raise ModelFileError(f"it has {len(outputs)} results in the program")
        for output, value in zip(outputs, values):
            self._define(target, output, value)

    def _define(self, target: str, output: Mapping[str, Any], value: Any) -> None:
        (kind, content), *_ = output.items()
        if kind == "as_tensors":
            for entry, part in zip(content, value, strict=True):
                self.values[entry["name"]] = self._checked(target, entry["name"], part)
        elif kind == "as_tensor":
            self.values[content["name"]] = self._checked(target, content["name"], value)
        elif kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            if "as_name" in content:
                self.values[content["as_name"]] = value
        elif kind != "as_none":
            raise UnsupportedOperatorError(f"a result of kind {kind} is not supported")

    def _checked(self, target: str, name: str, value: Any) -> Any:
        """A result, which has to be of the type that torch says."""
        if not isinstance(value, (Complex, Value)):
            return value
        meta = self.meta(name)
        type = value.parts.type if isinstance(value, Complex) else value.type
        if isinstance(value, Complex):
            meta = Meta(part_type(meta.dtype), (*meta.sizes, 2))
        if not isinstance(type, TensorType) or type.shape is None:
            return value
        sizes = [size if isinstance(size, int) else None for size in type.shape]
        fits = len(sizes) == len(meta.sizes) and all(
            a is None or b is None or a == b for a, b in zip(sizes, meta.sizes)
        )
        if not fits or type.dtype != meta.dtype:
            raise ModelFileError(
                f"its result {name!r} is {type} here, and {meta.dtype}{list(meta.sizes)} in torch",
                hint="this is a fault of Infuse: please report the call",
            )
        return value

    def _on_storage(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """A call of as_strided, whose numbers are of the storage, on the tensor that has all of the
        storage where another call of it made its operand.
        """
        first, *rest = node["inputs"]
        name = first["arg"]["as_tensor"]["name"]
        has_offset = any(entry["name"] == "storage_offset" for entry in rest)
        base = self._storages.get(name, name) if has_offset else name
        for output in _tensor_names(node["outputs"]):
            self._storages[output] = base
        node = {**node, "inputs": [{**first, "arg": {"as_tensor": {"name": base}}}, *rest]}
        self.g.dense = all(self._is_dense(entry["arg"]) for entry in node["inputs"])
        return node

    def _is_dense(self, argument: Mapping[str, Any]) -> bool:
        """Whether a tensor lies in memory in the order of its axes, from the start of a storage."""
        if "as_tensor" not in argument:
            return True
        entry = self.proto["tensor_values"][argument["as_tensor"]["name"]]
        step = 1
        for size, stride in zip(reversed(entry["sizes"]), reversed(entry["strides"])):
            if size.get("as_int") != 1 and stride.get("as_int") != step:
                return False
            step *= size.get("as_int") or -1
        return bool(entry["storage_offset"].get("as_int") == 0)

    def meta(self, name: str) -> Meta:
        """What torch says of a tensor."""
        entry = self.proto["tensor_values"][name]
        return Meta(dtype_of(entry["dtype"]), tuple(s.get("as_int") for s in entry["sizes"]))

    # -- arguments ---------------------------------------------------------------------------------

    def argument(self, argument: Mapping[str, Any]) -> Any:
        """What an argument stands for: values, numbers, texts, lists of them, None."""
        (kind, content), *_ = argument.items()
        if kind == "as_none":
            return None
        if kind in ("as_tensor", "as_custom_obj"):
            return self._tensor(content["name"])
        if kind in ("as_tensors", "as_optional_tensors"):
            return [self._entry(entry) for entry in content]
        if kind == "as_optional_tensor":
            return self._entry(content)
        if kind == "as_nested_tensors":
            return [[self._entry(entry) for entry in inner] for inner in content]
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._symbolic(content)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self._symbolic(entry) for entry in content]
        if kind == "as_scalar_type":
            return dtype_of(content)
        if kind == "as_complex":
            return complex(content["real"], content["imag"])
        if kind == "as_float":
            return float(content)
        return content

    def _entry(self, entry: Mapping[str, Any]) -> Any:
        if "as_none" in entry:
            return None
        return self._tensor(entry.get("as_tensor", entry)["name"])

    def _tensor(self, name: str) -> Any:
        value = self.values[name]
        if value is None:
            raise UnsupportedOperatorError(f"it reads {name!r}, which Infuse does not compute")
        return value

    def _symbolic(self, content: Mapping[str, Any]) -> Any:
        (kind, value), *_ = content.items()
        return self.values[value] if kind == "as_name" else value

    def inner(self, argument: Mapping[str, Any], name: str, operands: Sequence[Any]) -> ExportScope:
        """The scope of a graph that is an argument, run with these operands."""
        proto = argument["as_graph"]["graph"]
        scope = ExportScope(self.g.body(name), proto, self.reader)
        for parameter, value in zip(proto["inputs"], operands, strict=True):
            scope.values[_name_of(parameter)] = value
        return scope


class _Known:
    """The targets that can be read."""

    def __contains__(self, target: object) -> bool:
        return is_read(str(target))


def is_read(target: str) -> bool:
    """Whether calls of this target can be read."""
    if target in IGNORED or target in HIGHER:
        return True
    targets = target, functional(target) or target
    return any(handler_of(t) or handler_of(f"complex.{t.removeprefix('aten.')}") for t in targets)


def short_target(target: str) -> str:
    """`aten.add.Tensor` for `torch.ops.aten.add.Tensor`."""
    return target.removeprefix("torch.ops.")


def module_path(node: Mapping[str, Any]) -> list[str]:
    """The path of the module in which a call stands."""
    stack = node["metadata"].get("nn_module_stack", "")
    last = stack.rpartition(";")[2] if stack else ""
    path = last.split(",")[1] if last.count(",") >= 2 else ""
    if path.startswith("empty_nn_module_stack"):
        return []
    path = _CALLED.sub("", path.removeprefix("L__self__").removeprefix("L['self']"))
    return [part for part in re.split(r"[._](?=\D|\d)", path) if part] if path else []


def source_of(node: Mapping[str, Any]) -> str:
    """The line from which a call came: the innermost that is not torch's own."""
    lines = _LINE.findall(node["metadata"].get("stack_trace", ""))
    if not lines:
        return ""
    file, line = next((place for place in reversed(lines) if "/torch/" not in place[0]), lines[-1])
    return f"{file}:{line}"


def place_of(node: Mapping[str, Any]) -> str:
    """Where a call stands, for an error."""
    path, line = ".".join(module_path(node)), source_of(node)
    return f"{path} ({line})" if path and line else path or line


def _all_nodes(proto: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for node in proto["nodes"]:
        yield node
        for entry in node["inputs"]:
            if "as_graph" in entry["arg"]:
                yield from _all_nodes(entry["arg"]["as_graph"]["graph"])


def _tensor_names(outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    names = []
    for output in outputs:
        if "as_tensor" in output:
            names.append(output["as_tensor"]["name"])
        names += [entry["name"] for entry in output.get("as_tensors", ())]
    return names


def _name_of(argument: Mapping[str, Any]) -> str:
    (_, content), *_ = argument.items()
    return (
        str(content.get("name") or content.get("as_name") or "")
        if isinstance(content, dict)
        else ""
    )
