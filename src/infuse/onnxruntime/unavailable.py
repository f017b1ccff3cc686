"""Parts of ONNX Runtime's interface that Infuse does not have: their names are there, so that
imports work, and whoever uses one is told what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from infuse.onnxruntime.errors import refused


class Unavailable:
    """A class that cannot be made."""

    what: str = "such object"
    hint: str = "leave it out"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        raise refused(self.what, self.hint)


class SparseTensor(Unavailable):
    """Tensors of which only some elements are stored."""

    what = "sparse tensors"
    hint = "give a dense one; zeros in weights are left out when a model is compiled"

    @classmethod
    def sparse_coo_from_numpy(cls, *arguments: Any, **named: Any) -> NoReturn:
        """Refused."""
        raise refused(cls.what, cls.hint)

    @classmethod
    def sparse_csr_from_numpy(cls, *arguments: Any, **named: Any) -> NoReturn:
        """Refused."""
        raise refused(cls.what, cls.hint)


class ModelCompiler(Unavailable):
    """Models compiled for execution providers."""

    what = "ModelCompiler, which writes models for execution providers"
    hint = "infuse.compile(model, output=folder) writes a folder that a session opens"


class LoraAdapter(Unavailable):
    """Adapters that a run adds to a model."""

    what = "LoRA adapters of runs"
    hint = "merge the adapter into the model's weights"


class AdapterFormat(LoraAdapter):
    """Files of adapters."""

    @staticmethod
    def read_adapter(file_path: Any) -> NoReturn:
        """Refused."""
        raise refused(LoraAdapter.what, LoraAdapter.hint)


class OrtSyncStream(Unavailable):
    """Streams of devices."""

    what = "streams of devices"


class OrtExternalInitializerInfo(Unavailable):
    """Where ModelCompiler puts an initializer."""

    what = ModelCompiler.what
    hint = ModelCompiler.hint


class OrtEpAssignedNode(Unavailable):
    """A node of a provider."""

    what = "assignment of nodes to providers"
    hint = "all nodes are the CPU's"


class OrtEpAssignedSubgraph(OrtEpAssignedNode):
    """A part of a graph that is a provider's."""


class OrtEpContextData(Unavailable):
    """What a provider keeps of a model."""

    what = "contexts of execution providers"


class OrtEpContextDataBuffer(OrtEpContextData):
    """What a provider keeps of a model."""


def unavailable_class(name: str, what: str, hint: str) -> type[Unavailable]:
    """A class of this name that cannot be made."""
    return type(name, (Unavailable,), {"what": what, "hint": hint, "__doc__": f"No {what}."})


def unavailable_function(name: str, what: str, hint: str) -> Callable[..., NoReturn]:
    """A function of this name that cannot be called."""

    def call(*arguments: Any, **named: Any) -> NoReturn:
        raise refused(what, hint)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Refused: Infuse has no {what}."
    return call
