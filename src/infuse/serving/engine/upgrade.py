"""The change of a version from prebuilt kernels to compiled code, while it serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from infuse.errors import InfuseError, ModelFailureError, ToolchainError
from infuse.runtime.swapping import difference
from infuse.serving.engine.compiled import Builder
from infuse.serving.engine.execution import Execution
from infuse.serving.messages import InferRequest, Tensor, Timeline
from infuse.serving.workers.build import Signature

_log = logging.getLogger("infuse.serving")


class Upgrade:
    """Has compiled code made by `builder`, as the only one that holds `turn`; starts it with
    `start`, compares its answer with that to the first request, and hands it to `use`. What keeps
    it from that goes to `stays`; `bound`: how far answers may differ, in parts of the largest
    element.
    """

    def __init__(
        self,
        builder: Builder,
        turn: asyncio.Lock,
        start: Callable[[Signature], Awaitable[Execution]],
        use: Callable[[Signature, Execution], Awaitable[None]],
        stays: Callable[[str], None],
        bound: float,
        where: str,
    ) -> None:
        self._builder, self._turn, self._start, self._use = builder, turn, start, use
        self._stays, self._bound, self._where = stays, bound, where
        self._sample: tuple[InferRequest, list[Tensor]] | None = None
        self._sampled = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def observe(self, request: InferRequest, outputs: list[Tensor]) -> None:
        """Note a request that was answered; the first one is compared."""
        if not self._sampled.is_set():
            inputs = [_copied(tensor) for tensor in request.inputs]
            twin = replace(request, inputs=inputs, deadline=None, timeline=Timeline())
            self._sample = twin, [_copied(tensor) for tensor in outputs]
            self._sampled.set()

    def cancel(self) -> None:
        """Have it end, without waiting for that."""
        self._task.cancel()

    async def close(self) -> None:
        """End it, wherever it is."""
        self.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        try:
            async with self._turn:
                signature = await self._builder.compiled()
            await self._sampled.wait()
            async with self._turn:
                await self._change(signature)
        except ToolchainError as error:
            _log.info("%s: prebuilt kernels stay: %s", self._where, error)
            self._stays(str(error))
        except InfuseError as error:
            _log.warning("%s: prebuilt kernels stay: %s", self._where, error)
            self._stays(str(error))
        except Exception as error:  # the version serves as before
            _log.exception("%s: prebuilt kernels stay", self._where)
            self._stays(f"internal error ({type(error).__name__}: {error})")
        finally:
            self._sample = None

    async def _change(self, signature: Signature) -> None:
        execution = await self._start(signature)
        try:
            await self._compare(signature, execution)
        except BaseException:
            await execution.close()
            raise
        await self._use(signature, execution)
        _log.info("%s: compiled code answers from now on", self._where)

    async def _compare(self, signature: Signature, execution: Execution) -> None:
        """ModelFailureError where compiled code gives another answer."""
        assert self._sample is not None
        assert execution.batcher is not None
        request, expected = self._sample
        outputs, _ = await execution.infer(request, execution.batcher)
        for before, after in zip(expected, outputs, strict=True):
            what = difference(before.data, after.data, self._bound)
            if what and not signature.is_random:
                raise ModelFailureError(
                    f"compiled code gives another answer: the output {before.name} {what}",
                    where=self._where,
                )


def _copied(tensor: Tensor) -> Tensor:
    return replace(tensor, data=np.array(tensor.data, copy=True))
