"""A model behind ONNX Runtime's calling convention."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from numpy.typing import NDArray

from infuse.errors import CancelledError, InfuseError, RuntimeFailure, did_you_mean
from infuse.onnxruntime.binding import IOBinding
from infuse.onnxruntime.devices import CPU, CPU_PROVIDER, OrtEpDevice, OrtMemoryInfo
from infuse.onnxruntime.errors import (
    ArgumentTypeError,
    Fail,
    refused,
    translated,
)
from infuse.onnxruntime.interface import Interface, ModelMetadata, NodeArg
from infuse.onnxruntime.loading import adopted, checked_source, load_model, warn_of_idle
from infuse.onnxruntime.notices import no_effect
from infuse.onnxruntime.options import RunOptions, SessionOptions, compile_fields
from infuse.onnxruntime.providers import Provider, check_providers
from infuse.onnxruntime.runs import Runs
from infuse.onnxruntime.tracing import SessionTrace
from infuse.onnxruntime.values import OrtValue, OrtValueVector

Array = NDArray[Any]
Callback = Callable[[Sequence[Any], Any, str], None]
_ARGUMENTS: Final = ("disabled_optimizers", "enable_fallback", "read_config_from_model")
"""Further arguments of a session in ONNX Runtime."""


class InferenceSession:
    """A model, loaded, optimized and compiled when it is made.

    `path_or_bytes` is a model file or its content; a folder is taken as a compiled model and only
    loaded. `precision` stands for that of the options. Providers other than the CPU's are not
    there: asking for others is answered with a warning, as ONNX Runtime does.

    Errors are those of Infuse, and of ONNX Runtime too: `InvalidArgument`, `Fail`, `NoSuchFile` ….
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: SessionOptions | Any = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        precision: str | None = None,
        **arguments: Any,
    ) -> None:
        _check_arguments(arguments)
        self._options = options = adopted(sess_options)
        check_providers(providers or options._providers or None, provider_options)
        warn_of_idle(options, 3)
        source = checked_source(path_or_bytes)
        self._model_path = source if isinstance(source, str) else None
        self._trace, self._profiling_start = None, 0
        if options.enable_profiling:
            self._trace = SessionTrace(options.profile_file_prefix)
            self._profiling_start = self._trace.start_ns
            weakref.finalize(self, self._trace.finish)
        begin = time.perf_counter_ns()
        try:
            self._model, graph = load_model(
                source, options, precision or compile_fields(options)["precision"]
            )
            self._runs = Runs(self._model, graph, self._trace)
        except InfuseError as error:
            raise translated(error) from error.__cause__
        if self._trace is not None:
            self._trace.add("session_initialization", begin, time.perf_counter_ns())
        self._interface = Interface.of(self._model)
        self._input_names = [spec.name for spec in self._model.inputs]

    # -- runs --------------------------------------------------------------------------------------

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The named outputs (None: all) in that order, for arrays by input name. Safe to call from
        several threads.
        """
        if run_options is not None:
            _check_run(run_options)
        try:
            with _cancelled_by(run_options):
                results = self._runs.run(input_feed)
        except CancelledError as error:
            raise _terminated() from error
        except (InfuseError, AttributeError, TypeError) as error:
            self._interface.require(input_feed)
            explained = translated(error) if isinstance(error, InfuseError) else error
            raise explained from error.__cause__
        if run_options is not None:
            _check_run(run_options)
        if not output_names:
            return list(results.values())
        return self._interface.chosen(results, output_names)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in a thread of its own, and call `callback(outputs, user_data, error)` there: `error`
        is an empty text, or says why there are no outputs.
        """
        self._interface.require(input_feed)

        def work() -> None:
            try:
                outputs, error = self.run(output_names, input_feed, run_options), ""
            except InfuseError as failure:
                outputs, error = [], str(failure)
            callback(outputs, user_data, error)

        threading.Thread(target=work, name="infuse-run", daemon=True).start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """As `run`, with values in place of arrays."""
        for name, value in input_dict_ort_values.items():
            if not isinstance(value, OrtValue):
                raise ArgumentTypeError(
                    f"the input {name} is a {type(value).__name__}, no OrtValue",
                    hint="run() takes arrays",
                )
        feed = {name: value._value for name, value in input_dict_ort_values.items()}
        names = output_names or [spec.name for spec in self._model.outputs]
        return self._interface.values(names, self.run(names, feed, run_options))

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[Any],
    ) -> None:
        """Append the named outputs to `fetches`, for inputs in the order of their names."""
        feed = dict(zip(feed_names, feeds, strict=True))
        fetches.extend(self.run_with_ort_values(fetch_names, feed, run_options))

    def io_binding(self) -> IOBinding:
        """Memory to bind to inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run on what is bound. Errors are RuntimeErrors, as in ONNX Runtime."""
        if not isinstance(iobinding, IOBinding):
            raise ArgumentTypeError(f"a {type(iobinding).__name__} is not an IOBinding")
        iobinding._run(lambda names, inputs: self.run_with_ort_values(names, inputs, run_options))

    # -- what it is --------------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """Name, type and shape of every input that a call has to give."""
        return list(self._interface.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Name, type and shape of every output."""
        return list(self._interface.outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs that a call may leave out, since the model has a default for them."""
        return list(self._interface.optional_inputs)

    def get_modelmeta(self) -> ModelMetadata:
        """What the model file says about itself."""
        return ModelMetadata.of(self._model)

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    @property
    def host_steps(self) -> list[str]:
        """Operators that have no native code and run in the interpreter."""
        return self._model.host_steps

    @property
    def tier(self) -> str:
        """What answers now: "prebuilt" kernels, or "compiled" code."""
        return self._model.tier

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each input is to lie: in the memory of the process."""
        return [OrtMemoryInfo.cpu() for _ in self._interface.inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each output will lie: in the memory of the process."""
        return [OrtMemoryInfo.cpu() for _ in self._interface.outputs]

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """The device that reads each input."""
        return [OrtEpDevice() for _ in self._interface.inputs]

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str = CPU,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A tensor with elements of any value."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type)

    # -- providers ---------------------------------------------------------------------------------

    def get_providers(self) -> list[str]:
        """What the model runs on."""
        return [CPU_PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider: none."""
        return {CPU_PROVIDER: {}}

    def set_providers(
        self,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Warn of other providers than the CPU's. A RuntimeError for a name that none has."""
        check_providers(providers, provider_options, is_strict=True)

    def disable_fallback(self) -> None:
        """Nothing to fall back from: there is one provider."""

    def enable_fallback(self) -> None:
        """Nothing to fall back from: there is one provider."""

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """The provider has no such options."""
        for name in options:
            no_effect(f"the dynamic provider option {name!r}")

    def get_provider_graph_assignment_info(self) -> Any:
        """Refused: kernels are made of several nodes here, and the same provider runs all."""
        raise refused("assignment of nodes to providers", "get_providers() names the one there is")

    def get_tuning_results(self) -> list[dict[str, Any]]:
        """Nothing: kernels are chosen when a model is compiled (`SessionOptions.tune`)."""
        return []

    def set_tuning_results(
        self, results: Sequence[Mapping[str, Any]], *, error_on_invalid: bool = False
    ) -> None:
        """Kernels are chosen when a model is compiled."""
        no_effect("set_tuning_results", "SessionOptions.tune measures kernels")

    def release_captured_graph(self, graph_annotation_id: int) -> None:
        """Refused: there are no captured graphs of a GPU."""
        raise refused("captured graphs", "leave the call out")

    # -- profiling ---------------------------------------------------------------------------------

    def end_profiling(self) -> str:
        """Write the trace of the session, and return its path; an empty text where profiling is not
        enabled, or has ended.
        """
        if self._trace is None:
            return ""
        trace, self._trace = self._trace, None
        self._runs.end_profiling()
        return trace.finish()

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, in nanoseconds since 1970; 0 where it is not enabled."""
        return self._profiling_start


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    for name in arguments:
        if name not in _ARGUMENTS:
            names = (*_ARGUMENTS, "precision", "providers")
            raise ArgumentTypeError(
                f"a session has no argument {name!r}",
                hint=did_you_mean(name, names, otherwise="leave it out"),
            )
        no_effect(f"the argument {name} of InferenceSession", depth=4)


def _check_run(options: Any) -> None:
    """Fail where a run is to end, ArgumentTypeError for what are no options of runs."""
    if not isinstance(options, RunOptions):
        if type(options).__name__ != RunOptions.__name__:
            raise ArgumentTypeError(f"the options of a run cannot be a {type(options).__name__}")
    else:
        severity = options.log_severity_level
        for name in options._idle():
            no_effect(f"RunOptions.{name}", severity=severity, depth=4)
        for name in options._entries.names():
            no_effect(f"the run entry {name!r}", severity=severity, depth=4)
    if options.terminate:
        raise _terminated()


def _terminated() -> Exception:
    """The error of a run whose options say that it is to end."""
    return translated(RuntimeFailure("the run was ended: its options say terminate"), Fail)


def _cancelled_by(options: RunOptions | None) -> AbstractContextManager[object]:
    """What lets options end a run that is under way, where they are options of this module."""
    return options._cancellation if isinstance(options, RunOptions) else nullcontext()
