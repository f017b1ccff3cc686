"""The graph of a pipeline, checked when it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infuse.errors import ConfigurationError
from infuse.serving.control.model_config import Pipeline, PipelineStep
from infuse.serving.engine.pipelines.builtins import create
from infuse.serving.engine.pipelines.ports import Port, declared, described, nearest
from infuse.serving.engine.pipelines.steps import Builtin, Options
from infuse.serving.messages import ModelMetadata

# Models by name, in the form of the protocol.
Metadata = Mapping[str, ModelMetadata]


@dataclass(frozen=True)
class Step:
    """A step that has been checked. `number` is its place in the listing, from 1."""

    number: int
    config: PipelineStep
    builtin: Builtin[Options] | None

    @property
    def label(self) -> str:
        return f"step {self.number} ({self.config.builtin or self.config.model})"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.config.inputs.values())


@dataclass(frozen=True)
class Plan:
    """A checked pipeline: its ports, its steps, and which step (none: an input) makes which
    value.
    """

    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    steps: Sequence[Step]
    makers: Mapping[str, Step | None]

    def needed(self, outputs: Iterable[str]) -> list[Step]:
        """The steps without which these values would not be there, in the order of the listing."""
        numbers: set[int] = set()
        pending = list(outputs)
        while pending:
            maker = self.makers[pending.pop()]
            if maker is not None and maker.number not in numbers:
                numbers.add(maker.number)
                pending.extend(maker.reads)
        return [step for step in self.steps if step.number in numbers]


def check(name: str, pipeline: Pipeline, models: Metadata | None, folders: Sequence[Path]) -> Plan:
    """The plan of a pipeline; ConfigurationError names the step and what is wrong with it.

    Without `models`, whether they exist and what they take is left to the calls. `folders` are
    where the files of built-in steps (tokenizers, labels) are looked for.
    """
    where = f"pipeline '{name}'"
    inputs = declared(pipeline.inputs, "input", where)
    outputs = declared(pipeline.outputs, "output", where)
    if not outputs:
        raise ConfigurationError("it has no outputs", where=where)
    steps = [
        _step(number, config, where, folders) for number, config in enumerate(pipeline.steps, 1)
    ]
    ports = {step.number: _ports(step, models, where) for step in steps}
    made: dict[str, Port] = dict(inputs)
    makers: dict[str, Step | None] = dict.fromkeys(inputs)
    for step in steps:
        _collect(step, ports[step.number], made, makers, where)
    plan = Plan(inputs, outputs, steps, makers)
    for step in steps:
        _check_inputs(step, ports[step.number], made, where)
    _check_outputs(plan, made, where)
    _check_order(steps, makers, where)
    _check_use(plan, where)
    return plan


def check_nesting(pipelines: Mapping[str, Pipeline], start: str = "") -> None:
    """ConfigurationError when a pipeline (or one that `start` runs) would run itself; the message
    is by which way.
    """
    done: set[str] = set()
    for name in [start] if start else sorted(pipelines):
        _walk(name, pipelines, [], done)


def _walk(name: str, pipelines: Mapping[str, Pipeline], path: list[str], done: set[str]) -> None:
    if name in path:
        way = " → ".join([*path[path.index(name) :], name])
        raise ConfigurationError(f"it runs itself: {way}", where=f"pipeline '{name}'")
    if name in done or name not in pipelines:
        return
    path.append(name)
    for model in sorted({step.model for step in pipelines[name].steps if step.model}):
        _walk(model, pipelines, path, done)
    path.pop()
    done.add(name)


def _step(number: int, config: PipelineStep, where: str, folders: Sequence[Path]) -> Step:
    place = f"{where}: step {number}"
    if bool(config.model) == bool(config.builtin):
        raise ConfigurationError("it needs either a model or a built-in", where=place)
    if not config.outputs:
        raise ConfigurationError(
            "it names no outputs, so nothing could read what it makes", where=place
        )
    if config.model:
        if config.options:
            raise ConfigurationError(
                "options are those of built-ins; a model has none", where=place
            )
        return Step(number, config, None)
    if config.version:
        raise ConfigurationError(f"built-in '{config.builtin}' has no versions", where=place)
    return Step(
        number,
        config,
        create(config.builtin, config.options, folders, f"{place} ({config.builtin})"),
    )


def _ports(
    step: Step, models: Metadata | None, where: str
) -> tuple[Mapping[str, Port], Mapping[str, Port]] | None:
    """What the step takes and makes; None when that is not known here."""
    if step.builtin is not None:
        return {p.name: p for p in step.builtin.inputs}, {p.name: p for p in step.builtin.outputs}
    if models is None:
        return None
    model = models.get(step.config.model)
    if model is None:
        raise ConfigurationError(
            f"there is no model '{step.config.model}'",
            where=f"{where}: {step.label}",
            hint=nearest(step.config.model, models),
        )
    return described(model["inputs"]), described(model["outputs"])


def _collect(
    step: Step,
    ports: tuple[Mapping[str, Port], Mapping[str, Port]] | None,
    made: dict[str, Port],
    makers: dict[str, Step | None],
    where: str,
) -> None:
    """Add what a step makes to all values."""
    place = f"{where}: {step.label}"
    for output, value in step.config.outputs.items():
        if ports is not None and output not in ports[1]:
            raise ConfigurationError(
                f"it has no output '{output}'", where=place, hint=nearest(output, ports[1])
            )
        if value in makers:
            other = makers[value]
            first = other.label if other else "the pipeline's inputs"
            raise ConfigurationError(
                f"it makes the value '{value}', which is there already from {first}", where=place
            )
        made[value] = Port(value) if ports is None else ports[1][output]
        makers[value] = step


def _check_inputs(
    step: Step,
    ports: tuple[Mapping[str, Port], Mapping[str, Port]] | None,
    made: Mapping[str, Port],
    where: str,
) -> None:
    place = f"{where}: {step.label}"
    for name, value in step.config.inputs.items():
        if value not in made:
            raise ConfigurationError(
                f"input '{name}' reads the value '{value}', which nothing makes",
                where=place,
                hint=nearest(value, made),
            )
        if ports is None:
            continue
        if name not in ports[0]:
            raise ConfigurationError(
                f"it has no input '{name}'", where=place, hint=nearest(name, ports[0])
            )
        if not ports[0][name].fits(made[value]):
            raise ConfigurationError(
                f"input '{name}' takes {ports[0][name]}, and the value '{value}' is {made[value]}",
                where=place,
            )
    missing = [] if ports is None else [p.name for p in ports[0].values() if not p.optional]
    for name in missing:
        if name not in step.config.inputs:
            raise ConfigurationError(f"nothing is given to its input '{name}'", where=place)


def _check_outputs(plan: Plan, made: Mapping[str, Port], where: str) -> None:
    for name, port in plan.outputs.items():
        if name not in made:
            raise ConfigurationError(
                f"nothing makes the output '{name}'", where=where, hint=nearest(name, made)
            )
        if not port.fits(made[name]):
            raise ConfigurationError(
                f"output '{name}' is declared as {port}, and it is {made[name]}", where=where
            )


def _check_order(steps: Sequence[Step], makers: Mapping[str, Step | None], where: str) -> None:
    """Whether every step can run at some time: none waits, by whatever way, for itself."""
    done: set[int] = set()
    while len(done) < len(steps):
        ready = [
            step
            for step in steps
            if step.number not in done
            and all(
                maker is None or maker.number in done
                for maker in map(makers.__getitem__, step.reads)
            )
        ]
        if not ready:
            raise ConfigurationError(
                f"steps wait for each other: {_cycle(steps, makers, done)}", where=where
            )
        done.update(step.number for step in ready)


def _cycle(steps: Sequence[Step], makers: Mapping[str, Step | None], done: set[int]) -> str:
    """One circle among the steps that are not done, as text."""
    path: list[Step] = [next(step for step in steps if step.number not in done)]
    while True:
        before = (makers[value] for value in sorted(path[-1].reads))
        step = next(maker for maker in before if maker is not None and maker.number not in done)
        if step in path:
            circle = [step, *reversed(path[path.index(step) :])]
            return " → ".join(part.label for part in circle)
        path.append(step)


def _check_use(plan: Plan, where: str) -> None:
    """Whether everything is there for something."""
    needed = plan.needed(plan.outputs)
    for step in plan.steps:
        if step not in needed:
            raise ConfigurationError(
                "no output of the pipeline needs it", where=f"{where}: {step.label}"
            )
    read = {value for step in plan.steps for value in step.reads} | set(plan.outputs)
    for name in plan.inputs:
        if name not in read:
            raise ConfigurationError(f"no step reads the input '{name}'", where=where)
