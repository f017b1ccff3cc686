"""Running a pipeline: every step as soon as its inputs are there, values gone when nobody reads
them any more.
"""

from __future__ import annotations

import asyncio
import copy
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from infuse.errors import (
    DeadlineError,
    InfuseError,
    InputError,
    ModelFailureError,
    UnavailableError,
)
from infuse.serving.control.model_config import Pipeline
from infuse.serving.datatypes import name_of
from infuse.serving.engine.pipelines.plan import Metadata, Plan, Step, check
from infuse.serving.engine.pipelines.ports import Port, nearest, shape_fits
from infuse.serving.engine.pipelines.steps import Builtin, Options
from infuse.serving.messages import InferRequest, InferResponse, RequestedOutput, Tensor
from infuse.serving.tuning import THREADS

Call = Callable[[InferRequest], Awaitable[InferResponse]]


class PipelineRunner:
    """A pipeline that has been checked and can be run. Runs share nothing but the threads of
    built-in steps.

    `call` answers the requests of steps that are models (other pipelines among them). `models` is
    their metadata by name; without it, what they take is left to the calls. `folders` are where the
    files of built-in steps lie. `pool` runs built-in steps; without one, a small one is made, which
    `close` ends.
    """

    def __init__(
        self,
        name: str,
        pipeline: Pipeline,
        call: Call,
        models: Metadata | None = None,
        *,
        folders: Sequence[Path] = (),
        pool: Executor | None = None,
    ) -> None:
        self.name = name
        self.plan: Plan = check(name, pipeline, models, folders)
        self.models = frozenset(step.config.model for step in self.plan.steps if step.config.model)
        self._call = call
        self._own: ThreadPoolExecutor | None = None
        self._pool = pool
        if pool is None and any(step.builtin for step in self.plan.steps):
            threads = min(THREADS, os.cpu_count() or 1)
            self._pool = self._own = ThreadPoolExecutor(
                threads, thread_name_prefix=f"pipeline-{name}"
            )

    async def run(self, request: InferRequest) -> list[Tensor]:
        """The outputs that the request asks for, in its order (all, in the pipeline's order, if it
        names none).

        A failing step cancels the others; its error names it. Cancelling the run cancels its steps.
        """
        self._check_inputs(request)
        outputs = [output.name for output in request.outputs] or list(self.plan.outputs)
        for name in outputs:
            if name not in self.plan.outputs:
                raise InputError(
                    f"it has no output '{name}'",
                    where=self._where,
                    hint=nearest(name, self.plan.outputs),
                )
        values = await _Run(self, request, outputs).finish()
        return [self._output(name, values[name]) for name in outputs]

    def close(self) -> None:
        """End the threads; steps that run in them finish, and their results are thrown away."""
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)

    @property
    def _where(self) -> str:
        return f"pipeline '{self.name}'"

    def _check_inputs(self, request: InferRequest) -> None:
        tensors = {tensor.name: tensor for tensor in request.inputs}
        if len(tensors) < len(request.inputs):
            raise InputError("an input is given twice", where=self._where)
        for name in tensors:
            if name not in self.plan.inputs:
                raise InputError(
                    f"it has no input '{name}'",
                    where=self._where,
                    hint=nearest(name, self.plan.inputs),
                )
        for name, port in self.plan.inputs.items():
            if name not in tensors:
                raise InputError(f"input '{name}' is missing", where=self._where)
            if not _agrees(port, tensors[name]):
                actual = f"{tensors[name].datatype}{list(tensors[name].shape)}"
                raise InputError(f"input '{name}' takes {port}, found {actual}", where=self._where)

    def _output(self, name: str, value: Tensor) -> Tensor:
        port = self.plan.outputs[name]
        if not _agrees(port, value):
            actual = f"{value.datatype}{list(value.shape)}"
            raise ModelFailureError(
                f"output '{name}' is declared as {port}, and is {actual}", where=self._where
            )
        return Tensor(name, value.datatype, value.data, labels=value.labels)

    async def _step(
        self, step: Step, request: InferRequest, inputs: list[Tensor], outputs: list[str]
    ) -> list[Tensor]:
        """Run one step; every error of it names it."""
        place = f"{self._where}: {step.label}"
        try:
            if request.deadline is not None and time.monotonic() >= request.deadline:
                raise DeadlineError("its time was over before the step began")
            if step.builtin is not None:
                results = await self._builtin(step.builtin, inputs, outputs)
            else:
                results = (await self._call(_request_of(step, request, inputs, outputs))).outputs
            return _selected(results, outputs)
        except InfuseError as error:
            raise _located(error, place) from error
        except Exception as error:
            raise ModelFailureError(
                f"it failed ({type(error).__name__}: {error})", where=place
            ) from error

    async def _builtin(
        self, builtin: Builtin[Options], inputs: list[Tensor], outputs: list[str]
    ) -> list[Tensor]:
        work = partial(
            builtin.run, {tensor.name: tensor.data for tensor in inputs}, frozenset(outputs)
        )
        arrays = await asyncio.get_running_loop().run_in_executor(self._pool, work)
        return [Tensor(name, name_of(data.dtype), data) for name, data in arrays.items()]


class _Run:
    """One run: the values that are there, how many still read each, and the steps that are under
    way.
    """

    def __init__(
        self, runner: PipelineRunner, request: InferRequest, outputs: Sequence[str]
    ) -> None:
        self.runner = runner
        self.request = request
        self.waiting = runner.plan.needed(outputs)
        self.readers = Counter(outputs)
        for step in self.waiting:
            self.readers.update(step.reads)
        self.values = {
            tensor.name: tensor for tensor in request.inputs if self.readers[tensor.name]
        }
        self.under_way: dict[asyncio.Task[list[Tensor]], Step] = {}

    async def finish(self) -> dict[str, Tensor]:
        """Run all steps; what is left are the outputs."""
        try:
            self._start()
            while self.under_way:
                done, _ = await asyncio.wait(self.under_way, return_when=asyncio.FIRST_COMPLETED)
                self._collect(done)
                del done
                self._start()
        finally:
            await self._cancel()
        return self.values

    def _start(self) -> None:
        """Begin all steps whose inputs are there."""
        ready = [step for step in self.waiting if step.reads <= self.values.keys()]
        self.waiting = [step for step in self.waiting if step not in ready]
        for step in ready:
            inputs = [
                Tensor(name, self.values[value].datatype, self.values[value].data)
                for name, value in step.config.inputs.items()
            ]
            outputs = [name for name, value in step.config.outputs.items() if self.readers[value]]
            task = asyncio.ensure_future(self.runner._step(step, self.request, inputs, outputs))
            self.under_way[task] = step

    def _collect(self, done: set[asyncio.Task[list[Tensor]]]) -> None:
        """Keep what finished steps made and is still read; of several errors, that of the first
        step is raised.
        """
        for task in sorted(done, key=lambda task: self.under_way[task].number):
            step = self.under_way[task]
            if task.cancelled():
                place = f"pipeline '{self.runner.name}': {step.label}"
                raise UnavailableError("it was cancelled", where=place)
            tensors = task.result()
            del self.under_way[task]
            for tensor in tensors:
                self.values[step.config.outputs[tensor.name]] = tensor
            for value in step.reads:
                self.readers[value] -= 1
                if not self.readers[value]:
                    del self.values[value]

    async def _cancel(self) -> None:
        """Cancel what is still under way and wait until it has ended."""
        for task in self.under_way:
            task.cancel()
        if self.under_way:
            await asyncio.gather(*self.under_way, return_exceptions=True)
        self.under_way.clear()


def _request_of(
    step: Step, request: InferRequest, inputs: list[Tensor], outputs: list[str]
) -> InferRequest:
    """The request to a step's model: with the deadline, priority, stickiness and trace of the
    pipeline's.
    """
    return InferRequest(
        model=step.config.model,
        version=step.config.version,
        id=request.id,
        inputs=inputs,
        outputs=[RequestedOutput(name) for name in outputs],
        parameters=request.parameters,
        priority=request.priority,
        deadline=request.deadline,
        sticky=request.sticky,
        trace=request.trace,
        protocol="pipeline",
    )


def _selected(results: Sequence[Tensor], outputs: Sequence[str]) -> list[Tensor]:
    tensors = {tensor.name: tensor for tensor in results}
    missing = [name for name in outputs if name not in tensors]
    if missing:
        raise ModelFailureError(
            f"it gave no output '{missing[0]}'", hint=nearest(missing[0], tensors)
        )
    return [tensors[name] for name in outputs]


def _agrees(port: Port, tensor: Tensor) -> bool:
    shape = port.shape
    return tensor.datatype in port.datatypes and (shape is None or shape_fits(shape, tensor.shape))


def _located(error: InfuseError, place: str) -> InfuseError:
    """The same error with its place in front. A copy: a batch's error belongs to many requests."""
    copied = copy.copy(error)
    copied.__dict__.update(error.__dict__)
    copied.within(place)
    return copied
