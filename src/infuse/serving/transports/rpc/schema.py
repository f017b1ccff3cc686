"""The messages of `open_inference.proto`, in a pool of their own.

Clients of the protocol bring messages with the same names; in the pool of the process only one of
both could be. The `.binpb` file beside is what protoc makes of the `.proto` file: `python -m
grpc_tools.protoc -I FOLDER --descriptor_set_out=FOLDER/open_inference.binpb open_inference.proto`.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from infuse.errors import RequestError

SERVICE: Final = "inference.GRPCInferenceService"


def _pool() -> descriptor_pool.DescriptorPool:
    """A pool with our file, and those of the services that are served beside it (for
    reflection).
    """
    pool = descriptor_pool.DescriptorPool()
    data = resources.files(__package__).joinpath("open_inference.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    for module in (health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return pool


POOL: Final = _pool()


def message(name: str) -> type[Message]:
    """The class of a message of the protocol."""
    kind: type[Message] = message_factory.GetMessageClass(
        POOL.FindMessageTypeByName(f"inference.{name}")
    )
    return kind


def parse(kind: type[Message], data: bytes) -> Message:
    """The message of class `kind` that `data` is; RequestError when it is none."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise RequestError(
            f"what was sent is no {kind.DESCRIPTOR.name} message: {error}"
        ) from error
