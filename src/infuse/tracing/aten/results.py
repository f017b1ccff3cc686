"""What torch says of results: their element types, and sizes where operators depend on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import UnsupportedOperatorError
from infuse.ir.graph import Value
from infuse.tracing.aten.calls import Meta, axis_of, promoted
from infuse.tracing.aten.element_types import dtype_of
from infuse.tracing.calls import words

Arguments = Sequence[Any]
Options = Mapping[str, Any]
Rule = Callable[[Arguments, Options], DType]


def _operands(arguments: Arguments) -> list[Any]:
    """Tensors and numbers among arguments, those of lists of tensors too."""
    operands: list[Any] = []
    for argument in arguments:
        if isinstance(argument, list) and any(isinstance(x, Value) for x in argument):
            operands += argument
        elif isinstance(argument, (Value, int, float, complex)):
            operands.append(argument)
    return operands


def first(arguments: Arguments, options: Options) -> DType:
    """The type of the first tensor."""
    for operand in _operands(arguments):
        if isinstance(operand, Value):
            return operand.dtype
    return _default(arguments, options)


def floating(dtype: DType) -> DType:
    """A type itself where it has fractions, else torch's default type."""
    return dtype if dtype.is_float or dtype.name.startswith("complex") else dtypes.float32


def chosen(options: Options) -> DType | None:
    """The type that the option dtype names."""
    number = options.get("dtype")
    return None if number is None else dtype_of(number)


def _default(arguments: Arguments, options: Options) -> DType:
    return chosen(options) or dtypes.float32


def _float(arguments: Arguments, options: Options) -> DType:
    return chosen(options) or floating(first(arguments, options))


def _bool(arguments: Arguments, options: Options) -> DType:
    return dtypes.bool_


def _index(arguments: Arguments, options: Options) -> DType:
    return dtypes.int32 if options.get("out_int32") else dtypes.int64


def _any(arguments: Arguments, options: Options) -> DType:
    return dtypes.uint8 if first(arguments, options) == dtypes.uint8 else dtypes.bool_


def _joined(count: int | None = None) -> Rule:
    """The type that torch promotes the first arguments to."""
    return lambda arguments, options: promoted(*_operands(arguments[:count]))


def _joined_float(arguments: Arguments, options: Options) -> DType:
    return floating(promoted(*_operands(arguments[:2])))


def _quotient(arguments: Arguments, options: Options) -> DType:
    dtype = promoted(*_operands(arguments[:2]))
    return dtype if options.get("rounding_mode") else floating(dtype)


def _where(arguments: Arguments, options: Options) -> DType:
    return promoted(*_operands(arguments[1:]))


def _limited(arguments: Arguments, options: Options) -> DType:
    return promoted(*_operands([*arguments, *options.values()]))


def _summed(arguments: Arguments, options: Options) -> DType:
    dtype = first(arguments, options)
    whole = dtype.is_bool or dtype.is_integer
    return chosen(options) or (dtypes.int64 if whole else dtype)


def _number(value: Any) -> DType:
    if isinstance(value, Value):
        return dtypes.float32 if value.dtype.is_float else value.dtype
    if isinstance(value, bool):
        return dtypes.bool_
    return dtypes.int64 if isinstance(value, int) else dtypes.float32


def _full(arguments: Arguments, options: Options) -> DType:
    return chosen(options) or _number(arguments[1])


def _range(arguments: Arguments, options: Options) -> DType:
    whole = all(_number(x) != dtypes.float32 for x in arguments)
    return chosen(options) or (dtypes.int64 if whole else dtypes.float32)


def _whole(arguments: Arguments, options: Options) -> DType:
    return chosen(options) or dtypes.int64


def _weighed(arguments: Arguments, options: Options) -> DType:
    weights = options.get("weights", arguments[1] if len(arguments) > 1 else None)
    if weights is None:
        return dtypes.int64
    return dtypes.float32 if weights.dtype == dtypes.float32 else dtypes.float64


def _like(arguments: Arguments, options: Options) -> DType:
    return chosen(options) or first(arguments, options)


_FLOAT: Final = words("""sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin
    arccos arctan arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt
    reciprocal erf erfc sigmoid logit logsumexp softmax log_softmax mean special_expit
    special_erf special_erfc special_exp2 special_expm1 special_log1p special_logit
    special_logsumexp special_softmax special_log_softmax softmin _softmax _log_softmax norm
    linalg_vector_norm _safe_softmax lgamma digamma erfinv i0 mvlgamma sinc deg2rad rad2deg
    angle special_gammaln special_digamma special_psi special_erfinv special_i0 special_i0e
    special_i1 special_i1e special_entr special_sinc special_multigammaln special_erfcx
    special_ndtri""")
_BOOL: Final = words("""eq ne lt le gt ge less greater less_equal greater_equal not_equal
    logical_and logical_or logical_xor logical_not isnan isinf isfinite isposinf isneginf
    signbit isin""")
_JOINED: Final = words("""add sub subtract rsub mul multiply pow fmod remainder floor_divide
    maximum minimum fmax fmin max.other min.other bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__ __rshift__ gcd
    lcm""")
_LISTS: Final = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack")
_INDICES: Final = words("""argmax argmin argsort nonzero nonzero_numpy argwhere count_nonzero
    searchsorted bucketize one_hot where.default""")
_LIKES: Final = words("""zeros_like ones_like full_like empty_like rand_like randn_like
    new_full new_zeros new_ones new_empty _to_copy""")
_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_FLOAT, _float),
    **dict.fromkeys(_BOOL, _bool),
    **dict.fromkeys(_JOINED, _joined(2)),
    **dict.fromkeys((*_LISTS, "column_stack", "broadcast_tensors"), _joined()),
    **dict.fromkeys(("addcmul", "addcdiv", "lerp"), _joined(3)),
    **dict.fromkeys(
        words("""atan2 arctan2 hypot copysign logaddexp true_divide logaddexp2 xlogy
            special_xlogy special_xlog1py ldexp"""),
        _joined_float,
    ),
    **dict.fromkeys(("div", "divide"), _quotient),
    **dict.fromkeys(("clamp", "clip", "clamp_min", "clamp_max"), _limited),
    **dict.fromkeys(("any", "all"), _any),
    **dict.fromkeys(_INDICES, _index),
    **dict.fromkeys(("sum", "prod", "nansum", "cumsum", "cumprod", "trace"), _summed),
    **dict.fromkeys(_LIKES, _like),
    **dict.fromkeys(("randperm", "tril_indices", "triu_indices"), _whole),
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "eye", "linspace"), _default),
    "full": _full,
    "scalar_tensor": _default,
    "arange": _range,
    "where": _where,
    "bincount": _weighed,
    "float_power": lambda a, o: dtypes.float64,
}
"""By name, with overload where that counts; the others have the type of their first tensor."""
_COUNTS: Final = {
    "max.dim": (None, dtypes.int64), "min.dim": (None, dtypes.int64), "sort": (None, dtypes.int64),
    "topk": (None, dtypes.int64), "aminmax": (None, None), "frexp": (None, dtypes.int32),
    **dict.fromkeys(("kthvalue", "median.dim", "nanmedian.dim"), (None, dtypes.int64)),
    **dict.fromkeys(("cummax", "cummin", "mode"), (None, dtypes.int64)),
    **dict.fromkeys(("slogdet", "linalg_slogdet", "_linalg_slogdet"), (None, None)),
    **dict.fromkeys(("linalg_inv_ex", "linalg_solve_ex"), (None, dtypes.int32)),
    "linalg_cholesky_ex": (None, dtypes.int32), "linalg_qr": (None, None), "qr": (None, None),
    "std_mean": (None, None),
    "var_mean": (None, None), "native_layer_norm": (None,) * 3, "native_group_norm": (None,) * 3,
    "native_batch_norm": (None,) * 3, "log_sigmoid_forward": (None, None),
    "lstm": (None,) * 3, "gru": (None,) * 2, "rnn_tanh": (None,) * 2, "rnn_relu": (None,) * 2,
    "_unique2": (None, dtypes.int64, dtypes.int64), "lstm_cell": (None, None),
    "unique_dim": (None, dtypes.int64, dtypes.int64), "native_dropout": (None, dtypes.bool_),
    "_unique": (None, dtypes.int64), "embedding_bag": (None, *(dtypes.int64,) * 3),
    **{f"{kind}{n}d{end}": (None, dtypes.int64)
       for n in (1, 2, 3)
       for kind, end in (("adaptive_max_pool", ""), ("max_pool", "_with_indices"))},
}  # fmt: skip
"""Types of several results; None for that of the first."""


def results_of(name: str, overload: str, arguments: Arguments, options: Options) -> list[Meta]:
    """What is known of the results of a call."""
    full = f"{name}.{overload}"
    rule = _RULES.get(full) or _RULES.get(name) or first
    dtype = rule(arguments, options)
    several = _COUNTS.get(full) or _COUNTS.get(name)
    if several is not None:
        return [Meta(kind or dtype, ()) for kind in several]
    sized = _SIZED.get(name)
    if sized is not None:
        return [Meta(dtype, sizes) for sizes in sized(*arguments, **options)]
    return [Meta(dtype, ())]


# -- sizes -----------------------------------------------------------------------------------------

Sizes = tuple[int | None, ...]


def _known(x: Value) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in x.shape]


def _parts(x: Value, axis: int, parts: Sequence[int | None]) -> list[Sizes]:
    sizes = _known(x)
    return [(*sizes[:axis], part, *sizes[axis + 1 :]) for part in parts]


def _static(x: Value, axis: int) -> int:
    size = x.shape[axis]
    if not isinstance(size, int):
        raise UnsupportedOperatorError(
            f"an axis of computed size ({size}) is taken apart",
            hint="give that size as a number in inputs=",
        )
    return size


def _split(x: Value, size: Any, dim: int = 0) -> list[Sizes]:
    axis = axis_of(dim, x.rank)
    total = _static(x, axis)
    if isinstance(size, list):
        return _parts(x, axis, [n if isinstance(n, int) else None for n in size])
    if not isinstance(size, int):
        raise UnsupportedOperatorError("an axis is taken apart by a computed size")
    if size <= 0:
        return _parts(x, axis, [total])
    return _parts(x, axis, [min(size, total - i) for i in range(0, max(total, 1), size)])


def _chunk(x: Value, chunks: int, dim: int = 0) -> list[Sizes]:
    axis = axis_of(dim, x.rank)
    if not isinstance(x.shape[axis], int):
        return _parts(x, axis, [None] * chunks)
    total = _static(x, axis)
    size = -(-total // chunks)
    return _split(x, size, dim) if size else _parts(x, axis, [0] * chunks)


def _sections(x: Value, sections: Any, dim: int = 0) -> list[Sizes]:
    axis = axis_of(dim, x.rank)
    if isinstance(sections, list):
        return _parts(x, axis, [None] * (len(sections) + 1))
    total = _static(x, axis)
    more = total % sections
    return _parts(x, axis, [total // sections + (i < more) for i in range(sections)])


def _unbind(x: Value, dim: int = 0) -> list[Sizes]:
    axis = axis_of(dim, x.rank)
    return [tuple(_known(x)[:axis] + _known(x)[axis + 1 :])] * _static(x, axis)


def _resized(x: Value, size: Any, *more: Any) -> list[Sizes]:
    known = _known(x)
    if size is not None:
        after = [n if isinstance(n, int) else None for n in size]
        return [(*known[:2], *after)]
    factors = next((f for f in reversed(more) if isinstance(f, list)), [])
    after = [
        None if n is None or not isinstance(f, (int, float)) else math.floor(n * f)
        for n, f in zip(known[2:], factors)
    ]
    return [(*known[:2], *after)]


def _flattened(x: Value, start_dim: int = 0, end_dim: int = -1) -> list[Sizes]:
    known = _known(x)
    if not known or None in known:
        return [()]
    a, b = start_dim % x.rank, end_dim % x.rank
    return [(*known[:a], math.prod(n or 0 for n in known[a : b + 1]), *known[b + 1 :])]


_SIZED: Final[dict[str, Callable[..., list[Sizes]]]] = {
    "split": _split,
    "split_with_sizes": lambda x, sizes, dim=0: [()] * len(sizes),
    "chunk": _chunk,
    "unsafe_chunk": _chunk,
    "tensor_split": _sections,
    "unbind": _unbind,
    "flatten": _flattened,
    **{f"upsample_{kind}": _resized for kind in ("nearest1d", "nearest2d", "nearest3d")},
    **{f"_upsample_nearest_exact{n}d": _resized for n in (1, 2, 3)},
    **{f"upsample_{kind}": _resized for kind in ("linear1d", "bilinear2d", "trilinear3d")},
    **{f"{kind}": _resized for kind in ("upsample_bicubic2d", "_upsample_bicubic2d_aa")},
    "_upsample_bilinear2d_aa": _resized,
}
"""The sizes of all results of a call, for operators that ask for them or for their number."""
