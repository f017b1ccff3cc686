"""One execution context of a compiled model: the code between a Python call and the native
function.
"""

from __future__ import annotations

import ctypes
import math
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from threading import get_ident
from typing import Any, Final

import numpy as np
from numpy import empty, ndarray
from numpy.typing import NDArray

from infuse.errors import CancelledError, DataError, InputError, RuntimeFailure, did_you_mean
from infuse.runtime.cancelling import ACTIVE
from infuse.runtime.cpus import usable_threads
from infuse.runtime.feeds import by_name, not_an_array
from infuse.runtime.library import Library
from infuse.runtime.shapes import ShapeBinder, TensorSpec, returned
from infuse.runtime.stated import StatedShapes

Array = NDArray[Any]

_BYTE_VIEW: Final[Callable[[Any], ctypes.c_char]] = ctypes.c_char.from_buffer
_ADDRESS: Final = ctypes.addressof
_ALIGNMENT: Final = 64
_ALIGNED_FROM: Final = 1 << 16  # bytes; below, the alignment of an array costs more than it gains
_MOST_PLANS: Final = 1024
_NO_MEMORY: Final = 1
_CANCELLED: Final = 3
_BUSY: Final = 6
_BAD_DATA: Final = 2
# As kernels/interface.h numbers them.
_FAILURES: Final = {
    _NO_MEMORY: "out of memory",
    _BAD_DATA: "an index or a value in the input data is out of range",
}


class Plan:
    """What all calls with the same input shapes have in common."""

    __slots__ = ("_symbols", "direct", "outputs", "symbols")

    def __init__(
        self, values: Sequence[int], outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    ) -> None:
        self._symbols = (ctypes.c_int64 * max(1, len(values)))(*values)
        self.symbols = _ADDRESS(self._symbols)
        self.outputs = tuple(outputs)
        bytes_of = [math.prod(shape) * dtype.itemsize for shape, dtype in outputs]
        self.direct = all(0 < size < _ALIGNED_FROM for size in bytes_of) and all(
            _viewable(d) for _, d in outputs
        )


class Signature:
    """The inputs and outputs of a model, and its plans, shared by all of its sessions."""

    def __init__(self, library: Library) -> None:
        metadata = library.metadata
        self.library = library
        self.inputs = tuple(TensorSpec.from_metadata(entry) for entry in metadata.get("inputs", ()))
        self.results = tuple(
            TensorSpec.from_metadata(entry) for entry in metadata.get("outputs", ())
        )
        """What the library gives: the outputs, and the sizes of those whose rank a run finds
        out.
        """
        self.ranked = {n: s.sizes for n, s in enumerate(self.results) if s.sizes is not None}
        self.outputs = returned(self.results)
        self.input_names = tuple(spec.name for spec in self.inputs)
        self.output_names = tuple(spec.name for spec in self.outputs)
        self.optional = {
            n: tuple(map(int, s.shape)) for n, s in enumerate(self.inputs) if s.optional
        }
        """The shapes of inputs with a default, by number."""
        self.plans: dict[tuple[tuple[int, ...], ...], Plan] = {}
        self.late = tuple(number for number, spec in enumerate(self.results) if spec.late)
        self._names: dict[str, str] = metadata.get("names", {})
        self.stated = StatedShapes(metadata.get("model", {}))
        self._binder = ShapeBinder(self.inputs, metadata.get("symbols", ()))

    def plan(self, shapes: tuple[tuple[int, ...], ...]) -> Plan:
        """Make and keep the plan for these shapes; InputError when the model does not take them."""
        values = self._binder.bind(shapes)
        self._warn_of_names(dict(zip(self._binder.symbols, values)))
        bare = Plan(values, ())
        sizes = self.library.output_sizes(
            bare.symbols, sum(len(spec.shape) for spec in self.results)
        )
        if sizes is None:
            bound = ", ".join(
                f"{name} = {value}" for name, value in zip(self._binder.symbols, values)
            )
            raise InputError(
                f"the model gives no valid output shapes for {bound or 'its fixed shapes'}"
            )
        outputs, start = [], 0
        for spec in self.results:
            shape = (0,) if spec.late else tuple(sizes[start : start + len(spec.shape)])
            outputs.append((shape, spec.dtype))
            start += len(spec.shape)
        if len(self.plans) >= _MOST_PLANS:
            self.plans.clear()
        return self.plans.setdefault(shapes, Plan(values, outputs))

    def _warn_of_names(self, values: Mapping[str, int]) -> None:
        """Warn where sizes differ that the model calls the same, although nothing in it relies on
        that.
        """
        sizes: dict[str, set[int]] = {}
        for symbol, name in self._names.items():
            sizes.setdefault(name, set()).add(values[symbol])
        for name, different in sizes.items():
            if len(different) > 1:
                texts = ", ".join(map(str, sorted(different)))
                warnings.warn(
                    f"the model calls sizes of several inputs {name}, and they are {texts}",
                    RuntimeWarning,
                    stacklevel=6,
                )

    def missing_or_unknown(self, names: Mapping[str, object]) -> InputError:
        """The error for input names that are not those of the model."""
        missing = [
            spec.name for spec in self.inputs if spec.name not in names and not spec.optional
        ]
        unknown = [name for name in names if name not in self.input_names]
        parts = []
        if missing:
            parts.append(f"the input {', '.join(map(repr, missing))} is missing")
        if unknown:
            parts.append(f"the model has no input {', '.join(map(repr, unknown))}")
        candidates = missing or self.input_names
        guesses = filter(None, (did_you_mean(str(name), candidates) for name in unknown))
        inputs = f"the model takes {', '.join(map(str, self.inputs))}"
        return InputError(" and ".join(parts), hint=" ".join([*islice(guesses, 1), inputs]))


class Session:
    """Runs a model in one context of its own. A session runs one call at a time: give each thread
    its own.
    """

    def __init__(self, signature: Signature, threads: int) -> None:
        library = signature.library
        handle = library.open(usable_threads(threads))
        self._closer = weakref.finalize(self, library.close, handle)
        self._closer.atexit = False
        self._signature = signature
        self._handle = handle
        self._native = library.run
        self._plans = signature.plans
        self._late = signature.late
        self._ranked = signature.ranked
        self._optional = signature.optional
        self._dtypes = tuple(spec.dtype for spec in signature.inputs)
        self._states = frozenset(i for i, spec in enumerate(signature.inputs) if spec.state)
        self._misaligned = tuple(dtype.alignment - 1 for dtype in self._dtypes)
        self._inputs = (ctypes.c_void_p * max(1, len(signature.inputs)))()
        self._outputs = (ctypes.c_void_p * max(1, len(signature.results)))()
        self._input_table = _ADDRESS(self._inputs)
        self._output_table = _ADDRESS(self._outputs)

    @property
    def arena_bytes(self) -> int:
        """Bytes of working memory that this session holds."""
        return self._signature.library.arena_bytes(self._open_handle())

    @property
    def live_bytes(self) -> int:
        """The most bytes of intermediate tensors that were live at once in the last run; no plan
        needs less.
        """
        return self._signature.library.live_bytes(self._open_handle())

    def records(self) -> tuple[NDArray[np.int64], int]:
        """What the last run of a model that was compiled for profiling has recorded
        (`Library.records`).
        """
        return self._signature.library.records(self._open_handle())

    def run(self, inputs: Mapping[str, Any] | Array) -> dict[str, Array]:
        """The outputs by name, freshly allocated, for arrays by input name, or for an array where
        the model needs one.

        Raises InputError when names, types or shapes are not the model's, RuntimeFailure when the
        run fails.
        """
        signature = self._signature
        names = signature.input_names
        if type(inputs) is not dict:
            inputs = by_name(inputs, signature.inputs)
        try:
            values = [inputs[name] for name in names]
        except KeyError:
            values = [inputs.get(name) for name in names]
            if any(
                name not in inputs and i not in signature.optional for i, name in enumerate(names)
            ):
                raise signature.missing_or_unknown(inputs) from None
        if len(inputs) != len(values) and not inputs.keys() <= {*names}:
            raise signature.missing_or_unknown(inputs)
        return dict(zip(signature.output_names, self.execute(values)))

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for arrays in the order of the model's inputs: a tuple, or the array itself
        when it is one.
        """
        return unpack(self.execute(inputs))

    def execute(self, values: Sequence[Any]) -> list[Array]:
        """The outputs in order for arrays in order; None, or nothing at the end, stands for the
        default of an input.
        """
        dtypes, misaligned, pointers = self._dtypes, self._misaligned, self._inputs
        if len(values) != len(dtypes):
            values = self._completed(values)
        shapes, converted = [], []
        for i, array in enumerate(values):
            if type(array) is not ndarray or array.dtype is not dtypes[i]:
                if i in self._states:
                    raise _no_state(self._signature.inputs[i], array)
                if array is None and i in self._optional:
                    shapes.append(self._optional[i])
                    pointers[i] = None
                    continue
                array = self._convert(i, array)
                converted.append(array)
            shapes.append(array.shape)
            try:
                address = _ADDRESS(_BYTE_VIEW(array))
                if address & misaligned[i]:
                    raise ValueError
            except (
                TypeError,
                ValueError,
                BufferError,
            ):  # read-only, strided, empty, or a type of no buffer format
                if i in self._states and not array.flags.carray:
                    raise _no_state(self._signature.inputs[i], array) from None
                if not (array.flags.c_contiguous and array.flags.aligned):
                    array = np.require(array, requirements=("C", "A"))
                    converted.append(array)
                address = array.__array_interface__["data"][0]
            pointers[i] = address
        key = tuple(shapes)
        plan = self._plans.get(key) or self._signature.plan(key)
        try:
            results = self._allocate(plan)
        except (
            MemoryError,
            ValueError,
        ) as error:  # ValueError: more elements than an address can tell apart
            shapes_of = ", ".join(str(list(shape)) for shape, _ in plan.outputs)
            raise RuntimeFailure(
                f"there is not enough memory for the outputs, of the shapes {shapes_of[:200]}",
                hint="run it on smaller inputs, or give the process more memory",
            ) from error
        handle = self._handle or self._open_handle()
        if ACTIVE and (watched := ACTIVE.get(get_ident())):
            with watched.watching(self._cancel):
                status = self._native(handle, plan.symbols, self._input_table, self._output_table)
        else:
            status = self._native(handle, plan.symbols, self._input_table, self._output_table)
        if status:
            raise self._failure(status)
        for number in self._late:
            spec = self._signature.results[number]
            results[number] = self._signature.library.late_output(
                handle, number, spec.dtype, len(spec.shape)
            )
        if self._ranked:
            for number, sizes in self._ranked.items():
                results[number] = results[number].reshape(results[sizes])
                signature = self._signature
                signature.stated.check(signature.results[number].name, results[number].shape)
            del results[len(self._signature.outputs) :]
        return results

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the context; later calls raise RuntimeFailure. Closing twice does nothing."""
        self._handle = 0
        self._closer()

    def abandon(self) -> None:
        """Forget the context without ending its threads: for a child after a fork, where they do
        not exist.
        """
        self._handle = 0
        self._closer.detach()

    def _cancel(self, cancelled: bool) -> None:
        """Let the run end, or later ones go on."""
        if self._handle:
            self._signature.library.cancel(self._handle, cancelled)

    def _allocate(self, plan: Plan) -> list[Array]:
        pointers, results = self._outputs, []
        if plan.direct:
            for i, (shape, dtype) in enumerate(plan.outputs):
                array = empty(shape, dtype)
                pointers[i] = _ADDRESS(_BYTE_VIEW(array))
                results.append(array)
            return results
        for i, (shape, dtype) in enumerate(plan.outputs):
            array, pointers[i] = _aligned(shape, dtype)
            results.append(array)
        return results

    def _open_handle(self) -> int:
        if not self._handle:
            raise RuntimeFailure(
                "the session is closed", hint="open another one, or load the model again"
            )
        return self._handle

    def _convert(self, index: int, value: Any) -> Array:
        """`value` as an array of the type of input `index`, without changing any number in it."""
        spec = self._signature.inputs[index]
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, RuntimeError) as error:
            raise not_an_array(spec, value, error) from error
        if array.dtype == spec.dtype:
            return array
        swapped = array.dtype.newbyteorder() == spec.dtype
        plain = not hasattr(value, "dtype") and np.can_cast(array.dtype, spec.dtype, "same_kind")
        if not swapped and not plain:
            advice = f"convert it, for example with .astype({spec.dtype.name!r})"
            raise InputError(
                f"the input {spec.name} has the element type {array.dtype}",
                hint=f"the model takes {spec}; {advice}",
            )
        return array.astype(spec.dtype)

    def _completed(self, values: Sequence[Any]) -> list[Any]:
        """The inputs with None for those at the end that have a default; InputError where others
        are missing.
        """
        inputs = self._signature.inputs
        count = len(values)
        if count > len(inputs) or not all(spec.optional for spec in inputs[count:]):
            raise InputError(
                f"{count} arrays were given to a model with {len(inputs)} inputs",
                hint=f"the model takes {', '.join(map(str, inputs))}",
            )
        return [*values, *[None] * (len(inputs) - count)]

    def _failure(self, status: int) -> RuntimeFailure:
        if status == _CANCELLED:
            return CancelledError("the run was cancelled")
        if status == _BUSY:
            return RuntimeFailure(
                "the session runs another call", hint="give each thread a session of its own"
            )
        text = self._signature.library.error(self._handle)
        what = _FAILURES.get(status, f"it ended with status {status}")
        kind = DataError if status == _BAD_DATA else RuntimeFailure
        return kind(f"the model failed: {text or what}")


def _no_state(spec: TensorSpec, value: Any) -> InputError:
    """The error for what a run cannot change where it lies."""
    kind = f"array of {value.dtype}" if isinstance(value, ndarray) else type(value).__name__
    return InputError(
        f"the input {spec.name} is a state, which a run changes where it lies: no {kind} that"
        " cannot be written to, or not in one piece",
        hint=f"give a writable array for {spec}, such as numpy.zeros(…, {spec.dtype.name!r})",
    )


def unpack(results: list[Array]) -> Any:
    """The only element, or all as a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, int]:
    """An uninitialized array that starts at a cache line, and its address."""
    raw = empty(math.prod(shape) * dtype.itemsize + _ALIGNMENT, np.uint8)
    address = _ADDRESS(_BYTE_VIEW(raw))
    start = -address % _ALIGNMENT
    return ndarray(shape, dtype, raw, start), address + start


def _viewable(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this type have a buffer format that ctypes accepts."""
    try:
        _BYTE_VIEW(np.zeros(1, dtype))
    except (TypeError, ValueError, BufferError):
        return False
    return True
