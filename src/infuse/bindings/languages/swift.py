"""Swift: a package with a module of C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from infuse.bindings.interface import Tensor
from infuse.bindings.names import camel, identifiers, pascal, shown, words
from infuse.bindings.package import Language, Package
from infuse.bindings.readme import readme
from infuse.bindings.templates import filled, reserved
from infuse.dtypes import DType

_WORDS: Final = reserved("swift")
_TYPES: Final[Mapping[str, str]] = {
    "bool": "Bool",
    "float32": "Float",
    "float64": "Double",
    **{f"{u}int{bits}": f"{u.upper()}Int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)},
}


def type_of(dtype: DType) -> str:
    """The type of an element; halves are their bits."""
    return _TYPES.get(dtype.name) or (
        "UInt16" if dtype.bytes == 2 else "Int8" if dtype.kind == "i" else "UInt8"
    )


def texts(package: Package) -> dict[str, str]:
    """The package, its module of C, an example."""
    interface, module = package.interface, pascal(words(package.name))
    inputs = list(zip(interface.inputs, _names(interface.inputs, "input")))
    outputs = list(zip(interface.outputs, _names(interface.outputs, "output")))
    fields = {
        **package.fields,
        "MODULE": module,
        "INPUTS": "".join(_field(tensor, name) for tensor, name in inputs),
        "PARAMETERS": ", ".join(
            f"{n}: Tensor<{type_of(t.dtype)}>{'? = nil' if t.optional else ''}" for t, n in inputs
        ),
        "ASSIGNED": "\n".join(f"    self.{name} = {name}" for _, name in inputs),
        "OUTPUTS": "".join(
            f"  /// {shown(t.name)}: {shown(t.signature)}\n"
            f"  public internal(set) var {n} = Tensor<{type_of(t.dtype)}>(zeros: [0])\n"
            for t, n in outputs
        ),
        "DESCRIBED": "\n".join(
            f"    describe({t.offset}, {interface.inputs_at + t.number}, {t.rank}, inputs.{n})"
            for t, n in inputs
        ),
        "RESULTS": "\n".join(
            f"    outputs.{n} = outputs.{n}.resized(sizes({t.offset}, {t.rank}))\n"
            f"    frame[{interface.results_at + t.number}] = outputs.{n}.address"
            for t, n in outputs
            if not t.late
        ),
        "LATE": "\n".join(
            f"    outputs.{n} = late({t.number}, outputs.{n})" for t, n in outputs if t.late
        ),
        "SHAPES": "\n".join(
            f"    (0..<{t.rank}).map {{ Int(frame[{t.offset + 2} + $0]) }},"
            for t in interface.inputs
        ),
        "ARGUMENTS": ", ".join(
            f"{n}: Tensor(zeros: shapes[{i}])" for i, (t, n) in enumerate(inputs) if not t.optional
        ),
        "PRINTED": "\n".join(
            f'print("output {i}:", outputs.{name}.shape)' for i, (_, name) in enumerate(outputs)
        ),
    }
    named = [
        *((t, f"Inputs.{n}", f"Tensor<{type_of(t.dtype)}>") for t, n in inputs),
        *((t, f"Outputs.{n}", f"Tensor<{type_of(t.dtype)}>") for t, n in outputs),
    ]
    return {
        "Package.swift": filled("swift/Package.swift", fields),
        f"Sources/{module}/Model.swift": filled("swift/Model.swift", fields),
        f"Sources/{module}/Tensor.swift": filled("swift/Tensor.swift", fields),
        "Sources/example/main.swift": filled("swift/main.swift", fields),
        "Sources/CModel/include/module.modulemap": filled("swift/module.modulemap", fields),
        "Sources/CModel/binding.c": '#include "binding.h"\n',
        "README.md": readme(interface, "swift", named, fields),
    }


def _names(tensors: Sequence[Tensor], kind: str) -> list[str]:
    return identifiers([each.name for each in tensors], kind, camel, _WORDS)


def _field(tensor: Tensor, name: str) -> str:
    mark, suffix = ("?", "; optional") if tensor.optional else ("", "")
    about = f"{shown(tensor.name)}: {shown(tensor.signature)}{suffix}"
    return f"  /// {about}\n  public var {name}: Tensor<{type_of(tensor.dtype)}>{mark}\n"


LANGUAGE: Final = Language(
    "swift",
    texts,
    headers="Sources/CModel/include",
    static="Sources/CModel",
    reserved=_WORDS | {"cmodel"},
)
