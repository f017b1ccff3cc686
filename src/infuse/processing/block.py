"""What makes a function of traced arrays a building block: it runs on NumPy's arrays too."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar, cast, overload

import numpy as np

from infuse.ops.core.evaluate import evaluate
from infuse.tracing.arrays.array import is_tracing
from infuse.tracing.arrays.tracing import Spec, trace_inputs

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def block(function: Function) -> Function: ...


@overload
def block(*, settings: Collection[str]) -> Callable[[Function], Function]: ...


def block(function: Function | None = None, *, settings: Collection[str] = ()) -> Any:
    """A function of arrays that returns an array or a tuple of them, as a building block.

    Inside of a trace it adds its nodes to the program. Outside, arguments that are arrays of NumPy
    are traced as inputs of their types and shapes, and the graph is evaluated; but those that
    `settings` names stay arrays of NumPy, whose elements the function may look at.
    """
    return partial(_block, settings=settings) if function is None else _block(function, settings)


def _block(function: Function, settings: Collection[str]) -> Function:
    parameters = signature(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return function(*args, **kwargs)
        bound = parameters.bind(*args, **kwargs)
        feeds = {
            n: x
            for n, x in bound.arguments.items()
            if isinstance(x, (np.ndarray, np.generic)) and n not in settings
        }
        is_tuple = False

        def program(**arrays: Any) -> Any:
            nonlocal is_tuple
            result = function(**{**bound.arguments, **arrays})
            is_tuple = isinstance(result, tuple)
            return result

        specs = {name: Spec.of(array) for name, array in feeds.items()}
        graph = trace_inputs(program, specs, function.__name__, sources=False)
        results = list(evaluate(graph, {name: np.asarray(x) for name, x in feeds.items()}).values())
        return tuple(results) if is_tuple else results[0]

    return cast(Function, call)
