"""The fields of Triton's ModelConfig: which there are, and what a value of each is.

The protocol's public description (`model_config.proto`) as a table. A message is read without it,
so that values keep their order and form; `check` then refuses what protobuf's own parser would
refuse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from infuse.errors import ConfigurationError, did_you_mean
from infuse.serving.control.repository.textformat import Message, Value

# A message, and its fields: `*`: repeated, `map:`: entries of text and such a value, `=`: one of an
# enumeration.
_MESSAGES: Final = """
ModelConfig: name=text platform=text backend=text runtime=text version_policy=ModelVersionPolicy
    max_batch_size=int input=*ModelInput output=*ModelOutput batch_input=*BatchInput
    batch_output=*BatchOutput
    optimization=ModelOptimizationPolicy dynamic_batching=ModelDynamicBatching
    sequence_batching=ModelSequenceBatching ensemble_scheduling=ModelEnsembling
    instance_group=*ModelInstanceGroup default_model_filename=text cc_model_filenames=map:text
    metric_tags=map:text parameters=map:ModelParameter model_warmup=*ModelWarmup
    model_operations=ModelOperations model_transaction_policy=ModelTransactionPolicy
    model_repository_agents=ModelRepositoryAgents response_cache=ModelResponseCache
    model_metrics=ModelMetrics
ModelVersionPolicy: latest=ModelVersionPolicyLatest all=ModelVersionPolicyAll
    specific=ModelVersionPolicySpecific
ModelVersionPolicyLatest: num_versions=natural
ModelVersionPolicyAll:
ModelVersionPolicySpecific: versions=*int
ModelInput: name=text data_type==DataType format==ModelInputFormat dims=*int
    reshape=ModelTensorReshape
    is_shape_tensor=bool allow_ragged_batch=bool optional=bool is_non_linear_format_io=bool
ModelTensorReshape: shape=*int
ModelOutput: name=text data_type==DataType dims=*int reshape=ModelTensorReshape label_filename=text
    is_shape_tensor=bool is_non_linear_format_io=bool
BatchInput: kind==BatchInputKind target_name=*text data_type==DataType source_input=*text
BatchOutput: target_name=*text kind==BatchOutputKind source_input=*text
ModelOptimizationPolicy: graph=ModelOptimizationPolicyGraph
    priority==ModelOptimizationPolicyModelPriority
    cuda=ModelOptimizationPolicyCuda
    execution_accelerators=ModelOptimizationPolicyExecutionAccelerators
    input_pinned_memory=ModelOptimizationPolicyPinnedMemoryBuffer
    output_pinned_memory=ModelOptimizationPolicyPinnedMemoryBuffer
    gather_kernel_buffer_threshold=natural
    eager_batching=bool
ModelOptimizationPolicyGraph: level=int
ModelOptimizationPolicyCuda: graphs=bool busy_wait_events=bool
    graph_spec=*ModelOptimizationPolicyCudaGraphSpec output_copy_stream=bool
ModelOptimizationPolicyCudaGraphSpec: batch_size=int
    input=map:ModelOptimizationPolicyCudaGraphSpecShape
    graph_lower_bound=ModelOptimizationPolicyCudaGraphSpecLowerBound
ModelOptimizationPolicyCudaGraphSpecShape: dim=*int
ModelOptimizationPolicyCudaGraphSpecLowerBound: batch_size=int
    input=map:ModelOptimizationPolicyCudaGraphSpecShape
ModelOptimizationPolicyExecutionAccelerators:
    gpu_execution_accelerator=*ModelOptimizationPolicyExecutionAcceleratorsAccelerator
    cpu_execution_accelerator=*ModelOptimizationPolicyExecutionAcceleratorsAccelerator
ModelOptimizationPolicyExecutionAcceleratorsAccelerator: name=text parameters=map:text
ModelOptimizationPolicyPinnedMemoryBuffer: enable=bool
ModelDynamicBatching: preferred_batch_size=*int max_queue_delay_microseconds=natural
    preserve_ordering=bool
    priority_levels=natural default_priority_level=natural default_queue_policy=ModelQueuePolicy
    priority_queue_policy=map:ModelQueuePolicy
ModelQueuePolicy: timeout_action==ModelQueuePolicyTimeoutAction default_timeout_microseconds=natural
    allow_timeout_override=bool max_queue_size=natural
ModelSequenceBatching: direct=ModelSequenceBatchingStrategyDirect
    oldest=ModelSequenceBatchingStrategyOldest
    max_sequence_idle_microseconds=natural control_input=*ModelSequenceBatchingControlInput
    state=*ModelSequenceBatchingState iterative_sequence=bool
ModelSequenceBatchingStrategyDirect: max_queue_delay_microseconds=natural
    minimum_slot_utilization=float
ModelSequenceBatchingStrategyOldest: max_candidate_sequences=int preferred_batch_size=*int
    max_queue_delay_microseconds=natural preserve_ordering=bool
ModelSequenceBatchingControlInput: name=text control=*ModelSequenceBatchingControl
ModelSequenceBatchingControl: kind==ModelSequenceBatchingControlKind int32_false_true=*int
    fp32_false_true=*float bool_false_true=*bool data_type==DataType
ModelSequenceBatchingState: input_name=text output_name=text data_type==DataType dims=*int
    initial_state=*ModelSequenceBatchingInitialState use_same_buffer_for_input_output=bool
    use_growable_memory=bool
ModelSequenceBatchingInitialState: data_type==DataType dims=*int zero_data=bool data_file=text
    name=text
ModelEnsembling: step=*ModelEnsemblingStep max_inflight_requests=natural
ModelEnsemblingStep: model_name=text model_version=int input_map=map:text output_map=map:text
    model_namespace=text
ModelInstanceGroup: name=text kind==ModelInstanceGroupKind count=int rate_limiter=ModelRateLimiter
    gpus=*int
    secondary_devices=*ModelInstanceGroupSecondaryDevice profile=*text passive=bool host_policy=text
ModelRateLimiter: resources=*ModelRateLimiterResource priority=natural
ModelRateLimiterResource: name=text global=bool count=natural
ModelInstanceGroupSecondaryDevice: kind==ModelInstanceGroupSecondaryDeviceSecondaryDeviceKind
    device_id=int
ModelParameter: string_value=text
ModelWarmup: name=text batch_size=natural inputs=map:ModelWarmupInput count=natural
ModelWarmupInput: data_type==DataType dims=*int zero_data=bool random_data=bool input_data_file=text
ModelOperations: op_library_filename=*text
ModelTransactionPolicy: decoupled=bool
ModelRepositoryAgents: agents=*ModelRepositoryAgentsAgent
ModelRepositoryAgentsAgent: name=text parameters=map:text
ModelResponseCache: enable=bool
ModelMetrics: metric_control=*ModelMetricsMetricControl
ModelMetricsMetricControl: metric_identifier=ModelMetricsMetricControlMetricIdentifier
    histogram_options=ModelMetricsMetricControlHistogramOptions
ModelMetricsMetricControlMetricIdentifier: family=text
ModelMetricsMetricControlHistogramOptions: buckets=*float
"""
_ENUMERATIONS: Final = """
DataType: TYPE_INVALID TYPE_BOOL TYPE_UINT8 TYPE_UINT16 TYPE_UINT32 TYPE_UINT64 TYPE_INT8 TYPE_INT16
    TYPE_INT32 TYPE_INT64 TYPE_FP16 TYPE_FP32 TYPE_FP64 TYPE_STRING TYPE_BF16
ModelInputFormat: FORMAT_NONE FORMAT_NHWC FORMAT_NCHW
BatchInputKind: BATCH_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT
    BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO
    BATCH_MAX_ELEMENT_COUNT_AS_SHAPE BATCH_ITEM_SHAPE BATCH_ITEM_SHAPE_FLATTEN
BatchOutputKind: BATCH_SCATTER_WITH_INPUT_SHAPE
ModelOptimizationPolicyModelPriority: PRIORITY_DEFAULT PRIORITY_MAX PRIORITY_MIN
ModelQueuePolicyTimeoutAction: REJECT DELAY
ModelSequenceBatchingControlKind: CONTROL_SEQUENCE_START CONTROL_SEQUENCE_READY CONTROL_SEQUENCE_END
    CONTROL_SEQUENCE_CORRID
ModelInstanceGroupKind: KIND_AUTO KIND_GPU KIND_CPU KIND_MODEL
ModelInstanceGroupSecondaryDeviceSecondaryDeviceKind: KIND_NVDLA
"""


def _table(text: str) -> dict[str, list[str]]:
    """`Name: word word`, a line that goes on being indented."""
    lines = re.sub(r"\n +", " ", text.strip()).splitlines()
    return {name: words.split() for name, _, words in (line.partition(":") for line in lines)}


MESSAGES: Final[Mapping[str, Mapping[str, str]]] = {
    name: dict(word.split("=", 1) for word in words) for name, words in _table(_MESSAGES).items()
}
ENUMERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(words) for name, words in _table(_ENUMERATIONS).items()
}
FIELDS: Final = frozenset(MESSAGES["ModelConfig"])
_ALTERNATIVES: Final[Mapping[str, frozenset[str]]] = {
    "ModelConfig": frozenset({"dynamic_batching", "sequence_batching", "ensemble_scheduling"}),
    "ModelVersionPolicy": frozenset({"latest", "all", "specific"}),
    "ModelSequenceBatching": frozenset({"direct", "oldest"}),
}
_TRUTHS: Final = (True, False, 0, 1, "t", "f")


def check(message: Message, where: str, kind: str = "ModelConfig", path: str = "") -> None:
    """ConfigurationError for a field that a message of this kind has not, that is there too often,
    or whose value is none of its type.
    """
    fields = MESSAGES[kind]
    if len(several := sorted(message.keys() & _ALTERNATIVES.get(kind, frozenset()))) > 1:
        raise ConfigurationError(
            f"{path}{several[0]}: {several[1]} is there too, and excludes it", where=where
        )
    for name, values in message.items():
        if name not in fields:
            every = f"its fields are {', '.join(fields) or 'none'}"
            raise ConfigurationError(
                f"{path}{name}: there is no such field",
                where=where,
                hint=did_you_mean(name, fields, otherwise=every),
            )
        form, place = fields[name], f"{path}{name}"
        if len(values) > 1 and not form.startswith(("*", "map:")):
            raise ConfigurationError(f"{place}: it is there {len(values)} times", where=where)
        for value in values:
            _check_value(value, form.removeprefix("*"), where, place)


def _check_value(value: Value, form: str, where: str, place: str) -> None:
    wrong = ""
    if form.startswith("map:"):
        _check_entry(value, form[4:], where, place)
    elif form.startswith("="):
        names = ENUMERATIONS[form[1:]]
        is_name = value in names or (type(value) is int and 0 <= value < len(names))
        wrong = "" if is_name else f"it must be one of {', '.join(names)}"
    elif form in MESSAGES:
        if isinstance(value, dict):
            check(value, where, form, f"{place}.")
        else:
            wrong = "it must be a message in braces"
    elif form == "text":
        wrong = "" if isinstance(value, str) else "it must be text"
    elif form == "bool":
        wrong = (
            "" if value in _TRUTHS and not isinstance(value, float) else "it must be true or false"
        )
    elif form == "float":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        wrong = "" if number else "it must be a number"
    elif type(value) is not int:
        wrong = "it must be a whole number"
    elif form == "natural" and value < 0:
        wrong = "it must not be negative"
    if wrong:
        raise ConfigurationError(f"{place}: {wrong}, found {_shown(value)}", where=where)


def _check_entry(value: Value, form: str, where: str, place: str) -> None:
    """An entry of a map, whose key is text (or a number, which JSON writes as text)."""
    if not isinstance(value, dict) or value.keys() - {"key", "value"}:
        raise ConfigurationError(
            f"{place}: it must be an entry with a key and a value", where=where
        )
    for inner in value.get("value", []):
        _check_value(inner, form, where, f"{place}.value")


def _shown(value: Value) -> str:
    return "a message" if isinstance(value, dict) else repr(value)[:80]
