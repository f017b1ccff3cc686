"""What the engine says of a server and its models, in the form of the protocol and of Triton's
extensions.
"""

from __future__ import annotations

from typing import Final

import infuse
from infuse.serving.control.model_config import PipelineStep
from infuse.serving.control.models import ServedModel
from infuse.serving.control.version import Version
from infuse.serving.messages import JSON, ModelMetadata, ServerMetadata, TensorMetadata

EXTENSIONS: Final = (
    "binary_tensor_data",
    "parameters",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "statistics",
    "model_configuration",
    "classification",
    "trace",
    "logging",
)


def server() -> ServerMetadata:
    """Name, version and extensions of this server."""
    return {"name": "infuse", "version": infuse.__version__, "extensions": list(EXTENSIONS)}


def metadata(model: ServedModel, version: Version) -> ModelMetadata:
    """A model, as one of its versions describes it."""
    return {
        "name": model.name,
        "versions": [str(number) for number in sorted(model.versions)],
        "platform": platform(version),
        "inputs": version.described(True),
        "outputs": version.described(False),
    }


def platform(version: Version) -> str:
    """What a version is: Triton's word for it."""
    if version.config.pipeline is not None:
        return "ensemble"
    return str(version.config.platform or "onnx_infuse")


def configuration(version: Version) -> dict[str, JSON]:
    """A version's configuration as Triton's ModelConfig, in JSON."""
    config = version.config
    batched = version.batched
    policy = config.version_policy
    if policy.all:
        versions: dict[str, JSON] = {"all": {}}
    elif policy.specific:
        versions = {"specific": {"versions": [str(number) for number in policy.specific]}}
    else:
        versions = {"latest": {"num_versions": policy.latest or 1}}
    parameters = dict(config.parameters)
    if obstacle := version.batching_obstacle:
        parameters["infuse.requests_run_one_by_one"] = obstacle
    described: dict[str, JSON] = {
        "name": version.name,
        "platform": platform(version),
        "backend": "" if config.pipeline is not None else "infuse",
        "version_policy": versions,
        "max_batch_size": max(version.most_rows, config.batching.max_size) if batched else 0,
        "input": [_tensor(tensor, batched) for tensor in version.described(True)],
        "output": [
            {
                **_tensor(tensor, batched),
                "label_filename": config.label_files.get(tensor["name"], ""),
            }
            for tensor in version.described(False)
        ],
        "instance_group": [
            {
                "name": f"{version.name}_0",
                "kind": "KIND_CPU",
                "count": max(1, config.replicas),
                "gpus": [],
            }
        ],
        "default_model_filename": config.file,
        "parameters": {name: {"string_value": value} for name, value in parameters.items()},
    }
    if config.pipeline is not None:
        described["ensemble_scheduling"] = {"step": [_step(step) for step in config.pipeline.steps]}
    elif batched and version.most_rows > 1:
        batching = config.batching
        described["dynamic_batching"] = {
            "preferred_batch_size": [],
            "max_queue_delay_microseconds": 0,
            "preserve_ordering": batching.preserve_ordering,
            "priority_levels": batching.priority_levels,
            "default_priority_level": batching.default_priority,
            "default_queue_policy": {
                "timeout_action": batching.timeout_action.upper(),
                "default_timeout_microseconds": int(batching.default_timeout_ms * 1000),
                "allow_timeout_override": True,
                "max_queue_size": batching.max_queue,
            },
        }
    return described


def _step(step: PipelineStep) -> dict[str, JSON]:
    return {
        "model_name": step.model or step.builtin,
        "model_version": int(step.version) if step.version.isdecimal() else -1,
        "input_map": dict(step.inputs),
        "output_map": dict(step.outputs),
    }


def _tensor(described: TensorMetadata, batched: bool) -> dict[str, JSON]:
    datatype = described["datatype"]
    dims = described["shape"][1:] if batched else described["shape"]
    kind = "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"
    return {"name": described["name"], "data_type": kind, "dims": dims}
