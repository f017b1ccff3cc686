"""A model compiled for another kind of machine: its folder is all there is of it here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infuse.errors import OptionError
from infuse.runtime.folder import read_metadata
from infuse.runtime.shapes import TensorSpec


class ForeignModel:
    """What is known of a model that this machine cannot run; there it is loaded by
    `infuse.load_compiled(folder)`.
    """

    host_steps: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metadata: dict[str, Any] = dict(read_metadata(folder))
        self.inputs = tuple(map(TensorSpec.from_metadata, self.metadata["inputs"]))
        self.outputs = tuple(map(TensorSpec.from_metadata, self.metadata["outputs"]))

    def run(self, *_: Any, **__: Any) -> dict[str, Any]:
        """OptionError, always."""
        raise OptionError(
            f"the model was compiled for {self.metadata['machine']} and does not run here",
            where=str(self.folder),
            hint="copy the folder there, and load it with infuse.load_compiled",
        )

    __call__ = run

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> ForeignModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
