"""`infuse bench`: how fast a model runs, alone or beside other runtimes, for one batch or many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from infuse.cli import inputs, terminal
from infuse.cli.flags import Only, Without, with_flags
from infuse.cli.models import Opened, open_model
from infuse.cli.options import AsJson, ModelOrFolder
from infuse.cli.outputs import type_text
from infuse.errors import OptionError, RuntimeFailure
from infuse.ir.graph import Array
from infuse.ops.core.feeds import index_limits
from infuse.options import CompileOptions, Examples, Rules, Turns
from infuse.options.data import BenchOptions
from infuse.passes.verification import relative_difference
from infuse.peers import Opened as OpenedPeer, chosen_peers, onnx_file
from infuse.profiling.turns import PERCENTILES, alternate, distribution
from infuse.runtime import Model
from infuse.runtime.shapes import TensorSpec

OURS = "infuse"
Arrays = dict[str, Array]
_COLUMNS = (
    "",
    "#batch",
    "#min ms",
    *(f"#p{percent} ms" for percent in PERCENTILES),
    "#max ms",
    "#examples/s",
    "#runs",
    "#Infuse is",
)
_NARROW = ("", "#batch", "#min ms", "#p50 ms", "#p99 ms", "#examples/s", "#Infuse is")
"""What is printed on terminals that are narrower than _WIDE."""
_WIDE = 120


@with_flags
def bench(
    model: ModelOrFolder,
    options: Annotated[CompileOptions, Without("prefix")],
    rules: Annotated[Rules, Without("runtime")],
    data: Annotated[Examples, Only("dims", "seed")],
    turns: Turns,
    own: BenchOptions,
    as_json: AsJson = False,
) -> None:
    """Measure a model's latency and throughput on random inputs.

    Other runtimes take turns with Infuse in one process (A B A B), and answers are compared. In
    another precision than fp32, the answer is compared with that of fp32.
    """
    peers = chosen_peers(own.against)
    opened = open_model(model, options, rules)
    with ExitStack() as stack:
        compiled = stack.enter_context(opened.model)
        others = []
        if peers:
            file = stack.enter_context(onnx_file(model, opened.graph))
            others = _opened(peers, set(own.against), file, compiled.threads)
        exact = None
        if options.precision != "fp32":
            exactly = replace(options, precision="fp32", tune=False)
            again = open_model(model, exactly, replace(rules, search=0.0))
            exact = stack.enter_context(again.model)
        sweep = _sweep(compiled.inputs, data.sizes, own.sizes)
        contest = _Contest(compiled, exact, others, turns)
        cases = [contest.case(_feeds(opened, sizes, data.seed), model.name) for sizes in sweep]
        facts = {
            "threads": compiled.threads,
            "precision": compiled.metadata.get("precision", options.precision),
            "cases": cases,
            "arena_bytes": compiled.arena_bytes,
            "arena_lower_bound": compiled.arena_lower_bound,
            "weights_bytes": compiled.weights_bytes,
        }
    if as_json:
        terminal.say_json(facts)
    else:
        _print(facts)


@dataclass(frozen=True)
class _Contest:
    """A model beside that of precision fp32, if there is one, and in other runtimes."""

    ours: Model
    exact: Model | None
    others: Sequence[OpenedPeer]
    turns: Turns

    def case(self, feeds: Arrays, title: str) -> dict[str, Any]:
        """Differences and times on these inputs."""
        differences = self._differences(feeds)
        runs: dict[str, Callable[[], Any]] = {OURS: partial(self.ours.run, feeds)}
        runs |= {peer.name: partial(peer.run, feeds) for peer in self.others}
        turns = self.turns
        with terminal.progress(title) as progress:
            times = alternate(
                runs,
                turns.rounds,
                turns.seconds,
                lambda done: progress("measure", done, turns.rounds),
            )
        return {**differences, **_figures(times, _rows(self.ours.inputs, feeds))}

    def _differences(self, feeds: Arrays) -> dict[str, Any]:
        """The largest of each answer, relative to the largest element of each output."""
        answer = self.ours.run(feeds)
        exact = None if self.exact is None else _worst(answer, self.exact.run(feeds))
        return {
            "inputs": {name: type_text(array) for name, array in feeds.items()},
            "difference": {peer.name: _worst(answer, peer.answer(feeds)) for peer in self.others},
            "difference_from_fp32": exact,
        }


def _opened(names: Sequence[str], named: set[str], file: Path, threads: int) -> list[OpenedPeer]:
    """The peers; one that was not named itself, and cannot open the model, is left out with a
    remark.
    """
    opened = []
    for name in names:
        try:
            opened.append(OpenedPeer(name, file, threads))
        except RuntimeFailure as error:
            if name in named:
                raise
            terminal.note(f"left out: {error}")
    return opened


def _sweep(
    specs: Sequence[TensorSpec], sizes: Mapping[str, int], batches: Sequence[int]
) -> list[dict[str, int]]:
    """The sizes of dynamic axes for each batch. OptionError where no first axis is dynamic, or
    `--dim` sets it too.
    """
    if not batches:
        return [dict(sizes)]
    axes = dict.fromkeys(spec.shape[0] for spec in specs if spec.shape)
    dynamic = [axis for axis in axes if isinstance(axis, str) and axis.isidentifier()]
    if not dynamic:
        raise OptionError(
            "--batch needs a dynamic first axis, and the model's inputs have none",
            hint="export the model with a dynamic batch axis",
        )
    twice = [axis for axis in dynamic if axis in sizes]
    if twice:
        raise OptionError(f"--batch and --dim both set {twice[0]!r}", hint="leave one out")
    return [{**sizes, **dict.fromkeys(dynamic, size)} for size in batches]


def _feeds(opened: Opened, sizes: Mapping[str, int], seed: int) -> Arrays:
    specs = opened.model.inputs
    limits = {} if opened.graph is None else index_limits(opened.graph)
    return inputs.random_inputs(specs, inputs.sizes(specs, sizes), seed, limits)


def _rows(specs: Sequence[TensorSpec], feeds: Arrays) -> int:
    """Examples in a call: the size of the first axis that inputs share, 1 where it is fixed at
    different sizes.
    """
    firsts = {feeds[spec.name].shape[0] for spec in specs if spec.name in feeds and spec.shape}
    return int(firsts.pop()) if len(firsts) == 1 else 1


def _worst(ours: Arrays, theirs: Arrays) -> float:
    return max(
        (relative_difference(ours[name], array) for name, array in theirs.items()), default=0.0
    )


def _figures(times: Mapping[str, Sequence[float]], rows: int) -> dict[str, Any]:
    """Times by runtime, with examples for each second, and how many times as fast Infuse is."""
    told = {name: distribution(taken) for name, taken in times.items()}
    for figures in told.values():
        figures["throughput"] = rows / figures["median_ms"] * 1e3
    least = told[OURS]["min_ms"]
    speed = {name: figures["min_ms"] / least for name, figures in told.items() if name != OURS}
    return {"batch": rows, "times": told, "speed": speed}


def _print(facts: dict[str, Any]) -> None:
    count = facts["threads"]
    rows = []
    for case in facts["cases"]:
        described = ", ".join(f"{name}: {kind}" for name, kind in case["inputs"].items())
        terminal.say(f"{described}; {count} thread{'' if count == 1 else 's'}")
        for name, taken in case["times"].items():
            spread = [f"{taken[f'p{percent}_ms']:.3f}" for percent in PERCENTILES]
            speed = f"{case['speed'][name]:.2f} × as fast" if name in case["speed"] else ""
            figures = (f"{taken['min_ms']:.3f}", *spread, f"{taken['max_ms']:.3f}")
            rate = f"{taken['throughput']:.1f}"
            rows.append((name, case["batch"], *figures, rate, taken["runs"], speed))
    terminal.say_table("", *terminal.fitted(_COLUMNS, _NARROW, _WIDE, rows))
    for case in facts["cases"]:
        for name, difference in case["difference"].items():
            terminal.say(
                f"largest difference from {name}: {difference:.1e} of the output's largest element"
            )
        if case["difference_from_fp32"] is not None:
            terminal.say(
                f"largest difference of {facts['precision']} from fp32: "
                f"{case['difference_from_fp32']:.1e} of the output's largest element"
            )
    keys = ("arena_bytes", "arena_lower_bound", "weights_bytes")
    arena, bound, weights = (terminal.bytes_text(facts[key]) for key in keys)
    terminal.say(f"working memory {arena} (lower bound {bound}), weights {weights}")
