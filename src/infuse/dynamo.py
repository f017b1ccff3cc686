"""The backend of `torch.compile(module, backend="infuse")`."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from infuse import dtypes
from infuse.dynamo_report import Recorder, Report
from infuse.errors import InputError, OptionError, UnsupportedOperatorError
from infuse.options import CompileOptions, Rules
from infuse.options.fields import flat_fields
from infuse.runtime.interface import Model

_COMPILING: Final = frozenset(each.name for each in flat_fields(CompileOptions)) - {
    "target",
    "prefix",
}
_RULES: Final = frozenset(each.name for each in flat_fields(Rules))
_COMPILED: Final = 3
"""How many values of a weight are compiled before it becomes an input."""


def backend(
    module: Any,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """A function that computes an FX graph of torch.compile, for calls without gradients.

    Weights are part of the compiled code: after one is changed, the next call compiles anew; one
    that changes a third time becomes an input.
    `options` are the fields of `CompileOptions` and `Rules` by name (precision, max_difference,
    threads, tune, level, search …); the number of threads is torch's by default. OptionError for
    other options and for modes.
    """
    from torch._dynamo.backends.common import aot_autograd

    from infuse.frontends.torch import decompositions

    options = dict(options or {})
    if unknown := sorted(options.keys() - _COMPILING - _RULES):
        raise OptionError(
            f"torch.compile's backend infuse has no option {', '.join(unknown)}",
            hint=f"the options are {', '.join(sorted(_COMPILING | _RULES))}",
        )
    if mode not in (None, "default"):
        raise OptionError(
            f"torch.compile's backend infuse has no mode {mode!r}",
            hint="use options, such as options={'tune': True}",
        )

    rules = Rules(**{name: options.pop(name) for name in _RULES if name in options})
    compiling = CompileOptions.flat(**options)

    def compiler(graph: Any, _: Any) -> Any:
        return _boxed(Function(graph, compiling, rules))

    _recorder.add(module)
    compile_functional = aot_autograd(
        fw_compiler=_refuse_gradients,
        inference_compiler=compiler,
        decompositions=decompositions(),
    )
    return compile_functional(module, inputs)


_recorder = Recorder(backend)
_recorder.listen()
backend.reset = _recorder.clear  # type: ignore[attr-defined]  # what torch._dynamo.reset calls


def report() -> Report:
    """How much of the programs of this process torch has handed to Infuse: graphs, operators, and
    what torch runs itself and why. `torch._dynamo.reset()` starts anew.
    """
    _recorder.listen()
    return _recorder.report()


def _refuse_gradients(*_: Any) -> Any:
    raise UnsupportedOperatorError(
        "Infuse computes no gradients", hint="call the module within torch.inference_mode()"
    )


def _boxed(function: Function) -> Any:
    def call(arguments: list[Any]) -> list[Any]:
        values = tuple(arguments)
        arguments.clear()
        return function(values)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


class Function:
    """One FX graph, compiled at its first call for the weights of that call."""

    def __init__(self, module: Any, options: CompileOptions, rules: Rules) -> None:
        import torch
        from torch._guards import TracingContext

        from infuse.frontends.torch import from_fx

        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        (results,) = module.graph.output_node().args
        values = [getattr(result, "meta", {}).get("val", result) for result in results]
        self._orders = [_order(v) if isinstance(v, torch.Tensor) else None for v in values]
        self._numbers = [not isinstance(value, torch.Tensor) for value in values]
        devices = {str(n.meta["val"].device) for n in nodes if hasattr(n.meta["val"], "device")}
        if devices - {"cpu"}:
            raise InputError(f"Infuse runs on the CPU; tensors are on {', '.join(sorted(devices))}")
        context = TracingContext.try_get()
        metadata = context.fw_metadata if context is not None else None
        weights = _unchanged(metadata) if metadata is not None else frozenset()
        names = [node.name for node in nodes]
        self._graph = from_fx(module, "torch_compile")
        present = {value.name for value in self._graph.inputs}
        self._weights = [(i, n) for i, n in enumerate(names) if n in present and i in weights]
        self._positions = [i for i, n in enumerate(names) if n in present]
        self._inputs: list[int] = []
        self._options, self._rules = options, rules
        self._lock = threading.Lock()
        self._model: Model | None = None
        self._state: dict[int, tuple[int, int]] = {}
        self._changes: Counter[int] = Counter()

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """The results for torch's tensors and numbers."""
        with self._lock:
            state = {position: _state(arguments[position]) for position, _ in self._weights}
            if self._model is None or state != self._state:
                self._note_changes(state)
                self._model = self._compile(arguments)
            model, inputs = self._model, self._inputs
        results = model(*(_array(arguments[position]) for position in inputs))
        if len(self._numbers) == 1:
            results = (results,)
        return [
            int(result) if number else _tensor(result, order)
            for result, number, order in zip(results, self._numbers, self._orders, strict=True)
        ]

    def _note_changes(self, state: dict[int, tuple[int, int]]) -> None:
        """Take weights that have changed often for inputs from now on."""
        changed = [position for position, now in state.items() if self._state.get(position) != now]
        self._changes.update(changed)
        self._weights = [w for w in self._weights if self._changes[w[0]] <= _COMPILED]
        weights = {position for position, _ in self._weights}
        self._inputs = [position for position in self._positions if position not in weights]
        self._state = {position: state[position] for position in weights}

    def _compile(self, arguments: Sequence[Any]) -> Model:
        import torch

        from infuse import api

        inputs = {value.name: value for value in self._graph.inputs}
        for position, name in self._weights:
            inputs[name].default = _array(arguments[position])
        rules, options = self._rules, self._options
        graph = api.optimize(self._graph, rules, fix_defaults=True)
        for _, name in self._weights:
            inputs[name].default = None
        if options.threads is None:
            options = replace(options, threads=torch.get_num_threads())
        return api.compile(graph, options)


def _unchanged(metadata: Any) -> frozenset[int]:
    """The positions of parameters and buffers that the graph itself does not change."""
    positions = metadata.static_input_indices or ()
    return frozenset(i for i in positions if not metadata.input_info[i].mutates_data)


def _state(weight: Any) -> tuple[int, int]:
    """What differs after a weight was changed or replaced."""
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version


def _array(value: Any) -> Any:
    """The elements of a tensor where they are, if they lie there in order, or of a number."""
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(value, np.int64)
    value = value.detach().contiguous().resolve_conj().resolve_neg()
    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().view(dtypes.bfloat16.numpy)
    return value.numpy()


def _tensor(array: Any, order: Sequence[int] | None) -> Any:
    """The tensor of a result, whose axes lie in memory in this order."""
    import torch

    if array.dtype == dtypes.bfloat16.numpy:
        tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    if order is None:
        return tensor
    return tensor.permute(*order).contiguous().permute(*np.argsort(order).tolist())


def _order(tensor: Any) -> list[int] | None:
    """The axes of a dense tensor from the largest stride to the smallest; None if that is how they
    are numbered, or if the tensor is not dense.
    """
    sizes, strides = _hints(tensor.shape), _hints(tensor.stride())
    order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis))
    step = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != step:
            return None
        step *= sizes[axis]
    return None if order == sorted(order) else order


def _hints(sizes: Sequence[Any]) -> list[int]:
    """Numbers, with the example's in place of symbols."""
    return [size if isinstance(size, int) else int(size.node.hint) for size in sizes]
