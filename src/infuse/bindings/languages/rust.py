"""Rust: a crate whose build script compiles what all languages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from infuse.bindings.interface import Tensor
from infuse.bindings.names import identifiers, shown, snake
from infuse.bindings.package import Language, Package
from infuse.bindings.readme import readme
from infuse.bindings.templates import filled, reserved
from infuse.dtypes import DType

_WORDS: Final = reserved("rust")
_TYPES: Final[Mapping[str, str]] = {
    "bool": "bool",
    "float32": "f32",
    "float64": "f64",
    "float16": "Float16",
    "bfloat16": "BFloat16",
    **{f"{u}int{bits}": f"{u or 'i'}{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)},
}


def type_of(dtype: DType) -> str:
    """The type of an element."""
    return _TYPES.get(dtype.name, "i8" if dtype.kind == "i" else "u8")


def texts(package: Package) -> dict[str, str]:
    """The crate, and an example that runs the model."""
    interface = package.interface
    inputs = list(zip(interface.inputs, _names(interface.inputs, "input")))
    outputs = list(zip(interface.outputs, _names(interface.outputs, "output")))
    fields = {
        **package.fields,
        "INPUTS": "".join(_input(tensor, name) for tensor, name in inputs)
        or "    #[doc(hidden)]\n    pub nothing: std::marker::PhantomData<&'a ()>,\n",
        "OUTPUTS": "".join(_output(tensor, name) for tensor, name in outputs),
        "DESCRIBED": "\n".join(
            f"        describe(frame, {t.offset}, {interface.inputs_at + t.number}, {t.rank}, "
            f"{f'inputs.{name}.as_ref()' if t.optional else f'Some(&inputs.{name})'});"
            for t, name in inputs
        ),
        "RESULTS": "\n".join(
            f"        frame[{interface.results_at + t.number}] = outputs.{name}"
            f".reserve(&frame[{t.offset}..{t.offset + t.rank}]) as isize as i64;"
            for t, name in outputs
            if not t.late
        ),
        "FILLED": "\n".join(
            f"        unsafe {{ outputs.{name}.filled() }};" for t, name in outputs if not t.late
        ),
        "LATE": "\n".join(
            f"        unsafe {{ take(context, {t.number}, &mut outputs.{name}) }};"
            for t, name in outputs
            if t.late
        ),
        "SHAPES": "\n".join(
            f"        sizes_of(&frame[{t.offset + 2}..{t.offset + 2 + t.rank}]),"
            for t in interface.inputs
        ),
        "READ": "\n".join(
            f"    let data{i} = read::<{_qualified(package, t)}>(&folder, {i}, &shapes[{i}], "
            f"{str(t.optional).lower()});"
            for i, (t, _) in enumerate(inputs)
        ),
        "FIELDS": "\n".join(_field(i, t, name) for i, (t, name) in enumerate(inputs))
        or "        nothing: Default::default(),",
        "WRITE": "\n".join(
            f"    write(&folder, {i}, &outputs.{name})?;" for i, (_, name) in enumerate(outputs)
        ),
    }
    named = [
        *((t, f"Inputs::{n}", f"View<{type_of(t.dtype)}>") for t, n in inputs),
        *((t, f"Outputs::{n}", f"Tensor<{type_of(t.dtype)}>") for t, n in outputs),
    ]
    return {
        "Cargo.toml": filled("rust/Cargo.toml", fields),
        "build.rs": filled("rust/build.rs", fields),
        "src/lib.rs": filled("rust/lib.rs", fields),
        "src/tensor.rs": filled("rust/tensor.rs", fields),
        "examples/example.rs": filled("rust/example.rs", fields),
        "native/binding.c": filled("rust/binding.c", fields),
        "README.md": readme(interface, "rust", named, fields),
    }


def _names(tensors: Sequence[Tensor], kind: str) -> list[str]:
    return identifiers([each.name for each in tensors], kind, snake, _WORDS)


def _qualified(package: Package, tensor: Tensor) -> str:
    kind = type_of(tensor.dtype)
    return f"{package.name}::{kind}" if kind[0].isupper() else kind


def _input(tensor: Tensor, name: str) -> str:
    kind = f"View<'a, {type_of(tensor.dtype)}>"
    kind = f"Option<{kind}>" if tensor.optional else kind
    return f"    /// `{shown(tensor.name)}`: {_quoted(tensor)}\n    pub {name}: {kind},\n"


def _output(tensor: Tensor, name: str) -> str:
    kind = type_of(tensor.dtype)
    return f"    /// `{shown(tensor.name)}`: {_quoted(tensor)}\n    pub {name}: Tensor<{kind}>,\n"


def _quoted(tensor: Tensor) -> str:
    return f"`{shown(tensor.signature)}`"


def _field(number: int, tensor: Tensor, name: str) -> str:
    data = f"data{number}"
    if tensor.optional:
        return f"        {name}: {data}.as_ref().map(|data| data.into()),"
    return f'        {name}: {data}.as_ref().expect("an input").into(),'


LANGUAGE: Final = Language(
    "rust", texts, headers="native", static="native", weights="", reserved=_WORDS
)
