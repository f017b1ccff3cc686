"""`infuse bench`: how fast a model runs, alone or beside other runtimes, for one batch or many."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from infuse.cli import terminal
from infuse.cli.flags import Only, Without, with_flags
from infuse.cli.models import open_model
from infuse.cli.options import AsJson, ModelOrFolder
from infuse.errors import RuntimeFailure
from infuse.options import CompileOptions, Examples, Rules, Turns
from infuse.options.data import BenchOptions
from infuse.peers import Contest, Opened as OpenedPeer, chosen_peers, onnx_file
from infuse.profiling.interface_inputs import swept_sizes
from infuse.profiling.turns import SPREAD

_COLUMNS = f"|#batch|{'|'.join(f'#{name} ms' for name in SPREAD)}|#examples/s|#runs|#Infuse is"
_ONLY_WIDE = ("#p90 ms", "#p95 ms", "#max ms", "#runs")
"""What is left out on terminals that are narrower than _WIDE."""
_WIDE = 120


@with_flags
def bench(
    model: ModelOrFolder,
    options: Annotated[CompileOptions, Without("prefix", "embed", "single", "profile", "size")],
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
        sweep = swept_sizes(compiled.inputs, data.sizes, own.sizes)
        contest = Contest(compiled, exact, others, turns)
        with terminal.progress(model.name) as progress:
            cases = [contest.case(opened.feeds({}, sizes, data.seed), progress) for sizes in sweep]
        facts = {
            "threads": compiled.threads,
            "precision": compiled.metadata.get("precision", options.precision),
            "cases": cases,
            "arena_bytes": compiled.arena_bytes,
            "arena_lower_bound": compiled.arena_lower_bound,
            "weights_bytes": compiled.weights_bytes,
        }
    terminal.answer(facts, as_json, lambda: _print(facts))


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


def _print(facts: dict[str, Any]) -> None:
    rows = []
    for case in facts["cases"]:
        described = terminal.fields_text(case["inputs"])
        terminal.say(f"{described}; {terminal.counted(facts['threads'], 'thread')}")
        for name, taken in case["times"].items():
            speed = f"{case['speed'][name]:.2f} × as fast" if name in case["speed"] else ""
            figures = (f"{taken[f'{each}_ms']:.3f}" for each in SPREAD)
            rate = f"{taken['throughput']:.1f}"
            rows.append((name, case["batch"], *figures, rate, taken["runs"], speed))
    left_out = () if terminal.console().width >= _WIDE else _ONLY_WIDE
    terminal.say_table("", *terminal.fitted(_COLUMNS, left_out, rows))
    for case in facts["cases"]:
        differences = {f"from {name}": each for name, each in case["difference"].items()}
        if case["difference_from_fp32"] is not None:
            differences[f"of {facts['precision']} from fp32"] = case["difference_from_fp32"]
        for which, difference in differences.items():
            terminal.say(
                f"largest difference {which}: {difference:.1e} of the output's largest element"
            )
    keys = ("arena_bytes", "arena_lower_bound", "weights_bytes")
    arena, bound, weights = (terminal.bytes_text(facts[key]) for key in keys)
    terminal.say(f"working memory {arena} (lower bound {bound}), weights {weights}")
