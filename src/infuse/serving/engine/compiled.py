"""The compiled forms of a version's files, and how requests are held against it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infuse.errors import ToolchainError
from infuse.runtime.build_keys import key_of
from infuse.runtime.folder import METADATA, STAGES
from infuse.runtime.interface import PREBUILT
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


@dataclass(frozen=True)
class Builder:
    """Makes the forms in which a version's files run, for so many threads: of prebuilt kernels, and
    of compiled code. Its methods raise what goes wrong.
    """

    local: LocalVersion
    config: ModelConfig
    workers: Workers
    threads: int
    cache: Path

    async def first(self, *, waits: bool) -> Signature:
        """The form that a version begins with. With compile: background, that is compiled code
        where it is there already, or the version `waits` for it and there is a compiler.
        """
        when = self._options["compile"]
        if when != "background" or self._is_compiled:
            return await self._form(when)
        before = await self._find("wait")
        if before is not None:
            return before
        if waits:
            with suppress(ToolchainError):  # the other form needs none
                return await self._form("wait")
        return await self._form("background")

    async def compiled(self) -> Signature:
        """Compiled code, made while others go first."""
        return await self._form("wait", behind=True)

    def may_change(self, signature: Signature) -> bool:
        """Whether a version that begins with this form is to change to compiled code."""
        return signature.tier == PREBUILT and self._options["compile"] == "background"

    @property
    def _options(self) -> dict[str, Any]:
        return {**compile_options(self.config), "threads": self.threads}

    @property
    def _is_compiled(self) -> bool:
        return any((self.local.main / mark).is_file() for mark in (METADATA, STAGES))

    async def _key(self, when: str) -> str:
        local, options = self.local, {**self._options, "compile": when}
        main = str(local.main.relative_to(local.folder))
        return await asyncio.to_thread(key_of, local.digest, main, options)

    async def _find(self, when: str) -> Signature | None:
        return await asyncio.to_thread(BuildCache(self.cache).find, await self._key(when))

    async def _form(self, when: str, *, behind: bool = False) -> Signature:
        before = None if self._is_compiled else await self._find(when)
        if before is not None:
            return before
        options = {**self._options, "compile": when}
        made = await build(
            self.local.main,
            self.cache / "hosted" / "-".join([self.local.digest, *map(str, options.values())]),
            compiled=self._is_compiled,
            seconds=self.workers.build_seconds,
            memory=build_limit_of(self.workers.build_memory_mb),
            options=options,
            behind=behind,
        )
        if not self._is_compiled:
            await asyncio.to_thread(BuildCache(self.cache).keep, await self._key(when), made)
        return made


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
