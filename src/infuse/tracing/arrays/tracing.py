"""From a function of arrays to a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

import infuse.tracing.arrays.namespace  # noqa: F401  gives arrays their operators
from infuse.errors import OptionError, TypeMismatchError
from infuse.immutable import Immutable
from infuse.ir.graph import Graph
from infuse.ops.core.sizes import numbering
from infuse.tracing.arrays.array import Array, Complex, dtype_of, lifted, tracing
from infuse.tracing.importer import Importer
from infuse.tracing.sizes import Sizes


class Spec(Immutable):
    """An input of a traced program: its element type, and its shape, in which a size is a number,
    the name of a symbol, or None for one that nothing is known of.
    """

    dtype: Any
    shape: tuple[int | str | None, ...] = ()

    @staticmethod
    def of(spec: Any) -> Spec:
        """A Spec, an array that an input is like, or a pair of element type and shape."""
        if isinstance(spec, Spec):
            return spec
        if isinstance(spec, (np.ndarray, np.generic)):
            return Spec(spec.dtype, spec.shape)
        if isinstance(spec, tuple) and len(spec) == 2:
            return Spec(spec[0], tuple(spec[1]))
        raise OptionError(
            f"{spec!r} describes no input", hint='give infuse.Spec("float32", ("batch", 3))'
        )


def trace(
    function: Callable[..., Any],
    specs: Mapping[str, Any] | Sequence[Any],
    *,
    name: str = "",
) -> Graph:
    """The graph of what `function` computes of arrays that are like `specs`: by parameter's name,
    or in their order.

    The function uses the arrays' operators, indices, and the functions of the Array API standard
    (`xp = x.__array_namespace__()`), so that it runs on NumPy's arrays too. It is run once; what
    depends on elements at run time is written with where, infuse.cond, infuse.loop and infuse.scan.
    Its result is an array, a tuple of them, or a dictionary of them by name.
    """
    parameters = list(signature(function).parameters)
    by_name = dict(specs) if isinstance(specs, Mapping) else dict(zip(parameters, specs))
    if not isinstance(specs, Mapping) and len(specs) > len(parameters):
        raise OptionError(
            f"there are {len(specs)} specs for the {len(parameters)} parameters of the function"
        )
    inputs = {key: Spec.of(spec) for key, spec in by_name.items()}
    return trace_inputs(function, inputs, name or getattr(function, "__name__", "function"))


def trace_inputs(
    function: Callable[..., Any], inputs: Mapping[str, Spec], name: str, *, sources: bool = True
) -> Graph:
    """The graph of what a function returns for these arguments by name; `sources`: whether nodes
    are noted with the lines of the program.
    """
    for key, spec in inputs.items():
        if dtype_of(spec.dtype).numpy.kind == "c":
            raise TypeMismatchError(
                f"input {key!r} is complex, and a graph has no complex values",
                hint="give its parts as two inputs, and write x = re + 1j * im",
            )
    texts = [size for spec in inputs.values() for size in spec.shape if isinstance(size, str)]
    sizes = Sizes(texts)
    g = Importer(name, sizes)
    with numbering(sizes.taken), tracing(g, sources):
        arrays = {
            key: Array(g.input(key, dtype_of(spec.dtype), spec.shape))
            for key, spec in inputs.items()
        }
        for key, result in _named(function(**arrays)).items():
            g.output(key, _result(g, key, result))
    return g.graph


def _named(results: Any) -> dict[str, Any]:
    if isinstance(results, Mapping):
        return {str(key): value for key, value in results.items()}
    if isinstance(results, (tuple, list)):
        return {f"output_{number}": value for number, value in enumerate(results)}
    return {"output": results}


def _result(g: Importer, name: str, result: Any) -> Any:
    if result is None:
        raise TypeMismatchError(f"result {name!r} of the traced function is None, not an array")
    array = lifted(result)
    if isinstance(array, Complex):
        raise TypeMismatchError(
            f"result {name!r} of the traced function is complex, and a graph has no complex values",
            hint="return its parts, real(x) and imag(x)",
        )
    value = array.value
    return g("Identity", value) if value.producer is None else value
