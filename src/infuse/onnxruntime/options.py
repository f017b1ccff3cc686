"""Options of sessions and of runs."""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar, cast, overload

import numpy as np

from infuse.errors import OptionError
from infuse.onnxruntime.entries import RUN_KEYS, SESSION_KEYS, Entries
from infuse.onnxruntime.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtExecutionProviderDevicePolicy,
)
from infuse.onnxruntime.errors import ArgumentTypeError, UnknownOption, ValueFault, refused
from infuse.onnxruntime.notices import LEVELS, no_effect
from infuse.onnxruntime.values import OrtValue
from infuse.options import CompileOptions
from infuse.options.fields import fields_of, flat_fields
from infuse.runtime.cancelling import Cancellation

T = TypeVar("T")


class Option(Generic[T]):
    """An attribute of options that takes values of one type only. `idle`: it has no effect, but for
    `usual` values, which ask for what is so anyway. `among` has all values that it may be, where
    these are few.
    """

    def __init__(
        self,
        kind: type,
        default: T,
        *,
        idle: bool = False,
        usual: Sequence[T] = (),
        among: Sequence[T] = (),
    ) -> None:
        self.kind, self.default, self.idle, self.among = kind, default, idle, among
        self.usual = (default, *usual)
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, kind: type) -> Option[T]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> T: ...
    def __get__(self, owner: object | None, kind: type) -> Option[T] | T:
        return self if owner is None else owner.__dict__.get(self.name, self.default)

    def __set__(self, owner: object, value: Any) -> None:
        owner.__dict__[self.name] = self.converted(value)

    def converted(self, value: Any) -> T:
        """`value` as the option's type; ArgumentTypeError where it is of another one."""
        try:
            result = _CONVERTERS.get(self.kind, _enumerator(self.kind))(value)
        except TypeError:
            raise ArgumentTypeError(
                f"{self.name} cannot be {value!r}", hint=f"it takes {_shown(self.kind)}"
            ) from None
        except ValueError as error:
            raise OptionError(
                f"{self.name}: {error}", hint=f"one of: {_members(self.kind)}"
            ) from None
        if self.among and result not in self.among:
            choices = ", ".join(map(str, self.among))
            raise OptionError(f"{self.name} cannot be {value!r}", hint=f"one of: {choices}")
        return cast(T, result)


class Settings:
    """An object with a fixed list of options, each of which may be given when it is made."""

    _listed: ClassVar[dict[str, Option[Any]]] = {}

    def __init_subclass__(cls, compiles: bool = False) -> None:
        for name, option in _compile_options() if compiles else ():
            setattr(cls, name, option)
            option.__set_name__(cls, name)
        cls._listed = {name: o for name, o in vars(cls).items() if isinstance(o, Option)}

    def __init__(self, **options: Any) -> None:
        for name, value in options.items():
            if name not in self._listed:
                raise ArgumentTypeError(
                    f"{type(self).__name__} has no option {name!r}",
                    hint=f"it has {', '.join(self._listed)}",
                )
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in self._listed:
            raise UnknownOption(
                f"{type(self).__name__} has no option {name!r}",
                hint=f"it has {', '.join(self._listed)}",
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        changed = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._changed())
        return f"{type(self).__name__}({changed})"

    def _changed(self) -> list[str]:
        """The options that have another value than the default one."""
        return [n for n, option in self._listed.items() if getattr(self, n) != option.default]

    def _idle(self) -> list[str]:
        """Options without effect that ask for what is not so anyway."""
        return [
            name
            for name, option in self._listed.items()
            if option.idle and getattr(self, name) not in option.usual
        ]


_SESSIONS: Final = frozenset(("target", "threads", "prefix", "embed", "single", "profile", "size"))
"""Fields of `CompileOptions` that a session has no use for, or has under another name."""

_DEFAULTS: Final = {"compile": "background"}
"""Defaults of a session, where those of `CompileOptions` are others."""


def _compile_options() -> Iterator[tuple[str, Option[Any]]]:
    """The fields of `CompileOptions`, and of options that these may be, as options of a session."""
    own = {each.name for each in fields_of(CompileOptions)}
    for each in flat_fields(CompileOptions):
        if each.name in _SESSIONS:
            continue
        default = _DEFAULTS.get(each.name, each.default if each.name in own else None)
        kind = object if each.about.form else type(each.default)
        yield each.name, Option(kind, default)


class SessionOptions(Settings, compiles=True):
    """Options of a session: those of ONNX Runtime, and those of `CompileOptions` (`precision`,
    `max_difference`, `data`, `tune`, `weights`).

    An attribute that is not listed cannot be set. Those without effect warn when a session is made:
    memory is planned and threads share work inside of operators when a model is compiled.
    """

    intra_op_num_threads = Option(int, 0)
    graph_optimization_level = Option(GraphOptimizationLevel, GraphOptimizationLevel.ORT_ENABLE_ALL)
    optimized_model_filepath = Option(str, "")
    enable_profiling = Option(bool, False)
    profile_file_prefix = Option(str, "onnxruntime_profile_")
    log_severity_level = Option(int, -1, among=(-1, *LEVELS))
    use_per_session_threads = Option(bool, True)
    inter_op_num_threads = Option(int, 0, idle=True, usual=(1,))
    execution_mode = Option(ExecutionMode, ExecutionMode.ORT_SEQUENTIAL, idle=True)
    execution_order = Option(ExecutionOrder, ExecutionOrder.DEFAULT, idle=True)
    log_verbosity_level = Option(int, 0, idle=True)
    logid = Option(str, "", idle=True)
    enable_mem_pattern = Option(bool, True, idle=True)
    enable_mem_reuse = Option(bool, True, idle=True)
    enable_cpu_mem_arena = Option(bool, True, idle=True)
    use_deterministic_compute = Option(bool, False, idle=True)

    def __init__(self, **options: Any) -> None:
        self._entries = Entries("session options", SESSION_KEYS)
        self._sizes: dict[str, int] = {}
        self._denoted_sizes: dict[str, int] = {}
        self._initializers: dict[str, OrtValue] = {}
        self._external: dict[str, OrtValue] = {}
        self._files: dict[str, bytes] = {}
        self._providers: list[tuple[str, dict[str, str]]] = []
        super().__init__(**options)

    def add_session_config_entry(self, config_key: str, config_value: str) -> None:
        """Keep a configuration entry. One has a meaning here,
        `session.model_external_initializers_file_folder_path`; a session warns of the others. A
        name that is nearly one of ONNX Runtime's is refused.
        """
        self._entries.add(config_key, config_value)

    def get_session_config_entry(self, config_key: str) -> str:
        """The entry that was added under this name; an error that is a RuntimeError when there is
        none.
        """
        return self._entries.get(config_key)

    def add_free_dimension_override_by_name(self, dim_name: str, dim_value: int) -> None:
        """Fix every size that the model calls `dim_name`."""
        self._sizes[_text("dim_name", dim_name)] = _size(dim_value)

    def add_free_dimension_override_by_denotation(
        self, dim_denotation: str, dim_value: int
    ) -> None:
        """Fix every size of an input whose denotation is this one (`DATA_BATCH`, say)."""
        self._denoted_sizes[_text("dim_denotation", dim_denotation)] = _size(dim_value)

    def add_initializer(self, name: str, ortvalue: OrtValue) -> None:
        """Let the initializer of this name have the elements of `ortvalue`."""
        self._replace(self._initializers, name, ortvalue)

    def add_external_initializers(
        self, names: Sequence[str], ortvalues: Sequence[OrtValue]
    ) -> None:
        """Let initializers whose data lies in another file have these elements; that file need not
        be there.
        """
        _same_length("names", names, "ortvalues", ortvalues)
        for name, value in zip(names, ortvalues):
            self._replace(self._external, name, value)

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Let files of this content stand for those of these names beside the model."""
        _same_length("names", names, "buffers", buffers)
        _same_length("names", names, "lengths", lengths)
        for name, buffer, length in zip(names, buffers, lengths):
            content = memoryview(buffer).cast("B")
            if length > len(content):
                raise OptionError(f"{name!r} has {len(content)} bytes, and {length} are to be read")
            self._files[_text("names", name)] = bytes(content[:length])

    def add_provider(self, provider_name: str, provider_options: Mapping[str, str]) -> None:
        """Ask for a provider; `InferenceSession` takes those of its arguments first."""
        self._providers.append((_text("provider_name", provider_name), dict(provider_options)))

    def add_provider_for_devices(
        self, ep_devices: Sequence[Any], options: Mapping[str, str]
    ) -> None:
        """Ask for the provider of these devices."""
        for name in dict.fromkeys(device.ep_name for device in ep_devices):
            self.add_provider(name, options)

    def has_providers(self) -> bool:
        """Whether a provider was asked for."""
        return bool(self._providers)

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """Nothing to choose from: there is one provider."""
        no_effect("set_provider_selection_policy", "there is one provider")

    def set_provider_selection_policy_delegate(self, delegate: Any) -> None:
        """Nothing to choose from: there is one provider."""
        no_effect("set_provider_selection_policy_delegate", "there is one provider")

    def set_load_cancellation_flag(self, is_cancelled: bool) -> None:
        """Let loading a session with these options end with ModelLoadCanceled."""
        self._is_cancelled = bool(is_cancelled)

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: kernels of such libraries are written for ONNX Runtime's own interface."""
        raise refused(
            f"way to load the custom operators of {path}, which need ONNX Runtime itself",
            "declare the operator in Python and register it: docs/extending.md",
        )

    def set_ep_context_data_read_func(self, read_func: Any, max_data_size: int) -> None:
        """Refused: there are no contexts of other providers."""
        raise refused("contexts of execution providers", "leave the call out")

    def clear_ep_context_data_read_func(self) -> None:
        """There is no such function."""

    _is_cancelled = False

    def _replace(self, values: dict[str, OrtValue], name: str, value: OrtValue) -> None:
        if not isinstance(value, OrtValue):
            raise ValueFault(
                f"the initializer {name!r} cannot be a {type(value).__name__}",
                hint="make an OrtValue of it: OrtValue.ortvalue_from_numpy(array)",
            )
        if _text("name", name) in values:
            raise ValueFault(f"there is a value for the initializer {name!r} already")
        values[name] = value


class RunOptions(Settings):
    """Options of one run."""

    terminate = Option(bool, False)
    only_execute_path_to_fetches = Option(bool, False, idle=True)
    log_severity_level = Option(int, -1, among=(-1, *LEVELS))
    log_verbosity_level = Option(int, 0, idle=True)
    logid = Option(str, "", idle=True)

    def __init__(self, **options: Any) -> None:
        self._entries = Entries("run options", RUN_KEYS)
        self._cancellation = Cancellation()
        super().__init__(**options)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "terminate":
            (self._cancellation.cancel if self.terminate else self._cancellation.reset)()

    def add_run_config_entry(self, config_key: str, config_value: str) -> None:
        """Keep a configuration entry; none has a meaning here."""
        self._entries.add(config_key, config_value)

    def get_run_config_entry(self, config_key: str) -> str:
        """The entry of this name; an error that is a RuntimeError when there is none."""
        return self._entries.get(config_key)

    def add_active_adapter(self, adapter: Any) -> None:
        """Refused: LoRA adapters are part of a model here."""
        raise refused("LoRA adapters of runs", "merge the adapter into the model's weights")


def compile_fields(options: SessionOptions) -> dict[str, Any]:
    """What a session is asked of compiling, by name (`CompileOptions.flat`)."""
    return {name: getattr(options, name) for name, _ in _compile_options()}


def asks_to_compile_otherwise(options: SessionOptions) -> bool:
    """Whether a field is not as it is by default, besides the precision and when it is compiled."""
    usual = ("precision", "compile")
    others = [(name, option) for name, option in _compile_options() if name not in usual]
    return any(getattr(options, name) != option.default for name, option in others)


def _integer(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _truth(value: Any) -> bool:
    if value is None or isinstance(value, bool | int | np.bool_):
        return bool(value)
    raise TypeError


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: Any) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeError
    return value


_CONVERTERS: dict[type, Any] = {
    int: _integer,
    bool: _truth,
    str: _string,
    float: _number,
    object: lambda value: value,
}


def _enumerator(kind: type) -> Any:
    """What makes a member of an enumeration of ours of a number, or of ONNX Runtime's member."""

    def convert(value: Any) -> Any:
        name = type(value).__name__
        is_other = isinstance(value, enum.Enum) or hasattr(value, "name")
        if name != kind.__name__ and (is_other or isinstance(value, bool)):
            raise TypeError
        return kind(operator.index(int(value) if name == kind.__name__ else value))

    return convert


def _members(kind: type) -> str:
    return ", ".join(item.name for item in kind) if issubclass(kind, enum.Enum) else kind.__name__


def _shown(kind: type) -> str:
    return f"a member of {kind.__name__}" if issubclass(kind, enum.Enum) else _KINDS[kind]


_KINDS = {int: "an integer", bool: "True or False", str: "a text", float: "a number or None"}


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{what} cannot be {value!r}", hint="it takes a text")
    return value


def _size(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"a size cannot be {value!r}", hint="it takes an integer") from None


def _same_length(first: str, left: Sequence[Any], second: str, right: Sequence[Any]) -> None:
    if len(left) != len(right):
        raise ValueFault(f"there are {len(left)} {first} and {len(right)} {second}")
