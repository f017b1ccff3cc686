"""C#: platform invocation, for .NET and Mono."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from infuse.bindings import native
from infuse.bindings.interface import Interface, Tensor
from infuse.bindings.names import identifiers, pascal, shown, words
from infuse.bindings.package import Language, Package
from infuse.bindings.readme import readme
from infuse.bindings.templates import filled, reserved
from infuse.dtypes import DType

_MEMBERS: Final = reserved("csharp")
_TYPES: Final[Mapping[str, str]] = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    "float16": "Float16",
    "bfloat16": "BFloat16",
    "int8": "sbyte",
    "uint8": "byte",
    "int16": "short",
    "uint16": "ushort",
    "int32": "int",
    "uint32": "uint",
    "int64": "long",
    "uint64": "ulong",
}
_SYSTEMS: Final = {"windows": "win", "macos": "osx"}
_PROCESSORS: Final = {"x86_64": "x64", "aarch64": "arm64", "armv7l": "arm"}
NATIVE: Final = "native"


def type_of(dtype: DType) -> str:
    """The type of an element."""
    return _TYPES.get(dtype.name, "sbyte" if dtype.kind == "i" else "byte")


def runtime_of(package: Package) -> str:
    """What .NET calls the platform: linux-x64."""
    target = native.target_of(package)
    system = _SYSTEMS.get(target.system.name, target.system.name)
    musl = "-musl" if target.libc == "musl" else ""
    return f"{system}{musl}-{_PROCESSORS.get(target.architecture, target.architecture)}"


def space_of(package: Package) -> str:
    """The namespace: last_hidden → LastHidden."""
    return re.sub("^(?=[0-9])", "M", pascal(words(package.name)))


def texts(package: Package) -> dict[str, str]:
    """Sources of the package, a project, an example."""
    interface = package.interface
    inputs = list(zip(interface.inputs, _names(interface.inputs, "Input")))
    outputs = list(zip(interface.outputs, _names(interface.outputs, "Output")))
    fields = {
        **package.fields,
        "SPACE": space_of(package),
        "RUNTIME": runtime_of(package),
        "LIBRARY": native.library_name(package),
        "WEIGHTS_ITEM": _WEIGHTS if interface.weights_bytes else "",
        "INPUTS": "\n".join(_property(tensor, name) for tensor, name in inputs),
        "OUTPUTS": "\n".join(_property(tensor, name) for tensor, name in outputs),
        **_statements(interface, inputs, outputs),
        "SHAPES": "\n".join(
            f"                Sizes(frame, {t.offset + 2}, {t.rank})," for t in interface.inputs
        ),
        "READ": "\n".join(
            f"        inputs.{n} = Read<{type_of(t.dtype)}>(folder, {i}, shapes[{i}], "
            f"{str(t.optional).lower()}, {t.dtype.bytes});"
            for i, (t, n) in enumerate(inputs)
        ),
        "WRITE": "\n".join(
            f"            Write(folder, {i}, outputs.{n}, {t.dtype.bytes});"
            for i, (t, n) in enumerate(outputs)
        ),
    }
    named = [
        *((t, f"Inputs.{n}", f"Tensor<{type_of(t.dtype)}>") for t, n in inputs),
        *((t, f"Outputs.{n}", f"Tensor<{type_of(t.dtype)}>") for t, n in outputs),
    ]
    return {
        f"{package.name}.csproj": filled("csharp/model.csproj", fields),
        "src/Model.cs": filled("csharp/Model.cs", fields),
        "src/Session.cs": filled("csharp/Session.cs", fields),
        "src/Tensor.cs": filled("csharp/Tensor.cs", fields),
        "src/Native.cs": filled("csharp/Native.cs", fields),
        "example/Example.cs": filled("csharp/Example.cs", fields),
        "build.sh": filled("csharp/build.sh", fields),
        f"{NATIVE}/{native.SOURCE}": filled("csharp/binding.c", fields),
        "README.md": readme(interface, "csharp", named, fields),
    }


_WEIGHTS: Final = '    <Content Include="weights.bin" PackagePath="contentFiles/any/any" />\n'


def _names(tensors: Sequence[Tensor], kind: str) -> list[str]:
    return identifiers([each.name for each in tensors], kind, pascal, _MEMBERS)


def _property(tensor: Tensor, name: str) -> str:
    suffix = "; optional" if tensor.optional else ""
    about = f"{shown(tensor.name)}: {shown(tensor.signature)}{suffix}"
    return (
        f"        /// <summary>{about}.</summary>\n"
        f"        public Tensor<{type_of(tensor.dtype)}> {name} {{ get; set; }}\n"
    )


def _statements(
    interface: Interface,
    inputs: Sequence[tuple[Tensor, str]],
    outputs: Sequence[tuple[Tensor, str]],
) -> dict[str, str]:
    """What a run consists of."""
    early = [(tensor, name) for tensor, name in outputs if not tensor.late]
    late = [(tensor, name) for tensor, name in outputs if tensor.late]
    pinned = [
        *(f"fixed ({type_of(t.dtype)}* i{t.number} = i{t.number}s)" for t, _ in inputs),
        *(f"fixed ({type_of(t.dtype)}* o{t.number} = o{t.number}s)" for t, _ in early),
    ]
    assignments = [
        *(f"f[{interface.inputs_at + t.number}] = (long)i{t.number};" for t, _ in inputs),
        *(f"f[{interface.results_at + t.number}] = (long)o{t.number};" for t, _ in early),
    ]
    return {
        "DESCRIBED": "\n".join(
            f"            var i{t.number}s = Describe({t.offset}, {t.rank}, inputs.{n});"
            for t, n in inputs
        ),
        "RESULTS": "\n".join(
            f"            outputs.{n} = Resized(outputs.{n}, frame, {t.offset}, {t.rank});\n"
            f"            var o{t.number}s = Elements(outputs.{n}.Data);"
            for t, n in early
        ),
        "PINNED": "\n".join(f"            {each}" for each in pinned),
        "ASSIGNMENTS": "\n".join(f"                {each}" for each in assignments),
        "LATE": "\n".join(_late(tensor, name) for tensor, name in late),
    }


def _late(tensor: Tensor, name: str) -> str:
    kind = type_of(tensor.dtype)
    return f"""            from = Result({tensor.number}, out sizes);
            outputs.{name} = Resized(outputs.{name}, sizes, 0, sizes.Length);
            fixed ({kind}* to = Elements(outputs.{name}.Data))
                Copy(from, to, outputs.{name}.Data.LongLength * {tensor.dtype.bytes});"""


def finish(package: Package, folder: Path) -> tuple[str, ...]:
    """The library of native code."""
    library = folder / "runtimes" / runtime_of(package) / "native" / native.library_name(package)
    native.link(package, folder / NATIVE, folder / NATIVE / "libmodel.a", library)
    (folder / "build.sh").chmod(0o755)
    return ("build.sh makes a library and the example with Mono (mcs)",)


LANGUAGE: Final = Language(
    "csharp",
    texts,
    headers=NATIVE,
    static=NATIVE,
    reserved=frozenset(("system", "example")),
    finish=finish,
)
