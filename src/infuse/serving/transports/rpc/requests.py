"""Requests of the protocol by the fields of them that are read: their classes come of descriptors
when the process starts, so no source has their types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message


class Value(Protocol):
    """A value of which one of several fields is set: InferParameter, ModelRepositoryParameter."""

    bool_param: bool
    string_param: str
    bytes_param: bytes

    def WhichOneof(self, group: str) -> str | None:
        """The field of a group that is set."""
        ...


class Parameterized(Protocol):
    """What has parameters by name."""

    parameters: Mapping[str, Value]


class Contents(Protocol):
    """InferTensorContents: the elements of a tensor in one of several repeated fields."""

    def ListFields(self) -> Sequence[tuple[FieldDescriptor, Sequence[int | float | bytes]]]:
        """The fields that are set, with their values."""
        ...


class InputTensor(Protocol):
    """InferInputTensor."""

    name: str
    datatype: str
    shape: Sequence[int]
    parameters: Mapping[str, Value]
    contents: Contents

    def HasField(self, name: str) -> bool:
        """Whether a field that holds a message is set."""
        ...


class OutputTensor(Protocol):
    """InferRequestedOutputTensor."""

    name: str
    parameters: Mapping[str, Value]


class InferenceRequest(Protocol):
    """ModelInferRequest."""

    model_name: str
    model_version: str
    id: str
    parameters: Mapping[str, Value]
    inputs: Sequence[InputTensor]
    outputs: Sequence[OutputTensor]
    raw_input_contents: Sequence[bytes]


class ModelRequest(Protocol):
    """A request that names a model, and may name a version of it."""

    name: str
    version: str


class RepositoryRequest(Protocol):
    """A request to a repository."""

    repository_name: str


class IndexRequest(RepositoryRequest, Protocol):
    """RepositoryIndexRequest."""

    ready: bool


class UnloadRequest(RepositoryRequest, Protocol):
    """RepositoryModelUnloadRequest."""

    model_name: str
    parameters: Mapping[str, Value]


class SettingsRequest(Protocol):
    """TraceSettingRequest or LogSettingsRequest."""

    settings: Mapping[str, Message]


class RegionRequest(Protocol):
    """A request about a region of shared memory; "" is every one."""

    name: str
    DESCRIPTOR: Descriptor
