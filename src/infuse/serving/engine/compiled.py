"""The compiled form of a version's files, and how requests are held against it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from infuse.runtime.build_keys import key_of
from infuse.runtime.folder import METADATA, STAGES
from infuse.serving.config import Workers
from infuse.serving.control.compiling import compile_options
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.repository import LocalVersion
from infuse.serving.engine.batching.together import Together
from infuse.serving.engine.declared import Declared
from infuse.serving.engine.signature import Checker
from infuse.serving.workers.budget import build_limit_of
from infuse.serving.workers.build import Signature, build
from infuse.serving.workers.build_cache import BuildCache


async def compiled(
    local: LocalVersion, config: ModelConfig, workers: Workers, threads: int, cache: Path
) -> Signature:
    """The compiled model: what was made of the same files before, or else made now, for so many
    threads. Raises what went wrong.
    """
    main = local.main
    options = {**compile_options(config), "threads": threads}
    built, ready = BuildCache(cache), any((main / mark).is_file() for mark in (METADATA, STAGES))
    key = await asyncio.to_thread(
        key_of, local.digest, str(main.relative_to(local.folder)), options
    )
    folder = None if ready else await asyncio.to_thread(built.find, key)
    if folder is None:
        folder = await build(
            main,
            cache / "hosted" / _hosted_name(local, config),
            compiled=ready,
            seconds=workers.build_seconds,
            memory=build_limit_of(workers.build_memory_mb),
            options=options,
        )
        if not ready:
            await asyncio.to_thread(built.keep, key, folder)
    return folder


@dataclass(frozen=True)
class Interface:
    """How requests are held against a compiled model, and whether they may be put together."""

    checker: Checker
    together: Together

    @classmethod
    def of(cls, signature: Signature, config: ModelConfig) -> Interface:
        """Of a model and its configuration; ConfigurationError where one is not of the other."""
        inputs, outputs = signature.inputs, signature.outputs
        declared = Declared(config, inputs, outputs)
        return cls(
            Checker(inputs, outputs, signature.symbols, config.batching.pad, declared),
            Together.of(config.batching, signature.mixes),
        )

    @property
    def notes(self) -> list[str]:
        """What an operator should know of it."""
        if not (self.checker.batch and self.together.unproven):
            return []
        how = "batching.independent_rows in its configuration states that they are"
        return [f"requests run one by one: {self.together.reason} ({how})"]

    @property
    def obstacle(self) -> str:
        """Why requests are not put together; "" where they may be."""
        if not self.checker.batch:
            return "inputs and outputs have no free first dimension in common"
        return self.together.reason


def _hosted_name(local: LocalVersion, config: ModelConfig) -> str:
    """The folder of a model of which the interpreter runs a part."""
    return "-".join([local.digest, *(f"{each}" for each in compile_options(config).values())])
