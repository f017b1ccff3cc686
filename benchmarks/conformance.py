"""The backend tests of the installed ONNX, each with its own tolerance, in Infuse and in other
engines.

`python -m benchmarks.conformance --level none,basic,all --against onnxruntime,openvino,reference
--json FILE`

A test passes (right), is wrong (other results), failed (an error while running), refused (an error
while opening), or crashed (the process ended, or the time was over). Infuse is asked through
`infuse.InferenceSession` and compiles for one thread; what it compiles is thrown away in the end.
Exit status 1 where a test does not pass that is not in `EXPECTED`.
"""

import argparse
import fnmatch
import os
import queue
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import machine
from benchmarks.conformance_cases import KINDS, load_cases
from benchmarks.conformance_engines import LEVELS, PEERS, is_installed
from benchmarks.conformance_worker import OUTCOMES, PASSED, Answer, Worker
from infuse.runtime.cpus import available_cpus

Answers = dict[str, dict[str, Answer]]
"""By engine and test."""
_ROUNDED = (
    "its tolerance is below two units of float16, to which every intermediate result is rounded"
)
EXPECTED: Mapping[str, str] = {
    "node/test_bernoulli*": "it expects the numbers that one draw of NumPy's random generator gave",
    "simple/test_gradient_of_add*": "Gradient differentiates the graph that it stands in",
    "node/test_attention_4d_causal_fp16_expanded": _ROUNDED,
    "node/test_attention_4d_gqa_with_past_and_present_fp16_expanded": _ROUNDED,
}
"""Tests (globs) that need not pass, and why."""


def measure(
    engines: Sequence[str],
    names: Sequence[str],
    options: argparse.Namespace,
    advance: Callable[[], None],
) -> Answers:
    """Run the tests in one engine after the other, several at a time."""
    found: Answers = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["INFUSE_CACHE"] = str(Path(options.cache or folder).absolute())
        for engine in engines:
            found[engine] = _run(engine, names, options, advance)
    return found


def _run(
    engine: str, names: Sequence[str], options: argparse.Namespace, advance: Callable[[], None]
) -> dict[str, Answer]:
    pending: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        pending.put(name)
    answers: dict[str, Answer] = {}
    cases = load_cases()

    def work() -> None:
        worker = Worker(engine, options.limit)
        try:
            while True:
                name = pending.get_nowait()
                answers[name] = worker.ask(cases[name])
                advance()
        except queue.Empty:
            worker.close()

    threads = [
        threading.Thread(target=work, daemon=True) for _ in range(min(options.jobs, len(names)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: answers[name] for name in names}


def expected(name: str) -> str | None:
    """Why a test need not pass; None where it has to."""
    return next((why for glob, why in EXPECTED.items() if fnmatch.fnmatch(name, glob)), None)


def missed(answers: Mapping[str, Answer]) -> dict[str, Answer]:
    """What does not pass."""
    return {name: answer for name, answer in answers.items() if answer.outcome != PASSED}


def summarize(found: Answers) -> dict[str, object]:
    """Counts by engine; whether every level of ours passes the same tests."""
    ours = [engine for engine in found if engine.startswith("infuse")]
    passing = [
        {name for name, a in found[engine].items() if a.outcome == PASSED} for engine in ours
    ]
    return {
        "tests": len(next(iter(found.values()), {})),
        "engines": {engine: _counts(answers) for engine, answers in found.items()},
        "host": {engine: dict(_hosted(found[engine]).most_common()) for engine in ours},
        "levels differ": sorted(set().union(*passing) - set.intersection(*passing))
        if passing
        else [],
        "unexpected": {
            engine: [name for name in missed(found[engine]) if not expected(name)]
            for engine in ours
        },
    }


def _counts(answers: Mapping[str, Answer]) -> dict[str, int]:
    counts = Counter(answer.outcome for answer in answers.values())
    return {outcome: counts[outcome] for outcome in OUTCOMES} | {
        "native": sum(a.outcome == PASSED and not a.host for a in answers.values())
    }


def _hosted(answers: Mapping[str, Answer]) -> Counter[str]:
    """Tests in which an operator ran as a host step, by operator."""
    return Counter(kind for answer in answers.values() for kind in set(answer.host))


def reason_class(reason: str) -> str:
    """What reasons of one kind have in common: names, numbers and shapes are left out."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\[[^\]]*\]|[-+]?\d[\w.+%]*", "…", reason)[:100]


# -- what is shown ---------------------------------------------------------------------------------


def report(found: Answers, listed: Sequence[str], console: Console) -> None:
    """Print the tables, the tests that do not pass, and what ran on the host."""
    summary = summarize(found)
    console.print(_engines_table(found))
    for engine in listed:
        if missed(found[engine]):
            console.print(_reasons_table(engine, found[engine]))
    for engine in listed:
        for name, answer in missed(found[engine]).items():
            console.print(
                f"{engine}: {name}: {answer.outcome}: ", end="", markup=False, highlight=False
            )
            console.print(expected(name) or answer.reason, markup=False, highlight=False)
    for engine, answers in found.items():
        if kinds := _hosted(answers):
            tests = sum(bool(a.host) for a in answers.values())
            shown = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
            console.print(f"{engine}: {tests} tests with host steps: {shown}", highlight=False)
    if summary["levels differ"]:
        console.print(
            f"[red]pass at some levels only:[/] {summary['levels differ']}", highlight=False
        )


def _engines_table(found: Answers) -> Table:
    made = Table(title="ONNX backend tests", title_justify="left")
    for name in ("engine", *OUTCOMES, "share", "native", *KINDS, "seconds"):
        made.add_column(name, justify="left" if name == "engine" else "right")
    for engine, answers in found.items():
        counts, total = _counts(answers), len(answers)
        native = f"{counts['native'] / total:.1%}" if engine.startswith("infuse") else "–"
        kinds = [_of_kind(answers, kind) for kind in KINDS]
        seconds = sum(answer.seconds for answer in answers.values())
        share = f"{counts[PASSED] / total:.1%}"
        made.add_row(
            engine, *(str(counts[o]) for o in OUTCOMES), share, native, *kinds, f"{seconds:.0f}"
        )
    return made


def _of_kind(answers: Mapping[str, Answer], kind: str) -> str:
    outcomes = [answer.outcome for name, answer in answers.items() if name.startswith(f"{kind}/")]
    return f"{outcomes.count(PASSED)} / {len(outcomes)}"


def _reasons_table(engine: str, answers: Mapping[str, Answer]) -> Table:
    made = Table(
        "tests", "outcome", "reason", title=f"What does not pass in {engine}", title_justify="left"
    )
    groups = Counter((a.outcome, reason_class(a.reason)) for a in missed(answers).values())
    for (outcome, reason), count in groups.most_common():
        made.add_row(str(count), outcome, reason)
    return made


def save(path: Path, found: Answers, options: argparse.Namespace) -> None:
    """Write the counts as JSON, and the answers but those of tests that passed without host
    steps.
    """
    answers = {
        engine: {name: _brief(a) for name, a in by_name.items() if a.outcome != PASSED or a.host}
        for engine, by_name in found.items()
    }
    machine.save(path, {"limit": options.limit, "summary": summarize(found), "answers": answers})


def _brief(answer: Answer) -> dict[str, object]:
    return {key: value for key, value in asdict(answer).items() if value not in ("", [])} | {
        "seconds": round(answer.seconds, 3)
    }


# -- options ---------------------------------------------------------------------------------------


def among(known: Sequence[str], what: str) -> Callable[[str], list[str]]:
    """A parser of a list of known names."""

    def parse(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(
                f"no such {what}: {', '.join(unknown)} (there are {', '.join(known)})"
            )
        return names

    return parse


def parse(arguments: list[str] | None) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Options, engines, and the names of the tests."""
    parser = argparse.ArgumentParser(
        description="Run the backend tests of ONNX in Infuse and in other engines."
    )
    levels, peers = among(LEVELS, "level"), among(list(PEERS), "engine")
    parser.add_argument(
        "--level", type=levels, default=["all"], metavar="LEVEL[,…]", help="default: all"
    )
    parser.add_argument(
        "--against", type=peers, default=[], metavar="ENGINE[,…]", help=", ".join(PEERS)
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=["*"],
        metavar="GLOB[,…]",
        help="names such as test_abs*",
    )
    parser.add_argument(
        "--sample", type=int, metavar="N", help="about so many tests, evenly chosen"
    )
    parser.add_argument(
        "--jobs", type=int, default=available_cpus(), metavar="N", help="tests at a time"
    )
    parser.add_argument(
        "--limit", type=float, default=120, metavar="SECONDS", help="for each test (default: 120)"
    )
    parser.add_argument(
        "--cache",
        metavar="FOLDER",
        help="keep there what is compiled (default: a temporary folder)",
    )
    parser.add_argument(
        "--list", action="store_true", help="also list what does not pass in the other engines"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write counts and what does not pass there"
    )
    options = parser.parse_args(arguments)
    if absent := [name for name in options.against if not is_installed(name)]:
        parser.error(f"not installed: {', '.join(absent)} (pip install '.[peers]')")
    names = [
        name
        for name in load_cases()
        if any(fnmatch.fnmatch(name, f"*/{glob}") for glob in options.only)
    ]
    if options.sample:
        names = names[:: max(1, len(names) // options.sample)]
    if not names:
        parser.error(f"no test is called {','.join(options.only)}")
    return options, [f"infuse {level}" for level in options.level] + options.against, names


def main(arguments: list[str] | None = None) -> int:
    """Run, print, save."""
    options, engines, names = parse(arguments)
    console = Console(width=None if sys.stdout.isatty() else 190)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("tests", total=len(engines) * len(names))
        found = measure(engines, names, options, lambda: progress.advance(task))
    report(
        found, engines if options.list else [e for e in engines if e.startswith("infuse")], console
    )
    if options.json:
        save(options.json, found, options)
    unexpected = summarize(found)["unexpected"]
    assert isinstance(unexpected, dict)
    return 1 if any(unexpected.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
