"""Triton's config.pbtxt, and its JSON, as a model's configuration."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from infuse.errors import ConfigurationError
from infuse.serving.config import ServerConfig
from infuse.serving.control.model_config import (
    DeclaredTensor,
    ModelConfig,
    Pipeline,
    PipelineStep,
    TensorConfig,
)
from infuse.serving.control.repository import ModelText, Repository, parse_config
from infuse.serving.control.repository.textformat import parse_text

pytestmark = pytest.mark.row("S2")


def read(text: str, name: str = "m") -> ModelText:
    return parse_config(name, text, "m/config.pbtxt", {})


FULL = """
# A comment: with "quotes"
name: "m"
platform: 'onnxruntime_onnx'
max_batch_size: 0x8
input [
  { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] reshape { shape: [ 3, 1 ] } },
  { name: "t", data_type: TYPE_STRING; dims: 1 format: FORMAT_NCHW }
]
output < name: "y" data_type: TYPE_INT64 dims: [] >
version_policy: { specific: { versions: [1, 3] } }
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  preserve_ordering: true
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy {
    timeout_action: DELAY
    default_timeout_microseconds: 2500
    allow_timeout_override: true
    max_queue_size: 64
  }
}
instance_group [ { count: 2 kind: KIND_CPU },
    { count: 1 kind: KIND_GPU gpus: [ 0, 1 ] }, { kind: KIND_AUTO } ]
model_warmup [ { name: "w" batch_size: 1 } ]
parameters: { key: "threshold" value: { string_value: "0.5" } }
parameters [ { key: "long" value: { string_value: "one " "text" } } ]
optimization { execution_accelerators { gpu_execution_accelerator : [ { name : "tensorrt" } ] } }
"""


def test_every_field_is_read_or_noted() -> None:
    found = read(FULL)
    config = found.config
    assert (config.name, config.platform) == ("m", "onnxruntime_onnx")
    assert config.version_policy.specific == (1, 3)
    assert config.version_policy.latest is None
    assert config.replicas == 4
    batching = config.batching
    assert (batching.max_size, batching.max_queue, batching.preserve_ordering) == (8, 64, True)
    assert batching.required
    assert (batching.priority_levels, batching.default_priority) == (3, 2)
    assert (batching.default_timeout_ms, batching.timeout_action) == (2.5, "delay")
    assert config.warmup.enabled
    assert config.parameters["threshold"] == "0.5"
    assert config.parameters["long"] == "one text"
    assert config.inputs == (
        DeclaredTensor(name="x", datatype="FP32", shape=(-1, 3, -1), reshape=(-1, 3, 1)),
        DeclaredTensor(name="t", datatype="BYTES", shape=(-1, 1)),
    )
    assert config.outputs == (DeclaredTensor(name="y", datatype="INT64"),)
    noted = {note.partition(" ")[0].rstrip(":") for note in found.notes}
    assert noted == {
        "input.format",
        "dynamic_batching.preferred_batch_size",
        "dynamic_batching.max_queue_delay_microseconds",
        "dynamic_batching.default_queue_policy.allow_timeout_override",
        "instance_group.kind",
        "instance_group.gpus",
        "model_warmup",
        "optimization",
        "parameters",
    }


BATCH_SIZES = {"": 0, "max_batch_size: 0": 1, "max_batch_size: 1": 1, "max_batch_size: 16": 16}


@pytest.mark.parametrize("text", BATCH_SIZES)
def test_batch_sizes(text: str) -> None:
    assert read(text).config.batching.max_size == BATCH_SIZES[text]


def test_requests_are_put_together_where_triton_would() -> None:
    for text, dynamic in {
        "max_batch_size: 8": False,
        "max_batch_size: 8 dynamic_batching { }": True,
        "dynamic_batching { } max_batch_size: 8": True,
        "": True,
    }.items():
        found = read(text)
        assert found.config.batching.dynamic == dynamic
        assert not found.notes


def test_policies_of_versions() -> None:
    assert read("").config.version_policy.latest == 1
    assert read("version_policy { latest { num_versions: 3 } }").config.version_policy.latest == 3
    assert read("version_policy { latest { num_versions: 0 } }").config.version_policy.latest == 1
    assert read("version_policy { latest { } }").config.version_policy.latest == 1
    assert read("version_policy: { all { } }").config.version_policy.all
    assert read("version_policy <specific <versions: 2>>").config.version_policy.specific == (2,)


def test_what_infuse_itself_tells_of_a_model_is_read() -> None:
    for text in (
        'backend: "onnxruntime"',
        'backend: "infuse" platform: "onnx_infuse"',
        "max_batch_size: 0",
    ):
        assert not read(text).notes


REFUSED = {
    'backend: "tensorrt"': "'tensorrt' runs nothing here",
    'platform: "pytorch_libtorch"': "'pytorch_libtorch' runs nothing here",
    "sequence_batching { oldest { max_candidate_sequences: 4 } }": (
        "sequence_batching: sequences of requests"
    ),
    "sequence_batching { }": "sequence_batching: sequences of requests",
    "batch_input { kind: BATCH_ELEMENT_COUNT }": "batch_input: no inputs are made",
    "batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE }": "batch_output: no outputs",
    "model_transaction_policy { decoupled: true }": (
        "model_transaction_policy.decoupled: a request has one answer"
    ),
    "model_repository_agents { agents { name: 'checksum' } }": (
        "model_repository_agents: there are no agents here"
    ),
    "input { name: 'x' data_type: TYPE_FP32 dims: 1 is_shape_tensor: true }": (
        "input.is_shape_tensor"
    ),
    "input { name: 'x' data_type: TYPE_FP32 dims: 1 allow_ragged_batch: true }": (
        "input.allow_ragged_batch"
    ),
    "output { name: 'x' data_type: TYPE_FP32 dims: 1 is_non_linear_format_io: true }": (
        "is_non_linear_format_io"
    ),
    "somewhat_new: 3": "somewhat_new: there is no such field",
    "max_batch_sise: 3": "did you mean 'max_batch_size'?",
    "input { name: 'x' data_type: TYPE_FP32 dim: 3 }": (
        "input.dim: there is no such field. Hint: did you mean 'dims'?"
    ),
    "optimization { cuda { graphz: true } }": "optimization.cuda.graphz: there is no such field",
    "dynamic_batching { priority_queue_policy { key: 1 value { max_queue: 1 } } }": (
        "did you mean 'max_queue_size'?"
    ),
    "max_batch_size: 1 max_batch_size: 2": "max_batch_size: it is there 2 times",
    "max_batch_size: 1.5": "max_batch_size: it must be a whole number, found 1.5",
    "input { name: 'x' data_type: TYPE_FP33 dims: 1 }": (
        "input.data_type: it must be one of TYPE_INVALID, TYPE_BOOL"
    ),
    "input { name: 'x' data_type: TYPE_INVALID dims: 1 }": "input.data_type: it is missing",
    "instance_group { kind: KIND_CPUS }": "instance_group.kind: it must be one of",
    "version_policy { all { } latest { } }": "version_policy.all: latest is there too",
    "dynamic_batching { } ensemble_scheduling { }": "ensemble_scheduling is there too",
    "dynamic_batching { max_queue_delay_microseconds: -1 }": "it must not be negative",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_must_not_be_passed_over_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert REFUSED[text] in str(caught.value)
    assert "m/config.pbtxt" in str(caught.value)


def test_a_no_to_what_is_not_offered_is_no_matter() -> None:
    assert not read("model_transaction_policy { decoupled: false }").notes
    assert not read(
        "input { name: 'x' data_type: 11 dims: 1 allow_ragged_batch: false is_shape_tensor: f }"
    ).notes


def test_every_field_of_the_protocol_is_applied_or_has_a_word() -> None:
    """Tritonclient's message class is the second witness of which fields there are."""
    from infuse.serving.control.repository import pbtxt, tritonfields

    described = triton_messages().ModelConfig.DESCRIPTOR
    assert {field.name for field in described.fields} == set(tritonfields.FIELDS)
    applied = {
        "name",
        "platform",
        "backend",
        "default_model_filename",
        "max_batch_size",
        "input",
        "output",
    }
    applied |= {
        "version_policy",
        "instance_group",
        "dynamic_batching",
        "model_warmup",
        "ensemble_scheduling",
    }
    applied |= {"parameters", "model_transaction_policy"}
    told = {path for path in (*pbtxt._WITHOUT_EFFECT, *pbtxt._REFUSED) if "." not in path}
    assert applied | told == set(tritonfields.FIELDS)


def test_an_ensemble_is_a_pipeline() -> None:
    text = """
    platform: "ensemble" max_batch_size: 4
    input [ { name: "RAW" data_type: TYPE_STRING dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 10 ] } ]
    ensemble_scheduling {
      step [
        { model_name: "prepare" model_version: -1
          input_map { key: "bytes" value: "RAW" } output_map { key: "image" value: "picture" } },
        { model_name: "net" model_version: 3 model_namespace: "n"
          input_map { key: "x" value: "picture" } output_map { key: "y" value: "OUT" } }
      ]
    }
    """
    found = read(text)
    assert found.config.pipeline == Pipeline(
        inputs=(TensorConfig(name="RAW", datatype="BYTES", shape=(-1, 1)),),
        outputs=(TensorConfig(name="OUT", datatype="FP32", shape=(-1, 10)),),
        steps=(
            PipelineStep(model="prepare", inputs={"bytes": "RAW"}, outputs={"image": "picture"}),
            PipelineStep(model="net", version="3", inputs={"x": "picture"}, outputs={"y": "OUT"}),
        ),
    )
    assert [note.partition(" ")[0] for note in found.notes] == [
        "ensemble_scheduling.step.model_namespace"
    ]


WRONG = {
    "name": "text format",
    "name: ": "text format",
    'name: "m': "text format",
    "input {": "'}' is missing",
    "input { name: 'x' ": "'}' is missing",
    "input [ { name: 'x' } { name: 'y' } ]": "',' or ']'",
    "}": "text format",
    "input { name: 'x' }": "input.data_type: it is missing",
    "input { data_type: TYPE_FP32 }": "input.name: it is missing",
    "max_batch_size: 'many'": "max_batch_size: it must be a whole number",
    "max_batch_size: true": "max_batch_size: it must be a whole number",
    "max_batch_size: -1": "negative",
    "name: 5": "name: it must be text",
    "instance_group: 3": "instance_group: it must be a message",
    "version_policy { specific { versions: ['a'] } }": "versions: it must be a whole number",
    "dynamic_batching { preserve_ordering: 'yes' }": "true or false",
    "input " + "{ a " * 100: "deep",
    "name: 'other'": "for the model 'other'",
    "\0": "text format",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_with_the_place(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert WRONG[text] in str(caught.value)
    assert "m/config.pbtxt" in str(caught.value)


def triton_messages() -> Any:
    return pytest.importorskip("tritonclient.grpc.model_config_pb2")


def test_what_protobuf_itself_writes_is_read_the_same() -> None:
    """Tritonclient's message class is the second witness: text and JSON of one message say the
    same.
    """
    from google.protobuf import json_format, text_format

    messages = triton_messages()
    message = text_format.Parse(FULL, messages.ModelConfig())
    expected = read(FULL).config
    for line in (False, True):
        assert read(text_format.MessageToString(message, as_one_line=line)).config == expected
    for names in (False, True):
        plain = json_format.MessageToJson(message, preserving_proto_field_name=names)
        assert parse_config("m", plain, "load", {}).config == expected


def test_triton_s_json_is_told_from_our_own() -> None:
    def parse(plain: dict[str, Any]) -> ModelConfig:
        return parse_config("m", json.dumps(plain), "load", {}).config

    assert parse(
        {"version_policy": {"specific": {"versions": ["2", 3]}}}
    ).version_policy.specific == (2, 3)
    assert parse({"versionPolicy": {"latest": {"numVersions": 2}}}).version_policy.latest == 2
    assert parse({"version_policy": {"specific": [4]}}).version_policy.specific == (4,)
    assert (
        parse({"max_batch_size": "8", "parameters": {"7": {"string_value": "9"}}}).parameters["7"]
        == "9"
    )
    assert parse({"parameters": {"a": "b"}}).parameters == {"a": "b"}
    with pytest.raises(ConfigurationError, match="nonsense"):
        parse({"nonsense": 1})
    with pytest.raises(ConfigurationError, match="load"):
        parse({"max_batch_size": {"a": 1}})


def test_a_configuration_can_stand_for_the_repositorys(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        (tmp_path / "models/m/1").mkdir(parents=True, exist_ok=True)
        (tmp_path / "models/m/1" / name).write_bytes(name.encode())
    (tmp_path / "models/m/config.pbtxt").write_text('default_model_filename: "a.onnx"')
    repository = Repository(
        ServerConfig(repository=str(tmp_path / "models"), cache=tmp_path / "cache")
    )  # type: ignore[arg-type]
    assert asyncio.run(repository.scan())["m"].versions[1].main == "a.onnx"
    given = asyncio.run(repository.scan({"m": '{"default_model_filename": "b.onnx"}'}))["m"]
    assert given.versions[1].main == "b.onnx"
    assert asyncio.run(repository.fetch(given, 1)).main.read_bytes() == b"b.onnx"
    broken = asyncio.run(repository.scan({"m": "nonsense: 1"}))["m"]
    assert "nonsense" in broken.problem
    files = {"1/a.onnx": b"A", "1/b.onnx": b"B"}
    sent = asyncio.run(repository.fetch_uploaded("u", files, "file: b.onnx"))
    assert asyncio.run(repository.fetch(sent, 1)).main.read_bytes() == b"B"


@pytest.mark.parametrize("escape", [r"\777", r"\400", r"\377", r"\xff", r"\ud800", r"\U00110000"])
def test_escapes_that_stand_for_no_character_are_told_of(escape: str) -> None:
    with pytest.raises(ConfigurationError, match="stands for no character") as caught:
        parse_text(f'name: "{escape}"', "config.pbtxt")
    assert "codec" not in str(caught.value)
