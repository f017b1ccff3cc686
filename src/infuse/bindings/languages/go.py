"""Go: a module with cgo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from infuse.bindings.interface import Interface, Tensor
from infuse.bindings.names import identifiers, pascal, shown
from infuse.bindings.package import Language, Package
from infuse.bindings.readme import readme
from infuse.bindings.templates import filled, reserved
from infuse.dtypes import DType

_WORDS: Final = reserved("go")
_TYPES: Final[Mapping[str, str]] = {
    "bool": "bool",
    "float32": "float32",
    "float64": "float64",
    "float16": "Float16",
    "bfloat16": "BFloat16",
    **{f"{u}int{bits}": f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)},
}


def type_of(dtype: DType) -> str:
    """The type of an element."""
    return _TYPES.get(dtype.name, "int8" if dtype.kind == "i" else "uint8")


def texts(package: Package) -> dict[str, str]:
    """The module, and a program that runs the model."""
    interface = package.interface
    inputs = list(zip(interface.inputs, _names(interface.inputs, "Input")))
    outputs = list(zip(interface.outputs, _names(interface.outputs, "Output")))
    fields = {
        **package.fields,
        "AT": "@",
        **_call(interface),
        "INPUTS": "".join(_input(tensor, name) for tensor, name in inputs),
        "OUTPUTS": "".join(_output(tensor, name) for tensor, name in outputs),
        "DESCRIBED": "\n".join(
            f"\tp{tensor.number} := describe(s.frame[{tensor.offset}:], {tensor.rank}, "
            f"{'' if tensor.optional else '&'}in.{name})"
            for tensor, name in inputs
        ),
        "RESULTS": "\n".join(
            f"\tresize(&out.{name}, s.frame[{t.offset}:{t.offset + t.rank}])"
            for t, name in outputs
            if not t.late
        ),
        "ADDRESSES": _addresses(interface, {t.number: n for t, n in outputs}),
        "LATE": "\n".join(f"\ttake(s, {t.number}, &out.{name})" for t, name in outputs if t.late),
        "SHAPES": "\n".join(
            f"\t\tframe[{t.offset + 2}:{t.offset + 2 + t.rank}:{t.offset + 2 + t.rank}],"
            for t in interface.inputs
        ),
        "READ": "\n".join(
            _read(package, i, tensor, name) for i, (tensor, name) in enumerate(inputs)
        ),
        "WRITE": "\n".join(
            f"\twrite(folder, {i}, out.{name})" for i, (_, name) in enumerate(outputs)
        ),
    }
    named = [
        *((t, f"Inputs.{n}", f"Tensor[{type_of(t.dtype)}]") for t, n in inputs),
        *((t, f"Outputs.{n}", f"Tensor[{type_of(t.dtype)}]") for t, n in outputs),
    ]
    return {
        "go.mod": filled("go/go.mod", fields),
        "model.go": filled("go/model.go", fields),
        "tensor.go": filled("go/tensor.go", fields),
        "example/main.go": filled("go/main.go", fields),
        "README.md": readme(interface, "go", named, fields),
    }


def _names(tensors: Sequence[Tensor], kind: str) -> list[str]:
    return identifiers([each.name for each in tensors], kind, pascal, frozenset())


def _call(interface: Interface) -> dict[str, str]:
    """A function of C whose arguments are all arrays: so that Go passes no pointers to pointers."""
    arrays = [
        *(f"const void* i{each.number}" for each in interface.inputs),
        *(f"void* o{each.number}" for each in interface.results if not each.late),
    ]
    assignments = [
        *(f"  inputs[{each.number}] = i{each.number};" for each in interface.inputs),
        *(
            f"  outputs[{each.number}] = {'NULL' if each.late else f'o{each.number}'};"
            for each in interface.results
        ),
    ]
    return {
        "PARAMETERS": ", ".join(["void* context", "const int64_t* symbols", *arrays]),
        "ASSIGNMENTS": "\n".join(assignments),
        "INPUT_ROOM": str(max(1, len(interface.inputs))),
        "RESULT_ROOM": str(max(1, len(interface.results))),
    }


def _addresses(interface: Interface, names: Mapping[int, str]) -> str:
    arguments = [f"p{each.number}" for each in interface.inputs]
    arguments += [f"pointer(out.{names[e.number]}.Data)" for e in interface.results if not e.late]
    return "".join(f", {argument}" for argument in arguments)


def _input(tensor: Tensor, name: str) -> str:
    mark, suffix = ("*", ", optional") if tensor.optional else ("", "")
    about = f"{shown(tensor.name)}: {shown(tensor.signature)}{suffix}"
    return f"\t// {about}\n\t{name} {mark}Tensor[{type_of(tensor.dtype)}]\n"


def _output(tensor: Tensor, name: str) -> str:
    about = f"{shown(tensor.name)}: {shown(tensor.signature)}"
    return f"\t// {about}\n\t{name} Tensor[{type_of(tensor.dtype)}]\n"


def _read(package: Package, number: int, tensor: Tensor, name: str) -> str:
    kind = type_of(tensor.dtype)
    kind = f"{package.name}.{kind}" if kind[0].isupper() else kind
    read = f"read[{kind}](folder, {number}, shapes[{number}])"
    if tensor.optional:
        return f"\tin.{name} = {read}"
    return (
        f"\tif data := {read}; data != nil {{\n\t\tin.{name} = *data\n\t}} else {{\n"
        f"\t\tin.{name} = {package.name}.Zeros[{kind}](shapes[{number}]...)\n\t}}"
    )


LANGUAGE: Final = Language("go", texts, reserved=_WORDS)
