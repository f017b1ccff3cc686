"""Which overload of an operator a call means: TorchScript writes only the operator's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from infuse.ir.graph import Value

Arguments = Sequence[Any]
Options = Mapping[str, Any]


def _extreme(arguments: Arguments, options: Options) -> str:
    if len(arguments) + len(options) == 1:
        return "default"
    return "other" if len(arguments) > 1 and isinstance(arguments[1], Value) else "dim"


def _where(arguments: Arguments, options: Options) -> str:
    kinds = tuple(isinstance(x, Value) for x in arguments[1:])
    return {
        (): "default",
        (True, True): "self",
        (False, True): "ScalarSelf",
        (True, False): "ScalarOther",
    }.get(kinds, "Scalar")


def _scatter(arguments: Arguments, options: Options) -> str:
    source = arguments[3] if len(arguments) > 3 else options.get("src")
    kind = "src" if isinstance(source, Value) else "value"
    if "reduce" not in options:
        return kind
    return "reduce" if kind == "src" else "value_reduce"


def _limits(arguments: Arguments, options: Options) -> str:
    limits = [*arguments[1:], *options.values()]
    return "Tensor" if any(isinstance(limit, Value) for limit in limits) else "default"


def _listed(arguments: Arguments, place: int, one: str, other: str) -> str:
    return one if len(arguments) > place and isinstance(arguments[place], list) else other


def _repeats(arguments: Arguments, options: Options) -> str:
    repeats = options.get("repeats", arguments[1] if len(arguments) > 1 else None)
    if repeats is None or len(arguments) + ("repeats" in options) < 2:
        return "Tensor"
    return "self_Tensor" if isinstance(repeats, Value) and repeats.rank else "self_int"


def _option(name: str, named: str, plain: str) -> Callable[[Arguments, Options], str]:
    return lambda arguments, options: named if name in options else plain


def _always(overload: str) -> Callable[[Arguments, Options], str]:
    return lambda arguments, options: overload


_FIXED: Final = {
    "flatten": "using_ints", "index": "Tensor", "log_softmax": "int", "scatter_reduce": "two",
    "select": "int", "slice": "Tensor", "softmax": "int", "transpose": "int", "unflatten": "int",
}  # fmt: skip
OVERLOADS: Final[dict[str, Callable[[Arguments, Options], str]]] = {
    **{name: _always(overload) for name, overload in _FIXED.items()},
    **dict.fromkeys(("max", "min"), _extreme),
    **dict.fromkeys(("clamp", "clip"), _limits),
    **dict.fromkeys(("sort", "argsort"), _option("stable", "stable", "default")),
    **dict.fromkeys(
        ("std", "var", "std_mean", "var_mean"), _option("correction", "correction", "dim")
    ),
    **dict.fromkeys(("gru", "rnn_relu", "rnn_tanh"), lambda a, o: _listed(a, 2, "input", "data")),
    "arange": lambda a, o: ("default", "start", "start_step")[min(len(a), 3) - 1],
    "bernoulli": lambda a, o: "p" if len(a) > 1 else "default",
    "embedding_bag": lambda a, o: "padding_idx" if len(a) > 8 else "default",
    "lstm": lambda a, o: _listed(a, 1, "input", "data"),
    **dict.fromkeys(
        ("median", "nanmedian"), lambda a, o: "dim" if len(a) > 1 or "dim" in o else "default"
    ),
    "meshgrid": _option("indexing", "indexing", "default"),
    "repeat_interleave": _repeats,
    "round": _option("decimals", "decimals", "default"),
    "scatter": _scatter,
    "split": lambda a, o: _listed(a, 1, "sizes", "Tensor"),
    "tensor_split": lambda a, o: _listed(a, 1, "indices", "sections"),
    "view": lambda a, o: _listed(a, 1, "default", "dtype"),
    "where": _where,
}
"""By name; an operator that is not here has one overload, or one entry for all."""


def overload_of(name: str, arguments: Arguments, options: Options) -> str:
    """The overload of a call with these arguments, tensors among them as values of the graph."""
    rule = OVERLOADS.get(name)
    return "default" if rule is None else rule(arguments, options)
