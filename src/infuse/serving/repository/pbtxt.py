"""Triton's `config.pbtxt`: protobuf's text format, read into the fields of `ModelConfig`.

What it says and what has no effect here is told in notes. The text is read without a schema, so that fields that
Infuse does not know can be named instead of being refused or lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from infuse.errors import ConfigurationError
from infuse.serving.repository.textformat import Message, Value, parse_text

_BACKENDS: Final = ("", "onnxruntime", "onnxruntime_onnx", "onnx", "infuse", "ensemble")
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
    "dynamic_batching.max_queue_delay_microseconds": "requests wait only where that pays; see `latency_target_ms`",
    "dynamic_batching.priority_queue_policy": "all priorities have the same queue policy",
    "dynamic_batching.default_queue_policy.allow_timeout_override": "a request's own timeout always counts",
    "optimization": "models are compiled; `precision` and `tune` in config.yaml say how",
    "response_cache": "answers are not kept",
    "sequence_batching": "there are no sequences of requests",
    "model_transaction_policy": "a request has one answer",
    "model_repository_agents": "`sha256` in config.yaml checks files",
    "runtime": "there is one runtime",
    "metric_tags": "metrics carry model and version",
    "cc_model_filenames": "models are compiled for this processor",
    "model_operations": "there are no libraries of operators",
    "model_metrics": "metrics are the server's",
    "batch_input": "batches are made of requests as they are",
    "batch_output": "batches are made of requests as they are",
}
_LISTS: Final = ("dims", "shape")  # repeated fields of inputs and outputs
FIELDS: Final = frozenset(
    {
        "name",
        "platform",
        "backend",
        "default_model_filename",
        "max_batch_size",
        "input",
        "output",
        "version_policy",
        "instance_group",
        "dynamic_batching",
        "model_warmup",
        "ensemble_scheduling",
        "parameters",
        *(name for name in _WITHOUT_EFFECT if "." not in name),
    }
)


def read_pbtxt(text: str, where: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of `ModelConfig` as plain data, and notes; ConfigurationError when the text is not one of the format."""
    return read_message(parse_text(text, where), where)


def read_message(message: Message, where: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of `ModelConfig` as plain data, and notes, of a message that was read already."""
    return _Translation(_Reader(message, where)).run()


class _Reader:
    """Typed access to the fields of a message; ConfigurationError names the field."""

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
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "it must be text")
        return value or ""

    def number(self, name: str) -> int | None:
        value = self.last(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise self.wrong(name, "it must be a whole number")
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        values = self.message.get(name, [])
        if any(isinstance(value, bool) or not isinstance(value, int) for value in values):
            raise self.wrong(name, "it must be whole numbers")
        return tuple(value for value in values if isinstance(value, int))

    def flag(self, name: str) -> bool:
        value = self.last(name)
        if value not in (None, True, False):
            raise self.wrong(name, "it must be true or false")
        return bool(value)

    def inner(self, name: str) -> list[_Reader]:
        values = self.message.get(name, [])
        if not all(isinstance(value, dict) for value in values):
            raise self.wrong(name, "it must be a message in braces")
        return [_Reader(value, self.where, f"{self.path}{name}.") for value in values if isinstance(value, dict)]

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
            "default_model_filename": lambda: self.fields.update(file=self.top.text("default_model_filename")),
            "max_batch_size": self._batch_size,
            "input": lambda: self._tensors("input"),
            "output": lambda: self._tensors("output"),
            "version_policy": self._version_policy,
            "instance_group": self._instances,
            "dynamic_batching": self._batching,
            "model_warmup": self._warmup,
            "ensemble_scheduling": self._ensemble,
            "parameters": self._parameters,
        }
        for name in self.top.message:
            if name in readers:
                readers[name]()
            else:
                self._without_effect(name)
        return self._finish(), tuple(dict.fromkeys(self.notes))

    def _finish(self) -> dict[str, Any]:
        if self.parameters:
            self.fields["parameters"] = self.parameters
        size = self.top.number("max_batch_size") or 0
        if size > 1 and "dynamic_batching" not in self.top.message and "ensemble_scheduling" not in self.top.message:
            self.notes.append("requests are put together up to max_batch_size although there is no dynamic_batching")
        return self.fields

    def _without_effect(self, name: str) -> None:
        why = _WITHOUT_EFFECT.get(name)
        self.notes.append(f"{name} has no effect: {why}" if why else f"{name} has no effect: it is not known here")

    def _others(self, reader: _Reader, *known: str) -> None:
        """A note for each field of an inner message that is not among those that are known."""
        for name in reader.message:
            if name not in known:
                self._without_effect(f"{reader.path}{name}")

    # ------------------------------------------------------------------------------------------- fields

    def _platform(self) -> None:
        self.fields["platform"] = platform = self.top.text("platform")
        if platform not in _BACKENDS:
            self.notes.append(f"platform {platform!r} has no effect: the model's file decides how it runs")

    def _backend(self) -> None:
        self.parameters["backend"] = backend = self.top.text("backend")
        if backend not in _BACKENDS:
            self.notes.append(f"backend {backend!r} has no effect: the model's file decides how it runs")

    def _batch_size(self) -> None:
        size = self.top.number("max_batch_size") or 0
        if size < 0:
            raise self.top.wrong("max_batch_size", "it must not be negative")
        self.parameters["max_batch_size"] = str(size)
        self.fields.setdefault("batching", {})["max_size"] = max(size, 1)

    def _tensors(self, name: str) -> None:
        """Inputs or outputs, kept as JSON: the engine compares them with the model."""
        plain = []
        for tensor in self.top.inner(name):
            _tensor(tensor)
            plain.append({"dims": [], **{key: _plain(key, values) for key, values in tensor.message.items()}})
            known: tuple[str, ...] = ("name", "data_type", "dims", "reshape", "optional", "allow_ragged_batch")
            if name == "output":
                known = (*known, "label_filename")
                if labels := tensor.text("label_filename"):
                    self.fields.setdefault("label_files", {})[tensor.text("name")] = labels
            self._others(tensor, *known)
        self.parameters[name] = json.dumps(plain, sort_keys=True)

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
            used = ("count", "kind") if group.text("kind") in ("", "KIND_AUTO", "KIND_CPU") else ("count",)
            self._others(group, *used)
        if any(group.number("count") for group in groups):
            self.fields["replicas"] = sum(group.number("count") or 1 for group in groups)

    def _batching(self) -> None:
        read, batching = self.top.inner("dynamic_batching")[-1], self.fields.setdefault("batching", {})
        batching["preserve_ordering"] = read.flag("preserve_ordering")
        batching["priority_levels"] = read.number("priority_levels") or 0
        batching["default_priority"] = read.number("default_priority_level") or 0
        for policy in read.inner("default_queue_policy"):
            batching["timeout_action"] = "delay" if policy.text("timeout_action") == "DELAY" else "reject"
            batching["default_timeout_ms"] = (policy.number("default_timeout_microseconds") or 0) / 1000
            if size := policy.number("max_queue_size"):
                batching["max_queue"] = size
            self._others(policy, "timeout_action", "default_timeout_microseconds", "max_queue_size")
        known = ("preserve_ordering", "priority_levels", "default_priority_level", "default_queue_policy")
        self._others(read, *known)

    def _warmup(self) -> None:
        self.fields["warmup"] = {"enabled": True}
        self.notes.append("model_warmup: warm-up runs are made with random inputs (`warmup.inputs` can name others)")

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
            "inputs": [_tensor(tensor, batched) for tensor in self.top.inner("input")],
            "outputs": [_tensor(tensor, batched) for tensor in self.top.inner("output")],
            "steps": steps,
        }

    def _parameters(self) -> None:
        for entry in self.top.inner("parameters"):
            for value in entry.inner("value"):
                self.parameters[entry.text("key")] = value.text("string_value")


def _tensor(tensor: _Reader, batched: bool = False) -> dict[str, Any]:
    """An input or output as `TensorConfig` has it; sizes get the batch's in front where models have one."""
    datatype = tensor.text("data_type").removeprefix("TYPE_")
    if not tensor.text("name") or not datatype:
        raise tensor.wrong("name" if datatype else "data_type", "it is missing")
    sizes = tensor.numbers("dims")
    datatype = "BYTES" if datatype == "STRING" else datatype
    return {"name": tensor.text("name"), "datatype": datatype, "shape": (-1, *sizes) if batched else sizes}


def _plain(name: str, values: list[Value]) -> Any:
    if name in _LISTS:
        return values
    last = values[-1]
    return {key: _plain(key, inner) for key, inner in last.items()} if isinstance(last, dict) else last
