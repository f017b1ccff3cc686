"""Triton's `config.pbtxt`: protobuf's text format, read into the fields of `ModelConfig`.

What it says is applied; what would change answers and is not offered is refused; hints without an
effect here are told in notes. Fields that Triton's ModelConfig has not, and values of a wrong type,
are refused as Triton's own parser does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from infuse.errors import ConfigurationError
from infuse.serving.control.repository.textformat import Message, Value, parse_text
from infuse.serving.control.repository.tritonfields import ENUMERATIONS, check

_BACKENDS: Final = (
    "",
    "onnxruntime",
    "onnxruntime_onnx",
    "onnx",
    "onnx_infuse",
    "infuse",
    "ensemble",
)
_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "instance_group.kind": "models run on processors",
    "instance_group.gpus": "models run on processors",
    "instance_group.name": "replicas have no names",
    "instance_group.profile": "there are no TensorRT profiles",
    "instance_group.rate_limiter": "the placement decides who runs where",
    "instance_group.host_policy": "the placement decides who runs where",
    "instance_group.secondary_devices": "models run on processors",
    "instance_group.passive": "every replica serves",
    "dynamic_batching.preferred_batch_size": "sizes of batches follow the times that were measured",
    "dynamic_batching.max_queue_delay_microseconds": (
        "an idle model never waits for more requests; while it runs, they gather"
    ),
    "dynamic_batching.priority_queue_policy": "all priorities have the same queue policy",
    "dynamic_batching.default_queue_policy.allow_timeout_override": (
        "a request's own timeout always counts"
    ),
    "optimization": "models are compiled; `precision` and `tune` in config.yaml say how",
    "response_cache": "answers are not kept",
    "input.format": "the declared sizes say how a tensor lies",
    "input.optional": "every input of a model must be sent",
    "ensemble_scheduling.max_inflight_requests": "requests wait at the models",
    "ensemble_scheduling.step.model_namespace": "there is one repository",
    "runtime": "there is one runtime",
    "metric_tags": "metrics carry model and version",
    "cc_model_filenames": "models are compiled for this processor",
    "model_operations": "there are no libraries of operators",
    "model_metrics": "metrics are the server's",
}
_REFUSED: Final[Mapping[str, str]] = {
    "sequence_batching": "sequences of requests are not kept together here",
    "batch_input": "no inputs are made of batches here",
    "batch_output": "no outputs are taken apart by their inputs here",
    "model_repository_agents": "there are no agents here; `sha256` in config.yaml checks files",
    "model_transaction_policy.decoupled": "a request has one answer here",
    "input.is_shape_tensor": "there are no shape tensors here",
    "output.is_shape_tensor": "there are no shape tensors here",
    "input.is_non_linear_format_io": "tensors have one format here",
    "output.is_non_linear_format_io": "tensors have one format here",
    "input.allow_ragged_batch": (
        "ragged requests are not put end to end; `batching.pad` in config.yaml fills them up"
    ),
}
"""What would change answers, or let through what must not be, if it were passed over."""


def read_pbtxt(text: str, where: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of `ModelConfig` as plain data, and notes; ConfigurationError when the text is not one
    of the format.
    """
    return read_message(parse_text(text, where), where)


def read_message(message: Message, where: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of `ModelConfig` as plain data, and notes, of a message that was read already."""
    check(message, where)
    return _Translation(_Reader(message, where)).run()


class _Reader:
    """Typed access to the fields of a message that was checked."""

    def __init__(self, message: Message, where: str, path: str = "") -> None:
        self.message = message
        self.where = where
        self.path = path

    def wrong(self, name: str, what: str) -> ConfigurationError:
        return ConfigurationError(f"{self.path}{name}: {what}", where=self.where)

    def last(self, name: str) -> Value | None:
        return values[-1] if (values := self.message.get(name)) else None

    def text(self, name: str) -> str:
        value = self.last(name)
        return str(value) if value is not None else ""

    def word(self, name: str, enumeration: str) -> str:
        """A name of an enumeration, which may be written as its number; "" if it is not there."""
        value = self.last(name)
        return ENUMERATIONS[enumeration][value] if type(value) is int else self.text(name)

    def number(self, name: str) -> int | None:
        value = self.last(name)
        return value if isinstance(value, int) else None

    def numbers(self, name: str) -> tuple[int, ...]:
        return tuple(value for value in self.message.get(name, []) if isinstance(value, int))

    def flag(self, name: str) -> bool:
        return _true(self.last(name))

    def inner(self, name: str) -> list[_Reader]:
        values = self.message.get(name, [])
        return [
            _Reader(value, self.where, f"{self.path}{name}.")
            for value in values
            if isinstance(value, dict)
        ]

    def table(self, name: str) -> dict[str, str]:
        """A map from text to text."""
        return {entry.text("key"): entry.text("value") for entry in self.inner(name)}


class _Translation:
    """One `config.pbtxt` on its way to the fields of `ModelConfig`."""

    def __init__(self, top: _Reader) -> None:
        self.top = top
        self.fields: dict[str, Any] = {}
        self.parameters: dict[str, str] = {}
        self.notes: list[str] = []

    def run(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        readers: Mapping[str, Callable[[], None]] = {
            "name": lambda: self.fields.update(name=self.top.text("name")),
            "platform": self._platform,
            "backend": self._backend,
            "default_model_filename": lambda: self.fields.update(
                file=self.top.text("default_model_filename")
            ),
            "max_batch_size": self._batch_size,
            "input": lambda: self._tensors("input"),
            "output": lambda: self._tensors("output"),
            "version_policy": self._version_policy,
            "instance_group": self._instances,
            "dynamic_batching": self._batching,
            "model_warmup": self._warmup,
            "ensemble_scheduling": self._ensemble,
            "parameters": self._parameters,
            "model_transaction_policy": self._transactions,
        }
        for name in self.top.message:
            if name in readers:
                readers[name]()
            else:
                self._passed_over(self.top, name)
        return self._finish(), tuple(dict.fromkeys(self.notes))

    def _finish(self) -> dict[str, Any]:
        if self.parameters:
            self.fields["parameters"] = self.parameters
        return self.fields

    def _passed_over(self, reader: _Reader, name: str) -> None:
        """Refuse a field that must not be passed over, unless it says no; a note for any other."""
        path = f"{reader.path}{name}"
        why = _REFUSED.get(path)
        if why is None:
            why = _WITHOUT_EFFECT.get(path, "it is not offered")
            self.notes.append(f"{path} has no effect: {why}")
        elif isinstance(reader.last(name), dict) or _true(reader.last(name)):
            raise reader.wrong(name, why)

    def _others(self, reader: _Reader, *applied: str) -> None:
        """Pass over the fields of an inner message that are not applied."""
        for name in reader.message:
            if name not in applied:
                self._passed_over(reader, name)

    # --------------------------------------------------------------------------------------- fields

    def _platform(self) -> None:
        self.fields["platform"] = self._runs_here("platform")

    def _backend(self) -> None:
        self.parameters["backend"] = self._runs_here("backend")

    def _runs_here(self, name: str) -> str:
        value = self.top.text(name)
        if value not in _BACKENDS:
            raise self.top.wrong(
                name,
                f"{value!r} runs nothing here: models are ONNX, .infuse, or compiled by Infuse",
            )
        return value

    def _batch_size(self) -> None:
        size = self.top.number("max_batch_size") or 0
        if size < 0:
            raise self.top.wrong("max_batch_size", f"it must not be negative, found {size}")
        batching = self.fields.setdefault("batching", {})
        batching.update(max_size=max(size, 1), required=size > 0)
        batching.setdefault("dynamic", False)

    def _tensors(self, name: str) -> None:
        """Inputs or outputs, which the model is held against when it is loaded."""
        batched = (self.top.number("max_batch_size") or 0) > 0
        tensors = self.top.inner(name)
        for tensor in tensors:
            applied: tuple[str, ...] = ("name", "data_type", "dims", "reshape")
            if name == "output":
                applied = (*applied, "label_filename")
                if labels := tensor.text("label_filename"):
                    self.fields.setdefault("label_files", {})[tensor.text("name")] = labels
            self._others(tensor, *applied)
            if "ensemble_scheduling" in self.top.message and "reshape" in tensor.message:
                raise tensor.wrong("reshape", "an ensemble reshapes nothing; its models can")
        if "ensemble_scheduling" not in self.top.message:
            self.fields[f"{name}s"] = [_tensor(tensor, batched) for tensor in tensors]

    def _version_policy(self) -> None:
        policy = self.top.inner("version_policy")[-1]
        chosen: dict[str, Any] = {}
        for latest in policy.inner("latest"):
            chosen = {"latest": latest.number("num_versions") or 1}
        if "all" in policy.message:
            chosen = {"all": True}
        for specific in policy.inner("specific"):
            chosen = {"specific": specific.numbers("versions")}
        self._others(policy, "latest", "all", "specific")
        self.fields["version_policy"] = chosen or {"latest": 1}

    def _instances(self) -> None:
        groups = self.top.inner("instance_group")
        for group in groups:
            used = (
                ("count", "kind")
                if group.word("kind", "ModelInstanceGroupKind") in ("", "KIND_AUTO", "KIND_CPU")
                else ("count",)
            )
            self._others(group, *used)
        if any(group.number("count") for group in groups):
            self.fields["replicas"] = sum(group.number("count") or 1 for group in groups)

    def _batching(self) -> None:
        read, batching = (
            self.top.inner("dynamic_batching")[-1],
            self.fields.setdefault("batching", {}),
        )
        batching["dynamic"] = True
        batching["preserve_ordering"] = read.flag("preserve_ordering")
        batching["priority_levels"] = read.number("priority_levels") or 0
        batching["default_priority"] = read.number("default_priority_level") or 0
        for policy in read.inner("default_queue_policy"):
            batching["timeout_action"] = (
                policy.word("timeout_action", "ModelQueuePolicyTimeoutAction").lower() or "reject"
            )
            batching["default_timeout_ms"] = (
                policy.number("default_timeout_microseconds") or 0
            ) / 1000
            if size := policy.number("max_queue_size"):
                batching["max_queue"] = size
            self._others(policy, "timeout_action", "default_timeout_microseconds", "max_queue_size")
        understood = (
            "preserve_ordering",
            "priority_levels",
            "default_priority_level",
            "default_queue_policy",
        )
        self._others(read, *understood)

    def _warmup(self) -> None:
        self.fields["warmup"] = {"enabled": True}
        self.notes.append(
            "model_warmup: warm-up runs are made with random inputs (`warmup.inputs` can name "
            "others)"
        )

    def _ensemble(self) -> None:
        batched = (self.top.number("max_batch_size") or 0) > 0
        steps = []
        for scheduling in self.top.inner("ensemble_scheduling"):
            self._others(scheduling, "step")
            for step in scheduling.inner("step"):
                version = step.number("model_version")
                steps.append(
                    {
                        "model": step.text("model_name"),
                        "version": "" if version is None or version < 0 else str(version),
                        "inputs": step.table("input_map"),
                        "outputs": step.table("output_map"),
                    }
                )
                self._others(step, "model_name", "model_version", "input_map", "output_map")
        self.fields["pipeline"] = {
            "inputs": [_sized(tensor, batched) for tensor in self.top.inner("input")],
            "outputs": [_sized(tensor, batched) for tensor in self.top.inner("output")],
            "steps": steps,
        }

    def _transactions(self) -> None:
        for policy in self.top.inner("model_transaction_policy"):
            self._others(policy)

    def _parameters(self) -> None:
        for entry in self.top.inner("parameters"):
            for value in entry.inner("value"):
                self.parameters[entry.text("key")] = value.text("string_value")
        self.notes.append(
            f"parameters change nothing, and are shown to callers: {', '.join(self.parameters)}"[
                :200
            ]
        )


def _tensor(tensor: _Reader, batched: bool = False) -> dict[str, Any]:
    """An input or output as `TensorConfig` has it; sizes get the batch's in front where models have
    one.
    """
    datatype = tensor.word("data_type", "DataType").removeprefix("TYPE_")
    if not tensor.text("name") or datatype in ("", "INVALID"):
        raise tensor.wrong("data_type" if tensor.text("name") else "name", "it is missing")
    batch = (-1,) if batched else ()
    datatype = "BYTES" if datatype == "STRING" else datatype
    result: dict[str, Any] = {"name": tensor.text("name"), "datatype": datatype}
    if sizes := tensor.numbers("dims"):
        result["shape"] = (*batch, *sizes)
    for reshape in tensor.inner("reshape"):
        result["reshape"] = (*batch, *reshape.numbers("shape"))
    return result


def _sized(tensor: _Reader, batched: bool) -> dict[str, Any]:
    """As `_tensor`, with the sizes that an ensemble cannot find out."""
    return {"shape": (-1,) if batched else (), **_tensor(tensor, batched)}


def _true(value: Value | None) -> bool:
    return value in (True, "t", "true", "True")
