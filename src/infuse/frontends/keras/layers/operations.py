"""Operations of `keras.ops` in a model: their options stand in the configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.errors import ModelFileError
from infuse.frontends.keras.calls import Call, layer, promoted
from infuse.frontends.keras.config import axes_of
from infuse.frontends.keras.layers.activations import FUNCTIONS
from infuse.ir.graph import Value

Operation = Callable[..., Any]
OPERATIONS: Final[dict[str, Operation]] = {}
"""By class: functions of the call, the operands, and the fields of the configuration."""


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Register what builds operations of these classes."""

    def register(function: Operation) -> Operation:
        for name in names:
            assert name not in OPERATIONS, f"{name} has two entries"
            OPERATIONS[name] = function
        return function

    return register


def _registered(function: Operation) -> Operation:
    def build(call: Call, *args: Any, **kwargs: Any) -> Any:
        fields = {k: v for k, v in call.config.fields.items() if k not in ("name", "dtype")}
        if "dtype" in call.config and "name" in call.config and function in _TYPED:
            fields["dtype"] = call.config.get("dtype")
        return function(call, *args, **{**fields, **kwargs})

    return build


_TYPED: Final[set[Operation]] = set()
"""Those whose field `dtype` is an option of theirs."""


def tensor(call: Call, value: Any, dtype: Any = None) -> Value:
    """An operand as a value: a tensor, or numbers of Python in a type that goes with others."""
    if isinstance(value, Value):
        return value if dtype is None else call.g.cast(value, dtype)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ModelFileError(f"{str(value)[:60]!r} is no tensor")
    if dtype is None:
        kinds = {"b": dtypes.bool_, "f": dtypes.float32}
        dtype = kinds.get(array.dtype.kind, dtypes.int32)
    return call.g.constant(array.astype(dtype.numpy))


def together(call: Call, *values: Any) -> list[Value]:
    """Operands in one element type."""
    plain = [v.item() if isinstance(v, np.ndarray) and v.ndim == 0 else v for v in values]
    listed = [v if not isinstance(v, (list, np.ndarray)) else tensor(call, v) for v in plain]
    dtype = promoted(*listed)
    return [tensor(call, value, dtype) for value in listed]


def real(call: Call, value: Any) -> Value:
    """An operand as floats."""
    x = tensor(call, value)
    return x if x.dtype.is_float else call.g.cast(x, dtypes.float32)


# -- every element by itself -----------------------------------------------------------------------


def _unary(kind: str, floats: bool = True) -> Operation:
    def build(call: Call, x: Any) -> Value:
        return call.g(kind, real(call, x) if floats else tensor(call, x))

    return build


_FLOATS: Final = (
    *("Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Erf", "Reciprocal"),
    *("Sigmoid", "Softplus", "Softsign", "Selu"),
)
for _name in _FLOATS:
    operation(_name)(_unary(_name))
for _name, _kind in (
    *(("Arccos", "Acos"), ("Arcsin", "Asin"), ("Arctan", "Atan"), ("Silu", "Swish")),
    *(("Arccosh", "Acosh"), ("Arcsinh", "Asinh"), ("Arctanh", "Atanh")),
):
    operation(_name)(_unary(_kind))
for _name, _kind in (
    *(("Absolute", "Abs"), ("Abs", "Abs"), ("Negative", "Neg"), ("Sign", "Sign"), ("Relu", "Relu")),
    *(("Isnan", "IsNaN"), ("Isinf", "IsInf")),
):
    operation(_name)(_unary(_kind, floats=False))
for _name in ("Floor", "Ceil"):
    operation(_name)(_unary(_name))


@operation("Round")
def rounded(call: Call, x: Any, decimals: int = 0) -> Value:
    """Whole numbers, halves to even ones."""
    if decimals:
        raise call.unsupported(f"decimals = {decimals}")
    return call.g("Round", real(call, x))


def _named(name: str) -> Operation:
    def build(call: Call, x: Any, **options: Any) -> Value:
        return FUNCTIONS[name](call.g, real(call, x), **options)

    return build


for _name, _kind in (
    *(("Relu6", "relu6"), ("LeakyRelu", "leaky_relu"), ("Elu", "elu"), ("Celu", "celu")),
    *(("Gelu", "gelu"), ("Glu", "glu"), ("HardSigmoid", "hard_sigmoid"), ("Softmax", "softmax")),
    *(("HardSilu", "hard_silu"), ("HardTanh", "hard_tanh"), ("HardShrink", "hard_shrink")),
    *(("SoftShrink", "soft_shrink"), ("TanhShrink", "tanh_shrink"), ("Threshold", "threshold")),
    *(("LogSigmoid", "log_sigmoid"), ("LogSoftmax", "log_softmax"), ("Sparsemax", "sparsemax")),
    *(("SparsePlus", "sparse_plus"), ("SparseSigmoid", "sparse_sigmoid")),
    ("Squareplus", "squareplus"),
):
    operation(_name)(_named(_kind))


def _binary(kind: str, floats: bool = False) -> Operation:
    def build(call: Call, x1: Any, x2: Any) -> Value:
        a, b = together(call, x1, x2)
        if floats:
            a, b = real(call, a), real(call, b)
        return call.g(kind, a, b)

    return build


for _name, _kind in (
    *(("Add", "Add"), ("Subtract", "Sub"), ("Multiply", "Mul"), ("Maximum", "Max")),
    *(("Minimum", "Min"), ("Power", "Pow"), ("Matmul", "MatMul"), ("Equal", "Equal")),
    *(("Greater", "Greater"), ("GreaterEqual", "GreaterOrEqual"), ("Less", "Less")),
    ("LessEqual", "LessOrEqual"),
):
    operation(_name)(_binary(_kind))
for _name in ("Divide", "TrueDivide"):
    operation(_name)(_binary("Div", floats=True))


@operation("NotEqual")
def not_equal(call: Call, x1: Any, x2: Any) -> Value:
    """Whether elements differ."""
    return call.g("Not", call.g("Equal", *together(call, x1, x2)))


@operation("FloorDivide")
def floor_divide(call: Call, x1: Any, x2: Any) -> Value:
    """The quotient, rounded down."""
    a, b = together(call, x1, x2)
    dtype = a.dtype
    return call.g.cast(call.g("Floor", call.g("Div", real(call, a), real(call, b))), dtype)


@operation("Mod")
def mod(call: Call, x1: Any, x2: Any) -> Value:
    """The remainder, with the sign of the divisor."""
    g, (a, b) = call.g, together(call, x1, x2)
    if not a.dtype.is_float:
        return g("Mod", a, b)
    return g("Sub", a, g("Mul", b, g("Floor", g("Div", a, b))))


def _logical(kind: str) -> Operation:
    def build(call: Call, *xs: Any) -> Value:
        return call.g(kind, *(call.boolean(tensor(call, x)) for x in xs))

    return build


for _name, _kind in (("And", "And"), ("Or", "Or"), ("Not", "Not"), ("Xor", "Xor")):
    operation(f"Logical{_name}")(_logical(_kind))


@operation("Square")
def square(call: Call, x: Any) -> Value:
    """x²."""
    value = tensor(call, x)
    return call.g("Mul", value, value)


@operation("Rsqrt")
def rsqrt(call: Call, x: Any) -> Value:
    """1 / √x."""
    return call.g("Reciprocal", call.g("Sqrt", real(call, x)))


@operation("Log1p")
def log1p(call: Call, x: Any) -> Value:
    """log(1 + x)."""
    return call.g("Log", call.g("Add", real(call, x), 1.0))


@operation("Expm1")
def expm1(call: Call, x: Any) -> Value:
    """eˣ - 1."""
    return call.g("Sub", call.g("Exp", real(call, x)), 1.0)


@operation("Clip")
def clip(call: Call, x: Any, x_min: Any, x_max: Any) -> Value:
    """Elements between two limits."""
    value, low, high = together(call, x, x_min, x_max)
    return call.g("Clip", value, low, high)


@operation("Where")
def where(call: Call, condition: Any, x1: Any = None, x2: Any = None) -> Value:
    """Elements of one operand or the other."""
    if x1 is None or x2 is None:
        raise call.unsupported("places where a condition is true")
    return call.g("Where", call.boolean(tensor(call, condition)), *together(call, x1, x2))


@operation("Cast")
def cast(call: Call, x: Any, dtype: str) -> Value:
    """Elements of another type."""
    return call.g.cast(tensor(call, x), dtypes.by_name(dtype))


_TYPED.add(cast)


@operation("StopGradient", "Copy", "ConvertToTensor")
def same(call: Call, x: Any, **_: Any) -> Value:
    """The operand."""
    return tensor(call, x)


@operation("OnesLike", "ZerosLike")
def like(call: Call, x: Any, **_: Any) -> Value:
    """Ones or zeros of the shape of a tensor."""
    value = tensor(call, x)
    number = int(call.layer.kind == "ops.OnesLike")
    return call.g("Expand", call.number(number, value), call.g("Shape", value))


# -- reductions ------------------------------------------------------------------------------------


def _reduction(kind: str, floats: bool = False) -> Operation:
    def build(call: Call, x: Any, axis: Any = None, keepdims: bool = False, **options: Any
              ) -> Value:  # fmt: skip
        value = real(call, x) if floats else tensor(call, x)
        if options.get("initial") is not None:
            raise call.unsupported("an initial value")
        return call.reduced(kind, value, axes_of(axis, value.rank), keepdims)

    return build


for _name, _kind in (
    *(("Max", "ReduceMax"), ("Min", "ReduceMin"), ("Amax", "ReduceMax"), ("Amin", "ReduceMin")),
    *(("Sum", "ReduceSum"), ("Prod", "ReduceProd")),
):
    operation(_name)(_reduction(_kind))
operation("Mean")(_reduction("ReduceMean", floats=True))
operation("Logsumexp")(_reduction("ReduceLogSumExp", floats=True))


@operation("Var", "Std")
def variance(call: Call, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
    """The mean square distance from the mean, or its root."""
    g, value = call.g, real(call, x)
    axes = axes_of(axis, value.rank)
    apart = g("Sub", value, call.reduced("ReduceMean", value, axes, True))
    y = call.reduced("ReduceMean", g("Mul", apart, apart), axes, keepdims)
    return g("Sqrt", y) if call.layer.kind == "ops.Std" else y


@operation("Any", "All")
def any_or_all(call: Call, x: Any, axis: Any = None, keepdims: bool = False) -> Value:
    """Whether some or all elements are true."""
    kind = "ReduceMax" if call.layer.kind == "ops.Any" else "ReduceMin"
    value = call.g.cast(call.boolean(tensor(call, x)), dtypes.uint8)
    return call.boolean(call.reduced(kind, value, axes_of(axis, value.rank), keepdims))


@operation("Argmax", "Argmin")
def argmax(call: Call, x: Any, axis: int | None = None, keepdims: bool = False) -> Value:
    """The place of the largest or smallest element, int32."""
    g, value = call.g, tensor(call, x)
    if axis is None:
        value, axis = call.shaped(value, -1), 0
        if keepdims:
            raise call.unsupported("keepdims without an axis")
    kind = "ArgMax" if call.layer.kind == "ops.Argmax" else "ArgMin"
    return g.cast(g(kind, value, axis=axis, keepdims=int(keepdims)), dtypes.int32)


@operation("Cumsum")
def cumsum(call: Call, x: Any, axis: int | None = None) -> Value:
    """Sums of all elements up to each."""
    value = tensor(call, x)
    if axis is None:
        value, axis = call.shaped(value, -1), 0
    return call.g("CumSum", value, call.g.constant(np.int64(axis)))


@operation("Normalize")
def normalize(call: Call, x: Any, axis: Any = -1, order: int = 2, epsilon: float | None = None
              ) -> Value:  # fmt: skip
    """Rows of length one."""
    g, value = call.g, real(call, x)
    if order != 2:
        raise call.unsupported(f"order = {order}")
    axes = axes_of(axis, value.rank)
    total = call.reduced("ReduceSum", g("Mul", value, value), axes, True)
    return g("Div", value, g("Sqrt", g("Max", total, (epsilon or 1e-7) ** 2)))


# -- products --------------------------------------------------------------------------------------


@operation("Einsum")
def einsum(call: Call, *xs: Any, subscripts: str, **options: Any) -> Value:
    """A product by an equation."""
    return call.g("Einsum", *together(call, *xs), equation=subscripts.replace(" ", ""))


@operation("OneHot")
def one_hot(
    call: Call, x: Any, num_classes: int, axis: int = -1, sparse: bool = False, dtype: Any = None
) -> Value:
    """Rows with a one."""
    if sparse:
        raise call.unsupported("a sparse result")
    g, value = call.g, call.g.cast(tensor(call, x), dtypes.int64)
    rank = value.rank + 1
    ones = g("Equal", call.unsqueezed(value, -1), g.constant(np.arange(num_classes)))
    y = g.cast(ones, dtypes.by_name(dtype or "float32"))
    order = list(range(rank - 1))
    order.insert(axis % rank, rank - 1)
    return g.permute(y, *order)


_TYPED.add(one_hot)


# -- movement --------------------------------------------------------------------------------------


@operation("Reshape")
def reshape(call: Call, x: Any, newshape: Sequence[int | None]) -> Value:
    """Another shape."""
    sizes = [-1 if size is None else int(size) for size in newshape]
    if sizes.count(-1) > 1:
        raise call.unsupported(f"a shape with several unknown sizes, {sizes},")
    return call.g("Reshape", tensor(call, x), call.g.ints(*sizes), allowzero=int(-1 not in sizes))


@operation("Ravel")
def ravel(call: Call, x: Any) -> Value:
    """All elements in one axis."""
    return call.shaped(tensor(call, x), -1)


@operation("Transpose")
def transpose(call: Call, x: Any, axes: Sequence[int] | None = None) -> Value:
    """Other order of the axes."""
    value = tensor(call, x)
    order = range(value.rank)[::-1] if axes is None else axes_of(list(axes), value.rank)
    return call.g.permute(value, *order)


@operation("Swapaxes")
def swapaxes(call: Call, x: Any, axis1: int, axis2: int) -> Value:
    """Two axes exchanged."""
    value = tensor(call, x)
    order = list(range(value.rank))
    a, b = axes_of([axis1, axis2], value.rank)
    order[a], order[b] = b, a
    return call.g.permute(value, *order)


@operation("Moveaxis")
def moveaxis(call: Call, x: Any, source: Any, destination: Any) -> Value:
    """Axes in other places."""
    value = tensor(call, x)
    sources, targets = axes_of(source, value.rank), axes_of(destination, value.rank)
    order = [axis for axis in range(value.rank) if axis not in sources]
    for target, axis in sorted(zip(targets, sources)):
        order.insert(target, axis)
    return call.g.permute(value, *order)


@operation("ExpandDims")
def expand_dims(call: Call, x: Any, axis: Any) -> Value:
    """New axes of size one."""
    listed = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    return call.unsqueezed(tensor(call, x), *listed)


@operation("Squeeze")
def squeeze(call: Call, x: Any, axis: Any = None) -> Value:
    """Without axes of size one."""
    value = tensor(call, x)
    if axis is None:
        axis = [i for i, size in enumerate(value.shape) if size == 1]
    listed = axes_of(axis, value.rank)
    return call.squeezed(value, *listed) if listed else value


@operation("Concatenate")
def concatenate(call: Call, xs: Sequence[Any], axis: int = 0) -> Value:
    """Operands behind each other."""
    return call.g("Concat", *together(call, *xs), axis=axis)


@operation("Stack")
def stack(call: Call, x: Sequence[Any], axis: int = 0) -> Value:
    """Operands behind each other along a new axis."""
    values = together(call, *x)
    axis = axes_of(axis, values[0].rank + 1)[0]
    return call.g("Concat", *(call.unsqueezed(v, axis) for v in values), axis=axis)


@operation("Split")
def split(call: Call, x: Any, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    """Parts of an axis: so many, or at these places."""
    g, value = call.g, tensor(call, x)
    axis = axes_of(axis, value.rank)[0]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        return g.several(count, "Split", value, axis=axis, num_outputs=count)
    places = [0, *(int(place) for place in indices_or_sections), 2**31]
    return [g("Slice", value, *(g.ints(n) for n in (a, b, axis))) for a, b in pairwise(places)]


@operation("Unstack")
def unstack(call: Call, x: Any, num: int | None = None, axis: int = 0) -> list[Value]:
    """The parts of an axis, without it."""
    value = tensor(call, x)
    axis = axes_of(axis, value.rank)[0]
    size = value.shape[axis]
    if not isinstance(size, int):
        raise call.unsupported("an axis of unknown size")
    return [call.g("Gather", value, call.g.constant(np.int64(i)), axis=axis) for i in range(size)]


@operation("Tile")
def tile(call: Call, x: Any, repeats: Any) -> Value:
    """The operand several times along each axis."""
    value = tensor(call, x)
    listed = list(repeats) if isinstance(repeats, (list, tuple)) else [repeats]
    if len(listed) > value.rank:
        value = call.unsqueezed(value, *range(len(listed) - value.rank))
    listed = [1] * (value.rank - len(listed)) + listed
    return call.g("Tile", value, call.g.ints(*listed))


@operation("Repeat")
def repeat(call: Call, x: Any, repeats: Any, axis: int | None = None) -> Value:
    """Every element so many times."""
    value = tensor(call, x)
    if axis is None:
        value, axis = call.shaped(value, -1), 0
    axis = axes_of(axis, value.rank)[0]
    size = value.shape[axis]
    if not isinstance(size, int):
        raise call.unsupported("an axis of unknown size")
    places = np.repeat(np.arange(size), repeats)
    return call.g("Gather", value, call.g.constant(places), axis=axis)


@operation("Flip")
def flip(call: Call, x: Any, axis: Any = None) -> Value:
    """The order of axes turned round."""
    value = tensor(call, x)
    for each in axes_of(axis, value.rank):
        value = call.reversed(value, each)
    return value


@operation("Take")
def take(call: Call, x: Any, indices: Any, axis: int | None = None) -> Value:
    """Elements at these places of an axis."""
    value = tensor(call, x)
    if axis is None:
        value, axis = call.shaped(value, -1), 0
    places = tensor(call, indices)
    if not places.dtype.is_integer:
        places = call.g.cast(places, dtypes.int32)
    return call.g("Gather", value, places, axis=axis)


@operation("TakeAlongAxis")
def take_along_axis(call: Call, x: Any, indices: Any, axis: int | None = None) -> Value:
    """Elements at places that differ from row to row."""
    if axis is None:
        raise call.unsupported("places in all elements")
    return call.g("GatherElements", tensor(call, x), tensor(call, indices), axis=axis)


@operation("BroadcastTo")
def broadcast_to(call: Call, x: Any, shape: Sequence[int]) -> Value:
    """The operand repeated to a shape."""
    return call.g("Expand", tensor(call, x), call.g.ints(*(int(size) for size in shape)))


@operation("Tril", "Triu")
def triangle(call: Call, x: Any, k: int = 0) -> Value:
    """The lower or upper triangle of matrices, zero elsewhere."""
    upper = int(call.layer.kind == "ops.Triu")
    return call.g("Trilu", tensor(call, x), call.g.constant(np.int64(k)), upper=upper)


@operation("Pad")
def pad(call: Call, x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None
        ) -> Value:  # fmt: skip
    """Elements before and behind those of each axis."""
    value = tensor(call, x)
    listed: list[Any] = [pad_width] if isinstance(pad_width, int) else list(pad_width)
    pairs = [list(p) if isinstance(p, (list, tuple)) else [p, p] for p in listed]
    if len(pairs) == 1:
        pairs *= value.rank
    if len(pairs) != value.rank or mode not in ("constant", "reflect"):
        raise call.unsupported(f"pad_width = {pad_width!r} with the mode {mode!r}")
    number = None if not constant_values else tensor(call, constant_values, value.dtype)
    begins, ends = ([int(p[side]) for p in pairs] for side in (0, 1))
    return call.g("Pad", value, call.g.ints(*begins, *ends), number, mode=mode)


@operation("GetItem")
def get_item(call: Call, x: Any, key: Any) -> Value:
    """Parts of a tensor, as Python's indices say."""
    g, value = call.g, tensor(call, x)
    listed = list(key) if isinstance(key, (list, tuple)) else [key]
    if any(not isinstance(part, (int, slice, type(None), type(...))) for part in listed):
        raise call.unsupported("an index that is a tensor")
    used = sum(part is not None and part is not ... for part in listed)
    axis, result = 0, []
    squeezed: list[int] = []
    for part in listed:
        if part is ...:
            skipped = value.rank - used
            axis += skipped
            result += [1] * skipped
        elif part is None:
            result.append(0)
        elif isinstance(part, int) and not isinstance(part, bool):
            value = g("Slice", value, g.ints(part), g.ints(part + 1 if part != -1 else 2**31),
                      g.ints(axis))  # fmt: skip
            squeezed.append(axis)
            axis += 1
        else:
            value = _sliced(call, value, axis, part)
            axis += 1
            result.append(1)
    value = call.squeezed(value, *squeezed) if squeezed else value
    new = [place for place, kept in enumerate(result) if not kept]
    return call.unsqueezed(value, *new) if new else value


def _sliced(call: Call, value: Value, axis: int, part: slice) -> Value:
    g, step = call.g, 1 if part.step is None else part.step
    limits = part.start, part.stop, step
    if not all(each is None or isinstance(each, int) for each in limits) or step == 0:
        raise call.unsupported("a slice whose limits are tensors")
    if part == slice(None):
        return value
    start = (0 if step > 0 else 2**31) if part.start is None else part.start
    stop = (2**31 if step > 0 else -(2**31)) if part.stop is None else part.stop
    return g("Slice", value, *(g.ints(n) for n in (start, stop, axis, step)))


for _name, _function in OPERATIONS.items():
    layer(f"ops.{_name}")(_registered(_function))
