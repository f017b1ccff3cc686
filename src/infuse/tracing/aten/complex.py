"""Operators of complex numbers, as tensors of their real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from infuse.ir.graph import Value
from infuse.tracing.aten.calls import (
    Complex,
    Handler,
    Meta,
    TorchImporter,
    aten,
    handler_of,
    part_type,
)

_H = TypeVar("_H", bound=Handler)


def complex_aten(*names: str) -> Callable[[_H], _H]:
    """Register what builds these operators where an operand or a result is complex."""
    return aten(*names, space="complex")


def parts_of(g: TorchImporter, x: Any) -> Value:
    """[…, 2]: the parts of a complex operand, a real one, or a number."""
    if isinstance(x, Complex):
        return x.parts
    if isinstance(x, Value):
        return joined(g, x, g.expand(g.number(0, x.dtype), g("Shape", x)))
    pair = np.array([complex(x).real, complex(x).imag], part_type(g.dtype).numpy)
    return g.constant(pair)


def joined(g: TorchImporter, real: Value, imaginary: Value) -> Value:
    """Parts side by side."""
    last = g.ints(-1)
    return g("Concat", g("Unsqueeze", real, last), g("Unsqueeze", imaginary, last), axis=-1)


def real_of(g: TorchImporter, x: Any) -> Value:
    """The real parts."""
    return g("Gather", parts_of(g, x), g.constant(np.int64(0)), axis=-1)


def imaginary_of(g: TorchImporter, x: Any) -> Value:
    """The imaginary parts."""
    return g("Gather", parts_of(g, x), g.constant(np.int64(1)), axis=-1)


# -- between complex and real ----------------------------------------------------------------------


@complex_aten("view_as_real", "view_as_real_copy")
def view_as_real(g: TorchImporter, x: Complex) -> Value:
    """The parts along a last axis."""
    return x.parts


@complex_aten("view_as_complex", "view_as_complex_copy")
def view_as_complex(g: TorchImporter, x: Value) -> Complex:
    """What a last axis has the parts of."""
    return Complex(x)


complex_aten("real")(real_of)
complex_aten("imag")(imaginary_of)


@complex_aten("complex")
def complex_of(g: TorchImporter, real: Value, imag: Value) -> Complex:
    """Real and imaginary parts together."""
    shape = g("Shape", g("Add", real, imag))
    return Complex(joined(g, g.expand(real, shape), g.expand(imag, shape)))


@complex_aten("polar")
def polar(g: TorchImporter, abs: Value, angle: Value) -> Complex:
    """Lengths and angles together."""
    return Complex(joined(g, g("Mul", abs, g("Cos", angle)), g("Mul", abs, g("Sin", angle))))


@complex_aten("abs")
def length(g: TorchImporter, x: Complex) -> Value:
    """√(re² + im²), scaled so that squares do not overflow."""
    return g("ReduceL2", x.parts, g.ints(-1), keepdims=0)


@complex_aten("angle")
def angle(g: TorchImporter, x: Complex) -> Value:
    """The angle, from -π to π."""
    handler = handler_of("aten.atan2.default")
    assert handler is not None
    made: Value = handler(g, imaginary_of(g, x), real_of(g, x))
    return made


@complex_aten(
    "clone", "contiguous", "detach", "alias", "lift_fresh_copy", "resolve_conj", "_to_copy"
)
def same(g: TorchImporter, x: Any, *options: Any, **more: Any) -> Complex:
    """X, its parts in the type of those of the result."""
    return Complex(g.cast(parts_of(g, x), part_type(g.dtype)))


# -- arithmetic ------------------------------------------------------------------------------------


@complex_aten("conj", "_conj", "conj_physical", "_conj_physical")
def conjugate(g: TorchImporter, x: Complex) -> Complex:
    """X with imaginary parts of the other sign."""
    return Complex(g("Mul", x.parts, g.constant(np.array([1, -1], x.parts.dtype.numpy))))


@complex_aten("neg")
def negative(g: TorchImporter, x: Complex) -> Complex:
    """-x."""
    return Complex(g("Neg", x.parts))


def _sum(kind: str) -> Handler:
    def build(g: TorchImporter, x: Any, other: Any, alpha: Any = 1) -> Complex:
        a, b = parts_of(g, x), parts_of(g, other)
        if alpha != 1:
            b = product(g, other, alpha).parts
        return Complex(g(kind, a, b))

    return build


complex_aten("add")(_sum("Add"))
complex_aten("sub")(_sum("Sub"))


@complex_aten("mul")
def product(g: TorchImporter, x: Any, other: Any) -> Complex:
    """X · other; one of them may be real."""
    for a, b in ((x, other), (other, x)):
        if isinstance(a, Complex) and not isinstance(b, (Complex, complex)):
            factor = g("Unsqueeze", b, g.ints(-1)) if isinstance(b, Value) else b
            return Complex(g("Mul", a.parts, g.tensor(factor, a.parts.dtype)))
    (a, b), (c, d) = ((real_of(g, v), imaginary_of(g, v)) for v in (x, other))
    real = g("Sub", g("Mul", a, c), g("Mul", b, d))
    return Complex(joined(g, real, g("Add", g("Mul", a, d), g("Mul", b, c))))


@complex_aten("div", "true_divide")
def quotient(g: TorchImporter, x: Any, other: Any) -> Complex:
    """X / other; one of them may be real."""
    if not isinstance(other, (Complex, complex)):
        factor = g("Unsqueeze", other, g.ints(-1)) if isinstance(other, Value) else other
        return Complex(g("Div", parts_of(g, x), g.tensor(factor, x.parts.dtype)))
    divisor = Complex(parts_of(g, other))
    square = g("ReduceSumSquare", divisor.parts, g.ints(-1), keepdims=1)
    above = product(g, x, conjugate(g, divisor))
    return Complex(g("Div", above.parts, square))


@complex_aten("exp")
def exponential(g: TorchImporter, x: Complex) -> Complex:
    """E to the power of x."""
    return polar(g, g("Exp", real_of(g, x)), imaginary_of(g, x))


# -- moving elements -------------------------------------------------------------------------------


def _inside(name: str, *axes: int, new: bool = False) -> None:
    """Build an operator on the parts: arguments at these positions behind the tensor are axes."""

    def build(g: TorchImporter, x: Any, *args: Any, **named: Any) -> Any:
        tensors: Any = [v.parts for v in x] if isinstance(x, list) else x.parts
        first: Value = tensors[0] if isinstance(x, list) else tensors
        rank = first.rank - 1 + new
        if rank < 1:
            raise g.unsupported("a complex tensor without axes")
        if name == "roll.default" and len(args) < 2:
            raise g.unsupported("rolling all complex elements")
        listed = list(args)
        for place in axes:
            if place < len(listed):
                listed[place] = _from_front(listed[place], rank)
        named = {k: _from_front(v, rank) if k in ("dim", "dims") else v for k, v in named.items()}
        if named.get("dtype") is not None:
            named["dtype"] = part_type(named["dtype"])
        handler = handler_of(f"aten.{name}")
        assert handler is not None
        metas = g.results
        g.results = [Meta(part_type(m.dtype), (*m.sizes, 2)) for m in metas]
        try:
            made = handler(g, tensors, *listed, **named)
        finally:
            g.results = metas
        return [Complex(v) for v in made] if isinstance(made, list) else Complex(made)

    complex_aten(name)(build)


def _from_front(axis: Any, rank: int) -> Any:
    return [a % rank for a in axis] if isinstance(axis, list) else axis % rank


for _name, _places in (
    ("slice.Tensor", (0,)),
    ("select.int", (0,)),
    ("cat.default", (0,)),
    ("flip.default", (0,)),
    ("narrow.default", (0,)),
    ("transpose.int", (0, 1)),
    ("squeeze.dim", (0,)),
    ("squeeze.dims", (0,)),
    ("index_select.default", (0,)),
    ("roll.default", (1,)),
    ("sum.dim_IntList", (0,)),
    ("mean.dim", (0,)),
    ("split.Tensor", (1,)),
    ("split_with_sizes.default", (1,)),
):
    _inside(_name, *_places)
_inside("unsqueeze.default", 0, new=True)
_inside("stack.default", 0, new=True)


@complex_aten("t")
def transposed(g: TorchImporter, x: Complex) -> Complex:
    """A matrix with its axes exchanged."""
    return Complex(g.permute(x.parts, 1, 0, 2) if x.parts.rank == 3 else x.parts)


@complex_aten("permute")
def permute(g: TorchImporter, x: Complex, dims: Sequence[int]) -> Complex:
    """X with its axes in another order."""
    rank = x.parts.rank - 1
    return Complex(g.permute(x.parts, *(d % rank for d in dims), rank))


@complex_aten("view", "reshape", "_unsafe_view")
def reshaped(g: TorchImporter, x: Complex, size: Sequence[Any]) -> Complex:
    """X in another shape."""
    return Complex(g.shaped(x.parts, *size, 2))


@complex_aten("expand")
def expanded(g: TorchImporter, x: Complex, size: Sequence[Any], implicit: bool = False) -> Complex:
    """X repeated to a shape; -1 leaves a size."""
    handler = handler_of("aten.expand.default")
    assert handler is not None
    return Complex(handler(g, x.parts, [*size, 2]))


@complex_aten("constant_pad_nd")
def padded(g: TorchImporter, x: Complex, pad: Sequence[int], value: Any = 0) -> Complex:
    """Zeros around, from the last axis on."""
    if value:
        raise g.unsupported("padding of complex numbers with others than zeros")
    handler = handler_of("aten.constant_pad_nd.default")
    assert handler is not None
    return Complex(handler(g, x.parts, [0, 0, *pad], 0))


# -- Fourier transforms ----------------------------------------------------------------------------

_BY_ROOT, _BY_COUNT = 1, 2
_AXES: Final = "a Fourier transform along an axis of unknown length"


def _scaled(g: TorchImporter, y: Value, counts: Sequence[Any], how: int) -> Value:
    """What is not scaled, divided by the number of elements or its root."""
    if how not in (_BY_ROOT, _BY_COUNT):
        return y
    if not all(isinstance(count, int) for count in counts):
        raise g.unsupported(_AXES)
    count = float(np.prod(np.array(counts)))
    return g("Div", y, g.number(count**0.5 if how == _BY_ROOT else count, y.dtype))


def _transformed(g: TorchImporter, parts: Value, axis: int, **how: int) -> Value:
    return g("DFT", parts, None, g.constant(np.int64(axis)), **how)


@complex_aten("_fft_c2c")
def fft(g: TorchImporter, x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    """Complex numbers from complex numbers."""
    parts = parts_of(g, x)
    axes = [d % (parts.rank - 1) for d in dim]
    counts = [parts.shape[axis] for axis in axes]
    for axis in axes:
        parts = _transformed(g, parts, axis, inverse=int(not forward))
    if not forward:  # the operator divides by the count, torch says by what
        if not all(isinstance(count, int) for count in counts):
            raise g.unsupported(_AXES)
        parts = g("Mul", parts, g.number(float(np.prod(np.array(counts))), parts.dtype))
    return Complex(_scaled(g, parts, counts, normalization))


@complex_aten("_fft_r2c")
def rfft(
    g: TorchImporter, x: Value, dim: Sequence[int], normalization: int, onesided: bool
) -> Complex:
    """Complex numbers from real ones; half of the last axis, as the rest are their conjugates."""
    axes = [d % x.rank for d in dim]
    counts = [x.shape[axis] for axis in axes]
    parts = g("Unsqueeze", x, g.ints(-1))
    parts = _transformed(g, parts, axes[-1], onesided=int(onesided))
    for axis in axes[:-1]:
        parts = _transformed(g, parts, axis)
    return Complex(_scaled(g, parts, counts, normalization))


@complex_aten("_fft_c2r")
def irfft(
    g: TorchImporter, x: Complex, dim: Sequence[int], normalization: int, last_dim_size: Any
) -> Value:
    """Real numbers from half of the complex ones."""
    parts = x.parts
    *others, last = [d % (parts.rank - 1) for d in dim]
    size = parts.shape[last]
    if not isinstance(size, int) or not isinstance(last_dim_size, int):
        raise g.unsupported(_AXES)
    inner = Complex(parts)
    if others:
        inner = fft(g, inner, others, 0, False)
    half = last_dim_size // 2 + 1
    parts = inner.parts
    if size > half:
        parts = g.part(parts, last, 0, half)
    if size < half:
        pads = np.zeros((2, parts.rank), np.int64)
        pads[1, last] = half - size
        parts = g("Pad", parts, g.constant(pads.reshape(-1)))
    behind = np.arange(last_dim_size - half, 0, -1, dtype=np.int64)
    rest = conjugate(g, Complex(g("Gather", parts, g.constant(behind), axis=last))).parts
    # At 0 and at half of an even count only real parts count.
    whole = g("Concat", parts, rest, axis=last)
    counts = [last_dim_size, *(inner.parts.shape[axis] for axis in others)]
    made = _transformed(g, whole, last, inverse=1)
    made = g("Gather", made, g.constant(np.int64(0)), axis=-1)
    made = g("Mul", made, g.number(float(last_dim_size), made.dtype))
    return _scaled(g, made, counts, normalization)
