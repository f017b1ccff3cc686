"""The model server. `Engine` serves a repository inside a process; HTTP, gRPC and metrics are thin
over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infuse.serving.config import ServerConfig as ServerConfig
from infuse.serving.control.model_config import ModelConfig as ModelConfig
from infuse.serving.messages import (
    InferRequest as InferRequest,
    InferResponse as InferResponse,
    RequestedOutput as RequestedOutput,
    Tensor as Tensor,
)

if TYPE_CHECKING:
    from infuse.serving.engine.engine import Engine as Engine


def __getattr__(name: str) -> Any:
    # Workers import this room too, and must stay small.
    if name == "Engine":
        from infuse.serving.engine.engine import Engine as Engine

        return Engine
    raise AttributeError(f"module 'infuse.serving' has no attribute {name!r}")
