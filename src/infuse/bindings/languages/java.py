"""Java: JNI for Java 11 and newer, the foreign function interface from Java 22 on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from infuse.bindings import native
from infuse.bindings.interface import Tensor
from infuse.bindings.names import camel, identifiers, java_literal, shown
from infuse.bindings.package import Language, Package
from infuse.bindings.readme import readme
from infuse.bindings.templates import filled, reserved
from infuse.dtypes import DType

WORDS: Final = reserved("java")


class Kind(NamedTuple):
    """How Java holds elements: the buffer that they are in, and the function of Tensor for it."""

    buffer: str
    maker: str


_KINDS: Final[Mapping[int, Kind]] = {
    1: Kind("ByteBuffer", "bytes"),
    2: Kind("ShortBuffer", "shorts"),
    4: Kind("IntBuffer", "ints"),
    8: Kind("LongBuffer", "longs"),
}
_FLOATS: Final[Mapping[str, Kind]] = {
    "float32": Kind("FloatBuffer", "floats"),
    "float64": Kind("DoubleBuffer", "doubles"),
}
MAIN: Final = "src/main/java"
NATIVE: Final = "src/main/native"
RESOURCES: Final = "src/main/resources"


def kind_of(dtype: DType) -> Kind:
    """How Java holds elements of a type: halves, unsigned numbers and truths by their bits."""
    return _FLOATS.get(dtype.name) or _KINDS[dtype.bytes]


def texts(package: Package) -> dict[str, str]:
    """Sources of the package, an example, and what makes a jar of them."""
    fields, named = fields_of(package)
    main, newest = f"{MAIN}/{package.name}", f"{MAIN}22/{package.name}"
    sources = ("Inputs", "Library", "Model", "ModelException", "Native", "Outputs", "Session")
    return {
        **{f"{main}/{name}.java": filled(f"java/{name}.java", fields) for name in sources},
        f"{main}/Tensor.java": filled("java/Tensor.java", fields),
        f"{newest}/Native.java": filled("java/Native22.java", fields),
        f"{NATIVE}/{native.SOURCE}": filled("java/binding.c", fields),
        "example/Example.java": filled("java/Example.java", fields),
        "build.sh": filled("java/build.sh", fields),
        "README.md": readme(package.interface, "java", named, fields),
    }


def fields_of(package: Package) -> tuple[dict[str, str], list[tuple[Tensor, str, str]]]:
    """The fields of templates, and tensors with their names and types for a README.md."""
    interface = package.interface
    inputs = list(zip(interface.inputs, names_of(interface.inputs, "input")))
    outputs = list(zip(interface.outputs, names_of(interface.outputs, "output")))
    results = interface.results_at
    fields = {
        **package.fields,
        "MANGLED": package.name.replace("_", "_1"),
        "LIBRARY": native.library_name(package),
        "HAS_WEIGHTS": str(bool(interface.weights_bytes)).lower(),
        "INPUTS": "\n".join(_input(tensor, name) for tensor, name in inputs),
        "OUTPUTS": "\n".join(_output(tensor, name) for tensor, name in outputs),
        "DESCRIBED": "\n".join(
            f"      describe({t.offset}, {interface.inputs_at + t.number}, {t.rank}, inputs.{n});"
            for t, n in inputs
        ),
        "RESULTS": "\n".join(
            f"      outputs.{n} = Tensor.resized(outputs.{n}, Tensor::{kind_of(t.dtype).maker}, "
            f"frame, {t.offset}, {t.rank});\n"
            f"      frame.put({results + t.number}, outputs.{n}.address());"
            for t, n in outputs
            if not t.late
        ),
        "LATE": "\n".join(
            f"      outputs.{n} = late({t.number}, outputs.{n}, Tensor::{kind_of(t.dtype).maker});"
            for t, n in outputs
            if t.late
        ),
        "SHAPES": ",\n".join(
            f"      shape(frame, {t.offset + 2}, {t.rank})" for t in interface.inputs
        ),
        "READ": "\n".join(
            f"    inputs.{n}(read(folder, {i}, shapes[{i}], Tensor::{kind_of(t.dtype).maker}, "
            f"{str(t.optional).lower()}));"
            for i, (t, n) in enumerate(inputs)
        ),
        "WRITE": "\n".join(
            f"        write(folder, {i}, outputs.{name}());" for i, (_, name) in enumerate(outputs)
        ),
        "INPUT_NAMES": ", ".join(java_literal(each.name) for each in interface.inputs),
    }
    named = [(t, f"{n}(…)", f"Tensor<{kind_of(t.dtype).buffer}>") for t, n in inputs]
    named += [(t, f"{n}()", f"Tensor<{kind_of(t.dtype).buffer}>") for t, n in outputs]
    return fields, named


def names_of(tensors: Sequence[Tensor], kind: str) -> list[str]:
    """The names of methods for tensors."""
    return identifiers([each.name for each in tensors], kind, camel, WORDS)


def _input(tensor: Tensor, name: str) -> str:
    kind = f"Tensor<{kind_of(tensor.dtype).buffer}>"
    suffix = "; optional" if tensor.optional else ""
    return f"""  {kind} {name};

  /** {shown(tensor.name)}: {shown(tensor.signature)}{suffix}. */
  public Inputs {name}({kind} tensor) {{
    {name} = tensor;
    return this;
  }}
"""


def _output(tensor: Tensor, name: str) -> str:
    kind = f"Tensor<{kind_of(tensor.dtype).buffer}>"
    return f"""  {kind} {name};

  /** {shown(tensor.name)}: {shown(tensor.signature)}. */
  public {kind} {name}() {{
    return {name};
  }}
"""


def finish(package: Package, folder: Path) -> tuple[str, ...]:
    """The library of native code that the classes load."""
    resources = folder / RESOURCES / package.name
    library = resources / native.library_name(package)
    native.link(package, folder / NATIVE, folder / NATIVE / "libmodel.a", library)
    (folder / "build.sh").chmod(0o755)
    return ("build.sh makes a jar of it, with javac 11 or newer",)


LANGUAGE: Final = Language(
    "java",
    texts,
    headers=NATIVE,
    static=NATIVE,
    weights=f"{RESOURCES}/@NAME@",
    reserved=WORDS,
    finish=finish,
)
