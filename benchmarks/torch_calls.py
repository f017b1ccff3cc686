"""Calls of torch's operators, recorded from the samples of torch's own tests, and compared with
what Infuse's importer makes of them.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import ml_dtypes
import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from infuse.dtypes import DType, by_numpy
from infuse.errors import InfuseError, UnsupportedOperatorError
from infuse.frontends.torch.archive import DTYPES
from infuse.frontends.torch.reader import PLACEMENT, is_read
from infuse.ir.graph import Graph, Value
from infuse.ops.core.evaluate import evaluate
from infuse.tracing.aten.calls import Complex, Meta, TorchImporter, part_type

DTYPES_BY_NAME: Final = {dtype.name: dtype for dtype in DTYPES.values()}
RANDOM: Final = ("rand", "bernoulli", "empty", "new_empty", "multinomial", "normal", "dropout")
"""Beginnings of operators whose elements are not compared."""
TOLERANCES: Final = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-6}


@dataclass(frozen=True)
class Call:
    """A call of an overload, and what torch made of it."""

    overload: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Any, ...]
    dense: bool
    """Whether all tensors lay in memory in the order of their axes, from the start of a storage."""

    @property
    def signature(self) -> str:
        """The same text for calls with the same types, sizes and numbers."""
        shown = pytree.tree_map(
            lambda x: (x.dtype, tuple(x.shape)) if isinstance(x, torch.Tensor) else x,
            (self.args, self.kwargs),
        )
        return f"{self.overload} {shown}"

    @property
    def first_type(self) -> str:
        """The type of the first tensor's elements; nothing where there is none."""
        return next((str(x.dtype) for x in _leaves((self.args, self.kwargs))), "")


class _Recorder(TorchDispatchMode):
    """Notes the calls below composite operators."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        note(self._calls, func, args, kwargs, result)
        return result


def note(calls: list[Call], func: Any, args: Any, kwargs: Any, result: Any) -> None:
    """Append a call of an overload that changes nothing in place."""
    if isinstance(func, torch._ops.OpOverload) and not func._schema.is_mutable:
        copy = pytree.tree_map(_copied, (tuple(args), dict(kwargs), result))
        outputs = copy[2] if isinstance(copy[2], (list, tuple)) else (copy[2],)
        dense = all(x.is_contiguous() and x.storage_offset() == 0 for x in _leaves((args, kwargs)))
        calls.append(Call(str(func), copy[0], copy[1], tuple(outputs), dense))


def _copied(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, torch.Tensor) else x


def calls_of(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Call]:
    """The calls of operators that a function of tensors makes: composite ones, and those below."""
    leaves, spec = pytree.tree_flatten((list(args), kwargs))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]

    def flat(*values: Any) -> Any:
        rest = iter(values)
        filled = [next(rest) if isinstance(x, torch.Tensor) else x for x in leaves]
        inner_args, inner_kwargs = pytree.tree_unflatten(filled, spec)
        return function(*inner_args, **inner_kwargs)

    calls: list[Call] = []
    with torch.no_grad():
        module = make_fx(flat, pre_dispatch=True)(*tensors)
        _Interpreter(module, calls).run(*tensors)
    return calls


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, module: Any, calls: list[Call]) -> None:
        super().__init__(module)
        self._calls = calls

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        with _Recorder(self._calls):
            result = super().call_function(target, args, kwargs)
        note(self._calls, target, args, kwargs, result)
        return result


def recorded(
    operators: Sequence[Any],
    dtypes: Sequence[Any],
    samples: int,
    seed: int = 0,
    untraced: list[str] | None = None,
) -> Iterator[Call]:
    """Calls of the operators of torch's table, each signature once. `untraced` gets why samples
    were not compared: torch could not make or trace them.
    """
    untraced = [] if untraced is None else untraced
    seen: set[str] = set()
    for op in operators:
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            for call in _of_operator(op, dtype, samples, seed, untraced):
                if call.signature not in seen:
                    seen.add(call.signature)
                    yield call


@contextmanager
def _outside_of_tests() -> Iterator[None]:
    """Within, torch's samples are the same and take half of the time: no stack is searched for a
    test of torch's own, and only the processor's generator gets the seed of each sample.
    """
    from torch.testing._internal import common_utils

    with (
        mock.patch.object(common_utils, "extract_test_fn", return_value=None),
        mock.patch.object(torch, "manual_seed", torch.default_generator.manual_seed),
    ):
        yield


def _of_operator(
    op: Any, dtype: Any, samples: int, seed: int, untraced: list[str]
) -> Iterator[Call]:
    torch.manual_seed(seed)
    try:
        with _outside_of_tests():
            inputs = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    except Exception as error:  # whatever torch raises of its own samples
        untraced.append(f"{op.name} {dtype}: no samples: {type(error).__name__}")
        return
    if len(inputs) > samples:
        inputs = random.Random(seed).sample(inputs, samples)
    for sample in inputs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                calls = calls_of(op.get_op(), (sample.input, *sample.args), sample.kwargs)
            except Exception as error:  # tracing raises many things
                untraced.append(f"{op.name} {dtype}: {type(error).__name__}")
                continue
        yield from calls


# -- the same with Infuse --------------------------------------------------------------------------


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The elements of a tensor."""
    tensor = tensor.detach().contiguous().resolve_conj()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor).contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def dtype_of(dtype: torch.dtype) -> DType:
    """Infuse's element type for one of torch."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES_BY_NAME:
        raise UnsupportedOperatorError(f"{dtype} is not supported")
    return DTYPES_BY_NAME[name]


def graph_of(call: Call, symbolic: bool = False) -> tuple[Graph, dict[str, Any]]:
    """A graph of one call, and its inputs; `symbolic` leaves sizes above 1 open."""
    g = TorchImporter("call")
    g.called = call.overload
    feeds: dict[str, Any] = {}

    def argument(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            name = f"x{len(feeds)}"
            feeds[name] = array_of(x)
            sizes = [f"{name}_d{i}" if symbolic and n > 1 else n for i, n in enumerate(x.shape)]
            if x.is_complex():
                return Complex(g.input(name, part_type(dtype_of(x.dtype)), [*sizes, 2]))
            return g.input(name, dtype_of(x.dtype), sizes)
        if isinstance(x, torch.dtype):
            return dtype_of(x)
        return list(x) if isinstance(x, (torch.Size, tuple)) else x

    args, kwargs = pytree.tree_map(
        argument, (list(call.args), {k: v for k, v in call.kwargs.items() if k not in PLACEMENT})
    )
    results = _leaves(call.results)
    unknown = symbolic and any(n > 1 for x in feeds.values() for n in x.shape)
    g.results = [
        Meta(dtype_of(x.dtype), tuple(None if unknown and n > 1 else n for n in x.shape))
        for x in results
    ]
    g.dense = call.dense
    if not is_read(call.overload):
        raise UnsupportedOperatorError("there is no entry for it")
    made = g.handler(call.overload, [*args, *kwargs.values()])(g, *args, **kwargs)
    values = list(made) if isinstance(made, (list, tuple)) else [made]
    for number, value in enumerate(values):
        if isinstance(value, Complex):
            value = value.parts
        if value is not None:
            g.output(f"y{number}", value if isinstance(value, Value) else g.constant(value))
    return g.graph, feeds


def _leaves(results: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(results) if isinstance(x, torch.Tensor)]


def difference(call: Call, outputs: dict[str, Any]) -> str:
    """What differs between these outputs and torch's; empty where nothing does."""
    name = call.overload.partition(".")[2]
    results = _leaves(call.results)
    if not results:
        if not outputs and isinstance(call.results, (list, tuple)):
            return ""
        return "" if outputs["y0"] == call.results[0] else "another number"
    for number, expected in enumerate(results):
        if f"y{number}" not in outputs:
            continue
        actual, reference = np.asarray(outputs[f"y{number}"]), array_of(expected)
        if (
            by_numpy(actual.dtype) != part_type(dtype_of(expected.dtype))
            or actual.shape != reference.shape
        ):
            return (
                f"result {number} is {actual.dtype}{list(actual.shape)}, "
                f"{reference.dtype}{list(reference.shape)} in torch"
            )
        if name.startswith(RANDOM):
            continue
        if number == 1 and name in ("sort.default", "topk.default"):
            actual, reference = (_at(call, places) for places in (actual, reference))
        if expected.dtype.is_floating_point or expected.is_complex():
            wrong = _far(actual, reference, TOLERANCES.get(expected.dtype, 3e-5))
        else:
            wrong = "" if np.array_equal(actual, reference) else "elements differ"
        if wrong:
            return f"result {number}: {wrong}"
    return "" if any(f"y{i}" in outputs for i in range(len(results))) else "no result"


def _at(call: Call, places: Any) -> Any:
    """The elements at these places of an axis: equal ones may be in any order."""
    x = array_of(call.args[0])
    axis = {"sort": 1, "topk": 2}[call.overload.split(".")[1]]
    dim = call.args[axis] if len(call.args) > axis else call.kwargs.get("dim", -1)
    return np.take_along_axis(x, places, dim) if x.ndim else places


def _far(actual: Any, reference: Any, tolerance: float) -> str:
    a, b = (x.astype(np.float64) for x in (actual, reference))
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "elements that are not finite differ"
    scale = np.abs(b[finite]).max(initial=0.0)
    distance = np.abs(a[finite] - b[finite])
    far = distance > tolerance * np.maximum(np.abs(b[finite]), min(1.0, scale)) + 1e-7
    return f"off by {distance.max():.3g} of {scale:.3g}" if far.any() else ""


def checked(call: Call, symbolic: bool = False) -> str:
    """Why a call is not right; empty where it is."""
    try:
        graph, feeds = graph_of(call, symbolic)
        with np.errstate(invalid="ignore"):  # memory that is not set may hold signalling NaN
            return difference(call, evaluate(graph, feeds))
    except InfuseError as error:
        kind = "refused: " if isinstance(error, UnsupportedOperatorError) else ""
        return f"{kind}{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    except Exception as error:
        return f"FAULT {type(error).__name__}: {str(error)[:200]}"
