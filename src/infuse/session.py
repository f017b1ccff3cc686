"""ONNX Runtime's calling convention on top of Infuse, so that a program can change over with one
line.

`from infuse.session import InferenceSession, SessionOptions` in place of `from onnxruntime import
…`.
"""

from __future__ import annotations

import enum
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from infuse import api, dtypes
from infuse.errors import InputError, OptionError
from infuse.runtime.folder import is_compiled
from infuse.runtime.interface import Model
from infuse.runtime.session import Array
from infuse.runtime.shapes import TensorSpec

CPU_PROVIDER: Final = "CPUExecutionProvider"
_TYPE_NAMES: Final = {"float32": "float", "float64": "double"}


class GraphOptimizationLevel(enum.IntEnum):
    """How much of the graph is rewritten before it is compiled."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


_LEVELS: Final[Mapping[int, str]] = {0: "none", 1: "basic", 2: "extended", 3: "all", 99: "all"}


class ExecutionMode(enum.IntEnum):
    """Whether independent branches may run side by side; compiled models decide that for
    themselves.
    """

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


@dataclass
class SessionOptions:
    """Options of a session. `intra_op_num_threads`, `graph_optimization_level`,
    `optimized_model_filepath`, `precision`, `max_difference`, `data` and `tune` matter; the others,
    and attributes that are not listed here, are kept for programs that set them and change nothing.
    `precision`, `max_difference`, `data` and `tune`, which ONNX Runtime does not have, are those of
    `infuse.compile`.
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: GraphOptimizationLevel | int = GraphOptimizationLevel.ORT_ENABLE_ALL
    optimized_model_filepath: str = ""
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    enable_profiling: bool = False
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_cpu_mem_arena: bool = True
    use_deterministic_compute: bool = False
    precision: str = "fp32"
    max_difference: float | None = None
    data: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    tune: bool = False
    _entries: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def add_session_config_entry(self, name: str, value: str) -> None:
        """Keep a configuration entry; none has a meaning here."""
        self._entries[name] = value

    def get_session_config_entry(self, name: str) -> str:
        """The entry that was added under `name`; OptionError when there is none."""
        if name not in self._entries:
            raise OptionError(f"the session options have no entry {name!r}")
        return self._entries[name]

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Accepted: a compiled model takes every size of a free dimension, this one too."""

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Accepted: a compiled model takes every size of a free dimension, this one too."""


@dataclass(frozen=True)
class NodeArg:
    """An input or output: its name, its type as "tensor(float)", and its shape, symbols as text."""

    name: str
    type: str
    shape: list[int | str]

    @classmethod
    def of(cls, spec: TensorSpec) -> NodeArg:
        """The description of an input or output of a compiled model."""
        if spec.other_type:
            return cls(spec.name, spec.other_type, [])
        name = dtypes.by_numpy(spec.dtype).name
        return cls(spec.name, f"tensor({_TYPE_NAMES.get(name, name)})", list(spec.shape))


@dataclass(frozen=True)
class ModelMetadata:
    """What a model file says about itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


class InferenceSession:
    """A model, loaded, optimized and compiled when it is made.

    `path_or_bytes` is a model file or its content; a folder is taken as a compiled model and only
    loaded. `precision` stands for that of the options. Providers other than the CPU's are not
    there: asking for none but them is answered with a warning, as ONNX Runtime does.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        precision: str | None = None,
        **_: Any,
    ) -> None:
        self._options = sess_options or SessionOptions()
        names = [
            provider if isinstance(provider, str) else provider[0] for provider in providers or ()
        ]
        if names and CPU_PROVIDER not in names:
            warnings.warn(
                f"Infuse runs on the CPU; there is no {', '.join(names)} here", stacklevel=2
            )
        if isinstance(path_or_bytes, bytes) or not is_compiled(path_or_bytes):
            self._model = _compile(
                path_or_bytes, self._options, precision or self._options.precision
            )
        else:
            folder = os.fsdecode(path_or_bytes)
            options = self._options
            asked = (precision or options.precision, options.max_difference, options.data)
            if asked != ("fp32", None, None):
                raise OptionError(
                    f"{folder} is compiled already, in a precision of its own",
                    hint="name the model",
                )
            self._model = api.load_compiled(folder, self._options.intra_op_num_threads or None)
        self._names = [spec.name for spec in self._model.outputs]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Array]:
        """The named outputs (None: all) in that order, for arrays by input name. Safe to call from
        several threads.
        """
        results = self._model.run(input_feed)
        if not output_names:
            return list(results.values())
        try:
            return [results[name] for name in output_names]
        except KeyError as error:
            raise InputError(
                f"the model has no output {error.args[0]!r}",
                hint=f"its outputs are {', '.join(self._names)}",
            ) from None

    def get_inputs(self) -> list[NodeArg]:
        """Name, type and shape of every input that a call has to give."""
        return [NodeArg.of(spec) for spec in self._model.inputs if not spec.optional]

    def get_outputs(self) -> list[NodeArg]:
        """Name, type and shape of every output."""
        return [NodeArg.of(spec) for spec in self._model.outputs]

    @property
    def host_steps(self) -> list[str]:
        """Operators that have no native code and run in the interpreter."""
        return self._model.host_steps

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs that a call may leave out, since the model has a default for them."""
        return [NodeArg.of(spec) for spec in self._model.inputs if spec.optional]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model file says about itself."""
        told = self._model.metadata.get("model", {})
        fields = {name: told[name] for name in ModelMetadata.__dataclass_fields__ if name in told}
        return ModelMetadata(**{"graph_name": self._model.name, **fields})

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """What the model runs on."""
        return [CPU_PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider: none."""
        return {CPU_PROVIDER: {}}


def get_available_providers() -> list[str]:
    """What models can run on."""
    return [CPU_PROVIDER]


def get_device() -> str:
    """The kind of processor that models run on."""
    return "CPU"


def _compile(path_or_bytes: Any, options: SessionOptions, precision: str) -> Model:
    level = _LEVELS.get(int(options.graph_optimization_level))
    if level is None:
        names = ", ".join(item.name for item in GraphOptimizationLevel)
        raise OptionError(
            f"{options.graph_optimization_level} is not an optimization level",
            hint=f"one of: {names}",
        )
    graph = api.optimize(api.load(path_or_bytes), level=level)
    if options.optimized_model_filepath:
        api.save(graph, options.optimized_model_filepath)
    count = options.intra_op_num_threads or None
    return api.compile(
        graph,
        threads=count,
        precision=precision,
        max_difference=options.max_difference,
        data=options.data,
        tune=options.tune,
    )
