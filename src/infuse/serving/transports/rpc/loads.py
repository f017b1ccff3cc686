"""How a model is to be loaded, as a message says it."""

from __future__ import annotations

from typing import Final

from infuse.errors import RequestError, UnsupportedRequestError
from infuse.serving.transports.limits import MOST_PARAMETERS
from infuse.serving.transports.rpc.requests import RepositoryRequest
from infuse.serving.transports.rpc.schema import message, parse

_Load: Final = message("RepositoryModelLoadRequest")
_FILE: Final = "file:"


def read_load(data: bytes) -> tuple[str, dict[str, bytes]]:
    """The configuration as text, and files by their paths, of a RepositoryModelLoadRequest.

    RequestError for what is neither; UnsupportedRequestError where it names a repository.
    """
    request = parse(_Load, data)
    check_repository(request)
    if len(request.parameters) > MOST_PARAMETERS:
        count = len(request.parameters)
        raise RequestError(
            f"the request has {count} parameters, at most {MOST_PARAMETERS} are taken"
        )
    config, files = "", {}
    for name, value in request.parameters.items():
        choice = value.WhichOneof("parameter_choice")
        if name == "config" and choice == "string_param":
            config = value.string_param
        elif name.startswith(_FILE) and choice == "bytes_param":
            files[name.removeprefix(_FILE)] = value.bytes_param
        else:
            raise unknown_parameter(name, "config (text) and file:PATH (bytes)")
    return config, files


def check_repository(request: RepositoryRequest) -> None:
    """UnsupportedRequestError where a message names a repository: there is one, which has no
    name.
    """
    if name := request.repository_name:
        raise UnsupportedRequestError(
            f"there is one repository, which has no name such as '{name[:100]}'",
            hint="leave it out",
        )


def unknown_parameter(name: str, names: str) -> RequestError:
    """The error of a parameter that a message cannot have."""
    what = f"the parameter '{name[:100]}' has no meaning here, or not with such a value"
    return RequestError(what, hint=f"use {names}")
