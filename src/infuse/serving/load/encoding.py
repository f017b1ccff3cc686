"""Requests for inference as callers write them: bodies of HTTP and messages of gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from infuse.errors import InputError
from infuse.serving.datatypes import RAW_ONLY
from infuse.serving.messages import Tensor, TensorMetadata
from infuse.serving.transports.elements import to_bytes
from infuse.serving.transports.json_elements import to_json

HEADER: Final = "Inference-Header-Content-Length"
"""The HTTP header with the bytes of the JSON before binary tensors."""
METHODS: Final = "/inference.GRPCInferenceService"


def binary_body(inputs: Sequence[Tensor], outputs: Sequence[str]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a request whose tensors are binary both ways."""
    contents = [to_bytes(tensor.data, tensor.datatype) for tensor in inputs]
    described = [
        {**_described(tensor), "parameters": {"binary_data_size": len(content)}}
        for tensor, content in zip(inputs, contents)
    ]
    asked = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    head = msgspec.json.encode({"inputs": described, "outputs": asked})
    headers = {"Content-Type": "application/octet-stream", HEADER: str(len(head))}
    return b"".join([head, *contents]), headers


def json_body(inputs: Sequence[Tensor], outputs: Sequence[str]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a request whose tensors are JSON both ways; InputError for an
    element type that has no form in JSON.
    """
    for tensor in inputs:
        if tensor.datatype in RAW_ONLY:
            raise InputError(
                f"{tensor.datatype} has no form in JSON",
                where=f"input {tensor.name!r}",
                hint="send binary tensors",
            )
    described = [
        {**_described(tensor), "data": to_json(tensor.name, tensor.data, tensor.datatype)}
        for tensor in inputs
    ]
    body = msgspec.json.encode({"inputs": described, "outputs": [{"name": n} for n in outputs]})
    return body, {"Content-Type": "application/json"}


def raw_message(
    model: str, version: str, inputs: Sequence[Tensor], outputs: Sequence[str]
) -> bytes:
    """The ModelInferRequest message of a request, with raw contents."""
    from infuse.serving.transports.rpc.schema import message

    request = message("ModelInferRequest")(
        model_name=model,
        model_version=version,
        inputs=list(map(_described, inputs)),
        outputs=[{"name": name} for name in outputs],
        raw_input_contents=[bytes(to_bytes(tensor.data, tensor.datatype)) for tensor in inputs],
    )
    data: bytes = request.SerializeToString()
    return data


def _described(tensor: Tensor) -> TensorMetadata:
    return {"name": tensor.name, "shape": list(tensor.shape), "datatype": tensor.datatype}
