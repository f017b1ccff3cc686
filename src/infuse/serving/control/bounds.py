"""What the numbers of a configuration may be at most: each is a count of processes, queues, rows or
elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from infuse.errors import ConfigurationError
from infuse.serving.control.model_config import ModelConfig, PipelineStep

MOST_PER_CORE: Final = 4
"""Replicas of a version for each processor, unless `workers.max_replicas` says how many."""
_MOST_AT_LEAST: Final = 8
_MOST: Final[Mapping[str, int]] = {
    "batching.max_size": 1 << 16,
    "batching.max_queue": 1 << 20,
    "batching.priority_levels": 256,
    "warmup.sizes": 1 << 16,
    "objectives": 64,
    "inputs": 4096,
    "outputs": 4096,
    "pipeline.steps": 1024,
    "pipeline.inputs": 4096,
    "pipeline.outputs": 4096,
}
_OPTIONS: Final[Mapping[str, int]] = {  # of built-in steps
    "size": 1 << 14,
    "shortest": 1 << 14,
    "samples": 1 << 25,
    "max_length": 1 << 20,
    "multiple": 1 << 20,
    "max_bytes": 1 << 30,
}


def check_bounds(config: ModelConfig, cores: int, max_replicas: int = 0) -> None:
    """ConfigurationError for a number that is too large for any use, or for this machine, which has
    so many `cores`.

    It says the limit, and how to raise it where that can be.
    """
    most = max_replicas or max(_MOST_AT_LEAST, MOST_PER_CORE * cores)
    if config.replicas > most:
        raise ConfigurationError(
            f"replicas is {config.replicas}, and a version may have {most} here, which has {cores} "
            "processors",
            hint="set workers.max_replicas in the server's configuration",
        )
    for name, number in _numbers(config):
        if number > _MOST[name]:
            raise ConfigurationError(f"{name} is {number}, at most {_MOST[name]} are taken")
    for step in config.pipeline.steps if config.pipeline is not None else ():
        _check_options(step)


def _numbers(config: ModelConfig) -> Iterator[tuple[str, int]]:
    """The numbers by their place; of tables and lists, how many there are."""
    for name in _MOST:
        value: Any = config
        for part in name.split("."):
            value = getattr(value, part, None)
        if name == "warmup.sizes":
            yield name, max(config.warmup.sizes.values(), default=0)
        elif value is not None:
            yield name, value if isinstance(value, int) else len(value)


def _check_options(step: PipelineStep) -> None:
    for name, most in _OPTIONS.items():
        value = step.options.get(name)
        for number in value if isinstance(value, list | tuple) else (value,):
            if isinstance(number, int | float) and number > most:
                raise ConfigurationError(
                    f"{step.builtin}: {name} is {number}, at most {most} are taken"
                )
