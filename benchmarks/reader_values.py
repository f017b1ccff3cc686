"""Functions of frameworks on special values, as their reader has them and as they answer in eager
mode: `python -m benchmarks.reader_values FRAMEWORK [--only NAME,…] [--refused] [--zeros]`.

FRAMEWORK is one of `array`, `keras`, `mindspore`, `paddle` and `tensorflow`; JAX and torch have
`benchmarks.jax_values` and `benchmarks.torch_operators --special`. Every function is called in all
forms that it takes: on NaN, zeros of both signs, infinities, the limits of integers,
all pairs of these, sides that are broadcast, along and over axes, of no and of one element.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from infuse.errors import InfuseError
from infuse.ir.graph import Graph
from infuse.ops.core.evaluate import evaluate

Array = np.ndarray[Any, Any]
FLOATS: Final = (
    *(np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 0.5, -2.5, 3e9, -1e10, 88.0, -20.0, 1e-9),
    *(3.4e38, 1.5, -3.0),
)
SUBNORMAL: Final = (1e-40, -1e-40)
"""TensorFlow and Paddle let the processor take these for zeros."""
TYPES: Final = ("float32", "int32", "int8", "uint8", "bool", "float16", "int64", "int16", "uint16")


class Form(NamedTuple):
    """How a function is called: operands, and options by name."""

    name: str
    feeds: tuple[Array, ...]
    options: dict[str, Any]


class Framework(Protocol):
    """A module `benchmarks.values_FRAMEWORK`."""

    def functions(self) -> Iterable[tuple[str, Callable[..., Any]]]:
        """What its reader has, by name."""

    def eager(self, function: Callable[..., Any], form: Form) -> list[Array]:
        """What the framework answers; any error where it takes no such call."""

    def exported(self, function: Callable[..., Any], form: Form) -> Any:
        """The call as the framework writes it; any error where it cannot."""

    def read(self, model: Any) -> Graph:
        """What the reader makes of that; inputs in the order of the operands."""


def row(dtype: str, subnormal: bool = False) -> Array:
    """The special values of a type."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype.startswith("float"):
        with np.errstate(over="ignore"):
            return np.array(FLOATS + SUBNORMAL * subnormal).astype(dtype)
    info = np.iinfo(dtype)
    signed = [-1, -2, -7, info.min + 1] if info.min else []
    return np.array([info.min, info.max, info.max - 1, 0, 1, 2, 7, 100, *signed], dtype)


def forms(types: Iterable[str] = TYPES, subnormal: bool = False) -> Iterator[Form]:
    """All forms of calls, of which a function takes some."""
    for dtype in types:
        values = row(dtype, subnormal)
        x, y = (side.copy() for side in np.meshgrid(values, values))
        yield Form(f"{dtype}", (x,), {})
        yield Form(f"{dtype} pairs", (x, y), {})
        if dtype not in ("float32", "int32", "uint8", "bool"):
            continue
        yield Form(f"{dtype} broadcast", (values[:, None].copy(), values[None].copy()), {})
        yield Form(f"{dtype} along", (x, x[:, :1].copy()), {"axis": 1})
        for tag, given in (("", x), (" one", x[:, :1].copy()), (" none", x[:, :0].copy())):
            yield Form(f"{dtype}{tag} axis=-1", (given,), {"axis": -1})
            turned = np.stack([np.roll(given, i, 1) for i in (0, 1, 5)])
            yield Form(f"{dtype}{tag} axis=0", (given.T.copy(),), {"axis": 0})
            yield Form(f"{dtype}{tag} axis=1 of 3", (turned,), {"axis": 1})
            yield Form(f"{dtype}{tag} kept", (given,), {"axis": 1, "keepdims": True})
            if tag:
                yield Form(f"{dtype}{tag}", (given,), {})
        yield Form(f"{dtype} scalar", (values[-1].copy(),), {})


def difference(made: list[Array], expected: list[Array], form: Form, zeros: bool) -> str:
    """How results differ; nothing where all is the same."""
    if len(made) != len(expected):
        return f"{len(made)} results, and not {len(expected)}"
    for ours, right in zip(made, expected):
        if (ours.dtype, ours.shape) != (right.dtype, right.shape):
            return f"{ours.dtype}{list(ours.shape)}, and not {right.dtype}{list(right.shape)}"
        close = ours == right
        if right.dtype.kind == "f" or right.dtype.name == "bfloat16":
            a, b = ours.astype(np.float64), right.astype(np.float64)
            accuracy = 1e-5 if right.dtype.itemsize > 2 else 2e-3
            close = np.isclose(a, b, rtol=accuracy, atol=0 if accuracy < 1e-3 else 1e-7,
                               equal_nan=True)  # fmt: skip
            if zeros:
                close &= (np.signbit(a) == np.signbit(b)) | (b != 0)
            else:  # frameworks do not agree with themselves whether subnormal numbers are zero
                close |= (np.abs(a) < 2e-38) & (np.abs(b) < 2e-38)
        if not np.all(close):
            close = np.asarray(close)
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            given = [x[at].item() for x in form.feeds if x.shape == right.shape]
            what = f"of {given}" if given else f"at {list(at)}"
            return f"{np.sum(~close)} differ: {what} {ours[at]}, and not {right[at]}"
    return ""


def compared(framework: Framework, function: Callable[..., Any], form: Form, zeros: bool) -> str:
    """What is not as in the framework; "-" where that takes no such call."""
    try:
        expected = framework.eager(function, form)
        model = framework.exported(function, form)
    except Exception:  # whatever it raises: it has no answer for this form
        return "-"
    try:
        graph = framework.read(model)
        names = [value.name for value in graph.inputs]
        made = evaluate(graph, dict(zip(names, form.feeds)))
    except InfuseError as error:
        return f"refused: {' '.join(str(error).split())[:150]}"
    return difference([np.asarray(y) for y in made.values()], expected, form, zeros)


def main() -> None:
    """Print what differs, function by function."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework")
    parser.add_argument("--only", default="", help="names, with commas")
    parser.add_argument("--types", default=",".join(TYPES), help="such as float32,int8")
    parser.add_argument("--refused", action="store_true", help="print what is refused, too")
    parser.add_argument("--subnormal", action="store_true", help="try subnormal numbers, too")
    parser.add_argument("--zeros", action="store_true", help="compare signs of zeros")
    arguments = parser.parse_args()
    framework: Any = importlib.import_module(f"benchmarks.values_{arguments.framework}")
    only = set(filter(None, arguments.only.split(",")))
    counts: Counter[str] = Counter()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for name, function in framework.functions():
        if only and name not in only:
            continue
        for form in forms(arguments.types.split(","), arguments.subnormal):
            try:
                why = compared(framework, function, form, arguments.zeros)
            except Exception as error:  # a defect, which is not to hide the others
                why = f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
            state = why[:7] if why in ("", "-") or why.startswith("refused") else "wrong"
            counts[state] += 1
            if state == "wrong" or (state == "refused" and arguments.refused):
                print(f"{name:24} {form.name:24} {why}", flush=True)
            if "does not know" in why:  # no other form will be
                break
    print(f"{counts['']} calls are the same, {counts['wrong']} not, {counts['refused']} refused")


if __name__ == "__main__":
    main()
