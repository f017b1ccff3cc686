"""C++: one header, with a CMake target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from infuse.bindings.interface import Tensor
from infuse.bindings.names import identifiers, shown, snake
from infuse.bindings.package import Language, Package
from infuse.bindings.readme import readme
from infuse.bindings.templates import filled, reserved
from infuse.dtypes import DType
from infuse.options import PREFIX

_WORDS: Final = reserved("cpp")
_TYPES: Final[Mapping[str, str]] = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    "float16": "float16",
    "bfloat16": "bfloat16",
    **{f"{u}int{bits}": f"std::{u}int{bits}_t" for u in ("", "u") for bits in (8, 16, 32, 64)},
}
"""What elements are; those of less than 8 bits, and floats of 8, lie in a byte each."""


def type_of(dtype: DType) -> str:
    """The type of an element."""
    signed = dtype.kind == "i"
    return _TYPES.get(dtype.name, "std::int8_t" if signed else "std::uint8_t")


def texts(package: Package) -> dict[str, str]:
    """The header, an example, how CMake finds the package."""
    interface = package.interface
    inputs = list(zip(interface.inputs, _names(interface.inputs, "input")))
    outputs = list(zip(interface.outputs, _names(interface.outputs, "output")))
    fields = {
        **package.fields,
        "INPUTS": "".join(_input(tensor, name) for tensor, name in inputs),
        "OUTPUTS": "".join(_output(tensor, name) for tensor, name in outputs),
        "DESCRIBED": "\n".join(
            f"    describe({tensor.offset}, {interface.inputs_at + tensor.number}, "
            f"{tensor.rank}, inputs.{name});"
            for tensor, name in inputs
        ),
        "RESULTS": "\n".join(_result(package, tensor, name) for tensor, name in outputs),
        "LATE": "\n".join(
            f"    take({tensor.number}, outputs.{name});" for tensor, name in outputs if tensor.late
        ),
        "LISTED": "\n".join(
            f"    frame_[{interface.results_at + each.number}] = 0;"
            for each in interface.results
            if each.late
        ),
        "READ": "\n".join(
            f"    auto data{i} = read<{_qualified(package, tensor)}>(folder, {i}, frame + "
            f"{tensor.offset}, {str(tensor.optional).lower()});\n"
            f"    if (data{i}.size() >= 0) inputs.{name} = data{i};"
            for i, (tensor, name) in enumerate(inputs)
        ),
        "WRITE": "\n".join(
            f"    write(folder, {i}, outputs.{name});" for i, (_, name) in enumerate(outputs)
        ),
        "WEIGHTS_ARGUMENT": '(argc > 1 ? argv[1] : ".") + std::string("/weights.bin")',
    }
    named = [
        (t, f"{k}.{n}", type_of(t.dtype))
        for k, p in (("inputs", inputs), ("outputs", outputs))
        for t, n in p
    ]
    return {
        f"{package.name}.hpp": filled("cpp/model.hpp", fields),
        "example.cpp": filled("cpp/example.cpp", fields),
        "CMakeLists.txt": filled("cpp/CMakeLists.txt", fields),
        "README.md": readme(interface, "cpp", named, fields),
    }


def _qualified(package: Package, tensor: Tensor) -> str:
    kind = type_of(tensor.dtype)
    return f"{package.name}::{kind}" if kind.endswith("float16") else kind


def _names(tensors: Sequence[Tensor], kind: str) -> list[str]:
    return identifiers([each.name for each in tensors], kind, snake, _WORDS)


def _input(tensor: Tensor, name: str) -> str:
    suffix = ", optional" if tensor.optional else ""
    about = f"{shown(tensor.name)}: {shown(tensor.signature)}{suffix}"
    return f"  View<{type_of(tensor.dtype)}> {name}; ///< {about}\n"


def _output(tensor: Tensor, name: str) -> str:
    about = f"{shown(tensor.name)}: {shown(tensor.signature)}"
    return f"  Tensor<{type_of(tensor.dtype)}> {name}; ///< {about}\n"


def _result(package: Package, tensor: Tensor, name: str) -> str:
    interface = package.interface
    if tensor.late:
        return f"    frame_[{interface.results_at + tensor.number}] = 0;"
    return (
        f"    outputs.{name}.resize(frame_ + {tensor.offset}, {tensor.rank});\n"
        f"    frame_[{interface.results_at + tensor.number}] = address(outputs.{name}.data());"
    )


LANGUAGE: Final = Language(
    "cpp", texts, headers="", static="", reserved=_WORDS | {PREFIX, "model", "binding"}
)
