"""The messages: generated from the `.proto` file beside them, and numbered as everybody's."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from tritonclient.grpc import model_config_pb2, service_pb2

from infuse.serving.transports import rpc
from infuse.serving.transports.rpc import schema

pytestmark = pytest.mark.row("S1")
FOLDER = Path(rpc.__file__).parent


def test_generated_from_the_proto_file(tmp_path: Path) -> None:
    made = tmp_path / "made.binpb"
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{FOLDER}",
        f"--descriptor_set_out={made}",
    ]
    subprocess.run([*command, "open_inference.proto"], check=True)
    kind = descriptor_pb2.FileDescriptorSet
    kept = (FOLDER / "open_inference.binpb").read_bytes()
    assert kind.FromString(kept) == kind.FromString(made.read_bytes())


def test_the_pool_of_the_process_is_left_alone() -> None:
    theirs = service_pb2.ModelInferRequest.DESCRIPTOR
    assert theirs.file.pool is descriptor_pool.Default()
    assert schema.message("ModelInferRequest").DESCRIPTOR is not theirs


def messages(parent: Any) -> dict[str, Any]:
    """All messages in a file or a message, by full name."""
    found: dict[str, Any] = {}
    for message in (
        parent.nested_types
        if hasattr(parent, "nested_types")
        else parent.message_types_by_name.values()
    ):
        found |= {message.full_name: message} | messages(message)
    return found


def form(field: Any) -> tuple[Any, ...]:
    kind = field.message_type or field.enum_type
    choice = field.containing_oneof
    return (
        field.number,
        field.type,
        field.is_repeated,
        kind and kind.full_name,
        choice and choice.name,
    )


def test_fields_are_those_that_clients_know() -> None:
    """Every message, field, choice and value of ours is one of tritonclient's, with the same number
    and type.
    """
    ours = messages(schema.POOL.FindFileByName("open_inference.proto"))
    theirs = messages(service_pb2.DESCRIPTOR) | messages(model_config_pb2.DESCRIPTOR)
    assert len(ours) > 60
    for name, message in ours.items():
        for field in message.fields:
            assert form(field) == form(theirs[name].fields_by_name[field.name]), (
                f"{name}.{field.name}"
            )
        for enum in message.enum_types:
            assert {v.name: v.number for v in enum.values} == {
                v.name: v.number for v in theirs[name].enum_types_by_name[enum.name].values
            }


def test_the_service_has_every_call() -> None:
    def calls(service: Any) -> list[tuple[Any, ...]]:
        return sorted(
            (
                m.name,
                m.input_type.full_name,
                m.output_type.full_name,
                m.client_streaming,
                m.server_streaming,
            )
            for m in service.methods
        )

    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    assert calls(schema.POOL.FindServiceByName(schema.SERVICE)) == calls(theirs)
