"""A model that answers in one form until another form of it, checked against the first, is
ready.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from infuse.errors import InfuseError
from infuse.runtime.feeds import by_name
from infuse.runtime.interface import Model, Runner
from infuse.runtime.session import unpack
from infuse.runtime.shapes import TensorSpec

NICENESS: Final = 10
"""That of what compiles while a model answers."""
_MOST_UNEQUAL: Final = 0.01
"""Of integers, such as indices of largest elements, so many may differ where floats did."""
_ROUNDED: Final = 2  # bytes; integers of so many may be rounded numbers, which differ by 1


class Sample:
    """The first real call: its inputs, and what they gave."""

    def __init__(self, inputs: Mapping[str, Any] | Sequence[Any], outputs: Sequence[Any]) -> None:
        self._inputs = _copied(inputs)
        self._outputs = _copied(outputs)

    def difference(self, model: Model, bound: float) -> str:
        """What another model gives that these outputs are not; "" where floats differ by at most
        `bound` of the largest of an output, and integers agree.
        """
        try:
            if isinstance(self._inputs, dict):
                results = [*model.run(self._inputs).values()]
            else:
                results = _listed(model(*self._inputs))
        except InfuseError as error:
            return f"it failed: {error}"
        for spec, expected, actual in zip(model.outputs, self._outputs, results, strict=True):
            if what := difference(expected, actual, bound):
                return f"the output {spec.name} {what}"
        return ""


class SwappingModel:
    """A `Model` that is `first` until `swap`; a call in progress ends in the form in which it
    began.
    """

    def __init__(self, first: Model) -> None:
        self.current: Model = first
        """What answers now."""
        self.trouble = ""
        """Why it stays as it is; "" while it may still change, and after it has."""
        self._is_sampling, self._is_closed = True, False
        self._renewed()
        self._listeners: list[Callable[[Model], None]] = []
        _swapping.add(self)

    def _renewed(self) -> None:
        """Locks that no thread holds: those of a child after a fork."""
        self._lock = threading.Lock()
        self._sampled = threading.Event()
        if not self._is_sampling:
            self._sampled.set()

    # -- the swap ----------------------------------------------------------------------------------

    def sample(self, seconds: float | None = None) -> Sample | None:
        """The first call, for which this waits so long (None: without end); None where none came,
        or the model was closed.
        """
        self._sampled.wait(seconds)
        return self._sample if self._sampled.is_set() and not self._is_closed else None

    def when_swapped(self, listener: Callable[[Model], None]) -> None:
        """Call `listener` with the form that answers after the swap."""
        self._listeners.append(listener)

    def swap(self, model: Model) -> None:
        """Answer from `model` from the next call on."""
        with self._lock:
            if self._is_closed:
                model.close()
                return
            # Calls in progress hold what they run on; it is freed when the last one ends.
            self.current = model
        self._sample = None
        for listener in self._listeners:
            listener(model)

    def stays(self, why: str) -> None:
        """There will be no other form."""
        self.trouble, self._sample, self._is_sampling = why, None, False

    _sample: Sample | None = None

    def _remember(self, inputs: Mapping[str, Any] | Sequence[Any], outputs: Sequence[Any]) -> None:
        with self._lock:
            if not self._is_sampling:
                return
            self._is_sampling = False
            self._sample = Sample(inputs, outputs)
        self._sampled.set()

    # -- a model -----------------------------------------------------------------------------------

    @property
    def tier(self) -> str:
        """See `Model`."""
        return self.current.tier

    @property
    def name(self) -> str:
        """The model's name."""
        return self.current.name

    @property
    def metadata(self) -> dict[str, Any]:
        """What is known of the form that answers now."""
        return self.current.metadata

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of every input."""
        return self.current.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of every output."""
        return self.current.outputs

    @property
    def threads(self) -> int:
        """The number of threads of a call."""
        return self.current.threads

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers: another run gives other outputs."""
        return self.current.is_random

    @property
    def host_steps(self) -> list[str]:
        """What the interpreter runs: operator and node."""
        return self.current.host_steps

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights of the form that answers now."""
        return self.current.weights_bytes

    @property
    def arena_bytes(self) -> int:
        """Bytes of working memory of one context, after the calls so far."""
        return self.current.arena_bytes

    @property
    def arena_lower_bound(self) -> int:
        """The most bytes of intermediate tensors that were live at once."""
        return self.current.arena_lower_bound

    def run(self, inputs: Mapping[str, Any] | Any) -> dict[str, Any]:
        """The outputs by name. InputError when the inputs do not fit, RuntimeFailure when the run
        fails.
        """
        return self._run(self.current, inputs)

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for inputs in order: a tuple, or the value itself when it is only one."""
        results = self.current(*inputs)
        if self._is_sampling:
            self._remember(inputs, _listed(results))
        return results

    def session(self, threads: int | None = None) -> SwappingSession:
        """A context of the caller's own, for one thread."""
        return SwappingSession(self, threads)

    def _run(self, runner: Model | Runner, inputs: Mapping[str, Any] | Any) -> dict[str, Any]:
        if not isinstance(inputs, Mapping):
            inputs = by_name(inputs, self.inputs)
        results = runner.run(inputs)
        if self._is_sampling:
            self._remember(inputs, [*results.values()])
        return results

    def _execute(self, runner: Runner, inputs: Sequence[Any]) -> list[Any]:
        results = runner.execute(inputs)
        if self._is_sampling:
            self._remember(inputs, results)
        return results

    def give_back_weights(self) -> None:
        """Let the weights of native code leave the memory until a run reads them again."""
        self.current.give_back_weights()

    def close(self) -> None:
        """Free what the model holds; it changes no more."""
        with self._lock:
            self._is_closed, self._is_sampling, self._sample = True, False, None
        self._sampled.set()
        self.current.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def __enter__(self) -> SwappingModel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class SwappingSession:
    """A context of the form that answers now; runs one call at a time."""

    def __init__(self, owner: SwappingModel, threads: int | None) -> None:
        self._owner, self._threads = owner, threads
        self._form = owner.current
        self._session = self._form.session(threads)

    def _current(self) -> Runner:
        form = self._owner.current
        if form is not self._form:
            before, self._session = self._session, form.session(self._threads)
            self._form = form
            before.close()
        return self._session

    def run(self, inputs: Mapping[str, Any] | Any) -> dict[str, Any]:
        """See `Session.run`."""
        return self._owner._run(self._current(), inputs)

    def execute(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs in order for inputs in order."""
        return self._owner._execute(self._current(), inputs)

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for inputs in order: a tuple, or the value itself when it is only one."""
        return unpack(self.execute(inputs))

    def close(self) -> None:
        """Free the context."""
        self._session.close()


_swapping: weakref.WeakSet[SwappingModel] = weakref.WeakSet()


def _after_fork() -> None:
    for model in list(_swapping):
        model._renewed()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _listed(results: Any) -> list[Any]:
    return [*results] if isinstance(results, tuple) else [results]


def _copied(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {name: _copied(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(each) for each in value]
    return np.array(value, copy=True)


def difference(expected: Any, actual: Any, bound: float) -> str:
    """What a value is that another one is not; "" where floats differ by at most `bound` of the
    largest, and integers agree but for few, or by the last bit of a rounded one.
    """
    if isinstance(expected, list | dict) or expected is None:
        return _nested_difference(expected, actual, bound)
    expected, actual = np.asarray(expected), np.asarray(actual)
    if (expected.dtype, expected.shape) != (actual.dtype, actual.shape):
        return (
            f"is {actual.dtype} {list(actual.shape)}, not {expected.dtype} {list(expected.shape)}"
        )
    if not expected.size:
        return ""
    if expected.dtype.kind in "iubOUS":
        return _unequal(expected, actual)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    expected, actual = expected.astype(wide), actual.astype(wide)
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(actual)) or not np.array_equal(
        expected[~finite], actual[~finite], equal_nan=True
    ):
        return "has other elements that are not finite"
    if not finite.any():
        return ""
    largest = np.abs(expected[finite]).max()
    error = np.abs(expected[finite] - actual[finite]).max()
    if error <= bound * largest:
        return ""
    return f"differs by {error:.3g}, and its largest element is {largest:.3g}"


def _nested_difference(expected: Any, actual: Any, bound: float) -> str:
    if expected is None or type(expected) is not type(actual) or len(expected) != len(actual):
        return "" if expected is None and actual is None else "is another value"
    if isinstance(expected, dict) and expected.keys() != actual.keys():
        return "has other keys"
    pairs = (
        ((expected[key], actual[key]) for key in expected)
        if isinstance(expected, dict)
        else zip(expected, actual, strict=True)
    )
    return next(filter(None, (difference(*pair, bound) for pair in pairs)), "")


def _unequal(expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any]) -> str:
    unequal = expected != actual
    if expected.dtype.kind in "iu" and expected.itemsize <= _ROUNDED:
        unequal = np.abs(expected.astype(np.int64) - actual.astype(np.int64)) > 1
    count = np.count_nonzero(unequal)
    if count <= _MOST_UNEQUAL * expected.size:
        return ""
    return f"differs in {count} of {expected.size} elements"
