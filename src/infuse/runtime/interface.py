"""What every compiled model offers, whatever runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from infuse.runtime.shapes import TensorSpec

_Self = TypeVar("_Self")
PREBUILT: Final = "prebuilt"
COMPILED: Final = "compiled"
"""What runs a model."""


def tier_of(metadata: Mapping[str, Any]) -> str:
    """What runs the model of a folder, by its metadata. A program counts as compiled where all its
    functions are those of compiled code.
    """
    program = metadata.get("program", {"compiled": True})
    return COMPILED if isinstance(program, dict) and program.get("compiled") else PREBUILT


class Runner(Protocol):
    """What runs a model for one thread at a time."""

    def run(self, inputs: Mapping[str, Any] | Any) -> dict[str, Any]:
        """The outputs by name. InputError when the inputs do not fit, RuntimeFailure when the run
        fails.
        """
        ...

    def execute(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs in order for inputs in order."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class Model(Protocol):
    """A compiled model: native code, native code with stages of the interpreter, or one that only
    another machine runs, where running it is an OptionError. Safe to call from several threads.
    """

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def metadata(self) -> dict[str, Any]:
        """What is known of the model beside its interface."""
        ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of every input."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, element type and shape of every output."""
        ...

    @property
    def threads(self) -> int:
        """The number of threads that it was compiled for."""
        ...

    @property
    def tier(self) -> str:
        """What runs it: PREBUILT kernels, or COMPILED code."""
        ...

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers: another run gives other outputs."""
        ...

    @property
    def host_steps(self) -> list[str]:
        """What the interpreter runs: operator and node."""
        ...

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights of native code."""
        ...

    @property
    def arena_bytes(self) -> int:
        """Bytes of working memory of one context, after the calls so far."""
        ...

    @property
    def arena_lower_bound(self) -> int:
        """The most bytes of intermediate tensors that were live at once."""
        ...

    def run(self, inputs: Mapping[str, Any] | Any) -> dict[str, Any]:
        """The outputs by name, for arrays by name, or for an array where the model needs one.
        InputError when the inputs do not fit, RuntimeFailure when the run fails.
        """
        ...

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for inputs in order: a tuple, or the value itself when it is only one."""
        ...

    def session(self, threads: int | None = None) -> Runner:
        """A context of the caller's own, for one thread."""
        ...

    def give_back_weights(self) -> None:
        """Let the weights of native code leave the memory of this process until a run reads them
        again.
        """
        ...

    def close(self) -> None:
        """Free what the model holds."""
        ...

    def __enter__(self: _Self) -> _Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
