"""How a model is to be loaded, as the body of a request says it."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from infuse.errors import RequestError
from infuse.serving.transports.elements import Buffer
from infuse.serving.transports.limits import MOST_PARAMETERS
from infuse.serving.transports.rest.routes import read_body
from infuse.serving.transports.rest.wire import Load

_FILE: Final = "file:"


def read_load(body: Buffer) -> tuple[str, dict[str, bytes]]:
    """The configuration as text, and files by their paths; RequestError for what is neither."""
    config, files = "", {}
    parameters = read_body(body, Load).parameters or {}
    if len(parameters) > MOST_PARAMETERS:
        raise RequestError(
            f"the request has {len(parameters)} parameters, at most {MOST_PARAMETERS} are taken"
        )
    for name, value in parameters.items():
        if name == "config" and isinstance(value, str):
            config = value
        elif name.startswith(_FILE) and isinstance(value, str):
            files[name.removeprefix(_FILE)] = _file(name, value)
        else:
            raise unknown(name, "config (text) and file:PATH (base64)")
    return config, files


def unknown(name: str, names: str) -> RequestError:
    """The error of a parameter that a request cannot have."""
    what = f"the parameter {name[:100]!r} has no meaning here, or not with such a value"
    return RequestError(what, hint=f"use {names}")


def _file(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(f"the parameter {name[:100]!r} is not base64: {error}") from error
