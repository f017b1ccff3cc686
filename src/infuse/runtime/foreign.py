"""A model compiled for another kind of machine: its folder is all there is of it here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from infuse.errors import OptionError
from infuse.runtime.folder import read_metadata
from infuse.runtime.interface import COMPILED
from infuse.runtime.shapes import TensorSpec, returned


class ForeignModel:
    """A `Model` that this machine cannot run; there it is loaded by
    `infuse.load_compiled(folder)`.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        self.folder, self.threads = folder, threads
        self.metadata: dict[str, Any] = read_metadata(folder)
        self.inputs = tuple(map(TensorSpec.from_metadata, self.metadata["inputs"]))
        self.outputs = returned([*map(TensorSpec.from_metadata, self.metadata["outputs"])])
        arena = self.metadata.get("arena") or {}
        self.arena_bytes = int(arena.get("bytes", 0))
        """As it was planned; 0 where the run plans it."""
        self.arena_lower_bound = int(arena.get("lower_bound", 0))
        self.weights_bytes = int(self.metadata["weights_bytes"])

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.metadata.get("name", ""))

    @property
    def tier(self) -> str:
        """COMPILED: nothing else is made for another machine."""
        return COMPILED

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers: another run gives other outputs."""
        return bool(self.metadata.get("random", False))

    @property
    def host_steps(self) -> list[str]:
        """What the interpreter runs of the model: nothing."""
        return []

    @property
    def _place(self) -> str:
        system, machine = self.metadata.get("system"), self.metadata["machine"]
        return f"{system} on {machine}" if system else str(machine)

    def _refuse(self) -> NoReturn:
        raise OptionError(
            f"the model was compiled for {self._place} and does not run here",
            where=str(self.folder),
            hint="copy the folder there, and load it with infuse.load_compiled",
        )

    def run(self, inputs: Mapping[str, Any] | Any) -> NoReturn:
        """OptionError, always."""
        self._refuse()

    def __call__(self, *inputs: Any) -> NoReturn:
        self._refuse()

    def session(self, threads: int | None = None) -> NoReturn:
        """OptionError, always."""
        self._refuse()

    def give_back_weights(self) -> None:
        """Nothing: its weights are in memory nowhere here."""

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> ForeignModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
