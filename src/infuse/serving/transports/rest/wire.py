"""The messages of the protocol as JSON has them: read by msgspec, and the source of OpenAPI's
schemas.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from infuse.serving.messages import Parameter

Level = Annotated[float, msgspec.Meta(ge=0, multiple_of=1)]
Parameters = dict[str, bool | int | float | str]


class InputTensor(msgspec.Struct):
    """An input: its elements in `data` (nested or flat, row-major), or `binary_data_size` bytes
    behind the JSON.
    """

    name: str
    shape: list[int]
    datatype: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: Parameters | None = None


class WantedOutput(msgspec.Struct):
    """An output that is asked for; `binary_data` and `classification` are parameters of it."""

    name: str
    parameters: Parameters | None = None


class Inference(msgspec.Struct):
    """A request for inference."""

    inputs: list[InputTensor]
    id: str | None = None
    parameters: Parameters | None = None
    outputs: list[WantedOutput] | None = None


class LooseTensor(msgspec.Struct):
    """An input whose elements are Python's objects already."""

    name: str
    shape: list[int]
    datatype: str
    data: Any = msgspec.UNSET
    parameters: Parameters | None = None


class LooseInference(msgspec.Struct):
    """A request that holds NaN or Infinity, which strict JSON does not know."""

    inputs: list[LooseTensor]
    id: str | None = None
    parameters: Parameters | None = None
    outputs: list[WantedOutput] | None = None


class OutputTensor(msgspec.Struct, omit_defaults=True):
    """An output: its elements in `data` (flat, row-major), or `binary_data_size` bytes behind the
    JSON.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: dict[str, Parameter] | msgspec.UnsetType = msgspec.UNSET
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Answer(msgspec.Struct, omit_defaults=True):
    """The answer to a request for inference."""

    model_name: str
    outputs: list[OutputTensor]
    model_version: str = ""
    id: str = ""
    parameters: dict[str, Parameter] | msgspec.UnsetType = msgspec.UNSET


class IndexQuery(msgspec.Struct):
    """What to list of the repository: all models, or only those that are ready."""

    ready: bool = False


class Load(msgspec.Struct):
    """How to load a model: `config` (a configuration as JSON or YAML text), `file:VERSION/NAME` (a
    file in base64).
    """

    parameters: dict[str, bool | int | float | str | None] | None = None


class Unload(msgspec.Struct):
    """How to unload a model: `unload_dependents` also unloads the models that a pipeline is made
    of.
    """

    parameters: Parameters | None = None


class LogSettings(msgspec.Struct):
    """Which messages are logged; what is left out stays as it is."""

    log_file: str | None = None
    log_info: bool | None = None
    log_warning: bool | None = None
    log_error: bool | None = None
    log_verbose_level: Level | None = None
    log_format: str | None = None
